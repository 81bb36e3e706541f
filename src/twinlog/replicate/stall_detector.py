"""Detects partitions that have records to copy but make no progress for no known reason.

Such a stall, without an error, is a bug in Twinlog or in a broker. It is counted and reported in detail, and the
partition's connections are reopened.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from twinlog.kafka.client import LATEST, Client
from twinlog.model import TopicPartition
from twinlog.replicate.loop_executor import LoopExecutor
from twinlog.replicate.partition import Partition, State
from twinlog.replicate.source_fetcher import SourceFetcher
from twinlog.replicate.target_producer import TargetProducer
from twinlog.replicate.task_spec import TaskSpec

INTERVAL: Final = 5.0
STALL_SECONDS: Final = 30.0
_IDLE: Final = 30.0  # additional seconds until an idle partition is checked again, which takes a request


class StallDetector:
    """Belongs to the loop's thread; only the request to the source runs in another."""

    def __init__(
        self,
        spec: TaskSpec,
        fetcher: SourceFetcher,
        producer: TargetProducer,
        executor: LoopExecutor,
        stalled: Callable[[Partition, str], None],
        *,
        interval: float = INTERVAL,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        """`stalled` is called with the partition and a description, which is empty for all but the first of several
        partitions of the same brokers.
        """
        self._spec = spec
        self._fetcher = fetcher
        self._producer = producer
        self._executor = executor
        self._stalled = stalled
        self._interval, self._stall_seconds = interval, stall_seconds
        self._next = time.monotonic() + interval
        self._querying = False
        # Generation, acknowledged and fetched position at the last check, and since when they are the same
        self._progress: dict[Partition, tuple[tuple[int, int, int], float]] = {}
        self._client: Client | None = None
        self._closed = False

    def check(self, partitions: Sequence[Partition], now: float) -> None:
        if now < self._next or self._querying:
            return
        self._next = now + self._interval
        suspects = [p for p in partitions if self._is_suspect(p, now)]
        if not suspects:
            return
        self._querying = True
        tps = [p.tp for p in suspects]

        def done(ends: dict[TopicPartition, int] | None, error: Exception | None) -> None:
            self._querying = False
            if error is None and ends is not None:
                self._report_stalled(suspects, ends, time.monotonic())

        self._executor.run(lambda: self._ends(tps), done)

    def close(self) -> None:
        self._closed = True
        if self._client is not None:
            self._client.close()

    def _is_suspect(self, p: Partition, now: float) -> bool:
        before, since = self._progress.get(p, (None, 0.0))
        progress = _progress(p)
        has_work = p.wants_more or p.target.has_pending
        if p.state is not State.RUNNING or before != progress or not has_work or self._is_explained(p, now):
            self._progress[p] = progress, now
            return False
        # A request in flight has its own timeout, after which its connection is closed.
        limit = self._stall_seconds + (self._spec.target_request_timeout if p.target.in_flight else 0)
        return now - since > limit

    def _is_explained(self, p: Partition, now: float) -> bool:
        """A broker throttles, or the target broker is busy with batches of other partitions."""
        source = self._fetcher.connection_of(p)
        if source is not None and now < source.muted_until:
            return True
        target = self._producer.connections.get(p.target.leader)
        if target is not None and now < target.muted_until:
            return True
        queued = (p.source.paused or p.target.held or p.target.queue) and not p.target.in_flight
        return bool(
            queued
            and target is not None
            and target.connection
            and now - max(target.last_activity_at, target.responded_at) < self._stall_seconds
        )

    def _ends(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self._client is None:
            self._client = self._spec.client("source")
        isolation = int(self._spec.rules.read_committed)
        try:
            ends, failed = self._client.list_offsets(tps, LATEST, isolation)
            if failed:  # the leaders have changed: those are looked up again
                ends |= self._client.list_offsets(failed, LATEST, isolation)[0]
            return ends
        finally:
            if self._closed:
                self._client.close()

    def _report_stalled(self, suspects: Sequence[Partition], ends: dict[TopicPartition, int], now: float) -> None:
        # By the brokers: with thousands of partitions, one that is overloaded stalls many at a time.
        found: dict[tuple[int, int], list[tuple[Partition, int, float]]] = {}
        for p in suspects:
            before, since = self._progress[p]
            if before != _progress(p) or p.state is not State.RUNNING:
                continue
            end = ends.get(p.tp, -1)
            if end > p.source.position or p.target.has_pending:
                self._progress[p] = before, now
                found.setdefault((p.source.node, p.target.leader), []).append((p, end, now - since))
            else:
                self._progress[p] = before, now + _IDLE
        for (first, end, waited), *others in found.values():
            self._stalled(first, self._describe(first, end, waited, len(others)))
            for other, _, _ in others:
                self._stalled(other, "")

    def _describe(self, p: Partition, end: int, waited: float, others: int) -> str:
        now = time.monotonic()
        node = p.source.node
        source, target = self._fetcher.connection_of(p), self._producer.connections.get(p.target.leader)
        held, queued, in_flight = map(len, (p.target.held, p.target.queue, p.target.in_flight))
        parts = [
            f"acknowledged to {p.target.acked_position}, fetched to {p.source.position}, source ends at {end}",
            f"{held} batches held, {queued} queued, {in_flight} in flight",
        ]
        if source is None or source.connection is None:
            parts.append(f"no connection to source broker {node}")
        else:
            known = p.tp in source.session.partitions
            fetch = (
                f"a fetch open for {now - source.fetch_sent_at:.0f} s" if source.connection.waiting else "no fetch open"
            )
            paused = ", paused" if p.tp in source.paused else ""
            parts.append(f"source broker {node}: {fetch}, partition {'' if known else 'not '}in the session{paused}")
        if target is None or target.connection is None:
            parts.append(f"no connection to target broker {p.target.leader}")
        else:
            open_requests = self._producer.open_requests(p.target.leader)
            parts.append(f"target broker {p.target.leader}: {open_requests} requests open")
        if others:
            parts.append(f"nor have {others:,} other partitions of these brokers")
        return f"{p.tp}: no progress for {waited:.0f} s: {'; '.join(parts)}; reconnecting"


def _progress(p: Partition) -> tuple[int, int, int]:
    return p.generation, p.target.acked_position, p.source.position
