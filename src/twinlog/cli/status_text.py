"""The output of `twinlog status`, as text and as JSON. Pure, except for the time of day."""

import json
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinlog.journal.partition_fields import CLI, COUNTER_NAMES, fields_in
from twinlog.status.flow import FlowStatus, LostRange
from twinlog.status.health import MAX_LAG_SECONDS, Health, judge
from twinlog.status.history import History
from twinlog.status.partition import PartitionStatus
from twinlog.status.reason import LEVELS, Level, span
from twinlog.status.topic import TopicStatus
from twinlog.text import amount, counted, one_line, size, table

_EVENTS: Final = 8
_LOST: Final = 5
_LEFT_OUT: Final = 5
_TOPICS: Final = 8
_GROUPS: Final = 200
_BAD: Final = frozenset({"stopped", "recovering", "blocked"})
_PARTITION: Final = tuple(each.name for each in fields_in(CLI))


@dataclass(frozen=True, slots=True)
class StatusOptions:
    max_lag_seconds: float = MAX_LAG_SECONDS
    topic: str | None = None  # show its partitions; a name on the source or of a remote topic
    topics: bool = False  # show all, not only those that need attention
    groups: bool = False
    files: tuple[str, ...] = ()  # of the configuration, as given on the command line: for suggested commands


class _FlowSubset(FlowStatus):
    """A flow as if it copied only these partitions. A reason may concern many topics at once, so the flow is judged
    again for the partitions of one topic.
    """

    def __init__(self, flow: FlowStatus, names: Iterable[str]) -> None:
        super().__init__(flow.run, flow.name, flow.source, flow.target)
        vars(self).update(vars(flow))  # including all partitions: whether there are any is a matter of the flow
        self.history = History()  # the flow's trend is not that of the subset
        self._names = frozenset(names)

    @property
    def behind(self) -> list[PartitionStatus]:
        return [each for each in super().behind if str(each.tp) in self._names]

    @property
    def failing(self) -> list[PartitionStatus]:
        return [each for each in super().failing if str(each.tp) in self._names]

    def total(self, counter: str) -> int:
        return sum(each.counters[counter] for each in self._own())

    def partitions_with(self, counter: str) -> list[PartitionStatus]:
        return [each for each in self._own() if each.counters[counter]]

    def rates_at(self, now: float, seconds: float = 5.0) -> tuple[float, float]:  # noqa: ARG002
        rates = [each.rates_at(now) for each in self._own()]
        return sum(records for records, _ in rates), sum(volume for _, volume in rates)

    def _own(self) -> list[PartitionStatus]:
        return [each for name, each in self.partitions.items() if name in self._names]


def worst(flows: Iterable[FlowStatus], max_lag_seconds: float) -> Level:
    levels: list[Level] = [flow.health(max_lag_seconds).level for flow in flows]
    return max(levels, key=LEVELS.index, default="healthy")


# JSON


def as_json(flows: Sequence[FlowStatus], view: StatusOptions, *, line: bool = False) -> str:
    """With all partitions, or those of `view.topic`; `line`: one line, with the latter only."""
    content = {
        "time_ms": int(time.time() * 1000),
        "level": worst(flows, view.max_lag_seconds),
        "flows": [_flow_json(flow, view, line=line) for flow in flows],
    }
    return json.dumps(content, indent=None if line else 2, ensure_ascii=False)


def _flow_json(flow: FlowStatus, view: StatusOptions, *, line: bool) -> dict[str, Any]:
    records, volume = flow.rates()
    health = flow.health(view.max_lag_seconds)
    content: dict[str, Any] = {
        "name": flow.name, "source": flow.source, "target": flow.target, "run": flow.run, "state": flow.state,
        "error": flow.error, "health": {"level": health.level, "reasons": list(map(str, health.reasons))},
        "told_ms": flow.reported_ms or None, "began_ms": flow.began_ms or None, "reported_at": flow.reported_at or None,
        "epoch": flow.epoch, "tasks": flow.tasks, "starts": flow.starts,
        "executors": {str(task): host for task, host in sorted(flow.executors.items())},
        "heartbeat_ms": flow.heartbeat_ms, "checkpoint_ms": flow.checkpoint_ms,
        "lag": flow.lag, "lag_seconds": _short(flow.lag_seconds),
        "records_per_s": _short(records), "bytes_per_s": _short(volume),
        "latency_p50_ms": flow.latency_p50_ms, "latency_p99_ms": flow.latency_p99_ms,
        **{name: flow.total(name) for name in COUNTER_NAMES},
        "left_out": list(flow.left_out.values()),
        "topics": [_topic_json(each) for each in flow.topics() if _is_shown(view, each.topic, each.remote)],
    }  # fmt: skip
    if view.topic is not None or not line:
        content["partitions"] = [
            _partition_json(each) for each in _sorted(flow) if _is_shown(view, each.topic, each.remote)
        ]
    if view.groups:
        content["groups"] = [
            {
                "group": each.group, "topic": each.topic, "partition": each.partition,
                "source_topic": each.source_topic, "source_offset": each.source_offset, "source_end": each.source_end,
                "source_lag": each.source_lag, "checkpoint_offset": each.checkpoint_offset,
                "checkpoint_ms": each.checkpoint_ms, "target_offset": each.target_offset,
                "target_end": each.target_end, "target_lag": each.target_lag, "latency_ms": _short(each.latency_ms),
            }
            for each in flow.groups
            if _is_shown(view, each.source_topic, each.topic)
        ]  # fmt: skip
    lost = tuple(flow.lost_ranges)
    content["lost_ranges"] = [
        {name: getattr(each, name) for name in ("time_ms", "topic", "partition", "first", "last", "reason")}
        for each in lost
    ]
    content["events"] = list(flow.events)[-100:]
    return content


def _topic_json(each: TopicStatus) -> dict[str, Any]:
    return {
        "topic": each.topic, "remote": each.remote, "partitions": each.partitions, "state": each.state,
        "lag": each.lag, "lag_seconds": _short(each.lag_seconds), "records": each.records, "bytes": each.bytes,
        "records_per_s": _short(each.records_per_s), "bytes_per_s": _short(each.bytes_per_s), "lost": each.lost,
        "error": each.error, "waits": _wait(each),
    }  # fmt: skip


def _partition_json(each: PartitionStatus) -> dict[str, Any]:
    computed = {"state": each.state_at(time.time()), "waits": _wait(each)}
    shown = {name: computed[name] if name in computed else _short(getattr(each, name)) for name in _PARTITION}
    return shown | each.counters


# Text


def as_text(flows: Sequence[FlowStatus], view: StatusOptions, *, live: bool = False) -> str:
    """`live`: for a screen of limited height, so the newest event comes first."""
    return "\n\n".join("\n".join(_flow_text(flow, view, live=live)) for flow in flows)


def _flow_text(flow: FlowStatus, view: StatusOptions, *, live: bool) -> list[str]:
    now = time.time()
    lines = [f"{flow.name}: {_headline(flow, judge(flow, view.max_lag_seconds, now).level)}"]
    health, others = _reasons(flow, view, now)
    lines += [f"  {'!' if health.level != 'healthy' else '-'} {_printable(str(reason))}" for reason in health.reasons]
    if others:
        lines.append(f"  also: {counted(others, 'other reason')} (twinlog status without --topic)")
    lines += table(_facts(flow, now))
    if view.topic is not None:
        lines += ["", *_partitions_text(flow, view.topic, view.files)]
    else:
        lines += ["", *_topics_text(flow, view)]
    if view.groups:
        lines += ["", *_groups_text(flow, view)]
    topics = _topic_names(flow, view)
    if lost := [each for each in tuple(flow.lost_ranges) if topics is None or each.topic in topics]:
        lines += ["", "  lost:", *_lost_text(lost)]
    if events := [each for each in tuple(flow.events) if topics is None or _topics_of(each) & topics]:
        title = "  events, newest first:" if live else "  events:"
        lines += ["", title, *_events_text(events[-_EVENTS:][:: -1 if live else 1])]
    return lines


def _headline(flow: FlowStatus, level: Level) -> str:
    """Mostly the copying is broken, not the process: `BROKEN, running` would look like a contradiction."""
    if level == "healthy":
        return f"healthy, {flow.state}"
    if level == "broken" and flow.state == "running":
        return f"BROKEN ({'was running at the last report' if flow.observation_error else 'the process is running'})"
    return f"{level.upper()}, {flow.state}"


def _reasons(flow: FlowStatus, view: StatusOptions, now: float) -> tuple[Health, int]:
    """The reasons that concern the topic shown, and how many others there are. Those of the whole flow concern every
    topic.
    """
    if view.topic is None:
        return judge(flow, view.max_lag_seconds, now), 0
    partitions = list(flow.partitions.values())
    shown = {str(each.tp) for each in partitions if _is_shown(view, each.topic, each.remote)}
    others = {str(each.tp) for each in partitions} - shown
    own, of_others = (judge(_FlowSubset(flow, names), view.max_lag_seconds, now) for names in (shown, others))
    return own, sum(bool(reason.partitions) for reason in of_others.reasons)


def _topic_names(flow: FlowStatus, view: StatusOptions) -> frozenset[str] | None:
    """The names by which events may refer to the topic shown; None: all topics are shown."""
    if view.topic is None:
        return None
    known = (each.topic for each in flow.partitions.values() if each.remote == view.topic)
    return frozenset((view.topic, *known))


def _topics_of(event: dict[str, Any]) -> frozenset[str]:
    if partition := event.get("partition"):
        return frozenset((str(partition).rpartition("-")[0],))
    topics = event.get("topics")
    return frozenset(map(str, topics)) if isinstance(topics, list) else frozenset()


def _facts(flow: FlowStatus, now: float) -> list[tuple[str, str]]:
    records, volume = flow.rates()
    lag = f"{counted(flow.lag, 'record')}, {_seconds(flow.lag_seconds) if flow.partitions else 'unknown'}"
    rows = [("lag", "unknown" if _is_unknown(flow) else lag)]
    if flow.state in {"starting", "running", "retrying"}:
        rows.append(("speed", f"{records:,.0f} records/s, {size(volume)}/s"))
    if flow.latency_p50_ms is not None and flow.latency_p99_ms is not None and flow.state == "running":
        rows.append(("latency", f"p50 {flow.latency_p50_ms:,.0f} ms, p99 {flow.latency_p99_ms:,.0f} ms"))
    if flow.run:
        ran = f"{counted(flow.total('records'), 'record')}, {size(flow.total('bytes'))}"
        rows.append(("copied", f"{ran} since {_clock(flow.began_ms)}"))
    anomalies = [
        f"{amount(flow.total(name))} {name}"
        for name in ("lost", "skipped", "duplicates", "foreign")
        if flow.total(name)
    ]
    if anomalies:
        rows.append(("anomalies", ", ".join(anomalies)))
    throttled = [
        f"{span(flow.total(f'{side}_throttled_ms') / 1000)} by {alias} (the {side})"
        for side, alias in (("source", flow.source), ("target", flow.target))
        if flow.total(f"{side}_throttled_ms")
    ]
    if throttled:
        rows.append(("throttled", f"{', '.join(throttled)}, summed over partitions"))
    rows += [("left out", _printable(text)) for text in list(flow.left_out.values())[:_LEFT_OUT]]
    if len(flow.left_out) > _LEFT_OUT:
        rows.append(("left out", f"{amount(len(flow.left_out) - _LEFT_OUT)} more reasons (--json)"))
    if flow.state in {"starting", "running", "retrying"}:
        where = ", ".join(f"{task}: {_printable(host)}" for task, host in sorted(flow.executors.items())[:_TOPICS])
        where += " ..." if len(flow.executors) > _TOPICS else ""
        starts = f", started {flow.starts} times" if flow.starts > 1 else ""
        rows.append(("tasks", f"{flow.tasks}{f' ({where})' if where else ''}, epoch {flow.epoch}{starts}"))
    newest = [
        f"{what} {span(now - at / 1000)} ago"
        for what, at in (("heartbeat", flow.heartbeat_ms), ("checkpoint", flow.checkpoint_ms))
        if at is not None
    ]
    if newest:
        rows.append(("newest", ", ".join(newest)))
    return rows


def _is_unknown(flow: FlowStatus) -> bool:
    """Nothing is known of its partitions, because a cluster cannot be reached."""
    return bool(flow.observation_error) and not flow.partitions


def _topics_text(flow: FlowStatus, view: StatusOptions) -> list[str]:
    topics = flow.topics()
    count = f"{counted(len(topics), 'topic')}, {counted(len(flow.partitions), 'partition')}"
    listed = topics if view.topics else [each for each in topics if each.lag or each.error or each.state in _BAD]
    if not listed:
        nothing = "topics unknown" if _is_unknown(flow) else "no topics"
        return [f"  {count}: all caught up" if topics else f"  {nothing}"]
    listed.sort(
        key=lambda each: (each.state not in _BAD, not each.error, -_far(each.lag_seconds), -each.lag, each.topic)
    )
    shown = listed if view.topics else listed[:_TOPICS]
    rows = [("topic", "partitions", "state", "lag", "behind", "records/s", "bytes/s", "error")]
    rows += [
        (
            each.topic, amount(each.partitions), each.state, amount(each.lag), _seconds(each.lag_seconds),
            f"{each.records_per_s:,.0f}", size(each.bytes_per_s), one_line(each.error or _wait(each)),
        )
        for each in shown
    ]  # fmt: skip
    title = count if view.topics else f"{count}; {amount(len(listed))} not caught up"
    left = len(listed) - len(shown)
    more = [f"  ... and {amount(left)} more (--topics shows all)"] if left else []
    return [f"  {title}", *table(rows, "    "), *more]


def _partitions_text(flow: FlowStatus, topic: str, files: Sequence[str]) -> list[str]:
    partitions = [each for each in _sorted(flow) if topic in {each.topic, each.remote}]
    if not partitions and _is_unknown(flow):
        return [_printable(f"  - {topic}: unknown")]
    if not partitions:
        command = shlex.join(["twinlog", "why", *(files or ["CONFIG"]), topic])
        return [_printable(f"  - {topic}: no such topic in this flow; to see which rule decides: {command}")]
    now = time.time()
    rows = [
        (
            "partition", "state", "path", "position", "source end", "lag", "behind", "target end", "records/s", "task",
            "error",
        )
    ]  # fmt: skip
    rows += [
        (
            str(each.partition), each.state_at(now), each.lane or "-", _offset(each.position), _offset(each.end),
            amount(each.lag), _seconds(each.lag_seconds), _offset(each.target), f"{each.records_per_s:,.0f}",
            str(each.task) if each.task >= 0 else "-", one_line(each.error or _wait(each)),
        )
        for each in partitions
    ]  # fmt: skip
    return [f"  {partitions[0].topic} -> {partitions[0].remote}", *table(rows, "    ")]


def _groups_text(flow: FlowStatus, view: StatusOptions) -> list[str]:
    groups = [each for each in flow.groups if _is_shown(view, each.source_topic, each.topic)]
    if not groups:
        return ["  no consumer groups with committed offsets in these topics"]
    rows = [("group", "topic", "partition", "offset", "lag", "checkpoint", "on target", "lag there", "")]
    rows += [
        (
            _printable(each.group), each.source_topic, str(each.partition), _offset(each.source_offset),
            _offset(each.source_lag), _offset(each.checkpoint_offset), _offset(each.target_offset),
            _offset(each.target_lag), "",
        )
        for each in groups[:_GROUPS]
    ]  # fmt: skip
    left = len(groups) - _GROUPS
    more = [f"    ... and {amount(left)} more (--json has all)"] if left > 0 else []
    return ["  groups:", *table(rows, "    "), *more]


def _lost_text(lost: Sequence[LostRange]) -> list[str]:
    rows = [
        (
            _clock(each.time_ms),
            f"{each.topic}-{each.partition}",
            f"{each.first} to {each.last}",
            _printable(each.reason),
        )
        for each in lost[-_LOST:]
    ]
    return table(rows, "    ")


def _events_text(events: Iterable[dict[str, Any]]) -> list[str]:
    rows = [
        (_clock(event.get("time", 0)), one_line(kind), _printable(text if text != kind else ""))
        for event in events
        for kind, text in [(str(event.get("kind", "")), str(event.get("text", "")))]
    ]
    return table(rows, "    ")


def _wait(each: PartitionStatus | TopicStatus) -> str:
    return (
        "" if each.blocked_at is None else f"blocked by an open transaction at offset {each.blocked_at} of the source"
    )


def _sorted(flow: FlowStatus) -> list[PartitionStatus]:
    return sorted(flow.partitions.values(), key=lambda each: (each.topic, each.partition))


def _is_shown(view: StatusOptions, topic: str, remote: str) -> bool:
    return view.topic is None or view.topic in {topic, remote}


def _far(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else span(seconds)


def _offset(offset: int | None) -> str:
    return "-" if offset is None or offset < 0 else str(offset)


def _short(value: Any) -> Any:
    return round(value, 1) if isinstance(value, float) else value


def _printable(text: str) -> str:
    """The journal may contain control characters of others: they must not reach a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _clock(milliseconds: float) -> str:
    try:
        when = time.localtime(milliseconds / 1000)
    except (ValueError, OverflowError, OSError):  # a forged time
        return "?"
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", when)
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", when)
