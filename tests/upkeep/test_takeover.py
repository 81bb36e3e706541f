"""MM2 and Twinlog take over from each other, a consumer group and its checkpoints with them."""

from typing import Any

import pytest
from tests.upkeep.conftest import consumed, fill, keeping, offsets

from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.peer import mirror_properties
from twinlog.lab.waiting import until
from twinlog.model import TopicPartition
from twinlog.tracking.checkpoints import Checkpoint

pytestmark = [pytest.mark.broker, pytest.mark.java]


def test_a_group_is_followed_from_mm2_to_twinlog_and_back(
    lab: Lab, us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    group = f"group-{topic}"
    # With offset.lag.max = 0 MM2 writes a sync for every record: else it would be a while until it knows the last one.
    wanted = {"topics": topic, "groups": group, "sync.group.offsets.enabled": "true", "offset.lag.max": "0"}
    flow = mirror(us, eu, topic, groups=group)
    remote = TopicPartition(flow.remote(topic), 0)

    def stands_at() -> int:
        return offsets(flow.config, "target", group).get(remote, -1)

    def read_on(numbers: range) -> None:
        fill(us, topic, numbers)
        assert consumed(us, group, [topic], len(numbers)) == list(numbers)

    us.create_topic(topic)
    read_on(range(50))
    properties = mirror_properties([us, eu], [(us, eu)], {**wanted, "heartbeats.replication.enabled": "false"})
    mm2 = lab.mirror_maker(properties, name="mm2-groups")
    try:
        mm2.wait_until_running()
        until(lambda: stands_at() == 50, "MM2 takes the group along", seconds=90, logs=lambda: f"; at {stands_at()}")
        mm2.stop()

        read_on(range(50, 80))
        flow.copy()
        with keeping(flow.config) as keeper:
            keeper.emit()
            known = keeper.known(group)
            assert known[remote] == Checkpoint(group, remote.topic, 0, 80, 80)
            assert keeper.sync_groups() == 1
        assert stands_at() == 80
        with keeping(flow.config) as keeper:  # a restart: what was emitted is known, and not emitted again
            assert keeper.emit() == 0

        mm2.start()
        mm2.wait_until_running()
        read_on(range(80, 100))
        until(lambda: stands_at() == 100, "and MM2 again", seconds=90, logs=lambda: f"; at {stands_at()}")
    finally:
        mm2.stop()
    flow.until_equal(topic, seconds=0)
    assert not consumed(eu, group, [remote.topic], 0)
