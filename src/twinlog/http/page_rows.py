"""The rows of the web UI's tables: statuses as plain values in the order of the columns defined here."""

import math
import time
from collections.abc import Iterable
from typing import Any

from twinlog.journal.partition_fields import COUNTER_NAMES, COUNTERS, PAGE, fields_in
from twinlog.status.flow import FlowStatus, LostRange
from twinlog.status.lag_reasons import level, partition_wait, topic_wait
from twinlog.status.partition import PartitionStatus
from twinlog.status.topic import TopicStatus, topics_of
from twinlog.sync.group_status import GroupStatus

TOPIC = (
    "flow", "topic", "remote", "partitions", "lag", "lag_seconds", "records", "bytes", "records_per_s", "bytes_per_s",
    "lost", "state", "error", "level", "waits",
)  # fmt: skip
PARTITION = (*(each.name for each in fields_in(PAGE)), *(each.name for each in COUNTERS if each.page))
GROUP = (
    "flow", "group", "topic", "partition", "source_topic", "source_offset", "source_end", "source_lag",
    "checkpoint_offset", "checkpoint_ms", "target_offset", "target_end", "target_lag", "latency_ms",
)  # fmt: skip
_FLOW = (
    "name", "source", "target", "run", "state", "error", "epoch", "tasks", "starts", "reported_at", "latency_p50_ms",
    "latency_p99_ms", "heartbeat_ms", "checkpoint_ms", "lag", "lag_seconds",
)  # fmt: skip
_COUNTERS = tuple(name for name in COUNTER_NAMES if name != "batches")  # which the page does not show


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
        "health": {"level": health.level, "reasons": list(map(str, health.reasons))},
    }


class TopicRows:
    """The rows of a flow's topics. Idle topics cost nothing: a row is rebuilt only after a task reports on it."""

    def __init__(self) -> None:
        self._partitions: dict[str, PartitionStatus] = {}
        self._by_topic: dict[str, list[PartitionStatus]] = {}
        self._active: set[str] = set()  # rows that change without a report: lag in seconds grows, rates drop to 0
        self._checked_at = 0.0

    @property
    def topics(self) -> Iterable[str]:
        return self._by_topic

    def changed(self, flow: FlowStatus) -> tuple[dict[str, tuple[Any, ...]], list[str]]:
        """Rows that may have changed since the last call, by topic, and topics that were removed."""
        now = time.time()
        gone: list[str] = []
        if flow.partitions is not self._partitions:  # the mapping is replaced when partitions are added or removed
            self._partitions = flow.partitions
            before, self._by_topic = self._by_topic, {}
            for each in self._partitions.values():
                self._by_topic.setdefault(each.topic, []).append(each)
            gone = [topic for topic in before if topic not in self._by_topic]
            wanted = set(self._by_topic)
        else:
            wanted = {each.topic for each in self._partitions.values() if each.changed_at >= self._checked_at}
            wanted |= self._active
        self._checked_at = now
        found = topics_of((each for topic in wanted for each in self._by_topic[topic]), now)
        self._active = {each.topic for each in found if each.lag or each.records_per_s}
        waits = {
            each.topic: topic_wait(self._by_topic[each.topic], now) for each in found if each.blocked_at is not None
        }
        return {each.topic: _topic_row(flow, each, waits.get(each.topic, "")) for each in found}, gone


def _topic_row(flow: FlowStatus, each: TopicStatus, waiting: str) -> tuple[Any, ...]:
    return (
        flow.name, each.topic, each.remote, each.partitions, each.lag, _short(each.lag_seconds), each.records,
        each.bytes, _short(each.records_per_s), _short(each.bytes_per_s), each.lost, each.state, each.error,
        level(each), waiting,
    )  # fmt: skip


def group_row(flow: FlowStatus, each: GroupStatus) -> tuple[Any, ...]:
    return (flow.name, *(getattr(each, name) for name in GROUP[1:]))


def partition_row(each: PartitionStatus, flow: FlowStatus) -> tuple[Any, ...]:
    now = time.time()
    computed = {
        **each.counters, "state": each.state_at(now), "level": level(each), "waits": partition_wait(each, now),
        "executor": flow.executors.get(each.task, ""),
    }  # fmt: skip
    return tuple([computed[name] if name in computed else _short(getattr(each, name)) for name in PARTITION])


def event_json(flow: FlowStatus, event: dict[str, Any]) -> dict[str, Any]:
    """Events come from a topic that others can write to, so types are checked here."""
    found: dict[str, Any] = {name: str(event[name]) for name in ("kind", "text", "partition") if name in event}
    for name in ("time", "amount"):
        value = event.get(name, 0 if name == "time" else None)
        if isinstance(value, int | float) and math.isfinite(value):
            found[name] = int(value)
    return {"flow": flow.name, "time": 0, "kind": "", "text": "", **found}


def lost_json(flow: FlowStatus, lost: LostRange) -> dict[str, Any]:
    names = ("time_ms", "topic", "partition", "first", "last", "reason")
    return {"flow": flow.name, **{name: getattr(lost, name) for name in names}}


def point(sample: tuple[float | None, ...]) -> list[float | int | None]:
    return [round(sample[0] or 0), *(_short(each) for each in sample[1:])]


def _short(value: Any) -> Any:
    """Fractions are rounded for display, so that noise in the sixth digit of a rate does not count as a change."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None  # JSON has no NaN or infinity
    return round(value) if abs(value) >= 100 else round(value, 1)
