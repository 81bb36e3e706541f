"""Findings about a cluster itself: its id, controller and clock. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twinlog.inspect.doctor.facts import ClusterFacts
from twinlog.inspect.doctor.findings import Finding, Status
from twinlog.model import Flow
from twinlog.text import counted

SKEW: Final = 5.0  # seconds: more than NTP leaves, less than the 30 that token validation tolerates


def findings(facts: ClusterFacts) -> list[Finding]:
    alias = facts.alias
    brokers = counted(len(facts.brokers), "broker")
    found = [Finding("ok", "cluster", alias, "", f"cluster id {facts.id or 'unknown'}, {brokers}"), clock(facts)]
    if facts.controller < 0:
        advice = "restart its controllers: without one no topic is created and no leader elected"
        found.append(Finding("error", "cluster", alias, "", "no active controller", advice))
    if facts.unread:
        what = f"broker settings cannot be read: {facts.unread}"
        advice = "grant DescribeConfigs on the cluster for this check; a flow does not need it"
        found.append(Finding("note", "settings", alias, "", what, advice))
    return found


def clock(facts: ClusterFacts) -> Finding:
    alias, reading = facts.alias, facts.clock
    advice = "synchronize both clocks (NTP): certificates, tokens and latencies depend on them"
    if reading is None:
        grant = "grant Describe on the cluster for this check" if facts.clock_denied else ""
        return Finding("note", "clock", alias, "", f"its clock cannot be read: {facts.no_clock}", grant)
    if reading.exact:
        apart = f"{abs(reading.ahead):.1f} s {'ahead of' if reading.ahead > 0 else 'behind'}"
        what = f"its controller's clock is {apart} this machine's (± {reading.within:.1f} s)"
        if abs(reading.ahead) - reading.within > SKEW:
            return Finding("warning", "clock", alias, "", what, advice)
        return Finding("ok", "clock", alias, "", what)
    if reading.ahead > SKEW:
        what = f"a commit on it is dated {reading.ahead:.0f} s ahead of this machine's clock"
        return Finding("warning", "clock", alias, "", what, advice)
    what = f"its clock cannot be read exactly: {facts.no_clock}; no commit on it is dated ahead of this machine's clock"
    return Finding("note", "clock", alias, "", what)


def same_cluster(clusters: Iterable[ClusterFacts], flows: Sequence[Flow]) -> list[Finding]:
    """One cluster under two aliases: mostly an address copied by mistake. `flows`: those that replicate."""
    named: dict[str, list[str]] = {}
    for facts in clusters:
        if facts.id:
            named.setdefault(facts.id, []).append(facts.alias)
    found = []
    for cluster, aliases in named.items():
        if len(aliases) < 2:
            continue
        between = [flow for flow in flows if {flow.source, flow.target} <= set(aliases)]
        what = f"{' and '.join(aliases)} are the same cluster (id {cluster})"
        if between:
            what += f": {', '.join(map(str, between))} would copy it into itself"
        status: Status = "error" if between else "warning"
        keys = ", ".join(f"{alias}.bootstrap.servers" for alias in aliases)
        found.append(Finding(status, "cluster", aliases[0], "", what, f"correct one of {keys}"))
    return found


def by_alias(clusters: Iterable[ClusterFacts]) -> Mapping[str, str]:
    return {facts.alias: facts.id for facts in clusters if facts.id}
