"""What is known of one partition of a flow. Pure."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from twinlog.status import lag
from twinlog.status.windows import Window

COUNTERS: Final = (
    "records", "bytes", "batches", "rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries",
)  # fmt: skip
_RATE: Final = 5.0  # seconds over which speed is told; one that has not been spoken of for as long does not move

Task = tuple[int, int, int]  # epoch, task, attempt: whose counters begin with 0


@dataclass(slots=True)
class PartitionStatus:
    topic: str
    partition: int
    remote: str
    state: str = "waiting"
    lane: str = ""
    position: int = -1
    end: int = -1
    stable: int = -1  # the first offset of a transaction that is open on the source
    start: int = -1
    target: int = -1
    until: int | None = None
    error: str = ""
    error_since: float = 0.0  # unix seconds, by the task's clock
    latency_ms: float = 0.0
    age_ms: float | None = None
    epoch: int = 0  # the newest in which a task had it
    task: int = -1
    changed_at: float = 0.0  # unix seconds, by the clock of the one who watches
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))  # over all epochs of the run
    before: tuple[Task, dict[str, int]] | None = None  # what its task said last
    samples: list[lag.Sample] = field(default_factory=list)
    newest_copied: float | None = None  # the time of the newest record that was copied, unix seconds
    latencies: Window | None = None
    ages: Window | None = None
    # Where its speed is counted from, and up to: time, records, bytes
    since: tuple[float, int, int] | None = None
    latest: tuple[float, int, int] | None = None

    @property
    def waits(self) -> str:
        """Why it does not go on though nothing is wrong with it."""
        if 0 <= self.stable <= self.position < self.end:
            return f"it waits for the transaction that is open at offset {self.stable} of the source"
        return ""

    @property
    def lag(self) -> int:
        """Source offsets that are not on the target yet (transaction markers count, too)."""
        return max(self.end - self.position, 0) if self.end >= 0 and self.position >= 0 else 0

    @property
    def lag_seconds(self) -> float | None:
        return self.lag_seconds_at(time.time())

    def lag_seconds_at(self, now: float) -> float | None:
        return lag.lag_seconds(now, self.position, self.end, self.samples, self.newest_copied)

    @property
    def records_per_s(self) -> float:
        return self.rates_at(time.time())[0]

    @property
    def bytes_per_s(self) -> float:
        return self.rates_at(time.time())[1]

    def rates_at(self, now: float) -> tuple[float, float]:
        if self.since is None or self.latest is None or now - self.latest[0] > _RATE:
            return 0.0, 0.0
        seconds = self.latest[0] - self.since[0]
        if seconds <= 0:
            return 0.0, 0.0
        return (self.latest[1] - self.since[1]) / seconds, (self.latest[2] - self.since[2]) / seconds

    @property
    def latency_min_ms(self) -> float | None:
        return _of(self.latencies, 0)

    @property
    def latency_avg_ms(self) -> float | None:
        return _of(self.latencies, 1)

    @property
    def latency_max_ms(self) -> float | None:
        return _of(self.latencies, 2)

    @property
    def age_min_ms(self) -> float | None:
        return _of(self.ages, 0)

    @property
    def age_avg_ms(self) -> float | None:
        return _of(self.ages, 1)

    @property
    def age_max_ms(self) -> float | None:
        return _of(self.ages, 2)

    def row(self, now: float) -> list[Any]:
        """All of it that still counts, from which it can be made again; `changed_at` is the watcher's own."""
        moves = self.latest is not None and now - self.latest[0] <= _RATE
        whose, counts = self.before or ((-1, -1, -1), None)
        return [
            self.topic, self.partition, self.remote, self.state, self.lane, self.position, self.end, self.stable,
            self.start, self.target, self.until, self.error, self.error_since, self.latency_ms, self.age_ms, self.epoch,
            self.task, self.newest_copied, [self.counters[key] for key in COUNTERS], list(whose),
            None if counts is None else [counts.get(key, 0) for key in COUNTERS], self.samples,
            self.since if moves else None, self.latest if moves else None,
            self.latencies.kept(now) if self.latencies is not None else [],
            self.ages.kept(now) if self.ages is not None else [],
        ]  # fmt: skip

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError or OverflowError where a row is not one."""
        (
            topic, partition, remote, state, lane, position, end, stable, start, target, until, error, error_since,
            latency, age, epoch, task, newest, counters, whose, counts, samples, since, latest, latencies, ages,
        ) = row  # fmt: skip
        new = cls(
            str(topic), int(partition), str(remote), str(state), str(lane), int(position), int(end), int(stable),
            int(start), int(target), None if until is None else int(until), str(error), float(error_since),
            float(latency), None if age is None else float(age), int(epoch), int(task),
        )  # fmt: skip
        new.counters = dict(zip(COUNTERS, map(int, counters), strict=True))
        if counts is not None:
            one, two, three = map(int, whose)
            new.before = ((one, two, three), dict(zip(COUNTERS, map(int, counts), strict=True)))
        new.samples = [(float(when), int(then)) for when, then in samples]
        new.newest_copied = None if newest is None else float(newest)
        new.since, new.latest = _mark(since), _mark(latest)
        new.latencies = Window(latencies) if latencies else None
        new.ages = Window(ages) if ages else None
        return new

    def hear(self, content: dict[str, Any], task: Task, seconds: float) -> dict[str, int]:
        """Takes over what a task says of it at a time; what was counted since it was last heard of."""
        get = content.get
        self.epoch = max(self.epoch, task[0])
        self.task = task[1]
        self.state = str(get("state", ""))
        self.lane = str(get("lane", self.lane))
        self.position = int(get("position", -1))
        self.end = int(get("end", -1))
        self.stable = int(get("stable", -1))
        self.start = int(get("start", -1))
        self.target = int(get("target", -1))
        self.until = get("until")
        error = str(get("error", ""))
        if error and not self.error:
            self.error_since = seconds
        self.error = error
        if self.end >= 0:
            lag.note(self.samples, seconds, self.end, self.position)
        self._times(content, seconds)
        return self._count(content, task, seconds)

    def _times(self, content: dict[str, Any], seconds: float) -> None:
        latency = content.get("latency_ms", 0.0)
        told = content.get("latency")
        if latency:  # a task that has just begun has copied nothing yet
            self.latency_ms = float(latency)
            self.newest_copied = seconds - self.latency_ms / 1000
        if told:
            self.latencies = self.latencies or Window()
            self.latencies.add(seconds, told)
        if told := content.get("age"):
            self.ages = self.ages or Window()
            self.ages.add(seconds, told)
            self.age_ms = content.get("age_ms", told[2])

    def _count(self, content: dict[str, Any], task: Task, seconds: float) -> dict[str, int]:
        counters = self.counters
        was = (seconds, counters["records"], counters["bytes"])
        before = self.before[1] if self.before is not None and self.before[0] == task else {}
        counts: dict[str, int] = {}
        more: dict[str, int] = {}
        for key in COUNTERS:
            if count := content.get(key):
                counts[key] = count = int(count)
                if new := count - before.get(key, 0):
                    more[key] = new
                    counters[key] += new
        self.before = (task, counts)
        now = (seconds, counters["records"], counters["bytes"])
        if self.latest is None or self.since is None:
            self.since = now  # whoever begins to listen in the middle does not know how fast it was
        elif seconds - self.latest[0] > _RATE:
            self.since = (seconds - 1.0, was[1], was[2])  # after silence: what came, came in the last second
        elif seconds - self.since[0] > _RATE:
            self.since = self.latest if seconds > self.latest[0] else self.since
        self.latest = now
        return more


def _mark(content: Sequence[Any] | None) -> tuple[float, int, int] | None:
    if content is None:
        return None
    when, records, volume = content
    return float(when), int(records), int(volume)


def _of(window: Window | None, which: int) -> float | None:
    found = window.over(time.time()) if window is not None else None
    return None if found is None else found[which]
