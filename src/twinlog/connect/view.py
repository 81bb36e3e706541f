"""What can be seen of connectors, whoever runs them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import twinlog
from twinlog.config.settings import MIRROR
from twinlog.connect import standing
from twinlog.connect.errors import ConnectError
from twinlog.connect.generations import Place
from twinlog.connect.plugins import VERSION
from twinlog.connect.standing import Seen, Standings, standings, stopped_tasks
from twinlog.connect.topics import STARTED, TargetState
from twinlog.runtime.choice import tasks_of
from twinlog.runtime.parts import SUBJECTS, Part
from twinlog.runtime.supervisor import Runtime
from twinlog.status.flow import FlowStatus
from twinlog.topology.policy import policy_of

Json = dict[str, Any]

_KINDS: Final = {
    "source": "MirrorSourceConnector",
    "checkpoint": "MirrorCheckpointConnector",
    "heartbeat": "MirrorHeartbeatConnector",
}


@dataclass(frozen=True, slots=True)
class Sight:
    """All connectors at one moment. Replaced, never changed: it may be read from any thread."""

    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    states: Mapping[str, TargetState] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)  # those that cannot be run, and why


class View(ABC):
    def __init__(self, runtime: Runtime, worker_id: str) -> None:
        self._runtime = runtime
        self._worker_id = worker_id
        self._sight = Sight()

    def known_as(self, worker_id: str) -> None:
        """Once the port is known; before anything is asked."""
        self._worker_id = worker_id

    @property
    @abstractmethod
    def cluster_id(self) -> str | None:
        """Of the cluster that the worker belongs to."""

    def info(self) -> Json:
        commit = f"twinlog-{twinlog.__version__}"
        return {"version": VERSION, "commit": commit, "kafka_cluster_id": self.cluster_id}

    def health(self) -> tuple[int, Json]:
        if not self._runtime.up:
            return 503, {"status": "starting", "message": "The worker is starting: Spark is not up yet."}
        return 200, {"status": "healthy", "message": "The worker is up and takes requests."}

    def names(self) -> list[str]:
        return list(self._sight.configs)

    def connector(self, name: str) -> Json:
        config = self._config(name)
        return standing.info_json(name, config, len(self.standings(name).tasks), self._type(name))

    def config(self, name: str) -> dict[str, str]:
        return dict(self._config(name))

    def status(self, name: str) -> Json:
        if name not in self._sight.configs:
            raise ConnectError(404, f"No status found for connector {name}")
        return standing.status_json(name, self.standings(name), self._worker_id, VERSION, self._type(name))

    def tasks(self, name: str) -> list[Json]:
        config = self._config(name)
        count = len(self.standings(name).tasks)
        role = self._sight.places[name].role if name in self._sight.places else "source"
        common = {**config, "task.class": MIRROR + _KINDS[role].replace("Connector", "Task")}
        carried = self._carried(name) if role == "source" else {}
        return standing.tasks_json(
            name,
            [
                {**common, **({"task.assigned.partitions": ",".join(carried[task])} if task in carried else {})}
                for task in range(count)
            ],
        )

    def task_status(self, name: str, task: int) -> Json:
        found = self.standings(name).tasks if name in self._sight.configs else ()
        if not 0 <= task < len(found):
            raise ConnectError(404, f"No status found for task {name}-{task}")
        return standing.task_json(task, found[task], self._worker_id, VERSION)

    def standings(self, name: str) -> Standings:
        sight = self._sight
        target = sight.states.get(name, STARTED)
        place = sight.places.get(name)
        if place is None:
            reason = sight.failed.get(name, "")
            return standings(Seen(target, wrong=reason or "it is not run", up=self._runtime.up))
        part = self._runtime.parts.get(Part(str(place.flow), SUBJECTS[place.role][0]))
        tasks, stopped = 1, {}
        if place.role == "source":
            tasks = part.tasks if part and part.tasks else tasks_of(place.flow)
            if (status := self._status_of(name)) is not None and status.partitions:
                tasks = min(tasks, len(status.partitions))
                stopped = stopped_tasks(status.partitions.values(), tasks)
        return standings(Seen(target, "", self._runtime.up, _works(place), part, tasks, stopped))

    def written_topics(self, name: str) -> set[str]:
        """Those that the connector has written to, as far as is known here."""
        place = self._sight.places.get(name)
        part = self._runtime.parts.get(Part(str(place.flow), SUBJECTS[place.role][0])) if place else None
        if place is None or part is None or part.state != "running":
            return set()
        status = self._status_of(name)
        if place.role == "source":
            partitions = status.partitions.values() if status else ()
            return {each.remote for each in partitions if each.counters["records"]}
        connector = place.flow.connectors[place.role]
        policy = policy_of(connector)
        if place.role == "heartbeat":
            return {policy.heartbeats_topic()}
        return {policy.checkpoints_topic(connector.settings.source_cluster_alias)}

    def _status_of(self, name: str) -> FlowStatus | None:
        place = self._sight.places.get(name)
        return None if place is None else self._runtime.board.flow(str(place.flow))

    def _carried(self, name: str) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        if (status := self._status_of(name)) is not None:
            for place, each in status.partitions.items():
                found.setdefault(each.task, []).append(place)
        return found

    def _config(self, name: str) -> Mapping[str, str]:
        config = self._sight.configs.get(name)
        if config is None:
            raise ConnectError(404, f"Connector {name} not found")
        return config

    def _type(self, name: str) -> str:
        return "source" if name in self._sight.places or name not in self._sight.failed else "unknown"


def _works(place: Place) -> bool:
    flow = place.flow
    if place.role == "source":
        return flow.source is not None and flow.source.settings.enabled
    if place.role == "checkpoint":
        point = flow.checkpoint
        return point is not None and point.settings.enabled and point.settings.emit_checkpoints_enabled
    return flow.heartbeat is not None and flow.heartbeat.settings.emit_heartbeats_enabled


def kind_of(role: str) -> str:
    return _KINDS[role]
