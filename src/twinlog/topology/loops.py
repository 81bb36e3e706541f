"""Flows that keep topics' names, and so could send a record round and round: its name does not say where it has been.

Clusters are told apart by their ids: one cluster may have two aliases.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.model import Flow


@dataclass(frozen=True, slots=True)
class Way:
    """A flow that keeps names, and which topics take it."""

    flow: Flow
    selects: Callable[[str], bool]


def round_trip(topic: str, ways: Iterable[Way], ids: Mapping[str, str]) -> list[Flow]:
    """The flows by which the topic's records would come back to where they were; empty if there are none.

    `ids` has the cluster's id for each alias; an alias that is not in it stands for itself.
    """
    taken = [way.flow for way in ways if way.selects(topic)]
    for first in taken:
        if trip := _onward([first], taken, ids, {first}):
            return trip
    return []


def _onward(path: list[Flow], taken: Sequence[Flow], ids: Mapping[str, str], seen: set[Flow]) -> list[Flow]:
    """The path, extended until it is back where it began."""
    start, here = path[0].source, path[-1].target
    if ids.get(here, here) == ids.get(start, start):
        return path
    for flow in taken:
        if flow not in seen and ids.get(flow.source, flow.source) == ids.get(here, here):
            seen.add(flow)
            if trip := _onward([*path, flow], taken, ids, seen):
                return trip
    return []


def refusal(topic: str, trip: Sequence[Flow], ids: Mapping[str, str]) -> str:
    """What to tell the operator."""
    if len(trip) == 1:
        flow = trip[0]
        same = f"{flow.source} and {flow.target} are one cluster (id {ids.get(flow.source, '?')})"
        return f"{flow}: {same}, and topic {topic} keeps its name: it would be copied onto itself; correct an address"
    way = ", ".join(str(flow) for flow in trip)
    return (
        f"topic {topic} keeps its name on {way}: its records would go round for ever; exclude it from one of them "
        f"(topics.exclude), or set replication.policy.class to DefaultReplicationPolicy"
    )
