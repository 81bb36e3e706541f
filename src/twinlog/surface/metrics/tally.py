"""Counters that never go back, whatever becomes of partitions, tasks and runs while this process lives.

What is on the board is counted per partition and per run: a partition may go to another task, a topic may lose one, a
flow may start anew. Prometheus takes a counter that sinks for one that began again at zero, and would count all of it
twice. So what is new since the last look is added to accounts of our own.
"""

from typing import Any, Final

from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus

COUNTED: Final = ("records", "bytes", "batches", "rebuilt", "lost", "duplicates", "foreign", "skipped", "recoveries")
RECORDS, BYTES, BATCHES, REBUILT, LOST, DUPLICATES, FOREIGN, SKIPPED, RECOVERIES = range(len(COUNTED))
_NOTHING: Final = (0,) * len(COUNTED)

Account = list[int]  # in the order of COUNTED


class FlowTally:
    def __init__(self) -> None:
        self.topics: dict[str, Account] = {}
        self.tasks: dict[int, Account] = {}
        self.events: dict[str, int] = {}
        self.starts = 0
        self._run = ""
        self._before: dict[str, tuple[int, ...]] = {}
        self._starts_before = 0
        self._last_event: dict[str, Any] | None = None

    def take(self, flow: FlowStatus, partitions: dict[str, PartitionStatus]) -> None:
        if flow.run != self._run:
            self._run, self._before, self._starts_before = flow.run, {}, 0
        self._partitions(partitions)
        held = {*range(flow.tasks), *(max(each.task, 0) for each in partitions.values())}
        self.tasks = {task: self.tasks.get(task) or [*_NOTHING] for task in sorted(held)}
        self.starts += flow.starts - self._starts_before if flow.starts >= self._starts_before else flow.starts
        self._starts_before = flow.starts
        self._events(list(flow.events))

    def _partitions(self, partitions: dict[str, PartitionStatus]) -> None:
        before, topics, tasks = self._before, self.topics, self.tasks
        for name, each in partitions.items():
            counters = each.counters
            now = tuple([counters[key] for key in COUNTED])
            last = before.get(name, _NOTHING)
            if now != last:
                if any(new < old for new, old in zip(now, last, strict=True)):
                    last = _NOTHING
                before[name] = now
                for account in (
                    topics.setdefault(each.topic, [*_NOTHING]),
                    tasks.setdefault(max(each.task, 0), [*_NOTHING]),
                ):
                    account[:] = [sum_ + new - old for sum_, new, old in zip(account, now, last, strict=True)]
            elif each.topic not in topics:
                topics[each.topic] = [*_NOTHING]
        if len(before) > len(partitions):
            self._before = {name: counts for name, counts in before.items() if name in partitions}
        there = {each.topic for each in partitions.values()}
        if len(there) < len(topics):  # nobody wants series of topics that are gone
            self.topics = {topic: account for topic, account in topics.items() if topic in there}

    def _events(self, events: list[dict[str, Any]]) -> None:
        """Those behind the last one seen. The board keeps a thousand: what came and went between looks is missed."""
        for event in reversed(events):
            if event is self._last_event:
                break
            kind = str(event.get("kind", ""))
            self.events[kind] = self.events.get(kind, 0) + 1
        self._last_event = events[-1] if events else self._last_event
