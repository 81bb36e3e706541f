"""Why a topic lags, from the state of its partitions and its flow. Pure."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from twinlog.status.flow import FlowStatus
from twinlog.status.health import MAX_LAG_SECONDS, TRANSIENT_SECONDS
from twinlog.status.partition import PartitionStatus
from twinlog.status.reason import FLOW_STATES, PARTITION_STATES, SHOWN, Level, Reason, ReasonCode
from twinlog.status.topic import TopicStatus
from twinlog.text import amount

_BROKEN: Final = frozenset({"retrying", "stopped", "silent"})


def level(each: TopicStatus | PartitionStatus) -> Level:
    """Of one topic or partition, by the thresholds of a flow."""
    if each.error or each.state == "stopped":
        return "broken"
    seconds = each.lag_seconds
    late = seconds is None or seconds > MAX_LAG_SECONDS
    return "lagging" if late or each.state == "recovering" else "healthy"


def topic_wait(partitions: Iterable[PartitionStatus], now: float) -> str:
    """One line for a topic: which of its partitions are blocked by open transactions; empty if none is."""
    found = [each for each in partitions if _held(each, now)]
    if not found:
        return ""
    if len(found) > 1:
        return f"{amount(len(found))} partitions blocked by open transactions"
    return f"partition {found[0].partition} {partition_wait(found[0], now)}"


def partition_wait(each: PartitionStatus, now: float) -> str:
    return f"blocked by an open transaction at offset {each.blocked_at}" if _held(each, now) else ""


def reasons(flow: FlowStatus, partitions: Sequence[PartitionStatus]) -> list[Reason]:
    """The most important first. Empty: nothing lags or fails."""
    now = time.time()
    found: list[Reason] = []
    if flow.state in FLOW_STATES:
        args = {"state": flow.state, "error": flow.error}
        found.append(Reason(ReasonCode.FLOW_STATE, "broken" if flow.state in _BROKEN else "healthy", args=args))
    found += _errors(partitions)
    found += _transactions(flow.source, partitions, now)
    found += _throttling(flow, partitions, now)
    for state in PARTITION_STATES:
        if some := [each for each in partitions if not each.error and each.state == state]:
            found.append(_reason(ReasonCode.TOPIC_STATE, some, state=state))
    # The stopped and the blocked are reported above: their records do not depend on the speed.
    copying = [each for each in partitions if each.state != "stopped" and not _is_blocked(each)]
    if len(copying) == len(partitions):
        return found + _backlog(copying, others_blocked=False)
    late = [each for each in copying if level(each) != "healthy"]
    return found + _backlog(late, others_blocked=True)[:1]


def _reason(code: ReasonCode, partitions: Iterable[PartitionStatus], **args: Any) -> Reason:
    some = list(partitions)
    levels = {level(each) for each in some}
    worst: Level = "broken" if "broken" in levels else "lagging" if "lagging" in levels else "healthy"
    return Reason(code, worst, tuple(each.tp for each in some), args)


def _errors(partitions: Sequence[PartitionStatus]) -> list[Reason]:
    """Those of stopped partitions first: they need an operator."""
    errors: dict[tuple[bool, str], list[PartitionStatus]] = {}
    for each in partitions:
        if each.error:
            errors.setdefault((each.state == "stopped", each.error), []).append(each)
    ordered = sorted(errors.items(), key=lambda item: (not item[0][0], -len(item[1])))
    return [_reason(ReasonCode.TOPIC_ERROR, some, stopped=stopped, error=error) for (stopped, error), some in ordered]


def _transactions(source: str, partitions: Sequence[PartitionStatus], now: float) -> list[Reason]:
    """Nothing behind an open transaction may be copied before it ends; only its producer or an administrator can end
    it.
    """
    held = sorted((each for each in partitions if _held(each, now)), key=lambda each: -each.lag)
    found = [
        _reason(ReasonCode.TOPIC_OPEN_TRANSACTION, [each], offset=each.blocked_at, source=source, lag=each.lag)
        for each in held[:SHOWN]
    ]
    if others := held[SHOWN:]:
        found.append(_reason(ReasonCode.TOPIC_MORE_OPEN_TRANSACTIONS, others, source=source))
    if brief := [each for each in partitions if _is_blocked(each) and not _held(each, now)]:
        lag = sum(each.lag for each in brief)
        found.append(_reason(ReasonCode.TOPIC_BRIEF_TRANSACTION, brief, source=source, lag=lag))
    return found


def _throttling(flow: FlowStatus, partitions: Sequence[PartitionStatus], now: float) -> list[Reason]:
    by_side: dict[str, list[PartitionStatus]] = {}
    for each in partitions:
        for side in each.throttled(now) if each.lag else ():
            by_side.setdefault(side, []).append(each)
    return [
        _reason(ReasonCode.TOPIC_THROTTLED, some, side=side, cluster=getattr(flow, side))
        for side, some in sorted(by_side.items())
    ]


def _is_blocked(each: PartitionStatus) -> bool:
    """An error is the better reason: it is reported instead."""
    return each.blocked_at is not None and not each.error and each.state != "stopped"


def _held(each: PartitionStatus, now: float) -> bool:
    """Blocked for longer than an active producer usually takes: every transaction is open for a moment."""
    if not _is_blocked(each):
        return False
    seconds = each.lag_seconds_at(now)
    return seconds is None or seconds > TRANSIENT_SECONDS


def _backlog(partitions: Sequence[PartitionStatus], *, others_blocked: bool) -> list[Reason]:
    late = [each for each in partitions if each.lag]
    if not late:
        return []
    lag = sum(each.lag for each in late)
    found = [
        _reason(
            ReasonCode.TOPIC_BACKLOG,
            late,
            lag=lag,
            rate=sum(each.records_per_s for each in late),  # the rate of the others does not help these
            running=any(each.state == "running" for each in late),
            others_blocked=others_blocked,
        )
    ]
    worst = max(late, key=lambda each: each.lag)
    if len(partitions) > 2 and worst.lag * 2 > lag:
        found.append(_reason(ReasonCode.TOPIC_SKEW, [worst], percent=100 * worst.lag // lag))
    if rebuilt := [each for each in late if each.lane == "rebuild"]:
        found.append(_reason(ReasonCode.TOPIC_REBUILD, rebuilt))
    return found
