"""The rebuild lane: the same records, byte for byte, in batches that a broker takes."""

import os
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from twinlog.kafka.batch import stamp
from twinlog.kafka.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress
from twinlog.kafka.rebuild import Rebuilt, rebuild, recompress, split
from twinlog.kafka.records import Record, decode
from twinlog.lab.cluster import Cluster
from twinlog.lab.jvm import KafkaJvm
from twinlog.lab.wire import Wire

HEADER = struct.Struct(">qiibIhiqqqhii")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
NOW = 1_700_000_000_000
PLENTY = 1 << 20


def varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def section(records: Sequence[Record], base_offset: int, base_timestamp: int, attributes: int = 0) -> bytes:
    out = b""
    for record in records:
        body = bytes([attributes]) + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
        body += field(record.key) + field(record.value) + varint(len(record.headers))
        body += b"".join(field(name) + field(value) for name, value in record.headers)
        out += varint(len(body)) + body
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
    """As a broker keeps it, with the producer's fields of a stranger. Shares nothing with the code under test."""
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
    """The records with their source offsets, after a look at all that a broker demands of a batch."""
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


# What is kept


def test_tiny_batches_become_one() -> None:
    records = run(1000)
    rebuilt = rebuild(ones(records), start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == records
    assert [each.offsets for each in rebuilt] == [None]


@pytest.mark.parametrize("size", [*range(130), 440, 441, 442, 443, 450, 460, 8170, 8180, 8190, 8200, 2_100_000])
def test_records_of_all_sizes_pass(size: int) -> None:
    records = [Record(n, NOW, None, bytes([n]) * size) for n in range(3)]
    for log in (ones(records), [batch(records)], [*ones(records[:1]), batch(records[1:])]):
        assert checked(rebuild(log, start=0, codec=None, max_bytes=1 << 24), 1 << 24) == records


@pytest.mark.parametrize("count", [64, 65, 8192, 8193, 20_000])
def test_many_records_pass(count: int) -> None:
    records = run(count, size=1)
    for log in (ones(records), [batch(records)]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert checked([rebuilt]) == records


def test_gaps_close_and_are_told() -> None:
    records = [record for record in run(300, offset=1000) if record.offset % 7 not in {0, 3}]
    (rebuilt,) = rebuild([batch(records, base=995, last=1400)], start=0, codec=None, max_bytes=PLENTY)
    assert checked([rebuilt]) == records
    assert rebuilt.offsets is not None


def test_a_gap_between_batches_is_one_too() -> None:
    records = [*run(3), *run(3, offset=10)]
    for log in (ones(records), [batch(records[:3]), batch(records[3:])]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert list(rebuilt.offsets or ()) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("codec", range(5))
def test_append_time_becomes_create_time(codec: int) -> None:
    records = run(100, step=3)
    log = [
        batch(records[:99], codec, LOG_APPEND_TIME, max_timestamp=NOW + 500),
        batch(records[99:], codec, LOG_APPEND_TIME, max_timestamp=NOW + 400),
    ]
    (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
    assert [record.timestamp for record in checked([rebuilt])] == [NOW + 500] * 99 + [NOW + 400]


def test_flags_of_the_source_are_gone() -> None:
    records = run(3)
    log = [
        batch(records[:1], flags=TRANSACTIONAL | DELETE_HORIZON),
        batch(records[1:], flags=TRANSACTIONAL | DELETE_HORIZON),
    ]
    assert checked(rebuild(log, start=0, codec=None, max_bytes=PLENTY)) == records


def test_a_delete_horizon_in_the_base_timestamp_does_not_move_records() -> None:
    """With bit 6 the base timestamp is the horizon, far from the records' own times; the deltas count from it."""
    records = run(3)
    log = [batch(records, flags=DELETE_HORIZON, base_timestamp=NOW + 86_400_000)]
    assert checked(rebuild(log, start=0, codec=None, max_bytes=PLENTY)) == records


def test_times_may_run_backwards_and_far() -> None:
    times = [
        NOW,
        NOW - 1,
        NOW - 64,
        NOW - 65,
        NOW + 63,
        NOW + 64,
        NOW - 8192,
        NOW - 8193,
        NOW + 8191,
        NOW + 8192,
        0,
        -1,
        1 << 50,
    ]
    records = [Record(n, time, b"k", b"v") for n, time in enumerate(times)]
    for log in (ones(records), [batch(records)], [batch(records, base_timestamp=0)]):
        (rebuilt,) = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
        assert checked([rebuilt]) == records


def test_times_too_far_apart_for_one_batch_get_two() -> None:
    far = [Record(0, -(1 << 62), None, None), Record(1, (1 << 63) - 1, None, None), Record(2, 5, None, None)]
    rebuilt = rebuild(ones(far), start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == far
    assert [each.count for each in rebuilt] == [1, 2]


def test_headers_are_bytes() -> None:
    headers = ((b"\xff\xfe", b"\x00"), (b"", None), (b"same", b"1"), (b"same", b"1"), (b"\xc3\x28", b""))
    records = [Record(n, NOW, None, None, headers) for n in range(3)]
    assert checked(rebuild([*ones(records[:1]), batch(records[1:])], start=0, codec=None, max_bytes=PLENTY)) == records


def test_a_records_own_attributes_are_kept() -> None:
    """No client gives them a meaning so far; whoever does will want them copied."""
    records = run(5)
    log = [batch(records[:1], record_attributes=0x7F), batch(records[1:], record_attributes=0x81)]
    (rebuilt,) = rebuild(log, start=1, codec=None, max_bytes=PLENTY)
    assert rebuilt.data[61:] == section([r._replace(offset=r.offset - 1) for r in records[1:]], 0, NOW + 1, 0x81)


def test_what_a_compacted_log_leaves_empty_is_passed_over() -> None:
    empty = memoryview(HEADER.pack(5, 49, 7, 2, 0, 0, 9, NOW, NOW, 1, 1, 1, 0))
    records = [*run(2), *run(2, offset=20)]
    assert (
        checked(rebuild([*ones(records[:2]), empty, batch(records[2:])], start=0, codec=None, max_bytes=PLENTY))
        == records
    )
    assert rebuild([empty], start=0, codec=None, max_bytes=PLENTY) == []
    assert rebuild([], start=0, codec=None, max_bytes=PLENTY) == []


# What is left out, and where batches end


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("start", [0, 1, 5, 9, 10, 11, 50])
def test_records_before_the_start_are_left_out(codec: int, start: int) -> None:
    records = run(12)
    rebuilt = rebuild([batch(records[:10], codec), *ones(records[10:])], start=start, codec=NONE, max_bytes=PLENTY)
    assert checked(rebuilt) == records[start:]


def test_records_to_skip_leave_a_gap() -> None:
    records = run(6)
    log = [*ones(records[:2]), batch(records[2:4], GZIP), batch(records[4:], record_attributes=3)]
    rebuilt = rebuild(log, start=0, codec=NONE, max_bytes=PLENTY, skip={0, 2, 4, 99})
    assert checked(rebuilt) == [records[1], records[3], records[5]]
    assert rebuilt[0].data[-len(section(records[5:], 3, records[1].timestamp, 3)) :][1] == 3
    assert rebuild(log, start=0, codec=None, max_bytes=PLENTY, skip=set(range(6))) == []


def test_a_batch_ends_before_it_is_too_large() -> None:
    records = run(10, size=100)
    exact = len(rebuild([batch(records)], start=0, codec=None, max_bytes=PLENTY)[0].data)
    for max_bytes, counts in ((exact, [10]), (exact - 1, [9, 1]), (exact // 2, [4, 4, 2]), (10, [1] * 10)):
        for log in (ones(records), [batch(records)]):
            rebuilt = rebuild(log, start=0, codec=None, max_bytes=max_bytes)
            assert checked(rebuilt, max_bytes) == records
            assert [each.count for each in rebuilt] == counts


def test_a_batch_ends_when_it_has_enough_records() -> None:
    rebuilt = rebuild(ones(run(10)), start=0, codec=None, max_bytes=PLENTY, max_records=4)
    assert [(each.first, each.last) for each in rebuilt] == [(0, 3), (4, 7), (8, 9)]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_compression_makes_too_large_is_halved(codec: int) -> None:
    """Noise grows when it is compressed: what fits in the clear does not fit any more."""
    records = run(8, size=1000)
    plain = len(rebuild([batch(records)], start=0, codec=NONE, max_bytes=PLENTY)[0].data)
    rebuilt = rebuild([batch(records, codec)], start=0, codec=None, max_bytes=plain)
    assert checked(rebuilt, plain) == records
    assert [each.count for each in rebuilt] == [4, 4]


def test_a_large_batch_is_split() -> None:
    records = run(100, size=100)
    rebuilt = split(batch(records, ZSTD), 2000)
    assert checked(rebuilt, 2000) == records
    assert len(rebuilt) > 5
    assert {each.data[22] for each in rebuilt} == {ZSTD}


def test_codecs_are_kept_and_not_mixed() -> None:
    records = run(8)
    codecs = [NONE, NONE, GZIP, GZIP, NONE, ZSTD, LZ4, LZ4]
    log = [batch([record], codec) for record, codec in zip(records, codecs, strict=True)]
    rebuilt = rebuild(log, start=0, codec=None, max_bytes=PLENTY)
    assert checked(rebuilt) == records
    assert [(each.data[22], each.count) for each in rebuilt] == [(NONE, 2), (GZIP, 2), (NONE, 1), (ZSTD, 1), (LZ4, 2)]


@pytest.mark.parametrize("codec", range(5))
def test_codecs_are_mixed_when_the_target_has_its_own(codec: int) -> None:
    records = run(50)
    log = [batch(records[n * 10 : n * 10 + 10], n) for n in range(5)]
    (rebuilt,) = rebuild(log, start=0, codec=codec, max_bytes=PLENTY)
    assert checked([rebuilt]) == records
    assert rebuilt.data[22] == codec


# Any log at all

FIELD = st.none() | st.binary(max_size=80)
NAME = st.text(max_size=5).map(str.encode) | st.binary(max_size=2)
HEADERS = st.lists(st.tuples(NAME, FIELD), max_size=3).map(tuple)
TIMES = st.one_of(st.integers(NOW, NOW + 100), st.integers(NOW - 10**9, NOW + 10**9), st.integers(-(2**40), 2**45))


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[list[Record], memoryview]]:
    """Batches with what their records should become."""
    log: list[tuple[list[Record], memoryview]] = []
    offset = draw(st.integers(-1, 2**40))
    for _ in range(draw(st.integers(0, 6))):
        base = offset + 1
        records: list[Record] = []
        for _ in range(draw(st.sampled_from([1, 1, 2, 5, 70]))):
            offset += draw(st.sampled_from([1, 1, 1, 2, 200]))
            records.append(Record(offset, draw(TIMES), draw(FIELD), draw(FIELD), draw(HEADERS)))
        flags = draw(st.sampled_from([0, 0, 0, LOG_APPEND_TIME, DELETE_HORIZON, TRANSACTIONAL]))
        raw = batch(records, draw(st.integers(0, 4)), flags, base=draw(st.sampled_from([base, records[0].offset])))
        if flags == LOG_APPEND_TIME:
            appended = max(record.timestamp for record in records)
            records = [record._replace(timestamp=appended) for record in records]
        log.append((records, raw))
    return log


@settings(deadline=None, max_examples=100)
@given(logs(), st.sampled_from([None, 0, 1, 2, 3, 4]), st.sampled_from([100, 300, 1500, PLENTY]), st.data())
def test_any_log_comes_through(
    log: list[tuple[list[Record], memoryview]], codec: int | None, max_bytes: int, data: st.DataObject
) -> None:
    records = [record for each, _ in log for record in each]
    start = data.draw(st.sampled_from([0, *(record.offset for record in records)]))
    most = data.draw(st.sampled_from([1, 3, 1000]))
    rebuilt = rebuild([raw for _, raw in log], start=start, codec=codec, max_bytes=max_bytes, max_records=most)
    expected = [record for record in records if record.offset >= start]
    assert checked(rebuilt, max_bytes) == expected
    assert all(each.count <= most for each in rebuilt)
    for each in rebuilt:
        ours = [record[1:] for record in decode(memoryview(each.data))]
        if all(is_text(name) for *_, headers in ours for name, _ in headers):
            assert read_by_kafka_python(each) == ours


def is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_by_kafka_python(rebuilt: Rebuilt) -> list[Any]:
    """Another reader's view. It lacks the libraries of most codecs here, and takes headers' names for text."""
    plain = recompress(memoryview(rebuilt.data), NONE)
    stamp(memoryview(plain), NONE, 1, 1, 1)
    found = DefaultRecordBatch(bytes(plain))
    assert found.validate_crc()
    return [
        (each.timestamp, each.key, each.value, tuple((name.encode(), value) for name, value in each.headers))
        for each in found
    ]


# Recompression


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("other", range(5))
def test_recompression_changes_nothing_else(codec: int, other: int) -> None:
    whole = batch(run(30), codec, LOG_APPEND_TIME | TRANSACTIONAL, base=0, last=77)
    again = recompress(whole, other)
    before, after = list(HEADER.unpack_from(whole)), list(HEADER.unpack_from(again))
    assert after[1] + 12 == len(again)
    assert after[5] == LOG_APPEND_TIME | TRANSACTIONAL | other
    before[1] = before[5] = after[1] = after[5] = 0
    assert before == after
    assert decode(memoryview(again)) == decode(whole)


def test_recompression_leaves_an_empty_batch_alone() -> None:
    empty = memoryview(HEADER.pack(5, 49, 7, 2, 0, 0, 9, NOW, NOW, 1, 1, 1, 0))
    assert recompress(empty, ZSTD) == empty


# What is malformed


def malformed() -> list[tuple[str, bytes, str]]:
    one, five = bytes(batch(run(1))), bytes(batch(run(5)))
    at = HEADER.size

    def with_count(count: int) -> bytes:
        return five[:57] + struct.pack(">i", count) + five[61:]

    def resized(data: bytes) -> bytes:
        return data[:8] + struct.pack(">i", len(data) - 12) + data[12:]

    return [
        ("nothing", b"", "cut off"),
        ("a piece", one[:30], "cut off"),
        ("a short header", one[:60], "cut off"),
        ("a cut record", one[:-1], "bytes in"),
        ("more than the batch", one + b"\0", "bytes in"),
        ("a record less", resized(five[:-1]), "where the batch ends"),
        ("too few counted", with_count(4), "where the batch ends"),
        ("too many counted", with_count(6), "cut off"),
        ("none counted", with_count(0), "where the batch ends"),
        ("a negative count", with_count(-1), "-1 records"),
        ("a huge count", with_count(2**31 - 1), "cut off"),
        ("magic 3", one[:16] + b"\x03" + one[17:], "magic"),
        ("codec 5", one[:22] + b"\x05" + one[23:], "codec"),
        ("a control batch", one[:22] + bytes([CONTROL]) + one[23:], "control"),
        ("a negative length", five[:at] + b"\x01" + five[at + 1 :], "length or offset"),
        ("an endless length", resized(five[:at] + b"\xff" * 20), "more than 32 bits"),
        ("an endless time", resized(five[: at + 2] + b"\xff" * 20), "more than 64 bits"),
        ("an endless offset", resized(five[: at + 3] + b"\xff" * 20), "more than 32 bits"),
        ("a negative offset", five[: at + 3] + b"\x01" + five[at + 4 :], "length or offset"),
        ("equal offsets", bytes(batch([*run(1), *run(1)])), "length or offset"),
        ("falling offsets", bytes(batch([*run(1, offset=4), *run(1, offset=3)], base=0, last=9)), "length or offset"),
        ("an offset after the last", bytes(batch(run(5), last=3)), "ends at 3"),
        ("a record without fields", resized(five[:57] + b"\0\0\0\x01" + b"\x06\0\0\0"), "length or offset"),
        (
            "a time out of bounds",
            bytes(batch(run(1), base_timestamp=NOW - 5))[:27]
            + struct.pack(">q", 2**63 - 1)
            + bytes(batch(run(1), base_timestamp=NOW - 5))[35:],
            "64 bits",
        ),
    ]


@pytest.mark.parametrize(("raw", "reason"), [pytest.param(raw, why, id=name) for name, raw, why in malformed()])
def test_what_is_malformed_is_told(raw: bytes, reason: str) -> None:
    for codec in (None, NONE):
        with pytest.raises(ValueError, match=reason):
            rebuild([memoryview(raw)], start=0, codec=codec, max_bytes=PLENTY)


def test_batches_out_of_order_are_refused() -> None:
    for log in (ones([*run(1, offset=5), *run(1, offset=5)]), [batch(run(5)), batch(run(3, offset=4))]):
        with pytest.raises(ValueError, match="after"):
            rebuild(log, start=0, codec=None, max_bytes=PLENTY)


@pytest.mark.parametrize("codec", range(5))
def test_only_value_errors_come_out_of_damaged_batches(codec: int) -> None:
    chance = random.Random(codec)
    for count in (1, 4, 70):
        whole = bytes(batch(run(count), codec))
        for _ in range(700):
            copy = bytearray(whole)
            for _ in range(chance.randrange(1, 4)):
                place = chance.randrange(min(len(copy), chance.choice([70, 10**9])))
                copy[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            view = memoryview(copy)[: chance.randrange(len(copy)) if chance.random() < 0.1 else len(copy)]
            for wanted in (None, NONE):
                try:
                    checked(rebuild([view], start=0, codec=wanted, max_bytes=PLENTY))
                except ValueError as error:
                    assert str(error)  # noqa: PT017  (some changes leave a good batch)
            try:
                recompress(view, ZSTD)
            except ValueError as error:
                assert str(error)  # noqa: PT017


# The judges


@pytest.mark.java
@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_java_reads_what_was_rebuilt(kafka_jvm: KafkaJvm, codec: int) -> None:
    records = [*run(3, offset=7), *run(70, offset=20, size=600, step=-5)]
    (rebuilt,) = rebuild([*ones(records[:3]), batch(records[3:], SNAPPY)], start=0, codec=codec, max_bytes=PLENTY)
    stamp(memoryview(rebuilt.data), codec, 1, 1, 1)
    jvm: Any = kafka_jvm.jvm
    buffer = jvm.java.nio.ByteBuffer.wrap(bytes(rebuilt.data))
    theirs = (
        jvm.org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(buffer).batches().iterator().next()
    )
    theirs.ensureValid()
    assert theirs.maxTimestamp() == rebuilt.max_timestamp
    to_bytes = jvm.org.apache.kafka.common.utils.Utils.toNullableArray
    each = theirs.iterator()
    for n, expected in enumerate(records):
        record = each.next()
        assert (record.offset(), record.timestamp(), to_bytes(record.value())) == (
            n,
            expected.timestamp,
            expected.value,
        )
    assert not each.hasNext()


@pytest.mark.broker
def test_what_librdkafka_wrote_is_rebuilt_and_taken_by_a_broker(us: Cluster, topic: str) -> None:
    source, target = f"{topic}-source", f"{topic}-target"
    us.create_topic(source)
    us.create_topic(target)
    sent: list[tuple[Any, ...]] = []
    for codec in NAMES:
        config = {**us.librdkafka_properties(), "compression.type": codec, "linger.ms": 50, "enable.idempotence": True}
        producer = Producer(config)
        for n in range(200):
            time, key = NOW + n, b"key %d" % n if n % 3 else None
            value = codec.encode() * n if n % 7 else None
            producer.produce(source, value, key, timestamp=time, headers=[("name", b"\xff"), ("name", None)])
            sent.append((time, key, value, ((b"name", b"\xff"), (b"name", None))))
        assert producer.flush(30) == 0
    with Wire(us.client_properties()) as wire:
        raw = [memoryview(each) for each in wire.batches(source, 0)]
        assert {each[22] & 7 for each in raw} == set(range(5))
        rebuilt = rebuild(raw, start=0, codec=None, max_bytes=20_000)
        assert [record[1:] for record in checked(rebuilt, 20_000)] == sent
        for each in rebuilt:
            # From no producer in particular: a stranger's id would need one that the broker has given out.
            stamp(memoryview(each.data), each.data[22], -1, -1, -1)
            assert wire.produce(target, 0, bytes(each.data)) == each.first
        stored = [record for each in wire.batches(target, 0) for record in decode(memoryview(each))]
    assert [record[1:] for record in stored] == sent
    assert [record.offset for record in stored] == list(range(1000))
