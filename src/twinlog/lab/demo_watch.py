"""Follows a run of Twinlog from outside: by the reports that its tasks write into the journal, and by its log."""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from twinlog.errors import LabError
from twinlog.lab import batches
from twinlog.lab.cluster import Cluster
from twinlog.lab.demo_run import TwinlogRun
from twinlog.lab.demo_view import Row
from twinlog.lab.wire import Wire
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus
from twinlog.tracking.journal import REPORTS, Report, journal_topic

_WINDOW = 5.0  # seconds over which speed is told
_SETTLES = 1.5  # seconds in which every task has reported
_FRESH = 6.0  # seconds for which what is new stands out


class Watcher:
    def __init__(self, target: Cluster, source: str, run: TwinlogRun) -> None:
        self._target, self._run = target, run
        self._topic = journal_topic(source)
        self._wire = Wire(target.client_properties())
        self._next: int | None = None
        self._read = 0  # bytes of the log
        self._seen: dict[str, tuple[int, float]] = {}  # topic -> partitions, since when
        self._told: dict[str, int] = {}  # topic -> partitions that were spoken of
        self._first = 0.0  # when the first report came
        self._history: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()
        self._percentiles: list[tuple[float, float]] = []
        self._caught_up = False
        self.status: FlowStatus | None = None
        self.events: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._wire.close()

    @property
    def relaying(self) -> bool:
        return self.status is not None and bool(self.status.partitions)

    @property
    def bytes(self) -> int:
        """What was copied, as it went over the wire."""
        return self.status.total("bytes") if self.status else 0

    @property
    def records(self) -> int:
        return self.status.total("records") if self.status else 0

    def latency(self) -> tuple[float, float] | None:
        """p50 and p99 of the middle second since it had caught up: older records are late for a reason."""
        if not self._percentiles:
            return None
        return statistics.median(p for p, _ in self._percentiles), statistics.median(p for _, p in self._percentiles)

    def tell(self, text: str) -> None:
        self.events.append((time.strftime("%H:%M:%S"), text))

    def listen(self) -> None:
        """Hears what there is; waits up to half a second for more."""
        self._read_log()
        try:
            if self._next is None:
                if REPORTS not in self._wire.partitions(self._topic):
                    time.sleep(0.25)
                    return
                self._next = self._wire.offsets(self._topic, REPORTS)[0]
            fetched = self._wire.fetch(self._topic, REPORTS, self._next)
        except LabError:  # a topic that is only just being made
            self._wire.close()
            self._wire = Wire(self._target.client_properties())
            time.sleep(0.25)
            return
        for batch in batches.split(fetched.batches):
            offsets, records = batches.decode(batch)
            for offset, (_, _, value, _) in zip(offsets, records, strict=True):
                if offset >= self._next and (report := Report.decode(value)) is not None:
                    self._add(report)
            self._next = batches.Header.of(batch).last_offset + 1
        self._look()

    def _add(self, report: Report) -> None:
        if self.status is None:
            self.status = FlowStatus(report.run)  # the cluster is new: there is no other run
        self.status.add(report)
        said = report.partitions.get("")
        if said and self._caught_up:
            self._percentiles.append((float(said["latency_p50_ms"]), float(said["latency_p99_ms"])))

    def _look(self) -> None:
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
        while self._history[0][0] < now - _WINDOW:
            self._history.popleft()
        self._first = self._first or now
        for topic, count in partitions.items():
            if self._seen.get(topic, (0, 0.0))[0] != count:
                self._seen[topic] = (count, now)
            elif now - self._seen[topic][1] > _SETTLES and self._told.get(topic) != count:
                self._announce(topic, count)
        if not self._caught_up and self.status.total("records") and not self.status.lag:
            self._caught_up = True
            self.tell(f"caught up: {self.status.total('records'):,} records")

    def _announce(self, topic: str, count: int) -> None:
        """Each task reports for itself: what is new is spoken of when it has been the same for a moment."""
        before = self._told.get(topic)
        self._told[topic] = count
        if before is not None:
            self.tell(f"{topic}: {count - before} new partitions are relayed, too: {count} now")
        elif self._seen[topic][1] - self._first > 2 * _SETTLES:
            self.tell(f"{topic}: a new topic, its {count} partitions are relayed, too")

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
        busy = [p.latency_ms for p in partitions if p.latency_ms > 0]  # a new epoch begins with none
        return Row(
            topic,
            _state(partitions),
            len(partitions),
            sum(p.counters["records"] for p in partitions),
            sum(p.lag for p in partitions),
            rates[0],
            rates[1],
            statistics.median(busy) if busy else None,
            new=self._is_new(topic),
        )

    def _is_new(self, topic: str) -> bool:
        since = self._seen[topic][1]
        return since - self._first > 2 * _SETTLES and time.monotonic() - since < _FRESH

    def _read_log(self) -> None:
        """`twinlog run` writes a line, with a clock in front, for all that an operator should see."""
        try:
            with self._run.process.log.open("rb") as log:
                log.seek(self._read)
                new = log.read()
        except OSError:
            return
        whole, newline, _ = new.rpartition(b"\n")
        self._read += len(whole + newline)
        for text in whole.decode(errors="replace").splitlines():
            clock, _, rest = text.partition(" ")
            self.events.append((clock, rest) if clock.count(":") == 2 else (time.strftime("%H:%M:%S"), text))


def _state(partitions: Sequence[PartitionStatus]) -> str:
    states = {p.state for p in partitions}
    if "stopped" in states:
        return "stopped"
    if any(p.error for p in partitions):
        return "trouble"
    return next(iter(states)) if len(states) == 1 else "recovering"
