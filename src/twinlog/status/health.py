"""The health of a flow: healthy, lagging or broken, with reasons. Pure."""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from twinlog.journal.instances import WINDOW_MS
from twinlog.model import TopicPartition
from twinlog.status.reason import LEVELS, SHOWN, Level, Reason, ReasonCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from twinlog.status.flow import FlowStatus
    from twinlog.status.partition import PartitionStatus

MAX_LAG_SECONDS: Final = 60.0
TRANSIENT_SECONDS: Final = 15.0  # an error, or an open transaction, that is shorter may pass
_SLOW_START: Final = 60.0
_TASKS_SILENT: Final = 30.0  # tasks report at least every 10 seconds
_HEARTBEAT_OLD: Final = 60.0
_TREND_POINTS: Final = 13  # about a minute of the flow's history
_CONFLICTS: Final = frozenset({"taken over", "refused"})  # kinds of events
_UNKNOWN: Final = float("inf")  # a lag in seconds that is not known counts as the longest

Late = list[tuple[float, "PartitionStatus"]]


@dataclass(frozen=True, slots=True)
class Health:
    """The worst reason first. A healthy flow may have reasons, too: they are for information."""

    level: Level
    reasons: list[Reason] = field(default_factory=list)


def judge(flow: "FlowStatus", max_lag_seconds: float, now: float) -> Health:
    """Lagging: something is more than `max_lag_seconds` behind. Broken: it needs an operator."""
    found = [
        *_state(flow, now),
        *_stopped(flow),
        *_failing(flow, now),
        *_blocked(flow, max_lag_seconds, now),
        *_behind(flow, max_lag_seconds, now),
        *_throttled(flow, flow.behind, now),
        *_heartbeats(flow, now),
        *_conflicts(flow, now),
        *_losses(flow),
    ]
    found.sort(key=lambda reason: LEVELS.index(reason.level), reverse=True)
    return Health(found[0].level if found else "healthy", found)


def _state(flow: "FlowStatus", now: float) -> list[Reason]:
    if flow.observation_error:
        return [Reason(ReasonCode.OBSERVATION_FAILED, "broken", args={"error": flow.observation_error})]
    since_start, since_report = now - flow.began_ms / 1000, now - flow.reported_at
    ended = {"reported_ms": flow.reported_ms, "now": now, "error": flow.error, "target": flow.target}
    match flow.state:
        case "silent" if not flow.reported_ms:
            return [Reason(ReasonCode.NOT_RUNNING, "broken")]
        case "silent":
            return [Reason(ReasonCode.SILENT, "broken", args=ended)]
        case "stopped":
            return [Reason(ReasonCode.STOPPED, "broken", args=ended)]
        case "retrying":
            return [Reason(ReasonCode.RETRYING, "broken", args={"error": flow.error})]
        case "paused":
            return [Reason(ReasonCode.PAUSED, "lagging" if flow.lag else "healthy")]
        case "starting" if flow.began_ms and since_start > _SLOW_START:
            args = {"seconds": since_start, "error": flow.error}
            return [Reason(ReasonCode.SLOW_START, "lagging", args=args)]
        case "starting":
            return [Reason(ReasonCode.STARTING, "healthy")]
        case "running" if flow.reported_at and flow.partitions and since_report > _TASKS_SILENT:
            return [Reason(ReasonCode.TASKS_SILENT, "broken", args={"seconds": since_report})]
        case "running" if flow.inspected and not flow.partitions:
            return [Reason(ReasonCode.NO_TOPICS, "healthy")]
        case "running" if not flow.reported_at:
            return [Reason(ReasonCode.NO_TASK_REPORT, "lagging", args={"seconds": since_start})]
    return []


def _stopped(flow: "FlowStatus") -> list[Reason]:
    stopped = sorted((each for each in flow.failing if each.state == "stopped"), key=attrgetter("topic", "partition"))
    found = [
        Reason(ReasonCode.PARTITION_STOPPED, "broken", (each.tp,), {"error": each.error}) for each in stopped[:SHOWN]
    ]
    if others := stopped[SHOWN:]:
        found.append(Reason(ReasonCode.MORE_STOPPED, "broken", _tps(others)))
    return found


def _failing(flow: "FlowStatus", now: float) -> list[Reason]:
    """One reason for all partitions with the same error: it is mostly a broker's."""
    by_error: dict[str, list[PartitionStatus]] = {}
    for each in flow.failing:
        if each.state != "stopped":
            by_error.setdefault(each.error, []).append(each)
    found: list[Reason] = []
    for error, some in sorted(by_error.items(), key=lambda each: -len(each[1]))[:SHOWN]:
        since = min(each.error_since for each in some)
        level: Level = "lagging"
        seconds = None
        if since:  # else the flow does not run: this is the error that it would meet
            seconds = now - since
            level = "broken" if seconds > TRANSIENT_SECONDS else "healthy"
        args = {"error": error, "seconds": seconds}
        found.append(Reason(ReasonCode.PARTITIONS_FAILING, level, _tps(some), args))
    return found


def _blocked(flow: "FlowStatus", most: float, now: float) -> list[Reason]:
    """By transactions that are open on the source. Their producers must end them, so each is named."""
    found = _late(flow, min(TRANSIENT_SECONDS, most), now, lambda each: each.blocked_at is not None)
    found.sort(key=lambda each: (-each[0], each[1].topic, each[1].partition))
    reasons: list[Reason] = []
    for seconds, each in found[:SHOWN]:
        level: Level = "lagging" if seconds > most else "healthy"
        args = {"offset": each.blocked_at, "source": flow.source, "lag": each.lag, "seconds": _known(seconds)}
        reasons.append(Reason(ReasonCode.OPEN_TRANSACTION, level, (each.tp,), args))
    if others := found[SHOWN:]:
        level = "lagging" if others[0][0] > most else "healthy"
        reasons.append(Reason(ReasonCode.MORE_OPEN_TRANSACTIONS, level, _tps(each for _, each in others)))
    return reasons


def _behind(flow: "FlowStatus", most: float, now: float) -> list[Reason]:
    """Partitions that more work would help: the stopped and the blocked have reasons of their own."""
    late = _late(flow, most, now, lambda each: each.blocked_at is None)
    if not late:
        return []
    seconds, worst = max(late, key=lambda each: (each[0], each[1].lag))
    throttled = _throttled(flow, (each for _, each in late), now)
    trend = [point[1] for point in flow.history.points()[-_TREND_POINTS:]]
    args = {
        "lag": sum(each.lag for _, each in late),
        "seconds": _known(seconds),
        "worst": worst.tp,
        "rate": flow.rates_at(now)[0] if flow.state in {"running", "starting"} else None,
        "throttled": (throttled[0].args["side"], throttled[0].args["cluster"]) if throttled else None,
        "growing": len(trend) > 2 and trend[-1] > trend[0],
    }
    return [Reason(ReasonCode.BEHIND, "lagging", _tps(each for _, each in late), args)]


def _late(flow: "FlowStatus", most: float, now: float, wanted: "Callable[[PartitionStatus], bool]") -> Late:
    found: Late = []
    for each in flow.behind:
        seconds = each.lag_seconds_at(now)
        if wanted(each) and each.state != "stopped" and (seconds is None or seconds > most):
            found.append((_UNKNOWN if seconds is None else seconds, each))
    return found


def _throttled(flow: "FlowStatus", partitions: "Iterable[PartitionStatus]", now: float) -> list[Reason]:
    by_side: dict[str, list[PartitionStatus]] = {}
    for each in partitions:
        for side in each.throttled(now):
            by_side.setdefault(side, []).append(each)
    return [
        Reason(ReasonCode.THROTTLED, "healthy", _tps(some), {"side": side, "cluster": getattr(flow, side)})
        for side, some in sorted(by_side.items())
    ]


def _heartbeats(flow: "FlowStatus", now: float) -> list[Reason]:
    if flow.heartbeat_ms is None or flow.state != "running":
        return []
    seconds = now - flow.heartbeat_ms / 1000
    if seconds <= _HEARTBEAT_OLD:
        return []
    return [Reason(ReasonCode.HEARTBEAT_OLD, "lagging", args={"seconds": seconds, "target": flow.target})]


def _conflicts(flow: "FlowStatus", now: float) -> list[Reason]:
    """Other instances were started for this flow while it ran."""
    recent = [
        event
        for event in tuple(flow.events)
        if event.get("kind") in _CONFLICTS and now - event.get("time", 0) / 1000 < WINDOW_MS / 1000
    ]
    if not recent:
        return []
    return [Reason(ReasonCode.INSTANCE_CONFLICT, "healthy", args={"event": recent[-1].get("text", "")})]


def _losses(flow: "FlowStatus") -> list[Reason]:
    found = []
    for code in (ReasonCode.LOST, ReasonCode.SKIPPED, ReasonCode.FOREIGN, ReasonCode.DUPLICATES):
        counter = code.value  # the counter's name
        if count := flow.total(counter):
            found.append(Reason(code, "healthy", _tps(flow.partitions_with(counter)), {"count": count}))
    return found


def _tps(partitions: "Iterable[PartitionStatus]") -> tuple[TopicPartition, ...]:
    return tuple(each.tp for each in partitions)


def _known(seconds: float) -> float | None:
    return None if seconds == _UNKNOWN else seconds
