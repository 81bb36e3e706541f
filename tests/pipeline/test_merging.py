"""Several sources, one remote topic: each source's records are there once and in order, whoever else writes between."""

import time
from typing import Any

import pytest

from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import read

pytestmark = pytest.mark.broker

PARTITIONS = 2
IDENTITY = {"replication__policy__class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def _merged(cluster: Cluster, topic: str, partition: int, mark: str) -> list[Any]:
    """What one source has in the log, in its order; where it stands among others' does not matter."""
    return [
        each
        for each in read(cluster.client_properties(), topic, partition)
        if (each.key or b"").startswith(mark.encode())
    ]


def test_two_sources_that_are_killed_again_and_again(
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
        assert not any(p.counters.foreign or p.counters.duplicates for p in copied.relay.partitions), str(copied)
        assert not flow.events(topic)
        for partition in range(PARTITIONS):
            assert _merged(trio, topic, partition, source.name) == _merged(source, topic, partition, source.name)


def test_who_keeps_writing_is_counted_but_told_of_once(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with writer(us, topic), flow.start() as running:
        running.until_running()
        with writer(eu, flow.remote(topic), mark="stranger") as stranger:
            running.until(lambda: running[topic].counters.foreign > 1000, "counted")
        running.until(lambda: running[topic].counters.foreign >= stranger.written, "all of them")
    events = flow.events(topic)
    assert [event["kind"] for event in events] == ["foreign"]
    assert "twinlog.foreign.records = expect" in events[0]["text"]
    flow.copy()
    assert _merged(eu, flow.remote(topic), 0, "key") == _merged(us, topic, 0, "key")
