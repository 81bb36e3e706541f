"""The Connect worker of `twinlog run`: its connectors come from files; they can be viewed, paused and resumed."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from twinlog.config.flows import FlowConfig, State
from twinlog.connect.connector_files import FlowRole
from twinlog.connect.connector_view import KINDS, ConnectorFacts, ConnectorView
from twinlog.connect.errors import ConnectError
from twinlog.connect.offset_requests import offsets_json, stored_offsets
from twinlog.connect.topic_records import PAUSED, STARTED, STOPPED, TargetState
from twinlog.connect.worker_api import Json
from twinlog.errors import TwinlogError
from twinlog.kafka.topic_reader import TopicReader
from twinlog.mm2 import source_offsets
from twinlog.runtime.supervisor import Supervisor
from twinlog.sync.flow_clients import FlowClients

_STATES: Final[dict[State, TargetState]] = {"running": STARTED, "paused": PAUSED, "stopped": STOPPED}
_CONFIG_STATES: Final = {target: state for state, target in _STATES.items()}


class RunWorker(ConnectorView):
    def __init__(self, runtime: Supervisor, worker_id: str) -> None:
        super().__init__(runtime, worker_id)
        self._lock = threading.Lock()
        self._wanted = runtime.desired
        self._flow_roles = {
            connector_name(flow.config, role): FlowRole(flow.config, role)
            for flow in self._wanted
            for role in flow.config.connectors
        }
        states = {name: _STATES[_connector(its).state] for name, its in self._flow_roles.items()}
        configs = {
            name: {
                **{key: value.reference or value.text for key, value in _connector(its).values.items()},
                "name": name,
            }
            for name, its in self._flow_roles.items()
        }
        self._file_states = dict(states)
        self._cluster: str | None = None
        self._facts = ConnectorFacts(configs, states, self._flow_roles, {})

    @property
    def cluster_id(self) -> str | None:
        if self._cluster is None:
            flow = next((flow.config for flow in self._wanted if flow.config.source), None)
            if flow is not None:
                self._cluster = _cluster_id(flow)
        return self._cluster

    def pause(self, name: str) -> None:
        self._set_state(name, PAUSED)

    def resume(self, name: str) -> None:
        self._set_state(name, STARTED)

    def offsets(self, name: str) -> Json:
        self._config(name)
        its = self._flow_roles[name]
        if its.flow.source is None:
            return offsets_json([])
        stored_name = source_offsets.connector_name(its.flow) if its.role == "source" else _connector(its).kind
        try:
            with FlowClients(its.flow) as clients:
                reader = TopicReader(clients.client("data.producer"), source_offsets.offsets_topic(its.flow).name)
                records = [(record.key, record.value) for record in reader.read()]
        except (TwinlogError, OSError) as error:
            raise ConnectError(500, str(error)) from error
        return offsets_json(stored_offsets(records, stored_name))

    def topics(self, name: str) -> Json:
        return {name: {"topics": sorted(self.written_topics(name))}}

    def _set_state(self, name: str, target: TargetState) -> None:
        with self._lock:
            if name not in self._facts.configs:
                raise ConnectError(404, f"Unknown connector {name}")
            if self._file_states[name] != STARTED:
                state = self._file_states[name].lower()
                raise ConnectError(403, f"connector {name}: {state} by its file; change it there")
            self._facts = replace(self._facts, states={**self._facts.states, name: target})
            self._runtime.set_desired([replace(flow, config=self._with_states(flow.config)) for flow in self._wanted])

    def _with_states(self, flow: FlowConfig) -> FlowConfig:
        changes: dict[str, Any] = {
            role: replace(connector, state=_CONFIG_STATES[self._facts.states[connector_name(flow, role)]])
            for role, connector in flow.connectors.items()
        }
        return replace(flow, **changes)

    # Changes that only the files can make

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> Json:
        _refuse(f"connector {name} cannot be created", config, initial_state)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, Json]:
        _refuse(f"configuration of connector {name} cannot be changed", config)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        _refuse(f"configuration of connector {name} cannot be changed", patch)

    def stop(self, name: str) -> None:
        _refuse(f"connector {name} can be paused, not stopped")

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Json | None:
        _refuse(f"connector {name} cannot be restarted", include_tasks, only_failed)

    def restart_task(self, name: str, task: int) -> None:
        _refuse(f"task {task} of connector {name} cannot be restarted")

    def delete(self, name: str) -> None:
        _refuse(f"connector {name} cannot be deleted")

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]] | None) -> Json:
        _refuse(f"offsets of connector {name} cannot be changed", entries)

    def reset_offsets(self, name: str) -> Json:
        _refuse(f"offsets of connector {name} cannot be changed")

    def reset_topics(self, name: str) -> None:
        _refuse(f"topics of connector {name} cannot be reset")


def connector_name(flow: FlowConfig, role: str) -> str:
    """The configured name; in a dedicated file, flow and class, as in Strimzi."""
    connector = flow.connectors[role]
    if connector.values["source.cluster.alias"].origin.kind == "derived":
        return f"{flow}.{KINDS[role]}"
    name: str = connector.settings.name
    return name


def _connector(its: FlowRole) -> Any:
    return its.flow.connectors[its.role]


def _cluster_id(flow: FlowConfig) -> str | None:
    with FlowClients(flow) as clients, contextlib.suppress(TwinlogError, OSError):
        return clients.client("data.producer").metadata([]).cluster_id
    return None


def _refuse(what: str, *_unused: object) -> NoReturn:
    raise ConnectError(403, f"{what}: twinlog run reads connectors from files; change the file, or use twinlog serve")
