"""What `twinlog status` shows of flows: as text, and as JSON. Pure, but for the time of day."""

import json
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinlog.security.words import one_line
from twinlog.status.flow import FlowStatus, LostRange
from twinlog.status.health import LEVELS, MAX_LAG_SECONDS, Health, Level, judge, span
from twinlog.status.history import History
from twinlog.status.partition import COUNTERS, PartitionStatus
from twinlog.status.topic import TopicStatus
from twinlog.surface.numbers import amount, counted, size
from twinlog.surface.tables import table

_EVENTS: Final = 8
_LOST: Final = 5
_TOPICS: Final = 8
_GROUPS: Final = 200
_BAD: Final = frozenset({"stopped", "recovering"})


@dataclass(frozen=True, slots=True)
class View:
    """What is to be shown."""

    max_lag_seconds: float = MAX_LAG_SECONDS
    topic: str | None = None  # its partitions; by its name on the source, or that of its remote topic
    topics: bool = False  # all of them, not only those that need attention
    groups: bool = False
    files: tuple[str, ...] = ()  # of the configuration, as they were given: for commands that are quoted


class _Part(FlowStatus):
    """A flow as if it copied only these partitions. A reason is a text, and may be about many topics at once: so the
    flow is judged again without the others, instead of looking for a name in words.
    """

    def __init__(self, flow: FlowStatus, names: Iterable[str]) -> None:
        super().__init__(flow.run, flow.name, flow.source, flow.target)
        vars(self).update(vars(flow))  # also its partitions: that it has some is true of the flow
        self.history = History()  # that of all
        self._names = frozenset(names)

    @property
    def behind(self) -> list[PartitionStatus]:
        return [each for each in super().behind if _name(each) in self._names]

    @property
    def troubled(self) -> list[PartitionStatus]:
        return [each for each in super().troubled if _name(each) in self._names]

    def total(self, counter: str) -> int:
        return sum(each.counters[counter] for each in self._own())

    def rates_at(self, now: float, seconds: float = 5.0) -> tuple[float, float]:  # noqa: ARG002
        rates = [each.rates_at(now) for each in self._own()]
        return sum(records for records, _ in rates), sum(volume for _, volume in rates)

    def _own(self) -> list[PartitionStatus]:
        return [each for name, each in self.partitions.items() if name in self._names]


def worst(flows: Iterable[FlowStatus], max_lag_seconds: float) -> Level:
    levels: list[Level] = [flow.health(max_lag_seconds).level for flow in flows]
    return max(levels, key=LEVELS.index, default="healthy")


# JSON


def as_json(flows: Sequence[FlowStatus], view: View, *, line: bool = False) -> str:
    """All partitions are in it, or those of `view.topic`; in a stream of lines only the latter."""
    content = {
        "time_ms": int(time.time() * 1000),
        "level": worst(flows, view.max_lag_seconds),
        "flows": [_flow_json(flow, view, line=line) for flow in flows],
    }
    return json.dumps(content, indent=None if line else 2, ensure_ascii=False)


def _flow_json(flow: FlowStatus, view: View, *, line: bool) -> dict[str, Any]:
    records, volume = flow.rates()
    health = flow.health(view.max_lag_seconds)
    content: dict[str, Any] = {
        "name": flow.name, "source": flow.source, "target": flow.target, "run": flow.run, "state": flow.state,
        "error": flow.error, "health": {"level": health.level, "reasons": health.reasons},
        "told_ms": flow.told_ms or None, "began_ms": flow.began_ms or None, "reported_at": flow.reported_at or None,
        "epoch": flow.epoch, "tasks": flow.tasks, "starts": flow.starts,
        "executors": {str(task): host for task, host in sorted(flow.executors.items())},
        "heartbeat_ms": flow.heartbeat_ms, "checkpoint_ms": flow.checkpoint_ms,
        "lag": flow.lag, "lag_seconds": _short(flow.lag_seconds),
        "records_per_s": _short(records), "bytes_per_s": _short(volume),
        "latency_p50_ms": flow.latency_p50_ms, "latency_p99_ms": flow.latency_p99_ms,
        **{name: flow.total(name) for name in COUNTERS},
        "topics": [_topic_json(each) for each in flow.topics() if _is_meant(view, each.topic, each.remote)],
    }  # fmt: skip
    if view.topic is not None or not line:
        content["partitions"] = [
            _partition_json(each) for each in _sorted(flow) if _is_meant(view, each.topic, each.remote)
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
            if _is_meant(view, each.source_topic, each.topic)
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
        "error": each.error, "waits": each.waits,
    }  # fmt: skip


def _partition_json(each: PartitionStatus) -> dict[str, Any]:
    return {
        "topic": each.topic, "partition": each.partition, "remote": each.remote, "state": each.state,
        "lane": each.lane, "position": each.position, "end": each.end, "start": each.start, "target": each.target,
        "lag": each.lag, "lag_seconds": _short(each.lag_seconds), "error": each.error, "waits": each.waits,
        "task": each.task,
        "records_per_s": _short(each.records_per_s), "bytes_per_s": _short(each.bytes_per_s),
        "latency_ms": each.latency_ms, "latency_avg_ms": _short(each.latency_avg_ms),
        "latency_max_ms": each.latency_max_ms, "age_avg_ms": _short(each.age_avg_ms), **each.counters,
    }  # fmt: skip


# Text


def as_text(flows: Sequence[FlowStatus], view: View, *, live: bool = False) -> str:
    """`live`: for a screen that ends somewhere, so the newest event comes first."""
    return "\n\n".join("\n".join(_flow_text(flow, view, live=live)) for flow in flows)


def _flow_text(flow: FlowStatus, view: View, *, live: bool) -> list[str]:
    now = time.time()
    lines = [f"{flow.name}: {_headline(flow, judge(flow, view.max_lag_seconds, now).level)}"]
    health, others = _reasons(flow, view, now)
    lines += [f"  {'!' if health.level != 'healthy' else '-'} {_printable(reason)}" for reason in health.reasons]
    if others:
        lines.append(f"  also: {counted(others, 'other reason')} (twinlog status without --topic)")
    lines += table(_facts(flow, now))
    if view.topic is not None:
        lines += ["", *_partitions_text(flow, view.topic, view.files)]
    else:
        lines += ["", *_topics_text(flow, view)]
    if view.groups:
        lines += ["", *_groups_text(flow, view)]
    topics = _names_of(flow, view)
    if lost := [each for each in tuple(flow.lost_ranges) if topics is None or each.topic in topics]:
        lines += ["", "  lost:", *_lost_text(lost)]
    if events := [each for each in tuple(flow.events) if topics is None or _is_about(each, topics)]:
        title = "  events, newest first:" if live else "  events:"
        lines += ["", title, *_events_text(events[-_EVENTS:][:: -1 if live else 1])]
    return lines


def _headline(flow: FlowStatus, level: Level) -> str:
    """What is broken mostly is the copying, not the process: `BROKEN, running` would sound as if it could not be."""
    if level == "healthy":
        return f"healthy, {flow.state}"
    if level == "broken" and flow.state == "running":
        return f"BROKEN ({'it ran when it was last seen' if flow.unseen else 'the process runs'})"
    return f"{level.upper()}, {flow.state}"


def _reasons(flow: FlowStatus, view: View, now: float) -> tuple[Health, int]:
    """Those that concern what is shown, and how many more there are. What is wrong with the whole flow concerns all."""
    if view.topic is None:
        return judge(flow, view.max_lag_seconds, now), 0
    partitions = list(flow.partitions.values())
    meant = {_name(each) for each in partitions if _is_meant(view, each.topic, each.remote)}
    others = {_name(each) for each in partitions} - meant
    own, of_others, of_all = (
        judge(_Part(flow, names), view.max_lag_seconds, now) for names in (meant, others, frozenset[str]())
    )
    return own, sum(reason not in of_all.reasons for reason in of_others.reasons)


def _names_of(flow: FlowStatus, view: View) -> frozenset[str] | None:
    """How what is told of the topic may call it; None: all topics are meant."""
    if view.topic is None:
        return None
    known = (each.topic for each in flow.partitions.values() if each.remote == view.topic)
    return frozenset((view.topic, *known))


def _is_about(event: dict[str, Any], topics: Iterable[str]) -> bool:
    """By its partition; where it has none, by the names in its text, as in `topic orders (3 partitions) is ...`."""
    if partition := event.get("partition"):
        return str(partition).rpartition("-")[0] in topics
    text = str(event.get("text", ""))
    return any(re.search(rf"(?<![\w.-]){re.escape(topic)}(?![\w-]|\.\w)", text) for topic in topics)


def _facts(flow: FlowStatus, now: float) -> list[tuple[str, str]]:
    records, volume = flow.rates()
    rows = [("lag", f"{counted(flow.lag, 'record')}, {_seconds(flow.lag_seconds) if flow.partitions else 'not known'}")]
    if flow.state in {"starting", "running", "retrying"}:
        rows.append(("speed", f"{records:,.0f} records/s, {size(volume)}/s"))
    if flow.latency_p50_ms is not None and flow.latency_p99_ms is not None and flow.state == "running":
        rows.append(("latency", f"p50 {flow.latency_p50_ms:,.0f} ms, p99 {flow.latency_p99_ms:,.0f} ms"))
    if flow.run:
        ran = f"{counted(flow.total('records'), 'record')}, {size(flow.total('bytes'))}"
        rows.append(("copied", f"{ran} since {_clock(flow.began_ms)}"))
    odd = [
        f"{amount(flow.total(name))} {name}"
        for name in ("lost", "skipped", "duplicates", "foreign")
        if flow.total(name)
    ]
    if odd:
        rows.append(("odd", ", ".join(odd)))
    if flow.state in {"starting", "running", "retrying"}:
        where = ", ".join(f"{task}: {_printable(host)}" for task, host in sorted(flow.executors.items())[:_TOPICS])
        where += " ..." if len(flow.executors) > _TOPICS else ""
        again = f", started {flow.starts} times" if flow.starts > 1 else ""
        rows.append(("tasks", f"{flow.tasks}{f' ({where})' if where else ''}, epoch {flow.epoch}{again}"))
    beats = [
        f"{what} {span(now - at / 1000)} ago"
        for what, at in (("heartbeat", flow.heartbeat_ms), ("checkpoint", flow.checkpoint_ms))
        if at is not None
    ]
    if beats:
        rows.append(("newest", ", ".join(beats)))
    return rows


def _topics_text(flow: FlowStatus, view: View) -> list[str]:
    topics = flow.topics()
    count = f"{counted(len(topics), 'topic')}, {counted(len(flow.partitions), 'partition')}"
    wanting = topics if view.topics else [each for each in topics if each.lag or each.error or each.state in _BAD]
    if not wanting:
        return [f"  {count}: all caught up" if topics else "  no topics"]
    wanting.sort(
        key=lambda each: (each.state not in _BAD, not each.error, -_far(each.lag_seconds), -each.lag, each.topic)
    )
    shown = wanting if view.topics else wanting[:_TOPICS]
    rows = [("topic", "partitions", "state", "lag", "behind", "records/s", "bytes/s", "error")]
    rows += [
        (
            each.topic, amount(each.partitions), each.state, amount(each.lag), _seconds(each.lag_seconds),
            f"{each.records_per_s:,.0f}", size(each.bytes_per_s), one_line(each.error or each.waits),
        )
        for each in shown
    ]  # fmt: skip
    title = count if view.topics else f"{count}; {amount(len(wanting))} not caught up"
    left = len(wanting) - len(shown)
    more = [f"  ... and {amount(left)} more (--topics shows all)"] if left else []
    return [f"  {title}", *table(rows, "    "), *more]


def _partitions_text(flow: FlowStatus, topic: str, files: Sequence[str]) -> list[str]:
    partitions = [each for each in _sorted(flow) if topic in {each.topic, each.remote}]
    if not partitions:
        command = shlex.join(["twinlog", "why", *(files or ["CONFIG"]), topic])
        return [_printable(f"  - {topic}: no such topic in this flow; which rule decides: {command}")]
    rows = [
        (
            "partition",
            "state",
            "lane",
            "position",
            "source end",
            "lag",
            "behind",
            "target end",
            "records/s",
            "task",
            "error",
        )
    ]
    rows += [
        (
            str(each.partition), each.state, each.lane or "-", _offset(each.position), _offset(each.end),
            amount(each.lag), _seconds(each.lag_seconds), _offset(each.target), f"{each.records_per_s:,.0f}",
            str(each.task) if each.task >= 0 else "-", one_line(each.error or each.waits),
        )
        for each in partitions
    ]  # fmt: skip
    return [f"  {partitions[0].topic} -> {partitions[0].remote}", *table(rows, "    ")]


def _groups_text(flow: FlowStatus, view: View) -> list[str]:
    groups = [each for each in flow.groups if _is_meant(view, each.source_topic, each.topic)]
    if not groups:
        return ["  no consumer groups with a position in these topics"]
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
        (_clock(event.get("time", 0)), one_line(str(event.get("kind", ""))), _printable(str(event.get("text", ""))))
        for event in events
    ]
    return table(rows, "    ")


def _name(each: PartitionStatus) -> str:
    return f"{each.topic}-{each.partition}"


def _sorted(flow: FlowStatus) -> list[PartitionStatus]:
    return sorted(flow.partitions.values(), key=lambda each: (each.topic, each.partition))


def _is_meant(view: View, topic: str, remote: str) -> bool:
    return view.topic is None or view.topic in {topic, remote}


def _far(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else span(seconds)


def _offset(offset: int | None) -> str:
    return "-" if offset is None or offset < 0 else str(offset)


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _printable(text: str) -> str:
    """Whoever may write to the journal must not be able to write to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _clock(milliseconds: float) -> str:
    try:
        when = time.localtime(milliseconds / 1000)
    except (ValueError, OverflowError, OSError):  # somebody's joke
        return "?"
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", when)
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", when)
