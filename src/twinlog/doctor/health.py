"""What a cluster says of itself, judged: who it is, what its clock shows. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twinlog.doctor.facts import ClusterFacts
from twinlog.doctor.findings import Finding, Status, counted
from twinlog.model import Flow

SKEW: Final = 5.0  # seconds: more than a time service leaves, less than the 30 that token checks forgive


def findings(facts: ClusterFacts) -> list[Finding]:
    alias = facts.alias
    brokers = counted(len(facts.brokers), "broker")
    found = [Finding("ok", "cluster", alias, "", f"cluster id {facts.id or 'not told'}, {brokers}"), clock(facts)]
    if facts.controller < 0:
        advice = "bring back its controllers: without one no topic is created, and no leader elected"
        found.append(Finding("error", "cluster", alias, "", "there is no active controller", advice))
    if facts.unread:
        what = f"settings of brokers cannot be read: {facts.unread}"
        advice = "grant DescribeConfigs on the cluster for this check; a flow does not need it"
        found.append(Finding("note", "settings", alias, "", what, advice))
    return found


def clock(facts: ClusterFacts) -> Finding:
    alias, reading = facts.alias, facts.clock
    advice = "let a time service (NTP) set both clocks: lives of certificates and tokens, and latencies, hang on them"
    if reading is None:
        grant = "grant Describe on the cluster for this check" if "not granted" in facts.no_clock else ""
        return Finding("note", "clock", alias, "", f"its clock cannot be read: {facts.no_clock}", grant)
    if reading.exact:
        apart = f"{abs(reading.ahead):.1f} s {'ahead of' if reading.ahead > 0 else 'behind'}"
        told = f"the clock of its controller is {apart} this machine's (give or take {reading.within:.1f} s)"
        if abs(reading.ahead) - reading.within > SKEW:
            return Finding("warning", "clock", alias, "", told, advice)
        return Finding("ok", "clock", alias, "", told)
    if reading.ahead > SKEW:
        what = f"a commit on it is dated {reading.ahead:.0f} s ahead of this machine's clock"
        return Finding("warning", "clock", alias, "", what, advice)
    what = f"its clock cannot be read exactly: {facts.no_clock}; no commit on it is dated ahead of this machine's clock"
    return Finding("note", "clock", alias, "", what)


def same_cluster(clusters: Iterable[ClusterFacts], flows: Sequence[Flow]) -> list[Finding]:
    """One cluster under two names: nearly always an address that was copied and not changed. `flows`: with records."""
    named: dict[str, list[str]] = {}
    for facts in clusters:
        if facts.id:
            named.setdefault(facts.id, []).append(facts.alias)
    found = []
    for cluster, aliases in named.items():
        if len(aliases) < 2:
            continue
        between = [flow for flow in flows if {flow.source, flow.target} <= set(aliases)]
        what = f"{' and '.join(aliases)} are one cluster (id {cluster})"
        if between:
            what += f": {', '.join(map(str, between))} would copy it into itself"
        status: Status = "error" if between else "warning"
        keys = ", ".join(f"{alias}.bootstrap.servers" for alias in aliases)
        found.append(Finding(status, "cluster", aliases[0], "", what, f"correct one of {keys}"))
    return found


def by_alias(clusters: Iterable[ClusterFacts]) -> Mapping[str, str]:
    return {facts.alias: facts.id for facts in clusters if facts.id}
