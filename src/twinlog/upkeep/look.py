"""Looks at both clusters of a flow, for those who want to know what it would do. Changes nothing.

No topic is ever made by looking: metadata is asked for without auto-creation, and nobody asks for the coordinator of a
group that is not there, for that alone would make a young cluster create __consumer_offsets.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import Connector, FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client, Metadata
from twinlog.kafka.inquiry import WantedTopic, refused_topics
from twinlog.topology import plan, rights
from twinlog.topology.configs import ConfigChange, acceptable
from twinlog.topology.plan import Match
from twinlog.topology.policy import policy_of
from twinlog.topology.rights import Holder, Resource
from twinlog.topology.selection import Side, TopicFilter, checkpoint_topics_of, offset_syncs_location, selection_of
from twinlog.topology.sight import Cluster, OwnTopic, Refusal, Sight, Topic
from twinlog.tracking import journal, source_offsets
from twinlog.upkeep import backlog
from twinlog.upkeep.checkpoints import CheckpointKeeper

Step = Callable[[str], None]  # called with what is being looked at

_PLAIN: Final = re.compile(r"[\w.-]+")  # a pattern that looks like the name of one topic


class Eyes:
    """The clients of a flow. Several roles share one, unless they come in by another door or as somebody else."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._clients: dict[tuple[Any, ...], Client] = {}

    def client(self, side: Side, role: str) -> Client:
        config = self._config(role)
        alias = self._flow.flow.source if side == "source" else self._flow.flow.target
        login = tuple(config.values[key].text if key in config.values else None for key in CONNECTION_KEYS)
        if (side, *login) not in self._clients:
            self._clients[side, *login] = Client(alias, config, f"twinlog-{self._flow.flow}-look")
        return self._clients[side, *login]

    def admin(self, side: Side) -> Admin:
        return Admin(self.client(side, f"{side}.admin"))

    def _config(self, role: str) -> ClientConfig:
        connectors: list[Connector[Any]] = list(self._flow.connectors.values())
        for name in (role, "target.producer"):  # records have a producer only where there is a source connector
            for connector in connectors:
                if name in connector.clients:
                    config: ClientConfig = connector.clients[name]
                    return config
        raise ValueError(f"{self._flow} has no client {role}")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def own_topics(flow: FlowConfig) -> list[OwnTopic]:
    """The topics beside the records that the flow keeps."""
    found: list[OwnTopic] = []
    worker = flow.worker.settings
    if flow.source is not None and flow.replicates:
        settings = flow.source.settings
        name, partitions, factor = source_offsets.offsets_topic(flow)
        found.append(OwnTopic("target", name, partitions, factor, "offset.storage.replication.factor"))
        name, factor = journal.journal_topic(flow.flow.source), worker.status_storage_replication_factor
        found.append(OwnTopic("target", name, journal.PARTITIONS, factor, "status.storage.replication.factor"))
        if settings.emit_offset_syncs_enabled:
            side, name = offset_syncs_location(flow)
            factor = settings.offset_syncs_topic_replication_factor
            found.append(OwnTopic(side, name, 1, factor, "offset-syncs.topic.replication.factor"))
    if flow.checkpoint is not None and flow.emits_checkpoints:
        name = policy_of(flow.checkpoint).checkpoints_topic(flow.checkpoint.settings.source_cluster_alias)
        factor = flow.checkpoint.settings.checkpoints_topic_replication_factor
        found.append(OwnTopic("target", name, 1, factor, "checkpoints.topic.replication.factor"))
    if flow.heartbeat is not None and flow.emits_heartbeats:
        name = policy_of(flow.heartbeat).heartbeats_topic()
        factor = flow.heartbeat.settings.heartbeats_topic_replication_factor
        found.append(OwnTopic("target", name, 1, factor, "heartbeats.topic.replication.factor"))
    return found


def look(flow: FlowConfig, step: Step) -> Sight:
    """Raises UnreachableError when one of the clusters is down."""
    eyes = Eyes(flow)
    try:
        return _look(flow, eyes, step)
    finally:
        eyes.close()


def _look(flow: FlowConfig, eyes: Eyes, step: Step) -> Sight:
    upstream, downstream = flow.flow.source, flow.flow.target
    seen: dict[Side, Metadata] = {}
    if flow.replicates or flow.emits_checkpoints:  # else it only writes heartbeats, to the target
        step(f"topics of {upstream}")
        seen["source"] = eyes.client("source", "source.admin").metadata(None)
    step(f"topics of {downstream}")
    seen["target"] = eyes.client("target", "target.admin").metadata(None)
    source, target = _cluster(upstream, seen.get("source")), _cluster(downstream, seen["target"])
    sight = Sight(source=source, target=target, own=tuple(own_topics(flow)))
    found: list[Match] = []
    if flow.replicates:
        found = plan.matches(selection_of(flow), source.topics, target.topics)
        step(f"configs and ACLs of {upstream}")
        source = _with_details(source, eyes.admin("source"), flow, [each.topic for each in found])
        step(f"configs and ACLs of {downstream}")
        remote = [each.remote for each in found if each.there is not None]
        target = _with_details(target, eyes.admin("target"), flow, remote)
        step("what is still to be copied")
        clients = eyes.client("source", "source.admin"), eyes.client("target", "target.admin")
        waits = backlog.waits(flow, *clients, found, seen["source"])
        named = _named(flow, clients[0], source)
        sight = replace(sight, source=source, target=target, waits=waits, named=named)
    if flow.emits_checkpoints:
        step(f"consumer groups of {upstream}")
        sight = replace(sight, **_groups(flow, eyes))
    step("what would be refused")
    refusals = dict(_refusals(flow, eyes, sight, found))
    sight = replace(sight, refusals=refusals, config_refusals=_config_refusals(flow, eyes, sight, found))
    step("what we may do")
    return replace(sight, rights=held(eyes, rights.needs(plan.duties(flow, sight))))


@dataclass(frozen=True, slots=True)
class Traces:
    """What the clusters have by one name: partitions of topics, None where there is none to be seen."""

    topic: int | None
    remote_name: str
    remote: int | None
    on_target: int | None  # by the name itself
    group_state: str | None  # None: no such group
    group_topics: tuple[str, ...]  # of the flow, in which the group has a position


def trace(flow: FlowConfig, name: str, step: Step) -> Traces:
    eyes = Eyes(flow)
    try:
        remote = selection_of(flow).remote_name(name) if flow.source is not None else ""
        step(f"topics of {flow.flow.source}")
        source = eyes.client("source", "source.admin").metadata([name])
        step(f"topics of {flow.flow.target}")
        target = eyes.client("target", "target.admin").metadata({name, remote} - {""})
        step(f"consumer groups of {flow.flow.source}")
        admin = eyes.admin("source")
        states = {each.group: each.state for each in admin.groups()}
        topics: set[str] = set()
        if name in states and flow.checkpoint is not None:
            wanted = checkpoint_topics_of(flow)
            topics = {place.topic for place in admin.committed([name])[0].get(name, {}) if wanted.accepts(place.topic)}
        return Traces(
            _partitions(source, name),
            remote,
            _partitions(target, remote),
            _partitions(target, name),
            states.get(name),
            tuple(sorted(topics)),
        )
    finally:
        eyes.close()


def _partitions(seen: Metadata, topic: str) -> int | None:
    info = seen.topics.get(topic)
    return None if info is None or info.error else len(info.leaders)


def _cluster(alias: str, seen: Metadata | None) -> Cluster:
    if seen is None:
        return Cluster(alias=alias, id=None, brokers=0, topics={})
    topics = {
        name: Topic(
            len(info.leaders),
            codes.name(info.error) if info.error else "",
            tuple(sorted(index for index, (leader, _) in info.leaders.items() if leader < 0)),
        )
        for name, info in seen.topics.items()
    }
    return Cluster(alias=alias, id=seen.cluster_id, brokers=len(seen.brokers), topics=topics)


def _with_details(cluster: Cluster, admin: Admin, flow: FlowConfig, topics: list[str]) -> Cluster:
    cluster = replace(cluster, configs=admin.topic_configs(topics)[0])
    if plan.syncs_acls(flow):
        try:
            return replace(cluster, acls=admin.acls())
        except RefusedError as error:
            if error.code not in codes.DENIED | {codes.UNSUPPORTED_VERSION}:
                raise
    return cluster


def _named(flow: FlowConfig, client: Client, source: Cluster) -> dict[str, bool]:
    """Topics that `topics` calls by their names, and that are not to be seen: whether they may be hidden from us."""
    selection = selection_of(flow)
    if not isinstance(selection.filter, TopicFilter):
        return {}
    names = [
        pattern
        for pattern in selection.filter.topics
        if _PLAIN.fullmatch(pattern)
        and selection.selects(pattern)
        and not any(TopicFilter((pattern,), ()).accepts(name) for name in source.topics)
    ]
    found = client.metadata(names).topics if names else {}
    return {name: info.error == codes.TOPIC_AUTHORIZATION_FAILED for name, info in found.items() if info.error}


def _groups(flow: FlowConfig, eyes: Eyes) -> dict[str, Any]:
    """As they are found when checkpoints are written."""
    unread: list[str] = []
    keeper = CheckpointKeeper(flow, lambda group, _: unread.append(group))
    try:
        keeper.refresh()
    finally:
        keeper.close()
    others = {each.group for each in eyes.admin("source").groups()} - set(keeper.groups) - set(unread)
    return {"groups": tuple(keeper.groups), "other_groups": tuple(sorted(others)), "unread_groups": tuple(unread)}


def _refusals(
    flow: FlowConfig, eyes: Eyes, sight: Sight, found: Iterable[Match]
) -> Iterable[tuple[tuple[Side, str], Refusal]]:
    """Asks whether each topic could be created, without doing it."""
    wanted: dict[Side, list[WantedTopic]] = {"source": [], "target": []}
    clusters: dict[Side, Cluster] = {"source": sight.source, "target": sight.target}
    for own in sight.own:
        if own.name not in clusters[own.side].topics:
            wanted[own.side].append(WantedTopic(own.name, own.partitions, own.replication_factor))
    if flow.source is not None:
        factor = flow.source.settings.replication_factor
        for each in found:
            if each.there is None:
                configs = plan.new_configs(flow, sight.source.configs.get(each.topic, {}))
                wanted["target"].append(WantedTopic(each.remote, each.partitions, factor, configs))
    for side, topics in wanted.items():
        if not topics:
            continue
        client, brokers = eyes.client(side, f"{side}.admin"), clusters[side].brokers
        # That there are too few brokers is told by itself; whatever else is wrong would be hidden behind it.
        asked = {each.name: replace(each, replication_factor=min(each.replication_factor, brokers)) for each in topics}
        for name, error in refused_topics(client, list(asked.values())).items():
            without = _refused_settings(client, asked[name]) if error.code in codes.BAD_CONFIG else ()
            there = error.code == codes.TOPIC_ALREADY_EXISTS
            text = "it is there, but may not be described" if there else str(error)
            yield (side, name), Refusal(text, error.code in codes.DENIED, without)


def _config_refusals(flow: FlowConfig, eyes: Eyes, sight: Sight, found: Iterable[Match]) -> dict[str, Refusal]:
    """Likewise, whether the configs of existing topics could be changed."""
    admin = eyes.admin("target")
    changes = {
        each.remote: plan.config_changes(flow, sight.source.configs[each.topic], sight.target.configs[each.remote])[0]
        for each in found
        if each.topic in sight.source.configs and each.remote in sight.target.configs
    }
    refusals: dict[str, Refusal] = {}
    for name, error in admin.alter_topic_configs(changes, validate_only=True).items():
        if error.code in codes.BAD_CONFIG:
            refusals[name] = Refusal(str(error), without=_refused_changes(admin, name, changes[name]))
        elif error.code not in codes.DENIED:
            refusals[name] = Refusal(str(error), without=tuple(change.name for change in changes[name]))
    return refusals


def _refused_settings(client: Client, topic: WantedTopic) -> tuple[str, ...]:
    """Without which configs it would be created; none, where it is not because of them."""
    if refused_topics(client, [replace(topic, configs={})]):
        return ()
    _, left = acceptable(
        list(topic.configs.items()), lambda some: not refused_topics(client, [replace(topic, configs=dict(some))])
    )
    return tuple(name for name, _ in left)


def _refused_changes(admin: Admin, topic: str, changes: list[ConfigChange]) -> tuple[str, ...]:
    _, left = acceptable(changes, lambda some: not admin.alter_topic_configs({topic: some}, validate_only=True))
    return tuple(change.name for change in left)


def held(eyes: Eyes, needs: Iterable[rights.Need]) -> dict[Holder, frozenset[str] | None]:
    """What we may do, of that which is needed."""
    asked: dict[tuple[Side, str], set[Resource]] = {}
    for need in needs:
        if not need.refused:
            asked.setdefault((need.side, need.role), set()).add(need.resource)
    found: dict[Holder, frozenset[str] | None] = {}
    for (side, role), resources in asked.items():
        admin = Admin(eyes.client(side, role))
        if rights.CLUSTER in resources:
            found[side, role, rights.CLUSTER] = admin.cluster_rights()
        names = sorted(resource.name for resource in resources if resource.kind == "topic")
        for name, ours in admin.topic_rights(names).items():
            found[side, role, Resource("topic", name)] = ours
        groups = sorted(resource.name for resource in resources if resource.kind == "group")
        for name, ours in admin.group_rights(groups).items():
            found[side, role, Resource("group", name)] = ours
    return found
