"""Rebuilt batches, read by kafka-python and Java's classes, and accepted by a broker."""

from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from lab.cluster import Cluster
from lab.kafka_classes import KafkaJvm
from lab.raw_protocol import RawProtocol
from tests.kafka.conftest import DELETE_HORIZON, LOG_APPEND_TIME, NOW, PLENTY, TRANSACTIONAL, batch, checked, ones, run
from twinlog.kafka.batch import stamp
from twinlog.kafka.codecs import NAMES, NONE, SNAPPY
from twinlog.kafka.rebuild import Rebuilt, rebuild, recompress
from twinlog.kafka.records import Record, decode

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


@pytest.mark.heavy
@settings(max_examples=100)
@given(logs(), st.sampled_from([None, 0, 1, 2, 3, 4]), st.sampled_from([100, 300, 1500, PLENTY]), st.data())
def test_random_logs(
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
    plain = recompress(memoryview(rebuilt.data), NONE)[0]
    stamp(memoryview(plain), NONE, 1, 1, 1)
    found = DefaultRecordBatch(bytes(plain))
    assert found.validate_crc()
    return [
        (each.timestamp, each.key, each.value, tuple((name.encode(), value) for name, value in each.headers))
        for each in found
    ]


@pytest.mark.java
@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_java_reads_rebuilt_batches(kafka_jvm: KafkaJvm, codec: int) -> None:
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
def test_rebuilt_batches_of_librdkafka_are_accepted_by_a_broker(us: Cluster, topic: str) -> None:
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
    with RawProtocol(us.client_properties()) as wire:
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
