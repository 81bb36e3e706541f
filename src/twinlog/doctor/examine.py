"""The door of this room: tries everything that can be tried, and says what was found. Nothing is changed anywhere."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

from twinlog.config.flows import Config, FlowConfig
from twinlog.doctor import certificates, cluster, flows, health, machine, reach, seeing, traces, versions
from twinlog.doctor.aside import side_by_side
from twinlog.doctor.doors import clients_of, doors
from twinlog.doctor.facts import Address, ClusterFacts, Door, FlowFacts, Knock
from twinlog.doctor.findings import CONFIGURATION, Finding, halves
from twinlog.doctor.knock import knock
from twinlog.doctor.reach import Way
from twinlog.errors import TwinlogError
from twinlog.kafka.dial import addresses
from twinlog.topology.selection import Side

Step = Callable[[str], None]

_KNOCK: Final = 30.0  # seconds for all steps at one address; each has its own, shorter limit
_CLUSTER: Final = 60.0
_FLOW: Final = 180.0


def examine(
    config: Config,
    chosen: Sequence[FlowConfig],
    clusters: Collection[str],
    step: Step,
    log: Iterable[str] | None = None,
) -> list[Finding]:
    """`chosen`: the flows to be looked at; `clusters`: those that are knocked at; `log`: lines of MM2's, to explain."""
    found = [
        Finding(each.level, "configuration", CONFIGURATION, each.where, each.text)
        for each in config.problems
        if each.level != "note"
    ]
    found += machine.findings(machine.looked_at())
    ways, badly = _ways(doors(config, chosen, clusters), step)
    found += badly
    found += _doors(ways)
    seen = _clusters(ways, step)
    ids = health.by_alias(seen.values())
    for alias, facts in seen.items():
        found += health.findings(facts)
        found += versions.findings(alias, facts.versions, _sides(alias, chosen))
    found += health.same_cluster(seen.values(), [flow.flow for flow in chosen if flow.replicates])
    lame = {way.door.alias for way in ways if way.open and not way.reaches_all}
    for sight in _flows([flow for flow in chosen if set(_ends(flow)) & set(clusters)], seen, lame, step):
        try:
            found += flows.findings(sight, seen, config.flows, ids)
        except TwinlogError as error:  # of a filter or policy of the operator's own
            found.append(Finding("error", "configuration", str(sight.flow), "", *halves(str(error))))
    if log is not None:
        found += traces.findings(traces.recognised(log), found)
    return found


def _ends(flow: FlowConfig) -> list[str]:
    """The clusters that it has to do with: one that only writes heartbeats never looks at its source."""
    return list(dict.fromkeys(alias for alias, *_ in clients_of(flow)))


def _sides(alias: str, chosen: Sequence[FlowConfig]) -> list[Side]:
    found: list[Side] = []
    if any(flow.flow.source == alias and flow.replicates for flow in chosen):
        found.append("source")
    if any(flow.flow.target == alias for flow in chosen):
        found.append("target")
    return found


# Doors


def _ways(every: Sequence[Door], step: Step) -> tuple[list[Way], list[Finding]]:
    """First all of bootstrap.servers, then the brokers that are told of there."""
    found: list[Finding] = []
    places: list[tuple[Door, list[Address]]] = []
    for door in every:
        try:
            places.append((door, list(dict.fromkeys(addresses(door.config)))))
        except (TypeError, ValueError):  # missing for this client, or a placeholder: the configuration warns of it, too
            what = "no addresses that could be tried"
            where = f"bootstrap.servers ({door.user})"
            found.append(
                Finding("error", "connection", door.alias, where, what, "give the brokers as host:port,host:port")
            )
    knocks = _knock([(door, at) for door, bootstrap in places for at in bootstrap], "bootstrap.servers", step)
    first = [
        Way(door, at, {place: knocks[door, place] for place in at if (door, place) in knocks}) for door, at in places
    ]
    others = [
        (way.door, at) for way in first for at in dict.fromkeys(way.brokers.values()) if at not in set(way.bootstrap)
    ]
    knocks = _knock(others, "addresses that brokers advertise", step)
    return [
        Way(way.door, way.bootstrap, {**way.knocks, **{at: k for (door, at), k in knocks.items() if door is way.door}})
        for way in first
    ], found


def _knock(places: Sequence[tuple[Door, Address]], what: str, step: Step) -> dict[tuple[Door, Address], Knock]:
    step(what)
    return side_by_side({(door, at): partial(knock, door.config, *at) for door, at in places}, _KNOCK)


def _doors(ways: Sequence[Way]) -> list[Finding]:
    found: list[Finding] = []
    now = dt.datetime.now(dt.UTC)
    for way in ways:
        alone = sum(other.door.alias == way.door.alias for other in ways) == 1
        found += reach.findings(way, alone=alone)
        try:
            found += certificates.findings(way, certificates.stored(way.door.config), now)
        except TwinlogError as error:
            if not any(each.stage == "tls" for each in way.knocks.values()):  # else it is said there
                found.append(certificates.unreadable(way.door.alias, error))
    return list(dict.fromkeys(found))  # two doors may have a store in common


# Clusters and flows


def _clusters(ways: Sequence[Way], step: Step) -> dict[str, ClusterFacts]:
    """Through an administrator's door, if one is open; else through any."""
    inside: dict[str, Way] = {}
    for way in ways:
        admin = any(role.endswith("admin") for role in way.door.roles)
        if way.open and (admin or way.door.alias not in inside):
            inside[way.door.alias] = way
    step(f"settings and clocks of {', '.join(inside)}")
    return side_by_side({alias: partial(cluster.looked_at, way) for alias, way in inside.items()}, _CLUSTER)


def _flows(
    chosen: Sequence[FlowConfig], reached: Collection[str], lame: Collection[str], step: Step
) -> list[FlowFacts]:
    """A flow of which one end is away is looked at from the other."""
    work = {}
    for at, flow in enumerate(chosen):
        away = [end for end in _ends(flow) if end not in reached]
        limping = [end for end in _ends(flow) if end in reached and end in lame]
        work[at] = partial(seeing.seen, flow, away, limping, _saying(str(flow), step))
    found = side_by_side(work, _FLOW)
    late = f"looking at it took longer than {_FLOW:.0f} s: try again with --flow"
    return [found.get(at) or FlowFacts(flow=flow, sight=None, trouble=late) for at, flow in enumerate(chosen)]


def _saying(flow: str, step: Step) -> Step:
    return lambda text: step(f"{flow}: {text}")
