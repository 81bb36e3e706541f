"""Comparison of two logs: equal records in the same order."""

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from lab import batches
from lab.access_logs import HEADER, access_log
from lab.batches import Record
from lab.cluster import Cluster
from lab.compare_logs import Comparison, compare, read, tally
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions

Sent = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]], int]
NOW = 1_700_000_000_000
Change = Callable[[list[Sent]], list[Sent]]
RECORDS: list[Sent] = [
    (b"k", b"v", [("h", b"1"), ("h", b"1"), ("n", None)], 1_700_000_000_000),
    (None, b"v", [], 1_700_000_000_001),
    (b"k", None, [], 1_700_000_000_000),
    (b"", b"", [], 1_700_000_000_002),
]


def publish(cluster: Cluster, topic: str, records: list[Sent]) -> None:
    cluster.create_topic(topic, partitions=2, configs={"retention.ms": "-1"})
    producer = Producer(cluster.librdkafka_properties())
    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition=1, headers=headers, timestamp=timestamp)
    producer.flush()


def write(cluster: Cluster, topic: str, *groups: list[Record], codec: str = "none") -> None:
    """One batch per group."""
    cluster.create_topic(topic, configs={"retention.ms": "-1"})
    with RawProtocol(cluster.client_properties()) as raw:
        for group in groups:
            raw.produce(topic, 0, batches.encode(group, codec))


@pytest.mark.broker
def test_equal_logs_are_equal(us: Cluster, eu: Cluster, topic: str) -> None:
    publish(us, topic, RECORDS)
    publish(eu, f"us.{topic}", RECORDS)
    outcome = compare(us.client_properties(), topic, eu.client_properties(), f"us.{topic}")
    assert (outcome.records, outcome.differences) == (4, ())
    with EndOffsets(eu) as ends:
        assert (ends.total(f"us.{topic}"), ends.total("not-there")) == (4, 0)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("change", "position"),
    [
        pytest.param(lambda r: [*r[:2], (b"k", b"", [], r[2][3]), r[3]], 2, id="null is not empty"),
        pytest.param(lambda r: [(*r[0][:2], r[0][2][:2], r[0][3]), *r[1:]], 0, id="a header is missing"),
        pytest.param(lambda r: [(*r[0][:3], r[0][3] + 1), *r[1:]], 0, id="different timestamp"),
        pytest.param(lambda r: [r[1], r[0], *r[2:]], 0, id="different order"),
        pytest.param(lambda r: r[:3], 3, id="one is missing"),
        pytest.param(lambda r: [*r, r[3]], 4, id="one is duplicated"),
    ],
)  # fmt: skip
def test_any_difference_is_found(us: Cluster, eu: Cluster, topic: str, change: Change, position: int) -> None:
    publish(us, topic, RECORDS)
    publish(eu, topic, change(RECORDS))
    (difference,) = compare(us.client_properties(), topic, eu.client_properties(), topic).differences
    assert (difference.partition, difference.position) == (1, position)
    assert str(difference).startswith(f"partition 1, record {position}: ")


@pytest.mark.broker
def test_header_names_are_bytes_and_long_values_are_truncated(us: Cluster, eu: Cluster, topic: str) -> None:
    write(us, topic, [Record(NOW, b"k", bytes(1_000_000), ((b"\xff", None),))])
    write(eu, topic, [Record(NOW, b"k", bytes(1_000_000), ((b"\xfe", None),))])
    (difference,) = compare(us.client_properties(), topic, eu.client_properties(), topic).differences
    assert str(difference).startswith(
        "partition 0, record 0: different headers: (time 1700000000000, key b'k', value b'"
    )
    assert "(1,000,000 bytes), headers {b'\\xff': null})" in str(difference)
    assert len(str(difference)) < 600


@pytest.mark.broker
def test_batch_boundaries_and_codecs_do_not_matter_by_default(us: Cluster, eu: Cluster, topic: str) -> None:
    records = [Record(NOW + number, b"%d" % number, b"v") for number in range(100)]
    write(us, topic, records[:30], records[30:], codec="zstd")
    write(eu, topic, records[:70], records[70:], codec="lz4")
    properties = us.client_properties(), topic, eu.client_properties(), topic
    assert compare(*properties) == Comparison(100, ())
    (difference,) = compare(*properties, codecs=True).differences
    assert ": different codec: " in str(difference)
    assert (difference.left.codec, difference.right.codec) == ("zstd", "lz4")


@pytest.mark.broker
def test_timestamp_types_are_compared_on_request(us: Cluster, eu: Cluster, topic: str) -> None:
    us.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    with RawProtocol(us.client_properties()) as raw:
        raw.produce(topic, 0, batches.encode([Record(NOW, b"k", b"v")]))
    (written,) = read(us.client_properties(), topic)
    write(eu, topic, [Record(written.timestamp, b"k", b"v")])
    properties = us.client_properties(), topic, eu.client_properties(), topic
    assert compare(*properties) == Comparison(1, ())
    (difference,) = compare(*properties, time_types=True).differences
    assert (difference.left.time_type, difference.right.time_type) == ("LogAppendTime", "CreateTime")


@pytest.mark.broker
def test_aborted_and_open_transactions_are_omitted_by_default(us: Cluster, eu: Cluster, topic: str) -> None:
    us.create_topic(topic)
    with RawProtocol(us.client_properties()) as raw:
        producer = Transactions(raw, topic)
        producer.produce(topic, 0, [Record(NOW, b"k", b"aborted")])
        producer.abort()
        producer.produce(topic, 0, [Record(NOW, b"k", b"committed")])
        producer.commit()
        producer.produce(topic, 0, [Record(NOW, b"k", b"open")])  # times out after 10 minutes
    write(eu, topic, [Record(NOW, b"k", b"committed")])
    properties = us.client_properties(), topic, eu.client_properties(), topic
    assert compare(*properties) == Comparison(1, ())
    (difference,) = compare(*properties, isolation="read_uncommitted").differences
    assert difference.left.value == b"aborted"
    assert not compare(
        *properties[2:], *properties[:2], isolation="read_uncommitted", right_isolation="read_committed"
    ).differences


@pytest.mark.broker
@pytest.mark.parametrize(
    ("change", "counts"),
    [
        pytest.param(lambda r: r, {}, id="nothing"),
        pytest.param(lambda r: [*r[:5], *r[8:]], {"missing": 3}, id="missing"),
        pytest.param(lambda r: [*r[:5], *r[2:]], {"duplicates": 3}, id="sent again"),
        pytest.param(lambda r: [*r[:5], *r[7:9], *r[5:7], *r[9:]], {"reordered": 2}, id="swapped"),
        pytest.param(lambda r: [r[-1], *r[:-1]], {"reordered": 1}, id="the last came first"),
        pytest.param(lambda r: [*r[:5], Record(NOW, b"k", b"?"), *r[6:]], {"missing": 1, "unknown": 1}, id="different"),
        pytest.param(lambda r: [*r, *r[:2], r[3]], {"duplicates": 3}, id="late duplicates"),
    ],
)  # fmt: skip
def test_a_tally_counts_each_kind_of_difference(
    us: Cluster, eu: Cluster, topic: str, change: Callable[[list[Record]], list[Record]], counts: dict[str, int]
) -> None:
    records = [Record(NOW, b"k%d" % (number % 3), b"%d" % number) for number in range(20)]
    write(us, topic, records)
    write(eu, topic, change(records))
    outcome = tally(us.client_properties(), topic, eu.client_properties(), topic)
    found = {kind: getattr(outcome, kind) for kind in ("missing", "unknown", "duplicates", "moved", "reordered")}
    assert {kind: count for kind, count in found.items() if count} == counts
    assert outcome.clean is (not counts)
    assert str(outcome).startswith("20 records: " + ("complete, no duplicates, in order" if not counts else ""))
    assert len(outcome.examples) == len(counts)


@pytest.mark.broker
def test_a_tally_counts_records_in_another_partition(us: Cluster, eu: Cluster, topic: str) -> None:
    write(us, topic, [Record(NOW, b"a", b"1")], [Record(NOW, b"a", b"2")])
    eu.create_topic(topic, partitions=2, configs={"retention.ms": "-1"})
    with RawProtocol(eu.client_properties()) as raw:
        for partition in (0, 1):
            raw.produce(topic, partition, batches.encode([Record(NOW, b"a", b"%d" % (partition + 1))]))
    outcome = tally(us.client_properties(), topic, eu.client_properties(), topic)
    assert str(outcome) == (
        "2 records: 1 moved\n  moved: partition 1, record 0: (time 1700000000000, key b'a', value b'2')"
    )
    with pytest.raises(LabError, match="not unique"):
        tally(us.client_properties(), topic, eu.client_properties(), topic, identity=lambda record: record.key)


@pytest.mark.broker
def test_missing_topics_cannot_be_compared(us: Cluster, eu: Cluster) -> None:
    with pytest.raises(LabError, match="topics to compare do not exist: nowhere, here"):
        compare(us.client_properties(), "nowhere", eu.client_properties(), "here")


def test_access_logs_are_the_same_for_the_same_seed() -> None:
    first = list(itertools.islice(access_log(seed=5, start=1e9), 50))
    assert first == list(itertools.islice(access_log(seed=5, start=1e9), 50))
    assert first != list(itertools.islice(access_log(seed=6, start=1e9), 50))
    assert {line.count(",") for _, line in first} == {HEADER.count(",")}
    assert all(line.startswith(f"{visitor},2001-09-09,01:46:") for visitor, line in first)
