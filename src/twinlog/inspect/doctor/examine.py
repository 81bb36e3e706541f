"""Runs all checks of the doctor. Read-only."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from twinlog.config.flows import Config, FlowConfig
from twinlog.errors import TwinlogError
from twinlog.inspect.doctor import (
    certificates,
    cluster_facts,
    cluster_health,
    flow_checks,
    flow_facts,
    machine,
    mm2_log,
    reachability,
    versions,
)
from twinlog.inspect.doctor.endpoints import clients_of, endpoints
from twinlog.inspect.doctor.facts import Address, ClusterFacts, Endpoint, FlowFacts, ProbeResult
from twinlog.inspect.doctor.findings import CONFIGURATION, Finding
from twinlog.inspect.doctor.parallel import run_parallel
from twinlog.inspect.doctor.probe import probe
from twinlog.inspect.doctor.reachability import ClusterReach
from twinlog.kafka.connect import addresses
from twinlog.mm2.selection import Side

Step = Callable[[str], None]

# Seconds
_PROBE: Final = 30.0  # for all steps at one address; each has its own, shorter limit
_CLUSTER: Final = 60.0
_FLOW: Final = 180.0


def examine(
    config: Config,
    chosen: Sequence[FlowConfig],
    clusters: Collection[str],
    step: Step,
    log: Iterable[str] | None = None,
) -> list[Finding]:
    """`chosen`: the flows to check; `clusters`: those to probe; `log`: lines of MM2's log to explain."""
    found = [
        Finding(each.level, "configuration", CONFIGURATION, each.where, each.text)
        for each in config.problems
        if each.level != "note"
    ]
    found += machine.findings(machine.inspect())
    reaches, invalid = _reach_all(endpoints(config, chosen, clusters), step)
    found += invalid
    found += _endpoint_findings(reaches)
    seen = _clusters(reaches, step)
    ids = cluster_health.by_alias(seen.values())
    for alias, facts in seen.items():
        found += cluster_health.findings(facts)
        found += versions.findings(alias, facts.versions, _sides(alias, chosen))
    found += cluster_health.same_cluster(seen.values(), [flow.flow for flow in chosen if flow.replicates])
    incomplete = {reach.endpoint.alias for reach in reaches if reach.open and not reach.reaches_all}
    for snapshot in _flows([flow for flow in chosen if set(_ends(flow)) & set(clusters)], seen, incomplete, step):
        try:
            found += flow_checks.findings(snapshot, seen, config.flows, ids)
        except TwinlogError as error:  # raised by a custom filter or policy
            found.append(Finding("error", "configuration", str(snapshot.flow), "", error.problem, error.advice))
    if log is not None:
        found += mm2_log.findings(mm2_log.matches(log), found)
    return found


def _ends(flow: FlowConfig) -> list[str]:
    """The clusters that it uses: a flow that only writes heartbeats does not use its source."""
    return list(dict.fromkeys(alias for alias, *_ in clients_of(flow)))


def _sides(alias: str, chosen: Sequence[FlowConfig]) -> list[Side]:
    found: list[Side] = []
    if any(flow.flow.source == alias and flow.replicates for flow in chosen):
        found.append("source")
    if any(flow.flow.target == alias for flow in chosen):
        found.append("target")
    return found


# Endpoints


def _reach_all(every: Sequence[Endpoint], step: Step) -> tuple[list[ClusterReach], list[Finding]]:
    """Probes bootstrap.servers first, then the addresses that brokers advertise."""
    found: list[Finding] = []
    places: list[tuple[Endpoint, list[Address]]] = []
    for endpoint in every:
        try:
            places.append((endpoint, list(dict.fromkeys(addresses(endpoint.config)))))
        except (TypeError, ValueError):  # missing for this client, or a placeholder; the configuration warns, too
            what = "no valid addresses"
            where = f"bootstrap.servers ({endpoint.user})"
            found.append(Finding("error", "connection", endpoint.alias, where, what, "set it to host:port,host:port"))
    results = _probe_all(
        [(endpoint, at) for endpoint, bootstrap in places for at in bootstrap], "bootstrap.servers", step
    )
    first = [
        ClusterReach(endpoint, at, {place: results[endpoint, place] for place in at if (endpoint, place) in results})
        for endpoint, at in places
    ]
    others = [
        (reach.endpoint, at)
        for reach in first
        for at in dict.fromkeys(reach.brokers.values())
        if at not in set(reach.bootstrap)
    ]
    results = _probe_all(others, "addresses that brokers advertise", step)
    return [
        replace(
            reach,
            results={**reach.results, **{at: one for (end, at), one in results.items() if end is reach.endpoint}},
        )
        for reach in first
    ], found


def _probe_all(
    places: Sequence[tuple[Endpoint, Address]], what: str, step: Step
) -> dict[tuple[Endpoint, Address], ProbeResult]:
    step(what)
    return run_parallel({(endpoint, at): partial(probe, endpoint.config, *at) for endpoint, at in places}, _PROBE)


def _endpoint_findings(reaches: Sequence[ClusterReach]) -> list[Finding]:
    found: list[Finding] = []
    now = dt.datetime.now(dt.UTC)
    for reach in reaches:
        alone = sum(other.endpoint.alias == reach.endpoint.alias for other in reaches) == 1
        found += reachability.findings(reach, alone=alone)
        try:
            found += certificates.findings(reach, certificates.stored(reach.endpoint.config), now)
        except TwinlogError as error:
            if not any(each.stage == "tls" for each in reach.results.values()):  # otherwise the probe reports it
                found.append(certificates.unreadable(reach.endpoint.alias, error))
    return list(dict.fromkeys(found))  # two endpoints may share a store


# Clusters and flows


def _clusters(reaches: Sequence[ClusterReach], step: Step) -> dict[str, ClusterFacts]:
    """By the admin client's endpoint if it is open, otherwise by any."""
    reached: dict[str, ClusterReach] = {}
    for reach in reaches:
        admin = any(role.endswith("admin") for role in reach.endpoint.roles)
        if reach.open and (admin or reach.endpoint.alias not in reached):
            reached[reach.endpoint.alias] = reach
    step(f"settings and clocks of {', '.join(reached)}")
    return run_parallel({alias: partial(cluster_facts.inspect, reach) for alias, reach in reached.items()}, _CLUSTER)


def _flows(
    chosen: Sequence[FlowConfig], reached: Collection[str], incomplete: Collection[str], step: Step
) -> list[FlowFacts]:
    """If one cluster of a flow is unreachable, the other one is inspected."""
    work = {}
    for at, flow in enumerate(chosen):
        unreachable = [end for end in _ends(flow) if end not in reached]
        partly = [end for end in _ends(flow) if end in reached and end in incomplete]
        work[at] = partial(flow_facts.inspect, flow, unreachable, partly, _prefixed(str(flow), step))
    found = run_parallel(work, _FLOW)
    late = f"inspection took longer than {_FLOW:.0f} s"
    return [
        found.get(at) or FlowFacts(flow=flow, snapshot=None, problem=late, advice="retry with --flow")
        for at, flow in enumerate(chosen)
    ]


def _prefixed(flow: str, step: Step) -> Step:
    return lambda text: step(f"{flow}: {text}")
