"""What of a flow runs by itself, and what is to be done to get from what runs to what is wanted. Pure.

A flow has up to four parts: its records (a query), the configs and ACLs of its topics, its checkpoints, its heartbeats.
Each depends on its own connector, so a connector that is paused, changed or restarted touches no other part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from twinlog.config.flows import Connector, FlowConfig

RECORDS: Final = "records"
TOPICS: Final = "topics"
CHECKPOINTS: Final = "checkpoints"
HEARTBEATS: Final = "heartbeats"
# Those of each connector; the first is the one that its state is told by
SUBJECTS: Final = {"source": (RECORDS, TOPICS), "checkpoint": (CHECKPOINTS,), "heartbeat": (HEARTBEATS,)}


class Part(NamedTuple):
    flow: str  # with its label
    subject: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One flow as it shall be run; what its connectors' states forbid is not run."""

    config: FlowConfig
    paths: tuple[str, ...]  # the files that Spark's processes read it from
    tasks: int = 1
    restarts: tuple[tuple[str, int], ...] = ()  # by subject: how often it was started anew on request

    @property
    def name(self) -> str:
        return str(self.config)

    @property
    def subjects(self) -> list[str]:
        config = self.config
        found = [RECORDS, TOPICS] if config.replicates else []
        found += [CHECKPOINTS] if config.emits_checkpoints else []
        return found + ([HEARTBEATS] if config.emits_heartbeats else [])

    def likeness(self, subject: str) -> object:
        """All that the part depends on: it must be started anew if, and only if, this changes."""
        config = self.config
        # Where checkpoints and heartbeats are written by the records' producer, that is the source connector's.
        common = (config.flow, config.label, config.worker, dict(self.restarts).get(subject, 0))
        match subject:
            case "records":
                return (*common, _stateless(config.source), self.tasks)
            case "checkpoints":
                return (*common, _stateless(config.source), _stateless(config.checkpoint))
            case "heartbeats":
                return (*common, _stateless(config.source), _stateless(config.heartbeat))
            case _:
                return (*common, _stateless(config.source))


@dataclass(frozen=True, slots=True)
class Steps:
    """A part that is in both is started anew."""

    stop: list[Part] = field(default_factory=list)
    start: list[Part] = field(default_factory=list)


def reconcile(running: Mapping[Part, object], wanted: Iterable[Wanted]) -> Steps:
    """`running` has the likeness that each part was started with."""
    asked = {Part(flow.name, subject): flow.likeness(subject) for flow in wanted for subject in flow.subjects}
    return Steps(
        stop=[part for part, likeness in running.items() if part not in asked or asked[part] != likeness],
        start=[part for part, likeness in asked.items() if part not in running or running[part] != likeness],
    )


def shared(wanted: Iterable[Wanted], slots: int | None) -> list[Wanted]:
    """With as many tasks as there is room for, so that every flow moves: a task holds its slot for an epoch.

    A flow for which there is no room at all gets no task.
    """
    flows = list(wanted)
    moving = [flow for flow in flows if flow.config.replicates]
    asked = sum(flow.tasks for flow in moving)
    if slots is None or slots >= asked:
        return flows
    spare, room = max(slots - len(moving), 0), slots
    found = []
    for flow in flows:
        tasks = flow.tasks
        if flow.config.replicates:
            tasks = 1 + (flow.tasks - 1) * spare // max(asked - len(moving), 1) if room > 0 else 0
            room -= 1
        found.append(replace(flow, tasks=tasks))
    return found


def _stateless(connector: "Connector[Any] | None") -> object:
    return None if connector is None else replace(connector, state="running")
