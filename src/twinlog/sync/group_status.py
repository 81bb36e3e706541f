"""Status of consumer groups on both clusters: offsets, checkpoints, end offsets. Read-only."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from twinlog.kafka.admin import Admin
from twinlog.kafka.client import LATEST, Client
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.model import TopicPartition

MAX_GROUPS: Final = 1000  # each costs a request on both clusters
_MAX_ROWS: Final = 20_000

Offsets = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]  # by group: offset and metadata


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Offsets of a group in one partition. None: unknown, or none."""

    group: str
    topic: str  # on the target
    partition: int
    source_topic: str
    source_offset: int | None = None
    source_end: int | None = None
    checkpoint_offset: int | None = None  # on the target
    checkpoint_ms: int | None = None
    target_offset: int | None = None  # committed by the group on the target
    target_end: int | None = None
    latency_ms: float | None = None  # of its newest checkpoint, from creation to acknowledgement

    @property
    def source_lag(self) -> int | None:
        return _lag(self.source_offset, self.source_end)

    @property
    def target_lag(self) -> int | None:
        """Of the committed offset; if there is none, of the checkpoint."""
        return _lag(self.checkpoint_offset if self.target_offset is None else self.target_offset, self.target_end)


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint in its topic."""

    time_ms: int
    latency_ms: float | None = None  # None: not written by this process


@dataclass(frozen=True, slots=True)
class Names:
    """Maps topic names between the clusters."""

    accepts: Callable[[str], bool]  # whether a topic of the source is in the flow
    on_target: Callable[[str], str]
    on_source: Callable[[str], str]


def positions(
    source: Offsets, checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]], target: Offsets, names: Names
) -> list[GroupStatus]:
    """A row for each group and partition with an offset or a checkpoint, without end offsets. Pure."""
    rows: list[GroupStatus] = []
    for group in sorted({*source, *checkpoints}):
        ours = {
            TopicPartition(names.on_target(tp.topic), tp.partition): (tp.topic, offset)
            for tp, (offset, _) in source.get(group, {}).items()
            if names.accepts(tp.topic)
        }
        known, there = checkpoints.get(group, {}), target.get(group, {})
        for tp in sorted({*ours, *known}):
            topic, offset = ours.get(tp, (names.on_source(tp.topic), None))
            rows.append(
                GroupStatus(
                    group,
                    *tp,
                    topic,
                    source_offset=offset,
                    checkpoint_offset=known[tp].downstream if tp in known else None,
                    target_offset=there[tp][0] if tp in there else None,
                )
            )
    return rows[:_MAX_ROWS]


def completed(
    rows: Iterable[GroupStatus],
    source_ends: Mapping[TopicPartition, int],
    target_ends: Mapping[TopicPartition, int],
    written: Mapping[tuple[str, TopicPartition], Written],
) -> list[GroupStatus]:
    """Adds end offsets, and times of the checkpoints."""
    found = []
    for row in rows:
        tp = TopicPartition(row.topic, row.partition)
        record = written.get((row.group, tp))
        found.append(
            replace(
                row,
                source_end=source_ends.get(TopicPartition(row.source_topic, row.partition)),
                target_end=target_ends.get(tp),
                checkpoint_ms=record.time_ms if record else None,
                latency_ms=record.latency_ms if record else None,
            )
        )
    return found


def ends(client: Client, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets of existing partitions."""
    wanted = set(tps)
    if not wanted:
        return {}
    client.metadata(sorted({tp.topic for tp in wanted}))
    return client.list_offsets(sorted(wanted), LATEST)[0]


def committed(admin: Admin, groups: Iterable[str]) -> tuple[Offsets, dict[str, int]]:
    """Offsets of existing groups, and error codes of those that cannot be read. A coordinator request for a group that
    does not exist would make a new cluster create __consumer_offsets.
    """
    existing = {each.group for each in admin.groups()}
    return admin.committed([group for group in groups if group in existing])


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if offset is None or end is None else max(end - offset, 0)
