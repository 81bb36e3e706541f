"""The nouns, in MM2's words."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Replication from one cluster to another, by their aliases; written `us->eu`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Anchor(NamedTuple):
    """Source offset `source` is target offset `target`: of a record that is there, or of the next one to come."""

    source: int
    target: int
