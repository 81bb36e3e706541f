"""Ranges of offsets fetched side by side over a long link: every record once and in order, whatever the log is like."""

import random
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from lab import batches, corner_case_topics
from lab.batches import Record
from lab.cluster import Cluster
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol

pytestmark = pytest.mark.broker
RECORDS = 30_000


def _fill(cluster: Cluster, topic: str) -> None:
    """About 30 MB, in batches of different sizes."""
    rng = random.Random(5)
    with RawProtocol(cluster.client_properties()) as wire:
        at = 0
        while at < RECORDS:
            count = min(rng.randrange(1, 200), RECORDS - at)
            some = [
                Record(1_700_000_000_000 + n, b"k%d" % n, rng.randbytes(rng.randrange(2000)))
                for n in range(at, at + count)
            ]
            wire.produce(topic, 0, batches.encode(some))
            at += count


def test_a_partition_far_behind_is_fetched_in_ranges(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _fill(us, topic)
    with Proxy(us) as far:
        far.delay(0.02)
        flow = mirror(us, eu, topic, us__bootstrap__servers=far.bootstrap, twinlog__fetch__connections="32")
        with flow.start() as running:
            running.until(lambda: len(running.relay.fetcher.ranges.connections) > 1, "ranges are fetched", seconds=60)
            running.until(lambda: running[topic].target.acked_position == RECORDS, "copied", seconds=120)
            assert running[topic].report.counters.recoveries == 0
    flow.until_equal(topic, seconds=0)


def test_corner_case_topics_over_a_long_link(us: Cluster, eu: Cluster, mirror: Any) -> None:
    """Ranges so small that every topic has many: transactions, compaction, gaps, all codecs, old formats."""
    topics = corner_case_topics.create_all(us, "range-")
    for topic in topics.values():
        count = _count(us, topic)
        eu.create_topic(f"us.{topic}", count, 1, {"retention.ms": "-1", "max.message.bytes": str(8 << 20)})
    with Proxy(us) as far:
        far.delay(0.006)
        flow = mirror(
            us,
            eu,
            "range-.*",
            us__bootstrap__servers=far.bootstrap,
            twinlog__fetch__connections="32",
            us__consumer__max__partition__fetch__bytes="3000",
        )
        copied = flow.copy()
        assert copied.relay.fetcher.ranges.responses > 20
    assert all(p.report.counters.recoveries == 0 for p in copied.relay.partitions), str(copied)
    for topic in topics.values():
        flow.until_equal(topic, seconds=0, codecs=True)


def _count(cluster: Cluster, topic: str) -> int:
    with cluster.admin() as admin:
        return len(admin.describe_topics([topic])[0]["partitions"])


def test_connections_that_are_cut_lose_nothing(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _fill(us, topic)
    with Proxy(us) as far:
        far.delay(0.02)
        flow = mirror(us, eu, topic, us__bootstrap__servers=far.bootstrap, twinlog__fetch__connections="32")
        with flow.start() as running:
            for part in range(1, 6):
                running.until(lambda part=part: running[topic].source.position > part * 4000, "progress", seconds=60)
                far.cut()
            running.until(lambda: running[topic].target.acked_position == RECORDS, "copied", seconds=120)
    flow.until_equal(topic, seconds=0)


def test_ranges_that_overlap_in_aborted_transactions(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A marker in the overlap ends an aborted transaction: the next one of that producer is committed."""
    us.create_topic(topic)
    rng = random.Random(1)
    producer = Producer({**us.librdkafka_properties(), "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(200):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(topic, rng.randbytes(500), b"%d" % number, partition=0)
        producer.flush()
        if number % 2:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    with Proxy(us) as far:
        far.delay(0.01)
        flow = mirror(
            us,
            eu,
            topic,
            us__bootstrap__servers=far.bootstrap,
            twinlog__fetch__connections="32",
            us__consumer__max__partition__fetch__bytes="60000",
        )
        copied = flow.copy()
        assert copied.relay.fetcher.ranges.responses > 10
        assert copied[topic].report.counters.records == 2000
    flow.until_equal(topic, seconds=0)


def test_batches_larger_than_a_range_are_fetched_once(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic, configs={"max.message.bytes": str(8 << 20)})
    rng = random.Random(3)
    total = 0
    with RawProtocol(us.client_properties()) as wire:
        for number in range(12):
            some = [Record(int(time.time() * 1000), b"%d" % number, rng.randbytes(4000)) for _ in range(1000)]
            total += len(batch := batches.encode(some))
            wire.produce(topic, 0, batch)
    with Proxy(us) as far:
        far.delay(0.02)
        flow = mirror(us, eu, topic, us__bootstrap__servers=far.bootstrap, twinlog__fetch__connections="32")
        before = far.passed("responses")
        flow.copy()
        assert far.passed("responses") - before < total * 2.5  # some were requested before the size was known
    flow.until_equal(topic, seconds=0)
