"""The components of a flow, and the steps from the running to the desired ones. Pure.

A flow has up to four components: records (a query), topic configs and ACLs, checkpoints, heartbeats. Each belongs to
one connector, so that pausing, changing or restarting a connector does not affect the components of the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from twinlog.config.flows import Connector, FlowConfig

RECORDS: Final = "records"
TOPICS: Final = "topics"
CHECKPOINTS: Final = "checkpoints"
HEARTBEATS: Final = "heartbeats"
# Subjects of each connector; the first one determines its state
SUBJECTS: Final = {"source": (RECORDS, TOPICS), "checkpoint": (CHECKPOINTS,), "heartbeat": (HEARTBEATS,)}


class Component(NamedTuple):
    flow: str  # with its label
    subject: str


@dataclass(frozen=True, slots=True)
class DesiredFlow:
    """The desired configuration of a flow. Components whose connector is paused or stopped do not run."""

    config: FlowConfig
    paths: tuple[str, ...]  # the configuration files, read by Spark's processes
    tasks: int = 1
    restarts: tuple[tuple[str, int], ...] = ()  # by subject: number of requested restarts

    @property
    def name(self) -> str:
        return str(self.config)

    @property
    def subjects(self) -> list[str]:
        config = self.config
        found = [RECORDS, TOPICS] if config.replicates else []
        found += [CHECKPOINTS] if config.emits_checkpoints else []
        return found + ([HEARTBEATS] if config.emits_heartbeats else [])

    def fingerprint(self, subject: str) -> object:
        """Everything the component depends on: it is restarted if, and only if, this changes."""
        config = self.config
        # Checkpoints and heartbeats are written by the producer of the source connector, if there is one.
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
    """A component that is in both lists is restarted."""

    stop: list[Component] = field(default_factory=list)
    start: list[Component] = field(default_factory=list)


def reconcile(running: Mapping[Component, object], flows: Iterable[DesiredFlow]) -> Steps:
    """`running` has the fingerprint that each component was started with."""
    desired = {Component(flow.name, subject): flow.fingerprint(subject) for flow in flows for subject in flow.subjects}
    return Steps(
        stop=[each for each, fingerprint in running.items() if each not in desired or desired[each] != fingerprint],
        start=[each for each, fingerprint in desired.items() if each not in running or running[each] != fingerprint],
    )


def share_slots(desired: Iterable[DesiredFlow], slots: int | None) -> list[DesiredFlow]:
    """Reduces the tasks to the available slots, so that every flow runs: a task holds its slot for an epoch.

    If there are more flows than slots, the last flows get no task.
    """
    flows = list(desired)
    replicating = [flow for flow in flows if flow.config.replicates]
    total = sum(flow.tasks for flow in replicating)
    if slots is None or slots >= total:
        return flows
    spare, free = max(slots - len(replicating), 0), slots
    shared = []
    for flow in flows:
        tasks = flow.tasks
        if flow.config.replicates:
            tasks = 1 + (flow.tasks - 1) * spare // max(total - len(replicating), 1) if free > 0 else 0
            free -= 1
        shared.append(replace(flow, tasks=tasks))
    return shared


def _stateless(connector: "Connector[Any] | None") -> object:
    return None if connector is None else replace(connector, state="running")
