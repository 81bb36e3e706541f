"""In which state a connector and its tasks are, in Connect's words, and the JSON that its API shows of it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.connect.topics import PAUSED, STOPPED, Standing, TargetState
from twinlog.runtime.supervisor import PartState
from twinlog.status.partition import PartitionStatus

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standings:
    connector: Standing
    tasks: tuple[Standing, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a connector when its state is asked for."""

    target: TargetState
    wrong: str = ""  # why its configuration cannot be run
    up: bool = True  # whether anything runs yet
    works: bool = True  # whether it is to do anything at all: `enabled` and the like
    part: PartState | None = None  # of what runs for it
    tasks: int = 1
    stopped: Mapping[int, str] = field(default_factory=dict)  # tasks with partitions that do not go on, and why


def standings(seen: Seen) -> Standings:
    part = seen.part
    if part is None and seen.target == STOPPED:
        return Standings(Standing("STOPPED"))
    if seen.wrong:
        return Standings(Standing("FAILED", seen.wrong))
    if part is None and seen.target == PAUSED:
        return Standings(Standing("PAUSED"), (Standing("PAUSED"),) * (seen.tasks if seen.works else 0))
    if not seen.up:
        return Standings(Standing("UNASSIGNED"))
    if not seen.works:
        return Standings(Standing("RUNNING"))
    if part is None or part.state == "starting":
        return Standings(Standing("RUNNING"), (Standing("UNASSIGNED"),) * seen.tasks)
    if part.state in {"retrying", "failed"}:
        if not part.starts:  # it never got so far as to have tasks
            return Standings(Standing("FAILED", part.error))
        return Standings(Standing("RUNNING"), (Standing("FAILED", part.error),) * seen.tasks)
    return Standings(Standing("RUNNING"), tuple(_task(seen.stopped.get(task, "")) for task in range(seen.tasks)))


def _task(error: str) -> Standing:
    return Standing("FAILED", error) if error else Standing("RUNNING")


def stopped_tasks(partitions: Iterable[PartitionStatus], tasks: int) -> dict[int, str]:
    """Which tasks carry partitions that are stopped for good: each with the first reason, and how many there are."""
    reasons: dict[int, list[str]] = {}
    for each in partitions:
        if each.state == "stopped":
            reasons.setdefault(min(max(each.task, 0), tasks - 1), []).append(each.error)
    return {
        task: errors[0] + (f" (and {len(errors) - 1} more partitions)" if errors[1:] else "")
        for task, errors in reasons.items()
    }


def info_json(name: str, config: Mapping[str, str], tasks: int, kind: str = "source") -> Json:
    return {
        "name": name,
        "config": dict(config),
        "tasks": [{"connector": name, "task": task} for task in range(tasks)],
        "type": kind,
    }


def status_json(name: str, found: Standings, worker_id: str, version: str, kind: str = "source") -> Json:
    return {
        "name": name,
        "connector": _standing_json(found.connector, worker_id, version),
        "tasks": [task_json(task, each, worker_id, version) for task, each in enumerate(found.tasks)],
        "type": kind,
    }


def task_json(task: int, standing: Standing, worker_id: str, version: str) -> Json:
    return {"id": task, **_standing_json(standing, worker_id, version)}


def tasks_json(name: str, configs: Sequence[Mapping[str, str]]) -> list[Json]:
    return [{"id": {"connector": name, "task": task}, "config": dict(config)} for task, config in enumerate(configs)]


def restarting(found: Standings, *, include_tasks: bool, only_failed: bool) -> Standings:
    """As Connect answers a restart: what is restarted is shown as such."""

    def one(standing: Standing) -> Standing:
        return standing if only_failed and standing.state != "FAILED" else Standing("RESTARTING")

    return Standings(one(found.connector), tuple(map(one, found.tasks)) if include_tasks else found.tasks)


def _standing_json(standing: Standing, worker_id: str, version: str) -> Json:
    shown: Json = {"state": standing.state, "worker_id": worker_id, "version": version}
    return {**shown, "trace": standing.trace} if standing.trace else shown
