"""State changes of partitions: recover, resume, retry, stop, done."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from twinlog.kafka import error_codes
from twinlog.replicate.loop_executor import LoopExecutor
from twinlog.replicate.partition import Partition, PendingBytes, State
from twinlog.replicate.progress import ProgressTracker
from twinlog.replicate.recovery import RecoveryResult
from twinlog.replicate.recovery_executor import RecoveryExecutor, RecoveryUpdate
from twinlog.replicate.resume import lost_offsets, problem_text, recovery_request, reread, resume
from twinlog.replicate.resume_decision import LogProblem
from twinlog.replicate.source_fetcher import SourceFetcher
from twinlog.replicate.target_producer import TargetProducer
from twinlog.replicate.task_spec import TaskSpec

GIVE_UP_SECONDS: Final = 10.0  # --once: how long to wait for a missing permission or topic
_STOPPED_RETRY_SECONDS: Final = 30.0  # a stopped partition is retried this often
_FOREIGN_REPORT_SECONDS: Final = 60.0  # minimum time between two reports of foreign records


class PartitionLifecycle:
    """Belongs to the loop's thread. Recovery itself runs in `threads`."""

    def __init__(
        self,
        spec: TaskSpec,
        partitions: Sequence[Partition],
        fetcher: SourceFetcher,
        producer: TargetProducer,
        pending: PendingBytes,
        progress: ProgressTracker,
        threads: LoopExecutor,
        wake: Callable[[float], None],
    ) -> None:
        """`wake` makes the loop run its timers at a time."""
        self._spec = spec
        self._partitions = partitions
        self._fetcher = fetcher
        self._producer = producer
        self._pending = pending
        self._progress = progress
        self._recovery = RecoveryExecutor(spec, progress, threads, self._on_recovery_update)
        self._wake = wake
        self.producer_retention_ms = 0.0  # see Recovery

    def close(self) -> None:
        self._recovery.close()

    def recover(
        self, partition: Partition, reason: str, *, truncated_at: int | None = None, out_of_range: int | None = None
    ) -> None:
        if partition.state is State.STOPPED or partition.state is State.DONE:
            return
        self._discard_pending(partition)
        partition.on_drained = None
        resume_state, report = partition.resume, partition.report
        if partition.state is State.RUNNING and report.stopped_at is None:  # retries of a stopped one do not count
            report.counters.recoveries += 1
        partition.state = State.RECOVERING
        resume_state.truncated_at, resume_state.out_of_range = truncated_at, out_of_range
        report.changed = True
        if reason and report.stopped_at is None:
            report.error = reason
        pause = min(0.02 * 2 ** min(resume_state.failures, 10), 5.0) if resume_state.failures else 0.0
        resume_state.retry_at = time.monotonic() + pause
        self._wake(resume_state.retry_at)

    def stop(self, partition: Partition, reason: str, offset: int | None = None) -> None:
        """`offset`: of the refused record. The partition is shown as stopped until a later record is copied."""
        self.recover(
            partition, reason, truncated_at=partition.resume.truncated_at, out_of_range=partition.resume.out_of_range
        )  # which the retry needs
        partition.state = State.STOPPED
        partition.report.error, partition.report.stopped_at = reason, offset
        partition.resume.positions_fresh = False
        partition.resume.retry_at = time.monotonic() + _STOPPED_RETRY_SECONDS
        if reason != partition.report.reported_stop:  # report it once, not at every retry
            partition.report.reported_stop = reason
            self._progress.event(partition, "stopped", 0, reason)

    def gives_up(self, partition: Partition, reason: str, code: int) -> bool:
        """--once: stops the partition if a permission, or the topic, has been missing for too long."""
        if partition.until is None or (code not in error_codes.UNAUTHORIZED and code not in error_codes.TOPIC_MISSING):
            return False
        partition.resume.access_missing_since = partition.resume.access_missing_since or time.monotonic()
        if time.monotonic() - partition.resume.access_missing_since <= GIVE_UP_SECONDS:
            return False
        missing = (
            "permission missing, listed by twinlog plan" if code in error_codes.UNAUTHORIZED else "the topic is missing"
        )
        self.stop(partition, f"{reason}; {missing}")
        return True

    def check_done(self, partition: Partition) -> None:
        target = partition.target
        if partition.until is not None and target.acked_position >= partition.until and not target.in_flight:
            self._discard_pending(partition)
            partition.state = State.DONE
            partition.report.error = ""
            partition.report.changed = True

    def report_foreign(self, partition: Partition, count: int) -> None:
        if not count or self._spec.expects_foreign:
            return
        partition.report.counters.foreign += count
        partition.report.unreported_foreign += count
        now = time.monotonic()
        if now >= partition.report.report_foreign_at:
            total, partition.report.unreported_foreign = partition.report.unreported_foreign, 0
            partition.report.report_foreign_at = now + _FOREIGN_REPORT_SECONDS
            text = (
                f"{partition.remote}: {total} records were written by another producer; "
                "if intended, set twinlog.foreign.records = expect"
            )
            self._progress.event(partition, "foreign", total, text)

    def recover_due(self, now: float) -> None:
        due = [
            p
            for p in self._partitions
            if now >= p.resume.retry_at
            and not p.resume.running
            and (p.state is State.RECOVERING or (p.state is State.STOPPED and p.until is None))
        ]
        for partition in due:
            partition.state, partition.resume.running = State.RECOVERING, True
            partition.resume.generation = partition.generation
        if due:
            self._recovery.start([recovery_request(p) for p in due])

    def _on_recovery_update(self, update: RecoveryUpdate) -> None:
        if update.source_metadata is not None and update.target_metadata is not None:
            self._fetcher.brokers = update.source_metadata.brokers
            self._producer.brokers = update.target_metadata.brokers
        self.producer_retention_ms = update.producer_retention_ms or self.producer_retention_ms
        by_tp = {p.tp: p for p in self._partitions if p.resume.running}
        for request in update.requests:
            if (partition := by_tp.get(request.tp)) is not None:
                partition.resume.running = False
                self._retry_later(partition, update.error)
        for result in update.results:
            if (partition := by_tp.get(result.request.tp)) is None:
                continue
            partition.resume.running = False
            if partition.generation != partition.resume.generation or partition.state is not State.RECOVERING:
                continue  # its state has changed since
            if not result.stale:
                self._finish_recovery(partition, result)
            elif update.positions is None:
                self._retry_later(partition, result.error)
            else:
                reread(partition, update.positions)
        self.recover_due(time.monotonic())

    def _retry_later(self, partition: Partition, reason: str, code: int = 0) -> None:
        if self.gives_up(partition, reason, code):
            return
        partition.resume.failures += 1
        partition.report.show(reason)
        partition.resume.retry_at = time.monotonic() + min(0.1 * 2 ** min(partition.resume.failures, 10), 5.0)

    def _finish_recovery(self, partition: Partition, result: RecoveryResult) -> None:
        if result.error:
            if result.final:
                self.stop(partition, result.error)
            else:
                self._retry_later(partition, result.error, result.code)
            return
        if result.problem is not None and not self._handle_problem(partition, result):
            return
        self.report_foreign(partition, result.foreign)
        if result.duplicates:
            partition.report.counters.duplicates += result.duplicates
            text = (
                f"{partition.remote}: up to {result.duplicates} duplicates possible; the position in {partition.tp} "
                "is ambiguous (identical or deleted records)"
            )
            self._progress.event(partition, "duplicates", result.duplicates, text)
        resume(partition, result)
        self._progress.resumed(partition)
        self._producer.add(partition)
        self._fetcher.add(partition)
        self.check_done(partition)

    def _handle_problem(self, partition: Partition, result: RecoveryResult) -> bool:
        """Reports it. False: the configuration requires that the partition stops, and it has."""
        text, amount = problem_text(result, self._spec.flow), result.amount
        setting = self._spec.stops_on(result.problem)
        if setting:
            self.stop(partition, f"{text}; stopped ({setting})")
            return False
        if result.problem is LogProblem.LOST:
            partition.report.counters.lost += amount
        elif result.problem is LogProblem.UNKNOWN_RECORDS:
            partition.report.counters.duplicates += amount
        if not result.stored:  # else it was reported when the position was stored
            self._progress.event(partition, str(result.problem), amount, text, lost_offsets(result))
        return True

    def _discard_pending(self, partition: Partition) -> None:
        self._pending.remove(partition.target.leader, partition.target.pending_bytes)
        in_flight = list(partition.target.in_flight)
        partition.discard_pending()
        self._fetcher.remove(partition)
        self._producer.remove(partition, in_flight)
