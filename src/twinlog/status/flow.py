"""One snapshot of a flow, put together from what its tasks report and its supervisor tells. Pure.

Whoever runs the flow and whoever watches it from afar use the same class: the latter begins with a keyframe
(keyframe.py), and both are given every report and bulletin after it.
"""

import statistics
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, Self

from twinlog.status.health import MAX_LAG_SECONDS, Health, judge
from twinlog.status.history import History
from twinlog.status.partition import COUNTERS, PartitionStatus
from twinlog.status.topic import TopicStatus, topics_of
from twinlog.tracking.journal import Bulletin, Report, is_event
from twinlog.upkeep.group_look import GroupStatus

_SETTLED_MS: Final = 5000  # every task of an epoch has told of all its partitions by then
_LATELY: Final = 10.0  # seconds for which what a task said of its latency counts
_OFTEN: Final = 0.25  # seconds between two marks by which speed is told: tasks report one after the other
_KEPT: Final = 200  # events in a keyframe
_LOSSES: Final = frozenset({"lost", "skipped", "truncated"})


@dataclass(frozen=True, slots=True)
class LostRange:
    """Source offsets that one of the sides does not have (any more); `reason` says why."""

    time_ms: int
    topic: str
    partition: int
    first: int
    last: int
    reason: str


class FlowStatus:
    """Belongs to one thread. Others may read it: `partitions` and `groups` are replaced when they gain or lose members,
    never changed in size.
    """

    def __init__(self, run: str, name: str = "", source: str = "", target: str = "") -> None:
        self.run = run
        self.name = name
        self.source = source
        self.target = target
        self.state = "starting"
        self.error = ""
        self.stood = False  # somebody looked at the clusters because no task had told of partitions
        self.unseen = ""  # why a watcher cannot see how it is
        self.tasks = 0
        self.starts = 0
        self.began_ms = 0  # when its run did
        self.told_ms = 0  # when its supervisor was last heard of
        self.heartbeat_ms: int | None = None
        self.checkpoint_ms: int | None = None
        self.partitions: dict[str, PartitionStatus] = {}
        self.groups: list[GroupStatus] = []
        self.executors: dict[int, str] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=1000)
        self.lost_ranges: deque[LostRange] = deque(maxlen=1000)
        self.history = History()
        self.epoch = 0
        self.reported_at = 0.0
        self.reported_run = ""  # whose tasks were heard last: a flow that is started again may be another run
        self._epoch_began_ms = 0
        self._totals = dict.fromkeys(COUNTERS, 0)  # of those that are gone by now, too
        self._lag = 0
        self._behind: set[str] = set()
        self._troubled: set[str] = set()
        self._stale = False  # some may be of an earlier epoch
        self._latencies: dict[int, tuple[float, float, float]] = {}  # task -> when, p50, p99
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=64)
        self._news: list[dict[str, Any]] = []

    # What is heard

    def add(self, report: Report) -> None:
        if report.run != self.run:
            return
        seconds = report.time_ms / 1000
        if report.epoch > self.epoch:
            self.epoch, self._epoch_began_ms = report.epoch, report.time_ms
            self.executors = {}
            self._stale = True
        self.reported_at = max(self.reported_at, seconds)
        if report.task >= 0:  # the planner is none
            self.reported_run = report.run
        if report.host and report.epoch == self.epoch and self.executors.get(report.task) != report.host:
            self.executors = {**self.executors, report.task: report.host}
        self._hear(report, seconds)
        if self._stale and report.time_ms - self._epoch_began_ms > _SETTLED_MS:
            self._forget()
        self._tell(report.events)
        if self._marks and seconds - self._marks[-1][0] < _OFTEN:
            self._marks[-1] = (self._marks[-1][0], self._totals["records"], self._totals["bytes"])
        else:
            self._marks.append((seconds, self._totals["records"], self._totals["bytes"]))
        self._remember(seconds)

    def bulletin(self, told: Bulletin) -> None:
        """What its supervisor says of it."""
        if told.run != self.run:
            return
        if self.told_ms and (told.state, told.starts) != (self.state, self.starts):
            self._change(told)
        self.state, self.error = told.state, told.error
        self.tasks, self.starts = told.tasks, told.starts
        self.began_ms, self.told_ms = told.began_ms, max(told.time_ms, self.told_ms)
        self.heartbeat_ms, self.checkpoint_ms = told.heartbeat_ms, told.checkpoint_ms
        self._remember(told.time_ms / 1000)

    def _change(self, told: Bulletin) -> None:
        """For those who look later; whoever runs the flow says it by itself, so it is no news."""
        text = {
            "retrying": f"it has ended and starts again: {told.error}",
            "paused": "it is paused",
            "stopped": f"it is stopped{': ' if told.error else ''}{told.error}",
            "finished": "all is copied",
        }.get(told.state)
        if text is None and told.state == "running" and self.state in {"retrying", "paused", "stopped", "starting"}:
            text = "it runs"
        if text is not None and (told.state != self.state or told.state == "retrying"):
            self.events.append({"time": told.time_ms, "kind": told.state, "amount": 0, "text": text})

    def seen(self, groups: Iterable[GroupStatus]) -> None:
        self.groups = list(groups)

    def stand(self, partitions: Iterable[PartitionStatus]) -> None:
        """How it stands when nobody runs it: by a look at the clusters, not by reports."""
        self.stood = True
        self._take(partitions)

    def _take(self, partitions: Iterable[PartitionStatus]) -> None:
        self.partitions = {f"{each.topic}-{each.partition}": each for each in partitions}
        self._settle()

    def _hear(self, report: Report, seconds: float) -> None:
        heard = time.time()
        task = (report.epoch, report.task, report.attempt)
        new: dict[str, PartitionStatus] = {}
        for name, content in report.partitions.items():
            if not name:
                if (middle := content.get("latency_p50_ms")) is not None:
                    self._latencies[report.task] = (seconds, middle, content.get("latency_p99_ms", middle))
                continue
            status = self.partitions.get(name)
            if status is None:
                status = new[name] = PartitionStatus(
                    str(content.get("topic")), int(content.get("partition", 0)), str(content.get("remote"))
                )
            before = status.lag
            for key, more in status.hear(content, task, seconds).items():
                self._totals[key] += more
            status.changed_at = heard
            self._lag += status.lag - before
            self._sort(name, status)
        if new:
            self.partitions = {**self.partitions, **new}

    def _sort(self, name: str, status: PartitionStatus) -> None:
        if status.position < status.end:
            self._behind.add(name)
        else:
            self._behind.discard(name)
        if status.error or status.state == "stopped":
            self._troubled.add(name)
        else:
            self._troubled.discard(name)

    def _forget(self) -> None:
        """Those that no task has any more: their topic was deleted, or is not to be copied now."""
        self._stale = False
        kept = {name: status for name, status in self.partitions.items() if status.epoch >= self.epoch}
        if len(kept) < len(self.partitions):
            self.partitions = kept
            self._settle()

    def _settle(self) -> None:
        self._lag = sum(each.lag for each in self.partitions.values())
        self._behind.clear()
        self._troubled.clear()
        for name, status in self.partitions.items():
            self._sort(name, status)

    def _tell(self, events: list[dict[str, Any]]) -> None:
        self.events.extend(events)
        self._news += events
        for event in events:
            if event.get("kind") in _LOSSES and "first" in event and "last" in event:
                topic, _, partition = str(event.get("partition", "")).rpartition("-")
                self.lost_ranges.append(
                    LostRange(
                        int(event.get("time", 0)),
                        topic,
                        int(partition) if partition.isdecimal() else -1,
                        int(event["first"]),
                        int(event["last"]),
                        str(event.get("text", "")),
                    )
                )

    def _remember(self, seconds: float) -> None:
        if self.history.due(seconds):
            self.history.add(seconds, self._lag, self.lag_seconds_at(seconds), *self.rates_at(seconds))

    # For a keyframe

    def head(self) -> dict[str, Any]:
        """All of it but the partitions."""
        return {
            "source": self.source, "target": self.target, "epoch": self.epoch, "epoch_began_ms": self._epoch_began_ms,
            "reported_at": self.reported_at, "totals": self._totals, "stale": self._stale,
            "executors": list(self.executors.items()), "events": list(self.events)[-_KEPT:],
            "lost": [astuple(each) for each in tuple(self.lost_ranges)[-_KEPT:]],
            "latencies": [[task, *told] for task, told in self._latencies.items()],
            "marks": list(self._marks), "history": self.history.points(),
        }  # fmt: skip

    @classmethod
    def of_head(cls, run: str, name: str, head: dict[str, Any], rows: Iterable[Sequence[Any]]) -> Self:
        """Raises ValueError, TypeError, KeyError or OverflowError where it is none."""
        new = cls(run, name, str(head["source"]), str(head["target"]))
        new.epoch, new._epoch_began_ms = int(head["epoch"]), int(head["epoch_began_ms"])
        new.reported_at = float(head["reported_at"])
        new._totals = {key: int(head["totals"][key]) for key in COUNTERS}
        new._stale = bool(head["stale"])
        new.executors = {int(task): str(host) for task, host in head["executors"]}
        new.events.extend(filter(is_event, head["events"]))
        new.lost_ranges.extend(
            LostRange(int(when), str(topic), int(partition), int(first), int(last), str(reason))
            for when, topic, partition, first, last, reason in head["lost"]
        )
        new._latencies = {
            int(task): (float(when), float(middle), float(high)) for task, when, middle, high in head["latencies"]
        }
        new._marks.extend((float(when), int(records), int(volume)) for when, records, volume in head["marks"])
        new.history = History(
            (float(when), int(lag), None if seconds is None else float(seconds), float(records), float(volume))
            for when, lag, seconds, records, volume in head["history"]
        )
        new._take(map(PartitionStatus.of_row, rows))
        return new

    # What is asked

    def news(self) -> list[dict[str, Any]]:
        """Events since this was last asked."""
        news, self._news = self._news, []
        return news

    def total(self, counter: str) -> int:
        """Of the whole run, also of partitions that are gone."""
        return self._totals[counter]

    @property
    def lag(self) -> int:
        return self._lag

    @property
    def lag_seconds(self) -> float | None:
        """Of the partition that is farthest behind; None where that is not known."""
        return self.lag_seconds_at(time.time())

    def lag_seconds_at(self, now: float) -> float | None:
        most = 0.0
        for each in self.behind:
            seconds = each.lag_seconds_at(now)
            if seconds is None:
                return None
            most = max(most, seconds)
        return most

    @property
    def behind(self) -> list[PartitionStatus]:
        partitions = self.partitions
        return [partitions[name] for name in tuple(self._behind) if name in partitions]

    @property
    def troubled(self) -> list[PartitionStatus]:
        partitions = self.partitions
        found = [partitions[name] for name in tuple(self._troubled) if name in partitions]
        return [each for each in found if each.error]

    def rates(self, seconds: float = 5.0) -> tuple[float, float]:
        """Records and bytes per second, of late."""
        return self.rates_at(time.time(), seconds)

    def rates_at(self, now: float, seconds: float = 5.0) -> tuple[float, float]:
        marks = list(self._marks)
        if len(marks) < 2:
            return 0.0, 0.0
        last = marks[-1]
        if now - last[0] > seconds:
            return 0.0, 0.0
        first = next((each for each in marks if last[0] - each[0] <= seconds), last)
        span = last[0] - first[0]
        return ((last[1] - first[1]) / span, (last[2] - first[2]) / span) if span > 0 else (0.0, 0.0)

    @property
    def latency_p50_ms(self) -> float | None:
        """Of the task in the middle."""
        known = self._lately()
        return statistics.median(middle for _, middle, _ in known) if known else None

    @property
    def latency_p99_ms(self) -> float | None:
        """Of the slowest task."""
        known = self._lately()
        return max(high for _, _, high in known) if known else None

    def _lately(self) -> list[tuple[float, float, float]]:
        known = list(self._latencies.values())
        newest = max((when for when, _, _ in known), default=0.0)
        return [each for each in known if newest - each[0] <= _LATELY]

    def topics(self) -> list[TopicStatus]:
        return topics_of(self.partitions.values(), time.time())

    def health(self, max_lag_seconds: float = MAX_LAG_SECONDS) -> Health:
        return judge(self, max_lag_seconds, time.time())
