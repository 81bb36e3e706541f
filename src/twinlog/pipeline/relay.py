"""The loop that moves records: from the source's brokers to the target's, in one thread, for as long as an epoch lasts.

    fetch answers -> lanes -> queue -> produce requests -> acknowledgements -> syncs, offsets, reports

Whatever goes wrong with a partition on its way has one cure: forget what is between the sides, find the position again
(recovery.py), go on. So every fault takes the same, well-trodden path, and the other partitions do not notice.
"""

import contextlib
import selectors
import time
from collections.abc import Callable, Iterable
from typing import Final

from twinlog.kafka import codes
from twinlog.kafka.batch import next_sequence
from twinlog.kafka.fetch import Part
from twinlog.kafka.produce import Outcome
from twinlog.model import Anchor
from twinlog.pipeline.clerk import Clerk
from twinlog.pipeline.errands import Errands
from twinlog.pipeline.intake import Intake
from twinlog.pipeline.job import Job
from twinlog.pipeline.leaders import Leaders
from twinlog.pipeline.ledger import Ledger
from twinlog.pipeline.outlet import Outlet
from twinlog.pipeline.partition import Partition, Piece, State
from twinlog.pipeline.recovery import Finding
from twinlog.pipeline.resuming import lost_offsets, question_of, reread, resume, trouble_text
from twinlog.pipeline.search import Found, Search
from twinlog.tracking.positions import Trouble

_TICK: Final = 0.25  # how often timers are looked at
_REPORT: Final = 1.0
_DRAIN: Final = 5.0  # how long an ending epoch waits for acknowledgements
_TELL_AGAIN: Final = 60.0
_AGAIN: Final = 30.0  # a partition that only the operator can help is still looked at so often
_FORGOTTEN: Final = 600.0  # a broker forgets a producer that has been idle (producer.id.expiration.ms, a day)


class Relay:
    """Handler of both sides. One object per task and epoch."""

    def __init__(self, job: Job, stopped: Callable[[], bool] = lambda: False) -> None:
        self.job = job
        self.partitions = [
            Partition(
                claim.place,
                claim.remote,
                until=claim.until,
                anchors=claim.anchors,
                mm2_offset=claim.mm2_offset,
                had_cursor=claim.cursor is not None,
                written=Anchor(claim.cursor.source, claim.cursor.target) if claim.cursor else None,
                written_epoch=claim.cursor.leader_epoch if claim.cursor else -1,
                topic_id=claim.topic_id,
            )
            for claim in job.claims
        ]
        self.waiting_bytes = 0
        self._bounded = any(p.until is not None for p in self.partitions)
        self._stopped = stopped
        self._ending: str | None = None
        self._selector = selectors.DefaultSelector()
        self._errands = Errands(threads=3)
        self._selector.register(self._errands, selectors.EVENT_READ, None)
        common = {"selector": self._selector, "errands": self._errands, "patience": job.patience}
        self.intake = Intake(
            self, job.sizes, job.rules, alias=job.flow.source, config=job.source, client_id=job.client_id, **common
        )
        self.outlet = Outlet(
            self,
            timeout_ms=int(job.patience * 800),
            alias=job.flow.target,
            config=job.target,
            client_id=job.client_id,
            **common,
        )
        self._clerk = Clerk({"source": job.writer("source"), "target": job.writer("target")})
        self.ledger = Ledger(job, self._clerk)
        self._search = Search(job, self.ledger, self._errands)
        self._leaders = Leaders(job, self.partitions, self.intake, self._errands, self.recover, self._wake)
        self._wake_at = 0.0  # something is due then, perhaps before the next tick

    def end(self, reason: str) -> None:
        """From any thread: the epoch ends in good order."""
        self._ending = self._ending or reason
        with contextlib.suppress(OSError):  # it has ended already
            self._errands.ring()

    def run(self) -> str:
        """Until the epoch ends; says why it did."""
        deadline = time.monotonic() + self.job.epoch_seconds
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
                    self.ledger.report(self.partitions, now)
                if self._ending is None and (reason := self._over(now, deadline)):
                    self._ending = reason
                if self._ending is not None:
                    if not self.intake.stopping:
                        self.intake.stopping = True
                        drain_until = now + _DRAIN
                    if now >= drain_until or not any(p.flight or p.queue for p in self.partitions):
                        return self._ending
                wait = max(min(next_tick, self._wake_at, next_report) - time.monotonic(), 0)
                for key, mask in self._selector.select(min(wait, 0.05) if self._ending else wait):
                    if key.data is None:
                        self._errands.finish()
                    else:
                        side, link = key.data
                        side.ready(link, mask)
                self.outlet.pump_all()
        finally:
            self._close()

    def _over(self, now: float, deadline: float) -> str:
        if now >= deadline:
            return "time"
        if self._stopped():
            return "stopped"
        if self._bounded and all(p.state in {State.DONE, State.STOPPED} for p in self.partitions):
            return "done"
        return ""

    def _close(self) -> None:
        self.ledger.close(self.partitions, time.monotonic())
        self._clerk.close()
        self.intake.close()
        self.outlet.close()
        self._errands.close()
        self._selector.close()
        self._search.close()
        self._leaders.close()

    # What comes in from the source

    def fetched(self, partition: Partition, pieces: list[Piece]) -> None:
        size = 0
        for piece in pieces:
            size += len(piece.view)
        if pieces:
            self.ledger.fetched(partition, pieces)
        if pieces and not partition.waiting_bytes:
            now = time.monotonic()
            if now - partition.fetched_at > _FORGOTTEN:
                partition.proven = False
            partition.fetched_at = now
        partition.waiting_bytes += size
        self.waiting_bytes += size
        if pieces and partition.proven:
            self.outlet.put(partition, pieces)
        elif pieces:
            partition.held.extend(pieces)
            if not partition.flight and not partition.queue:
                self.outlet.put(partition, [partition.held.popleft()])
        self._done(partition)

    def source_error(self, partition: Partition, code: int, part: Part) -> None:
        if part.diverging is not None:
            epoch, end = part.diverging
            # The leader says where its own records of that epoch end; ours may have ended before.
            ends = [end, *(start for newer, start in partition.epochs if newer > epoch)]
            self.recover(partition, "the source's leader lost records that were copied", truncated_at=min(ends))
        elif code == codes.OFFSET_OUT_OF_RANGE:
            if partition.replica >= 0:  # a follower may be behind: the leader decides
                self.intake.remove(partition)
                partition.replica = -1
                self.intake.add(partition)
            else:
                self.recover(partition, "", out_of_range=partition.fetched)
        elif code in codes.GONE or code in codes.DENIED:
            partition.failures += 1
            partition.blame = "source"
            self.recover(partition, f"{self.job.flow.source}: {partition.place}: {codes.name(code)}")
        elif code not in codes.MOVED:
            partition.failures += 1
            partition.blame = "source"
            self.recover(partition, f"{self.job.flow.source}: {partition.place}: {codes.name(code)} ({code})")
        else:
            # Out of the session until metadata says where it is: the broker would repeat its answer at once, for ever.
            self.intake.remove(partition)
            partition.replica = -1
            self._leaders.ask(time.monotonic() + 0.02)

    def damaged(self, partition: Partition, reason: str) -> None:
        partition.failures += 1
        if partition.failures > 5:
            self._stop(partition, f"{partition.place}: {reason}")
        else:
            self.recover(partition, f"{partition.place}: {reason}")

    def source_lost(self, node: int, partitions: Iterable[Partition], reason: str) -> None:
        for partition in partitions:
            if partition.replica >= 0:  # a follower, which may be gone for good: the leader will name another
                self.intake.remove(partition)
                partition.replica = -1
            if partition.error != reason:
                partition.error, partition.changed = reason, True
        self._leaders.ask(time.monotonic() + 0.05)
        del node

    # What comes back from the target

    def acked(self, partition: Partition, piece: Piece, base: int) -> None:
        count = piece.count
        size = len(piece.view)
        partition.waiting_bytes -= size
        self.waiting_bytes -= size
        if base != partition.expected:
            if base < partition.expected:
                # Taken for a repetition of something older, so it may not be there: look.
                partition.failures += 1
                self.recover(partition, f"{partition.remote}: acknowledged at {base}, expected {partition.expected}")
                return
            self._tell_foreign(partition, base - partition.expected)
        partition.expected = base + count
        partition.acked = piece.next
        partition.acked_sequence = next_sequence(partition.acked_sequence, count)
        partition.changed = True
        partition.failures = 0
        if partition.blame:
            partition.error = partition.blame = ""
        if not partition.proven:
            partition.proven = True
            if partition.held:
                self.outlet.put(partition, list(partition.held))
                partition.held.clear()
        counters = partition.counters
        counters.records += count
        counters.bytes += size
        counters.batches += 1
        counters.rebuilt += piece.rebuilt
        self.ledger.acked(partition, piece, base)
        if partition.full:
            self.intake.more_room(partition)
        if partition.until is not None:
            self._done(partition)

    def refused(self, partition: Partition, piece: Piece, outcome: Outcome) -> None:
        code = outcome.error
        reason = f"{self.job.flow.target}: {partition.remote}: {outcome.message or codes.name(code)}"
        # One damaged on its way is whole the next time.
        if code in codes.BAD_RECORDS and (code != codes.CORRUPT_MESSAGE or partition.failures > 2):
            self._bad(partition, piece, outcome, reason)
            return
        partition.failures += 1
        # A leader that moves is not worth a word, unless it takes long.
        told = code not in codes.MOVED or partition.failures > 3
        if told:
            partition.blame = "target"
        self.recover(partition, reason if told else "")

    def target_lost(self, node: int, partitions: Iterable[Partition], reason: str) -> None:
        del node
        for partition in partitions:
            self.recover(partition, reason)

    def _bad(self, partition: Partition, piece: Piece, outcome: Outcome, reason: str) -> None:
        """Narrow it down to one record; then it stops the partition, or is skipped, as the operator wants."""
        code = outcome.error
        if piece.count > 1 and code in codes.TOO_LARGE:
            partition.largest = max(len(piece.view) // 2, 1)
            self.recover(partition, "")
            return
        bad = [
            piece.offsets[index] if piece.offsets else piece.first + index
            for index, _ in outcome.bad_records
            if 0 <= index < piece.count
        ]
        if piece.count > 1 and (not bad or (not self.job.skip_bad and bad[0] > piece.first)):
            partition.alone_until = piece.last  # so that at least those before it arrive
            self.recover(partition, "")
            return
        bad = bad or [piece.first]
        setting = {
            codes.INVALID_TIMESTAMP: "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
            codes.MESSAGE_TOO_LARGE: "max.message.bytes",
            codes.RECORD_LIST_TOO_LARGE: "segment.bytes",
            codes.INVALID_RECORD: "cleanup.policy",  # a compacted topic takes no record without a key
        }.get(code)
        others = f" (and {len(bad) - 1} more behind it)" if len(bad) > 1 else ""
        what = f"the record at offset {bad[0]} of {partition.place}{others} is refused by {reason}"
        if setting:
            what += f": change {setting} of topic {partition.remote.topic} on {self.job.flow.target}"
        if not self.job.skip_bad:
            self._stop(partition, what + ", or set errors.tolerance = all to leave such records out")
            return
        partition.skip = frozenset((*(offset for offset in partition.skip if offset >= partition.acked), *bad))
        partition.counters.skipped += len(bad)
        what += "; left out, as errors.tolerance = all"
        self.ledger.event(partition, "skipped", len(bad), what, (bad[0], bad[-1]))
        self.recover(partition, "")

    # States of a partition

    def recover(
        self, partition: Partition, reason: str, *, truncated_at: int | None = None, out_of_range: int | None = None
    ) -> None:
        if partition.state is State.STOPPED or partition.state is State.DONE:
            return
        self._let_go(partition)
        if partition.state is State.RUNNING:
            partition.counters.recoveries += 1
        partition.state = State.RECOVERING
        partition.truncated_at = truncated_at
        partition.out_of_range = out_of_range
        partition.changed = True
        if reason:
            partition.error = reason
        pause = min(0.02 * 2 ** min(partition.failures, 10), 5.0) if partition.failures else 0.0
        partition.retry_at = time.monotonic() + pause
        self._wake(partition.retry_at)

    def _wake(self, when: float) -> None:
        self._wake_at = min(self._wake_at, when)

    def _stop(self, partition: Partition, reason: str) -> None:
        self.recover(partition, reason)
        partition.state = State.STOPPED
        partition.fresh = False
        partition.retry_at = time.monotonic() + _AGAIN
        if reason != partition.told_stop:  # it is tried again, and again
            partition.told_stop = reason
            self.ledger.event(partition, "stopped", 0, reason)

    def _done(self, partition: Partition) -> None:
        if partition.until is not None and partition.acked >= partition.until and not partition.flight:
            self._let_go(partition)
            partition.state = State.DONE
            partition.error = ""
            partition.changed = True

    def _let_go(self, partition: Partition) -> None:
        """Forgets what is between the sides."""
        self.waiting_bytes -= partition.waiting_bytes
        partition.clear()
        self.intake.remove(partition)
        self.outlet.remove(partition)

    def _timers(self, now: float) -> None:
        self.intake.check(now)
        self.outlet.check(now)
        if not self.intake.stopping:
            self._recover_due(now)
            self._leaders.check(now)
            self.intake.pump_all()
        self.ledger.timers(self.partitions, now)

    def _recover_due(self, now: float) -> None:
        if self._search.busy:
            return
        due = [p for p in self.partitions if p.state is State.RECOVERING and now >= p.retry_at]
        due += [p for p in self.partitions if p.state is State.STOPPED and p.until is None and now >= p.retry_at]
        if not due:
            return
        for partition in due:
            partition.state = State.RECOVERING
        by_place = {p.place: (p, p.generation) for p in due}

        def done(found: Found | None, error: Exception | None) -> None:
            if found is None:
                for partition in due:
                    self._failed(partition, str(error))
                return
            self.intake.brokers, self.outlet.brokers = found.upstream.brokers, found.downstream.brokers
            for finding in found.findings:
                partition, generation = by_place[finding.question.place]
                if partition.generation == generation and partition.state is State.RECOVERING:
                    if finding.stale and found.positions is not None:
                        reread(partition, found.positions)
                    else:
                        self._found(partition, finding)
            self._recover_due(time.monotonic())

        self._search.start([question_of(p) for p in due], done)

    def _failed(self, partition: Partition, reason: str) -> None:
        partition.failures += 1
        if partition.error != reason:
            partition.error, partition.changed = reason, True
        partition.retry_at = time.monotonic() + min(0.1 * 2 ** min(partition.failures, 10), 5.0)

    def _found(self, partition: Partition, finding: Finding) -> None:
        if finding.error:
            if finding.final:
                self._stop(partition, finding.error)
            else:
                self._failed(partition, finding.error)
            return
        if finding.trouble is not None and not self._trouble(partition, finding):
            return
        self._tell_foreign(partition, finding.foreign)
        if finding.duplicates:
            partition.counters.duplicates += finding.duplicates
            text = f"up to {finding.duplicates} records of {partition.place}, which are alike, may be there twice"
            self.ledger.event(partition, "duplicates", finding.duplicates, text)
        resume(partition, finding)
        self.ledger.resumed(partition)
        self.outlet.add(partition)
        self.intake.add(partition)
        self._done(partition)

    def _tell_foreign(self, partition: Partition, count: int) -> None:
        if not count or self.job.merges:
            return
        partition.counters.foreign += count
        partition.untold_foreign += count
        now = time.monotonic()
        if now >= partition.tell_foreign_at:  # who writes all the time is not told of all the time
            told, partition.untold_foreign = partition.untold_foreign, 0
            partition.tell_foreign_at = now + _TELL_AGAIN
            text = (
                f"{told} records in {partition.remote} are not Twinlog's: somebody else writes to it "
                "(on purpose? twinlog.foreign.records = expect)"
            )
            self.ledger.event(partition, "foreign", told, text)

    def _trouble(self, partition: Partition, finding: Finding) -> bool:
        """Tells of it; whether to go on all the same is the operator's to say."""
        text, amount = trouble_text(finding, self.job.flow), finding.amount
        stop = self.job.stops_on(finding.trouble)
        if stop:
            self._stop(partition, f"{text}: stopped, as {stop}")
            return False
        if finding.trouble is Trouble.LOST:
            partition.counters.lost += amount
        elif finding.trouble is Trouble.UNKNOWN_RECORDS:
            partition.counters.duplicates += amount
        self.ledger.event(partition, str(finding.trouble), amount, text, lost_offsets(finding))
        return True
