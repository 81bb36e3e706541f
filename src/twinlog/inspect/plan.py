"""What a flow would do to its clusters, from a snapshot of them. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.config.flows import FlowConfig
from twinlog.inspect import permissions
from twinlog.inspect.permissions import Missing, RequiredAccess
from twinlog.inspect.snapshot import Backlog, ClusterSnapshot, FlowSnapshot, Refusal, Topic, total
from twinlog.inspect.why import of_group, of_topic, place
from twinlog.kafka.resources import TOPIC_CONFIG, AclBinding, ConfigChange
from twinlog.mm2 import acls, topic_configs
from twinlog.mm2.cycles import CyclePath, refusal, round_trip
from twinlog.mm2.group_offsets import GroupOffsetChange
from twinlog.mm2.selection import Side, TopicSelection, config_filter_of, selection_of
from twinlog.mm2.topic_configs import Entries
from twinlog.model import TopicPartition
from twinlog.sync.internal_topics import InternalTopic


@dataclass(frozen=True, slots=True)
class Match:
    """A topic and its remote topic."""

    topic: str
    remote: str
    partitions: int
    remote_partitions: int | None  # None: it does not exist yet


@dataclass(frozen=True, slots=True)
class NewTopic:
    topic: str
    remote: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    backlog: Backlog


@dataclass(frozen=True, slots=True)
class KnownTopic:
    topic: str
    remote: str
    partitions: int
    remote_partitions: int
    backlog: Backlog

    @property
    def grows(self) -> bool:
        return self.remote_partitions < self.partitions


@dataclass(frozen=True, slots=True)
class Reconfigured:
    remote: str
    name: str
    now: str | None  # None: not set
    then: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    flow: FlowConfig
    internal_topics: tuple[InternalTopic, ...] = ()  # to be created
    created: tuple[NewTopic, ...] = ()
    known: tuple[KnownTopic, ...] = ()
    configs: tuple[Reconfigured, ...] = ()
    granted: tuple[AclBinding, ...] = ()
    groups: tuple[str, ...] = ()
    group_offsets: tuple[GroupOffsetChange, ...] = ()  # to be committed on the target
    groups_left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by reason
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def backlog(self) -> Backlog:
        return total([*(each.backlog for each in self.created), *(each.backlog for each in self.known)])

    @property
    def topics(self) -> list[str]:
        """The source's topics that are copied."""
        return sorted([*(each.topic for each in self.created), *(each.topic for each in self.known)])


def matches(selection: TopicSelection, source: Mapping[str, Topic], target: Mapping[str, Topic]) -> list[Match]:
    """Every topic that can be copied, sorted."""
    found = []
    for name in sorted(source):
        if selection.selects(name) and not source[name].error:
            remote = selection.remote_name(name)
            existing = target.get(remote)
            found.append(Match(name, remote, source[name].partitions, existing.partitions if existing else None))
    return found


def new_configs(flow: FlowConfig, entries: Entries, without: Sequence[str] = ()) -> dict[str, str]:
    """The configs with which a remote topic is created."""
    assert flow.source is not None
    from_source = flow.source.settings.use_defaults_from == "source"
    found = topic_configs.for_new_topic(entries, config_filter_of(flow).accepts, defaults_from_source=from_source)
    return {name: value for name, value in found.items() if name not in without}


def config_changes(
    flow: FlowConfig, entries: Entries, remote: Entries
) -> tuple[list[ConfigChange], list[ConfigChange]]:
    """(changes to an existing remote topic, changes of configs that the target does not know)."""
    assert flow.source is not None
    if not syncs_configs(flow):
        return [], []
    from_source = flow.source.settings.use_defaults_from == "source"
    wanted = topic_configs.changes(entries, remote, config_filter_of(flow).accepts, defaults_from_source=from_source)
    return topic_configs.known_to(remote, wanted)


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


def make(flow: FlowConfig, seen: FlowSnapshot) -> FlowPlan:
    source, target = seen.source, seen.target
    copied = _copied(flow, seen)
    known = tuple(
        KnownTopic(each.topic, each.remote, each.partitions, each.remote_partitions, _backlog(each, seen.backlogs))
        for each in copied
        if each.remote_partitions is not None
    )
    return FlowPlan(
        flow=flow,
        internal_topics=tuple(each for each in seen.internal_topics if each.name not in _side(seen, each.side).topics),
        created=tuple(_created(flow, seen, copied)),
        known=known,
        configs=tuple(_reconfigured(flow, seen, known)),
        granted=tuple(acls.missing(_wanted_acls(flow, source), target.acls) if target.acls is not None else ()),
        groups=seen.groups,
        group_offsets=seen.group_offsets,
        groups_left_out=_by_reason((name, _group_reason(flow, name)) for name in seen.other_groups),
        left_out=_by_reason(_left_out(flow, source)),
        missing=tuple(permissions.missing(permissions.needs(required_access(flow, seen)), seen.rights)),
        problems=tuple(_problems(flow, seen, copied)),
    )


def required_access(flow: FlowConfig, seen: FlowSnapshot) -> RequiredAccess:
    """The resources that the flow uses, by purpose; permissions.py has the permissions that each needs."""
    copied = _copied(flow, seen)
    configs_too, acls_too = syncs_configs(flow), syncs_acls(flow)
    synced = seen.groups if flow.syncs_group_offsets else ()
    return RequiredAccess(
        copied=tuple(each.topic for each in copied),
        described=tuple(each.topic for each in copied if configs_too or each.remote_partitions is None),
        groups=seen.unread_groups,
        synced=synced,
        positions=tuple(each.remote for each in copied) if synced else (),
        reads_acls=acls_too,
        written=tuple(each.remote for each in copied),
        grown=tuple(
            each.remote
            for each in copied
            if each.remote_partitions is not None and each.remote_partitions < each.partitions
        ),
        configured=tuple(each.remote for each in copied if configs_too),
        grants_acls=bool(_wanted_acls(flow, seen.source)) and seen.target.acls is not None,
        internal_topics=tuple((each.side, each.name) for each in seen.internal_topics),
        hidden=tuple(name for name, hidden in seen.named.items() if hidden),
        not_created=tuple(where for where, refused in seen.refusals.items() if refused.denied),
    )


def _copied(flow: FlowConfig, seen: FlowSnapshot) -> list[Match]:
    return matches(selection_of(flow), seen.source.topics, seen.target.topics) if flow.replicates else []


def _created(flow: FlowConfig, seen: FlowSnapshot, copied: Iterable[Match]) -> Iterable[NewTopic]:
    for each in copied:
        if each.remote_partitions is None and flow.source is not None:
            factor = flow.source.settings.replication_factor
            refused = seen.refusals.get(("target", each.remote), Refusal(""))
            settings = new_configs(flow, seen.source.configs.get(each.topic, {}), refused.without)
            yield NewTopic(each.topic, each.remote, each.partitions, factor, settings, _backlog(each, seen.backlogs))


def _wanted_acls(flow: FlowConfig, source: ClusterSnapshot) -> list[AclBinding]:
    if not syncs_acls(flow):
        return []
    selection = selection_of(flow)
    return acls.for_remote_topics(source.acls or (), selection.selects, selection.remote_name)


def without_loops(plan: FlowPlan, flows: Iterable[FlowConfig], ids: Mapping[str, str]) -> FlowPlan:
    """Without the topics that would make a replication cycle, which the flow refuses. `flows`: all of the file.

    `ids` has the cluster id of each alias, as far as known.
    """
    paths = [CyclePath(flow.flow, keeps_name(selection_of(flow))) for flow in flows if flow.replicates]
    trips = {name: round_trip(name, paths, ids) for name in plan.topics}
    refused = {name: trip for name, trip in trips.items() if plan.flow.flow in trip}
    if not refused:
        return plan
    first = min(refused)
    others = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
    reasons = _by_reason(
        (name, f"replication cycle over {', '.join(map(str, trip))}") for name, trip in refused.items()
    )
    return replace(
        plan,
        created=tuple(each for each in plan.created if each.topic not in refused),
        known=tuple(each for each in plan.known if each.topic not in refused),
        configs=tuple(each for each in plan.configs if each.remote not in refused),
        left_out={**plan.left_out, **reasons},
        problems=(refusal(first, refused[first], ids) + others, *plan.problems),
    )


def keeps_name(selection: TopicSelection) -> Callable[[str], bool]:
    """Whether the flow copies a topic under the same name."""
    return lambda topic: selection.remote_name(topic) == topic and selection.selects(topic)


def _side(seen: FlowSnapshot, side: Side) -> ClusterSnapshot:
    return seen.source if side == "source" else seen.target


def _backlog(each: Match, backlogs: Mapping[TopicPartition, Backlog]) -> Backlog:
    nothing = Backlog(0, 0)
    return total(backlogs.get(TopicPartition(each.topic, index), nothing) for index in range(each.partitions))


def _reconfigured(flow: FlowConfig, seen: FlowSnapshot, known: Iterable[KnownTopic]) -> Iterable[Reconfigured]:
    for each in known:
        entries, remote = seen.source.configs.get(each.topic), seen.target.configs.get(each.remote)
        if entries is None or remote is None:  # one of them may not be described
            continue
        refused = seen.config_refusals.get(each.remote, Refusal(""))
        for change in config_changes(flow, entries, remote)[0]:
            now = remote.get(change.name)
            own = now is not None and now.source == TOPIC_CONFIG
            if change.name not in refused.without:
                yield Reconfigured(each.remote, change.name, now.value if own and now else None, change.value)


def _left_out(flow: FlowConfig, source: ClusterSnapshot) -> Iterable[tuple[str, str]]:
    if not flow.replicates:
        return
    selection = selection_of(flow)
    for name in sorted(source.topics):
        answer = of_topic(flow, name, selection)
        if not answer.yes:
            yield name, answer.detail
        elif error := source.topics[name].error:
            yield name, f"{source.alias}: {error}"


def _group_reason(flow: FlowConfig, group: str) -> str:
    answer = of_group(flow, group)
    return "no committed offset in a topic of this flow" if answer.yes else answer.detail


def _by_reason(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Names by reason, the most frequent first."""
    found: dict[str, list[str]] = {}
    for name, reason in pairs:
        found.setdefault(reason, []).append(name)
    return {reason: tuple(names) for reason, names in sorted(found.items(), key=lambda item: -len(item[1]))}


def _problems(flow: FlowConfig, seen: FlowSnapshot, found: Sequence[Match]) -> Iterable[str]:
    """What would fail, or differ from what an operator may expect."""
    source, target = seen.source, seen.target
    if source.id is not None and source.id == target.id and any(each.topic != each.remote for each in found):
        yield f"{source.alias} and {target.alias} are the same cluster (id {source.id}): check bootstrap.servers"
    factor = flow.source.settings.replication_factor if flow.source else -1
    if factor > target.brokers and (new := sum(each.remote_partitions is None for each in found)):
        yield _too_many("replication.factor", factor, target, flow, "1 topic" if new == 1 else f"{new:,} topics")
    for own in seen.internal_topics:
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
            yield f"topics lists {name}, but {source.alias} has no such topic"
    by_remote: dict[str, list[str]] = {}
    problems: dict[str, list[TopicPartition]] = {}
    for each in found:
        by_remote.setdefault(each.remote, []).append(each.topic)
        if each.remote_partitions is not None and each.remote_partitions > each.partitions:
            yield (
                f"{each.remote} has {each.remote_partitions} partitions on {target.alias}, {each.topic} only "
                f"{each.partitions} on {source.alias}: records keep their partitions, but a producer that writes to "
                f"{each.remote} by key would choose others"
            )
        for index in source.topics[each.topic].leaderless:
            problems.setdefault(f"no leader on {source.alias}: nothing is copied until one is elected", []).append(
                TopicPartition(each.topic, index)
            )
        for index in range(each.partitions):
            backlog = seen.backlogs.get(tp := TopicPartition(each.topic, index))
            if backlog is not None and backlog.problem:
                problems.setdefault(backlog.problem, []).append(tp)
    for problem, tps in problems.items():
        others = f" and {len(tps) - 1:,} more partitions" if len(tps) > 1 else ""
        yield f"{tps[0]}{others}: {problem}"
    for remote, names in by_remote.items():
        if len(names) > 1:
            yield f"{' and '.join(names)} would all be copied to {remote}; exclude all but one (topics.exclude)"


def _unknown_configs(flow: FlowConfig, seen: FlowSnapshot, found: Iterable[Match]) -> Iterable[str]:
    unknown: dict[str, int] = {}
    for each in found:
        if each.topic in seen.source.configs and each.remote in seen.target.configs:
            for change in config_changes(flow, seen.source.configs[each.topic], seen.target.configs[each.remote])[1]:
                unknown[change.name] = unknown.get(change.name, 0) + 1
    for name, count in unknown.items():
        topics = "1 topic" if count == 1 else f"{count:,} topics"
        yield f"{seen.target.alias} does not support the topic config {name}: not copied for {topics}"


def _too_many(key: str, factor: int, cluster: ClusterSnapshot, flow: FlowConfig, what: str) -> str:
    where = ""
    for values in (*(each.values for each in flow.connectors.values()), flow.worker.values):
        if key in values:
            where = f" ({place(key, values[key].origin)})"
            break
    brokers = "1 broker" if cluster.brokers == 1 else f"{cluster.brokers} brokers"
    return f"{key} is {factor}{where}, but {cluster.alias} has {brokers}: {what} cannot be created"


def alias_of(flow: FlowConfig, side: Side) -> str:
    return flow.flow.source if side == "source" else flow.flow.target


def bootstrap_of(flow: FlowConfig, side: Side) -> str:
    for connector in flow.connectors.values():
        if (value := connector.clients[f"{side}.admin"].values.get("bootstrap.servers")) is not None:
            return str(value.shown)
    return "..."
