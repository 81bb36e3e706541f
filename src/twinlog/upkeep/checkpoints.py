"""Checkpoints: where each consumer group of the source would go on on the target; and, if wanted, its offsets there.

By MM2's rules and in its topic, so its clients read them. Three things are better. Translation is exact wherever the
offset syncs say so (tracking/sync_store.py). A group that is active on the target is left alone, not tried. And where a
flow comes back from the target, a group's position in a remote topic is translated to the topic that it came from:
MM2 has the rule, but looks only at the syncs of its own direction, which say nothing of such a topic.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RefusedError
from twinlog.kafka import codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client
from twinlog.kafka.reading import TopicReader
from twinlog.model import TopicPartition
from twinlog.topology.policy import policy_of
from twinlog.topology.selection import checkpoint_topics_of, group_selection_of, offset_syncs_location
from twinlog.tracking import offset_syncs
from twinlog.tracking.checkpoints import Checkpoint, CheckpointStore, candidates, name_on_target
from twinlog.tracking.group_offsets import Committed, to_write
from twinlog.tracking.offset_syncs import OffsetSync
from twinlog.tracking.sync_store import OffsetSyncStore
from twinlog.upkeep.group_look import MOST_GROUPS, GroupStatus, Names, Written, committed, ends, positions
from twinlog.upkeep.internal import COMPACTED, ensure, write
from twinlog.upkeep.routine import Chore, Warn

_KINDS: Final = frozenset({"classic", "consumer", ""})
_PROTOCOLS: Final = frozenset({"consumer", ""})
_LOOK: Final = 10.0  # seconds between two looks at where groups stand
_SHARE: Final = 20  # so many times as long as a look took the next one waits


class CheckpointKeeper:
    """Belongs to one thread."""

    def __init__(self, config: FlowConfig, warn: Warn) -> None:
        assert config.checkpoint is not None
        connector = config.checkpoint
        self._settings = connector.settings
        self._warn = warn
        self._flow = config.flow
        name = f"twinlog-{config.flow}-checkpoints"
        self._source = Client(config.flow.source, connector.clients["source.admin"], name)
        self._target = Client(config.flow.target, connector.clients["target.admin"], name)
        self._upstream, self._downstream = Admin(self._source), Admin(self._target)
        writer = config.source.clients["data.producer"] if config.source else connector.clients["target.producer"]
        self._writer = Client(config.flow.target, writer, name)
        self._policy = policy_of(connector)
        self._groups_wanted = group_selection_of(config)
        self._topics_wanted = checkpoint_topics_of(config)
        self._topic = self._policy.checkpoints_topic(self._settings.source_cluster_alias)
        side, syncs = offset_syncs_location(config)
        reader = connector.clients[f"{side}.consumer"]
        self._syncs_client = Client(getattr(config.flow, side), reader, name)
        self._syncs = TopicReader(self._syncs_client, syncs)
        # The flow from the target back keeps its syncs on the target, under our name, if its file says no other. Were
        # ours there, too, they could not be told apart.
        back = self._policy.offset_syncs_topic(self._settings.source_cluster_alias)
        self._syncs_back = TopicReader(self._target, back) if side == "source" else None
        self._store = CheckpointStore()
        self._translations: OffsetSyncStore | None = None  # until the first look
        self.groups: list[str] = []
        self._looked = False
        self._loaded = False
        self._written: dict[tuple[str, TopicPartition], Written] = {}
        self._look_at = 0.0
        # For whoever watches, from any thread: replaced, never changed
        self.standing: list[GroupStatus] = []
        self.checkpoint_ms: int | None = None  # when the newest one was written

    def chores(self) -> list[Chore]:
        settings = self._settings
        every = float(settings.refresh_groups_interval_seconds) if settings.refresh_groups_enabled else 0.0
        chores = [Chore("consumer groups", every, self.refresh)]
        if settings.emit_checkpoints_enabled:
            every = float(settings.emit_checkpoints_interval_seconds)
            chores.append(Chore("checkpoints", every, self.emit, first=every))
        if settings.emit_checkpoints_enabled and settings.sync_group_offsets_enabled:
            every = float(settings.sync_group_offsets_interval_seconds)
            chores.append(Chore("group offsets", every, self.sync_groups, first=every))
        chores.append(Chore("a look at consumer groups", _LOOK, self.look, first=_LOOK / 2))
        return chores

    def close(self) -> None:
        for client in (self._source, self._target, self._writer, self._syncs_client):
            client.close()

    def refresh(self) -> None:
        """The groups with a position in a topic of this flow; those without one have nothing to be translated."""
        wanted = [
            each.group
            for each in self._upstream.groups()
            if each.kind in _KINDS and each.protocol_type in _PROTOCOLS and self._groups_wanted.selects(each.group)
        ]
        positions, failed = self._upstream.committed(wanted)
        self._tell(failed, "its offsets cannot be read on", self._flow.source)
        self.groups = sorted(
            group for group, offsets in positions.items() if any(self._accepts(place.topic) for place in offsets)
        )
        self._looked = True

    def emit(self) -> int:
        """How many checkpoints were written."""
        if not self._looked:
            self.refresh()
        translations = self._read_syncs()
        positions, failed = self._upstream.committed(self.groups)
        self._tell(failed, "its offsets cannot be read on", self._flow.source)
        due: list[Checkpoint] = []
        for group, offsets in positions.items():
            committed = {place: Committed(offset, metadata) for place, (offset, metadata) in offsets.items()}
            found = candidates(
                group,
                committed,
                self._accepts,
                self._policy,
                self._settings.source_cluster_alias,
                self._settings.target_cluster_alias,
                translations.translate,
            )
            due += [checkpoint for checkpoint in found if self._store.wants(checkpoint)]
        now = int(time.time() * 1000)
        write(self._writer, TopicPartition(self._topic, 0), [(now, each.key(), each.value()) for each in due])
        # Only what is written is known: what failed is emitted again.
        took = time.time() * 1000 - now
        for checkpoint in due:
            self._store.add(checkpoint)
            self._written[checkpoint.group, checkpoint.place] = Written(now, took)
        if due:
            self.checkpoint_ms = now
        return len(due)

    def known(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The newest checkpoints of a group, by partitions of the target."""
        return self._store.of_group(group)

    def look(self) -> list[GroupStatus]:
        """Where groups stand on both sides. Not more often than is cheap: with many groups it takes its time."""
        began = time.monotonic()
        if began < self._look_at:
            return self.standing
        if not self._looked:
            self.refresh()
        if not self._loaded and self._translations is None:
            self._loaded = self._load()
        groups = self.groups[:MOST_GROUPS]
        there = {group: self.known(group) for group in groups}
        rows = positions(committed(self._upstream, groups), there, committed(self._downstream, groups), self._names())
        upstream = ends(self._source, {TopicPartition(row.source_topic, row.partition) for row in rows})
        downstream = ends(self._target, {TopicPartition(row.topic, row.partition) for row in rows})
        found = []
        for row in rows:
            place = TopicPartition(row.topic, row.partition)
            written = self._written.get((row.group, place))
            found.append(
                replace(
                    row,
                    source_end=upstream.get(TopicPartition(row.source_topic, row.partition)),
                    target_end=downstream.get(place),
                    checkpoint_ms=written.time_ms if written else None,
                    latency_ms=written.latency_ms if written else None,
                )
            )
        self.standing = found
        now = time.monotonic()
        self._look_at = now + max(_LOOK / 2, _SHARE * (now - began))
        return found

    def _names(self) -> Names:
        source, target = self._settings.source_cluster_alias, self._settings.target_cluster_alias
        policy = self._policy

        def on_source(topic: str) -> str:
            if policy.topic_source(topic) == source:
                return policy.upstream_topic(topic) or topic
            return policy.format_remote_topic(target, topic)

        return Names(self._accepts, lambda topic: name_on_target(topic, policy, source, target), on_source)

    def _accepts(self, topic: str) -> bool:
        """A topic that came from the target is meant by its name there."""
        if self._syncs_back and self._policy.topic_source(topic) == self._settings.target_cluster_alias:
            topic = self._policy.original_topic(topic)
        return self._topics_wanted.accepts(topic)

    def _read_syncs(self) -> OffsetSyncStore:
        if self._translations is None:
            factor = self._settings.checkpoints_topic_replication_factor
            ensure(self._target, self._topic, 1, factor, COMPACTED, "checkpoints.topic.replication.factor")
            self._translations = OffsetSyncStore(must_read_to_end=not self._load())
            self._hear_syncs(self._translations)
            self._translations.finish_initial_read()
        else:
            self._hear_syncs(self._translations)
        return self._translations

    def _load(self) -> bool:
        """What was emitted before; False: it may not be read, so nothing older than now is translated, as in MM2."""
        try:
            for record in TopicReader(self._target, self._topic).read():
                try:
                    checkpoint = Checkpoint.decode(record.key, record.value)
                    self._store.add(checkpoint)
                    self._written[checkpoint.group, checkpoint.place] = Written(record.timestamp)
                    self.checkpoint_ms = max(self.checkpoint_ms or 0, record.timestamp)
                except ValueError as error:
                    self._warn(self._topic, f"{self._topic}: a record is passed over: {error}")
        except KafkaError as error:
            self._warn(self._topic, f"checkpoints from before are not known, so groups may have to wait: {error}")
            return False
        return True

    def _hear_syncs(self, store: OffsetSyncStore) -> None:
        for sync in self._decoded(self._syncs):
            store.add(sync)
        if self._syncs_back is not None:
            try:
                for sync in self._decoded(self._syncs_back):
                    remote = self._policy.format_remote_topic(self._settings.target_cluster_alias, sync.topic)
                    if remote != sync.topic:
                        store.add(sync.turned(remote))
            except RefusedError as error:
                # Whoever has no flow back has no such topic, nor a right to one: that is nothing to be told.
                if error.code not in codes.DENIED:
                    raise

    def _decoded(self, reader: TopicReader) -> Iterator[OffsetSync]:
        for record in reader.read():
            headers = [(name.decode(errors="replace"), value) for name, value in record.headers]
            try:
                yield offset_syncs.decode(record.key, record.value, headers)
            except ValueError as error:
                self._warn("offset syncs", f"an offset sync is passed over: {error}")

    def sync_groups(self) -> int:
        """Writes positions of idle groups on the target; how many groups."""
        groups = [group for group in self._store.groups() if self._groups_wanted.selects(group)]
        states = self._downstream.describe_groups(groups)
        positions, failed = self._downstream.committed([group for group in groups if states.get(group) is not None])
        self._tell(failed, "its offsets cannot be read on", self._flow.target)
        written = 0
        for group in groups:
            if group in failed or group not in states:
                continue
            there = {place: Committed(*position) for place, position in positions.get(group, {}).items()}
            offsets = to_write(self.known(group), states[group], there)
            if not offsets:
                continue
            refused = self._downstream.commit(
                group, {place: (each.offset, each.metadata) for place, each in offsets.items()}
            )
            if refused:
                place, code = next(iter(refused.items()))
                self._warn(
                    group, f"group {group}: its offset of {place} is refused by {self._flow.target}: {codes.name(code)}"
                )
            written += len(refused) < len(offsets)
        return written

    def _tell(self, failed: dict[str, int], what: str, alias: str) -> None:
        for group, code in failed.items():
            self._warn(group, f"group {group}: {what} {alias}: {codes.name(code)}")
