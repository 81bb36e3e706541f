"""Fuzz targets: everything that parses bytes from a broker, from a topic that others can write to, or from a file.

A target accepts any bytes. It may reject them only by the documented error of the code under test; any other exception
and any failed assertion is a bug. Seeds are valid inputs.
"""

import contextlib
import struct
import uuid
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cramjam
import numpy as np
from crc32c import crc32c

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka.protocol import admin as admin_api
    from kafka.protocol import consumer as consumer_api
    from kafka.protocol import metadata as metadata_api
    from kafka.protocol import producer as producer_api
    from kafka.protocol import sasl as sasl_api

from twinlog.cli.status_text import StatusOptions, as_json, as_text
from twinlog.config.java_regex import JavaRegexError, compile_java
from twinlog.config.problems import Problems
from twinlog.config.properties import read_properties
from twinlog.errors import AuthenticationError, ConfigError, ProtocolError, ReplicationError
from twinlog.journal import messages
from twinlog.kafka import codecs, legacy_messages, native, produce, rebuild, records, response_decoder, topic_reader
from twinlog.kafka.batch import HEADER, MAX_OFFSET
from twinlog.kafka.connection import Buffer, Pool
from twinlog.kafka.fetch import BY_ID, BY_NAME, FetchedPartition, Session, WantedPartition
from twinlog.mm2 import offset_syncs, source_offsets
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.mm2.heartbeats import Heartbeat
from twinlog.model import TopicPartition
from twinlog.replicate import coalesce as coalesce_module
from twinlog.replicate import convert_batches as convert_module
from twinlog.replicate.coalesce import Coalescer
from twinlog.replicate.convert_batches import ConversionRules, convert_batches
from twinlog.replicate.partition import BatchLimits, OutboundBatch, SourceSide
from twinlog.security import asn1, jaas, jks, oauth_endpoint, oauth_tokens, password_encryption, pem, pkcs12, scram
from twinlog.security.keystore_entries import StoreError
from twinlog.status import snapshot_records
from twinlog.status.flow import FlowStatus
from twinlog.status.journal_follower import FlowHistory

TP = TopicPartition("t", 0)
ID = uuid.UUID(int=7)
NOW = 1_700_000_000_000
PASSWORD = "changeit"


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    share: float  # of the runs of a round: lower for slow targets


TARGETS: dict[str, Target] = {}


def _target(seeds: Callable[[], list[bytes]], share: float = 1.0) -> Callable[[Callable[[bytes], None]], None]:
    def add(run: Callable[[bytes], None]) -> None:
        TARGETS[run.__name__] = Target(run.__name__, run, seeds, share)

    return add


def _check_message(error: Exception) -> None:
    """An error may quote untrusted input, but without control characters and without secrets."""
    assert str(error).isprintable()
    assert PASSWORD not in str(error)


# Fetch and produce responses


def _session(version: int) -> Session:
    session = Session(version)
    wants = [WantedPartition(TopicPartition("t", each), ID, 0, -1, -1, 1 << 20) for each in range(4)]
    session.request(1, "me", wants, [], wait_ms=1, min_bytes=1, max_bytes=1, isolation=1, rack="")
    return session


def _fetch_seeds() -> list[bytes]:
    kind = consumer_api.FetchResponse.FetchableTopicResponse
    data = kind.PartitionData
    found = []
    for version in (BY_NAME, BY_ID):
        parts = [
            data(
                partition_index=index, error_code=0, high_watermark=9, last_stable_offset=8, log_start_offset=1,
                aborted_transactions=aborted, preferred_read_replica=-1, records=content,
            )
            for index, (aborted, content) in enumerate(
                [(None, b"xy"), ([data.AbortedTransaction(producer_id=4, first_offset=2)], b""), ([], None)]
            )
        ]  # fmt: skip
        parts[1].diverging_epoch = data.EpochEndOffset(epoch=3, end_offset=5)
        made = consumer_api.FetchResponse(
            version=version, throttle_time_ms=3, error_code=0, session_id=5,
            responses=[kind(topic="t", topic_id=ID, partitions=parts)],
        )  # fmt: skip
        made.with_header(correlation_id=1)
        found.append(bytes((version,)) + bytes(made.encode(header=True)))
    return found


@_target(_fetch_seeds, 2.0)
def fetch(data: bytes) -> None:
    session = _session(BY_ID if data[:1] == bytes((BY_ID,)) else BY_NAME)
    frame = memoryview(data[1:])
    try:
        decoded = session.decode(frame)
    except ProtocolError:
        return
    assert len(decoded.parts) <= 4
    assert 0 <= decoded.throttle_ms <= 300_000
    assert sum(len(part.records) for part in decoded.parts) <= len(frame)
    assert 17 * sum(len(part.aborted) for part in decoded.parts) <= len(frame)


def _produce_seeds() -> list[bytes]:
    kind = producer_api.ProduceResponse.TopicProduceResponse
    part = kind.PartitionProduceResponse
    bad = part.BatchIndexAndErrorMessage
    found = []
    for error, errors, message in ((0, [], None), (87, [bad(batch_index=2, batch_index_error_message="no")], "bad")):
        parts = [
            part(
                index=index, error_code=error, base_offset=5 + index, log_append_time_ms=-1, log_start_offset=0,
                record_errors=errors, error_message=message,
            )
            for index in range(2)
        ]  # fmt: skip
        made = producer_api.ProduceResponse(
            version=produce.VERSION, throttle_time_ms=7, responses=[kind(name="t", partition_responses=parts)]
        )
        made.with_header(correlation_id=1)
        found.append(bytes(made.encode(header=True)))
    return found


@_target(_produce_seeds, 2.0)
def produced(data: bytes) -> None:
    frame = memoryview(data)
    decoded = None
    with contextlib.suppress(ProtocolError):
        decoded = produce.decode(frame)
    try:
        success = produce.decode_success(frame)
    except ProtocolError:
        assert decoded is None
        return
    if decoded is not None:
        assert all(each.base_offset <= MAX_OFFSET and each.message.isprintable() for each in decoded.outcomes)
        assert 0 <= decoded.throttle_ms <= 300_000
    if success is not None:
        assert decoded is not None
        landed, throttle = success
        assert landed == [((each.topic, each.partition), each.base_offset) for each in decoded.outcomes]
        assert throttle == decoded.throttle_ms


# Other responses

_KINDS: list[tuple[Any, int]] = [
    (metadata_api.ApiVersionsResponse, 0),
    (metadata_api.MetadataResponse, 12),
    (metadata_api.MetadataResponse, 5),
    (metadata_api.FindCoordinatorResponse, 4),
    (consumer_api.FetchResponse, 12),
    (consumer_api.ListOffsetsResponse, 7),
    (consumer_api.OffsetFetchResponse, 8),
    (consumer_api.OffsetCommitResponse, 8),
    (producer_api.InitProducerIdResponse, 4),
    (admin_api.CreateTopicsResponse, 7),
    (admin_api.CreatePartitionsResponse, 3),
    (admin_api.DescribeConfigsResponse, 4),
    (admin_api.DescribeAclsResponse, 3),
    (admin_api.DescribeGroupsResponse, 5),
    (admin_api.ListGroupsResponse, 5),
    (admin_api.DescribeLogDirsResponse, 4),
    (admin_api.DescribeProducersResponse, 0),
    (admin_api.DescribeClusterResponse, 0),
    (sasl_api.SaslHandshakeResponse, 1),
    (sasl_api.SaslAuthenticateResponse, 2),
]


def _response_seeds() -> list[bytes]:
    return [bytes((number,)) + _sample(kind, version) for number, (kind, version) in enumerate(_KINDS)]


def _sample(kind: Any, version: int) -> bytes:
    """A response with one element in each array."""

    def fields(structure: Any) -> dict[str, Any]:
        return {each.name: value(each) for each in structure.untagged_fields(version)}

    def value(each: Any) -> Any:
        if each.is_struct_array():
            return [each.data_class(version=version, **fields(each.array_of))]
        if each.is_struct():
            return each.data_class(version=version, **fields(each))
        if each.is_array():
            return [value(each.array_of)]
        kinds = {"string": "t", "bytes": b"r", "records": b"r", "bool": True, "uuid": ID, "bitfield": [1]}
        return kinds.get(each.type_str, 1)

    made = kind(version=version, **fields(kind._struct))
    made.with_header(correlation_id=1)
    return bytes(made.encode(header=True))


@_target(_response_seeds)
def response(data: bytes) -> None:
    if not data:
        return
    kind, version = _KINDS[data[0] % len(_KINDS)]
    try:
        found = response_decoder.decode(kind, version, data[1:])
    except ProtocolError as error:
        _check_message(error)
        return
    if kind is metadata_api.MetadataResponse:
        for broker in found.brokers:
            response_decoder.is_address(broker.host, broker.port)
    repr(found)


# Records


def _batch(
    offsets: Sequence[int], *, codec: int = 0, flags: int = 0, more: int = 0, size: int = 3, time: int = NOW
) -> bytes:
    rows = [(time + each, b"k", bytes(size), ((b"h", b"x"), (b"h", None))) for each in range(len(offsets))]
    plain = records.encode(rows)
    section = bytearray()
    at = HEADER.size
    for offset in offsets:  # the same records, with the given offsets
        length = plain[at] >> 1
        body = bytes(plain[at + 1 : at + 1 + length])
        at += 1 + length
        body = body[:2] + records.signed(offset - offsets[0]) + body[3:]
        section += records.signed(len(body)) + body
    made = bytearray(plain[: HEADER.size]) + bytes(codecs.compress(codec, bytes(section)))
    last = offsets[-1] - offsets[0] + more
    for place, layout, value in ((0, ">q", offsets[0]), (8, ">i", len(made) - 12), (21, ">h", codec | flags), (23, ">i", last)):  # fmt: skip
        struct.pack_into(layout, made, place, value)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def _old(magic: int, offset: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"")
    body += struct.pack(">i", 1) + b"k" + struct.pack(">i", 2) + b"vv"
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _wrapped(magic: int, offset: int, codec: int) -> bytes:
    inner = b"".join(_old(magic, each if magic else offset - 1 + each) for each in range(2))
    packed = bytes(codecs.compress(codec, inner))
    body = struct.pack(">bb", magic, codec) + (struct.pack(">q", NOW) if magic else b"")
    body += struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _batch_seeds() -> list[bytes]:
    made = [_batch(range(3), codec=codec) for codec in range(5)]
    made += [_batch([0, 2, 7], more=1), _batch(range(2), flags=8), _batch([5], flags=0x30), _batch(range(2), size=300)]
    made += [_old(0, 3), _old(1, 3), _wrapped(0, 4, 1), _wrapped(1, 4, 1), _wrapped(1, 4, 2)]
    return made


# Corruptions of a batch header: position, layout, value
_CORRUPTIONS = [
    (0, ">q", (1 << 63) - 2), (0, ">q", -1), (8, ">i", 0), (8, ">i", 1 << 20), (16, ">b", 3), (16, ">b", 1),
    (21, ">h", 0x7F), (23, ">i", -1), (23, ">i", (1 << 31) - 1), (27, ">q", (1 << 63) - 1), (57, ">i", -1),
    (57, ">i", (1 << 31) - 1), (57, ">i", 0), (61, ">b", 0x7E), (61, ">q", -1), (64, ">q", -1),
]  # fmt: skip


def _log_seeds() -> list[bytes]:
    """The first two bytes are options, see `conversion`."""
    plain = [_batch(range(3 * each, 3 * each + 3)) for each in range(4)]
    logs = [
        b"".join(plain),
        plain[0] + _batch([3, 5, 9], more=2) + _batch(range(12, 15), flags=8) + _batch(range(15, 18), flags=8),
        plain[0] + _batch([3], flags=0x30) + _batch(range(4, 6), flags=0x10) + _batch([6, 7]),
        b"".join(_batch([each], size=1) for each in range(9)),
        _batch(range(3), codec=4) + _batch(range(3, 6), codec=1) + _batch(range(6, 8)),
        _old(1, 0) + _old(0, 1) + _batch(range(2, 5)),
        plain[0] + _batch([3, 4], time=-5) + _batch(range(5, 50), size=0, time=1 << 62),
        plain[0] + plain[1][:-1],
        plain[0] + plain[1][:70],
    ]
    for place, layout, value in _CORRUPTIONS:
        made = bytearray(plain[1])
        struct.pack_into(layout, made, place, value)
        logs += (plain[0] + bytes(made), plain[0] + bytes(made) + plain[2])
    return [bytes((how, 0)) + log for log in logs for how in (0, 3)]


class CheckedArray:
    """An array that rejects indexes out of bounds, including negative ones."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape = array.shape

    def _checked(self, index: Any) -> Any:
        for each, size in zip(index if isinstance(index, tuple) else (index,), self.shape, strict=True):
            assert 0 <= each < size, f"index {each} of {size}"
        return index

    def __getitem__(self, index: Any) -> Any:
        return self._array[self._checked(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._checked(index)] = value


class _CheckedNative:
    """Replaces the module `native`: all arrays of its loops are checked."""

    def __getattr__(self, name: str) -> Any:
        return getattr(native, name)

    @staticmethod
    def scan(log: Any, at: int, wanted: int, committed: bool, table: Any) -> Any:
        scan: Any = native.scan
        with np.errstate(over="ignore"):
            return scan(CheckedArray(log), np.int64(at), np.int64(wanted), committed, CheckedArray(table))

    @staticmethod
    def coalesce_batches(log: Any, table: Any, row: int, rows: int, large: int, coalesced: Any, offsets: Any) -> Any:
        with np.errstate(over="ignore"):
            return native.coalesce_batches(
                CheckedArray(log), CheckedArray(table), row, rows, large, CheckedArray(coalesced), CheckedArray(offsets)
            )


INTERPRETED = not hasattr(native.scan, "py_func")
setattr(coalesce_module, "_ROWS", 6)  # noqa: B010  # so small that a short log reaches the end of each table
setattr(coalesce_module, "_RECORDS", 40)  # noqa: B010
COALESCER = Coalescer(Pool(max_idle=1 << 20))
if INTERPRETED:
    COALESCER._native = _CheckedNative()

RecordFields = tuple[int, int, int, bytes]  # offset, time, attributes, key with value and headers


def _records(piece: OutboundBatch) -> list[RecordFields] | None:
    """The records of a batch, not decoded further; None if they are corrupt."""
    header = HEADER.unpack_from(piece.view)
    try:
        section = codecs.decompress(header[5] & 7, piece.view[HEADER.size :])
        offsets = piece.offsets or range(piece.first, piece.last + 1)
        found: list[RecordFields] = []
        at = 0
        previous = -1
        for number in range(header[12]):
            size, at = records.read_unsigned(section, at, 64)
            end = at + (size >> 1)
            if size & 1 or end > len(section) or at == end:
                return None
            attributes = section[at]
            delta, at = records.read_unsigned(section[:end], at + 1, 64)
            place, at = records.read_unsigned(section[:end], at, 64)
            if place & 1 or place <= previous or place >> 1 > header[6] or end - at < 3:
                return None
            previous = place
            time = (header[7] + (delta >> 1 ^ -(delta & 1)) + (1 << 63)) % (1 << 64) - (1 << 63)
            offset = offsets[number] if piece.rebuilt else header[0] + (place >> 1)
            found.append((offset, time, attributes, bytes(section[at:end])))
            at = end
    except (ValueError, IndexError):
        return None
    return found if at == len(section) else None


def _copied(
    log: bytes, start: int, rules: ConversionRules, coalescer: Coalescer | None
) -> tuple[list[OutboundBatch], int] | None:
    source, limits = SourceSide(position=start), BatchLimits()
    data = bytearray(log)
    aborted = [(7, 2), (1, 0)]
    part = FetchedPartition(TP, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
    try:
        pieces = convert_batches(source, limits, part, Buffer(data, len(data), None), rules, coalescer)
    except ReplicationError:
        assert source.position == start
        return None
    position = start
    for piece in pieces:
        assert position <= piece.first <= piece.last < piece.next_offset <= source.position <= MAX_OFFSET + (1 << 31)
        assert piece.count == (len(piece.offsets) if piece.offsets else piece.last - piece.first + 1)
        position = piece.last + 1
    assert source.position >= start
    return pieces, source.position


@_target(_log_seeds, 1.0)
def conversion(data: bytes) -> None:
    """The result with coalescing is the same as without it, record by record."""
    if len(data) < 2:
        return
    how, start, log = data[0], data[1] & 7, data[2:]
    rules = ConversionRules(read_committed=bool(how & 1), check_crcs=not how & 2, codec=None)
    fast, slow = _copied(log, start, rules, COALESCER), _copied(log, start, rules, None)
    if fast is None or slow is None:
        return
    sides = [[_records(piece) for piece in pieces] for pieces, _ in (fast, slow)]
    if None in sides[0] or None in sides[1]:
        return
    end = min(fast[1], slow[1])
    one, other = ([row for rows in side for row in rows or () if row[0] < end] for side in sides)
    assert one == other


@_target(_log_seeds, 0.5)
def conversion_with_codec(data: bytes) -> None:
    """With a configured codec, a size limit of the target, and records to skip."""
    if len(data) < 2:
        return
    how, start, log = data[0], data[1] & 7, data[2:]
    source, limits = SourceSide(position=start), BatchLimits()
    limits.max_batch_bytes = 80 if how & 8 else 0
    limits.single_records_until = 5 if how & 16 else -1
    limits.skip_offsets = frozenset({1, 4, 9}) if how & 32 else frozenset()
    raw = bytearray(log)
    part = FetchedPartition(TP, 0, 0, 0, 0, [], -1, memoryview(raw), None)
    rules = ConversionRules(read_committed=bool(how & 1), check_crcs=not how & 2, codec=how % 5)
    try:
        pieces = convert_batches(source, limits, part, Buffer(raw, len(raw), None), rules, COALESCER)
    except ReplicationError:
        return
    for piece in pieces:
        assert start <= piece.first <= piece.last < piece.next_offset <= source.position
        if piece.rebuilt and limits.skip_offsets:
            assert not limits.skip_offsets & set(piece.offsets or range(piece.first, piece.last + 1))


@_target(_batch_seeds)
def batch(data: bytes) -> None:
    """`rebuild` and `records` agree: a batch that can be decoded has the same records after a rebuild."""
    view = memoryview(data)
    try:
        before = records.decode(view)
    except ValueError:
        before = None
    for codec in (None, codecs.ZSTD):
        try:
            made = rebuild.rebuild([view], start=0, codec=codec, max_bytes=200)
        except ValueError:
            continue
        if before is None or any(record.offset < 0 for record in before):
            continue
        after = [record for new in made for record in records.decode(memoryview(new.data))]
        assert [each[1:] for each in after] == [each[1:] for each in before] or view[16] < 2
        assert sum(new.count for new in made) == len(before)
    with contextlib.suppress(ValueError):
        again = rebuild.recompress(view, codecs.GZIP)[0]
        if before is not None and view[16] == 2:
            assert records.decode(memoryview(again)) == before
    if before and view[16] == 2:
        rows = [(each.timestamp, each.key, each.value, each.headers) for each in before]
        with contextlib.suppress(struct.error):  # times of more than 64 bits
            assert [each[1:] for each in records.decode(memoryview(records.encode(rows)))] == rows


@_target(_batch_seeds, 2.0)
def old_messages(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        legacy_messages.read(memoryview(data))


def _compressed_seeds() -> list[bytes]:
    plain = b"abc" * 40
    made = [bytes((codec,)) + bytes(codecs.compress(codec, plain)) for codec in range(1, 5)]
    made.append(b"\x02" + bytes(memoryview(cramjam.snappy.compress_raw(plain))))
    made.append(b"\x08" + bytes(codecs.compress(3, plain)))
    return made


@_target(_compressed_seeds)
def compressed(data: bytes) -> None:
    if not data:
        return
    codec, magic = data[0] % 6, 0 if data[0] == 8 else 2
    codec = codecs.LZ4 if magic == 0 else codec
    limit = 1 << 16
    try:
        plain = codecs.decompress(codec, data[1:], magic, limit)
    except ValueError:
        return
    assert len(plain) <= limit
    if magic == 2:
        assert codecs.decompress(codec, bytes(codecs.compress(codec, plain))) == plain


@_target(_log_seeds, 0.5)
def topic_records(data: bytes) -> None:
    start = data[0] if data else 0
    found = list(topic_reader.records_from(data[2:], start))
    assert all(record.offset >= start for record in found)
    end = topic_reader.batch_end(data[2:], start)
    assert end is None or start < end <= MAX_OFFSET


# Records of internal topics


def _internal_record_seeds() -> list[bytes]:
    sync = offset_syncs.OffsetSync("topic", 3, 10, 20, 5)
    beat, point = Heartbeat("us", "eu", NOW), Checkpoint("g", "us.t", 1, 5, 7, "meta")
    pairs = [
        (offset_syncs.encode_key(sync), offset_syncs.encode_value(sync)),
        (beat.key(), beat.value()),
        (point.key(), point.value()),
        (source_offsets.key("MirrorSourceConnector", "us", "t", 3), source_offsets.value(7)),
        (
            source_offsets.position_key("us", "eu", "t", 3, "us.t"),
            source_offsets.StoredPosition(1, 2, str(ID), 3, 4, 5, 6).encode(),
        ),
        (source_offsets.producer_key("us", "eu"), source_offsets.Producers((1, 2)).encode()),
        (source_offsets.key("c", "us", "t", 1 << 31), source_offsets.value(1 << 63)),
        (
            source_offsets.position_key("us", "eu", "t", 3, "us.t"),
            source_offsets.StoredPosition(1 << 63, 0, "", 1 << 31, 0, 1 << 15).encode(),
        ),
        (b"", messages.Command("run", "r", 1, "us->eu").encode()),
        (b"", messages.Report("r", 1, 2, 0, NOW, {"t-1": {"state": "running"}}, [{"kind": "x"}]).encode()),
    ]
    return [bytes((len(key),)) + key + value for key, value in pairs]


@_target(_internal_record_seeds, 2.0)
def internal_records(data: bytes) -> None:
    size = data[0] if data else 0
    key, value = data[1 : 1 + size], data[1 + size :]
    with contextlib.suppress(ValueError):
        sync = offset_syncs.decode(key, value, [(offset_syncs.SINCE_HEADER, value[:8])])
        assert key.startswith(offset_syncs.encode_key(sync))
        assert value.startswith(offset_syncs.encode_value(sync))
    with contextlib.suppress(ValueError):
        beat = Heartbeat.decode(key, value)
        assert (key.startswith(beat.key()), value.startswith(beat.value())) == (True, True)
    with contextlib.suppress(ValueError):
        point = Checkpoint.decode(key, value)
        assert (key.startswith(point.key()), value.startswith(point.value())) == (True, True)
    for content in (value, None):
        entry = source_offsets.parse(key, content)
        if isinstance(entry, source_offsets.PositionEntry) and entry.stored_position is not None:
            struct.pack(
                ">qqi", entry.stored_position.source, entry.stored_position.target, entry.stored_position.leader_epoch
            )
            struct.pack(
                ">qhi",
                entry.stored_position.producer_id,
                entry.stored_position.producer_epoch,
                entry.stored_position.sequence,
            )
        if isinstance(entry, source_offsets.PositionEntry | source_offsets.SourceOffset):
            struct.pack(">i", entry.partition)
        if isinstance(entry, source_offsets.SourceOffset) and entry.offset is not None:
            struct.pack(">q", entry.offset + 1)
        if isinstance(entry, source_offsets.ProducersEntry) and entry.producers is not None:
            struct.pack(f">{len(entry.producers.ids)}q", *entry.producers.ids)
    messages.Command.decode(value)
    messages.Report.decode(value)


_FRAME = b"\x00frame\x00"  # prefix of a snapshot's part; the rest is compressed


def _flow() -> FlowStatus:
    flow = FlowStatus("r", "us->eu", "us", "eu")
    lost = {"time": NOW, "kind": "lost", "partition": "t-1", "first": 1, "last": 2, "amount": 2, "text": "gone"}
    fields = {"topic": "t", "partition": 1, "remote": "us.t", "state": "running", "position": 3, "end": 9}
    for second in range(2):
        flow.add(
            messages.Report("r", 1, 0, 0, NOW + 1000 * second, {"t-1": {**fields, "latency": [1, 2, 3, 4]}}, [lost])
        )
    return flow


def _status_seeds() -> list[bytes]:
    partition = {"topic": "t", "end": 9, "position": 4, "age": [1, 2, 3, 4], "records": 5}
    event = {"time": NOW, "kind": "skipped", "partition": "t-1", "first": 1, "last": 2}
    return [
        messages.Report("r", 1, 2, 0, NOW, {"t-1": partition, "": {"latency_p50_ms": 4}}, [event], host="h:1").encode(),
        messages.SupervisorReport("us->eu", "r", 1, NOW, "running", "", 2, 1, NOW, None, 7).encode(),
        zlib.decompress(snapshot_records.encode(_flow(), NOW, 7)[0][len(_FRAME) :]),
    ]


@_target(_status_seeds, 0.5)
def status(data: bytes) -> None:
    """No record in the journal may crash its readers."""
    follower = FlowHistory("us->eu", "us", "eu")
    follower.on_record(messages.SupervisorReport("us->eu", "r", 1, NOW, "running").encode())
    for value in (data, _FRAME + zlib.compress(data), data):
        follower.on_record(value)
        assert as_text([follower.status], StatusOptions(topic="t")).replace("\n", "").isprintable()
        assert as_json([follower.status], StatusOptions())


# Files and authentication


@_target(lambda: [b"\x30\0"])  # real ones are in the corpus
def stores(data: bytes) -> None:
    for password in (PASSWORD, None):
        with contextlib.suppress(StoreError):
            store = jks.read(data, password) if jks.is_jks(data) else pkcs12.read(data, password)
            for entry in store.keys:
                with contextlib.suppress(StoreError):
                    password_encryption.open_key(entry.key, PASSWORD)
            for der in store.trusted:
                with contextlib.suppress(StoreError):
                    asn1.certificate_names(der)
    with contextlib.suppress(StoreError):
        asn1.certificate_names(data)


def _pem_seeds() -> list[bytes]:
    key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"
    return [(key + key.replace("PRIVATE KEY", "CERTIFICATE")).encode(), b"-----BEGIN CERTIFICATE-----\nMAA"]


@_target(_pem_seeds)
def pem_text(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(StoreError):
        pem.certificates(text)
    with contextlib.suppress(StoreError):
        pem.read(text, text)


def _login_seeds() -> list[bytes]:
    return [
        b"r=nonceandmore,s=QSXCR+Q6sek8bf92,i=4096",
        b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        b"e=invalid-user",
        b'{"access_token":"a.eyJzdWIiOiJtZSIsImV4cCI6MX0.c","expires_in":60}',
        b"eyJhIjoxfQ.eyJzdWIiOiJtZSIsImlhdCI6MSwiZXhwIjoyfQ.x",
    ]


@_target(_login_seeds)
def login(data: bytes) -> None:
    """Challenges of a broker, responses of a token endpoint."""
    exchange = scram.Scram("SCRAM-SHA-256", "me", PASSWORD, nonce="nonce")
    exchange.first()
    for part in data.split(b"\0", 1):
        try:
            exchange.next(part)
        except AuthenticationError as error:
            _check_message(error)
            break
    oauth_endpoint._json(data)
    with contextlib.suppress(AuthenticationError):
        oauth_tokens.token(data.decode("latin-1"), "there")


def _jaas_seeds() -> list[bytes]:
    return [
        b'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b\\"c";',
        b"a.B required /* x */ a=b // y\n c='d';",
    ]


@_target(_jaas_seeds)
def jaas_line(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ConfigError):
        for module in jaas.parse(text):
            assert module.kind


@_target(lambda: [b"a=b\n", b"# x\n k : v\\\n  w\n!y\r\nz\\u0041=\\t", b"us->eu.topics = a|b,c\n"])
def properties(data: bytes) -> None:
    text = data.decode("latin-1")
    for value in read_properties(text, "f", Problems()).values():
        assert value.origin.line


@_target(lambda: [b"a.*|b[^c]{2,3}", b"(?i)x(?=y)\\p{Lu}\\Q.\\E", b"[a-z&&[^x]]+?(?<n>q)\\k<n>"], 0.5)
def javaregex(data: bytes) -> None:
    with contextlib.suppress(JavaRegexError):
        compile_java(data.decode("utf-8", "replace"))


setattr(convert_module, "time", SimpleNamespace(time=lambda: NOW / 1000))  # noqa: B010  # two runs must agree
# Otherwise the fuzzer would spend its time on digests.
scram.MAX_ITERATIONS = 4200  # type: ignore[misc]
password_encryption._MAX_ITERATIONS = 2500  # type: ignore[misc]
