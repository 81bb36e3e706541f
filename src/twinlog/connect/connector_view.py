"""The read-only part of a worker: configurations, states, tasks and topics of its connectors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import twinlog
from twinlog.config.settings import MIRROR
from twinlog.connect import connector_status
from twinlog.connect.connector_files import FlowRole
from twinlog.connect.connector_plugins import VERSION
from twinlog.connect.connector_status import ConnectorStatus, ObservedState, derive_status, stopped_tasks
from twinlog.connect.errors import ConnectError
from twinlog.connect.topic_records import STARTED, TargetState
from twinlog.connect.worker_api import Json
from twinlog.mm2.replication_policy import policy_of
from twinlog.runtime.components import SUBJECTS, Component
from twinlog.runtime.flow_choice import tasks_of
from twinlog.runtime.supervisor import ComponentState, Supervisor
from twinlog.status.flow import FlowStatus

KINDS: Final = {
    "source": "MirrorSourceConnector",
    "checkpoint": "MirrorCheckpointConnector",
    "heartbeat": "MirrorHeartbeatConnector",
}

# The key of a task's assignment in its configuration; heartbeats have none
_ASSIGNED: Final = {"source": "task.assigned.partitions", "checkpoint": "task.assigned.groups"}


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """All connectors at one moment. Replaced, never modified, so that any thread may read it."""

    configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    states: Mapping[str, TargetState] = field(default_factory=dict)
    flow_roles: Mapping[str, FlowRole] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)  # connectors that cannot run, and why


class ConnectorView(ABC):
    def __init__(self, runtime: Supervisor, worker_id: str) -> None:
        self._runtime = runtime
        self._worker_id = worker_id
        self._facts = ConnectorFacts()

    def set_worker_id(self, worker_id: str) -> None:
        """Called once the port is known, before the first request."""
        self._worker_id = worker_id

    @property
    @abstractmethod
    def cluster_id(self) -> str | None:
        """The id of the cluster that the worker belongs to."""

    def info(self) -> Json:
        commit = f"twinlog-{twinlog.__version__}"
        return {"version": VERSION, "commit": commit, "kafka_cluster_id": self.cluster_id}

    def health(self) -> tuple[int, Json]:
        if not self._runtime.up:
            return 503, {"status": "starting", "message": "Worker is starting up: Spark is not running yet."}
        return 200, {"status": "healthy", "message": "Worker is up and accepts requests."}

    def names(self) -> list[str]:
        return list(self._facts.configs)

    def connector(self, name: str) -> Json:
        config = self._config(name)
        return connector_status.info_json(name, config, len(self.status_of(name).tasks), self._type(name))

    def config(self, name: str) -> dict[str, str | None]:
        return dict(self._config(name))

    def status(self, name: str) -> Json:
        if name not in self._facts.configs:
            raise ConnectError(404, f"No status found for connector {name}")
        return connector_status.status_json(name, self.status_of(name), self._worker_id, VERSION, self._type(name))

    def tasks(self, name: str) -> list[Json]:
        config = self._config(name)
        count = len(self.status_of(name).tasks)
        role = self._facts.flow_roles[name].role if name in self._facts.flow_roles else "source"
        common = {**config, "task.class": MIRROR + KINDS[role].replace("Connector", "Task")}
        if role == "source":
            assignments = self._assigned_partitions(name)
        else:
            assignments = dict(enumerate(assigned_groups(self._groups(name), count)))
        key = _ASSIGNED.get(role)
        own: list[dict[str, str]] = [{"task.index": str(task)} if key else {} for task in range(count)]
        for task, assignment in assignments.items():
            if key and task < count:
                own[task][key] = ",".join(assignment)
        return connector_status.tasks_json(name, [{**common, **each} for each in own])

    def task_status(self, name: str, task: int) -> Json:
        found = self.status_of(name).tasks if name in self._facts.configs else ()
        if not 0 <= task < len(found):
            raise ConnectError(404, f"No status found for task {name}-{task}")
        return connector_status.task_json(task, found[task], self._worker_id, VERSION)

    def status_of(self, name: str) -> ConnectorStatus:
        facts = self._facts
        target = facts.states.get(name, STARTED)
        its = facts.flow_roles.get(name)
        if its is None:
            reason = facts.failed.get(name, "")
            return derive_status(ObservedState(target, problem=reason or "not running", up=self._runtime.up))
        component = self._component(its)
        tasks, stopped = 1, {}
        if its.role == "source":
            tasks = component.tasks if component and component.tasks else tasks_of(its.flow)
            if (status := self._status_of(name)) is not None and status.partitions:
                tasks = min(tasks, len(status.partitions))
                stopped = stopped_tasks(status.partitions.values(), tasks)
        elif its.role == "checkpoint":  # one task per group, up to tasks.max
            tasks = min(its.flow.connectors[its.role].settings.tasks_max, len(self._groups(name)))
        return derive_status(ObservedState(target, "", self._runtime.up, _enabled(its), component, tasks, stopped))

    def written_topics(self, name: str) -> set[str]:
        """Topics that the connector has written to, as far as this process knows."""
        its = self._facts.flow_roles.get(name)
        component = self._component(its) if its else None
        if its is None or component is None or component.state != "running":
            return set()
        status = self._status_of(name)
        if its.role == "source":
            partitions = status.partitions.values() if status else ()
            return {each.remote for each in partitions if each.counters["records"]}
        connector = its.flow.connectors[its.role]
        policy = policy_of(connector)
        if its.role == "heartbeat":
            return {policy.heartbeats_topic()}
        return {policy.checkpoints_topic(connector.settings.source_cluster_alias)}

    def _component(self, its: FlowRole) -> ComponentState | None:
        return self._runtime.components.get(Component(str(its.flow), SUBJECTS[its.role][0]))

    def _status_of(self, name: str) -> FlowStatus | None:
        its = self._facts.flow_roles.get(name)
        return None if its is None else self._runtime.board.flow(str(its.flow))

    def _assigned_partitions(self, name: str) -> dict[int, Sequence[str]]:
        """Task -> its partitions."""
        found: dict[int, list[str]] = {}
        if (status := self._status_of(name)) is not None:
            for partition, each in status.partitions.items():
                found.setdefault(each.task, []).append(partition)
        return dict(found)

    def _groups(self, name: str) -> list[str]:
        """Consumer groups with offsets in the flow's topics, as far as this process knows."""
        its = self._facts.flow_roles.get(name)
        return [] if its is None else list(dict.fromkeys(each.group for each in self._runtime.groups(str(its.flow))))

    def _config(self, name: str) -> Mapping[str, str | None]:
        config = self._facts.configs.get(name)
        if config is None:
            raise ConnectError(404, f"Connector {name} not found")
        return config

    def _type(self, name: str) -> str:
        return "source" if name in self._facts.flow_roles or name not in self._facts.failed else "unknown"


def _enabled(its: FlowRole) -> bool:
    flow = its.flow
    if its.role == "source":
        return flow.source is not None and flow.source.settings.enabled
    if its.role == "checkpoint":
        checkpoint = flow.checkpoint
        return checkpoint is not None and checkpoint.settings.enabled and checkpoint.settings.emit_checkpoints_enabled
    return flow.heartbeat is not None and flow.heartbeat.settings.emit_heartbeats_enabled


def assigned_groups(groups: Sequence[str], tasks: int) -> list[Sequence[str]]:
    """As Connect assigns them: contiguous ranges, the first tasks with one more than the last."""
    found, at = [], 0
    for task in range(tasks):
        end = at + len(groups) // tasks + (task < len(groups) % tasks)
        found.append(groups[at:end])
        at = end
    return found
