"""Is a flow well? One of three words, and the reasons, in words that say what to do. Pure."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from twinlog.status.flow import FlowStatus
    from twinlog.status.partition import PartitionStatus

Level = Literal["healthy", "lagging", "broken"]
Reason = tuple[Level, str]

LEVELS: Final[tuple[Level, ...]] = ("healthy", "lagging", "broken")
MAX_LAG_SECONDS: Final = 60.0
LASTS: Final = 15.0  # seconds for which an error, or an open transaction, may be one that goes by itself
_SLOW_START: Final = 60.0
_QUIET: Final = 30.0  # tasks report at least every 10 seconds
_NO_BEAT: Final = 60.0
_SHOWN: Final = 3  # reasons of one kind


@dataclass(frozen=True, slots=True)
class Health:
    """The worst reason first; a healthy flow may have some, too, that are only worth knowing."""

    level: Level
    reasons: list[str] = field(default_factory=list)


def judge(flow: "FlowStatus", max_lag_seconds: float, now: float) -> Health:
    """Lagging: something is more than `max_lag_seconds` behind. Broken: it will not get better by itself."""
    found: list[Reason] = [
        *_state(flow, now),
        *_stopped(flow),
        *_troubled(flow, now),
        *_waiting(flow, max_lag_seconds, now),
        *_behind(flow, max_lag_seconds, now),
        *_beats(flow, now),
        *_losses(flow),
    ]
    found.sort(key=lambda each: LEVELS.index(each[0]), reverse=True)
    return Health(found[0][0] if found else "healthy", [text for _, text in found])


def _state(flow: "FlowStatus", now: float) -> list[Reason]:
    error = f": {flow.error}" if flow.error else ""
    if flow.unseen:
        return [("broken", flow.unseen)]
    since_start, quiet = now - flow.began_ms / 1000, now - flow.reported_at
    match flow.state:
        case "silent" if not flow.told_ms:
            return [("broken", "nobody runs it, and nobody has in the last hour: start it with twinlog run")]
        case "silent":
            since = _ago(flow.told_ms, now)
            return [("broken", f"the process that ran it was last heard of {since}{error}: it is gone, or cut off")]
        case "stopped":
            return [("broken", f"it was stopped {_ago(flow.told_ms, now)}{error}: start it with twinlog run")]
        case "retrying":
            return [("broken", f"it fails and is tried again{error}")]
        case "paused":
            return [("lagging" if flow.lag else "healthy", "it is paused: resume its connector to go on")]
        case "starting" if flow.began_ms and since_start > _SLOW_START:
            return [("lagging", f"its tasks have not begun {span(since_start)} after the start{error}")]
        case "starting":
            return [("healthy", "it is starting")]
        case "running" if flow.reported_at and flow.partitions and quiet > _QUIET:
            return [("broken", f"its tasks have said nothing for {span(quiet)}: has Spark room for them?")]
        case "running" if flow.stood and not flow.partitions:
            return [("healthy", "there is nothing to copy: no topic of the source is selected (see twinlog why)")]
        case "running" if not flow.reported_at:
            return [("lagging", f"no task has reported in {span(since_start)}: is a topic selected, has Spark room?")]
    return []


def _stopped(flow: "FlowStatus") -> list[Reason]:
    stopped = sorted(
        (each for each in flow.troubled if each.state == "stopped"), key=lambda each: (each.topic, each.partition)
    )
    found: list[Reason] = [("broken", f"{_name(each)} is stopped: {each.error}") for each in stopped[:_SHOWN]]
    if len(stopped) > _SHOWN:
        found.append(("broken", f"{len(stopped) - _SHOWN:,} more partitions are stopped"))
    return found


def _troubled(flow: "FlowStatus", now: float) -> list[Reason]:
    """Those with the same error in one line: it is mostly that of a broker."""
    by_error: dict[str, list[PartitionStatus]] = {}
    for each in flow.troubled:
        if each.state != "stopped":
            by_error.setdefault(each.error, []).append(each)
    found: list[Reason] = []
    for error, some in sorted(by_error.items(), key=lambda each: -len(each[1]))[:_SHOWN]:
        who = _name(some[0]) if len(some) == 1 else f"{len(some):,} partitions"
        since = min(each.error_since for each in some)
        if not since:  # nobody runs it: it is what would happen
            found.append(("lagging", f"{who}: {error}"))
        else:
            level: Level = "broken" if now - since > LASTS else "healthy"
            found.append((level, f"{who} cannot go on for {span(now - since)}: {error}"))
    return found


def _waiting(flow: "FlowStatus", most: float, now: float) -> list[Reason]:
    """Behind transactions that are open on the source. Their producers must end them, so each is named."""
    found: list[tuple[float, PartitionStatus]] = []
    for each in flow.behind:
        seconds = each.lag_seconds_at(now)
        if each.waits and each.state != "stopped" and (seconds is None or seconds > min(LASTS, most)):
            found.append((float("inf") if seconds is None else seconds, each))
    found.sort(key=lambda each: (-each[0], each[1].topic, each[1].partition))
    reasons: list[Reason] = []
    for seconds, each in found[:_SHOWN]:
        level: Level = "lagging" if seconds > most else "healthy"
        text = (
            f"{_name(each)} waits for a transaction that is open at offset {each.stable} on {flow.source}: "
            f"{each.lag:,} records behind, {_long(seconds)}; let its producer end it, or abort it there: "
            f"kafka-transactions.sh abort --topic {each.topic} --partition {each.partition} "
            f"--start-offset {each.stable}"
        )
        reasons.append((level, text))
    if len(found) > _SHOWN:
        level = "lagging" if found[_SHOWN][0] > most else "healthy"
        reasons.append((level, f"{len(found) - _SHOWN:,} more partitions wait for open transactions"))
    return reasons


def _behind(flow: "FlowStatus", most: float, now: float) -> list[Reason]:
    """Those that work would help: what is stopped or waits has been told of."""
    late: list[tuple[float, PartitionStatus]] = []
    for each in flow.behind:
        seconds = each.lag_seconds_at(now)
        if not each.waits and each.state != "stopped" and (seconds is None or seconds > most):
            late.append((float("inf") if seconds is None else seconds, each))
    if not late:
        return []
    seconds, worst = max(late, key=lambda each: (each[0], each[1].lag))
    records = sum(each.lag for _, each in late)
    what = f"{_name(worst)} is" if len(late) == 1 else f"{len(late):,} partitions are"
    text = f"{what} behind by {records:,} records, {_long(seconds)}"
    if len(late) > 1:
        text += f", most of all {_name(worst)}"
    return [("lagging", text + _prospect(flow, records, now))]


def _long(seconds: float) -> str:
    return "for how long is not known" if seconds == float("inf") else span(seconds)


def _prospect(flow: "FlowStatus", records: int, now: float) -> str:
    """Why, as far as that can be told, and for how long still."""
    if flow.state not in {"running", "starting"}:
        return ""
    speed, _ = flow.rates_at(now)
    if speed <= 0:
        return ": nothing is copied now"
    trend = [point[1] for point in flow.history.points()[-13:]]
    if len(trend) > 2 and trend[-1] > trend[0]:
        return f": {speed:,.0f} records/s are copied, and more arrive; give it more tasks (tasks.max) or cores"
    return f": {speed:,.0f} records/s are copied, about {span(records / speed)} to go"


def _beats(flow: "FlowStatus", now: float) -> list[Reason]:
    if flow.heartbeat_ms is None or flow.state != "running" or now - flow.heartbeat_ms / 1000 <= _NO_BEAT:
        return []
    age = span(now - flow.heartbeat_ms / 1000)
    return [("lagging", f"the newest heartbeat is {age} old: does {flow.target} take records?")]


def _losses(flow: "FlowStatus") -> list[Reason]:
    found: list[Reason] = []
    for counter, text in (
        ("lost", "{:,} records were gone from the source before they were copied"),
        ("skipped", "{:,} records were refused by the target and left out"),
        ("foreign", "{:,} records in remote topics were written by somebody else"),
        ("duplicates", "up to {:,} records may be on the target twice"),
    ):
        if count := flow.total(counter):
            found.append(("healthy", text.format(count) + " since this run began"))
    return found


def _name(each: "PartitionStatus") -> str:
    return f"{each.topic}-{each.partition}"


def _ago(milliseconds: int, now: float) -> str:
    text = f"{span(now - milliseconds / 1000)} ago"
    if not 0 <= milliseconds / 1000 <= now:  # a clock that is ahead, or somebody's joke
        return text
    return f"{text} ({time.strftime('%H:%M:%S', time.localtime(milliseconds / 1000))})"


def span(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    seconds = max(seconds, 0.0)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"
