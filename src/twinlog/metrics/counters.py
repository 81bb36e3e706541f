"""Counters that never decrease while this process lives.

Statuses count per partition and per run: a partition may move to another task or disappear, a flow may restart.
Prometheus treats a decreasing counter as reset to zero, and would count everything twice. So increments since the last
scrape are added to totals kept here.
"""

from operator import itemgetter
from typing import Any, Final

from twinlog.journal.partition_fields import COUNTER_NAMES
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus

RECORDS, BYTES, SKIPPED = map(COUNTER_NAMES.index, ("records", "bytes", "skipped"))  # for MM2's metrics
_ZEROS: Final = (0,) * len(COUNTER_NAMES)
_counts: Final = itemgetter(*COUNTER_NAMES)

Totals = list[int]  # in the order of COUNTER_NAMES


class FlowCounters:
    def __init__(self) -> None:
        self.topics: dict[str, Totals] = {}
        self.tasks: dict[int, Totals] = {}
        self.events: dict[str, int] = {}
        self.starts = 0
        self._run = ""
        self._before: dict[str, tuple[int, ...]] = {}
        self._starts_before = 0
        self._last_event: dict[str, Any] | None = None

    def update(self, flow: FlowStatus, partitions: dict[str, PartitionStatus]) -> None:
        if flow.run != self._run:
            self._run, self._before, self._starts_before = flow.run, {}, 0
        self._partitions(partitions)
        tasks = {*range(flow.tasks), *(max(each.task, 0) for each in partitions.values())}
        self.tasks = {task: self.tasks.get(task) or [*_ZEROS] for task in sorted(tasks)}
        self.starts += flow.starts - self._starts_before if flow.starts >= self._starts_before else flow.starts
        self._starts_before = flow.starts
        self._events(list(flow.events))

    def _partitions(self, partitions: dict[str, PartitionStatus]) -> None:
        before, topics, tasks = self._before, self.topics, self.tasks
        for name, each in partitions.items():
            now = _counts(each.counters)
            last = before.get(name, _ZEROS)
            if now != last:
                if any(new < old for new, old in zip(now, last, strict=True)):
                    last = _ZEROS
                before[name] = now
                for totals in (
                    topics.setdefault(each.topic, [*_ZEROS]),
                    tasks.setdefault(max(each.task, 0), [*_ZEROS]),
                ):
                    totals[:] = [total + new - old for total, new, old in zip(totals, now, last, strict=True)]
            elif each.topic not in topics:
                topics[each.topic] = [*_ZEROS]
        if len(before) > len(partitions):
            self._before = {name: counts for name, counts in before.items() if name in partitions}
        current = {each.topic for each in partitions.values()}
        if len(current) < len(topics):  # series of removed topics end
            self.topics = {topic: totals for topic, totals in topics.items() if topic in current}

    def _events(self, events: list[dict[str, Any]]) -> None:
        """Counts events after the last known one; of over a thousand between two scrapes, the oldest are missed."""
        for event in reversed(events):
            if event is self._last_event:
                break
            kind = str(event.get("kind", ""))
            self.events[kind] = self.events.get(kind, 0) + 1
        self._last_event = events[-1] if events else self._last_event
