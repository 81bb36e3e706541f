"""The status of a topic: the sum of its partitions. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from twinlog.status.partition import PartitionStatus

_WORST: Final = {
    state: rank for rank, state in enumerate(("done", "running", "waiting", "blocked", "recovering", "stopped"))
}


@dataclass(slots=True)
class TopicStatus:
    topic: str
    remote: str
    partitions: int = 0
    lag: int = 0
    lag_seconds: float | None = 0.0  # of the partition that is furthest behind; None: not known
    records: int = 0
    bytes: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    lost: int = 0
    state: str = "done"  # the worst
    error: str = ""
    blocked_at: int | None = None  # the offset of an open transaction that blocks one of its partitions
    changed_at: float = 0.0


def topics_of(partitions: Iterable[PartitionStatus], now: float) -> list[TopicStatus]:
    """Sorted by name."""
    found: dict[str, TopicStatus] = {}
    for each in partitions:
        topic, state = found.get(each.topic), each.state_at(now)
        if topic is None:
            topic = found[each.topic] = TopicStatus(each.topic, each.remote, state=state)
        topic.partitions += 1
        counters = each.counters
        topic.records += counters["records"]
        topic.bytes += counters["bytes"]
        topic.lost += counters["lost"]
        if each.position < each.end:
            topic.lag += each.lag
            topic.blocked_at = each.blocked_at if topic.blocked_at is None else topic.blocked_at
            behind = each.lag_seconds_at(now)
            if behind is None or topic.lag_seconds is None:
                topic.lag_seconds = None
            elif behind > topic.lag_seconds:
                topic.lag_seconds = behind
        records, volume = each.rates_at(now)
        topic.records_per_s += records
        topic.bytes_per_s += volume
        if _WORST.get(state, 2) > _WORST.get(topic.state, 2):
            topic.state = state
        if each.error and (not topic.error or each.state == "stopped"):
            topic.error = each.error
        topic.changed_at = max(topic.changed_at, each.changed_at)
    return [found[name] for name in sorted(found)]
