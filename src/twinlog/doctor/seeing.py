"""Looks at both clusters of a flow, as `twinlog plan` does, and at the replicas of its topics. Changes nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.doctor.facts import FlowFacts, HalfSight
from twinlog.doctor.limits import pairs
from twinlog.errors import TwinlogError
from twinlog.kafka import checkup
from twinlog.kafka.checkup import Replicas
from twinlog.topology import plan, rights
from twinlog.topology.configs import ConfigEntry
from twinlog.topology.selection import Side
from twinlog.topology.sight import Cluster, Sight, Topic
from twinlog.upkeep.look import Eyes, held, look, own_topics

Step = Callable[[str], None]
_SIDES: Final[tuple[Side, ...]] = ("source", "target")


def seen(flow: FlowConfig, away: Sequence[str], lame: Sequence[str], step: Step) -> FlowFacts:
    """`away`: those of its clusters that were not reached. `lame`: those of which some brokers were not: whoever asks
    each broker, as one must to see groups, would wait for these again and again.
    """
    eyes = Eyes(flow)
    try:
        if away or lame:
            missed = (*away, *(f"some brokers of {alias}" for alias in lame))
            return FlowFacts(flow=flow, sight=None, away=missed, halves=tuple(_halves(flow, eyes, away, step)))
        try:
            sight = look(flow, step)
        except TwinlogError as error:
            return FlowFacts(flow=flow, sight=None, trouble=str(error), halves=tuple(_halves(flow, eyes, (), step)))
        step("replicas and leaders")
        return _with_replicas(flow, sight, eyes)
    finally:
        eyes.close()


def _with_replicas(flow: FlowConfig, sight: Sight, eyes: Eyes) -> FlowFacts:
    own = {side: _own(sight, side) for side in _SIDES}
    copied = pairs(flow, sight)
    names: dict[Side, list[str]] = {
        "source": [each.topic for each in copied],
        "target": [each.remote for each in copied if each.there is not None],
    }
    try:
        return _facts(flow, sight, eyes, names, own)
    except TwinlogError as error:  # it went away meanwhile
        return FlowFacts(flow=flow, sight=None, trouble=str(error))


def _facts(
    flow: FlowConfig, sight: Sight, eyes: Eyes, names: Mapping[Side, list[str]], own: Mapping[Side, list[str]]
) -> FlowFacts:
    return FlowFacts(
        flow=flow,
        sight=sight,
        replicas={side: _replicas(eyes, side, names[side] + own[side]) for side in _SIDES},
        own_configs={
            (side, name): entries for side in _SIDES for name, entries in _configs(eyes, side, own[side]).items()
        },
    )


def _own(sight: Sight, side: Side) -> list[str]:
    """The topics beside the records that are there."""
    cluster = sight.source if side == "source" else sight.target
    return [topic.name for topic in sight.own if topic.side == side and topic.name in cluster.topics]


def _replicas(eyes: Eyes, side: Side, names: list[str]) -> dict[str, tuple[Replicas, ...]]:
    return checkup.replicas(eyes.client(side, f"{side}.admin"), names) if names else {}


def _configs(eyes: Eyes, side: Side, names: list[str]) -> dict[str, dict[str, ConfigEntry]]:
    return eyes.admin(side).topic_configs(names)[0] if names else {}


# One side alone


def _halves(flow: FlowConfig, eyes: Eyes, away: Sequence[str], step: Step) -> Iterable[HalfSight]:
    for side, alias in zip(_SIDES, (flow.flow.source, flow.flow.target), strict=True):
        if alias in away or (side == "source" and not (flow.replicates or flow.emits_checkpoints)):
            continue
        step(f"permissions on {alias}")
        try:
            yield HalfSight(side, _half(flow, eyes, side, alias))
        except TwinlogError:  # what keeps us from it is said where the cluster itself was tried
            continue


def _half(flow: FlowConfig, eyes: Eyes, side: Side, alias: str) -> Sight:
    metadata = eyes.client(side, f"{side}.admin").metadata(None)
    topics = {name: Topic(len(info.leaders), "?" if info.error else "") for name, info in metadata.topics.items()}
    nothing = Cluster(alias="", id=None, brokers=0, topics={})
    there = Cluster(alias=alias, id=metadata.cluster_id, brokers=len(metadata.brokers), topics=topics)
    source, target = (there, nothing) if side == "source" else (nothing, there)
    own = tuple(topic for topic in own_topics(flow) if topic.side == side)
    sight = Sight(source=source, target=target, own=own)
    needs = [need for need in rights.needs(plan.duties(flow, sight)) if need.side == side]
    return replace(sight, rights=held(eyes, needs))
