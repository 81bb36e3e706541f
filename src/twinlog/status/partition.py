"""The status of one partition of a flow. Pure."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, Self

from twinlog.journal.partition_fields import COUNTER_NAMES, SNAPSHOT, Field, fields_in
from twinlog.model import TopicPartition
from twinlog.status import lag
from twinlog.status.health import TRANSIENT_SECONDS
from twinlog.status.recent_stats import RecentStats

_SIDES: Final = ("source", "target")
_THROTTLED: Final = 15.0  # seconds after which throttling counts as over: tasks report every second
_RATE: Final = 5.0  # seconds over which rates are computed; without a report for as long, they are 0

Task = tuple[int, int, int]  # epoch, task, attempt: each starts its counters at 0


@dataclass(slots=True)
class PartitionStatus:
    # The fields of the table; snapshots have this order
    topic: str
    partition: int
    remote: str
    state: str = "waiting"
    lane: str = ""
    position: int = -1
    end: int = -1
    stable: int = -1  # the source's last stable offset, where a transaction is open
    start: int = -1
    target: int = -1
    until: int | None = None
    error: str = ""
    error_since: float = 0.0  # unix seconds, by the task's clock
    latency_ms: float = 0.0
    age_ms: float | None = None
    epoch: int = 0  # the newest in which it was assigned to a task
    task: int = -1
    newest_copied: float | None = None  # the time of the newest record copied, unix seconds

    changed_at: float = 0.0  # unix seconds, by the observer's clock
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTER_NAMES, 0))  # of the whole run
    before: tuple[Task, dict[str, int]] | None = None  # the counters of its task's last report
    samples: list[lag.Sample] = field(default_factory=list)
    latencies: RecentStats | None = None
    ages: RecentStats | None = None
    throttled_at: dict[str, float] = field(default_factory=dict)  # by side: when a quota last throttled it
    # Rates are computed between these two: time, records, bytes
    since: tuple[float, int, int] | None = None
    latest: tuple[float, int, int] | None = None
    # While it is stopped: its position and the records copied when it stopped. Its task retries it now and then, and
    # reports it as recovering and running meanwhile; it counts as stopped until it has passed the cause.
    stopped_at: tuple[int, int] | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def state_at(self, now: float) -> str:
        """`blocked` for a partition that runs, but has waited for an open transaction for longer than usual."""
        if self.state not in {"running", "waiting"} or self.error or self.blocked_at is None:
            return self.state
        seconds = self.lag_seconds_at(now)
        return "blocked" if seconds is None or seconds > TRANSIENT_SECONDS else self.state

    @property
    def blocked_at(self) -> int | None:
        """The offset of the open transaction on the source that blocks it; None: none does."""
        return self.stable if 0 <= self.stable <= self.position < self.end else None

    def throttled(self, now: float) -> list[str]:
        """The sides on which a quota throttles it."""
        return [side for side in _SIDES if now - self.throttled_at.get(side, float("-inf")) <= _THROTTLED]

    @property
    def lag(self) -> int:
        """Source offsets not copied yet, transaction markers included."""
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
        """What a snapshot stores of it, as far as it still matters; `changed_at` is the observer's own."""
        has_rate = self.latest is not None and now - self.latest[0] <= _RATE
        task, counts = self.before or ((-1, -1, -1), None)
        return [
            *_stored_values(self), [self.counters[key] for key in COUNTER_NAMES], list(task),
            None if counts is None else [counts.get(key, 0) for key in COUNTER_NAMES], self.samples,
            self.since if has_rate else None, self.latest if has_rate else None,
            self.latencies.buckets(now) if self.latencies is not None else [],
            self.ages.buckets(now) if self.ages is not None else [], list(self.throttled_at.items()),
            self.stopped_at,
        ]  # fmt: skip

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """Raises ValueError, TypeError or OverflowError if the row is malformed."""
        *stored, counters, counted_task, counts, samples, since, latest, latencies, ages, throttled, stopped_at = row
        new = cls(**{name: parse(value) for (name, parse), value in zip(_PARSERS.items(), stored, strict=True)})
        new.counters = dict(zip(COUNTER_NAMES, map(int, counters), strict=True))
        if counts is not None:
            one, two, three = map(int, counted_task)
            new.before = ((one, two, three), dict(zip(COUNTER_NAMES, map(int, counts), strict=True)))
        new.samples = [(float(when), int(then)) for when, then in samples]
        new.since, new.latest = _mark(since), _mark(latest)
        new.latencies = RecentStats(latencies) if latencies else None
        new.ages = RecentStats(ages) if ages else None
        new.throttled_at = {str(side): float(when) for side, when in throttled}
        if stopped_at is not None:
            at, copied = stopped_at
            new.stopped_at = (int(at), int(copied))
        return new

    def on_record(self, content: dict[str, Any], task: Task, seconds: float) -> dict[str, int]:
        """Applies a task's report of that time; returns what was counted since the last one."""
        get = content.get
        self.epoch = max(self.epoch, task[0])
        self.task = task[1]
        self.lane = str(get("lane", self.lane))
        self.until = get("until")
        more = self._count(content, task, seconds)
        for side in _SIDES:
            if f"{side}_throttled_ms" in more:
                self.throttled_at[side] = seconds
        retried = self._only_retried(content)
        if retried:
            self.counters["recoveries"] -= more.pop("recoveries", 0)
        state = str(get("state", ""))
        if retried and state != "stopped":  # its position is known, whatever a task that has just started reports
            self.end = max(self.end, int(get("end", -1)))
        else:
            self._apply(content, state, seconds)
        if self.end >= 0:
            lag.add_sample(self.samples, seconds, self.end, self.position)
        self._times(content, seconds)
        return more

    def _apply(self, content: dict[str, Any], state: str, seconds: float) -> None:
        get = content.get
        self.state = state
        if (position := int(get("position", -1))) >= 0 or self.stopped_at is None:
            self.position = position
        self.end = int(get("end", -1))
        self.stable = int(get("stable", -1))
        self.start = int(get("start", -1))
        self.target = int(get("target", -1))
        error = str(get("error", ""))
        if error and not self.error:
            self.error_since = seconds
        self.error = error
        self.stopped_at = (self.position, self.counters["records"]) if state == "stopped" else None

    def _only_retried(self, content: dict[str, Any]) -> bool:
        """Whether it was stopped and nothing has been copied since, although there is something to copy."""
        if self.stopped_at is None:
            return False
        state, position, end = content.get("state"), int(content.get("position", -1)), int(content.get("end", -1))
        before, copied = self.stopped_at
        moved = position > before or self.counters["records"] > copied
        return not moved and (state in {"stopped", "recovering"} or position < end)

    def _times(self, content: dict[str, Any], seconds: float) -> None:
        latency = content.get("latency_ms", 0.0)
        if latency:  # a task that has just started has copied nothing yet
            self.latency_ms = float(latency)
            self.newest_copied = seconds - self.latency_ms / 1000
        if stats := content.get("latency"):
            self.latencies = self.latencies or RecentStats()
            self.latencies.add(seconds, stats)
        if stats := content.get("age"):
            self.ages = self.ages or RecentStats()
            self.ages.add(seconds, stats)
            self.age_ms = content.get("age_ms", stats[2])

    def _count(self, content: dict[str, Any], task: Task, seconds: float) -> dict[str, int]:
        counters = self.counters
        was = (seconds, counters["records"], counters["bytes"])
        before = self.before[1] if self.before is not None and self.before[0] == task else {}
        counts: dict[str, int] = {}
        more: dict[str, int] = {}
        for key in COUNTER_NAMES:
            if count := content.get(key):
                counts[key] = count = int(count)
                if new := count - before.get(key, 0):
                    more[key] = new
                    counters[key] += new
        self.before = (task, counts)
        now = (seconds, counters["records"], counters["bytes"])
        if self.latest is None or self.since is None:
            self.since = now  # the first report: no rate is known yet
        elif seconds - self.latest[0] > _RATE:
            self.since = (seconds - 1.0, was[1], was[2])  # after a pause: all of it came in the last second
        elif seconds - self.since[0] > _RATE:
            self.since = self.latest if seconds > self.latest[0] else self.since
        self.latest = now
        return more


def _parser(stored: Field) -> Callable[[Any], Any]:
    kind = stored.kind
    return (lambda value: None if value is None else kind(value)) if stored.optional else kind


_STORED: Final = {each.name: each for each in fields_in(SNAPSHOT)}
_PARSERS: Final = {each.name: _parser(_STORED[each.name]) for each in fields(PartitionStatus) if each.name in _STORED}
_stored_values: Final = attrgetter(*_PARSERS)


def _mark(content: Sequence[Any] | None) -> tuple[float, int, int] | None:
    if content is None:
        return None
    when, records, volume = content
    return float(when), int(records), int(volume)


def _of(window: RecentStats | None, which: int) -> float | None:
    found = window.over(time.time()) if window is not None else None
    return None if found is None else found[which]
