"""A consumer that moves to the other cluster when its own is gone, and back when that is well again.

    clusters = {"source": Access.plain("source-1:9092"), "target": Access.plain("target-1:9092")}
    with FailoverConsumer(clusters, home="source", group="billing", topic="ProductA") as consumer:
        while True:
            message = consumer.poll(1.0)
            if message is not None:
                work(message)
                consumer.done(message)

It reads the topic of the cluster where it is, and the copy of the other cluster's topic: the records of both sides.

At least once: a record counts as read when `done` says so. After a move the consumer goes on at the furthest place
before which all is known to be done: by the group's own offsets there, or by its offsets on the other cluster,
translated. What was done after the last checkpoint is read again. What was not copied when a cluster went is read when
that cluster is back.

A group may have any number of such consumers. Each sees for itself that a cluster is gone; while some have moved and
others have not, records may be read on both clusters.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from cluster_watch import Access, ClusterWatch, Patience
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from twinlog.errors import KafkaError

COMMIT_SECONDS: Final = 1.0
SECONDS: Final = 10.0  # for a question whose answer is worth waiting for


class FailoverConsumer:
    """Belongs to one thread; call `poll` often. `clusters` are two, by their aliases in the flows' configuration."""

    def __init__(
        self,
        clusters: Mapping[str, Access],
        *,
        home: str,
        group: str,
        topic: str,
        patience: Patience | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._clusters, self._group, self._topic, self._tell = clusters, group, topic, tell
        self._watch = ClusterWatch(clusters, home, patience or Patience())
        self._done: dict[tuple[str, int], int] = {}  # where each partition goes on, if not committed yet
        self._commit_at = 0.0
        self.at = home
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
        where = self._watch.choose(self.at)
        if where != self.at:
            self._move(where)
        elif time.monotonic() >= self._commit_at:
            self._commit(wait=False)
        message = self._consumer.poll(timeout)
        # Errors tell of a cluster that is away for a moment: librdkafka goes on by itself.
        return None if message is None or message.error() else message

    def done(self, message: Message) -> None:
        """The record is worked off. Offsets are committed every second, and when partitions are given up."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None  # noqa: PT018  # what `poll` gave has them
        self._done[topic, partition] = offset + 1

    def _move(self, where: str) -> None:
        self._tell(f"moves from {self.at} to {where}")
        self._leave(self._consumer)
        self.at = where
        self._consumer = self._join()

    def _leave(self, consumer: Consumer) -> None:
        gone = self._watch.gone(self.at)
        if not gone:
            self._commit(wait=True)
        self._done.clear()
        # To close it may take as long as its cluster is gone: that is left to a thread, and nobody waits for long.
        closing = threading.Thread(target=consumer.close, daemon=True)
        closing.start()
        closing.join(0 if gone else SECONDS)

    def _commit(self, *, wait: bool) -> None:
        self._commit_at = time.monotonic() + COMMIT_SECONDS
        if not self._done:
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._done.items()]
        self._done.clear()
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets)
        except KafkaException as error:  # what is not committed is read again
            self._tell(f"offsets are not committed: {error.args[0].str()}")

    @property
    def _other(self) -> str:
        (other,) = self._clusters.keys() - {self.at}
        return other

    def _join(self) -> Consumer:
        consumer = Consumer(
            {
                **self._clusters[self.at].client,
                "group.id": self._group,
                "auto.offset.reset": "earliest",  # where nothing is known, nothing is left out
                "enable.auto.commit": False,  # what is not done is not committed
                "session.timeout.ms": 6000,  # a cluster that returns waits so long for the members that it had
                "topic.metadata.refresh.interval.ms": 5000,  # the copy may come, or get more partitions, later
            }
        )
        names = f"^({re.escape(self._other)}\\.)?{re.escape(self._topic)}$"
        consumer.subscribe([names], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return consumer

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        translated = self._translated()
        try:
            places = consumer.committed(partitions, timeout=SECONDS)
        except KafkaException:  # the cluster goes away just now: then this assignment is none
            places = partitions
        for place in places:
            place.offset = max(place.offset, translated.get((place.topic, place.partition), OFFSET_INVALID))
        consumer.assign(places)
        shown = [f"{place.topic}-{place.partition} from {max(place.offset, 0)}" for place in places]
        self._tell(f"reads on {self.at}: {', '.join(shown) or 'nothing'}")

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        if consumer is self._consumer:  # not one that was left behind
            self._commit(wait=True)
            self._done.clear()

    def _lost(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        if consumer is self._consumer:
            self._done.clear()  # the partitions are another's already

    def _translated(self) -> dict[tuple[str, int], int]:
        """The group's offsets on the other cluster, as offsets here."""
        try:
            known = self._watch.mirror(self.at).remote_consumer_offsets(self._group, self._other, SECONDS)
        except KafkaError as error:  # no checkpoints yet; then more is read again, and nothing left out
            self._tell(f"no translated offsets: {error}")
            return {}
        return {(place.topic, place.partition): at.offset for place, at in known.items()}
