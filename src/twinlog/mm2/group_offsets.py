"""Committed offsets of consumer groups, and which of them are to be committed on the target. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinlog.model import TopicPartition

if TYPE_CHECKING:  # circular: checkpoints imports this module
    from twinlog.mm2.checkpoints import Checkpoint

# States of groups without active consumers. In any other state, even an unknown one, a consumer may be active.
_IDLE: Final = frozenset({None, "Dead", "Empty"})


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int  # -1: none, as some clients write it
    metadata: str = ""


_NONE: Final = Committed(-1)


@dataclass(frozen=True, slots=True)
class GroupOffsetChange:
    """The committed offset of a consumer group on the target, and the one to be committed."""

    group: str
    topic: str
    partition: int
    now: int | None
    then: int


def to_write(
    checkpoints: Mapping[TopicPartition, "Checkpoint"],
    state: str | None,
    committed: Mapping[TopicPartition, Committed],
) -> dict[TopicPartition, Committed]:
    """The offsets to be committed for a group on the target: never a rewind, never for an active group.

    `state` is the group's state on the target, None if there is no such group. MM2 tries active groups as well and
    relies on the broker to refuse, and it overwrites a group's offsets if it could not read them. Here `committed`
    counts in every state, so that a group that was created in between keeps its offsets.
    """
    if state not in _IDLE:
        return {}
    return {
        tp: Committed(checkpoint.downstream, checkpoint.metadata)
        for tp, checkpoint in checkpoints.items()
        if committed.get(tp, _NONE).offset < checkpoint.downstream
    }
