"""Inspects both clusters of a flow. Read-only.

No topic is created by inspection: metadata requests disable auto-creation, and the coordinator of a group that does not
exist is not looked up, because that would make a new cluster create __consumer_offsets.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.inspect import backlog, permissions, plan
from twinlog.inspect.permissions import Resource, RightsKey
from twinlog.inspect.plan import Match
from twinlog.inspect.snapshot import ClusterSnapshot, FlowSnapshot, Refusal, Topic
from twinlog.kafka import error_codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.admin_queries import WantedTopic, refused_topics
from twinlog.kafka.client import Client, Metadata
from twinlog.kafka.resources import ConfigChange
from twinlog.mm2.group_offsets import GroupOffsetChange
from twinlog.mm2.selection import Side, checkpoint_topics_of, selection_of
from twinlog.mm2.topic_configs import acceptable
from twinlog.sync.checkpoints import CheckpointSync
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.internal_topics import internal_topics

Step = Callable[[str], None]  # called with the name of the current step


def inspect_flow(flow: FlowConfig, step: Step) -> FlowSnapshot:
    """Raises UnreachableError if one of the clusters is down."""
    with FlowClients(flow) as clients:
        return _inspect(flow, clients, step)


def plan_flows(flows: Iterable[FlowConfig], every: Sequence[FlowConfig], step: Step) -> list[plan.FlowPlan]:
    """What these flows would do; `every`: all flows of the configuration, to find cycles."""
    plans: list[plan.FlowPlan] = []
    ids: dict[str, str] = {}
    for flow in flows:
        snapshot = inspect_flow(flow, step)
        plans.append(plan.make(flow, snapshot))
        ids |= {cluster.alias: cluster.id for cluster in (snapshot.source, snapshot.target) if cluster.id}
    return [plan.without_loops(each, every, ids) for each in plans]


def _inspect(flow: FlowConfig, clients: FlowClients, step: Step) -> FlowSnapshot:
    upstream, downstream = flow.flow.source, flow.flow.target
    seen: dict[Side, Metadata] = {}
    if flow.replicates or flow.emits_checkpoints:  # otherwise it only writes heartbeats, to the target
        step(f"topics of {upstream}")
        seen["source"] = clients.client("source.admin").metadata(None)
    step(f"topics of {downstream}")
    seen["target"] = clients.client("target.admin").metadata(None)
    source, target = _cluster(upstream, seen.get("source")), _cluster(downstream, seen["target"])
    snapshot = FlowSnapshot(source=source, target=target, internal_topics=tuple(internal_topics(flow)))
    found: list[Match] = []
    if flow.replicates:
        found = plan.matches(selection_of(flow), source.topics, target.topics)
        step(f"configs and ACLs of {upstream}")
        source = _with_details(source, Admin(clients.client("source.admin")), flow, [each.topic for each in found])
        step(f"configs and ACLs of {downstream}")
        remote = [each.remote for each in found if each.remote_partitions is not None]
        target = _with_details(target, Admin(clients.client("target.admin")), flow, remote)
        step("backlog")
        readers = clients.client("source.admin"), clients.client("target.admin")
        backlogs = backlog.backlogs(flow, *readers, found, seen["source"])
        named = _named(flow, readers[0], source)
        snapshot = replace(snapshot, source=source, target=target, backlogs=backlogs, named=named)
    if flow.emits_checkpoints:
        step(f"consumer groups of {upstream}")
        snapshot = replace(snapshot, **_groups(flow, clients))
    step("dry run of topic creations and changes")
    refusals = dict(_refusals(flow, clients, snapshot, found))
    snapshot = replace(snapshot, refusals=refusals, config_refusals=_config_refusals(flow, clients, snapshot, found))
    step("permissions")
    return replace(snapshot, rights=granted(clients, permissions.needs(plan.required_access(flow, snapshot))))


@dataclass(frozen=True, slots=True)
class NameLookup:
    """Topics and groups of one name: partition counts, None if there is no such topic or it may not be described."""

    topic: int | None
    remote_name: str
    remote: int | None
    on_target: int | None  # with the name itself
    group_state: str | None  # None: no such group
    group_topics: tuple[str, ...]  # of the flow, with committed offsets of the group


def lookup(flow: FlowConfig, name: str, step: Step) -> NameLookup:
    with FlowClients(flow) as clients:
        remote = selection_of(flow).remote_name(name) if flow.source is not None else ""
        step(f"topics of {flow.flow.source}")
        source = clients.client("source.admin").metadata([name])
        step(f"topics of {flow.flow.target}")
        target = clients.client("target.admin").metadata({name, remote} - {""})
        step(f"consumer groups of {flow.flow.source}")
        admin = Admin(clients.client("source.admin"))
        states = {each.group: each.state for each in admin.groups()}
        topics: set[str] = set()
        if name in states and flow.checkpoint is not None:
            wanted = checkpoint_topics_of(flow)
            topics = {tp.topic for tp in admin.committed([name])[0].get(name, {}) if wanted.accepts(tp.topic)}
        return NameLookup(
            _partitions(source, name),
            remote,
            _partitions(target, remote),
            _partitions(target, name),
            states.get(name),
            tuple(sorted(topics)),
        )


def _partitions(seen: Metadata, topic: str) -> int | None:
    info = seen.topics.get(topic)
    return None if info is None or info.error else len(info.leaders)


def _cluster(alias: str, seen: Metadata | None) -> ClusterSnapshot:
    if seen is None:
        return ClusterSnapshot(alias=alias, id=None, brokers=0, topics={})
    topics = {
        name: Topic(
            len(info.leaders),
            error_codes.name(info.error) if info.error else "",
            tuple(sorted(index for index, (leader, _) in info.leaders.items() if leader < 0)),
        )
        for name, info in seen.topics.items()
    }
    return ClusterSnapshot(alias=alias, id=seen.cluster_id, brokers=len(seen.brokers), topics=topics)


def _with_details(cluster: ClusterSnapshot, admin: Admin, flow: FlowConfig, topics: list[str]) -> ClusterSnapshot:
    cluster = replace(cluster, configs=admin.topic_configs(topics)[0])
    if plan.syncs_acls(flow):
        try:
            return replace(cluster, acls=admin.acls())
        except RefusedError as error:
            if error.code not in error_codes.UNAUTHORIZED | {error_codes.UNSUPPORTED_VERSION}:
                raise
    return cluster


def _named(flow: FlowConfig, client: Client, source: ClusterSnapshot) -> dict[str, bool]:
    """Topics listed by name in `topics` that the metadata lacks: whether they may not be described."""
    names = selection_of(flow).unseen(source.topics)
    found = client.metadata(names).topics if names else {}
    return {name: info.error == error_codes.TOPIC_AUTHORIZATION_FAILED for name, info in found.items() if info.error}


def _groups(flow: FlowConfig, clients: FlowClients) -> dict[str, Any]:
    """As found by the checkpoint sync."""
    unread: list[str] = []
    checkpoints = CheckpointSync(flow, lambda group, _: unread.append(group))
    offsets = list[GroupOffsetChange]()
    try:
        checkpoints.refresh()
        if flow.syncs_group_offsets:
            with contextlib.suppress(RefusedError):  # missing permissions are reported separately
                offsets = checkpoints.preview()
    finally:
        checkpoints.close()
    every = {each.group for each in Admin(clients.client("source.admin")).groups()}
    return {
        "groups": tuple(checkpoints.groups),
        "other_groups": tuple(sorted(every - {*checkpoints.groups, *unread})),
        "unread_groups": tuple(unread),
        "group_offsets": tuple(offsets),
    }


def _refusals(
    flow: FlowConfig, clients: FlowClients, snapshot: FlowSnapshot, found: Iterable[Match]
) -> Iterable[tuple[tuple[Side, str], Refusal]]:
    """Validates the creation of each topic, without creating it."""
    wanted: dict[Side, list[WantedTopic]] = {"source": [], "target": []}
    clusters: dict[Side, ClusterSnapshot] = {"source": snapshot.source, "target": snapshot.target}
    for own in snapshot.internal_topics:
        if own.name not in clusters[own.side].topics:
            wanted[own.side].append(WantedTopic(own.name, own.partitions, own.replication_factor))
    if flow.source is not None:
        factor = flow.source.settings.replication_factor
        for each in found:
            if each.remote_partitions is None:
                configs = plan.new_configs(flow, snapshot.source.configs.get(each.topic, {}))
                wanted["target"].append(WantedTopic(each.remote, each.partitions, factor, configs))
    for side, topics in wanted.items():
        if not topics:
            continue
        client, brokers = clients.client(f"{side}.admin"), clusters[side].brokers
        # Too few brokers are reported separately; that error would hide all others.
        asked = {each.name: replace(each, replication_factor=min(each.replication_factor, brokers)) for each in topics}
        for name, error in refused_topics(client, list(asked.values())).items():
            without = _refused_settings(client, asked[name]) if error.code in error_codes.BAD_CONFIG else ()
            exists = error.code == error_codes.TOPIC_ALREADY_EXISTS
            text = "exists, but may not be described" if exists else str(error)
            yield (side, name), Refusal(text, error.code in error_codes.UNAUTHORIZED, without)


def _config_refusals(
    flow: FlowConfig, clients: FlowClients, snapshot: FlowSnapshot, found: Iterable[Match]
) -> dict[str, Refusal]:
    """Validates the config changes of existing topics, without making them."""
    admin = Admin(clients.client("target.admin"))
    changes = {
        each.remote: plan.config_changes(
            flow, snapshot.source.configs[each.topic], snapshot.target.configs[each.remote]
        )[0]
        for each in found
        if each.topic in snapshot.source.configs and each.remote in snapshot.target.configs
    }
    refusals: dict[str, Refusal] = {}
    for name, error in admin.alter_topic_configs(changes, validate_only=True).items():
        if error.code in error_codes.BAD_CONFIG:
            refusals[name] = Refusal(str(error), without=_refused_changes(admin, name, changes[name]))
        elif error.code not in error_codes.UNAUTHORIZED:
            refusals[name] = Refusal(str(error), without=tuple(change.name for change in changes[name]))
    return refusals


def _refused_settings(client: Client, topic: WantedTopic) -> tuple[str, ...]:
    """The configs without which it could be created; none if they are not the cause."""
    if refused_topics(client, [replace(topic, configs={})]):
        return ()
    _, left = acceptable(
        list(topic.configs.items()), lambda some: not refused_topics(client, [replace(topic, configs=dict(some))])
    )
    return tuple(name for name, _ in left)


def _refused_changes(admin: Admin, topic: str, changes: list[ConfigChange]) -> tuple[str, ...]:
    _, left = acceptable(changes, lambda some: not admin.alter_topic_configs({topic: some}, validate_only=True))
    return tuple(change.name for change in left)


def granted(clients: FlowClients, needs: Iterable[permissions.Need]) -> dict[RightsKey, frozenset[str] | None]:
    """The operations granted, on each resource that is needed."""
    asked: dict[tuple[Side, str], set[Resource]] = {}
    for need in needs:
        if not need.refused:
            asked.setdefault((need.side, need.role), set()).add(need.resource)
    found: dict[RightsKey, frozenset[str] | None] = {}
    for (side, role), resources in asked.items():
        admin = Admin(clients.client(role))
        if permissions.CLUSTER in resources:
            found[side, role, permissions.CLUSTER] = admin.cluster_rights()
        names = sorted(resource.name for resource in resources if resource.kind == "topic")
        for name, ours in admin.topic_rights(names).items():
            found[side, role, Resource("topic", name)] = ours
        groups = sorted(resource.name for resource in resources if resource.kind == "group")
        for name, ours in admin.group_rights(groups).items():
            found[side, role, Resource("group", name)] = ours
    return found
