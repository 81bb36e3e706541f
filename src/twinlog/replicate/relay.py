"""The event loop of a task: fetches from the source and produces to the target, in one thread, for one epoch.

    fetch responses -> convert_batches -> queue -> produce requests -> acknowledgements -> syncs, offsets, reports

Every fault of a partition is handled in the same way: discard its pending batches, determine its position again
(recovery.py), resume. The other partitions are not affected.
"""

import contextlib
import selectors
import time
from collections.abc import Callable, Iterable
from typing import Final

from twinlog.kafka import error_codes
from twinlog.kafka.fetch import FetchedPartition
from twinlog.kafka.produce import Outcome
from twinlog.replicate.ack_deferral import AckDeferral
from twinlog.replicate.background_writer import BackgroundWriter
from twinlog.replicate.loop_executor import LoopExecutor
from twinlog.replicate.partition import OutboundBatch, Partition, PendingBytes, State
from twinlog.replicate.partition_lifecycle import PartitionLifecycle
from twinlog.replicate.progress import ProgressTracker
from twinlog.replicate.recovery_executor import THREADS
from twinlog.replicate.refused_records import RefusedRecords
from twinlog.replicate.resume import take_positions
from twinlog.replicate.source_fetcher import SourceFetcher
from twinlog.replicate.source_leaders import SourceLeaders
from twinlog.replicate.stall_detector import StallDetector
from twinlog.replicate.target_producer import TargetProducer
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec

_TICK: Final = 0.25  # seconds between two runs of the timers
_REPORT: Final = 1.0
_DRAIN: Final = 1.0  # how long an ending epoch waits for acknowledgements


class Relay:
    """One per task and epoch. Handles the events of the source fetcher and of the target producer."""

    def __init__(self, spec: TaskSpec, stopped: Callable[[], bool] = lambda: False) -> None:
        self.spec = spec
        self.partitions = [_partition(assignment) for assignment in spec.assignments]
        self.pending = PendingBytes(spec.sizes.max_pending)
        self._bounded = any(p.until is not None for p in self.partitions)
        self._stopped = stopped
        self._ending: str | None = None
        # The second one is part of the first. It is used alone while acknowledgements are deferred.
        self._selector, self._without_acks = selectors.DefaultSelector(), selectors.DefaultSelector()
        self._selector.register(self._without_acks, selectors.EVENT_READ, self._without_acks)
        self._ack_deferral = AckDeferral()
        self._executor = LoopExecutor(threads=3)
        # Separate threads, since a recovery that blocks must not delay new connections.
        self._recovery_threads = LoopExecutor(threads=THREADS)
        for executor in (self._executor, self._recovery_threads):
            self._without_acks.register(executor, selectors.EVENT_READ, executor)
        self.fetcher = SourceFetcher(
            self,
            spec.sizes,
            spec.rules,
            alias=spec.flow.source,
            config=spec.source,
            client_id=spec.source_client_id,
            request_timeout=spec.source_request_timeout,
            selector=self._without_acks,
            executor=self._executor,
        )
        self.producer = TargetProducer(
            self,
            timeout_ms=int(spec.target_request_timeout * 800),
            connections=spec.produce_connections,
            request_timeout=spec.target_request_timeout,
            alias=spec.flow.target,
            config=spec.target,
            client_id=spec.target_client_id,
            selector=self._selector,
            executor=self._executor,
        )
        self._writer = BackgroundWriter({"source": spec.writer("source"), "target": spec.writer("target")})
        self.progress = ProgressTracker(spec, self._writer)
        self._lifecycle = PartitionLifecycle(
            spec, self.partitions, self.fetcher, self.producer, self.pending, self.progress, self._recovery_threads,
            self._wake,
        )  # fmt: skip
        self._refused_records = RefusedRecords(spec, self.progress, self._lifecycle)
        self._leaders = SourceLeaders(
            spec, self.partitions, self.fetcher, self._executor, self._topic_missing, self._wake
        )
        self.stall_detector = StallDetector(spec, self.fetcher, self.producer, self._executor, self._stalled)
        self._wake_at = 0.0  # run the timers then, if that is before the next tick

    def end(self, reason: str) -> None:
        """From any thread: ends the epoch, after the batches in flight are acknowledged."""
        self._ending = self._ending or reason
        with contextlib.suppress(OSError):  # it has ended already
            self._executor.wake()

    def run(self) -> str:
        """Until the epoch ends; returns the reason."""
        deadline = time.monotonic() + self.spec.epoch_seconds
        drain_until = 0.0
        next_report = time.monotonic() + _REPORT
        next_tick = 0.0
        try:
            while True:
                now = time.monotonic()
                if now >= min(next_tick, self._wake_at):
                    next_tick = now + _TICK
                    self._wake_at = next_tick
                    self._timers(now)
                if now >= next_report:
                    next_report = now + _REPORT
                    self.progress.report(self.partitions, now)
                if self._ending is None and (reason := self._end_reason(now, deadline)):
                    self._ending = reason
                if self._ending is not None:
                    if not self.fetcher.stopping:
                        self.fetcher.stopping = True
                        drain_until = now + _DRAIN
                    if now >= drain_until or not any(p.target.in_flight or p.target.queue for p in self.partitions):
                        return self._ending
                now = time.monotonic()
                wait = max(min(next_tick, self._wake_at, next_report) - now, 0)
                deferred = self._acks_deferred(now)
                self.progress.measures_latency = not deferred
                if deferred:
                    self._handle(self._without_acks.select(min(wait, deferred)))
                    self.producer.pump_all()  # records first
                    self._read_acks()
                else:
                    self._handle(self._selector.select(min(wait, 0.05) if self._ending else wait))
                self.producer.pump_all()
        finally:
            self._close()

    def _acks_deferred(self, now: float) -> float:
        """How many seconds acknowledgements may remain unread; 0: the loop waits for them, too."""
        if self._ending or self._bounded:
            return 0.0
        most = 0
        for broker in self.producer.connections.values():
            if broker.primary is not None or self.producer.parallel.applies_to(broker):
                return 0.0  # batches to a broker that is far away wait for acknowledgements of others
            if broker.connection is not None:
                most = max(most, len(broker.connection.waiting))
        return self._ack_deferral.seconds(now, pending_bytes=self.pending.total, open_requests=most)

    def _read_acks(self) -> None:
        """Those that have arrived."""
        for broker in list(self.producer.connections.values()):
            if broker.connection is not None and broker.connection.waiting:
                self.producer.ready(broker, selectors.EVENT_READ)

    def _handle(self, events: Iterable[tuple[selectors.SelectorKey, int]]) -> None:
        for key, mask in events:
            if key.data is self._without_acks:
                self._handle(self._without_acks.select(0))
            elif isinstance(key.data, LoopExecutor):
                key.data.finish()
            else:
                connections, broker = key.data
                connections.ready(broker, mask)

    def _end_reason(self, now: float, deadline: float) -> str:
        if now >= deadline:
            return "time"
        if self._stopped():
            return "stopped"
        if self._bounded and all(p.state in {State.DONE, State.STOPPED} for p in self.partitions):
            return "done"
        return ""

    def _close(self) -> None:
        self.progress.close(self.partitions, time.monotonic())
        self._writer.close()
        self.fetcher.close()
        self.producer.close()
        self._executor.close()
        self._recovery_threads.close()
        self._selector.close()
        self._without_acks.close()
        self._lifecycle.close()
        self._leaders.close()
        self.stall_detector.close()

    # Events of the source

    def fetched(self, partition: Partition, batches: list[OutboundBatch]) -> None:
        if not batches:
            self._lifecycle.check_done(partition)
            return
        now = time.monotonic()
        self._ack_deferral.fetched(now, measure=now >= partition.report.measure_latency_at)
        self.progress.fetched(partition, batches)
        size = sum(len(batch.view) for batch in batches)
        partition.target.pending_bytes += size
        self.pending.add(partition.target.leader, size)
        partition.target.held.extend(batches)
        self._send_held(partition)
        if partition.until is not None:
            if partition.source.position >= partition.until:
                self.fetcher.remove(partition)  # else it would never end while records are being written
            self._lifecycle.check_done(partition)

    def _send_held(self, partition: Partition) -> None:
        """All at once if the broker surely keeps our producer's state until they have arrived; else one at a time.

        The broker goes by record timestamps: it may drop the state of a producer whose newest record is a day old
        (producer.id.expiration.ms) at any time, and it accepts any sequence number from an unknown producer. If it then
        refused the first of several batches and accepted the second, the first would be missing.

        A far broker can receive several, as long as it handles the next one only when the last one is acknowledged.
        """
        target, now = partition.target, time.time() * 1000
        held = target.held
        pending = (*target.in_flight, *target.queue, *held)
        if (
            now < target.producer_known_until_ms
            and now < min(batch.max_timestamp for batch in pending) + self._lifecycle.producer_retention_ms
        ):
            target.one_at_a_time = False
            self.producer.put(partition, list(held))
            held.clear()
        elif self.producer.is_far(partition):
            target.one_at_a_time = True
            self.producer.put(partition, list(held))
            held.clear()
        elif not target.in_flight and not target.queue:
            self.producer.put(partition, [held.popleft()])
        if held:
            self._ack_deferral.backlog(time.monotonic())

    def detach_pending(self) -> None:
        """Copies pending batches out of the fetch responses that they came in, to free that memory."""
        for partition in self.partitions:
            for batches in (partition.target.held, partition.target.queue):
                for batch in batches:
                    batch.detach()

    def source_error(self, partition: Partition, code: int, part: FetchedPartition) -> None:
        if part.diverging is not None:
            epoch, end = part.diverging
            # The end of that epoch in the leader's log; in the log that was fetched it may have ended earlier.
            ends = [end, *(start for newer, start in partition.source.epoch_starts if newer > epoch)]
            reason = f"{self.spec.flow.source}: {partition.tp}: the leader has lost records that were already fetched"
            self._lifecycle.recover(partition, reason, truncated_at=min(ends))
        elif partition.target.pending_bytes and (
            code in error_codes.TOPIC_MISSING or code == error_codes.OFFSET_OUT_OF_RANGE
        ):
            self._when_drained(partition, lambda: self.source_error(partition, code, part))
        elif code == error_codes.OFFSET_OUT_OF_RANGE:
            if partition.source.replica >= 0:  # a follower may be behind: the leader decides
                self.fetcher.leave_replica(partition)
                self.fetcher.add(partition)
            else:
                self._lifecycle.recover(partition, "", out_of_range=partition.source.position)
        elif code in error_codes.TOPIC_MISSING or code in error_codes.UNAUTHORIZED:
            partition.resume.failures += 1
            partition.report.failing_side = "source"
            reason = f"{self.spec.flow.source}: {partition.tp}: {error_codes.name(code)}"
            if not self._lifecycle.gives_up(partition, reason, code):
                self._lifecycle.recover(partition, reason)
        elif code not in error_codes.LEADER_CHANGED:
            partition.resume.failures += 1
            partition.report.failing_side = "source"
            reason = f"{self.spec.flow.source}: {partition.tp}: {error_codes.name(code)} ({code})"
            self._lifecycle.recover(partition, reason)
        else:
            # Not fetched until metadata has the new leader: the broker would respond with the same error at once.
            self.fetcher.leave_replica(partition)
            self._leaders.refresh_at(time.monotonic() + 0.02)

    def _topic_missing(self, partition: Partition, reason: str) -> None:
        if partition.target.pending_bytes:
            self._when_drained(partition, lambda: self._lifecycle.recover(partition, reason))
        else:
            self._lifecycle.recover(partition, reason)

    def _when_drained(self, partition: Partition, action: Callable[[], None]) -> None:
        """Pending batches are sent first: the source no longer has them, so recovery could not fetch them again."""
        self.fetcher.remove(partition)
        partition.on_drained = action

    def damaged(self, partition: Partition, reason: str) -> None:
        partition.resume.failures += 1
        if partition.resume.failures > 5:
            self._lifecycle.stop(partition, f"{partition.tp}: {reason}")
        else:
            self._lifecycle.recover(partition, f"{partition.tp}: {reason}")

    def source_disconnected(self, partitions: Iterable[Partition], reason: str) -> None:
        for partition in partitions:
            if partition.source.replica >= 0:  # a follower that may be gone permanently: the leader will name another
                self.fetcher.leave_replica(partition)
            partition.report.show(reason)
        self._leaders.refresh_at(time.monotonic() + 0.05)

    # Events of the target

    def acked(self, partition: Partition, batch: OutboundBatch, base: int) -> None:
        target, size = partition.target, len(batch.view)
        self._ack_deferral.acknowledged()
        target.pending_bytes -= size
        self.pending.remove(target.leader, size)
        if base != target.position:
            if base < target.position:
                # The broker took it for a duplicate of an older batch, so it may not have stored it.
                partition.resume.failures += 1
                reason = (
                    f"{self.spec.flow.target}: {partition.remote}: batch acknowledged at offset {base}, "
                    f"expected {target.position}"
                )
                self._lifecycle.recover(partition, reason)
                return
            self._lifecycle.report_foreign(partition, base - target.position)
        target.acknowledge(batch, base, batch.max_timestamp + self._lifecycle.producer_retention_ms)
        partition.resume.failures = partition.resume.access_missing_since = 0
        partition.report.acknowledged(batch.next_offset)
        if target.held:
            self._send_held(partition)
        if partition.on_drained is not None and not target.pending_bytes:
            self._executor.post(partition.on_drained, lambda action: action())
            partition.on_drained = None
        counters = partition.report.counters
        counters.records += batch.count
        counters.bytes += size
        counters.batches += 1
        counters.rebuilt += batch.rebuilt
        self.progress.acked(partition, batch, base)
        if target.leader in self.pending.saturated and self.pending.frees_up(target.leader):
            self.fetcher.broker_has_capacity(target.leader)
        if partition.source.paused:
            self.fetcher.has_capacity(partition)
        if partition.until is not None:
            self._lifecycle.check_done(partition)

    def refused(self, partition: Partition, batch: OutboundBatch, outcome: Outcome) -> None:
        code = outcome.error
        reason = f"{self.spec.flow.target}: {partition.remote}: {outcome.message or error_codes.name(code)}"
        # A batch that was corrupted in transit is retried first.
        if code in error_codes.BAD_RECORDS and (code != error_codes.CORRUPT_MESSAGE or partition.resume.failures > 2):
            self._refused_records.handle(partition, batch, outcome, reason)
            return
        partition.resume.failures += 1
        # A leader change is reported only if it takes long.
        reported = code not in error_codes.LEADER_CHANGED or partition.resume.failures > 3
        if reported:
            partition.report.failing_side = "target"
        if not self._lifecycle.gives_up(partition, reason, code):
            self._lifecycle.recover(partition, reason if reported else "")

    def target_disconnected(self, node: int, partitions: Iterable[Partition], reason: str) -> None:
        broker = self.producer.broker(node)
        connects = node in self.producer.brokers and not broker.failures
        for partition in partitions:
            # With nothing in flight (an idle connection was closed) reconnecting is enough. If that fails, this method
            # is called again.
            if partition.target.in_flight or not connects:
                self._lifecycle.recover(partition, reason)

    def _wake(self, when: float) -> None:
        self._wake_at = min(self._wake_at, when)

    def _stalled(self, partition: Partition, text: str) -> None:
        """`text` is empty if the partition's brokers are being reconnected already, for another one."""
        partition.report.counters.stalls += 1
        if text:
            self.progress.event(partition, "stalled", 0, text)
            self.fetcher.reconnect(partition.source.node, "no progress")
            self.producer.reconnect(partition.target.leader, "no progress")
        self._lifecycle.recover(partition, text or "no progress")

    def _timers(self, now: float) -> None:
        self.fetcher.check(now)
        self.producer.check(now)
        if not self.fetcher.stopping:
            self._lifecycle.recover_due(now)
            self._leaders.check(now)
            for node in list(self.pending.saturated):
                if self.pending.frees_up(node):
                    self.fetcher.broker_has_capacity(node)
            self.fetcher.pump_all()
            self.stall_detector.check(self.partitions, now)
        self.progress.timers(self.partitions, now)

    # Assignment during the epoch

    def assign(self, assignments: Iterable[PartitionAssignment]) -> None:
        """From any thread: adds partitions to the task."""
        self._executor.post(list(assignments), self._assigned)

    def _assigned(self, assignments: list[PartitionAssignment]) -> None:
        assigned = {partition.tp for partition in self.partitions}
        self.partitions += [_partition(assignment) for assignment in assignments if assignment.tp not in assigned]
        self._wake(0.0)


def _partition(assignment: PartitionAssignment) -> Partition:
    partition = Partition(assignment.tp, assignment.remote, until=assignment.until)
    partition.source.topic_id = assignment.topic_id
    take_positions(partition, assignment)
    return partition
