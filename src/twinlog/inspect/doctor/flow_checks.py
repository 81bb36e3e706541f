"""Findings about a flow's topics on both clusters: leaders, replicas, permissions, cycles, refusals. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from twinlog.config.flows import FlowConfig
from twinlog.inspect import permissions, plan
from twinlog.inspect.doctor.facts import ClusterFacts, FlowFacts
from twinlog.inspect.doctor.findings import Command, Finding, some
from twinlog.inspect.doctor.topic_limits import Pair, limits, pairs
from twinlog.inspect.permissions import Missing, spelled
from twinlog.inspect.snapshot import ClusterSnapshot, FlowSnapshot
from twinlog.inspect.why import place
from twinlog.mm2.cycles import CyclePath, refusal_parts, round_trip
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import Side, selection_of
from twinlog.text import counted


def findings(
    facts: FlowFacts, clusters: Mapping[str, ClusterFacts], flows: Sequence[FlowConfig], ids: Mapping[str, str]
) -> list[Finding]:
    """`flows`: all of the configuration, to find cycles."""
    name, snapshot = str(facts.flow), facts.snapshot
    if snapshot is None:
        what = f"topics not compared: {', '.join(facts.unreachable)} unreachable"
        skipped = Finding("note", "topics", name, "", what)
        return [
            skipped if facts.unreachable else Finding("error", "topics", name, "", facts.problem, facts.advice),
            *_single_side(facts),
        ]
    copied = pairs(facts.flow, snapshot)
    found = [
        *_topics(facts, snapshot, copied),
        *_loops(facts.flow, copied, flows, ids),
        *_factors(facts.flow, snapshot, copied, clusters),
        *_refusals(facts.flow, snapshot),
        *_replicas(facts),
        *limits(facts, snapshot, copied, clusters),
        *_heartbeats(facts.flow, snapshot, flows),
        *_missing(
            facts.flow,
            permissions.missing(permissions.needs(plan.required_access(facts.flow, snapshot)), snapshot.rights),
        ),
    ]
    if not any(each.check == "rights" for each in found):
        found.append(Finding("ok", "rights", name, "", "no missing permissions"))
    return found


def _single_side(facts: FlowFacts) -> Iterable[Finding]:
    """Of the one cluster that is reachable."""
    flow = facts.flow
    for single in facts.sides:
        alias = flow.flow.source if single.side == "source" else flow.flow.target
        snapshot = single.snapshot
        needs = [need for need in permissions.needs(plan.required_access(flow, snapshot)) if need.side == single.side]
        missing = [*_factors(flow, snapshot, (), {}), *_missing(flow, permissions.missing(needs, snapshot.rights))]
        yield from missing
        if not missing:
            yield Finding("ok", "rights", str(flow), "", f"no missing permissions found on {alias}")


def _topics(facts: FlowFacts, snapshot: FlowSnapshot, copied: Sequence[Pair]) -> Iterable[Finding]:
    flow, name = facts.flow, str(facts.flow)
    if not flow.replicates:
        yield Finding("ok", "topics", name, "", "copies no records")
        return
    if copied:
        new = sum(each.remote_partitions is None for each in copied)
        yield Finding("ok", "topics", name, "", f"{counted(len(copied), 'topic')} to be copied, {new} to be created")
    else:
        what = f"no topic of {flow.flow.source} is selected"
        yield Finding(
            "warning", "topics", name, "topics", what, "check topics and topics.exclude: twinlog why CONFIG NAME"
        )
    for topic, hidden in snapshot.named.items():
        if not hidden:  # those that are hidden lack a permission
            what = f"listed in topics, but {flow.flow.source} has no such topic"
            yield Finding("warning", "topics", name, topic, what, "create it, or correct the name")
    targets: dict[str, list[str]] = {}
    for each in copied:
        targets.setdefault(each.remote, []).append(each.topic)
    for remote, topics in targets.items():
        if len(topics) > 1:
            what = f"{' and '.join(topics)} would be copied to the same topic"
            yield Finding("error", "topics", name, remote, what, "exclude all but one (topics.exclude)")
    problems: dict[str, list[str]] = {}
    for tp, backlog in snapshot.backlogs.items():
        if backlog.problem:
            problems.setdefault(backlog.problem, []).append(str(tp))
    for problem, partitions in problems.items():
        yield Finding("warning", "topics", name, some(partitions), problem)


def _heartbeats(flow: FlowConfig, snapshot: FlowSnapshot, flows: Sequence[FlowConfig]) -> Iterable[Finding]:
    """Without heartbeats on the source none are replicated, and MM2's log is full of failed requests for them."""
    if flow.source is None or not flow.replicates or not flow.source.settings.heartbeats_replication_enabled:
        return
    topic, source = policy_of(flow.source).heartbeats_topic(), flow.flow.source
    if topic in snapshot.source.topics or any(each.flow.target == source and each.emits_heartbeats for each in flows):
        return
    what = f"{source} has no such topic, so no heartbeats are replicated: tools that rely on them find none"
    advice = f"let a flow into {source} emit heartbeats, or set heartbeats.replication.enabled = false"
    yield Finding("note", "topics", str(flow), topic, what, advice)


def _loops(
    flow: FlowConfig, copied: Sequence[Pair], flows: Sequence[FlowConfig], ids: Mapping[str, str]
) -> Iterable[Finding]:
    paths = [CyclePath(each.flow, plan.keeps_name(selection_of(each))) for each in flows if each.replicates]
    trips = {each.topic: round_trip(each.topic, paths, ids) for each in copied}
    refused = [topic for topic, trip in trips.items() if flow.flow in trip]
    if refused:
        what, advice = refusal_parts(refused[0], trips[refused[0]], ids)
        yield Finding("error", "loops", str(flow), some(refused), what, advice)


def _factors(
    flow: FlowConfig, snapshot: FlowSnapshot, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[Finding]:
    """Replication factors of topics to be created, against the number of brokers."""
    wanted: dict[tuple[Side, str, int], list[str]] = {}
    new = [each.remote for each in copied if each.remote_partitions is None]
    if flow.source is not None and new:
        wanted["target", "replication.factor", flow.source.settings.replication_factor] = new
    for own in snapshot.internal_topics:
        if own.name not in _side(snapshot, own.side).topics:
            wanted.setdefault((own.side, own.key, own.replication_factor), []).append(own.name)
    for (side, key, factor), topics in wanted.items():
        cluster = _side(snapshot, side)
        why = ""
        if factor < 0:
            facts = clusters.get(cluster.alias)
            factor, why = _default_factor(facts), " (default.replication.factor of the brokers)"  # noqa: PLW2901
        if factor > cluster.brokers:
            value = f"{key} is {factor}{why or _origin(flow, key)}"
            what = f"{value}, but {cluster.alias} has {counted(cluster.brokers, 'broker')}: cannot be created"
            advice = f"set {key} to {cluster.brokers}, or add brokers"
            yield Finding("error", "replication", str(flow), some(topics), what, advice)


def _default_factor(facts: ClusterFacts | None) -> int:
    values = [settings.get("default.replication.factor") for settings in facts.settings.values()] if facts else []
    return max((int(value) for value in values if value and value.isdigit()), default=-1)


def _origin(flow: FlowConfig, key: str) -> str:
    for values in (*(each.values for each in flow.connectors.values()), flow.worker.values):
        if key in values:
            return f" ({place(key, values[key].origin)})"
    return " (the default)"


def _refusals(flow: FlowConfig, snapshot: FlowSnapshot) -> Iterable[Finding]:
    for (_, topic), refused in snapshot.refusals.items():
        if refused.without:
            what = f"would be created without {', '.join(refused.without)}: {refused.text}"
            yield Finding("warning", "topics", str(flow), topic, what, "allow it on the target, or exclude that config")
        elif not refused.denied:
            what = f"would not be created: {refused.text}"
            yield Finding("error", "topics", str(flow), topic, what, "see the cluster's error")
    for topic, refused in snapshot.config_refusals.items():
        what = f"would not get {', '.join(refused.without)}: {refused.text}"
        yield Finding("warning", "topics", str(flow), topic, what, "allow it on the target, or exclude that config")


def _replicas(facts: FlowFacts) -> Iterable[Finding]:
    """MM2 logs UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE for hours; this is the cause."""
    for side, topics in facts.replicas.items():
        alias = facts.flow.flow.source if side == "source" else facts.flow.flow.target
        leaderless, short = [], []
        for topic, partitions in sorted(topics.items()):
            for each in partitions:
                if each.leader < 0:
                    leaderless.append(f"{topic}-{each.partition}")
                elif each.in_sync < each.count:
                    short.append(f"{topic}-{each.partition}")
        if leaderless:
            what = (
                f"{counted(len(leaderless), 'partition')} without a leader on {alias}: not copied until one is elected"
            )
            advice = "restart the brokers with their replicas"
            yield Finding("error", "leaders", str(facts.flow), some(leaderless), what, advice)
        if short:
            what = f"{counted(len(short), 'partition')} with replicas out of sync on {alias}"
            yield Finding(
                "warning", "leaders", str(facts.flow), some(short), what, "check for brokers that lag or are down"
            )


def _missing(flow: FlowConfig, missing: Iterable[Missing]) -> Iterable[Finding]:
    for lack in missing:
        alias = flow.flow.source if lack.side == "source" else flow.flow.target
        operations = ", ".join(map(spelled, lack.operations))
        kind, names = lack.resources[0].kind, [each.name for each in lack.resources if each.name]
        where = f"{kind} {some(names)}" if names else f"the {kind} itself"
        what = f"{operations} on {alias} is missing ({', '.join(lack.purposes)})"
        yield Finding(
            "error", "rights", str(flow), where, what, Command(lack.remedy(plan.bootstrap_of(flow, lack.side)))
        )


def _side(snapshot: FlowSnapshot, side: Side) -> ClusterSnapshot:
    return snapshot.source if side == "source" else snapshot.target
