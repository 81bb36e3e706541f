"""Follows leader changes on the source: refreshes metadata when a leader is lost, and periodically.

Leaders on the target are found by recovery.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from twinlog.kafka import error_codes
from twinlog.kafka.client import Client, Metadata
from twinlog.replicate.loop_executor import LoopExecutor
from twinlog.replicate.partition import Partition, State
from twinlog.replicate.source_fetcher import SourceFetcher
from twinlog.replicate.task_spec import TaskSpec

_REFRESH_SECONDS: Final = 120.0  # between refreshes without a reason
_RETRY_SECONDS: Final = 0.5  # while a leader is missing


class SourceLeaders:
    """Moves running partitions to their leaders. Belongs to the loop's thread; only the request runs in another."""

    def __init__(
        self,
        spec: TaskSpec,
        partitions: Sequence[Partition],
        fetcher: SourceFetcher,
        executor: LoopExecutor,
        recover: Callable[[Partition, str], None],
        wake: Callable[[float], None],
    ) -> None:
        """`recover` is called for partitions whose topic is missing; `wake` makes the loop call `check` at a time."""
        self._spec = spec
        self._partitions = partitions
        self._fetcher = fetcher
        self._executor = executor
        self._recover = recover
        self._wake = wake
        self._refreshing = False
        self._refresh_at = 0.0
        self._refreshed_at = time.monotonic()
        self._client: Client | None = None  # reused: it knows which brokers respond
        self._closed = False

    def refresh_at(self, when: float) -> None:
        if not self._refresh_at or when < self._refresh_at:
            self._refresh_at = when
            self._wake(when)

    def check(self, now: float) -> None:
        if now >= self._refresh_at > 0 or now - self._refreshed_at > _REFRESH_SECONDS:
            self._refresh(now)

    def close(self) -> None:
        self._closed = True
        if self._client is not None:  # a request that still uses it closes it again at its end
            self._client.close()

    def _refresh(self, now: float) -> None:
        if self._refreshing:
            return
        self._refreshing = True
        self._refresh_at = 0.0
        self._refreshed_at = now
        topics = sorted({p.tp.topic for p in self._partitions if p.state is State.RUNNING})

        def work() -> Metadata:
            if self._client is None:
                self._client = self._spec.client("source")
            try:
                return self._client.metadata(topics)
            finally:
                if self._closed:
                    self._client.close()

        def done(metadata: Metadata | None, _: Exception | None) -> None:
            self._refreshing = False
            if metadata is None:
                self.refresh_at(time.monotonic() + _RETRY_SECONDS)
                return
            self._fetcher.brokers = metadata.brokers
            self._follow(metadata)

        self._executor.run(work, done)

    def _follow(self, metadata: Metadata) -> None:
        waiting = False
        for partition in self._partitions:
            if partition.state is not State.RUNNING:
                continue
            topic = partition.tp.topic
            info = metadata.topics.get(topic)
            leader, epoch = info.leaders.get(partition.tp.partition, (-1, -1)) if info else (-1, -1)
            if (
                info is None
                or info.error in error_codes.TOPIC_MISSING
                or (info.id.int and info.id != partition.source.topic_id)
            ):
                self._recover(partition, f"{self._spec.flow.source}: topic {topic} was deleted or re-created")
            elif leader < 0 or info.error:
                waiting = True
            elif not partition.wants_more:
                continue
            elif (leader, epoch) != (partition.source.leader, partition.source.leader_epoch) or not self._fetcher.has(
                partition
            ):
                self._fetcher.remove(partition)
                partition.source.leader, partition.source.leader_epoch = leader, epoch
                self._fetcher.add(partition)
            elif (broker := self._fetcher.connections.get(leader)) is None or broker.connection is None:
                waiting = True
        if waiting:
            self.refresh_at(time.monotonic() + _RETRY_SECONDS)
