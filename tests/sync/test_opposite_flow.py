"""Both flows between two clusters sync groups: which offsets each may write."""

import time
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.sync.conftest import admin, checkpoint_sync, commit, consumed, delete_group, fill, offsets
from twinlog.failover import MirrorClient
from twinlog.kafka.client import Client
from twinlog.kafka.topic_writer import write
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.model import TopicPartition
from twinlog.sync.checkpoints import CheckpointSync

pytestmark = pytest.mark.broker

HOME = {"twinlog__sync__group__offsets__home": "true"}


class Pair:
    """us->eu has copied 100 records; the offset of the group is 50 on us, and synced to eu."""

    def __init__(self, us: Cluster, eu: Cluster, topic: str, mirror: Any, **back: str) -> None:
        us.create_topic(topic)
        fill(us, topic, range(100))
        self.group = f"group-{topic}"
        self.there, self.back = (
            mirror(us, eu, topic, groups=self.group),
            mirror(eu, us, topic, groups=self.group, **back),
        )
        self.there.copy()
        self.home, self.copy = TopicPartition(topic, 0), TopicPartition(self.there.remote(topic), 0)
        self.commit_home(50)
        self.sync_there()
        assert self.on_eu() == 50

    def commit_home(self, offset: int) -> None:
        commit(self.there.config, "source", self.group, {self.home: offset})

    def commit_copy(self, offset: int) -> None:
        commit(self.there.config, "target", self.group, {self.copy: offset})

    def sync_there(self) -> int:
        """A round of us->eu, in a process of its own."""
        with checkpoint_sync(self.there.config) as sync:
            sync.emit()
            return sync.sync_groups()

    def sync_back(self) -> int:
        with checkpoint_sync(self.back.config) as sync:
            sync.emit()
            return sync.sync_groups()

    def on_us(self) -> int | None:
        return offsets(self.there.config, "source", self.group).get(self.home)

    def on_eu(self) -> int | None:
        return offsets(self.there.config, "target", self.group).get(self.copy)


class TestOwnOffsets:
    def test_a_reset_is_not_undone(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        pair = Pair(us, eu, topic, mirror, **HOME)
        with checkpoint_sync(pair.there.config) as there, checkpoint_sync(pair.back.config) as back:
            for sync in (there, back):
                sync.emit()
                sync.sync_groups()
            pair.commit_home(10)
            for _ in range(2):
                for sync in (back, there):
                    sync.emit()
                    assert sync.sync_groups() == 0
        # A new process, which reads only what the topics still hold
        assert pair.sync_back() == 0
        pair.commit_home(20)
        assert pair.sync_there() == 0
        assert pair.sync_back() == 0
        assert (pair.on_us(), pair.on_eu()) == (20, 50), "nor is a group set back on the target: MM2 does not"

    def test_a_reset_after_a_checkpoint_that_was_not_synced(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        """The offset on eu is older than the last checkpoint before the reset, but was also synced by us->eu."""
        pair = Pair(us, eu, topic, mirror, **HOME)
        pair.commit_home(70)
        with checkpoint_sync(pair.there.config) as sync:
            sync.emit()
        pair.commit_home(10)
        pair.sync_there()
        assert pair.sync_back() == 0
        assert (pair.on_us(), pair.on_eu()) == (10, 50)

    def test_a_deleted_group_stays_deleted(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        pair = Pair(us, eu, topic, mirror, **HOME)
        with checkpoint_sync(pair.there.config) as there, checkpoint_sync(pair.back.config) as back:
            for sync in (there, back):
                sync.emit()
                sync.sync_groups()
            delete_group(us, pair.group)
            for sync in (there, back):
                sync.emit()
                assert sync.sync_groups() == 0
        assert pair.sync_back() == pair.sync_there() == 0
        with admin(pair.there.config, "source") as asked:
            assert pair.group not in {each.group for each in asked.groups()}
        delete_group(eu, pair.group)
        assert pair.sync_there() == 0, "not created again on the target"
        assert pair.on_eu() is None

    def test_offsets_consumed_on_the_target_are_written_back(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        pair = Pair(us, eu, topic, mirror, **HOME)
        assert consumed(eu, pair.group, [pair.copy.topic], 50) == list(range(50, 100))
        assert pair.sync_back() == 1
        assert pair.on_us() == 100
        # And once it is home the same position is not its own any more
        pair.sync_there()
        pair.commit_home(30)
        assert pair.sync_back() == 0
        assert pair.on_us() == 30

    def test_a_group_that_expired_on_the_source_is_written_back(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        pair = Pair(us, eu, topic, mirror, **HOME)
        delete_group(us, pair.group)
        pair.commit_copy(80)
        assert pair.sync_back() == 1
        assert pair.on_us() == 80

    def test_a_group_that_only_exists_on_the_target_is_written_back(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        pair = Pair(us, eu, topic, mirror, **HOME)
        other = f"{pair.group}-2"
        back = mirror(eu, us, topic, groups=other, **HOME)
        commit(pair.there.config, "target", other, {pair.copy: 40})
        with checkpoint_sync(back.config) as sync:
            sync.emit()
            assert sync.sync_groups() == 1
        assert offsets(pair.there.config, "source", other) == {pair.home: 40}

    def test_offsets_synced_by_mm2_are_not_own(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        """MM2 does not store the highest synced offset, and compaction removes older checkpoints."""
        pair = Pair(us, eu, topic, mirror, **HOME)
        pair.commit_home(10)
        _write_as_mm2(pair, Checkpoint(pair.group, *pair.copy, 10, 10))
        assert pair.sync_back() == 0
        # us->eu takes it over: from then on it is known what is whose
        assert pair.sync_there() == 0
        assert pair.sync_back() == 0
        assert (pair.on_us(), pair.on_eu()) == (10, 50)
        pair.commit_copy(60)
        assert pair.sync_back() == 1
        assert pair.on_us() == 60


class TestRequirements:
    def warnings(self, flow: Any) -> list[str]:
        warnings: list[str] = []
        sync = CheckpointSync(flow.config, lambda _, text: warnings.append(text))
        try:
            sync.emit()
            assert sync.sync_groups() == 0
        finally:
            sync.close()
        return warnings

    def test_offset_syncs_on_the_source(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        eu.create_topic(topic)
        fill(eu, topic, range(20))
        group = f"group-{topic}"
        back = mirror(eu, us, topic, alias="syncsthere", groups=group, **HOME)
        back.copy()
        warnings = self.warnings(back)
        assert len(warnings) == 1
        assert warnings[0].startswith("twinlog.sync.group.offsets.home has no effect")


def _write_as_mm2(pair: Pair, checkpoint: Checkpoint) -> None:
    client = Client("eu", pair.there.config.source.clients["target.admin"], "test")
    try:
        tp = TopicPartition(f"{pair.there.alias}.checkpoints.internal", 0)
        write(client, tp, [(int(time.time() * 1000), checkpoint.key(), checkpoint.value())])
    finally:
        client.close()


class TestByDefault:
    def test_offsets_are_translated_but_not_written_back(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        """A group of the same name reads the copy on eu: the idle one at home is not its business."""
        pair = Pair(us, eu, topic, mirror)
        pair.commit_copy(80)
        assert pair.sync_back() == 0
        assert pair.on_us() == 50
        with MirrorClient({"bootstrap.servers": us.bootstrap()}) as client:
            found = client.remote_consumer_offsets(pair.group, "eu", 20)
        assert found[pair.home].offset == 80

    def test_a_group_of_the_other_clusters_own_topic_is_written(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        eu.create_topic(topic)
        fill(eu, topic, range(30))
        group = f"group-{topic}"
        back = mirror(eu, us, topic, groups=group)
        back.copy()
        commit(back.config, "source", group, {TopicPartition(topic, 0): 25})
        with checkpoint_sync(back.config) as sync:
            sync.emit()
            assert sync.sync_groups() == 1
        assert offsets(back.config, "target", group) == {TopicPartition(f"eu.{topic}", 0): 25}


class TestRetiredGroups:
    """As MM2: only groups that are there on the source and pass the filter now."""

    def test_a_deleted_group_is_not_created_on_the_target(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any
    ) -> None:
        pair = Pair(us, eu, topic, mirror)
        with checkpoint_sync(pair.there.config) as sync:
            sync.emit()
            delete_group(us, pair.group)
            delete_group(eu, pair.group)
            assert sync.sync_groups() == 0
            sync.emit()
            assert sync.sync_groups() == 0
        assert pair.sync_there() == 0
        assert pair.on_eu() is None

    def test_an_excluded_group_is_skipped(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        pair = Pair(us, eu, topic, mirror)
        delete_group(eu, pair.group)
        flow = mirror(us, eu, topic, groups="nobody")
        with checkpoint_sync(flow.config) as sync:
            sync.emit()
            assert sync.sync_groups() == 0
        assert pair.on_eu() is None

    def test_an_excluded_topic_is_skipped(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        pair = Pair(us, eu, topic, mirror)
        other = f"{topic}-other"
        us.create_topic(other)
        fill(us, other, range(10))
        flow = mirror(us, eu, other, groups=pair.group)
        flow.copy()
        commit(flow.config, "source", pair.group, {TopicPartition(other, 0): 5})
        delete_group(eu, pair.group)
        with checkpoint_sync(flow.config) as sync:
            sync.emit()
            assert sync.sync_groups() == 1
        assert offsets(flow.config, "target", pair.group) == {TopicPartition(flow.remote(other), 0): 5}
