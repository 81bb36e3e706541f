"""What is seen of a flow's topics on both sides, judged: leaders, replicas, rights, loops, refusals. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from twinlog.config.flows import FlowConfig
from twinlog.doctor.facts import ClusterFacts, FlowFacts
from twinlog.doctor.findings import Finding, counted, halves, some
from twinlog.doctor.limits import Pair, limits, pairs
from twinlog.topology import plan, rights
from twinlog.topology.loops import Way, refusal, round_trip
from twinlog.topology.policy import policy_of
from twinlog.topology.rights import Missing, spelled
from twinlog.topology.selection import Side, TopicSelection, selection_of
from twinlog.topology.sight import Cluster, Sight
from twinlog.topology.why import place


def findings(
    facts: FlowFacts, clusters: Mapping[str, ClusterFacts], flows: Sequence[FlowConfig], ids: Mapping[str, str]
) -> list[Finding]:
    """`flows` are all of the configuration: it takes several to go round."""
    name, sight = str(facts.flow), facts.sight
    if sight is None:
        what = f"topics were not compared; not reached: {', '.join(facts.away)}"
        away = Finding("note", "topics", name, "", what)
        return [away if facts.away else Finding("error", "topics", name, "", *halves(facts.trouble)), *_half(facts)]
    copied = pairs(facts.flow, sight)
    found = [
        *_topics(facts, sight, copied),
        *_loops(facts.flow, copied, flows, ids),
        *_factors(facts.flow, sight, copied, clusters),
        *_refusals(facts.flow, sight),
        *_replicas(facts),
        *limits(facts, sight, copied, clusters),
        *_beats(facts.flow, sight, flows),
        *_missing(facts.flow, rights.missing(rights.needs(plan.duties(facts.flow, sight)), sight.rights)),
    ]
    if not any(each.check == "rights" for each in found):
        found.append(Finding("ok", "rights", name, "", "no permission is missing"))
    return found


def _half(facts: FlowFacts) -> Iterable[Finding]:
    """Of the one cluster that is there."""
    flow = facts.flow
    for half in facts.halves:
        alias = flow.flow.source if half.side == "source" else flow.flow.target
        sight = half.sight
        needs = [need for need in rights.needs(plan.duties(flow, sight)) if need.side == half.side]
        missing = [*_factors(flow, sight, (), {}), *_missing(flow, rights.missing(needs, sight.rights))]
        yield from missing
        if not missing:
            yield Finding("ok", "rights", str(flow), "", f"no permission is missing on {alias}, as far as can be seen")


def _topics(facts: FlowFacts, sight: Sight, copied: Sequence[Pair]) -> Iterable[Finding]:
    flow, name = facts.flow, str(facts.flow)
    if not flow.replicates:
        yield Finding("ok", "topics", name, "", "copies no records")
        return
    if copied:
        new = sum(each.there is None for each in copied)
        yield Finding("ok", "topics", name, "", f"{counted(len(copied), 'topic')} to be copied, {new} to be created")
    else:
        what = f"no topic of {flow.flow.source} is to be copied"
        yield Finding(
            "warning", "topics", name, "topics", what, "check topics and topics.exclude: twinlog why CONFIG NAME"
        )
    for topic, hidden in sight.named.items():
        if not hidden:  # those that are, lack a right
            what = f"topics names it, but {flow.flow.source} has no such topic"
            yield Finding("warning", "topics", name, topic, what, "create it, or correct the name")
    targets: dict[str, list[str]] = {}
    for each in copied:
        targets.setdefault(each.remote, []).append(each.topic)
    for remote, topics in targets.items():
        if len(topics) > 1:
            what = f"{' and '.join(topics)} would both be copied there"
            yield Finding("error", "topics", name, remote, what, "exclude all but one (topics.exclude)")
    troubles: dict[str, list[str]] = {}
    for where, wait in sight.waits.items():
        if wait.trouble:
            troubles.setdefault(wait.trouble, []).append(str(where))
    for trouble, places in troubles.items():
        yield Finding("warning", "topics", name, some(places), *halves(trouble))


def _beats(flow: FlowConfig, sight: Sight, flows: Sequence[FlowConfig]) -> Iterable[Finding]:
    """Where nobody writes heartbeats into the source, none arrive, and MM2's log is full of questions for them."""
    if flow.source is None or not flow.replicates or not flow.source.settings.heartbeats_replication_enabled:
        return
    topic, source = policy_of(flow.source).heartbeats_topic(), flow.flow.source
    if topic in sight.source.topics or any(each.flow.target == source and each.emits_heartbeats for each in flows):
        return
    what = f"{source} has no such topic, so no heartbeats are copied: tools that look for them find none"
    advice = f"let a flow into {source} emit heartbeats, or set heartbeats.replication.enabled = false"
    yield Finding("note", "topics", str(flow), topic, what, advice)


def _loops(
    flow: FlowConfig, copied: Sequence[Pair], flows: Sequence[FlowConfig], ids: Mapping[str, str]
) -> Iterable[Finding]:
    ways = [Way(each.flow, _keeps(selection_of(each))) for each in flows if each.replicates]
    trips = {each.topic: round_trip(each.topic, ways, ids) for each in copied}
    caught = [topic for topic, trip in trips.items() if flow.flow in trip]
    if caught:
        what, _, advice = refusal(caught[0], trips[caught[0]], ids).rpartition("; ")
        yield Finding("error", "loops", str(flow), some(caught), what, advice)


def _keeps(selection: TopicSelection) -> Callable[[str], bool]:
    return lambda topic: selection.remote_name(topic) == topic and selection.selects(topic)


def _factors(
    flow: FlowConfig, sight: Sight, copied: Sequence[Pair], clusters: Mapping[str, ClusterFacts]
) -> Iterable[Finding]:
    """Every setting of a replication factor whose topics are yet to be created, against the number of brokers."""
    wanted: dict[tuple[Side, str, int], list[str]] = {}
    new = [each.remote for each in copied if each.there is None]
    if flow.source is not None and new:
        wanted["target", "replication.factor", flow.source.settings.replication_factor] = new
    for own in sight.own:
        if own.name not in _side(sight, own.side).topics:
            wanted.setdefault((own.side, own.key, own.replication_factor), []).append(own.name)
    for (side, key, factor), topics in wanted.items():
        cluster = _side(sight, side)
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


def _refusals(flow: FlowConfig, sight: Sight) -> Iterable[Finding]:
    for (_, topic), refused in sight.refusals.items():
        if refused.without:
            what = f"would be created without {', '.join(refused.without)}: {refused.text}"
            yield Finding("warning", "topics", str(flow), topic, what, "allow it on the target, or exclude that config")
        elif not refused.denied:
            what = f"would not be created: {refused.text}"
            yield Finding("error", "topics", str(flow), topic, what, "see what the cluster says of it")
    for topic, refused in sight.config_refusals.items():
        what = f"would not get {', '.join(refused.without)}: {refused.text}"
        yield Finding("warning", "topics", str(flow), topic, what, "allow it on the target, or exclude that config")


def _replicas(facts: FlowFacts) -> Iterable[Finding]:
    """MM2 says UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE for hours; what is behind it is said here."""
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
            what = f"{counted(len(leaderless), 'partition')} without a leader on {alias}: they wait until there is one"
            advice = "bring back the brokers that have them"
            yield Finding("error", "leaders", str(facts.flow), some(leaderless), what, advice)
        if short:
            what = f"{counted(len(short), 'partition')} with fewer replicas in sync than there are on {alias}"
            yield Finding(
                "warning", "leaders", str(facts.flow), some(short), what, "check the brokers that lag, or are down"
            )


def _missing(flow: FlowConfig, missing: Iterable[Missing]) -> Iterable[Finding]:
    for lack in missing:
        alias = flow.flow.source if lack.side == "source" else flow.flow.target
        operations = ", ".join(map(spelled, lack.operations))
        kind, names = lack.resources[0].kind, [each.name for each in lack.resources if each.name]
        where = f"{kind} {some(names)}" if names else f"the {kind} itself"
        what = f"{operations} on {alias} is missing ({', '.join(lack.purposes)})"
        yield Finding("error", "rights", str(flow), where, what, lack.remedy(_bootstrap(flow, lack.side)))


def _bootstrap(flow: FlowConfig, side: Side) -> str:
    for connector in flow.connectors.values():
        if (value := connector.clients[f"{side}.admin"].values.get("bootstrap.servers")) is not None:
            return str(value.shown)
    return "..."


def _side(sight: Sight, side: Side) -> Cluster:
    return sight.source if side == "source" else sight.target
