"""Inspects both clusters of a flow, as `twinlog plan` does, and the replicas of its topics. Read-only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.inspect import permissions, plan
from twinlog.inspect.clusters import granted, inspect_flow
from twinlog.inspect.doctor.facts import ClusterSide, FlowFacts
from twinlog.inspect.doctor.topic_limits import pairs
from twinlog.inspect.snapshot import ClusterSnapshot, FlowSnapshot, Topic
from twinlog.kafka import admin_queries
from twinlog.kafka.admin import Admin
from twinlog.kafka.admin_queries import Replicas
from twinlog.kafka.resources import ConfigEntry
from twinlog.mm2.selection import Side
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.internal_topics import internal_topics

Step = Callable[[str], None]
_SIDES: Final[tuple[Side, ...]] = ("source", "target")


def inspect(flow: FlowConfig, unreachable: Sequence[str], incomplete: Sequence[str], step: Step) -> FlowFacts:
    """`incomplete`: clusters with some unreachable brokers. Queries that need every broker, such as listing groups,
    would wait for those again and again.
    """
    with FlowClients(flow) as clients:
        if unreachable or incomplete:
            missed = (*unreachable, *(f"some brokers of {alias}" for alias in incomplete))
            sides = tuple(_single_sides(flow, clients, unreachable, step))
            return FlowFacts(flow=flow, snapshot=None, unreachable=missed, sides=sides)
        try:
            snapshot = inspect_flow(flow, step)
        except TwinlogError as error:
            sides = tuple(_single_sides(flow, clients, (), step))
            return FlowFacts(flow=flow, snapshot=None, problem=error.problem, advice=error.advice, sides=sides)
        step("replicas and leaders")
        return _with_replicas(flow, snapshot, clients)


def _with_replicas(flow: FlowConfig, snapshot: FlowSnapshot, clients: FlowClients) -> FlowFacts:
    own = {side: _own(snapshot, side) for side in _SIDES}
    copied = pairs(flow, snapshot)
    names: dict[Side, list[str]] = {
        "source": [each.topic for each in copied],
        "target": [each.remote for each in copied if each.remote_partitions is not None],
    }
    try:
        return _facts(flow, snapshot, clients, names, own)
    except TwinlogError as error:  # the cluster has gone down meanwhile
        return FlowFacts(flow=flow, snapshot=None, problem=error.problem, advice=error.advice)


def _facts(
    flow: FlowConfig,
    snapshot: FlowSnapshot,
    clients: FlowClients,
    names: Mapping[Side, list[str]],
    own: Mapping[Side, list[str]],
) -> FlowFacts:
    return FlowFacts(
        flow=flow,
        snapshot=snapshot,
        replicas={side: _replicas(clients, side, names[side] + own[side]) for side in _SIDES},
        own_configs={
            (side, name): entries for side in _SIDES for name, entries in _configs(clients, side, own[side]).items()
        },
    )


def _own(snapshot: FlowSnapshot, side: Side) -> list[str]:
    """The internal topics that exist."""
    cluster = snapshot.source if side == "source" else snapshot.target
    return [topic.name for topic in snapshot.internal_topics if topic.side == side and topic.name in cluster.topics]


def _replicas(clients: FlowClients, side: Side, names: list[str]) -> dict[str, tuple[Replicas, ...]]:
    return admin_queries.replicas(clients.client(f"{side}.admin"), names) if names else {}


def _configs(clients: FlowClients, side: Side, names: list[str]) -> dict[str, dict[str, ConfigEntry]]:
    return Admin(clients.client(f"{side}.admin")).topic_configs(names)[0] if names else {}


# A single cluster


def _single_sides(
    flow: FlowConfig, clients: FlowClients, unreachable: Sequence[str], step: Step
) -> Iterable[ClusterSide]:
    for side, alias in zip(_SIDES, (flow.flow.source, flow.flow.target), strict=True):
        if alias in unreachable or (side == "source" and not (flow.replicates or flow.emits_checkpoints)):
            continue
        step(f"permissions on {alias}")
        try:
            yield ClusterSide(side, _single_side(flow, clients, side, alias))
        except TwinlogError:  # the cluster's own checks report the cause
            continue


def _single_side(flow: FlowConfig, clients: FlowClients, side: Side, alias: str) -> FlowSnapshot:
    metadata = clients.client(f"{side}.admin").metadata(None)
    topics = {name: Topic(len(info.leaders), "?" if info.error else "") for name, info in metadata.topics.items()}
    nothing = ClusterSnapshot(alias="", id=None, brokers=0, topics={})
    cluster = ClusterSnapshot(alias=alias, id=metadata.cluster_id, brokers=len(metadata.brokers), topics=topics)
    source, target = (cluster, nothing) if side == "source" else (nothing, cluster)
    own = tuple(topic for topic in internal_topics(flow) if topic.side == side)
    snapshot = FlowSnapshot(source=source, target=target, internal_topics=own)
    needs = [need for need in permissions.needs(plan.required_access(flow, snapshot)) if need.side == side]
    return replace(snapshot, rights=granted(clients, needs))
