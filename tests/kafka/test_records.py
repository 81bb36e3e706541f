"""Records one by one, against kafka-python's reader and writer, and Java's."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from lab.kafka_classes import KafkaJvm
from twinlog.kafka.batch import crc_valid
from twinlog.kafka.records import Headers, Record, decode, encode, read_header, read_unsigned, signed

FIELD = st.none() | st.binary(max_size=200)
TIME = st.integers(0, 1 << 42)
HEADERS = st.lists(st.tuples(st.text(max_size=10).map(str.encode), st.none() | st.binary(max_size=10)), max_size=4)
FIELDS = st.tuples(TIME, FIELD, FIELD, HEADERS.map(tuple))


@given(st.lists(FIELDS, min_size=1, max_size=100))
def test_kafka_python_reads_encoded_batches(records: list[tuple[int, bytes | None, bytes | None, Headers]]) -> None:
    batch = bytes(encode(records))
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [
        (each.timestamp, each.key, each.value, tuple((name.encode(), content) for name, content in each.headers))
        for each in theirs
    ] == records
    assert (theirs.max_timestamp, theirs.last_offset_delta) == (max(each[0] for each in records), len(records) - 1)
    assert decode(memoryview(batch)) == [Record(n, *each) for n, each in enumerate(records)]
    assert crc_valid(memoryview(batch), read_header(memoryview(batch)).crc)


@given(st.lists(FIELDS, min_size=1, max_size=50), st.sampled_from([0, 1]))
def test_batches_of_kafka_python_are_decoded(
    records: list[tuple[int, bytes | None, bytes | None, Headers]], codec: int
) -> None:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for n, (time, key, value, headers) in enumerate(records):
        builder.append(n, time, key, value, [(name.decode(), content) for name, content in headers])
    assert decode(memoryview(bytes(builder.build()))) == [Record(n, *each) for n, each in enumerate(records)]


def test_names_of_headers_need_not_be_text() -> None:
    headers = ((b"\xff\xfe", b"\x00"), (b"", None), (b"twice", b"1"), (b"twice", b"1"))
    assert decode(memoryview(encode([(5, None, None, headers)]))) == [Record(0, 5, None, None, headers)]


@pytest.mark.java
def test_java_reads_what_is_encoded(kafka_jvm: KafkaJvm) -> None:
    content: list[tuple[int, bytes | None, bytes | None, Headers]] = [
        (1000, b"key", b"value", ()),
        (900, None, b"v", ((b"name", b"content"), (b"name", None))),
        (5_000_000_000, b"tombstone", None, ()),
        (1000, b"", b"", ()),
    ]
    jvm = kafka_jvm.jvm
    buffer = jvm.java.nio.ByteBuffer.wrap(bytes(encode(content)))
    records = jvm.org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(buffer)
    batch = records.batches().iterator().next()
    batch.ensureValid()
    assert (batch.maxTimestamp(), batch.lastOffset()) == (5_000_000_000, 3)
    found: list[tuple[Any, ...]] = []
    rest = batch.iterator()
    to_bytes = jvm.org.apache.kafka.common.utils.Utils.toNullableArray
    while rest.hasNext():
        record = rest.next()
        headers = tuple((each.key().encode(), each.value()) for each in record.headers())
        found.append((record.offset(), record.timestamp(), to_bytes(record.key()), to_bytes(record.value()), headers))
    assert found == [(n, *fields) for n, fields in enumerate(content)]


def test_varints_of_all_sizes() -> None:
    for bits in (0, 6, 7, 13, 14, 20, 21, 27, 28, 31, 32, 41, 42, 62, 63):
        for number in {(1 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1}:
            if -(1 << 63) <= number < 1 << 63:
                packed = signed(number)
                assert read_unsigned(packed + b"\x01", 0, 64) == (number << 1 ^ number >> 63, len(packed))
    assert signed(-1) == b"\x01"
    assert signed(150) == b"\xac\x02"
    assert signed(-(1 << 63)) == b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize("data", [b"\xff" * 5, b"\xff" * 11, b"\xff\xff\xff\xff\x1f"])
def test_endless_varint_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="more than 32 bits"):
        read_unsigned(data, 0, 32)


def test_batch_without_records_is_rejected() -> None:
    with pytest.raises(ValueError, match="without records"):
        encode([])


def test_malformed_batches_are_rejected() -> None:
    whole = bytes(encode([(1, b"k", b"v", ()), (2, b"k", b"v", ())]))
    for damaged, reason in (
        (b"", "truncated batch"),
        (whole[:60], "truncated batch"),
        (whole[:-1], "bytes in"),
        (whole[:16] + b"\x03" + whole[17:], "unknown magic"),
        (whole[:57] + b"\0\0\0\x01" + whole[61:], "extra bytes"),
        (whole[:57] + b"\0\0\0\x03" + whole[61:], "truncated records"),
        (whole[:57] + b"\xff\xff\xff\xff" + whole[61:], "-1 records"),
        (whole[:57] + b"\x7f\xff\xff\xff" + whole[61:], "2147483647 records"),
        (whole[:61] + b"\x04" + whole[62:], "size does not match"),
        (whole[:65] + b"\x7f" + whole[66:], "negative|exceeds"),
    ):
        with pytest.raises(ValueError, match=reason):
            decode(memoryview(damaged))


def test_only_value_errors_come_out_of_damaged_batches() -> None:
    chance = random.Random(1)
    whole = bytes(encode([(n, b"key", b"value" * n, ((b"name", b"content"),) * n) for n in range(5)]))
    for _ in range(3000):
        copy = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            copy[chance.randrange(len(copy))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        try:
            decode(memoryview(copy))
        except ValueError as error:
            assert str(error)  # noqa: PT017  (some changes leave a good batch)
