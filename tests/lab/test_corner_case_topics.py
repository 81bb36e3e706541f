"""Corner-case topics contain what they should, and an independent client reads the same records as the lab."""

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from crc32c import crc32c

from lab import batches, corner_case_topics
from lab.batches import CODECS, Header, Record
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.errors import LabError
from lab.lab import Lab
from lab.raw_protocol import BrokerError, RawProtocol

Topics = dict[str, str]
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def topics(us: Cluster) -> Topics:
    return corner_case_topics.create_all(us, "corner.")


@pytest.fixture(scope="module")
def old(lab: Lab) -> Iterator[Cluster]:
    (cluster,) = lab.clusters(ClusterSpec(name="old-corner-cases", line="3.9"))
    yield cluster
    lab.discard(cluster)


def headers_of(cluster: Cluster, topic: str, partition: int = 0) -> list[Header]:
    return [Header.of(batch) for batch in corner_case_topics.raw_batches(cluster, topic, partition)]


@pytest.fixture(scope="module")
def librdkafka(us: Cluster) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            **us.librdkafka_properties(),
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "logger": logging.getLogger("librdkafka"),
        }
    )
    yield consumer
    consumer.close()


def as_librdkafka_reads(consumer: Consumer, topic: str, partitions: list[int]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {partition: [] for partition in partitions}
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    ended = 0
    while ended < len(partitions):
        message: Any = consumer.poll(30)
        assert message is not None
        if error := message.error():
            assert error.code() == KafkaError._PARTITION_EOF
            ended += 1
            continue
        headers = tuple((name.encode(), value) for name, value in message.headers() or ())
        record = Record(message.timestamp()[1], message.key(), message.value(), headers)
        found[message.partition()].append(record)
    return found


@pytest.mark.broker
@pytest.mark.parametrize(
    "name", sorted(set(corner_case_topics.CORNER_CASES) - {"headers"})
)  # librdkafka's Python binding fails on invalid UTF-8 in header names
def test_the_lab_reads_the_same_as_librdkafka(us: Cluster, topics: Topics, librdkafka: Consumer, name: str) -> None:
    with RawProtocol(us.client_properties()) as raw:
        partitions = raw.partitions(topics[name])
    for partition, theirs in as_librdkafka_reads(librdkafka, topics[name], partitions).items():
        ours = [Record(*seen[:4]) for seen in read(us.client_properties(), topics[name], partition)]
        assert ours == theirs
        assert ours or name in {"empty", "emptied", "aborted-only"}


@pytest.mark.broker
def test_codecs_are_in_separate_partitions_and_mixed(us: Cluster, topics: Topics) -> None:
    for partition, codec in enumerate(CODECS):
        assert {header.codec for header in headers_of(us, topics["codecs"], partition)} == {codec}
    assert Counter(header.codec for header in headers_of(us, topics["codecs"], len(CODECS))) == dict.fromkeys(CODECS, 6)


@pytest.mark.broker
def test_header_names_may_be_invalid_utf8(us: Cluster, topics: Topics) -> None:
    found = read(us.client_properties(), topics["headers"])
    assert len(found) == 6 * 8
    assert found[2].headers == ((b"null", None), (b"empty", b""))
    assert found[3].headers == ((b"", b"no name"), (b"", None))
    assert found[4].headers[:2] == ((b"\xff\xfe", b"no UTF-8"), (b"cut \xe2\x82", b"\xff"))


@pytest.mark.broker
def test_compaction_leaves_gaps_empty_batches_and_delete_horizons(us: Cluster, topics: Topics) -> None:
    stored = corner_case_topics.raw_batches(us, topics["compacted"])
    found = {batch: Header.of(batch) for batch in stored}
    with_gaps = [batch for batch, header in found.items() if header.count and header.gaps]
    assert {found[batch].codec for batch in with_gaps} == set(CODECS)
    for batch in with_gaps:
        offsets, records = batches.decode(batch)
        assert offsets[0] > found[batch].base_offset
        assert any(b - a > 1 for a, b in pairwise(offsets))
        assert found[batch].delete_horizon
        assert [value for _, _, value, _ in records].count(None) == 5
        assert all(timestamp < found[batch].base_timestamp for timestamp, *_ in records)  # the delete horizon
    assert [header.producer_id >= 0 for header in found.values() if not header.count] == [True]
    assert any(b.base_offset > a.last_offset + 1 for a, b in pairwise(found.values()))


@pytest.mark.broker
def test_transactions_are_committed_and_aborted(us: Cluster, topics: Topics) -> None:
    values = [(seen.value or b"").decode() for seen in read(us.client_properties(), topics["transactions"])]
    assert Counter(each.split()[0] for each in values) == {"plain": 12, "first": 9, "second": 8, "the": 1}
    everything = read(us.client_properties(), topics["transactions"], isolation="read_uncommitted")
    assert len(everything) == 12 + 6 * 3 + 12 * 2 + 1
    markers = [header for header in headers_of(us, topics["transactions"]) if header.control]
    assert len(markers) == 12
    assert len({header.producer_id for header in markers}) == 2
    assert read(us.client_properties(), topics["aborted-only"]) == []


@pytest.mark.broker
def test_an_open_transaction_hides_later_records_until_it_is_aborted(us: Cluster, topic: str) -> None:
    corner_case_topics.open_transaction(us, topic)
    assert len(read(us.client_properties(), topic)) == 10
    assert len(read(us.client_properties(), topic, isolation="read_uncommitted")) == 20
    corner_case_topics.abort_open_transaction(us, topic)
    assert len(read(us.client_properties(), topic)) == 15


@pytest.mark.broker
def test_timestamps_are_create_time_log_append_time_or_missing(us: Cluster, topics: Topics) -> None:
    assert all(header.log_append_time for header in headers_of(us, topics["log-append-time"]))
    kinds = [header.log_append_time for header in headers_of(us, topics["switched-time"])]
    assert kinds == sorted(kinds)
    assert set(kinds) == {False, True}
    times = [seen.timestamp for seen in read(us.client_properties(), topics["timestamps"])]
    assert {0, -1, 1} < set(times)
    assert any(later < earlier for earlier, later in pairwise(times))
    assert min(seen.timestamp for seen in read(us.client_properties(), topics["negative-timestamps"])) == -(1 << 40)


@pytest.mark.broker
def test_logs_start_late_or_are_emptied(us: Cluster, topics: Topics) -> None:
    with RawProtocol(us.client_properties()) as raw:
        assert raw.offsets(topics["late-start"], 0) == (34, 100)
        assert raw.offsets(topics["emptied"], 0) == (10, 10)
        assert raw.offsets(topics["empty"], 2) == (0, 0)
    first = headers_of(us, topics["late-start"])[0]
    assert (first.base_offset, first.count) == (30, 10)  # the complete batch is returned
    assert len(read(us.client_properties(), topics["late-start"])) == 66


@pytest.mark.broker
def test_sizes_and_sequences(us: Cluster, topics: Topics) -> None:
    assert [header.count for header in headers_of(us, topics["small-batches"])] == [1] * 500
    assert all(850_000 < header.length < 1_000_000 for header in headers_of(us, topics["large-batches"]))
    assert max(header.length for header in headers_of(us, topics["sizes"])) > 5 << 20
    assert max(len(seen.value or b"") for seen in read(us.client_properties(), topics["sizes"])) == 20 << 20
    sequences: dict[int, list[int]] = {}
    for header in headers_of(us, topics["idempotent"]):
        sequences.setdefault(header.producer_id, []).append(header.base_sequence)
    assert list(sequences.values()) == [
        list(range(0, 100, 10)),
        [2**31 - 10, *range(0, 90, 10)],
    ]
    assert [seen[1:3] for seen in read(us.client_properties(), topics["nulls"])][:3] == [
        (None, None),
        (None, b""),
        (None, b"plain"),
    ]


@pytest.mark.broker
@pytest.mark.slow
def test_an_old_broker_has_all_corner_cases_and_old_messages(old: Cluster) -> None:
    topics = corner_case_topics.create_all(old, "corner.")
    assert set(topics) == {*corner_case_topics.CORNER_CASES, "old-messages"}
    found = headers_of(old, topics["old-messages"])
    assert [(header.magic, header.codec, header.count) for header in found] == [(2, "none", 5), (2, "gzip", 5)]
    assert any(header.gaps for header in headers_of(old, topics["compacted"]))
    assert [seen.value for seen in read(old.client_properties(), topics["old-messages"])] == [b"v"] * 10


@pytest.mark.broker
@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(batches.encode([Record(NOW, b"k", b"v")] * 2, deltas=[0, 3]), 87, id="gaps inside"),
        pytest.param(batches.encode([Record(NOW, b"k", b"v")]) * 2, 87, id="two batches at once"),
        pytest.param(bytes(7) + b"\x05" + batches.encode([Record(NOW, b"k", b"v")])[8:], 87, id="a base offset"),
        pytest.param(batches.encode([Record(NOW, b"\0\0\0\1", b"")], attributes=0x20), 87, id="a control batch"),
        pytest.param(batches.encode([Record(NOW << 1, b"k", b"v")]), 32, id="a far future"),
    ],
)  # fmt: skip
def test_batches_that_brokers_reject(us: Cluster, topic: str, batch: bytes, code: int) -> None:
    us.create_topic(topic)
    with RawProtocol(us.client_properties()) as raw, pytest.raises(BrokerError) as caught:
        raw.produce(topic, 0, batch)
    assert caught.value.code == code


@pytest.mark.broker
@pytest.mark.parametrize(
    ("attributes", "stored"),
    [
        pytest.param(0x40, 0x40, id="a delete horizon is stored unchanged"),
        pytest.param(0x80, 0x80, id="so is an unused bit"),
        pytest.param(0x08, 0x00, id="the timestamp type is the topic's"),
    ],
)
def test_attributes_that_brokers_accept(us: Cluster, topic: str, attributes: int, stored: int) -> None:
    us.create_topic(topic, configs={"retention.ms": "-1"})
    with RawProtocol(us.client_properties()) as raw:
        raw.produce(topic, 0, batches.encode([Record(NOW, b"k", b"v")], attributes=attributes))
    assert [header.attributes for header in headers_of(us, topic)] == [stored]


@pytest.mark.parametrize("codec", CODECS)
def test_an_inconsistent_batch_is_an_error(codec: str) -> None:
    records = [Record(NOW + number, b"k" * number, None, ((b"h", b"v" * number),)) for number in range(100)]
    batch = batches.encode(records, codec)
    assert batches.decode(batch)[1] == records
    with pytest.raises(LabError, match="wrong checksum"):
        batches.decode(batch[:-1] + bytes([batch[-1] ^ 1]))
    for count in (99, 101):
        tail = batch[21:57] + count.to_bytes(4) + batch[61:]
        with pytest.raises(LabError, match=f"its content is not exactly {count} records"):
            batches.decode(batch[:17] + crc32c(tail).to_bytes(4) + tail)
