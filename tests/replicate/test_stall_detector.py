"""A partition without progress for no known reason is reported, and its connections are reopened."""

import time
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from twinlog.replicate.stall_detector import StallDetector

pytestmark = pytest.mark.broker


def _write(cluster: Cluster, topic: str, count: int) -> None:
    now = int(time.time() * 1000)
    with RawProtocol(cluster.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode([Record(now, b"k", b"%d" % each) for each in range(count)]))


def _with_short_times(running: Any) -> Any:
    """As in the product, but without waiting for half a minute."""
    relay = running.relay
    relay.stall_detector = StallDetector(
        relay.spec, relay.fetcher, relay.producer, relay._executor, relay._stalled, interval=0.2, stall_seconds=1.0
    )
    return running


def test_a_partition_that_is_not_fetched_is_detected(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with _with_short_times(flow.start()) as running:
        running.until_running()
        _write(us, topic, 5)
        running.until(lambda: running[topic].target.acked_position == 5, "copied")
        for broker in running.relay.fetcher.connections.values():  # simulates a bug: it is not fetched
            broker.to_request.clear()
            broker.partitions.clear()
        running.relay._leaders._refreshed_at = time.monotonic() + 1000  # no metadata refresh
        _write(us, topic, 5)
        running.until(lambda: running[topic].target.acked_position == 10, "copied after a reconnect")
        assert running[topic].report.counters.stalls >= 1
    (event, *_) = [event for event in flow.events(topic) if event["kind"] == "stalled"]
    assert "no progress" in event["text"]
    assert "source ends at 10" in event["text"]
    flow.until_equal(topic)


def test_several_partitions_of_the_same_brokers_are_reported_together(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic, 3)
    flow = mirror(us, eu, topic)
    now = int(time.time() * 1000)
    with _with_short_times(flow.start()) as running, RawProtocol(us.client_properties()) as wire:
        running.until_running()
        for broker in running.relay.fetcher.connections.values():  # simulates a bug: none is fetched
            broker.to_request.clear()
            broker.partitions.clear()
        running.relay._leaders._refreshed_at = time.monotonic() + 1000  # no metadata refresh
        for partition in range(3):
            wire.produce(topic, partition, batches.encode([Record(now, b"k", b"v")]))
        partitions = [running[topic, number] for number in range(3)]  # there may be one of heartbeats, too
        running.until(lambda: all(p.target.acked_position == 1 for p in partitions), "all copied")
        assert all(p.report.counters.stalls for p in partitions)
    stalls = [event["text"] for event in flow.events(topic) if event["kind"] == "stalled"]
    assert len(stalls) < 3, stalls
    assert "nor have 2 other partitions of these brokers" in stalls[0]
    flow.until_equal(topic)


def test_waiting_for_a_transaction_or_for_records_is_not_a_stall(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(f"{topic}-idle")
    us.create_topic(f"{topic}-open")
    flow = mirror(us, eu, f"{topic}-.*")
    with RawProtocol(us.client_properties()) as wire, _with_short_times(flow.start()) as running:
        producer = Transactions(wire, topic)
        producer.produce(f"{topic}-open", 0, [Record(0, b"k", b"v")])
        running.until_running()
        time.sleep(3)
        assert not any(p.report.counters.stalls for p in running.relay.partitions)
        producer.commit()
        running.until(lambda: running[f"{topic}-open"].target.acked_position == 2, "copied")
