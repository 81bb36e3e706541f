"""Groups move to the other cluster and back: whom it may touch, how far it may go, what it says when it cannot."""

from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.upkeep.conftest import admin, commit, consumed, fill, keeping, offsets

from twinlog.lab.cluster import Cluster
from twinlog.lab.waiting import until
from twinlog.model import TopicPartition
from twinlog.upkeep.checkpoints import CheckpointKeeper

pytestmark = pytest.mark.broker


def test_an_active_group_is_left_alone(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(50))
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, groups=group)
    flow.copy()
    place, remote = TopicPartition(topic, 0), TopicPartition(flow.remote(topic), 0)
    commit(flow.config, "source", group, {place: 40})
    member = Consumer({**eu.librdkafka_properties(), "group.id": group, "enable.auto.commit": False})
    try:
        assigned: list[Any] = []
        member.subscribe([flow.remote(topic)], on_assign=lambda _, parts: assigned.extend(parts))
        until(lambda: member.poll(0.1) is not None or bool(assigned), "a member", seconds=30)
        with keeping(flow.config) as keeper:  # which also says that nobody was told of a refusal
            keeper.emit()
            assert keeper.sync_groups() == 0
        assert not offsets(flow.config, "target", group)
    finally:
        member.close()
    with keeping(flow.config) as keeper:
        assert keeper.sync_groups() == 0, "a new one knows only what it has read"
        keeper.emit()
        assert keeper.sync_groups() == 1
    assert offsets(flow.config, "target", group) == {remote: 40}


def test_a_group_is_never_set_back(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
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
    with keeping(flow.config) as keeper:
        keeper.emit()
        assert keeper.sync_groups() == 1
        assert offsets(flow.config, "target", group) == {there[0]: 45, there[1]: 30}
        commit(flow.config, "source", group, dict.fromkeys(here, 5))  # rewinds on the source
        keeper.emit()
        assert keeper.sync_groups() == 0
    assert offsets(flow.config, "target", group) == {there[0]: 45, there[1]: 30}


def test_a_group_comes_back_to_where_it_stands(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """By the syncs of the way there, turned round. On the source the log begins above 0, so offsets differ."""
    us.create_topic(topic)
    fill(us, topic, range(30))
    with us.admin() as asked:
        from kafka import TopicPartition as KafkaPlace  # noqa: PLC0415

        asked.delete_records({KafkaPlace(topic, 0): 7})
    group = f"group-{topic}"
    there, back = mirror(us, eu, topic, groups=group), mirror(eu, us, topic, groups=group)
    there.copy()
    assert consumed(us, group, [topic], 23) == list(range(7, 30))
    with keeping(there.config) as keeper:
        keeper.emit()
        keeper.sync_groups()
    fill(us, topic, range(30, 45))
    there.copy()
    assert consumed(eu, group, [there.remote(topic)], 15) == list(range(30, 45))
    fill(us, topic, range(45, 48))
    with keeping(back.config) as keeper:
        assert keeper.emit() == 1
        assert keeper.sync_groups() == 1
    assert offsets(back.config, "target", group) == {TopicPartition(topic, 0): 45}
    assert consumed(us, group, [topic], 3) == [45, 46, 47]


def test_what_cannot_be_read_is_passed_over_and_told(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    fill(us, topic, range(10))
    group = f"group-{topic}"
    flow = mirror(us, eu, topic, alias="nonsense", groups=group)
    flow.copy()
    fill(eu, "mm2-offset-syncs.nonsense.internal", range(1))
    eu.create_topic("nonsense.checkpoints.internal")
    fill(eu, "nonsense.checkpoints.internal", range(1))
    commit(flow.config, "source", group, {TopicPartition(topic, 0): 9})
    said: list[str] = []
    keeper = CheckpointKeeper(flow.config, lambda _, text: said.append(text))
    try:
        assert keeper.emit() == 1
    finally:
        keeper.close()
    assert ["checkpoints.internal" in said[0], "offset sync" in said[1], len(said)] == [True, True, 2]


def test_ten_thousand_positions_in_one_round(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A hundred groups, each in a hundred partitions. A round took 0.3 s of CPU when this was written."""
    us.create_topic(topic, 100)
    for partition in range(100):
        fill(us, topic, range(10), partition, size=10)
    groups = [f"{topic}-{number}" for number in range(100)]
    flow = mirror(us, eu, topic, groups=f"{topic}-.*")
    flow.copy()
    with admin(flow.config, "source") as asked:
        for number, group in enumerate(groups):
            wanted = {TopicPartition(topic, place): (1 + (place + number) % 10, "") for place in range(100)}
            assert not asked.commit(group, wanted)
    with keeping(flow.config) as keeper:
        assert keeper.emit() == 10_000
        assert keeper.emit() == 0
        assert keeper.sync_groups() == 100
        assert keeper.sync_groups() == 0
    with admin(flow.config, "target") as asked:
        found, failed = asked.committed(groups)
    assert not failed
    assert {(group, place.partition): offset for group in groups for place, (offset, _) in found[group].items()} == {
        (group, place): 1 + (place + number) % 10 for number, group in enumerate(groups) for place in range(100)
    }
