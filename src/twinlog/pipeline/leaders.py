"""Who leads the source's partitions: asked when a leader is lost, and now and then. Recovery finds the target's."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from twinlog.kafka import codes
from twinlog.kafka.client import Client, Metadata
from twinlog.pipeline.errands import Errands
from twinlog.pipeline.intake import Intake
from twinlog.pipeline.job import Job
from twinlog.pipeline.partition import Partition, State

_OFTEN: Final = 120.0  # seconds after which they are asked for even if nothing is amiss
_SOON: Final = 0.5  # after an answer that does not help


class Leaders:
    """Moves partitions that run to their leaders. In the loop's thread; only the question itself is an errand."""

    def __init__(
        self,
        job: Job,
        partitions: Sequence[Partition],
        intake: Intake,
        errands: Errands,
        recover: Callable[[Partition, str], None],
        wake: Callable[[float], None],
    ) -> None:
        """`recover` is for partitions whose topic is gone; `wake` lets the loop look here again at a time."""
        self._job = job
        self._partitions = partitions
        self._intake = intake
        self._errands = errands
        self._recover = recover
        self._wake = wake
        self._asking = False
        self._ask_at = 0.0
        self._asked_at = time.monotonic()
        self._client: Client | None = None  # kept: it knows which brokers answer
        self._closed = False

    def ask(self, when: float) -> None:
        if not self._ask_at or when < self._ask_at:
            self._ask_at = when
            self._wake(when)

    def check(self, now: float) -> None:
        if now >= self._ask_at > 0 or now - self._asked_at > _OFTEN:
            self._do_ask(now)

    def close(self) -> None:
        self._closed = True
        if self._client is not None:  # an errand that still uses it closes it again when it has done
            self._client.close()

    def _do_ask(self, now: float) -> None:
        if self._asking:
            return
        self._asking = True
        self._ask_at = 0.0
        self._asked_at = now
        topics = sorted({p.place.topic for p in self._partitions if p.state is State.RUNNING})

        def work() -> Metadata:
            if self._client is None:
                self._client = self._job.client("source")
            try:
                return self._client.metadata(topics)
            finally:
                if self._closed:
                    self._client.close()

        def done(metadata: Metadata | None, error: Exception | None) -> None:
            self._asking = False
            del error
            if metadata is None:
                self.ask(time.monotonic() + _SOON)
                return
            self._intake.brokers = metadata.brokers
            self._follow(metadata)

        self._errands.run(work, done)

    def _follow(self, metadata: Metadata) -> None:
        waiting = False
        for partition in self._partitions:
            if partition.state is not State.RUNNING:
                continue
            topic = partition.place.topic
            info = metadata.topics.get(topic)
            leader, epoch = info.leaders.get(partition.place.partition, (-1, -1)) if info else (-1, -1)
            if info is None or info.error in codes.GONE or (info.id.int and info.id != partition.topic_id):
                self._recover(partition, f"{self._job.flow.source}: topic {topic} is not there any more")
            elif leader < 0 or info.error:
                waiting = True
            elif (leader, epoch) != (partition.leader, partition.leader_epoch) or not self._intake.has(partition):
                self._intake.remove(partition)
                partition.leader, partition.leader_epoch = leader, epoch
                self._intake.add(partition)
            elif (link := self._intake.links.get(leader)) is None or link.connection is None:
                waiting = True
        if waiting:
            self.ask(time.monotonic() + _SOON)
