"""Types shared by all packages: flow, topic partition, offset pair."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Replication from one cluster to another, by alias; written `us->eu`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetPair(NamedTuple):
    """Source offset `source` corresponds to target offset `target`: of an existing record, or of the next one."""

    source: int
    target: int
