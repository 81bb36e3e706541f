"""Checkpoints: where each consumer group of the source would go on on the target; and, if wanted, its offsets there.

By MM2's rules and in its topic, so its clients read them. Three things are better. Translation is exact wherever the
offset syncs say so (tracking/sync_store.py). A group that is active on the target is left alone, not tried. And where a
flow comes back from the target, a group's position in a remote topic is translated to the topic that it came from:
MM2 has the rule, but looks only at the syncs of its own direction, which say nothing of such a topic.
"""

import time
from collections.abc import Iterator
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
from twinlog.tracking.checkpoints import Checkpoint, CheckpointStore, candidates
from twinlog.tracking.group_offsets import Committed, to_write
from twinlog.tracking.offset_syncs import OffsetSync
from twinlog.tracking.sync_store import OffsetSyncStore
from twinlog.upkeep.internal import COMPACTED, ensure, write
from twinlog.upkeep.routine import Chore, Warn

_KINDS: Final = frozenset({"classic", "consumer", ""})
_PROTOCOLS: Final = frozenset({"consumer", ""})


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
        for checkpoint in due:
            self._store.add(checkpoint)
        return len(due)

    def known(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The newest checkpoints of a group, by partitions of the target."""
        return self._store.of_group(group)

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
                    self._store.add(Checkpoint.decode(record.key, record.value))
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
