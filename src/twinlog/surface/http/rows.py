"""What the page's tables hold: a status as a row of plain values, in the order of the columns that are named here."""

import math
import time
from collections.abc import Iterable
from typing import Any

from twinlog.status.flow import FlowStatus, LostRange
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus, topics_of
from twinlog.surface.http.lagging import level, partition_waits, waits
from twinlog.upkeep.group_look import GroupStatus

TOPIC = (
    "flow", "topic", "remote", "partitions", "lag", "lag_seconds", "records", "bytes", "records_per_s", "bytes_per_s",
    "lost", "state", "error", "level", "waits",
)  # fmt: skip
PARTITION = (
    "partition", "state", "lane", "task", "executor", "start", "position", "end", "target", "lag", "lag_seconds",
    "records_per_s", "bytes_per_s", "latency_ms", "latency_max_ms", "records", "lost", "error", "level", "waits",
)  # fmt: skip
GROUP = (
    "flow", "group", "topic", "partition", "source_topic", "source_offset", "source_end", "source_lag",
    "checkpoint_offset", "checkpoint_ms", "target_offset", "target_end", "target_lag", "latency_ms",
)  # fmt: skip
_FLOW = (
    "name", "source", "target", "run", "state", "error", "epoch", "tasks", "starts", "reported_at", "latency_p50_ms",
    "latency_p99_ms", "heartbeat_ms", "checkpoint_ms", "lag", "lag_seconds",
)  # fmt: skip
_COUNTERS = ("records", "bytes", "rebuilt", "lost", "foreign", "duplicates", "skipped", "recoveries")


def flow_json(flow: FlowStatus) -> dict[str, Any]:
    health = flow.health()
    records, size = flow.rates()
    return {
        **{name: getattr(flow, name) for name in _FLOW},
        "executors": {str(task): where for task, where in flow.executors.items()},
        "records_per_s": _short(records),
        "bytes_per_s": _short(size),
        "partitions": len(flow.partitions),
        "counters": {name: flow.total(name) for name in _COUNTERS},
        "health": {"level": health.level, "reasons": list(health.reasons)},
    }


class TopicRows:
    """The rows of a flow's topics. A topic that rests costs nothing: its row is made when a task speaks of it."""

    def __init__(self) -> None:
        self._partitions: dict[str, PartitionStatus] = {}
        self._by_topic: dict[str, list[PartitionStatus]] = {}
        self._restless: set[str] = set()  # what time changes: lag in seconds grows, speed ends
        self._looked = 0.0

    @property
    def topics(self) -> Iterable[str]:
        return self._by_topic

    def changed(self, flow: FlowStatus) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
        """Rows that may have changed since this was last asked, by topic, and topics that are gone."""
        now = time.time()
        gone: list[str] = []
        if flow.partitions is not self._partitions:  # replaced when any came or went
            self._partitions = flow.partitions
            before, self._by_topic = self._by_topic, {}
            for each in self._partitions.values():
                self._by_topic.setdefault(each.topic, []).append(each)
            gone = [topic for topic in before if topic not in self._by_topic]
            wanted = set(self._by_topic)
        else:
            looked = self._looked
            wanted = {each.topic for each in self._partitions.values() if each.changed_at >= looked}
            wanted |= self._restless
        self._looked = now
        found = topics_of((each for topic in wanted for each in self._by_topic[topic]), now)
        self._restless = {each.topic for each in found if each.lag or each.records_per_s}
        return {
            each.topic: _topic_row(flow, each, waits(self._by_topic[each.topic], now) if each.waits else "")
            for each in found
        }, gone


def _topic_row(flow: FlowStatus, each: TopicStatus, waiting: str) -> tuple[Any, ...]:
    return (
        flow.name, each.topic, each.remote, each.partitions, each.lag, _short(each.lag_seconds), each.records,
        each.bytes, _short(each.records_per_s), _short(each.bytes_per_s), each.lost, each.state, each.error,
        level(each), waiting,
    )  # fmt: skip


def group_row(flow: FlowStatus, each: GroupStatus) -> tuple[Any, ...]:
    return (flow.name, *(getattr(each, name) for name in GROUP[1:]))


def partition_row(each: PartitionStatus, flow: FlowStatus) -> tuple[Any, ...]:
    return (
        each.partition, each.state, each.lane, each.task, flow.executors.get(each.task, ""), each.start, each.position,
        each.end, each.target, each.lag, _short(each.lag_seconds), _short(each.records_per_s),
        _short(each.bytes_per_s), _short(each.latency_ms), _short(each.latency_max_ms), each.counters["records"],
        each.counters["lost"], each.error, level(each), partition_waits(each, time.time()),
    )  # fmt: skip


def event_json(flow: FlowStatus, event: dict[str, Any]) -> dict[str, Any]:
    """An event was read from a topic that others can write to: here it gets its form."""
    found: dict[str, Any] = {name: str(event[name]) for name in ("kind", "text", "partition") if name in event}
    for name in ("time", "amount"):
        value = event.get(name, 0 if name == "time" else None)
        if isinstance(value, int | float) and math.isfinite(value):
            found[name] = int(value)
    return {"flow": flow.name, "time": 0, "kind": "", "text": "", **found}


def lost_json(flow: FlowStatus, lost: LostRange) -> dict[str, Any]:
    names = ("time_ms", "topic", "partition", "first", "last", "reason")
    return {"flow": flow.name, **{name: getattr(lost, name) for name in names}}


def point(told: tuple[float | None, ...]) -> list[float | int | None]:
    return [round(told[0] or 0), *(_short(each) for each in told[1:])]


def _short(number: float | None) -> float | int | None:
    """As exact as anybody reads it: a rate that trembles in its sixth digit is no news."""
    if number is None or isinstance(number, int):
        return number
    if not math.isfinite(number):
        return None  # JSON has no word for it
    return round(number) if abs(number) >= 100 else round(number, 1)
