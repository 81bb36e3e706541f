"""Derives the state of connectors and tasks in Connect's terms, and their JSON. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.connect.topic_records import PAUSED, STOPPED, StatusRecord, TargetState
from twinlog.connect.worker_api import Json
from twinlog.runtime.supervisor import ComponentState
from twinlog.status.partition import PartitionStatus


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    connector: StatusRecord
    tasks: tuple[StatusRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The facts that determine a connector's state."""

    target: TargetState
    problem: str = ""  # why its configuration cannot run
    up: bool = True  # whether the supervisor has started
    enabled: bool = True  # by `enabled`, `emit.heartbeats.enabled` and the like
    component: ComponentState | None = None
    tasks: int = 1
    stopped: Mapping[int, str] = field(default_factory=dict)  # tasks with stopped partitions, and the reason


def derive_status(observed: ObservedState) -> ConnectorStatus:
    component = observed.component
    if component is None and observed.target == STOPPED:
        return ConnectorStatus(StatusRecord("STOPPED"))
    if observed.problem:
        return ConnectorStatus(StatusRecord("FAILED", observed.problem))
    if component is None and observed.target == PAUSED:
        return ConnectorStatus(
            StatusRecord("PAUSED"), (StatusRecord("PAUSED"),) * (observed.tasks if observed.enabled else 0)
        )
    if not observed.up:
        return ConnectorStatus(StatusRecord("UNASSIGNED"))
    if not observed.enabled:
        return ConnectorStatus(StatusRecord("RUNNING"))
    if component is None or component.state == "starting":
        return ConnectorStatus(StatusRecord("RUNNING"), (StatusRecord("UNASSIGNED"),) * observed.tasks)
    if component.state in {"retrying", "failed"}:
        if not component.starts or not observed.tasks:  # it failed before it had tasks, or has none
            return ConnectorStatus(StatusRecord("FAILED", component.error))
        return ConnectorStatus(StatusRecord("RUNNING"), (StatusRecord("FAILED", component.error),) * observed.tasks)
    return ConnectorStatus(
        StatusRecord("RUNNING"), tuple(_task(observed.stopped.get(task, "")) for task in range(observed.tasks))
    )


def _task(error: str) -> StatusRecord:
    return StatusRecord("FAILED", error) if error else StatusRecord("RUNNING")


def stopped_tasks(partitions: Iterable[PartitionStatus], tasks: int) -> dict[int, str]:
    """Tasks with permanently stopped partitions: the first reason, and how many more there are."""
    reasons: dict[int, list[str]] = {}
    for each in partitions:
        if each.state == "stopped":
            reasons.setdefault(min(max(each.task, 0), tasks - 1), []).append(each.error)
    return {
        task: errors[0] + (f" (and {len(errors) - 1} more partitions)" if errors[1:] else "")
        for task, errors in reasons.items()
    }


def info_json(name: str, config: Mapping[str, str | None], tasks: int, kind: str = "source") -> Json:
    return {
        "name": name,
        "config": dict(config),
        "tasks": [{"connector": name, "task": task} for task in range(tasks)],
        "type": kind,
    }


def status_json(name: str, found: ConnectorStatus, worker_id: str, version: str, kind: str = "source") -> Json:
    return {
        "name": name,
        "connector": _state_json(found.connector, worker_id, version),
        "tasks": [task_json(task, each, worker_id, version) for task, each in enumerate(found.tasks)],
        "type": kind,
    }


def task_json(task: int, status: StatusRecord, worker_id: str, version: str) -> Json:
    return {"id": task, **_state_json(status, worker_id, version)}


def tasks_json(name: str, configs: Sequence[Mapping[str, str | None]]) -> list[Json]:
    return [{"id": {"connector": name, "task": task}, "config": dict(config)} for task, config in enumerate(configs)]


def restarting(found: ConnectorStatus, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
    """The response to a restart: what restarts is shown as RESTARTING."""

    def restarted(status: StatusRecord) -> StatusRecord:
        return status if only_failed and status.state != "FAILED" else StatusRecord("RESTARTING")

    tasks = tuple(map(restarted, found.tasks)) if include_tasks else found.tasks
    return ConnectorStatus(restarted(found.connector), tasks)


def _state_json(status: StatusRecord, worker_id: str, version: str) -> Json:
    state: Json = {"state": status.state, "worker_id": worker_id, "version": version}
    return {**state, "trace": status.trace} if status.trace else state
