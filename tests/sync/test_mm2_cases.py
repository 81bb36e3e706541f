"""The cases of MM2's own integration suite, by name (MirrorConnectorsIntegrationBaseTest, DedicatedMirrorIntegrationTest).

Those that need the whole of `twinlog run` (testReplication, testSingleNodeCluster) are in
tests/runtime/test_mm2_suite.py; those about configs and ACLs (testSyncTopicConfigs, testReplicateSourceDefault,
testReplicateTargetDefault, testSyncTopicACLs) are in test_configs_and_acls.py; those of the
forwarding admin in test_forwarding_admin.py. There are no cases for several nodes: Spark distributes the work.
"""

from typing import Any

import pytest

from lab.cluster import Cluster
from lab.compare_logs import read
from tests.sync.conftest import checkpoint_sync, commit, consumed, fill, offsets
from twinlog.failover import MirrorClient
from twinlog.model import TopicPartition

pytestmark = pytest.mark.broker

RECORDS = 50  # a partition


def _values(cluster: Cluster, topic: str) -> list[int]:
    return sorted(int(record.value or b"-1") for record in read(cluster.client_properties(), topic))


def _translated(flow: Any, group: str) -> dict[TopicPartition, int]:
    with MirrorClient({"bootstrap.servers": flow.target.bootstrap()}) as client:
        found = client.remote_consumer_offsets(group, flow.alias, 10)
    return {tp: each.offset for tp, each in found.items()}


def test_replication_with_empty_partition(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic, 2)
    fill(us, topic, range(RECORDS))
    group = f"group-{topic}"
    assert len(consumed(us, group, [topic], RECORDS)) == RECORDS
    flow = mirror(us, eu, topic, groups=group)
    flow.copy()
    with checkpoint_sync(flow.config) as sync:
        assert sync.emit() == 1
        assert sync.sync_groups() == 1
    assert not consumed(eu, group, [flow.remote(topic)], 0), "all was read on the source"
    fill(eu, flow.remote(topic), range(1), partition=1)
    assert consumed(eu, group, [flow.remote(topic)], 1) == [0]
    assert offsets(flow.config, "target", group)[TopicPartition(flow.remote(topic), 1)] == 1


@pytest.mark.parametrize("lag", ["10", "0"], ids=["auto", "frequent"])
def test_one_way_replication_with_auto_offset_sync(us: Cluster, eu: Cluster, topic: str, mirror: Any, lag: str) -> None:
    """Also testOneWayReplicationWithFrequentOffsetSyncs (offset.lag.max = 0). MM2 allows fewer than 10 duplicates."""
    later, group = f"{topic}-later", f"group-{topic}"
    us.create_topic(topic, 3)
    for partition in range(3):
        fill(us, topic, range(100 * partition, 100 * partition + RECORDS), partition)
    assert len(consumed(us, group, [topic], 3 * RECORDS)) == 3 * RECORDS
    flow = mirror(us, eu, f"{topic}, {later}", groups=group, offset__lag__max=lag)
    flow.copy()
    remote = flow.remote(topic)
    with checkpoint_sync(flow.config) as sync:
        sync.emit()
        sync.sync_groups()
        ends = {TopicPartition(remote, partition): RECORDS for partition in range(3)}
        assert offsets(flow.config, "target", group) == ends
        assert not consumed(eu, group, [remote], 0), "no duplicates"

        us.create_topic(later, 1)
        fill(us, later, range(1000, 1000 + RECORDS))
        assert len(consumed(us, group, [topic, later], RECORDS)) == RECORDS
        flow.copy()
        sync.emit()
        sync.sync_groups()
    assert offsets(flow.config, "target", group) == {**ends, TopicPartition(flow.remote(later), 0): RECORDS}
    fill(us, topic, range(50, 53), partition=1)
    flow.copy()
    assert consumed(eu, group, [remote, flow.remote(later)], 3) == [50, 51, 52]


def test_replication_without_offset_sync_will_not_create_offset_syncs_topic(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Also testClusterWithEmitOffsetDisabled."""
    us.create_topic(topic)
    fill(us, topic, range(RECORDS))
    off = {"emit__offset-syncs__enabled": "false", "emit__checkpoints__enabled": "false"}
    flow = mirror(us, eu, topic, alias="nosyncs", **off)
    flow.copy()
    flow.until_equal(topic, seconds=0)
    assert not flow.config.emits_checkpoints
    for cluster in (us, eu):
        with cluster.admin() as asked:
            assert not [name for name in asked.list_topics() if name.startswith("mm2-offset-syncs.nosyncs")]


def test_offset_syncs_topics_on_target(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(RECORDS))
    group = f"group-{topic}"
    consumed(us, group, [topic], RECORDS)
    flow = mirror(us, eu, topic, alias="ontarget", groups=group)
    flow.copy()
    with checkpoint_sync(flow.config) as sync:
        sync.emit()
    with us.admin() as there, eu.admin() as here:
        assert "mm2-offset-syncs.ontarget.internal" in here.list_topics()
        assert not [name for name in there.list_topics() if name.startswith("mm2-offset-syncs.ontarget")]
    assert _translated(flow, group) == {TopicPartition(flow.remote(topic), 0): RECORDS}


def test_no_checkpoints_if_no_records_are_mirrored(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    full, empty, group = f"{topic}-full", f"{topic}-empty", f"group-{topic}"
    us.create_topic(full)
    us.create_topic(empty)
    fill(us, full, range(RECORDS))
    flow = mirror(us, eu, f"{full}, {empty}", groups=group)
    flow.copy()
    commit(flow.config, "source", group, {TopicPartition(full, 0): RECORDS, TopicPartition(empty, 0): 0})
    with checkpoint_sync(flow.config) as sync:
        sync.emit()
        assert set(_translated(flow, group)) == {TopicPartition(flow.remote(full), 0)}
        fill(us, empty, range(RECORDS))
        flow.copy()
        commit(flow.config, "source", group, {TopicPartition(empty, 0): RECORDS})
        sync.emit()
    assert _translated(flow, group)[TopicPartition(flow.remote(empty), 0)] == RECORDS


def test_restart_replication(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, groups=group)
    seen = []
    for turn in range(3):
        fill(us, topic, range(turn * RECORDS, (turn + 1) * RECORDS))
        consumed(us, group, [topic], RECORDS)
        flow.copy()
        with checkpoint_sync(flow.config) as sync:  # a new one each time
            sync.emit()
            sync.sync_groups()
        seen.append(offsets(flow.config, "target", group)[TopicPartition(flow.remote(topic), 0)])
    assert seen == [RECORDS, 2 * RECORDS, 3 * RECORDS]
    flow.until_equal(topic, seconds=0)


def test_offset_translation_behind_replication_flow(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """MM2 is some records behind here, and more the older an offset is; ours are exact, as there is no gap."""
    us.create_topic(topic)
    group, count = f"group-{topic}", 10_000
    fill(us, topic, range(count), size=1000)
    flow = mirror(us, eu, topic, groups=group)
    flow.copy()
    source, remote = TopicPartition(topic, 0), TopicPartition(flow.remote(topic), 0)
    with checkpoint_sync(flow.config) as sync:
        for position in (count * 9 // 10, count // 10, count // 2):  # forward, back, forward
            commit(flow.config, "source", group, {source: position})
            sync.emit()
            assert _translated(flow, group) == {remote: position}


def test_replicate_from_latest(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(RECORDS))
    flow = mirror(us, eu, topic, us__consumer__auto__offset__reset="latest")
    with flow.start() as running:
        running.until_running()
        fill(us, topic, range(RECORDS, 2 * RECORDS))
        running.until(lambda: running[topic].target.acked_position >= 2 * RECORDS, "the new ones are there")
    assert _values(eu, flow.remote(topic)) == list(range(RECORDS, 2 * RECORDS))


def test_create_partitions(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """testCreatePartitionsUseProvidedForwardingAdmin, but for the admin."""
    us.create_topic(topic, 1)
    flow = mirror(us, eu, topic)
    fill(us, topic, range(RECORDS))
    flow.copy()
    with us.admin() as asked:
        asked.create_partitions({topic: 3})
    fill(us, topic, range(RECORDS), partition=2)
    flow.copy()
    flow.until_equal(topic, seconds=0)
    with eu.admin() as asked:
        assert len(asked.describe_topics([flow.remote(topic)])[0]["partitions"]) == 3
