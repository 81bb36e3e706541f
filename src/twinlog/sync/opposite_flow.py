"""Failback: which offsets of a group on the source are its own, and not synced by the opposite flow.

us->eu commits a group's offsets for us.orders on eu. If eu->us wrote all of them back to orders on us, it would undo
every reset and every deletion of the group there. The progress of us->eu is in its checkpoints on eu, which it writes
before it commits offsets: offsets beyond their `highest` were committed by the group itself.
"""

from twinlog.errors import RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client
from twinlog.kafka.topic_reader import TopicReader
from twinlog.mm2.checkpoints import Checkpoint, CheckpointStore, decode_highest
from twinlog.model import TopicPartition
from twinlog.sync.scheduler import Warn


class OppositeFlow:
    """The checkpoints of the flow from the target to the source, which are on the source. Not thread-safe."""

    def __init__(self, client: Client, topic: str, target: str, warn: Warn) -> None:
        self._client = client
        self._topic = topic
        self._target = target
        self._warn = warn
        self._store = CheckpointStore()
        self._reader = TopicReader(client, topic, self._store.clear)
        self._written: dict[tuple[str, TopicPartition], int] = {}

    def read(self) -> bool:
        """Call this after reading the group's offsets. False if the checkpoints cannot be read."""
        try:
            for record in self._reader.read():
                try:
                    checkpoint = Checkpoint.decode(record.key, record.value)
                except ValueError:
                    continue
                self._store.add(checkpoint, decode_highest(record.headers))
        except RefusedError as error:
            if error.code not in error_codes.UNAUTHORIZED:
                raise
            self._report_missing(f"{error}; grant Describe and Read on it")
            return False
        if not self._reader.next:
            flow = f"{self._target}->{self._client.alias}"
            self._report_missing(f"it does not exist; run flow {flow} with emit.checkpoints.enabled = true")
            return False
        return True

    def is_own(self, group: str, tp: TopicPartition, offset: int) -> bool:
        """Whether it is certain that the group itself committed `offset`. `tp` is on the source.

        An offset is written back only once: if it is gone since then, it was reset on purpose.
        """
        if self._written.get((group, tp)) == offset:
            return False
        if self._store.last(group, tp) is None:
            return True
        highest = self._store.highest(group, tp)
        return highest is not None and offset > highest

    def mark_written(self, group: str, tp: TopicPartition, offset: int) -> None:
        self._written[group, tp] = offset

    def _report_missing(self, reason: str) -> None:
        self._warn(
            self._topic,
            f"group offsets not written back to {self._target}: needs topic {self._topic} on {self._client.alias}: "
            f"{reason}",
        )
