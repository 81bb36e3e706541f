"""A broker that is broken, or an attacker: it speaks the protocol, and says what no broker says."""

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
from tests.kafka.broken import CREATE, FETCH, METADATA, OFFSETS, PRODUCE, VERSIONS, Broker, Say

from twinlog.config import load
from twinlog.errors import KafkaError, ProtocolError, UnreachableError
from twinlog.kafka import answers
from twinlog.kafka.channel import Channel
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.reading import TopicReader, batch_end, records_from
from twinlog.lab import batches
from twinlog.lab.batches import Record
from twinlog.model import TopicPartition

PLACE = TopicPartition("t", 0)


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., tuple[Broker, Client]]]:
    made: list[Any] = []

    def ask(says: dict[int, Say] | None = None) -> tuple[Broker, Client]:
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

    yield ask
    for each in made:
        each.close()


Ask = Callable[..., tuple[Broker, Client]]


def _offsets(*offsets: int, name: str = "t") -> Say:
    """One after the other, and then from the first again."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    turn = itertools.cycle(offsets)

    def say(version: int) -> Any:
        part = kind.ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, offset=next(turn), leader_epoch=0
        )
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=[kind(name=name, partitions=[part])])

    return say


def _fetched(records: bytes | None, *, name: str = "t", index: int = 0, parts: int = 1) -> Say:
    kind = FetchResponse.FetchableTopicResponse

    def say(version: int) -> Any:
        part = kind.PartitionData(
            partition_index=index, error_code=0, high_watermark=9, last_stable_offset=9, log_start_offset=0,
            aborted_transactions=None, preferred_read_replica=-1, records=records,
        )  # fmt: skip
        topic = kind(topic=name, partitions=[part] * parts)
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])

    return say


def _log(base: int, count: int = 5) -> bytes:
    made = batches.encode([Record(0, b"%d" % (base + each), b"v") for each in range(count)])
    return base.to_bytes(8) + made[8:]


def test_as_it_should_be(ask: Ask) -> None:
    _, client = ask({OFFSETS: _offsets(5, 0, 5), FETCH: _fetched(_log(0))})
    assert client.metadata(["t"]).leader(PLACE) == 1
    assert client.list_offsets([PLACE], LATEST) == ({PLACE: 5}, {})
    assert [record.offset for record in TopicReader(client, "t").read()] == [0, 1, 2, 3, 4]


def test_an_answer_to_another_question(ask: Ask) -> None:
    broker, client = ask()
    broker.correlation = 4711
    with pytest.raises(ProtocolError, match="another question"):
        client.metadata(["t"])
    broker.correlation = None
    assert client.metadata(["t"]).topics  # on another connection: the first is not used any more
    assert len(broker.guests) == 2


def test_topics_that_nobody_asked_for_are_not_remembered(ask: Ask) -> None:
    broker, client = ask()
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
    broker.says[METADATA] = broker.metadata(
        topics=[kind(error_code=0, name=name, topic_id=None, is_internal=False, partitions=[part]) for name in names]
    )
    assert list(client.metadata(["t"]).topics) == ["t"]
    assert list(client._leaders) == [PLACE]
    assert len(client.metadata(None).topics) == 101


def test_brokers_where_none_can_be_are_left_out(ask: Ask) -> None:
    broker, client = ask()
    kind = MetadataResponse.MetadataResponseBroker
    odd = [("", 9092), ("h", 0), ("h", 70_000), ("h", -5), ("a\0b", 9092), ("x" * 300, 9092), ("a\nb", 1)]
    brokers = [kind(node_id=node, host=host, port=port, rack=None) for node, (host, port) in enumerate(odd, 10)]
    brokers.append(kind(node_id=1, host="127.0.0.1", port=broker.port, rack=None))
    broker.says[METADATA] = broker.metadata(brokers=brokers)
    assert client.metadata(["t"]).brokers == {1: ("127.0.0.1", broker.port)}


def test_thousands_of_brokers_that_are_not_there_are_not_all_tried(ask: Ask) -> None:
    broker, client = ask()
    kind = MetadataResponse.MetadataResponseBroker
    visitors = itertools.count()
    seen = 0
    with socket.create_server(("0.0.0.0", 0)) as door:

        def turn_away() -> None:
            nonlocal seen
            with suppress(OSError):
                while True:
                    door.accept()[0].close()
                    seen = next(visitors) + 1

        threading.Thread(target=turn_away, daemon=True).start()
        port = door.getsockname()[1]
        places = [(f"127.{1 + each // 60_000}.{each // 250 % 240}.{1 + each % 250}", port) for each in range(5000)]
        broker.says[METADATA] = broker.metadata(
            brokers=[kind(node_id=10 + at, host=host, port=port, rack=None) for at, (host, port) in enumerate(places)]
        )
        client.metadata([])
        client._drop(None)
        broker.close()
        with pytest.raises(UnreachableError):
            client.metadata([])
        assert 0 < seen <= 10
        door.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "said", [_offsets(5, name="other"), _offsets(-1), _offsets((1 << 63) - 1), _offsets(-(1 << 63))]
)
def test_an_end_that_no_log_has_or_none_at_all_is_one_partitions_error(ask: Ask, said: Say) -> None:
    _, client = ask({OFFSETS: said})
    client.metadata(["t"])
    found, failed = client.list_offsets(iter([PLACE]), LATEST)
    assert PLACE not in found
    assert failed == {PLACE: -1}


@pytest.mark.parametrize("said", [_fetched(b"", name="other"), _fetched(b"", index=7), _fetched(b"", parts=0)])
def test_records_of_something_else(ask: Ask, said: Say) -> None:
    _, client = ask({FETCH: said})
    with pytest.raises(ProtocolError, match="nothing of what was asked"):
        client.read(PLACE, 0)


def test_the_same_batch_for_ever(ask: Ask) -> None:
    _, client = ask({OFFSETS: _offsets(0, 1000), FETCH: _fetched(_log(0))})
    reader = TopicReader(client, "t")
    assert [record.offset for record in reader.read()] == [0, 1, 2, 3, 4]
    assert reader.next == {0: 1000}


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">ii", 0, 0),
        struct.pack(">i", 1) + b"\0\1x" + struct.pack(">iihqqqihi", 1, 0, 0, 5, -1, 0, 0, -1, 0),
        struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iihqqqihi", 1, 9, 0, 5, -1, 0, 0, -1, 0),
    ],
    ids=["about nothing", "about another topic", "about another partition"],
)
def test_where_a_batch_landed_is_not_said(ask: Ask, said: bytes) -> None:
    _, client = ask({PRODUCE: lambda _: said})
    with pytest.raises(KafkaError, match="nothing of what was asked"):
        client.append(PLACE, _log(0))


def test_a_topic_is_created_or_not(ask: Ask) -> None:
    _, client = ask({CREATE: lambda version: CreateTopicsResponse(version=version, throttle_time_ms=0, topics=[])})
    with pytest.raises(ProtocolError, match="nothing of what was asked"):
        client.create_topic("t", 1, 1, {})


@pytest.mark.parametrize("versions", [[(-10, -5)], [(0, -1)], [(5, 3)]])
def test_versions_that_there_are_not(ask: Ask, versions: list[tuple[int, int]]) -> None:
    kind = ApiVersionsResponse.ApiVersion

    def say(version: int) -> Any:
        keys = [kind(api_key=METADATA, min_version=low, max_version=high) for low, high in versions]
        return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)

    _, client = ask({VERSIONS: say})
    with pytest.raises(KafkaError, match="does not know MetadataRequest"):
        client.metadata(["t"])


def test_a_large_answer_is_refused_before_it_is_received() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">i", answers.LARGEST + 1))
        with pytest.raises(ProtocolError, match="Kafka listener"):
            Channel(ours, "me", 5.0)


def test_an_answer_byte_by_byte_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes soon, but the last one would come tomorrow: what counts is the time of all."""
    ours, theirs = socket.socketpair()
    hours = itertools.count(step=3600)
    with ours, theirs:
        theirs.sendall(struct.pack(">iihi", 10, 1, 0, 0))
        monkeypatch.setattr("twinlog.kafka.channel.time.monotonic", lambda: next(hours))
        with pytest.raises(TimeoutError):
            Channel(ours, "me", 5.0)


class TestReading:
    def test_what_makes_no_sense_is_passed_over(self) -> None:
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

    def test_the_end_is_never_behind(self) -> None:
        assert batch_end(_log(0), 5) is None
        assert batch_end(_log(0), 4) == 5
        far = bytearray(_log(0))
        struct.pack_into(">q", far, 0, (1 << 63) - 1)
        struct.pack_into(">I", far, 17, crc32c(far[21:]))
        assert batch_end(bytes(far), 5) is None
