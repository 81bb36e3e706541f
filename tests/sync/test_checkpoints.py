"""Checkpoints and group offsets: which groups are synced, how far, and which warnings there are."""

from typing import Any

import pytest
from confluent_kafka import Consumer

from lab.cluster import Cluster
from lab.waiting import until
from tests.sync.conftest import admin, checkpoint_sync, commit, consumed, fill, offsets
from twinlog.cli.plan import as_text
from twinlog.cli.plan import plan as plans
from twinlog.config import load
from twinlog.mm2.group_offsets import GroupOffsetChange
from twinlog.model import TopicPartition
from twinlog.sync.checkpoints import CheckpointSync

pytestmark = pytest.mark.broker


def test_an_active_group_is_skipped(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(50))
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, groups=group)
    flow.copy()
    tp, remote = TopicPartition(topic, 0), TopicPartition(flow.remote(topic), 0)
    commit(flow.config, "source", group, {tp: 40})
    member = Consumer({**eu.librdkafka_properties(), "group.id": group, "enable.auto.commit": False})
    try:
        assigned: list[Any] = []
        member.subscribe([flow.remote(topic)], on_assign=lambda _, parts: assigned.extend(parts))
        until(lambda: member.poll(0.1) is not None or bool(assigned), "a member", seconds=30)
        with checkpoint_sync(flow.config) as sync:  # without a warning
            sync.emit()
            assert sync.sync_groups() == 0
        assert not offsets(flow.config, "target", group)
    finally:
        member.close()
    with checkpoint_sync(flow.config) as sync:
        assert sync.sync_groups() == 0, "it has not read the offset syncs yet"
        sync.emit()
        assert sync.sync_groups() == 1
    assert offsets(flow.config, "target", group) == {remote: 40}


def test_a_group_is_never_rewound(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic, 2)
    for partition in range(2):
        fill(us, topic, range(50), partition)
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, groups=group)
    flow.copy()
    here = [TopicPartition(topic, partition) for partition in range(2)]
    there = [TopicPartition(flow.remote(topic), partition) for partition in range(2)]
    commit(flow.config, "source", group, dict.fromkeys(here, 30))
    commit(flow.config, "target", group, {there[0]: 45, there[1]: 10})
    with checkpoint_sync(flow.config) as sync:
        sync.emit()
        assert sync.sync_groups() == 1
        assert offsets(flow.config, "target", group) == {there[0]: 45, there[1]: 30}
        commit(flow.config, "source", group, dict.fromkeys(here, 5))  # rewinds on the source
        sync.emit()
        assert sync.sync_groups() == 0
    assert offsets(flow.config, "target", group) == {there[0]: 45, there[1]: 30}


def test_failback_of_a_group(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """By the reversed syncs of the opposite flow. The source's log does not start at 0, so offsets differ."""
    us.create_topic(topic)
    fill(us, topic, range(30))
    with us.admin() as asked:
        from kafka import TopicPartition as KafkaTopicPartition  # noqa: PLC0415

        asked.delete_records({KafkaTopicPartition(topic, 0): 7})
    group = f"group-{topic}"
    there = mirror(us, eu, topic, groups=group)
    back = mirror(eu, us, topic, groups=group, twinlog__sync__group__offsets__home="true")
    there.copy()
    assert consumed(us, group, [topic], 23) == list(range(7, 30))
    with checkpoint_sync(there.config) as sync:
        sync.emit()
        sync.sync_groups()
    fill(us, topic, range(30, 45))
    there.copy()
    assert consumed(eu, group, [there.remote(topic)], 15) == list(range(30, 45))
    fill(us, topic, range(45, 48))
    with checkpoint_sync(back.config) as sync:
        assert sync.emit() == 1
        assert sync.sync_groups() == 1
    assert offsets(back.config, "target", group) == {TopicPartition(topic, 0): 45}
    assert consumed(us, group, [topic], 3) == [45, 46, 47]


def test_invalid_records_are_skipped_and_reported(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(10))
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, alias="nonsense", groups=group)
    flow.copy()
    fill(eu, "mm2-offset-syncs.nonsense.internal", range(1))
    eu.create_topic("nonsense.checkpoints.internal")
    fill(eu, "nonsense.checkpoints.internal", range(1))
    commit(flow.config, "source", group, {TopicPartition(topic, 0): 9})
    warnings: list[str] = []
    sync = CheckpointSync(flow.config, lambda _, text: warnings.append(text))
    try:
        assert sync.emit() == 1
    finally:
        sync.close()
    assert ["checkpoints.internal" in warnings[0], "offset sync" in warnings[1], len(warnings)] == [True, True, 2]


def test_ten_thousand_offsets_at_once(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A hundred groups, each in a hundred partitions. Took 0.3 s of CPU when this was written."""
    us.create_topic(topic, 100)
    for partition in range(100):
        fill(us, topic, range(10), partition, size=10)
    groups = [f"{topic}-{number}" for number in range(100)]
    flow = mirror(us, eu, topic, groups=f"{topic}-.*")
    flow.copy()
    with admin(flow.config, "source") as asked:
        for number, group in enumerate(groups):
            wanted = {TopicPartition(topic, tp): (1 + (tp + number) % 10, "") for tp in range(100)}
            assert not asked.commit(group, wanted)
    with checkpoint_sync(flow.config) as sync:
        assert sync.emit() == 10_000
        assert sync.emit() == 0
        assert sync.sync_groups() == 100
        assert sync.sync_groups() == 0
    with admin(flow.config, "target") as asked:
        found, failed = asked.committed(groups)
    assert not failed
    assert {(group, tp.partition): offset for group in groups for tp, (offset, _) in found[group].items()} == {
        (group, tp): 1 + (tp + number) % 10 for number, group in enumerate(groups) for tp in range(100)
    }


def test_a_preview_lists_offsets_and_writes_nothing(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(50))
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, groups=group, sync__group__offsets__enabled="true")
    flow.copy()
    remote = TopicPartition(flow.remote(topic), 0)
    commit(flow.config, "source", group, {TopicPartition(topic, 0): 40})
    for now, then in ((None, 40), (40, 45)):
        with checkpoint_sync(flow.config) as sync:
            assert sync.preview() == [GroupOffsetChange(group, *remote, now, then)]
        assert offsets(flow.config, "target", group) == ({} if now is None else {remote: now}), "nothing was written"
        with checkpoint_sync(flow.config) as sync:
            sync.emit()
            sync.sync_groups()
            assert sync.preview() == []
        commit(flow.config, "source", group, {TopicPartition(topic, 0): 45})
    (plan,) = plans(load([flow.file]), [flow.config])
    assert plan.group_offsets == ()
    commit(flow.config, "source", group, {TopicPartition(topic, 0): 50})
    (plan,) = plans(load([flow.file]), [flow.config])
    assert [(each.group, each.now, each.then) for each in plan.group_offsets] == [(group, 45, 50)]
    assert "45 -> 50" in as_text([plan])
