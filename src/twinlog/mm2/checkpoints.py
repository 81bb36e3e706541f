"""MM2's checkpoints topic: the offset on the target from which a consumer group of the source would continue.

Which checkpoints a group's offsets give, which of them are new, and their encoding.

A checkpoint of Twinlog also records how far the flow may have synced the group on the target (`twinlog.highest`, a
header that MM2 neither writes nor reads; key and value are MM2's, byte by byte): the furthest of all the checkpoints
that the group and partition ever had. A group that is reset on the source gets an earlier checkpoint, but no earlier
offset on the target, and compaction removes the record of the older checkpoint. An offset on the target beyond
`highest` was committed by the group itself; any other may be the flow's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from twinlog.mm2.group_offsets import Committed
from twinlog.mm2.record_fields import INT16, INT32, INT64, VERSION, Fields, text_field
from twinlog.mm2.replication_policy import ReplicationPolicy
from twinlog.model import TopicPartition

HIGHEST_HEADER: Final = b"twinlog.highest"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`topic` is the name on the target. Both offsets are those of the next record to consume."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def key(self) -> bytes:
        return text_field(self.group) + text_field(self.topic) + INT32.pack(self.partition)

    def value(self) -> bytes:
        offsets = INT64.pack(self.upstream) + INT64.pack(self.downstream)
        return INT16.pack(VERSION) + offsets + text_field(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Raises ValueError if the record is malformed."""
        names = Fields("checkpoint", "key", key)
        content = Fields("checkpoint", "value", value)
        content.expect_version()
        return cls(
            names.text("group"),
            names.text("topic"),
            names.number(INT32, "partition"),
            content.number(INT64, "upstream offset"),
            content.number(INT64, "downstream offset"),
            content.text("metadata"),
        )


def encode_highest(offset: int) -> tuple[tuple[bytes, bytes | None], ...]:
    return ((HIGHEST_HEADER, INT64.pack(offset)),)


def decode_highest(headers: Iterable[tuple[bytes, bytes | None]]) -> int | None:
    """None: unknown, because MM2 or an older Twinlog wrote the checkpoint."""
    for name, content in headers:
        if name == HIGHEST_HEADER and content is not None and len(content) == INT64.size:
            offset: int = INT64.unpack(content)[0]
            return offset
    return None


class CheckpointStore:
    """The last checkpoint of each group and partition, in the order of addition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._highest: dict[tuple[str, TopicPartition], int] = {}

    def add(self, checkpoint: Checkpoint, highest: int | None = None) -> None:
        """`highest`: from its header."""
        self._groups.setdefault(checkpoint.group, {})[checkpoint.tp] = checkpoint
        key = checkpoint.group, checkpoint.tp
        self._highest.pop(key, None)
        if highest is not None:
            self._highest[key] = max(highest, checkpoint.downstream)

    def clear(self) -> None:
        self._groups.clear()
        self._highest.clear()

    def last(self, group: str, tp: TopicPartition) -> Checkpoint | None:
        return self._groups.get(group, {}).get(tp)

    def highest(self, group: str, tp: TopicPartition) -> int | None:
        """None: there is no checkpoint, or it has no such header."""
        return self._highest.get((group, tp))

    def wants(self, checkpoint: Checkpoint, limit: int | None = None) -> bool:
        """Whether it is to be emitted: it is the first one, or the group has advanced, or was rewound on the source.

        A translation can become less precise with time, so that a group that did not move seems to go back: not
        emitted. `limit` is the furthest offset on the target that the last checkpoint can have. If it is beyond, the
        remote topic lost records or was re-created: the last checkpoint is wrong, and the new one replaces it.
        """
        last = self.last(checkpoint.group, checkpoint.tp)
        return (
            last is None
            or checkpoint.upstream < last.upstream
            or checkpoint.downstream > last.downstream
            or is_beyond(last, limit)
        )

    def of_group(self, group: str) -> dict[TopicPartition, Checkpoint]:
        return dict(self._groups.get(group, {}))

    def groups(self) -> list[str]:
        return list(self._groups)


def is_beyond(checkpoint: Checkpoint, limit: int | None) -> bool:
    return limit is not None and checkpoint.downstream > limit


Key = tuple[str, TopicPartition]  # a group, and a partition of the target


@dataclass(slots=True)
class Due:
    """The checkpoints to be emitted, and those in the topic that are wrong because their remote topic was re-created or
    lost records.
    """

    checkpoints: list[Checkpoint] = field(default_factory=list)
    wrong: set[Key] = field(default_factory=set)
    untranslated: dict[Key, int] = field(default_factory=dict)  # not replaced yet: the group's offset on the source

    def add(
        self,
        store: CheckpointStore,
        group: str,
        committed: Mapping[TopicPartition, Committed],
        found: Mapping[TopicPartition, Checkpoint],
        tps: Mapping[TopicPartition, TopicPartition],
        limit: Callable[[TopicPartition, Checkpoint], int | None],
    ) -> None:
        """For one group. `found` are its candidates; `tps` maps the relevant partitions of the source to those on the
        target; `limit` gives the limit of a checkpoint of such a partition.
        """
        for tp in committed.keys() & tps.keys():
            last, new = store.last(group, tps[tp]), found.get(tp)
            if last is not None and last == new and store.highest(group, last.tp) is not None:
                continue  # as for most groups; saves computing the limit
            most = None if last is None else limit(tp, last)
            if last is not None and is_beyond(last, most):
                self.wrong.add((group, last.tp))
                if new is None:
                    self.untranslated[group, last.tp] = committed[tp].offset
            if new is not None and store.wants(new, most):
                self.checkpoints.append(new)
            elif new is not None and last is not None and store.highest(group, last.tp) is None:
                self.checkpoints.append(last)  # again, with the header that it lacks

    def without_highest(self, store: CheckpointStore) -> set[str]:
        """The groups for which it is not known how far they may have been synced."""
        return {each.group for each in self.checkpoints if self._before(store, each) is None}

    def highest(self, store: CheckpointStore, on_target: Mapping[str, Mapping[TopicPartition, int]]) -> dict[Key, int]:
        """How far each group may have been synced with its checkpoint. If that is not known, or applied to an earlier
        remote topic, its committed offset on the target may be the flow's. `on_target` has those offsets, by group;
        groups that are not in it are skipped.
        """
        found: dict[Key, int] = {}
        for each in self.checkpoints:
            before = self._before(store, each)
            if before is None and each.group in on_target:
                last = None if (each.group, each.tp) in self.wrong else store.last(each.group, each.tp)
                before = max(on_target[each.group].get(each.tp, -1), -1 if last is None else last.downstream)
            if before is not None:
                found[each.group, each.tp] = max(before, each.downstream)
        return found

    def _before(self, store: CheckpointStore, checkpoint: Checkpoint) -> int | None:
        key = checkpoint.group, checkpoint.tp
        return None if key in self.wrong else store.highest(*key)


def candidates(
    group: str,
    committed: Mapping[TopicPartition, Committed],
    accepts: Callable[[str], bool],
    policy: ReplicationPolicy,
    source: str,
    target: str,
    translate: Callable[[TopicPartition, int], int | None],
) -> dict[TopicPartition, Checkpoint]:
    """The checkpoints of a group's offsets on the source, by source partition, whether new or not.

    `accepts` is the topic filter, `source` and `target` are the aliases that the policy uses.
    """
    found = {}
    for tp, position in committed.items():
        if position.offset < 0 or not accepts(tp.topic):
            continue
        downstream = translate(tp, position.offset)
        if downstream is None or downstream < 0:
            continue
        topic = name_on_target(tp.topic, policy, source, target)
        found[tp] = Checkpoint(group, topic, tp.partition, position.offset, downstream, position.metadata)
    return found


def name_on_target(topic: str, policy: ReplicationPolicy, source: str, target: str) -> str:
    """A topic that was copied from the target has its original name there; any other is a remote topic."""
    came_from_target = policy.topic_source(topic) == target
    return policy.original_topic(topic) if came_from_target else policy.format_remote_topic(source, topic)
