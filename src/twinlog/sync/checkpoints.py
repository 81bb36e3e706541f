"""Emits checkpoints (translated offsets of consumer groups), and syncs group offsets to the target if enabled.

By MM2's rules and in its topic, so that its clients can read them. Four improvements over MM2:
* Translation is exact where offset syncs allow it (mm2/offset_translation.py).
* A group that is active on the target is skipped without an attempt.
* With an opposite flow, a group's offset in a remote topic is translated to the original topic. MM2 has the rule, but
  reads only the syncs of its own direction, which do not include such topics. Committing it is a setting
  (opposite_flow.py).
* A checkpoint beyond the end of its remote topic, or beyond the offset that syncs give, is replaced: the remote topic
  was re-created, or lost records.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.records import Headers
from twinlog.kafka.topic_reader import TopicReader
from twinlog.kafka.topic_writer import write
from twinlog.mm2 import offset_syncs
from twinlog.mm2.checkpoints import (
    Checkpoint,
    CheckpointStore,
    Due,
    Key,
    candidates,
    decode_highest,
    encode_highest,
    is_beyond,
    name_on_target,
)
from twinlog.mm2.group_offsets import Committed, GroupOffsetChange, to_write
from twinlog.mm2.offset_syncs import OffsetSync
from twinlog.mm2.offset_translation import OffsetSyncStore
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import checkpoint_topics_of, group_selection_of, offset_syncs_location
from twinlog.model import TopicPartition
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.group_status import (
    MAX_GROUPS,
    GroupStatus,
    Names,
    Offsets,
    Written,
    committed,
    completed,
    ends,
    positions,
)
from twinlog.sync.internal_topics import checkpoints_topic, ensure, offset_syncs_topic
from twinlog.sync.opposite_flow import OppositeFlow
from twinlog.sync.remote_topic_changes import Ends, RemoteTopicChanges
from twinlog.sync.scheduler import ONCE, PeriodicJob, Warn, interval

_KINDS: Final = frozenset({"classic", "consumer", ""})
_PROTOCOLS: Final = frozenset({"consumer", ""})
_STATUS_INTERVAL: Final = 10.0  # seconds between two reads of the groups' status
_SHARE: Final = 20  # the status is read at most 1/20 of the time


class CheckpointSync:
    """Not thread-safe."""

    def __init__(self, config: FlowConfig, warn: Warn) -> None:
        assert config.checkpoint is not None
        connector = config.checkpoint
        self._settings = connector.settings
        self._warn = warn
        self._flow = config.flow
        self._clients = FlowClients(config, "checkpoint")
        self._source, self._target = self._clients.client("source.admin"), self._clients.client("target.admin")
        self._upstream, self._downstream = Admin(self._source), Admin(self._target)
        self._writer = self._clients.client("data.producer")  # as in MM2: the worker's
        self._policy = policy_of(connector)
        self._groups_wanted = group_selection_of(config)
        self._topics_wanted = checkpoint_topics_of(config)
        self._own_topic = checkpoints_topic(config)
        self._topic = self._own_topic.name
        side, syncs = offset_syncs_location(config)
        syncs_reader = self._clients.client(f"{side}.consumer")
        self._syncs = TopicReader(syncs_reader, syncs)
        # By default the opposite flow has its syncs on the target, in a topic of this name. If ours were on the target
        # too, both flows would share the topic.
        back = self._policy.offset_syncs_topic(self._settings.source_cluster_alias)
        self._syncs_back = TopicReader(self._target, back) if side == "source" else None
        self._syncs_topic = offset_syncs_topic(config) if config.replicates else None
        self._syncs_admin = self._source if side == "source" else self._target
        self._opposite: OppositeFlow | None = None
        if self._settings.twinlog_sync_group_offsets_home and self._syncs_back is not None:
            theirs = self._policy.checkpoints_topic(self._settings.target_cluster_alias)
            self._opposite = OppositeFlow(syncs_reader, theirs, config.flow.target, warn)
        self._remote_topics = RemoteTopicChanges(self._target)
        self._store = CheckpointStore()
        self._checkpoints = TopicReader(self._target, self._topic, self._forget_checkpoints)
        self._translations: OffsetSyncStore | None = None  # until offset syncs are first read
        self.groups: list[str] = []
        self._groups_known = False
        self._checkpoints_read = False
        self._written: dict[tuple[str, TopicPartition], Written] = {}
        self._status_due = 0.0
        # Read from other threads: replaced, never changed
        self.group_status: list[GroupStatus] = []
        self.checkpoint_ms: int | None = None  # time of the newest checkpoint

    def jobs(self) -> list[PeriodicJob]:
        settings = self._settings
        refresh = interval(settings.refresh_groups_interval_seconds, enabled=settings.refresh_groups_enabled, least=1.0)
        jobs = [PeriodicJob("consumer groups", ONCE if refresh is None else refresh, self.refresh)]
        emit = interval(settings.emit_checkpoints_interval_seconds, enabled=settings.emit_checkpoints_enabled)
        if emit is not None:
            jobs.append(PeriodicJob("checkpoints", emit, self.emit, first=emit))
        sync = interval(settings.sync_group_offsets_interval_seconds, enabled=settings.sync_group_offsets_enabled)
        if emit is not None and sync is not None:
            jobs.append(PeriodicJob("group offsets", sync, self.sync_groups, first=sync))
        jobs.append(
            PeriodicJob("consumer group status", _STATUS_INTERVAL, self.read_status, first=_STATUS_INTERVAL / 2)
        )
        return jobs

    def close(self) -> None:
        self._clients.close()

    def refresh(self) -> None:
        """Lists the groups with an offset in a topic of this flow."""
        wanted = [
            each.group
            for each in self._upstream.groups()
            if each.kind in _KINDS and each.protocol_type in _PROTOCOLS and self._groups_wanted.selects(each.group)
        ]
        positions, failed = self._upstream.committed(wanted)
        self._report_unreadable(failed, self._flow.source)
        self.groups = sorted(
            group for group, offsets in positions.items() if any(self._accepts(tp.topic) for tp in offsets)
        )
        self._groups_known = True

    def emit(self) -> int:
        """The number of written checkpoints."""
        if not self._groups_known:
            self.refresh()
        self._ensure_topics()
        due = self._due()
        self._write(due.checkpoints, due.highest(self._store, self._on_target(due.without_highest(self._store))))
        return len(due.checkpoints)

    def preview(self) -> list[GroupOffsetChange]:
        """The offsets that would be committed on the target now. Writes nothing.

        Only for groups that exist on the target: a coordinator request for another one would make a new cluster create
        __consumer_offsets.
        """
        self.refresh()
        for checkpoint in self._due().checkpoints:
            self._store.add(checkpoint)
        known = [group for group in self._store.groups() if self._groups_wanted.selects(group)]
        due = self._to_sync(committed(self._upstream, known)[0])
        there = {each.group for each in self._downstream.groups()} & due.keys()
        states = self._downstream.describe_groups(sorted(there))
        positions, failed = self._downstream.committed(sorted(there))
        found = []
        for group, checkpoints in due.items():
            if group in failed or (group in there and group not in states):
                continue
            now = {tp: Committed(*position) for tp, position in positions.get(group, {}).items()}
            then = to_write({each.tp: each for each in checkpoints.values()}, states.get(group), now)
            for tp, each in sorted(then.items()):
                found.append(GroupOffsetChange(group, *tp, now[tp].offset if tp in now else None, each.offset))
        return found

    def _due(self) -> Due:
        """The checkpoints to write now."""
        positions, failed = self._upstream.committed(self.groups)
        self._report_unreadable(failed, self._flow.source)
        tps = self._remote_partitions(positions)
        translations = self._read_syncs(tps)
        # After the syncs: a record is written before its sync.
        there = self._remote_topics.ends(set(tps.values()))
        for tp, remote in tps.items():
            if remote in there.offsets:
                translations.forget_beyond(tp, there.offsets[remote])
        known = {tp: remote for tp, remote in tps.items() if there.covers(remote)}
        due = Due()
        for group, offsets in positions.items():
            current = {tp: Committed(offset, metadata) for tp, (offset, metadata) in offsets.items()}
            found = self._candidates(group, current, translations)
            due.add(self._store, group, current, found, known, lambda tp, last: self._limit(there, tp, last))
        due.checkpoints += self._at_the_beginning(due.untranslated)
        return due

    def _write(self, due: Sequence[Checkpoint], highest: Mapping[Key, int]) -> None:
        now = int(time.time() * 1000)
        entries = [(now, each.key(), each.value(), _headers(highest.get((each.group, each.tp)))) for each in due]
        write(self._writer, TopicPartition(self._topic, 0), entries)
        # Only after the write: what failed is emitted again.
        took = time.time() * 1000 - now
        for checkpoint in due:
            key = checkpoint.group, checkpoint.tp
            self._store.add(checkpoint, highest.get(key))
            self._written[key] = Written(now, took)
        if due:
            self.checkpoint_ms = now

    def _on_target(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """Committed offsets on the target, without groups that cannot be read."""
        wanted = sorted(groups)
        try:
            found, failed = committed(self._downstream, wanted) if wanted else ({}, {})
        except RefusedError:  # MM2 does not need this permission for checkpoints
            return {}
        return {
            group: {tp: offset for tp, (offset, _) in found.get(group, {}).items()}
            for group in wanted
            if group not in failed
        }

    def _candidates(
        self, group: str, committed: Mapping[TopicPartition, Committed], translations: OffsetSyncStore
    ) -> dict[TopicPartition, Checkpoint]:
        return candidates(
            group,
            committed,
            self._accepts,
            self._policy,
            self._settings.source_cluster_alias,
            self._settings.target_cluster_alias,
            translations.translate,
        )

    def _remote_partitions(self, positions: Offsets) -> dict[TopicPartition, TopicPartition]:
        """The partitions of the source with group offsets, and their partitions on the target."""
        found: dict[TopicPartition, TopicPartition] = {}
        names = self._names()
        for tp in {tp for offsets in positions.values() for tp in offsets}:
            if names.accepts(tp.topic):
                found[tp] = TopicPartition(names.on_target(tp.topic), tp.partition)
        return found

    def _at_the_beginning(self, untranslated: Mapping[Key, int]) -> list[Checkpoint]:
        """Replacements for invalid checkpoints that cannot be translated yet."""
        starts = self._remote_topics.starts({tp for _, tp in untranslated}) if untranslated else {}
        return [
            Checkpoint(group, *tp, upstream, starts[tp])
            for (group, tp), upstream in untranslated.items()
            if tp in starts
        ]

    def read_status(self) -> list[GroupStatus]:
        """Offsets of the groups on both sides. Cached, because it is expensive with many groups."""
        began = time.monotonic()
        if began < self._status_due:
            return self.group_status
        if not self._groups_known:
            self.refresh()
        if not self._checkpoints_read and self._translations is None:
            self._checkpoints_read = self._read_checkpoints()
        groups = self.groups[:MAX_GROUPS]
        known = {group: self._store.of_group(group) for group in groups}
        rows = positions(
            committed(self._upstream, groups)[0], known, committed(self._downstream, groups)[0], self._names()
        )
        upstream = ends(self._source, {TopicPartition(row.source_topic, row.partition) for row in rows})
        downstream = ends(self._target, {TopicPartition(row.topic, row.partition) for row in rows})
        self.group_status = completed(rows, upstream, downstream, self._written)
        now = time.monotonic()
        self._status_due = now + max(_STATUS_INTERVAL / 2, _SHARE * (now - began))
        return self.group_status

    def _names(self) -> Names:
        source, target = self._settings.source_cluster_alias, self._settings.target_cluster_alias
        policy = self._policy

        def on_source(topic: str) -> str:
            if policy.topic_source(topic) == source:
                return policy.upstream_topic(topic) or topic
            return policy.format_remote_topic(target, topic)

        return Names(self._accepts, lambda topic: name_on_target(topic, policy, source, target), on_source)

    def _accepts(self, topic: str) -> bool:
        """A remote topic that came from the target is selected by its original name."""
        if self._syncs_back and self._policy.topic_source(topic) == self._settings.target_cluster_alias:
            topic = self._policy.original_topic(topic)
        return self._topics_wanted.accepts(topic)

    def _ensure_topics(self) -> None:
        """Each time, because topics may be deleted while we run."""
        ensure(self._target, self._own_topic)
        if self._syncs_topic is not None and self._translations is not None:
            name = self._syncs_topic.name
            try:
                info = self._syncs_admin.metadata([name]).topics.get(name)
                if info is None or info.error == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                    ensure(self._syncs_admin, self._syncs_topic)
            except RefusedError as error:
                self._warn(name, str(error))

    def _read_syncs(self, tps: Mapping[TopicPartition, TopicPartition]) -> OffsetSyncStore:
        """`tps` as in `_remote_partitions`. Syncs of re-created remote topics are dropped."""
        loaded = self._read_checkpoints()
        replaced = self._remote_topics.replaced({there.topic for there in tps.values()})
        if self._translations is None:
            self._translations = OffsetSyncStore(must_read_to_end=not loaded)
        for topic in {tp.topic for tp, there in tps.items() if there.topic in replaced}:
            self._translations.forget(topic)
        self._read_offset_syncs(self._translations)
        self._translations.finish_initial_read()  # also if an earlier attempt failed
        return self._translations

    def _read_checkpoints(self) -> bool:
        """Reads earlier checkpoints. False if they cannot be read: then older offsets are not translated, as in MM2."""
        try:
            for record in self._checkpoints.read():
                try:
                    checkpoint = Checkpoint.decode(record.key, record.value)
                except ValueError as error:
                    self._warn(self._topic, f"topic {self._topic}: record skipped: {error}")
                    continue
                self._store.add(checkpoint, decode_highest(record.headers))
                key = checkpoint.group, checkpoint.tp
                if key not in self._written or self._written[key].time_ms != record.timestamp:
                    self._written[key] = Written(record.timestamp)
                self.checkpoint_ms = max(self.checkpoint_ms or 0, record.timestamp)
        except KafkaError as error:
            self._warn(self._topic, f"earlier checkpoints not readable, so checkpoints may be delayed: {error}")
            return False
        return True

    def _forget_checkpoints(self) -> None:
        """The topic was deleted: all checkpoints must be written again."""
        self._store.clear()
        self._written.clear()

    def _read_offset_syncs(self, store: OffsetSyncStore) -> None:
        source, target = self._settings.source_cluster_alias, self._settings.target_cluster_alias
        for sync in self._decoded(self._syncs):
            if sync.remote in {None, self._policy.format_remote_topic(source, sync.topic)}:  # not of another flow
                store.add(sync)
        if self._syncs_back is not None:
            try:
                for sync in self._decoded(self._syncs_back):
                    remote = self._policy.format_remote_topic(target, sync.topic)
                    if remote != sync.topic and sync.remote in {None, remote}:
                        store.add(sync.turned(remote))
            except RefusedError as error:
                # Without an opposite flow there is no such topic, and no permission: not worth a warning.
                if error.code not in error_codes.UNAUTHORIZED:
                    raise

    def _decoded(self, reader: TopicReader) -> Iterator[OffsetSync]:
        for record in reader.read():
            headers = [(name.decode(errors="replace"), value) for name, value in record.headers]
            try:
                yield offset_syncs.decode(record.key, record.value, headers)
            except ValueError as error:
                self._warn("offset syncs", f"offset sync skipped: {error}")

    def sync_groups(self) -> int:
        """Commits offsets of inactive groups on the target; returns the number of groups.

        As in MM2, only of selected groups that exist on the source, and only for partitions in which they have an
        offset there.
        """
        if self._translations is None:  # checkpoints cannot be validated yet
            return 0
        if self._settings.twinlog_sync_group_offsets_home and self._opposite is None:
            self._warn(
                "twinlog.sync.group.offsets.home",
                "twinlog.sync.group.offsets.home has no effect: both flows share one offset-syncs topic; set "
                "offset-syncs.topic.location = source for both",
            )
        known = [group for group in self._store.groups() if self._groups_wanted.selects(group)]
        upstream, failed = committed(self._upstream, known)
        self._report_unreadable(failed, self._flow.source)
        due = self._to_sync(upstream)
        states = self._downstream.describe_groups(due)
        positions, failed = self._downstream.committed([group for group in due if states.get(group) is not None])
        self._report_unreadable(failed, self._flow.target)
        written = 0
        for group, checkpoints in due.items():
            if group in failed or group not in states:
                continue
            there = {tp: Committed(*position) for tp, position in positions.get(group, {}).items()}
            offsets = to_write({each.tp: each for each in checkpoints.values()}, states[group], there)
            if not offsets:
                continue
            refused = self._downstream.commit(group, {tp: (each.offset, each.metadata) for tp, each in offsets.items()})
            if refused:
                tp, code = next(iter(refused.items()))
                self._warn(
                    group,
                    f"group {group}: offset of {tp} rejected by {self._flow.target}: {error_codes.name(code)}",
                )
            if self._opposite is not None:
                for tp, each in checkpoints.items():
                    if each.tp in offsets and each.tp not in refused:
                        self._opposite.mark_written(group, tp, each.upstream)
            written += len(refused) < len(offsets)
        return written

    def _to_sync(self, upstream: Offsets) -> dict[str, dict[TopicPartition, Checkpoint]]:
        """By group, the checkpoints that may be committed, by partition of the source."""
        tps = self._remote_partitions(upstream)
        there = self._remote_topics.ends(set(tps.values()))
        home = {tp for tp in tps if self._policy.topic_source(tp.topic) == self._settings.target_cluster_alias}
        opposite = self._opposite if home and self._opposite is not None and self._opposite.read() else None
        found: dict[str, dict[TopicPartition, Checkpoint]] = {}
        for group, offsets in upstream.items():
            for tp in offsets:
                checkpoint = self._store.last(group, tps[tp]) if tp in tps else None
                if checkpoint is None or not there.covers(checkpoint.tp):
                    continue
                if is_beyond(checkpoint, self._limit(there, tp, checkpoint)):
                    continue
                if tp not in home or (opposite is not None and opposite.is_own(group, tp, checkpoint.upstream)):
                    found.setdefault(group, {})[tp] = checkpoint
        return found

    def _limit(self, there: Ends, tp: TopicPartition, checkpoint: Checkpoint) -> int | None:
        """The highest valid downstream offset of a checkpoint; None if unknown."""
        by_syncs = self._translations.limit(tp, checkpoint.upstream) if self._translations is not None else None
        return there.limit(checkpoint.tp, by_syncs)

    def _report_unreadable(self, failed: dict[str, int], alias: str) -> None:
        for group, code in failed.items():
            self._warn(group, f"group {group}: cannot read offsets on {alias}: {error_codes.name(code)}")


def _headers(highest: int | None) -> Headers:
    return () if highest is None else encode_highest(highest)
