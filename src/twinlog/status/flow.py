"""The status of a flow, assembled from the reports of its tasks and its supervisor. Pure.

The running process and remote observers use the same class: an observer starts from a snapshot (snapshot_records.py),
and both apply every report after it.
"""

import statistics
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, Self

from twinlog.journal.messages import Report, SupervisorReport, is_event
from twinlog.journal.partition_fields import COUNTER_NAMES
from twinlog.mm2.cycles import CYCLE
from twinlog.status.health import MAX_LAG_SECONDS, Health, judge
from twinlog.status.history import History
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus, topics_of
from twinlog.sync.group_status import GroupStatus

_SETTLED_MS: Final = 5000  # every task of an epoch has reported all its partitions by then
_LATENCY_VALID: Final = 10.0  # seconds for which a task's latency counts
_MARK_INTERVAL: Final = 0.25  # seconds between the marks from which rates are computed: tasks report one by one
_SNAPSHOT_EVENTS: Final = 200
_LOSSES: Final = frozenset({"lost", "skipped", "truncated"})
_LEFT_OUT: Final = frozenset({"left out", CYCLE})
_MAX_LEFT_OUT: Final = 100


@dataclass(frozen=True, slots=True)
class LostRange:
    """Source offsets that are missing on one of the sides."""

    time_ms: int
    topic: str
    partition: int
    first: int
    last: int
    reason: str


class FlowStatus:
    """Belongs to one thread. Others may read it: `partitions` and `groups` are replaced when members are added or
    removed, never resized in place.
    """

    def __init__(self, run: str, name: str = "", source: str = "", target: str = "") -> None:
        self.run = run
        self.name = name
        self.source = source
        self.target = target
        self.state = "starting"
        self.error = ""
        self.inspected = False  # partitions come from the clusters, as no task had reported any
        self.observation_error = ""  # why an observer cannot determine its status
        self.tasks = 0
        self.starts = 0
        self.began_ms = 0  # start of the run
        self.reported_ms = 0  # the supervisor's last report
        self.heartbeat_ms: int | None = None
        self.checkpoint_ms: int | None = None
        self.partitions: dict[str, PartitionStatus] = {}
        self.groups: list[GroupStatus] = []
        self.executors: dict[int, str] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=1000)
        self.lost_ranges: deque[LostRange] = deque(maxlen=1000)
        self.left_out: dict[str, str] = {}  # topics that are not replicated: subject -> the newest text
        self.history = History()
        self.epoch = 0
        self.reported_at = 0.0
        self.reported_run = ""  # the run of the last task report: a restarted flow is another run
        self._epoch_began_ms = 0
        self._totals = dict.fromkeys(COUNTER_NAMES, 0)  # of removed partitions, too
        self._lag = 0
        self._behind: set[str] = set()
        self._failing: set[str] = set()
        self._stale = False  # some partitions may be of an earlier epoch
        self._latencies: dict[int, tuple[float, float, float]] = {}  # task -> time, p50, p99
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=64)  # time, records, bytes
        self._new_events: list[dict[str, Any]] = []

    # Reports

    def add(self, report: Report) -> None:
        if report.run != self.run:
            return
        seconds = report.time_ms / 1000
        if report.epoch > self.epoch:
            self.epoch, self._epoch_began_ms = report.epoch, report.time_ms
            self.executors = {}
            self._stale = True
        self.reported_at = max(self.reported_at, seconds)
        if report.task >= 0:  # not the planner
            self.reported_run = report.run
        if report.host and report.epoch == self.epoch and self.executors.get(report.task) != report.host:
            self.executors = {**self.executors, report.task: report.host}
        self._update_partitions(report, seconds)
        if self._stale and report.time_ms - self._epoch_began_ms > _SETTLED_MS:
            self._remove_unassigned()
        self._add_events(report.events)
        if self._marks and seconds - self._marks[-1][0] < _MARK_INTERVAL:
            self._marks[-1] = (self._marks[-1][0], self._totals["records"], self._totals["bytes"])
        else:
            self._marks.append((seconds, self._totals["records"], self._totals["bytes"]))
        self._add_history(seconds)

    def supervisor_report(self, report: SupervisorReport) -> None:
        if report.run != self.run:
            return
        if self.reported_ms and (report.state, report.starts) != (self.state, self.starts):
            self._add_state_event(report)
        self.state, self.error = report.state, report.error
        self.tasks, self.starts = report.tasks, report.starts
        self.began_ms, self.reported_ms = report.began_ms, max(report.time_ms, self.reported_ms)
        self.heartbeat_ms, self.checkpoint_ms = report.heartbeat_ms, report.checkpoint_ms
        self._add_history(report.time_ms / 1000)

    def _add_state_event(self, report: SupervisorReport) -> None:
        """Not a new event: the process that runs the flow logs the change itself."""
        text = {
            "retrying": f"failed, restarting: {report.error}",
            "paused": "paused",
            "stopped": f"stopped{': ' if report.error else ''}{report.error}",
            "finished": "everything is copied",
        }.get(report.state)
        if text is None and report.state == "running" and self.state in {"retrying", "paused", "stopped", "starting"}:
            text = "running"
        if text is not None and (report.state != self.state or report.state == "retrying"):
            self.events.append({"time": report.time_ms, "kind": report.state, "amount": 0, "text": text})

    def set_groups(self, groups: Iterable[GroupStatus]) -> None:
        self.groups = list(groups)

    def set_inspected(self, partitions: Iterable[PartitionStatus]) -> None:
        """Partitions as found on the clusters, for a flow whose tasks do not report."""
        self.inspected = True
        self._set_partitions(partitions)

    def _set_partitions(self, partitions: Iterable[PartitionStatus]) -> None:
        self.partitions = {str(each.tp): each for each in partitions}
        self._recount()

    def _update_partitions(self, report: Report, seconds: float) -> None:
        received_at = time.time()
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
            for key, more in status.on_record(content, task, seconds).items():
                self._totals[key] += more
            status.changed_at = received_at
            self._lag += status.lag - before
            self._classify(name, status)
        if new:
            self.partitions = {**self.partitions, **new}

    def _classify(self, name: str, status: PartitionStatus) -> None:
        if status.position < status.end:
            self._behind.add(name)
        else:
            self._behind.discard(name)
        if status.error or status.state == "stopped":
            self._failing.add(name)
        else:
            self._failing.discard(name)

    def _remove_unassigned(self) -> None:
        """Partitions that no task has any more: their topic was deleted, or is no longer selected."""
        self._stale = False
        assigned = {name: status for name, status in self.partitions.items() if status.epoch >= self.epoch}
        if len(assigned) < len(self.partitions):
            self.partitions = assigned
            self._recount()

    def _recount(self) -> None:
        self._lag = sum(each.lag for each in self.partitions.values())
        self._behind.clear()
        self._failing.clear()
        for name, status in self.partitions.items():
            self._classify(name, status)

    def _add_events(self, events: list[dict[str, Any]]) -> None:
        self.events.extend(events)
        self._new_events += events
        for event in events:
            if event.get("kind") in _LEFT_OUT:
                text = str(event.get("text", ""))
                known = {**self.left_out, str(event.get("about", text)): text}
                self.left_out = known if len(known) <= _MAX_LEFT_OUT else self.left_out
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

    def _add_history(self, seconds: float) -> None:
        if self.history.due(seconds):
            self.history.add(seconds, self._lag, self.lag_seconds_at(seconds), *self.rates_at(seconds))

    # Snapshots

    def head(self) -> dict[str, Any]:
        """Everything but the partitions."""
        return {
            "source": self.source, "target": self.target, "epoch": self.epoch, "epoch_began_ms": self._epoch_began_ms,
            "reported_at": self.reported_at, "totals": self._totals, "stale": self._stale,
            "executors": list(self.executors.items()), "events": list(self.events)[-_SNAPSHOT_EVENTS:],
            "lost": [astuple(each) for each in tuple(self.lost_ranges)[-_SNAPSHOT_EVENTS:]],
            "latencies": [[task, *latency] for task, latency in self._latencies.items()],
            "marks": list(self._marks), "history": self.history.points(), "left_out": list(self.left_out.items()),
        }  # fmt: skip

    @classmethod
    def of_head(cls, run: str, name: str, head: dict[str, Any], rows: Iterable[Sequence[Any]]) -> Self:
        """Raises ValueError, TypeError, KeyError or OverflowError if the head or a row is malformed."""
        new = cls(run, name, str(head["source"]), str(head["target"]))
        new.epoch, new._epoch_began_ms = int(head["epoch"]), int(head["epoch_began_ms"])
        new.reported_at = float(head["reported_at"])
        new._totals = {key: int(head["totals"][key]) for key in COUNTER_NAMES}
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
        new.left_out = {str(about): str(text) for about, text in list(head.get("left_out", ()))[:_MAX_LEFT_OUT]}
        new._set_partitions(map(PartitionStatus.of_row, rows))
        return new

    # Queries

    def take_events(self) -> list[dict[str, Any]]:
        """Events since the last call."""
        events, self._new_events = self._new_events, []
        return events

    def total(self, counter: str) -> int:
        """Of the whole run, including removed partitions."""
        return self._totals[counter]

    def partitions_with(self, counter: str) -> list[PartitionStatus]:
        """Those whose counter is not 0."""
        return [each for each in tuple(self.partitions.values()) if each.counters[counter]]

    @property
    def lag(self) -> int:
        return self._lag

    @property
    def lag_seconds(self) -> float | None:
        """Of the partition that is furthest behind; None if that is not known."""
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
    def failing(self) -> list[PartitionStatus]:
        partitions = self.partitions
        found = [partitions[name] for name in tuple(self._failing) if name in partitions]
        return [each for each in found if each.error]

    def rates(self, seconds: float = 5.0) -> tuple[float, float]:
        """Records and bytes per second, over the last `seconds`."""
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
        """The median of the tasks."""
        known = self._recent_latencies()
        return statistics.median(middle for _, middle, _ in known) if known else None

    @property
    def latency_p99_ms(self) -> float | None:
        """Of the slowest task."""
        known = self._recent_latencies()
        return max(high for _, _, high in known) if known else None

    def _recent_latencies(self) -> list[tuple[float, float, float]]:
        known = list(self._latencies.values())
        newest = max((when for when, _, _ in known), default=0.0)
        return [each for each in known if newest - each[0] <= _LATENCY_VALID]

    def topics(self) -> list[TopicStatus]:
        return topics_of(self.partitions.values(), time.time())

    def health(self, max_lag_seconds: float = MAX_LAG_SECONDS) -> Health:
        return judge(self, max_lag_seconds, time.time())
