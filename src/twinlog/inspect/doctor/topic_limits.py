"""Limits of topics that are stricter on the target than on the source: sizes, timestamps, replicas. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.inspect import plan
from twinlog.inspect.doctor.facts import ClusterFacts, FlowFacts
from twinlog.inspect.doctor.findings import Finding, some
from twinlog.inspect.snapshot import FlowSnapshot
from twinlog.kafka.admin_queries import Replicas
from twinlog.kafka.connection import MAX_FRAME_BYTES
from twinlog.mm2.selection import selection_of

SIZE, REPLICAS = "max.message.bytes", "min.insync.replicas"
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
KIND, CODEC = "message.timestamp.type", "compression.type"
# Topic configs, and their names in the broker configuration.
_OF_BROKERS: Final = {
    SIZE: "message.max.bytes", REPLICAS: REPLICAS, CODEC: CODEC, KIND: "log.message.timestamp.type",
    BEFORE: "log.message.timestamp.before.max.ms", AFTER: "log.message.timestamp.after.max.ms",
}  # fmt: skip
_UNLIMITED: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its remote topic, with their configs; None: unknown."""

    topic: str
    remote: str
    remote_partitions: int | None  # None: it does not exist yet
    source: Callable[[str], str | None]
    target: Callable[[str], str | None]  # once configs are synced; without broker defaults


def pairs(flow: FlowConfig, snapshot: FlowSnapshot) -> list[Pair]:
    if not flow.replicates:
        return []
    found = plan.matches(selection_of(flow), snapshot.source.topics, snapshot.target.topics)
    return [_pair(flow, snapshot, each) for each in found]


def _pair(flow: FlowConfig, snapshot: FlowSnapshot, match: plan.Match) -> Pair:
    source = snapshot.source.configs.get(match.topic, {})
    target = snapshot.target.configs.get(match.remote, {})
    values: dict[str, str | None]
    if match.remote_partitions is None:
        refused = snapshot.refusals.get(("target", match.remote))
        values = dict(plan.new_configs(flow, source, refused.without if refused else ()))
    else:
        values = {name: entry.value for name, entry in target.items()}
        if source and target:
            values |= {each.name: each.value for each in plan.config_changes(flow, source, target)[0] if each.value}
    on_source = {name: entry.value for name, entry in source.items()}
    return Pair(match.topic, match.remote, match.remote_partitions, on_source.get, values.get)


def limits(
    facts: FlowFacts, snapshot: FlowSnapshot, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[Finding]:
    brokers = clusters.get(facts.flow.flow.target)
    name = str(facts.flow)
    yield from _sizes(name, copied, brokers)
    yield from _times(name, copied, brokers)
    yield from _min_insync(name, _replication(facts, snapshot, copied, clusters))
    yield from _compaction(facts)
    yield from _broker_defaults(name, copied, brokers)


def value_of(brokers: ClusterFacts | None, key: str, choose: Callable[[Iterable[str]], str]) -> str | None:
    """A setting of the brokers; where they differ, `choose` decides."""
    values = [value for each in brokers.settings.values() if (value := each.get(key)) is not None] if brokers else []
    return choose(values) if values else None


def _strictest(values: Iterable[str]) -> str:
    return min(values, key=int)


def _on_target(each: Pair, key: str, brokers: ClusterFacts | None) -> str | None:
    found = each.target(key)
    if found is not None or each.remote_partitions is not None:
        return found
    return value_of(brokers, _OF_BROKERS[key], max if key in (KIND, CODEC) else _strictest)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _sizes(name: str, copied: Sequence[Pair], brokers: ClusterFacts | None) -> Iterable[Finding]:
    small: dict[tuple[int, int], list[str]] = {}
    huge: list[str] = []
    for each in copied:
        here, there = _number(each.source(SIZE)), _number(_on_target(each, SIZE, brokers))
        if here is not None and there is not None and there < here:
            small.setdefault((here, there), []).append(each.remote)
        if here is not None and here > MAX_FRAME_BYTES:
            huge.append(each.topic)
    for (here, there), remotes in small.items():
        what = (
            f"accepts batches of up to {there:,} bytes ({SIZE}), the source up to {here:,}: larger records are refused"
        )
        advice = f"set {SIZE} of the remote topic, or message.max.bytes of the target's brokers, to {here}"
        yield Finding("warning", "size", name, some(remotes), what, advice)
    if huge:
        what = f"may hold batches of more than {MAX_FRAME_BYTES:,} bytes ({SIZE}), which Twinlog cannot read"
        yield Finding(
            "warning", "size", name, some(huge), what, f"set {SIZE} of the topic to at most {MAX_FRAME_BYTES}"
        )
    request = _number(value_of(brokers, "socket.request.max.bytes", _strictest))
    largest = max((here for each in copied if (here := _number(each.source(SIZE))) is not None), default=0)
    if request is not None and request < largest:
        what = f"brokers of the target accept requests of {request:,} bytes, batches of the source may have {largest:,}"
        yield Finding("warning", "size", name, "", what, f"set socket.request.max.bytes of its brokers above {largest}")


def _times(name: str, copied: Sequence[Pair], brokers: ClusterFacts | None) -> Iterable[Finding]:
    stamped: list[str] = []
    old: dict[int, list[str]] = {}
    early: dict[int, list[str]] = {}
    for each in copied:
        if _on_target(each, KIND, brokers) == "LogAppendTime":
            stamped.append(each.remote)
            continue  # the target replaces the timestamps anyway
        before, kept = _number(_on_target(each, BEFORE, brokers)), _number(each.source("retention.ms"))
        if before is not None and before < _UNLIMITED and kept is not None and (kept < 0 or kept > before):
            old.setdefault(before, []).append(each.remote)
        after, taken = _number(_on_target(each, AFTER, brokers)), _number(each.source(AFTER))
        if after is not None and taken is not None and after < taken:
            early.setdefault(after, []).append(each.remote)
    if stamped:
        what = f"{KIND} is LogAppendTime: records get the time of their arrival instead of the source's timestamp"
        yield Finding("warning", "time", name, some(stamped), what, f"set {KIND} = CreateTime for the remote topics")
    for limit, remotes in old.items():
        what = f"refuses records older than {_span(limit)} ({BEFORE}); the source has such records"
        yield Finding(
            "warning", "time", name, some(remotes), what, f"remove {BEFORE} there until the backlog is copied"
        )
    for limit, remotes in early.items():
        what = f"refuses records dated more than {_span(limit)} ahead ({AFTER}); the source accepts them"
        yield Finding("note", "time", name, some(remotes), what, f"raise {AFTER} there if producers date records ahead")


@dataclass(frozen=True, slots=True)
class _Replication:
    """min.insync.replicas of a topic, its replicas, and those in sync; None: unknown."""

    topic: str
    least: int | None
    replicas: int | None
    in_sync: int | None = None


def _replication(
    facts: FlowFacts, snapshot: FlowSnapshot, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[_Replication]:
    flow = facts.flow
    factor = flow.source.settings.replication_factor if flow.source else -1
    for each in copied:
        parts = facts.replicas.get("target", {}).get(each.remote, ())
        least = _number(_on_target(each, REPLICAS, clusters.get(flow.flow.target)))
        yield _topic_replication(each.remote, least, parts, factor if each.remote_partitions is None else -1)
    for own in snapshot.internal_topics:
        parts = facts.replicas.get(own.side, {}).get(own.name, ())
        entries = facts.own_configs.get((own.side, own.name), {})
        alias = flow.flow.source if own.side == "source" else flow.flow.target
        text = entries[REPLICAS].value if REPLICAS in entries else None
        if not parts:
            text = value_of(clusters.get(alias), REPLICAS, lambda values: max(values, key=int))
        yield _topic_replication(own.name, _number(text), parts, own.replication_factor)


def _topic_replication(topic: str, least: int | None, parts: Sequence[Replicas], factor: int) -> _Replication:
    """`factor`: that of a topic to be created; -1: the brokers' default."""
    if parts:
        return _Replication(topic, least, min(part.count for part in parts), min(part.in_sync for part in parts))
    return _Replication(topic, least, factor if factor > 0 else None)


def _min_insync(name: str, every: Iterable[_Replication]) -> Iterable[Finding]:
    """acks=all needs min.insync.replicas: with fewer replicas no write ever succeeds, and MM2 only logs that it failed
    to flush.
    """
    never: dict[tuple[int, int], list[str]] = {}
    now: list[str] = []
    tight: list[str] = []
    for each in every:
        if each.least is None or each.replicas is None:
            continue
        if each.least > each.replicas:
            never.setdefault((each.least, each.replicas), []).append(each.topic)
        elif each.in_sync is not None and each.in_sync < each.least:
            now.append(each.topic)
        elif each.least == each.replicas > 1:
            tight.append(each.topic)
    for (least, replicas), topics in never.items():
        what = f"{REPLICAS} is {least} with {replicas} replica{'s' * (replicas > 1)}: acks=all never succeeds there"
        advice = f"lower {REPLICAS} to {max(replicas - 1, 1)}, or give the topics more replicas"
        yield Finding("error", "replication", name, some(topics), what, advice)
    if now:
        what = f"fewer replicas are in sync than {REPLICAS} requires: writes fail until they are"
        yield Finding("error", "replication", name, some(now), what, "check for brokers that lag or are down")
    if tight:
        what = f"{REPLICAS} equals the number of replicas: writes fail whenever one broker is down"
        yield Finding(
            "note", "replication", name, some(tight), what, f"lower {REPLICAS} by one unless that is intended"
        )


def _compaction(facts: FlowFacts) -> Iterable[Finding]:
    """Internal topics must be compacted: with time-based retention, positions and translations would be lost."""
    for (_, topic), entries in facts.own_configs.items():
        policy = entries["cleanup.policy"].value if "cleanup.policy" in entries else None
        if policy is not None and "compact" not in policy and not topic.startswith("mm2-twinlog."):
            what = f"cleanup.policy is {policy}: positions in it are deleted after the retention time"
            advice = "set cleanup.policy = compact for it (kafka-configs --alter)"
            yield Finding("warning", "retention", str(facts.flow), topic, what, advice)


def _broker_defaults(name: str, copied: Sequence[Pair], brokers: ClusterFacts | None) -> Iterable[Finding]:
    if (
        any(each.remote_partitions is None for each in copied)
        and value_of(brokers, "auto.create.topics.enable", max) == "true"
    ):
        what = (
            "auto.create.topics.enable is true on the target: a consumer started before the flow creates remote topics"
        )
        yield Finding("note", "topics", name, "", what, "start the flow first, or set it to false on the brokers")
    recoded: dict[str, list[str]] = {}
    for each in copied:
        codec = _on_target(each, CODEC, brokers)
        if codec not in (None, "producer"):
            recoded.setdefault(str(codec), []).append(each.remote)
    for codec, remotes in recoded.items():
        what = f"{CODEC} is {codec}: brokers of the target recompress every batch with another codec"
        yield Finding("note", "compression", name, some(remotes), what, f"set {CODEC} = producer to avoid that")


def _span(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.0f} {unit if seconds != size else unit[:-1]}"
    return f"{seconds:g} s"
