"""What a flow would do to its clusters, told from what is seen there. Pure: nothing is asked, nothing is changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.config.flows import FlowConfig
from twinlog.model import TopicPartition
from twinlog.topology import acls, configs, rights
from twinlog.topology.acls import AclBinding
from twinlog.topology.configs import ConfigChange, Entries
from twinlog.topology.loops import Way, refusal, round_trip
from twinlog.topology.rights import Duties, Missing
from twinlog.topology.selection import Side, TopicSelection, config_filter_of, selection_of
from twinlog.topology.sight import Cluster, OwnTopic, Refusal, Sight, Topic, Wait, together
from twinlog.topology.why import of_group, of_topic, place


@dataclass(frozen=True, slots=True)
class Match:
    """A topic and its remote topic, with the partitions of either; None where there is none yet."""

    topic: str
    remote: str
    partitions: int
    there: int | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    topic: str
    remote: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    wait: Wait


@dataclass(frozen=True, slots=True)
class KnownTopic:
    topic: str
    remote: str
    partitions: int
    there: int  # partitions of the remote topic
    wait: Wait

    @property
    def grows(self) -> bool:
        return self.there < self.partitions


@dataclass(frozen=True, slots=True)
class Reconfigured:
    remote: str
    name: str
    now: str | None  # None: not set
    then: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    flow: FlowConfig
    own: tuple[OwnTopic, ...] = ()
    created: tuple[NewTopic, ...] = ()
    known: tuple[KnownTopic, ...] = ()
    configs: tuple[Reconfigured, ...] = ()
    granted: tuple[AclBinding, ...] = ()
    groups: tuple[str, ...] = ()
    groups_left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by the reason
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def wait(self) -> Wait:
        return together([*(each.wait for each in self.created), *(each.wait for each in self.known)])

    @property
    def topics(self) -> list[str]:
        """Those that are copied."""
        return sorted([*(each.topic for each in self.created), *(each.topic for each in self.known)])


def matches(selection: TopicSelection, source: Mapping[str, Topic], target: Mapping[str, Topic]) -> list[Match]:
    """Every topic that can be copied, sorted."""
    found = []
    for name in sorted(source):
        if selection.selects(name) and not source[name].error:
            remote = selection.remote_name(name)
            there = target.get(remote)
            found.append(Match(name, remote, source[name].partitions, there.partitions if there else None))
    return found


def new_configs(flow: FlowConfig, entries: Entries, without: Sequence[str] = ()) -> dict[str, str]:
    """What a remote topic is created with."""
    assert flow.source is not None
    from_source = flow.source.settings.use_defaults_from == "source"
    found = configs.for_new_topic(entries, config_filter_of(flow).accepts, defaults_from_source=from_source)
    return {name: value for name, value in found.items() if name not in without}


def config_changes(flow: FlowConfig, entries: Entries, there: Entries) -> tuple[list[ConfigChange], list[ConfigChange]]:
    """What would be changed of an existing remote topic, and what would be if the target knew of it."""
    assert flow.source is not None
    if not syncs_configs(flow):
        return [], []
    from_source = flow.source.settings.use_defaults_from == "source"
    wanted = configs.changes(entries, there, config_filter_of(flow).accepts, defaults_from_source=from_source)
    return configs.known_to(there, wanted)


def syncs_configs(flow: FlowConfig) -> bool:
    settings = flow.source.settings if flow.source is not None and flow.replicates else None
    return (
        settings is not None
        and settings.sync_topic_configs_enabled
        and settings.sync_topic_configs_interval_seconds >= 0
    )


def syncs_acls(flow: FlowConfig) -> bool:
    settings = flow.source.settings if flow.source is not None and flow.replicates else None
    return settings is not None and settings.sync_topic_acls_enabled and settings.sync_topic_acls_interval_seconds >= 0


def make(flow: FlowConfig, seen: Sight) -> FlowPlan:
    source, target = seen.source, seen.target
    copied = _copied(flow, seen)
    known = tuple(
        KnownTopic(each.topic, each.remote, each.partitions, each.there, _wait(each, seen.waits))
        for each in copied
        if each.there is not None
    )
    return FlowPlan(
        flow=flow,
        own=tuple(each for each in seen.own if each.name not in _side(seen, each.side).topics),
        created=tuple(_created(flow, seen, copied)),
        known=known,
        configs=tuple(_reconfigured(flow, seen, known)),
        granted=tuple(acls.missing(_wanted_acls(flow, source), target.acls) if target.acls is not None else ()),
        groups=seen.groups,
        groups_left_out=_by_reason((name, _no_position(flow, name)) for name in seen.other_groups),
        left_out=_by_reason(_left_out(flow, source)),
        missing=tuple(rights.missing(rights.needs(duties(flow, seen)), seen.rights)),
        problems=tuple(_problems(flow, seen, copied)),
    )


def duties(flow: FlowConfig, seen: Sight) -> Duties:
    """What there is to be done; which rights that takes is said in rights.py."""
    copied = _copied(flow, seen)
    configs_too, acls_too = syncs_configs(flow), syncs_acls(flow)
    synced = seen.groups if flow.checkpoint and flow.checkpoint.settings.sync_group_offsets_enabled else ()
    return Duties(
        copied=tuple(each.topic for each in copied),
        described=tuple(each.topic for each in copied if configs_too or each.there is None),
        groups=seen.unread_groups,
        synced=synced,
        positions=tuple(each.remote for each in copied) if synced else (),
        reads_acls=acls_too,
        written=tuple(each.remote for each in copied),
        grown=tuple(each.remote for each in copied if each.there is not None and each.there < each.partitions),
        configured=tuple(each.remote for each in copied if configs_too),
        grants_acls=bool(_wanted_acls(flow, seen.source)) and seen.target.acls is not None,
        own=tuple((each.side, each.name) for each in seen.own),
        hidden=tuple(name for name, hidden in seen.named.items() if hidden),
        not_created=tuple(where for where, refused in seen.refusals.items() if refused.denied),
    )


def _copied(flow: FlowConfig, seen: Sight) -> list[Match]:
    return matches(selection_of(flow), seen.source.topics, seen.target.topics) if flow.replicates else []


def _created(flow: FlowConfig, seen: Sight, copied: Iterable[Match]) -> Iterable[NewTopic]:
    for each in copied:
        if each.there is None and flow.source is not None:
            factor = flow.source.settings.replication_factor
            refused = seen.refusals.get(("target", each.remote), Refusal(""))
            settings = new_configs(flow, seen.source.configs.get(each.topic, {}), refused.without)
            yield NewTopic(each.topic, each.remote, each.partitions, factor, settings, _wait(each, seen.waits))


def _wanted_acls(flow: FlowConfig, source: Cluster) -> list[AclBinding]:
    if not syncs_acls(flow):
        return []
    selection = selection_of(flow)
    return acls.for_remote_topics(source.acls or (), selection.selects, selection.remote_name)


def without_loops(plan: FlowPlan, flows: Iterable[FlowConfig], ids: Mapping[str, str]) -> FlowPlan:
    """Without the topics that would go round for ever, which the flow refuses. `flows` are all of the file.

    `ids` has the cluster's id for each alias, as far as they are known.
    """
    ways = [Way(flow.flow, _keeps(selection_of(flow))) for flow in flows if flow.replicates]
    trips = {name: round_trip(name, ways, ids) for name in plan.topics}
    refused = {name: trip for name, trip in trips.items() if plan.flow.flow in trip}
    if not refused:
        return plan
    first = min(refused)
    others = f" (and so with {len(refused) - 1:,} more)" if len(refused) > 1 else ""
    reasons = _by_reason((name, f"it would go round by {', '.join(map(str, trip))}") for name, trip in refused.items())
    return replace(
        plan,
        created=tuple(each for each in plan.created if each.topic not in refused),
        known=tuple(each for each in plan.known if each.topic not in refused),
        configs=tuple(each for each in plan.configs if each.remote not in refused),
        left_out={**plan.left_out, **reasons},
        problems=(refusal(first, refused[first], ids) + others, *plan.problems),
    )


def _keeps(selection: TopicSelection) -> Callable[[str], bool]:
    """Whether a topic takes the flow under the name that it has."""
    return lambda topic: selection.remote_name(topic) == topic and selection.selects(topic)


def _side(seen: Sight, side: Side) -> Cluster:
    return seen.source if side == "source" else seen.target


def _wait(each: Match, waits: Mapping[TopicPartition, Wait]) -> Wait:
    nothing = Wait(0, 0)
    return together(waits.get(TopicPartition(each.topic, index), nothing) for index in range(each.partitions))


def _reconfigured(flow: FlowConfig, seen: Sight, known: Iterable[KnownTopic]) -> Iterable[Reconfigured]:
    for each in known:
        entries, there = seen.source.configs.get(each.topic), seen.target.configs.get(each.remote)
        if entries is None or there is None:  # one of them may not be read
            continue
        refused = seen.config_refusals.get(each.remote, Refusal(""))
        for change in config_changes(flow, entries, there)[0]:
            now = there.get(change.name)
            own = now is not None and now.source == configs.TOPIC_CONFIG
            if change.name not in refused.without:
                yield Reconfigured(each.remote, change.name, now.value if own and now else None, change.value)


def _left_out(flow: FlowConfig, source: Cluster) -> Iterable[tuple[str, str]]:
    if not flow.replicates:
        return
    selection = selection_of(flow)
    for name in sorted(source.topics):
        answer = of_topic(flow, name, selection)
        if not answer.yes:
            yield name, str(answer).removeprefix("not replicated: ")
        elif error := source.topics[name].error:
            yield name, f"{source.alias} says {error}"


def _no_position(flow: FlowConfig, group: str) -> str:
    answer = of_group(flow, group)
    return "no position in a topic of this flow" if answer.yes else str(answer).partition(": ")[2]


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """The most frequent reason first."""
    found: dict[str, list[str]] = {}
    for name, reason in pairs:
        found.setdefault(reason, []).append(name)
    return {reason: tuple(names) for reason, names in sorted(found.items(), key=lambda item: -len(item[1]))}


def _problems(flow: FlowConfig, seen: Sight, found: Sequence[Match]) -> Iterable[str]:
    """What would go wrong, or other than an operator may expect."""
    source, target = seen.source, seen.target
    if source.id is not None and source.id == target.id and any(each.topic != each.remote for each in found):
        yield f"{source.alias} and {target.alias} are one cluster (id {source.id}): is one of the addresses wrong?"
    factor = flow.source.settings.replication_factor if flow.source else -1
    if factor > target.brokers and (new := sum(each.there is None for each in found)):
        yield _too_many("replication.factor", factor, target, flow, "1 topic" if new == 1 else f"{new:,} topics")
    for own in seen.own:
        cluster = _side(seen, own.side)
        if own.name not in cluster.topics and own.replication_factor > cluster.brokers:
            yield _too_many(own.key, own.replication_factor, cluster, flow, own.name)
    for (_, name), refused in seen.refusals.items():
        if refused.without:
            yield f"{name} would be created without {', '.join(refused.without)}: {refused.text}"
        elif not refused.denied:
            yield f"{name} would not be created: {refused.text}"
    for name, refused in seen.config_refusals.items():
        yield f"{name} would not get {', '.join(refused.without)}: {refused.text}"
    yield from _unknown_configs(flow, seen, found)
    if target.acls is None and (wanted := _wanted_acls(flow, source)):
        yield f"{len(wanted):,} ACLs of {source.alias} would not be copied: {target.alias} has no authorizer"
    for name, hidden in seen.named.items():
        if not hidden:
            yield f"topics names {name}, but {source.alias} has no such topic"
    twice: dict[str, list[str]] = {}
    troubles: dict[str, list[TopicPartition]] = {}
    for each in found:
        twice.setdefault(each.remote, []).append(each.topic)
        if each.there is not None and each.there > each.partitions:
            yield (
                f"{each.remote} has {each.there} partitions on {target.alias}, {each.topic} only {each.partitions} "
                f"on {source.alias}: records keep their partitions, but whoever writes there by key would choose others"
            )
        for index in source.topics[each.topic].leaderless:
            troubles.setdefault(f"no leader on {source.alias}: nothing is copied until there is one", []).append(
                TopicPartition(each.topic, index)
            )
        for index in range(each.partitions):
            wait = seen.waits.get(at := TopicPartition(each.topic, index))
            if wait is not None and wait.trouble:
                troubles.setdefault(wait.trouble, []).append(at)
    for trouble, places in troubles.items():
        others = f" and {len(places) - 1:,} more partitions" if len(places) > 1 else ""
        yield f"{places[0]}{others}: {trouble}"
    for remote, names in twice.items():
        if len(names) > 1:
            yield f"{' and '.join(names)} would both be copied to {remote}: exclude all but one (topics.exclude)"


def _unknown_configs(flow: FlowConfig, seen: Sight, found: Iterable[Match]) -> Iterable[str]:
    unknown: dict[str, int] = {}
    for each in found:
        if each.topic in seen.source.configs and each.remote in seen.target.configs:
            for change in config_changes(flow, seen.source.configs[each.topic], seen.target.configs[each.remote])[1]:
                unknown[change.name] = unknown.get(change.name, 0) + 1
    for name, count in unknown.items():
        topics = "1 topic" if count == 1 else f"{count:,} topics"
        yield f"{seen.target.alias} does not know the topic config {name}: it is left out for {topics}"


def _too_many(key: str, factor: int, cluster: Cluster, flow: FlowConfig, what: str) -> str:
    where = ""
    for values in (*(each.values for each in flow.connectors.values()), flow.worker.values):
        if key in values:
            where = f" ({place(key, values[key].origin)})"
            break
    brokers = "1 broker" if cluster.brokers == 1 else f"{cluster.brokers} brokers"
    return f"{key} is {factor}{where}, but {cluster.alias} has {brokers}: {what} cannot be created"
