"""The offsets that consumer groups have committed, and which of them are to be written on the target. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twinlog.model import TopicPartition

if TYPE_CHECKING:  # it is made from what groups have committed, so it imports this module
    from twinlog.tracking.checkpoints import Checkpoint

# Nobody reads in these, so nobody is disturbed. In every other state, also in one that we do not know, somebody may.
_IDLE: Final = frozenset({None, "Dead", "Empty"})


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int  # -1: none, as some clients write it
    metadata: str = ""


_NONE: Final = Committed(-1)


def to_write(
    checkpoints: Mapping[TopicPartition, "Checkpoint"],
    state: str | None,
    committed: Mapping[TopicPartition, Committed],
) -> dict[TopicPartition, Committed]:
    """What a group is to have committed on the target, of which it has less: never a rewind, never an active group.

    `state` is Kafka's word for it on the target, None where there is no such group. MM2 tries active groups as well,
    and leaves it to the broker to refuse. And it overwrites what a group has if it could not look: here `committed`
    counts in every state, so that a group that appeared in between keeps what it has.
    """
    if state not in _IDLE:
        return {}
    return {
        place: Committed(checkpoint.downstream, checkpoint.metadata)
        for place, checkpoint in checkpoints.items()
        if committed.get(place, _NONE).offset < checkpoint.downstream
    }
