"""Topics that are deleted and created again under the checkpoints: remote topics, offset syncs, checkpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import TopicPartition as KafkaPlace

from lab.cluster import Cluster
from lab.waiting import until
from tests.sync.conftest import checkpoint_sync, commit, delete_group, fill, offsets
from twinlog.errors import RefusedError
from twinlog.failover import MirrorClient
from twinlog.model import TopicPartition
from twinlog.sync.checkpoints import CheckpointSync

pytestmark = pytest.mark.broker


def translated(flow: Any, group: str) -> dict[TopicPartition, int]:
    with MirrorClient({"bootstrap.servers": flow.target.bootstrap()}) as client:
        return {tp: at.offset for tp, at in client.remote_consumer_offsets(group, flow.alias, 20).items()}


class Copied:
    """100 records are on the target, and the group has checkpoint and offset 80 there."""

    def __init__(self, us: Cluster, eu: Cluster, topic: str, mirror: Any, alias: str = "") -> None:
        us.create_topic(topic)
        fill(us, topic, range(100))
        self.us, self.eu, self.topic, self.group = us, eu, topic, f"group-{topic}"
        self.flow = mirror(us, eu, topic, alias=alias, groups=self.group)
        self.flow.copy()
        self.tp, self.remote = TopicPartition(topic, 0), TopicPartition(self.flow.remote(topic), 0)
        commit(self.flow.config, "source", self.group, {self.tp: 80})
        with checkpoint_sync(self.flow.config) as sync:
            assert sync.emit() == 1
            assert sync.sync_groups() == 1
        assert translated(self.flow, self.group) == self.on_target() == {self.remote: 80}

    def recreate_remote(self, *, without: int = 0) -> None:
        """`without`: so many records of the source are gone by the time it is copied again."""
        if without:
            with self.us.admin() as admin:
                admin.delete_records({KafkaPlace(self.topic, 0): without})
        self.eu.delete_topic(self.remote.topic)
        self.eu.create_topic(self.remote.topic)

    def on_target(self) -> dict[TopicPartition, int]:
        return offsets(self.flow.config, "target", self.group)

    @contextmanager
    def sync(self, *, before: bool) -> Iterator[Any]:
        """Gives a function that starts a sync, or one that was there before."""
        with checkpoint_sync(self.flow.config) as old:
            old.emit()
            old.sync_groups()
            if before:
                yield lambda: _same(old)
            else:
                yield lambda: checkpoint_sync(self.flow.config)


@contextmanager
def _same(sync: CheckpointSync) -> Iterator[CheckpointSync]:
    yield sync


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "before it starts"])
class TestRemoteTopics:
    @pytest.mark.parametrize("more", [0, 300], ids=["shorter than before", "longer than before"])
    def test_copied_again_with_fewer_records_before(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any, running: bool, more: int
    ) -> None:
        """Record 80 of the source is record 50 of the new remote topic: at 80 the group would leave out 30."""
        copied = Copied(us, eu, topic, mirror)
        with copied.sync(before=running) as start:
            copied.recreate_remote(without=30)
            fill(us, topic, range(100, 100 + more))
            copied.flow.copy()
            with start() as sync:
                assert sync.emit() == 1
                assert sync.sync_groups() == 1
                assert translated(copied.flow, copied.group) == copied.on_target() == {copied.remote: 50}
                assert sync.emit() == sync.sync_groups() == 0
                commit(copied.flow.config, "source", copied.group, {copied.tp: 90})
                assert sync.emit() == sync.sync_groups() == 1
        assert copied.on_target() == {copied.remote: 60}

    def test_not_copied_again_yet(self, us: Cluster, eu: Cluster, topic: str, mirror: Any, running: bool) -> None:
        copied = Copied(us, eu, topic, mirror)
        with copied.sync(before=running) as start:
            copied.recreate_remote()
            with start() as sync:
                assert sync.emit() == 1
                assert translated(copied.flow, copied.group) == {copied.remote: 0}
                sync.sync_groups()
                assert copied.on_target() in ({}, {copied.remote: 0})
                assert sync.emit() == 0
                copied.flow.copy()
                assert sync.emit() == sync.sync_groups() == 1
        assert translated(copied.flow, copied.group) == copied.on_target() == {copied.remote: 80}

    def test_deleted(self, us: Cluster, eu: Cluster, topic: str, mirror: Any, running: bool) -> None:
        copied = Copied(us, eu, topic, mirror)
        with copied.sync(before=running) as start:
            eu.delete_topic(copied.remote.topic)
            with start() as sync:  # without a warning
                assert sync.emit() == sync.sync_groups() == 0
                eu.create_topic(copied.remote.topic)
                copied.flow.copy()
                sync.emit()
                sync.sync_groups()
        assert translated(copied.flow, copied.group) == copied.on_target() == {copied.remote: 80}


class TestOffsetSyncs:
    def test_recreated(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        copied = Copied(us, eu, topic, mirror, alias="resync1")
        with checkpoint_sync(copied.flow.config) as sync:
            sync.emit()
            for _ in range(5):  # so that the topic is longer than its successor
                fill(us, topic, range(10))
                copied.flow.copy()
            sync.emit()
            eu.delete_topic("mm2-offset-syncs.resync1.internal")
            fill(us, topic, range(20))
            copied.flow.copy()
            commit(copied.flow.config, "source", copied.group, {copied.tp: 165})
            assert sync.emit() == 1
        assert translated(copied.flow, copied.group) == {copied.remote: 165}

    def test_deleted_while_the_flow_runs(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        """Earlier syncs remain valid, and the topic is re-created without a restart."""
        copied = Copied(us, eu, topic, mirror, alias="resync2")
        with copied.flow.start() as running, checkpoint_sync(copied.flow.config) as sync:
            running.until_running()
            sync.emit()
            eu.delete_topic("mm2-offset-syncs.resync2.internal")
            commit(copied.flow.config, "source", copied.group, {copied.tp: 95})
            assert sync.emit() == 1
            assert translated(copied.flow, copied.group) == {copied.remote: 95}
            fill(us, topic, range(100, 150))
            commit(copied.flow.config, "source", copied.group, {copied.tp: 140})
            until(lambda: sync.emit() > 0, "a checkpoint by a new sync", seconds=30)
            until(lambda: bool(sync.emit()) or translated(copied.flow, copied.group) == {copied.remote: 140}, "all")

    def test_unreadable_at_first(
        self, us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A failure is made up for by the next run."""
        copied = Copied(us, eu, topic, mirror)
        commit(copied.flow.config, "source", copied.group, {copied.tp: 90})
        with checkpoint_sync(copied.flow.config) as sync:
            with monkeypatch.context() as patch:
                patch.setattr(sync._syncs, "read", _refuse)
                with pytest.raises(RefusedError):
                    sync.emit()
            assert sync.emit() == 1
        assert translated(copied.flow, copied.group) == {copied.remote: 90}


def _refuse() -> Any:
    raise RefusedError("no leader", 5)


class TestCheckpoints:
    def test_deleted_while_it_runs(self, us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
        """Groups that do not move have checkpoints again, too."""
        copied = Copied(us, eu, topic, mirror, alias="recheck")
        with checkpoint_sync(copied.flow.config) as sync:
            assert sync.emit() == 0
            eu.delete_topic("recheck.checkpoints.internal")
            assert sync.emit() == 1
            assert translated(copied.flow, copied.group) == {copied.remote: 80}
            delete_group(eu, copied.group)
            assert sync.sync_groups() == 1
        assert copied.on_target() == {copied.remote: 80}
