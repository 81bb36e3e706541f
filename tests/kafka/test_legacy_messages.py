"""Magic 0 and 1: Kafka's log before 0.11, single messages and compressed wrappers."""

import itertools
import random
import struct
import zlib
from typing import Any

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from lab.kafka_classes import KafkaJvm
from twinlog.kafka.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, compress
from twinlog.kafka.legacy_messages import NO_TIMESTAMP, Message, read
from twinlog.kafka.rebuild import rebuild
from twinlog.kafka.records import Record, decode

LOG_APPEND_TIME = 8
NOW = 1_700_000_000_000
CONTENT = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"tombstone", None),
    (b"", b""),
    (b"\xff\xfe", bytes(300)),
    (b"key", b"value"),
]


def message(
    offset: int, key: bytes | None, value: bytes | None, magic: int = 1, attributes: int = 0, timestamp: int = 0
) -> bytes:
    """Written from the protocol's description, independently of the code under test."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(offset: int, inner: bytes, codec: int, magic: int = 1, attributes: int = 0, timestamp: int = 0) -> bytes:
    packed = bytes(compress(codec, inner))
    return message(offset, None, packed, magic, attributes | codec, timestamp)


def test_magic_0_has_no_timestamps() -> None:
    entry = memoryview(message(7, b"k", b"v", magic=0))
    assert read(entry) == (NONE, [Message(7, NO_TIMESTAMP, b"k", b"v")])
    (rebuilt,) = rebuild([entry], start=0, codec=None, max_bytes=1000, now_ms=NOW)
    assert decode(memoryview(rebuilt.data)) == [Record(0, NOW, b"k", b"v")]
    assert (rebuilt.first, rebuilt.last, rebuilt.max_timestamp) == (7, 7, NOW)


def test_magic_1_without_a_timestamp() -> None:
    entry = memoryview(message(7, b"k", b"v", timestamp=NO_TIMESTAMP))
    (rebuilt,) = rebuild([entry], start=0, codec=None, max_bytes=1000, now_ms=NOW)
    assert rebuilt.max_timestamp == NOW


def test_single_messages_become_one_batch() -> None:
    log = [memoryview(message(5 + n, key, value, timestamp=NOW - n)) for n, (key, value) in enumerate(CONTENT)]
    (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=10_000)
    assert decode(memoryview(rebuilt.data)) == [Record(n, NOW - n, *each) for n, each in enumerate(CONTENT)]
    assert (rebuilt.first, rebuilt.last, rebuilt.offsets, rebuilt.max_timestamp) == (5, 10, None, NOW)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_wrapper_of_magic_1_holds_relative_offsets(codec: int) -> None:
    inner = b"".join(message(n, key, value, timestamp=NOW + n) for n, (key, value) in enumerate(CONTENT))
    entry = memoryview(wrapper(105, inner, codec, timestamp=NOW + 5))
    assert read(entry) == (codec, [Message(100 + n, NOW + n, *each) for n, each in enumerate(CONTENT)])
    (rebuilt,) = rebuild([entry], start=102, codec=None, max_bytes=10_000)
    assert rebuilt.data[22] == codec
    assert [record.value for record in decode(memoryview(rebuilt.data))] == [value for _, value in CONTENT[2:]]
    assert (rebuilt.first, rebuilt.last, rebuilt.offsets) == (102, 105, None)


def test_a_compacted_wrapper_keeps_its_gaps() -> None:
    inner = b"".join(message(offset, b"k", b"v") for offset in (0, 3, 9))
    (rebuilt,) = rebuild([memoryview(wrapper(29, inner, GZIP))], start=0, codec=NONE, max_bytes=1000)
    assert list(rebuilt.offsets or ()) == [20, 23, 29]


def test_a_wrapper_of_magic_0_holds_absolute_offsets() -> None:
    inner = b"".join(message(offset, b"k", b"v", magic=0) for offset in (40, 41))
    assert [each.offset for each in read(memoryview(wrapper(41, inner, GZIP, magic=0)))[1]] == [40, 41]


def test_a_wrapper_with_offset_0_leaves_offsets_as_they_are() -> None:
    inner = b"".join(message(n, b"k", b"v") for n in range(3))
    assert [each.offset for each in read(memoryview(wrapper(0, inner, GZIP)))[1]] == [0, 1, 2]


def test_append_time_of_a_wrapper() -> None:
    inner = b"".join(message(n, b"k", b"v", timestamp=n) for n in range(3))
    entry = memoryview(wrapper(2, inner, GZIP, attributes=LOG_APPEND_TIME, timestamp=NOW))
    assert {each.timestamp for each in read(entry)[1]} == {NOW}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_messages_of_kafka_python(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for n, (key, value) in enumerate(CONTENT):
        builder.append(n, NOW + n, key, value)
    log = memoryview(bytes(builder.build()))
    found: list[Message] = []
    while log:  # uncompressed, the builder gives one entry per message
        size = 12 + int.from_bytes(log[8:12], "big")
        # It leaves a wrapper's offset to the broker.
        found += read(log[:size])[1]
        log = log[size:]
    times: itertools.repeat[int] | range = range(NOW, NOW + 9) if magic else itertools.repeat(NO_TIMESTAMP)
    expected = [Message(n, time, *each) for (n, each), time in zip(enumerate(CONTENT), times, strict=False)]
    assert found == expected


@pytest.mark.java
@pytest.mark.parametrize("appended", [False, True], ids=["created", "appended"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4], ids=NAMES[:4])
def test_messages_of_java(kafka_jvm: KafkaJvm, codec: int, magic: int, appended: bool) -> None:
    if appended and not magic:
        pytest.skip("magic 0 has no times")
    entries = _written_by_java(kafka_jvm, codec, magic, appended)
    time = NO_TIMESTAMP if not magic else NOW if appended else None
    expected = [Message(50 + n, n * 10 if time is None else time, *each) for n, each in enumerate(CONTENT)]
    assert [each for entry in entries for each in read(entry)[1]] == expected


def test_malformed_messages_are_rejected() -> None:
    plain = message(3, b"k", b"v", timestamp=NOW)
    for damaged, reason in (
        (plain[:-1], "exceeds"),
        (plain[:15], "truncated"),
        (plain + b"\0", "in an entry of"),
        (plain[:-1] + b"w", "checksum"),
        (message(3, b"k", b"v", magic=2), "unknown magic: 2"),
        (message(3, b"k", None, attributes=GZIP), "without a value"),
        (wrapper(3, b"", GZIP), "without messages"),
        (wrapper(3, message(0, b"k", b"v", magic=0), GZIP), "another magic"),
        (wrapper(3, wrapper(3, plain, GZIP), GZIP), "or is compressed"),
        (wrapper(3, message(4, b"k", b"v"), GZIP), "smaller"),
        (wrapper(3, plain[:-1], GZIP), "exceeds"),
        (wrapper(3, plain, 4), "unknown codec"),
    ):
        with pytest.raises(ValueError, match=reason):
            read(memoryview(damaged))


def test_only_value_errors_come_out_of_damaged_messages() -> None:
    chance = random.Random(1)
    inner = b"".join(message(n, b"key", b"value", timestamp=n) for n in range(5))
    for whole in (message(3, b"key", b"value"), wrapper(4, inner, NONE), wrapper(4, inner, LZ4), inner):
        for _ in range(1000):
            copy = bytearray(whole)
            for _ in range(chance.randrange(1, 4)):
                copy[chance.randrange(len(copy))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            del copy[chance.randrange(len(copy), len(copy) + 20) :]
            if len(copy) > 16:  # so that more than the checksum is tried
                copy[12:16] = zlib.crc32(copy[16:]).to_bytes(4, "big")
            try:
                read(memoryview(copy))
            except ValueError as error:
                assert str(error)  # noqa: PT017  (some changes leave a good message)


def _written_by_java(kafka_jvm: KafkaJvm, codec: int, magic: int, appended: bool) -> list[memoryview]:
    jvm: Any = kafka_jvm.jvm
    record = jvm.org.apache.kafka.common.record
    kinds = record.TimestampType
    kind = kinds.NO_TIMESTAMP_TYPE if not magic else kinds.LOG_APPEND_TIME if appended else kinds.CREATE_TIME
    compression = getattr(jvm.org.apache.kafka.common.compress.Compression, NAMES[codec])().build()
    buffer = jvm.java.nio.ByteBuffer.allocate(4096)
    builder = record.internal.MemoryRecords.builder(buffer, magic, compression, kind, 50, NOW)
    for n, (key, value) in enumerate(CONTENT):
        builder.append(n * 10 if magic else NO_TIMESTAMP, key, value)
    written = builder.build().buffer()
    log = memoryview(bytes(written.array()))[: written.remaining()]
    entries: list[memoryview] = []
    while log:
        size = 12 + int.from_bytes(log[8:12], "big")
        entries.append(log[:size])
        log = log[size:]
    return entries
