"""Limits of topics on the target that are tighter than on the source: sizes, times, replicas that must agree. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.doctor.facts import ClusterFacts, FlowFacts
from twinlog.doctor.findings import Finding, some
from twinlog.kafka.checkup import Replicas
from twinlog.kafka.connection import LARGEST_FRAME
from twinlog.topology import plan
from twinlog.topology.selection import selection_of
from twinlog.topology.sight import Sight

SIZE, REPLICAS = "max.message.bytes", "min.insync.replicas"
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
KIND, CODEC = "message.timestamp.type", "compression.type"
# What brokers call what a topic may have of its own.
_OF_BROKERS: Final = {
    SIZE: "message.max.bytes", REPLICAS: REPLICAS, CODEC: CODEC, KIND: "log.message.timestamp.type",
    BEFORE: "log.message.timestamp.before.max.ms", AFTER: "log.message.timestamp.after.max.ms",
}  # fmt: skip
_ENDLESS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its remote topic, with the settings that count on either side; None: not known."""

    topic: str
    remote: str
    there: int | None  # partitions of the remote topic
    source: Callable[[str], str | None]
    target: Callable[[str], str | None]  # as they will be once configs are synced; without the brokers' own


def pairs(flow: FlowConfig, sight: Sight) -> list[Pair]:
    if not flow.replicates:
        return []
    found = plan.matches(selection_of(flow), sight.source.topics, sight.target.topics)
    return [_pair(flow, sight, each) for each in found]


def _pair(flow: FlowConfig, sight: Sight, match: plan.Match) -> Pair:
    here = sight.source.configs.get(match.topic, {})
    there = sight.target.configs.get(match.remote, {})
    values: dict[str, str | None]
    if match.there is None:
        refused = sight.refusals.get(("target", match.remote))
        values = dict(plan.new_configs(flow, here, refused.without if refused else ()))
    else:
        values = {name: entry.value for name, entry in there.items()}
        if here and there:
            values |= {each.name: each.value for each in plan.config_changes(flow, here, there)[0] if each.value}
    source = {name: entry.value for name, entry in here.items()}
    return Pair(match.topic, match.remote, match.there, source.get, values.get)


def limits(
    facts: FlowFacts, sight: Sight, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[Finding]:
    brokers = clusters.get(facts.flow.flow.target)
    name = str(facts.flow)
    yield from _sizes(name, copied, brokers)
    yield from _times(name, copied, brokers)
    yield from _agreed(name, _agreements(facts, sight, copied, clusters))
    yield from _compaction(facts)
    yield from _manners(name, copied, brokers)


def value_of(brokers: ClusterFacts | None, key: str, choose: Callable[[Iterable[str]], str]) -> str | None:
    """A setting of the brokers; where they differ, the one that `choose` says."""
    values = [value for each in brokers.settings.values() if (value := each.get(key)) is not None] if brokers else []
    return choose(values) if values else None


def _strictest(values: Iterable[str]) -> str:
    return min(values, key=int)


def _there(each: Pair, key: str, brokers: ClusterFacts | None) -> str | None:
    found = each.target(key)
    if found is not None or each.there is not None:
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
        here, there = _number(each.source(SIZE)), _number(_there(each, SIZE, brokers))
        if here is not None and there is not None and there < here:
            small.setdefault((here, there), []).append(each.remote)
        if here is not None and here > LARGEST_FRAME:
            huge.append(each.topic)
    for (here, there), remotes in small.items():
        what = f"takes batches of up to {there:,} bytes ({SIZE}), the source up to {here:,}: a larger record is refused"
        advice = f"set {SIZE} of the remote topic, or message.max.bytes of the target's brokers, to {here}"
        yield Finding("warning", "size", name, some(remotes), what, advice)
    if huge:
        what = f"may hold batches of more than {LARGEST_FRAME:,} bytes ({SIZE}), which Twinlog does not read"
        yield Finding("warning", "size", name, some(huge), what, f"set {SIZE} of the topic to at most {LARGEST_FRAME}")
    request = _number(value_of(brokers, "socket.request.max.bytes", _strictest))
    largest = max((here for each in copied if (here := _number(each.source(SIZE))) is not None), default=0)
    if request is not None and request < largest:
        what = f"brokers of the target take requests of {request:,} bytes, batches of the source may have {largest:,}"
        yield Finding("warning", "size", name, "", what, f"set socket.request.max.bytes of its brokers above {largest}")


def _times(name: str, copied: Sequence[Pair], brokers: ClusterFacts | None) -> Iterable[Finding]:
    stamped: list[str] = []
    old: dict[int, list[str]] = {}
    early: dict[int, list[str]] = {}
    for each in copied:
        if _there(each, KIND, brokers) == "LogAppendTime":
            stamped.append(each.remote)
            continue  # whatever time a record has, it gets another one
        before, kept = _number(_there(each, BEFORE, brokers)), _number(each.source("retention.ms"))
        if before is not None and before < _ENDLESS and kept is not None and (kept < 0 or kept > before):
            old.setdefault(before, []).append(each.remote)
        after, taken = _number(_there(each, AFTER, brokers)), _number(each.source(AFTER))
        if after is not None and taken is not None and after < taken:
            early.setdefault(after, []).append(each.remote)
    if stamped:
        what = f"{KIND} is LogAppendTime: copies are dated when they arrive, not as on the source"
        yield Finding("warning", "time", name, some(stamped), what, f"set {KIND} = CreateTime for the remote topics")
    for limit, remotes in old.items():
        what = f"refuses records older than {_span(limit)} ({BEFORE}), of which the source keeps some"
        yield Finding(
            "warning", "time", name, some(remotes), what, f"remove {BEFORE} there until the backlog is copied"
        )
    for limit, remotes in early.items():
        what = f"refuses records dated more than {_span(limit)} ahead ({AFTER}), the source takes them"
        yield Finding("note", "time", name, some(remotes), what, f"raise {AFTER} there if producers date records ahead")


@dataclass(frozen=True, slots=True)
class _Agreement:
    """How many replicas of a topic must have a record, how many there are, how many are in sync; None: no topic yet."""

    topic: str
    least: int | None
    replicas: int | None
    in_sync: int | None = None


def _agreements(
    facts: FlowFacts, sight: Sight, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[_Agreement]:
    flow = facts.flow
    factor = flow.source.settings.replication_factor if flow.source else -1
    for each in copied:
        parts = facts.replicas.get("target", {}).get(each.remote, ())
        least = _number(_there(each, REPLICAS, clusters.get(flow.flow.target)))
        yield _agreement(each.remote, least, parts, factor if each.there is None else -1)
    for own in sight.own:
        parts = facts.replicas.get(own.side, {}).get(own.name, ())
        entries = facts.own_configs.get((own.side, own.name), {})
        alias = flow.flow.source if own.side == "source" else flow.flow.target
        text = entries[REPLICAS].value if REPLICAS in entries else None
        if not parts:
            text = value_of(clusters.get(alias), REPLICAS, lambda values: max(values, key=int))
        yield _agreement(own.name, _number(text), parts, own.replication_factor)


def _agreement(topic: str, least: int | None, parts: Sequence[Replicas], factor: int) -> _Agreement:
    """`factor`: what the topic will have, where it is yet to be created; -1: the brokers decide."""
    if parts:
        return _Agreement(topic, least, min(part.count for part in parts), min(part.in_sync for part in parts))
    return _Agreement(topic, least, factor if factor > 0 else None)


def _agreed(name: str, every: Iterable[_Agreement]) -> Iterable[Finding]:
    """acks=all waits for min.insync.replicas: where there are fewer, nothing is ever written, and MM2 says no more than
    that it failed to flush.
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
        what = f"fewer replicas are in sync than {REPLICAS} asks for: writes wait until they are"
        yield Finding("error", "replication", name, some(now), what, "check the brokers that lag, or are down")
    if tight:
        what = f"{REPLICAS} is the number of replicas: writes wait whenever one broker is away"
        yield Finding("note", "replication", name, some(tight), what, f"lower {REPLICAS} by one, if that is not meant")


def _compaction(facts: FlowFacts) -> Iterable[Finding]:
    """Topics that hold the newest of each key: were they kept by time, positions and translations would be lost."""
    for (_, topic), entries in facts.own_configs.items():
        policy = entries["cleanup.policy"].value if "cleanup.policy" in entries else None
        if policy is not None and "compact" not in policy and not topic.startswith("mm2-twinlog."):
            what = f"cleanup.policy is {policy}: what it says of positions is deleted after a time"
            advice = "set cleanup.policy = compact for it (kafka-configs --alter)"
            yield Finding("warning", "retention", str(facts.flow), topic, what, advice)


def _manners(name: str, copied: Sequence[Pair], brokers: ClusterFacts | None) -> Iterable[Finding]:
    if any(each.there is None for each in copied) and value_of(brokers, "auto.create.topics.enable", max) == "true":
        what = (
            "auto.create.topics.enable is on at the target: a consumer that comes before the flow makes remote topics"
        )
        yield Finding("note", "topics", name, "", what, "start the flow first, or switch it off on its brokers")
    recoded: dict[str, list[str]] = {}
    for each in copied:
        codec = _there(each, CODEC, brokers)
        if codec not in (None, "producer"):
            recoded.setdefault(str(codec), []).append(each.remote)
    for codec, remotes in recoded.items():
        what = f"{CODEC} is {codec}: brokers of the target open and compress every batch of another kind anew"
        yield Finding("note", "compression", name, some(remotes), what, f"{CODEC} = producer spares them the work")


def _span(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.0f} {unit if seconds != size else unit[:-1]}"
    return f"{seconds:g} s"
