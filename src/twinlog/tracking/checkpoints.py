"""MM2's checkpoints topic: where a consumer group of the source would go on on the target.

Which checkpoints a group's offsets give, which of them say something new, and their bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from twinlog.model import TopicPartition
from twinlog.topology.policy import ReplicationPolicy
from twinlog.tracking.fields import INT16, INT32, INT64, VERSION, Fields, text_field
from twinlog.tracking.group_offsets import Committed


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`topic` is its name on the target. Both offsets are those of the next record to consume."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def key(self) -> bytes:
        return text_field(self.group) + text_field(self.topic) + INT32.pack(self.partition)

    def value(self) -> bytes:
        offsets = INT64.pack(self.upstream) + INT64.pack(self.downstream)
        return INT16.pack(VERSION) + offsets + text_field(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """ValueError says what is wrong."""
        names = Fields("a checkpoint", "key", key)
        content = Fields("a checkpoint", "value", value)
        content.expect_version()
        return cls(
            names.text("group"),
            names.text("topic"),
            names.number(INT32, "its partition"),
            content.number(INT64, "its upstream offset"),
            content.number(INT64, "its downstream offset"),
            content.text("metadata"),
        )


class CheckpointStore:
    """The last checkpoint of each group and partition, in the order in which they were added."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def add(self, checkpoint: Checkpoint) -> None:
        self._groups.setdefault(checkpoint.group, {})[checkpoint.place] = checkpoint

    def wants(self, checkpoint: Checkpoint) -> bool:
        """Whether it is to be emitted: nothing is known yet, or the group went on, or it rewound on the source.

        A translation can become coarser with time. Then a group that did not move would seem to go back: not emitted.
        """
        last = self._groups.get(checkpoint.group, {}).get(checkpoint.place)
        return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream

    def of_group(self, group: str) -> dict[TopicPartition, Checkpoint]:
        return dict(self._groups.get(group, {}))

    def groups(self) -> list[str]:
        return list(self._groups)


def candidates(
    group: str,
    committed: Mapping[TopicPartition, Committed],
    accepts: Callable[[str], bool],
    policy: ReplicationPolicy,
    source: str,
    target: str,
    translate: Callable[[TopicPartition, int], int | None],
) -> list[Checkpoint]:
    """The checkpoints that a group's offsets on the source give. Which of them are new, the store says.

    `accepts` is the topic filter, `source` and `target` are the aliases that the policy knows.
    """
    found = []
    for place, position in committed.items():
        if position.offset < 0 or not accepts(place.topic):
            continue
        downstream = translate(place, position.offset)
        if downstream is None or downstream < 0:
            continue
        topic = name_on_target(place.topic, policy, source, target)
        found.append(Checkpoint(group, topic, place.partition, position.offset, downstream, position.metadata))
    return found


def name_on_target(topic: str, policy: ReplicationPolicy, source: str, target: str) -> str:
    """A topic that came from the target has its first name there; any other is a remote topic."""
    came_from_target = policy.topic_source(topic) == target
    return policy.original_topic(topic) if came_from_target else policy.format_remote_topic(source, topic)
