"""A consumer that fails over to the other cluster when its own is down, and fails back when that is healthy again.

    clusters = {"source": Access.plain("source-1:9092"), "target": Access.plain("target-1:9092")}
    with FailoverConsumer(clusters, home="source", group="billing", topic="ProductA") as consumer:
        while True:
            message = consumer.poll(1.0)
            if message is not None:
                process(message)
                consumer.done(message)

It reads the topic of the current cluster and the remote topic of the other cluster: the records of both clusters.

At least once: a record is processed once `done` is called. After a failover the consumer resumes at the group's
committed offset there, or at its translated offset of the other cluster, whichever is higher. Records processed after
the last checkpoint are read again. Records that were not replicated when a cluster failed are read when it is back.

A group may have any number of such consumers. Each detects the failure itself; while some have moved and others have
not, records may be read on both clusters.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from cluster_watch import Access, ClusterWatch, Timeouts
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from twinlog.errors import KafkaError

COMMIT_SECONDS: Final = 1.0
SECONDS: Final = 10.0  # timeout of requests


class FailoverConsumer:
    """For one thread; call `poll` often. `clusters` are two, by their aliases in the flows' configuration."""

    def __init__(
        self,
        clusters: Mapping[str, Access],
        *,
        home: str,
        group: str,
        topic: str,
        timeouts: Timeouts | None = None,
        log: Callable[[str], None] = print,
    ) -> None:
        self._clusters, self._group, self._topic, self._log = clusters, group, topic, log
        self._watch = ClusterWatch(clusters, home, timeouts or Timeouts())
        self._done: dict[tuple[str, int], int] = {}  # next offset of each partition, if not committed yet
        self._commit_at = 0.0
        self.current = home
        self._consumer = self._join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._leave(self._consumer)
        self._watch.close()

    def poll(self, timeout: float) -> Message | None:
        """The next record, or None. Moves first if it is time to."""
        chosen = self._watch.choose(self.current)
        if chosen != self.current:
            self._move(chosen)
        elif time.monotonic() >= self._commit_at:
            self._commit(wait=False)
        message = self._consumer.poll(timeout)
        # librdkafka recovers from errors without our help.
        return None if message is None or message.error() else message

    def done(self, message: Message) -> None:
        """Marks the record as processed. Offsets are committed every second, and when partitions are revoked."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None  # noqa: PT018  # what `poll` gave has them
        self._done[topic, partition] = offset + 1

    def _move(self, target: str) -> None:
        self._log(f"moving from {self.current} to {target}")
        self._leave(self._consumer)
        self.current = target
        self._consumer = self._join()

    def _leave(self, consumer: Consumer) -> None:
        down = self._watch.is_down(self.current)
        if not down:
            self._commit(wait=True)
        self._done.clear()
        # Closing blocks for as long as the cluster is down, so it is done in a thread.
        closing = threading.Thread(target=consumer.close, daemon=True)
        closing.start()
        closing.join(0 if down else SECONDS)

    def _commit(self, *, wait: bool) -> None:
        self._commit_at = time.monotonic() + COMMIT_SECONDS
        if not self._done:
            return
        offsets = [TopicPartition(*tp, offset) for tp, offset in self._done.items()]
        self._done.clear()
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets)
        except KafkaException as error:  # records that are not committed are read again
            self._log(f"cannot commit offsets: {error.args[0].str()}")

    @property
    def _other(self) -> str:
        (other,) = self._clusters.keys() - {self.current}
        return other

    def _join(self) -> Consumer:
        consumer = Consumer(
            {
                **self._clusters[self.current].client,
                "group.id": self._group,
                "auto.offset.reset": "earliest",  # without an offset, no record may be skipped
                "enable.auto.commit": False,  # only processed records are committed
                "session.timeout.ms": 6000,  # how long a recovered cluster waits for its former members
                "topic.metadata.refresh.interval.ms": 5000,  # to find the remote topic and its new partitions
            }
        )
        names = f"^({re.escape(self._other)}\\.)?{re.escape(self._topic)}$"
        consumer.subscribe([names], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return consumer

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        translated = self._translated()
        try:
            positions = consumer.committed(partitions, timeout=SECONDS)
        except KafkaException:  # the cluster is failing: this assignment will be lost
            positions = partitions
        for tp in positions:
            tp.offset = max(tp.offset, translated.get((tp.topic, tp.partition), OFFSET_INVALID))
        consumer.assign(positions)
        shown = [f"{tp.topic}-{tp.partition} from {max(tp.offset, 0)}" for tp in positions]
        self._log(f"reading on {self.current}: {', '.join(shown) or 'no partitions'}")

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        if consumer is self._consumer:  # not one that is being closed
            self._commit(wait=True)
            self._done.clear()

    def _lost(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        if consumer is self._consumer:
            self._done.clear()  # the partitions are already assigned to another member

    def _translated(self) -> dict[tuple[str, int], int]:
        """The group's offsets on the other cluster, as offsets here."""
        try:
            offsets = self._watch.mirror(self.current).remote_consumer_offsets(self._group, self._other, SECONDS)
        except KafkaError as error:  # no checkpoints yet: records are read again, none is skipped
            self._log(f"no translated offsets: {error}")
            return {}
        return {(tp.topic, tp.partition): translated.offset for tp, translated in offsets.items()}
