"""Where consumer groups stand on both clusters: their offsets, checkpoints, both ends. Reads, and changes nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.kafka.admin import Admin
from twinlog.kafka.client import LATEST, Client
from twinlog.model import TopicPartition
from twinlog.tracking.checkpoints import Checkpoint

MOST_GROUPS: Final = 1000  # that are looked at: nobody reads more, and each costs both clusters an answer
_MOST_ROWS: Final = 20_000

Offsets = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]  # by group: offset and metadata


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group's position in one partition. What is not known, or not there, is None."""

    group: str
    topic: str  # on the target
    partition: int
    source_topic: str
    source_offset: int | None = None
    source_end: int | None = None
    checkpoint_offset: int | None = None  # on the target
    checkpoint_ms: int | None = None  # when it was written
    target_offset: int | None = None  # what the group has committed on the target
    target_end: int | None = None
    latency_ms: float | None = None  # of its newest checkpoint: acknowledged minus made

    @property
    def source_lag(self) -> int | None:
        return _lag(self.source_offset, self.source_end)

    @property
    def target_lag(self) -> int | None:
        """Of what it committed there; where it has committed nothing, of its checkpoint."""
        return _lag(self.checkpoint_offset if self.target_offset is None else self.target_offset, self.target_end)


@dataclass(frozen=True, slots=True)
class Written:
    """One checkpoint in its topic."""

    time_ms: int
    latency_ms: float | None = None  # None: somebody else wrote it, or we did in an earlier life


@dataclass(frozen=True, slots=True)
class Names:
    """What a topic of one cluster is called on the other."""

    accepts: Callable[[str], bool]  # whether a topic of the source is in the flow
    on_target: Callable[[str], str]
    on_source: Callable[[str], str]


def positions(
    source: Offsets, checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]], target: Offsets, names: Names
) -> list[GroupStatus]:
    """A row for each group and partition of which one of them knows something. Pure; ends are not known yet."""
    rows: list[GroupStatus] = []
    for group in sorted({*source, *checkpoints}):
        ours = {
            TopicPartition(names.on_target(place.topic), place.partition): (place.topic, offset)
            for place, (offset, _) in source.get(group, {}).items()
            if names.accepts(place.topic)
        }
        known, there = checkpoints.get(group, {}), target.get(group, {})
        for place in sorted({*ours, *known}):
            topic, offset = ours.get(place, (names.on_source(place.topic), None))
            rows.append(
                GroupStatus(
                    group,
                    *place,
                    topic,
                    source_offset=offset,
                    checkpoint_offset=known[place].downstream if place in known else None,
                    target_offset=there[place][0] if place in there else None,
                )
            )
    return rows[:_MOST_ROWS]


def ends(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Of those that are there."""
    wanted = set(places)
    if not wanted:
        return {}
    client.metadata(sorted({place.topic for place in wanted}))
    return client.list_offsets(sorted(wanted), LATEST)[0]


def committed(admin: Admin, groups: Iterable[str]) -> Offsets:
    """Of those that are there: to ask for the coordinator of one that is not would make a young cluster create
    __consumer_offsets.
    """
    there = {each.group for each in admin.groups()}
    found, _ = admin.committed([group for group in groups if group in there])
    return found


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if offset is None or end is None else max(end - offset, 0)
