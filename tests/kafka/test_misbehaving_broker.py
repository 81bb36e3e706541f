"""A faulty or malicious broker: valid protocol, invalid contents."""

import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from kafka.protocol.admin import CreateTopicsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from lab import batches
from lab.batches import Record
from tests.kafka.fake_broker import CREATE, FETCH, METADATA, OFFSETS, PRODUCE, VERSIONS, Broker, Responder
from twinlog.config import load
from twinlog.errors import KafkaError, ProtocolError, UnreachableError
from twinlog.kafka import response_decoder
from twinlog.kafka.blocking_connection import BlockingConnection
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.topic_reader import TopicReader, batch_end, records_from
from twinlog.model import TopicPartition

PLACE = TopicPartition("t", 0)


@pytest.fixture
def send(tmp_path: Path) -> Iterator[Callable[..., tuple[Broker, Client]]]:
    made: list[Any] = []

    def send(says: dict[int, Responder] | None = None) -> tuple[Broker, Client]:
        broker = Broker(says or {})
        file = tmp_path / f"{len(made)}.properties"
        file.write_text(
            f"clusters = us, eu\nus.bootstrap.servers = 127.0.0.1:{broker.port}\neu.bootstrap.servers = e:1\n"
            "us->eu.enabled = true\n"
        )
        flow = next(each for each in load([str(file)]).flows if each.replicates)
        assert flow.source is not None
        client = Client("us", flow.source.clients["source.consumer"])
        made.extend((client, broker))
        return broker, client

    yield send
    for each in made:
        each.close()


Send = Callable[..., tuple[Broker, Client]]


def _offsets(*offsets: int, name: str = "t") -> Responder:
    """The offsets in turn, repeatedly."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    turn = itertools.cycle(offsets)

    def respond(version: int) -> Any:
        part = kind.ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, offset=next(turn), leader_epoch=0
        )
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=[kind(name=name, partitions=[part])])

    return respond


def _fetched(records: bytes | None, *, name: str = "t", index: int = 0, parts: int = 1) -> Responder:
    kind = FetchResponse.FetchableTopicResponse

    def respond(version: int) -> Any:
        part = kind.PartitionData(
            partition_index=index, error_code=0, high_watermark=9, last_stable_offset=9, log_start_offset=0,
            aborted_transactions=None, preferred_read_replica=-1, records=records,
        )  # fmt: skip
        topic = kind(topic=name, partitions=[part] * parts)
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])

    return respond


def _log(base: int, count: int = 5) -> bytes:
    made = batches.encode([Record(0, b"%d" % (base + each), b"v") for each in range(count)])
    return base.to_bytes(8) + made[8:]


def test_valid_responses(send: Send) -> None:
    _, client = send({OFFSETS: _offsets(5, 0, 5), FETCH: _fetched(_log(0))})
    assert client.metadata(["t"]).leader(PLACE) == 1
    assert client.list_offsets([PLACE], LATEST) == ({PLACE: 5}, {})
    assert [record.offset for record in TopicReader(client, "t").read()] == [0, 1, 2, 3, 4]


def test_correlation_id_mismatch(send: Send) -> None:
    broker, client = send()
    broker.correlation = 4711
    with pytest.raises(ProtocolError, match="correlation id mismatch"):
        client.metadata(["t"])
    broker.correlation = None
    assert client.metadata(["t"]).topics  # on another connection: the first is not used any more
    assert len(broker.connections) == 2


def test_topics_that_were_not_requested_are_ignored(send: Send) -> None:
    broker, client = send()
    kind = MetadataResponse.MetadataResponseTopic
    part = kind.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=0,
        replica_nodes=[],
        isr_nodes=[],
        offline_replicas=[],
    )
    names = ["t", None, *(f"t{each}" for each in range(100))]
    broker.responders[METADATA] = broker.metadata(
        topics=[kind(error_code=0, name=name, topic_id=None, is_internal=False, partitions=[part]) for name in names]
    )
    assert list(client.metadata(["t"]).topics) == ["t"]
    assert list(client._leaders) == [PLACE]
    assert len(client.metadata(None).topics) == 101


def test_brokers_with_invalid_addresses_are_ignored(send: Send) -> None:
    broker, client = send()
    kind = MetadataResponse.MetadataResponseBroker
    odd = [("", 9092), ("h", 0), ("h", 70_000), ("h", -5), ("a\0b", 9092), ("x" * 300, 9092), ("a\nb", 1)]
    brokers = [kind(node_id=node, host=host, port=port, rack=None) for node, (host, port) in enumerate(odd, 10)]
    brokers.append(kind(node_id=1, host="127.0.0.1", port=broker.port, rack=None))
    broker.responders[METADATA] = broker.metadata(brokers=brokers)
    assert client.metadata(["t"]).brokers == {1: ("127.0.0.1", broker.port)}


def test_only_some_of_thousands_of_dead_brokers_are_tried(send: Send) -> None:
    broker, client = send()
    kind = MetadataResponse.MetadataResponseBroker
    visitors = itertools.count()
    seen = 0
    with socket.create_server(("0.0.0.0", 0)) as listener:

        def turn_away() -> None:
            nonlocal seen
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()
                    seen = next(visitors) + 1

        threading.Thread(target=turn_away, daemon=True).start()
        port = listener.getsockname()[1]
        tps = [(f"127.{1 + each // 60_000}.{each // 250 % 240}.{1 + each % 250}", port) for each in range(5000)]
        broker.responders[METADATA] = broker.metadata(
            brokers=[kind(node_id=10 + at, host=host, port=port, rack=None) for at, (host, port) in enumerate(tps)]
        )
        client.metadata([])
        client._drop(None)
        broker.close()
        with pytest.raises(UnreachableError):
            client.metadata([])
        assert 0 < seen <= 10
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "response", [_offsets(5, name="other"), _offsets(-1), _offsets((1 << 63) - 1), _offsets(-(1 << 63))]
)
def test_invalid_or_missing_offset_is_an_error_of_the_partition(send: Send, response: Responder) -> None:
    _, client = send({OFFSETS: response})
    client.metadata(["t"])
    found, failed = client.list_offsets(iter([PLACE]), LATEST)
    assert PLACE not in found
    assert failed == {PLACE: -1}


@pytest.mark.parametrize("response", [_fetched(b"", name="other"), _fetched(b"", index=7), _fetched(b"", parts=0)])
def test_response_for_another_partition(send: Send, response: Responder) -> None:
    _, client = send({FETCH: response})
    with pytest.raises(ProtocolError, match="lacks the requested item"):
        client.read(PLACE, 0)


def test_the_same_batch_again_and_again(send: Send) -> None:
    _, client = send({OFFSETS: _offsets(0, 1000), FETCH: _fetched(_log(0))})
    reader = TopicReader(client, "t")
    assert [record.offset for record in reader.read()] == [0, 1, 2, 3, 4]
    assert reader.next == {0: 1000}


@pytest.mark.parametrize(
    "response",
    [
        struct.pack(">ii", 0, 0),
        struct.pack(">i", 1) + b"\0\1x" + struct.pack(">iihqqqihi", 1, 0, 0, 5, -1, 0, 0, -1, 0),
        struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iihqqqihi", 1, 9, 0, 5, -1, 0, 0, -1, 0),
    ],
    ids=["about nothing", "about another topic", "about another partition"],
)
def test_produce_response_without_the_partition(send: Send, response: bytes) -> None:
    _, client = send({PRODUCE: lambda _: response})
    with pytest.raises(KafkaError, match="lacks the requested item"):
        client.append(PLACE, _log(0))


def test_create_topics_response_without_the_topic(send: Send) -> None:
    _, client = send({CREATE: lambda version: CreateTopicsResponse(version=version, throttle_time_ms=0, topics=[])})
    with pytest.raises(ProtocolError, match="lacks the requested item"):
        client.create_topic("t", 1, 1, {})


@pytest.mark.parametrize("versions", [[(-10, -5)], [(0, -1)], [(5, 3)]])
def test_unsupported_versions(send: Send, versions: list[tuple[int, int]]) -> None:
    kind = ApiVersionsResponse.ApiVersion

    def respond(version: int) -> Any:
        keys = [kind(api_key=METADATA, min_version=low, max_version=high) for low, high in versions]
        return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)

    _, client = send({VERSIONS: respond})
    with pytest.raises(KafkaError, match="does not support MetadataRequest"):
        client.metadata(["t"])


def test_too_large_response_is_rejected_before_it_is_received() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">i", response_decoder.MAX_RESPONSE_BYTES + 1))
        with pytest.raises(ProtocolError, match="Kafka listener"):
            BlockingConnection(ours, "me", 5.0)


def test_timeout_covers_a_response_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte arrives in time, but all of them would take too long."""
    ours, theirs = socket.socketpair()
    hours = itertools.count(step=3600)
    with ours, theirs:
        theirs.sendall(struct.pack(">iihi", 10, 1, 0, 0))
        monkeypatch.setattr("twinlog.kafka.blocking_connection.time.monotonic", lambda: next(hours))
        with pytest.raises(TimeoutError):
            BlockingConnection(ours, "me", 5.0)


class TestReading:
    def test_malformed_batches_are_skipped(self) -> None:
        lying = bytearray(_log(5))
        struct.pack_into(">i", lying, 57, 9)
        log = _log(0) + bytes(lying) + _log(10)
        assert [record.offset for record in records_from(log, 0)] == [*range(5), *range(10, 15)]
        assert batch_end(log) == 15

    @pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 1, 5, 30, 48])
    def test_less_than_a_header(self, length: int) -> None:
        odd = bytearray(_log(5))
        struct.pack_into(">i", odd, 8, length)
        assert [record.offset for record in records_from(_log(0) + bytes(odd), 0)] == [*range(5)]
        assert batch_end(_log(0) + bytes(odd)) == 5
        for size in range(len(odd)):
            assert not list(records_from(bytes(odd[:size]), 0))
            assert batch_end(bytes(odd[:size])) is None

    def test_the_end_is_after_the_start(self) -> None:
        assert batch_end(_log(0), 5) is None
        assert batch_end(_log(0), 4) == 5
        far = bytearray(_log(0))
        struct.pack_into(">q", far, 0, (1 << 63) - 1)
        struct.pack_into(">I", far, 17, crc32c(far[21:]))
        assert batch_end(bytes(far), 5) is None
