"""What `twinlog run` lets others see and do: its connectors are those of its files, and can be paused."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from twinlog.config.flows import FlowConfig, State
from twinlog.connect.errors import ConnectError
from twinlog.connect.generations import Place
from twinlog.connect.offsets import offsets_json, stored
from twinlog.connect.topics import PAUSED, STARTED, STOPPED, TargetState
from twinlog.connect.view import Json, Sight, View, kind_of
from twinlog.errors import TwinlogError
from twinlog.kafka.reading import TopicReader
from twinlog.runtime.flow_run import client_of
from twinlog.runtime.supervisor import Runtime
from twinlog.tracking import source_offsets

_STATES: Final[dict[State, TargetState]] = {"running": STARTED, "paused": PAUSED, "stopped": STOPPED}
_FILES: Final = {state: word for word, state in _STATES.items()}


class RunWorker(View):
    def __init__(self, runtime: Runtime, worker_id: str) -> None:
        super().__init__(runtime, worker_id)
        self._lock = threading.Lock()
        self._wanted = runtime.wanted
        self._places = {
            connector_name(flow.config, role): Place(flow.config, role)
            for flow in self._wanted
            for role in flow.config.connectors
        }
        states = {name: _STATES[_connector(place).state] for name, place in self._places.items()}
        configs = {
            name: {
                **{key: value.reference or value.text for key, value in _connector(place).values.items()},
                "name": name,
            }
            for name, place in self._places.items()
        }
        self._of_files = dict(states)
        self._cluster: str | None = None
        self._sight = Sight(configs, states, self._places, {})

    @property
    def cluster_id(self) -> str | None:
        if self._cluster is None:
            flow = next((flow.config for flow in self._wanted if flow.config.source), None)
            if flow is not None:
                self._cluster = _cluster_id(flow)
        return self._cluster

    def pause(self, name: str) -> None:
        self._set(name, PAUSED)

    def resume(self, name: str) -> None:
        self._set(name, STARTED)

    def offsets(self, name: str) -> Json:
        self._config(name)
        place = self._places[name]
        if place.flow.source is None:
            return offsets_json([])
        client = client_of(place.flow, "target")
        connector = place.flow.connectors[place.role]
        known_as = source_offsets.connector_name(place.flow) if place.role == "source" else connector.kind
        try:
            reader = TopicReader(client, source_offsets.offsets_topic(place.flow).name)
            return offsets_json(stored(((record.key, record.value) for record in reader.read()), known_as))
        except (TwinlogError, OSError) as error:
            raise ConnectError(500, str(error)) from error
        finally:
            client.close()

    def topics(self, name: str) -> Json:
        return {name: {"topics": sorted(self.written_topics(name))}}

    def _set(self, name: str, state: TargetState) -> None:
        with self._lock:
            if name not in self._sight.configs:
                raise ConnectError(404, f"Unknown connector {name}")
            if self._of_files[name] != STARTED:
                raise ConnectError(403, f"{name} is {self._of_files[name].lower()} by its file: change it there")
            self._sight = replace(self._sight, states={**self._sight.states, name: state})
            self._runtime.want([replace(flow, config=self._with_states(flow.config)) for flow in self._wanted])

    def _with_states(self, flow: FlowConfig) -> FlowConfig:
        changes: dict[str, Any] = {
            role: replace(connector, state=_FILES[self._sight.states[connector_name(flow, role)]])
            for role, connector in flow.connectors.items()
        }
        return replace(flow, **changes)

    # What the files alone decide

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> Json:
        _refuse(f"{name} cannot be made", config, initial_state)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, Json]:
        _refuse(f"the configuration of {name} cannot be changed", config)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        _refuse(f"the configuration of {name} cannot be changed", patch)

    def stop(self, name: str) -> None:
        _refuse(f"{name} can be paused, not stopped")

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Json | None:
        _refuse(f"{name} cannot be restarted", include_tasks, only_failed)

    def restart_task(self, name: str, task: int) -> None:
        _refuse(f"task {task} of {name} cannot be restarted")

    def delete(self, name: str) -> None:
        _refuse(f"{name} cannot be deleted")

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]] | None) -> Json:
        _refuse(f"the offsets of {name} cannot be changed", entries)

    def reset_offsets(self, name: str) -> Json:
        _refuse(f"the offsets of {name} cannot be changed")

    def reset_topics(self, name: str) -> None:
        _refuse(f"the topics of {name} cannot be reset")


def connector_name(flow: FlowConfig, role: str) -> str:
    """Its own, where it has one; a dedicated file's connectors have their class for a name, as Strimzi's do."""
    connector = flow.connectors[role]
    if connector.values["source.cluster.alias"].origin.kind == "derived":
        return f"{flow}.{kind_of(role)}"
    name: str = connector.settings.name
    return name


def _connector(place: Place) -> Any:
    return place.flow.connectors[place.role]


def _cluster_id(flow: FlowConfig) -> str | None:
    client = client_of(flow, "target")
    try:
        return client.metadata([]).cluster_id
    except (TwinlogError, OSError):
        return None
    finally:
        client.close()


def _refuse(what: str, *_unused: object) -> NoReturn:
    raise ConnectError(403, f"{what}: twinlog run takes its connectors from files; twinlog serve can do that")
