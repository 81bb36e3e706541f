"""A far target: batches are transferred side by side over several connections, and stored once and in order."""

import random
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest

from lab import batches, corner_case_topics
from lab.batches import Record
from lab.cluster import Cluster
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol
from twinlog.replicate.parallel_producer import ParallelProducer
from twinlog.replicate.partition import Partition
from twinlog.replicate.target_connection import TargetConnection

pytestmark = pytest.mark.broker
RECORDS = 20_000
OLD = 1_700_000_000_000


def _fill(cluster: Cluster, topic: str, *, first_ms: int, partition: int = 0, count: int = RECORDS) -> None:
    """In batches of a few bytes to 300 KB, so that some share a connection and others do not."""
    rng = random.Random(partition)
    with RawProtocol(cluster.client_properties()) as wire:
        at = 0
        while at < count:
            some = min(rng.choice((1, 20, 300)), count - at)
            records = [
                Record(first_ms + n, b"%d-%d" % (partition, n), rng.randbytes(rng.randrange(2000)))
                for n in range(at, at + some)
            ]
            wire.produce(topic, partition, batches.encode(records))
            at += some


@pytest.mark.parametrize("age", ["new", "old"])
def test_batches_arrive_in_order_over_several_connections(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, age: str
) -> None:
    """Old: a broker may forget our producer, so it may have only one complete request of a partition."""
    us.create_topic(topic, 2)
    for partition in (0, 1):
        _fill(us, topic, first_ms=int(time.time() * 1000) if age == "new" else OLD, partition=partition)
    with Proxy(eu) as far:
        far.delay(0.02)
        flow = mirror(us, eu, topic, eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32")
        copied = flow.copy()
        producer = copied.relay.producer
        assert len(producer.connections) > 1
        assert producer.parallel.withheld_requests > 5
        assert all(copied[topic, each].report.counters.recoveries == 0 for each in (0, 1)), str(copied)
    flow.until_equal(topic, seconds=0)


def test_corner_case_topics_to_a_far_target(us: Cluster, eu: Cluster, mirror: Any) -> None:
    topics = corner_case_topics.create_all(us, "to-far-")
    for topic in topics.values():
        with us.admin() as admin:
            count = len(admin.describe_topics([topic])[0]["partitions"])
        eu.create_topic(f"us.{topic}", count, 1, {"retention.ms": "-1", "max.message.bytes": str(8 << 20)})
    with Proxy(eu) as far:
        far.delay(0.006)
        copied = mirror(
            us, eu, "to-far-.*", eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32"
        ).copy()
    assert all(p.report.counters.recoveries == 0 for p in copied.relay.partitions), str(copied)
    flow = mirror(us, eu, "to-far-.*")
    for topic in topics.values():
        flow.until_equal(topic, seconds=0, codecs=True)


def test_connections_that_are_cut_lose_and_double_nothing(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _fill(us, topic, first_ms=int(time.time() * 1000))
    with Proxy(eu) as far:
        far.delay(0.02)
        flow = mirror(us, eu, topic, eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32")
        with flow.start() as running:
            for part in range(1, 6):
                running.until(
                    lambda part=part: running[topic].target.acked_position > part * 2500, "progress", seconds=60
                )
                far.cut()
            running.until(lambda: running[topic].target.acked_position == RECORDS, "copied", seconds=120)
            assert running[topic].report.counters.recoveries > 0
            assert running[topic].report.counters.duplicates == 0
    flow.until_equal(topic, seconds=0)


def test_a_refused_batch_among_several_is_the_only_one_missing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """The batches after it were transferred already, but not handled."""
    us.create_topic(topic, configs={"max.message.bytes": str(4 << 20)})
    eu.create_topic(f"us.{topic}", 1, 1, {"max.message.bytes": str(1 << 20)})
    now = int(time.time() * 1000)
    _fill(us, topic, first_ms=now, count=3000)
    with RawProtocol(us.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode([Record(now, b"too-large", bytes(2 << 20))]))
    _fill(us, topic, first_ms=now, count=3000)
    with Proxy(eu) as far:
        far.delay(0.02)
        flow = mirror(
            us, eu, topic, eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32", errors__tolerance="all",
            us__consumer__max__partition__fetch__bytes=str(4 << 20), sync__topic__configs__enabled="false",
        )  # fmt: skip
        copied = flow.copy()
        assert copied[topic].report.counters.skipped == 1
    assert _keys(eu, f"us.{topic}") == [key for key in _keys(us, topic) if key != b"too-large"]


def _keys(cluster: Cluster, topic: str) -> list[bytes | None]:
    with RawProtocol(cluster.client_properties()) as wire:
        return [key for batch in wire.batches(topic, 0) for _, key, _, _ in batches.decode(batch)[1]]


def test_a_send_that_fails_affects_no_other_broker(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions of that broker are recovered while their requests are being prepared."""
    us.create_topic(topic, 12)
    now = int(time.time() * 1000)
    for partition in range(12):
        _fill(us, topic, first_ms=now, partition=partition, count=900)
    cut: list[int] = []
    send = ParallelProducer._send

    def cut_once(
        self: ParallelProducer, primary: TargetConnection, on: TargetConnection, them: Sequence[Partition], **how: bool
    ) -> bool:
        others = [each for each in primary.ready if each not in them and each.target.in_flight]
        if on is primary and others and not cut and on.connection is not None:
            cut.append(len(others))
            on.connection.sock.shutdown(socket.SHUT_WR)  # the next write fails, as after a reset by the broker
        return send(self, primary, on, list(them), **how)

    monkeypatch.setattr(ParallelProducer, "_send", cut_once)
    with Proxy(eu) as far:
        far.delay(0.02)
        far.limit_in_flight(100_000)
        flow = mirror(us, eu, topic, eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32")
        copied = flow.copy()
        assert cut
        assert all(p.report.counters.duplicates == 0 for p in copied.relay.partitions)
    flow.until_equal(topic, seconds=0)


def test_a_slow_link_is_not_overloaded(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """Requests that share a slow link must not all time out before the first one has arrived."""
    us.create_topic(topic, 20)
    now = int(time.time() * 1000)
    rng = random.Random(2)
    with RawProtocol(us.client_properties()) as wire:
        for partition in range(20):
            for number in range(2):
                record = Record(now, b"%d" % number, rng.randbytes(400_000))
                wire.produce(topic, partition, batches.encode([record]))
    with Proxy(eu) as far:
        far.delay(0.02)
        flow = mirror(
            us, eu, topic, eu__bootstrap__servers=far.bootstrap, twinlog__produce__connections="32",
            eu__producer__request__timeout__ms="4000",
        )  # fmt: skip
        with flow.start() as running:
            running.until_running()
            far.limit(1_500_000)
            running.until(
                lambda: all(running[topic, each].target.acked_position == 2 for each in range(20)), "copied", 90
            )
    flow.until_equal(topic, seconds=0)
