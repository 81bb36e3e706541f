"""Several sources with one remote topic: the records of each source are there once and in order."""

import time
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.compare_logs import read

pytestmark = pytest.mark.broker

PARTITIONS = 2
IDENTITY = {"replication__policy__class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def _merged(cluster: Cluster, topic: str, partition: int, mark: str) -> list[Any]:
    """The records of one source, in order."""
    return [
        each
        for each in read(cluster.client_properties(), topic, partition)
        if (each.key or b"").startswith(mark.encode())
    ]


def test_two_merged_sources_that_are_killed_repeatedly(
    us: Cluster, eu: Cluster, trio: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    for cluster in (us, eu):
        cluster.create_topic(topic, PARTITIONS)
    flows = {each: mirror(each, trio, topic, twinlog__foreign__records="expect", **IDENTITY) for each in (us, eu)}
    with writer(us, topic, PARTITIONS, rate=700, mark="us"), writer(eu, topic, PARTITIONS, rate=700, mark="eu"):
        for _ in range(2):
            relays = [flow.process().start() for flow in flows.values()]
            for relay in relays:
                relay.wait_until_relaying()
                time.sleep(1)
            for relay in relays:
                relay.kill()
    for source, flow in flows.items():
        copied = flow.copy()
        assert not any(p.report.counters.foreign or p.report.counters.duplicates for p in copied.relay.partitions), str(
            copied
        )
        assert not flow.events(topic)
        for partition in range(PARTITIONS):
            assert _merged(trio, topic, partition, source.name) == _merged(source, topic, partition, source.name)


def test_foreign_records_are_counted_and_reported_once(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with writer(us, topic), flow.start() as running:
        running.until_running()
        with writer(eu, flow.remote(topic), mark="foreign") as foreign:
            running.until(lambda: running[topic].report.counters.foreign > 1000, "counted")
        running.until(lambda: running[topic].report.counters.foreign >= foreign.written, "all foreign records")
    events = flow.events(topic)
    assert [event["kind"] for event in events] == ["foreign"]
    assert "twinlog.foreign.records = expect" in events[0]["text"]
    flow.copy()
    assert _merged(eu, flow.remote(topic), 0, "key") == _merged(us, topic, 0, "key")
