"""Observes `twinlog run` by its tasks' reports in the journal, and by its log."""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from demo.screen import Row
from lab import batches
from lab.cluster import Cluster
from lab.errors import LabError
from lab.raw_protocol import RawProtocol
from lab.twinlog_run import TwinlogRun
from twinlog.journal.messages import REPORTS, Report, journal_topic
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus

_RATE_SECONDS = 5.0  # period over which rates are computed
_REPORT_SECONDS = 1.5  # period in which every task has reported
_NEW_SECONDS = 6.0  # how long a new topic is highlighted


class RunObserver:
    def __init__(self, target: Cluster, source: str, run: TwinlogRun) -> None:
        self._target, self._run = target, run
        self._topic = journal_topic(source)
        self._raw = RawProtocol(target.client_properties())
        self._next: int | None = None
        self._log_position = 0  # bytes read
        self._seen: dict[str, tuple[int, float]] = {}  # topic -> partitions, since when
        self._announced: dict[str, int] = {}  # topic -> partitions, as of its last event
        self._first = 0.0  # time of the first report
        self._history: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()
        self._percentiles: list[tuple[float, float]] = []
        self._caught_up = False
        self.status: FlowStatus | None = None
        self.events: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._raw.close()

    @property
    def replicating(self) -> bool:
        return self.status is not None and bool(self.status.partitions)

    @property
    def bytes(self) -> int:
        """Replicated bytes, as transferred (compressed)."""
        return self.status.total("bytes") if self.status else 0

    @property
    def records(self) -> int:
        return self.status.total("records") if self.status else 0

    def latency(self) -> tuple[float, float] | None:
        """Medians of the reported p50 and p99 since it has caught up: the backlog delays records before that."""
        if not self._percentiles:
            return None
        return statistics.median(p for p, _ in self._percentiles), statistics.median(p for _, p in self._percentiles)

    def add_event(self, text: str) -> None:
        self.events.append((time.strftime("%H:%M:%S"), text))

    def poll(self) -> None:
        """Reads new reports and log lines; waits up to half a second for reports."""
        self._read_log()
        try:
            if self._next is None:
                if REPORTS not in self._raw.partitions(self._topic):
                    time.sleep(0.25)
                    return
                self._next = self._raw.offsets(self._topic, REPORTS)[0]
            fetched = self._raw.fetch(self._topic, REPORTS, self._next)
        except LabError:  # the topic is being created
            self._raw.close()
            self._raw = RawProtocol(self._target.client_properties())
            time.sleep(0.25)
            return
        for batch in batches.split(fetched.batches):
            offsets, records = batches.decode(batch)
            for offset, (_, _, value, _) in zip(offsets, records, strict=True):
                if offset >= self._next and (report := Report.decode(value)) is not None:
                    self._add(report)
            self._next = batches.Header.of(batch).last_offset + 1
        self._update()

    def _add(self, report: Report) -> None:
        if self.status is None:
            self.status = FlowStatus(report.run)  # on a new cluster there is no other run
        self.status.add(report)
        totals = report.partitions.get("")
        if totals and self._caught_up:
            self._percentiles.append((float(totals["latency_p50_ms"]), float(totals["latency_p99_ms"])))

    def _update(self) -> None:
        if self.status is None:
            return
        now = time.monotonic()
        counts: dict[str, tuple[int, int]] = {}
        partitions: dict[str, int] = {}
        for each in self.status.partitions.values():
            records, volume = counts.get(each.topic, (0, 0))
            counts[each.topic] = records + each.counters["records"], volume + each.counters["bytes"]
            partitions[each.topic] = partitions.get(each.topic, 0) + 1
        self._history.append((now, counts))
        while self._history[0][0] < now - _RATE_SECONDS:
            self._history.popleft()
        self._first = self._first or now
        for topic, count in partitions.items():
            if self._seen.get(topic, (0, 0.0))[0] != count:
                self._seen[topic] = (count, now)
            elif now - self._seen[topic][1] > _REPORT_SECONDS and self._announced.get(topic) != count:
                self._announce(topic, count)
        if not self._caught_up and self.status.total("records") and not self.status.lag:
            self._caught_up = True
            self.add_event(f"caught up: {self.status.total('records'):,} records")

    def _announce(self, topic: str, count: int) -> None:
        """Called once the count is stable: each task reports its own partitions."""
        before = self._announced.get(topic)
        self._announced[topic] = count
        if before is not None:
            self.add_event(f"{topic}: replicating {count - before} new partitions, {count} in total")
        elif self._seen[topic][1] - self._first > 2 * _REPORT_SECONDS:
            self.add_event(f"{topic}: replicating new topic with {count} partitions")

    def rows(self, topics: Sequence[str]) -> list[Row]:
        return [self._row(topic) for topic in topics]

    def _row(self, topic: str) -> Row:
        partitions = [p for p in self.status.partitions.values() if p.topic == topic] if self.status else []
        if not partitions:
            return Row(topic)
        (then, before), (now, after) = self._history[0], self._history[-1]
        seconds = max(now - then, 0.001)
        rates = [
            max(b - a, 0) / seconds for a, b in zip(before.get(topic, (0, 0)), after.get(topic, (0, 0)), strict=True)
        ]
        latencies = [p.latency_ms for p in partitions if p.latency_ms > 0]  # 0 at the start of an epoch
        return Row(
            topic,
            _state(partitions),
            len(partitions),
            sum(p.counters["records"] for p in partitions),
            sum(p.lag for p in partitions),
            rates[0],
            rates[1],
            statistics.median(latencies) if latencies else None,
            new=self._is_new(topic),
        )

    def _is_new(self, topic: str) -> bool:
        since = self._seen[topic][1]
        return since - self._first > 2 * _REPORT_SECONDS and time.monotonic() - since < _NEW_SECONDS

    def _read_log(self) -> None:
        """Adds the lines of `twinlog run` as events; they begin with the time."""
        try:
            with self._run.process.log.open("rb") as log:
                log.seek(self._log_position)
                new = log.read()
        except OSError:
            return
        complete, newline, _ = new.rpartition(b"\n")
        self._log_position += len(complete + newline)
        for text in complete.decode(errors="replace").splitlines():
            clock, _, rest = text.partition(" ")
            self.events.append((clock, rest) if clock.count(":") == 2 else (time.strftime("%H:%M:%S"), text))


def _state(partitions: Sequence[PartitionStatus]) -> str:
    states = {p.state for p in partitions}
    if "stopped" in states:
        return "stopped"
    if any(p.error for p in partitions):
        return "failing"
    return next(iter(states)) if len(states) == 1 else "recovering"
