"""One snapshot of a flow, put together from what its tasks report. Pure."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from twinlog.tracking.journal import Report

_SETTLED_MS = 5000  # every task of an epoch has told of all its partitions by then
_COUNTERS = ("records", "bytes", "batches", "rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries")


@dataclass(slots=True)
class PartitionStatus:
    topic: str
    partition: int
    remote: str
    state: str = "waiting"
    position: int = -1
    end: int = -1
    target: int = -1
    until: int | None = None
    error: str = ""
    latency_ms: float = 0.0
    epoch: int = 0  # the newest in which a task had it
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))  # over all epochs of the run

    @property
    def lag(self) -> int:
        """Source offsets that are not on the target yet (transaction markers count, too)."""
        return max(self.end - self.position, 0) if self.end >= 0 and self.position >= 0 else 0


class FlowStatus:
    def __init__(self, run: str) -> None:
        self.run = run
        self.partitions: dict[str, PartitionStatus] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=1000)
        self.latency_p50_ms: float | None = None
        self.latency_p99_ms: float | None = None
        self.epoch = 0
        self.reported_at = 0.0
        self._epoch_began_ms = 0
        self._forgotten = dict.fromkeys(_COUNTERS, 0)  # what partitions had carried that are gone by now
        self._before: dict[str, tuple[tuple[int, int, int], dict[str, int]]] = {}
        self._history: deque[tuple[float, int, int]] = deque(maxlen=30)
        self._news: list[dict[str, Any]] = []

    def add(self, report: Report) -> None:
        if report.run != self.run:
            return
        if report.epoch > self.epoch:
            self.epoch, self._epoch_began_ms = report.epoch, report.time_ms
        self.reported_at = time.time()
        task = (report.epoch, report.task, report.attempt)
        for name, content in report.partitions.items():
            if name:
                self._partition(name, content, task)
            else:
                self.latency_p50_ms = content.get("latency_p50_ms")
                self.latency_p99_ms = content.get("latency_p99_ms")
        if report.time_ms - self._epoch_began_ms > _SETTLED_MS:
            self._forget()
        self.events.extend(report.events)
        self._news += report.events
        self._history.append((report.time_ms / 1000, self.total("records"), self.total("bytes")))

    def _partition(self, name: str, content: dict[str, Any], task: tuple[int, int, int]) -> None:
        status = self.partitions.get(name)
        if status is None:
            status = PartitionStatus(
                str(content.get("topic")), int(content.get("partition", 0)), str(content.get("remote"))
            )
            self.partitions[name] = status
        status.epoch = max(status.epoch, task[0])
        status.state = str(content.get("state", ""))
        status.position = int(content.get("position", -1))
        status.end = int(content.get("end", -1))
        status.target = int(content.get("target", -1))
        status.until = content.get("until")
        status.error = str(content.get("error", ""))
        status.latency_ms = float(content.get("latency_ms", 0.0))
        counts = {key: int(content.get(key, 0)) for key in _COUNTERS}
        before_task, before = self._before.get(name, (task, dict.fromkeys(_COUNTERS, 0)))
        base = before if before_task == task else dict.fromkeys(_COUNTERS, 0)
        for key in _COUNTERS:
            status.counters[key] += counts[key] - base[key]
        self._before[name] = (task, counts)

    def _forget(self) -> None:
        """Those that no task has any more: their topic was deleted, or is not to be copied now."""
        for name in [name for name, status in self.partitions.items() if status.epoch < self.epoch]:
            for key, count in self.partitions.pop(name).counters.items():
                self._forgotten[key] += count
            del self._before[name]

    def news(self) -> list[dict[str, Any]]:
        """Events since this was last asked."""
        news, self._news = self._news, []
        return news

    def total(self, counter: str) -> int:
        return self._forgotten[counter] + sum(each.counters[counter] for each in self.partitions.values())

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions.values())

    def rates(self, seconds: float = 5.0) -> tuple[float, float]:
        """Records and bytes per second, of late."""
        if len(self._history) < 2:
            return 0.0, 0.0
        last = self._history[-1]
        if time.time() - last[0] > seconds:
            return 0.0, 0.0
        first = next((each for each in self._history if last[0] - each[0] <= seconds), last)
        span = last[0] - first[0]
        return ((last[1] - first[1]) / span, (last[2] - first[2]) / span) if span > 0 else (0.0, 0.0)

    @property
    def troubled(self) -> list[PartitionStatus]:
        return [each for each in self.partitions.values() if each.error]
