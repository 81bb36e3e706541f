"""Replication cycles between flows that keep topic names: such a name does not show where a record came from.

Clusters are identified by their ids, because a cluster may have several aliases.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinlog.model import Flow

CYCLE: Final = "cycle"  # the kind of the event
_SHOWN: Final = 5  # topics named in an event


@dataclass(frozen=True, slots=True)
class Cycle:
    """Topics of a source that are not replicated because, by their names, they were copied from `origin`."""

    origin: str
    topics: tuple[str, ...]

    def text(self, source: str) -> str:
        count = len(self.topics)
        what = "1 topic is" if count == 1 else f"{count:,} topics are"
        shown = ", ".join(self.topics[:_SHOWN]) + (f" and {count - _SHOWN:,} more" if count > _SHOWN else "")
        return (
            f"{what} not replicated (replication cycle, by name copied from {self.origin}): {shown}; "
            f"a topic first written on {source} needs another name"
        )

    def event(self, source: str, now_ms: int) -> dict[str, Any]:
        return {
            "time": now_ms, "kind": CYCLE, "amount": len(self.topics), "about": self.origin, "text": self.text(source),
            "topics": list(self.topics[:_SHOWN]),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class CyclePath:
    """A flow that keeps topic names, and the topics that it copies."""

    flow: Flow
    selects: Callable[[str], bool]


def round_trip(topic: str, paths: Iterable[CyclePath], ids: Mapping[str, str]) -> list[Flow]:
    """The flows of a cycle that the topic's records would take; empty if there is none.

    `ids` has the cluster id of each alias; an alias without one counts as a cluster of its own.
    """
    flows = [path.flow for path in paths if path.selects(topic)]
    for first in flows:
        if trip := _onward([first], flows, ids, {first}):
            return trip
    return []


def _onward(path: list[Flow], flows: Sequence[Flow], ids: Mapping[str, str], seen: set[Flow]) -> list[Flow]:
    """The path, extended until it is back at its start; empty if it never is."""
    start, here = path[0].source, path[-1].target
    if ids.get(here, here) == ids.get(start, start):
        return path
    for flow in flows:
        if flow not in seen and ids.get(flow.source, flow.source) == ids.get(here, here):
            seen.add(flow)
            if trip := _onward([*path, flow], flows, ids, seen):
                return trip
    return []


def refusal(topic: str, trip: Sequence[Flow], ids: Mapping[str, str]) -> str:
    """Why the topic is not replicated, and what to do, in one line."""
    return "; ".join(refusal_parts(topic, trip, ids))


def refusal_parts(topic: str, trip: Sequence[Flow], ids: Mapping[str, str]) -> tuple[str, str]:
    """(problem, advice)."""
    if len(trip) == 1:
        flow = trip[0]
        same = f"{flow.source} and {flow.target} are the same cluster (id {ids.get(flow.source, '?')})"
        return (
            f"{flow}: {same}: topic {topic}, which keeps its name, would be copied onto itself",
            "correct bootstrap.servers",
        )
    flows = ", ".join(map(str, trip))
    return (
        f"topic {topic}: replication cycle: it keeps its name on {flows}",
        "exclude it from one of them (topics.exclude), or set replication.policy.class to DefaultReplicationPolicy",
    )
