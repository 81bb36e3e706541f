"""Handmade batches with fields that the lab's `encode` does not offer, and checks of rebuilt batches."""

import os
import struct
from collections.abc import Sequence

from lab.batches import write_varint
from twinlog.kafka.codecs import NONE, compress, decompress
from twinlog.kafka.rebuild import Rebuilt
from twinlog.kafka.records import Record, decode

HEADER = struct.Struct(">qiibIhiqqqhii")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
NOW = 1_700_000_000_000
PLENTY = 1 << 20


def field(data: bytes | None) -> bytes:
    return write_varint(-1) if data is None else write_varint(len(data)) + data


def section(records: Sequence[Record], base_offset: int, base_timestamp: int, attributes: int = 0) -> bytes:
    out = b""
    for record in records:
        body = (
            bytes([attributes])
            + write_varint(record.timestamp - base_timestamp)
            + write_varint(record.offset - base_offset)
        )
        body += field(record.key) + field(record.value) + write_varint(len(record.headers))
        body += b"".join(field(name) + field(value) for name, value in record.headers)
        out += write_varint(len(body)) + body
    return out


def batch(
    records: Sequence[Record],
    codec: int = NONE,
    flags: int = 0,
    *,
    base: int | None = None,
    last: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    record_attributes: int = 0,
) -> memoryview:
    """As in a broker's log, with some producer's fields. Independent of the code under test."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    base_timestamp = records[0].timestamp if base_timestamp is None else base_timestamp
    max_timestamp = max(record.timestamp for record in records) if max_timestamp is None else max_timestamp
    packed = bytes(compress(codec, section(records, base, base_timestamp, record_attributes)))
    size, count = 49 + len(packed), len(records)
    producer = (4711, 3, 99)
    fields = (base, size, 7, 2, 0, codec | flags, last - base, base_timestamp, max_timestamp, *producer, count)
    return memoryview(HEADER.pack(*fields) + packed)


def run(count: int, offset: int = 0, size: int = 20, step: int = 1) -> list[Record]:
    return [Record(offset + n, NOW + n * step, b"key", os.urandom(size)) for n in range(count)]


def ones(records: Sequence[Record], flags: int = 0) -> list[memoryview]:
    return [batch([record], flags=flags) for record in records]


def checked(rebuilt: Sequence[Rebuilt], max_bytes: int = PLENTY) -> list[Record]:
    """The records with their source offsets, after checking everything that a broker requires."""
    found: list[Record] = []
    for each in rebuilt:
        base, size, epoch, magic, _, attributes, last, base_time, max_time, *producer, count = HEADER.unpack_from(
            each.data
        )
        records = decode(memoryview(each.data))
        times = [record.timestamp for record in records]
        assert (base, size + 12, epoch, magic, producer) == (0, len(each.data), -1, 2, [-1, -1, -1])
        assert attributes in range(5)
        assert [record.offset for record in records] == list(range(count))
        assert (last, base_time, max_time) == (count - 1, times[0], max(times))
        assert (each.count, each.max_timestamp) == (count, max_time)
        if count > 1:
            assert len(each.data) <= max_bytes
            assert 61 + len(decompress(attributes, memoryview(each.data)[61:])) <= max_bytes
        offsets = list(range(each.first, each.last + 1)) if each.offsets is None else list(each.offsets)
        assert (offsets[0], offsets[-1], len(offsets)) == (each.first, each.last, count)
        assert (each.offsets is None) == (each.last - each.first == count - 1)
        found += [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=True)]
    return found
