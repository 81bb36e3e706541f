"""Malformed responses raise ProtocolError, quickly and without much memory."""

import struct
import tracemalloc
import uuid
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsResponse, DescribeConfigsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from twinlog.errors import ProtocolError
from twinlog.kafka import produce, response_decoder
from twinlog.kafka.connection import throttle_time
from twinlog.kafka.fetch import BY_ID, BY_NAME, Session, WantedPartition
from twinlog.model import TopicPartition

ID = uuid.UUID(int=7)
HOW: dict[str, Any] = {"wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "isolation": 1, "rack": ""}
_PART = struct.pack(">ihqqq", 0, 0, 20, 19, 3) + b"\1" + struct.pack(">i", -1) + b"\1" + b"\0"


def _session(version: int, partitions: int = 1) -> Session:
    session = Session(version)
    wants = [WantedPartition(TopicPartition("t", each), ID, 0, -1, -1, 1 << 20) for each in range(partitions)]
    session.request(1, "me", wants, [], **HOW)
    return session


def _fetched(topics: bytes, throttle: int = 0) -> memoryview:
    return memoryview(struct.pack(">i", 1) + b"\0" + struct.pack(">ihi", throttle, 0, 5) + topics)


def _uvarint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes((number & 127 | 128,)), number >> 7
    return out + bytes((number,))


class TestFetch:
    NAMED = b"\2t"

    def test_valid_response(self) -> None:
        answer = _session(BY_NAME).decode(_fetched(b"\2" + self.NAMED + b"\2" + _PART + b"\0\0"))
        assert [part.tp for part in answer.parts] == [("t", 0)]

    @pytest.mark.parametrize(
        "topics",
        [
            pytest.param(b"\3" + 2 * (b"\2t\2" + _PART + b"\0") + b"\0", id="more topics than partitions were asked"),
            pytest.param(b"\2" + NAMED + b"\3" + 2 * _PART + b"\0\0", id="more partitions than were asked"),
            pytest.param(_uvarint(1 << 40) + NAMED * 9, id="2^40 topics"),
            pytest.param(b"\2" + NAMED + _uvarint(1 << 41) + _PART, id="2^41 partitions"),
            pytest.param(b"\2\0\1\0\0", id="a topic without a name"),
            pytest.param(b"\2\3\xff\xff\2" + _PART + b"\0\0", id="a name that is not UTF-8"),
            pytest.param(b"\2" + b"\xff" * 100, id="a number that does not end"),
            pytest.param(b"\2" + NAMED + b"\2" + _PART + b"\x7f" + b"\0" * 300, id="127 tagged fields"),
            pytest.param(b"\2" + NAMED + b"\2" + _PART[:30] + _uvarint(1 << 30), id="2^30 aborted transactions"),
        ],
    )
    def test_malformed_response_is_a_protocol_error(self, topics: bytes) -> None:
        with pytest.raises(ProtocolError, match="malformed FetchResponse"):
            _session(BY_NAME).decode(_fetched(topics))

    def test_truncated_topic_id(self) -> None:
        for size in range(17):
            with pytest.raises(ProtocolError):
                _session(BY_ID).decode(_fetched(b"\2" + ID.bytes[:size]))

    def test_millions_of_partitions_are_rejected_unread(self) -> None:
        frame = _fetched(b"\2" + self.NAMED + _uvarint(1_000_001) + 1_000_000 * _PART + b"\0\0")
        session = _session(BY_NAME, 10)
        tracemalloc.start()
        with pytest.raises(ProtocolError, match="more partitions"):
            session.decode(frame)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20

    @pytest.mark.parametrize(
        ("throttle_ms", "limited"), [(-1, 0), (-(1 << 31), 0), (0, 0), (70, 70), ((1 << 31) - 1, 300_000)]
    )
    def test_throttle_time_is_limited(self, throttle_ms: int, limited: int) -> None:
        assert throttle_time(throttle_ms) == limited
        assert _session(BY_NAME).decode(_fetched(b"\1\0", throttle=throttle_ms)).throttle_ms == limited
        frame = memoryview(struct.pack(">iii", 1, 0, throttle_ms))
        assert produce.decode(frame).throttle_ms == limited
        assert produce.decode_success(frame) == ([], limited)


def _produced(*outcomes: bytes, topics: int = 1, name: bytes = b"\0\1t") -> memoryview:
    head = struct.pack(">ii", 1, topics) + name + struct.pack(">i", len(outcomes))
    return memoryview(head + b"".join(outcomes) + struct.pack(">i", 0))


def _outcome(base: int = 5, error: int = 0, errors: int = 0, message: bytes = b"\xff\xff") -> bytes:
    return struct.pack(">ihqqqi", 0, error, base, -1, 0, errors) + message


class TestProduce:
    def test_valid_response(self) -> None:
        assert produce.decode_success(_produced(_outcome())) == ([(("t", 0), 5)], 0)

    @pytest.mark.parametrize("name", [struct.pack(">h", size) for size in (-1, -2, -6, -8, -10, -(1 << 15))])
    def test_negative_name_length_is_rejected(self, name: bytes) -> None:
        for topics in (1, 3, (1 << 31) - 1):
            frame = _produced(_outcome(), topics=topics, name=name)
            assert produce.decode_success(frame) is None
            with pytest.raises(ProtocolError, match="without a name"):
                produce.decode(frame)

    @pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 63) - 100])
    def test_invalid_offset(self, base: int) -> None:
        """The next offset would have more than 64 bits."""
        assert produce.decode_success(_produced(_outcome(base))) is None
        for message in (b"\xff\xff", b"\x00\x00"):
            (outcome,) = produce.decode(_produced(_outcome(base, message=message))).outcomes
            assert (outcome.error, outcome.base_offset) == (-1, -1)
            assert f"invalid offset {base}" in outcome.message

    def test_error_messages_are_one_line(self) -> None:
        text = b"no\n\x1b[31mway\0" * 500
        (outcome,) = produce.decode(_produced(_outcome(error=87, message=struct.pack(">h", len(text)) + text))).outcomes
        assert outcome.message.startswith("no [31mway no")
        assert outcome.message.isprintable()
        assert len(outcome.message) < 250

    def test_wrong_counts(self) -> None:
        for frame in (
            _produced(_outcome(), topics=(1 << 31) - 1),
            memoryview(struct.pack(">ii", 1, 1) + b"\0\1t" + struct.pack(">i", (1 << 31) - 1) + _outcome()),
            _produced(_outcome(errors=(1 << 31) - 1, error=87)),
        ):
            with pytest.raises(ProtocolError):
                produce.decode(frame)


def _metadata(version: int, brokers: bytes) -> bytes:
    return struct.pack(">i", 1) + (b"\0" if version >= 9 else b"") + struct.pack(">i", 0) + brokers


class TestResponses:
    """Decoded by kafka-python."""

    def test_valid_response(self) -> None:
        kind = MetadataResponse.MetadataResponseBroker
        made = MetadataResponse(
            version=12, throttle_time_ms=0, cluster_id="c", controller_id=1, topics=[],
            brokers=[kind(node_id=1, host="h", port=9092, rack=None)],
        )  # fmt: skip
        made.with_header(correlation_id=3)
        read = response_decoder.decode(MetadataResponse, 12, bytes(made.encode(header=True)))
        assert read == made
        assert read.brokers[0].host == "h"

    def test_endless_varint_is_rejected(self) -> None:
        """64 MB of it would keep kafka-python's compiled decoder busy for weeks."""
        with pytest.raises(ProtocolError, match="Metadata"):
            response_decoder.decode(MetadataResponse, 12, _metadata(12, b"\xff" * (8 << 20)))

    def test_many_unknown_fields_do_not_take_hours(self) -> None:
        """kafka-python's compiled decoder copies the rest of the response for each."""
        broker = struct.pack(">i", 1) + b"\2h" + struct.pack(">i", 9) + b"\0" + b"\1\x63\1x"
        body = _metadata(12, _uvarint(50_001) + 50_000 * broker + b"\0" + struct.pack(">i", 0) + b"\1\0")
        assert len(response_decoder.decode(MetadataResponse, 12, body).brokers) == 50_000

    @pytest.mark.parametrize(
        ("kind", "version", "body"),
        [
            pytest.param(MetadataResponse, 12, _metadata(12, b"\0"), id="no list of brokers"),
            pytest.param(MetadataResponse, 12, _metadata(12, b"\2\0\0\0\1\0\0\0\0\x09\0\0"), id="a host that is null"),
            pytest.param(MetadataResponse, 4, _metadata(4, struct.pack(">i", -1)), id="no list, before version 9"),
            pytest.param(ApiVersionsResponse, 0, struct.pack(">ihi", 1, 0, -1), id="no list of versions"),
            pytest.param(ApiVersionsResponse, 0, struct.pack(">ihi", 1, 0, (1 << 31) - 1), id="2^31 versions"),
            pytest.param(ListOffsetsResponse, 7, b"\0\0\0\1\0\0\0\0\0\2\0\2", id="a topic without a name"),
            pytest.param(CreateTopicsResponse, 7, b"\0\0\0\1\0\0\0\0\0\0", id="no topics"),
            pytest.param(DescribeConfigsResponse, 4, b"\0\0\0\1", id="nothing"),
            pytest.param(FetchResponse, 12, b"\0\0\0\1\0\xff\xff", id="cut off"),
            pytest.param(MetadataResponse, 12, b"\0", id="no header"),
            pytest.param(MetadataResponse, 12, _metadata(12, b"\2\0\0\0\1\3\xff\xff\0\0\0\x09\0\0"), id="not UTF-8"),
        ],
    )
    def test_malformed_response_is_a_protocol_error(self, kind: Any, version: int, body: bytes) -> None:
        with pytest.raises(ProtocolError, match="malformed"):
            response_decoder.decode(kind, version, body)

    @pytest.mark.parametrize(
        ("host", "port"),
        [("", 9092), ("h", 0), ("h", -1), ("h", 65536), ("a\0b", 1), ("a\nb", 1), ("x" * 64, 1), ("a..b", 1), ("é" * 99, 1)],
    )  # fmt: skip
    def test_invalid_addresses(self, host: str, port: int) -> None:
        assert not response_decoder.is_address(host, port)

    @pytest.mark.parametrize(
        "host", ["h", "10.0.0.1", "::1", "fe80::1%eth0", "b-1.kafka.example.com.", "größe.example"]
    )
    def test_valid_addresses(self, host: str) -> None:
        assert response_decoder.is_address(host, 9092)

    def test_response_without_items(self) -> None:
        with pytest.raises(ProtocolError, match="lacks the requested item"):
            response_decoder.first([])
