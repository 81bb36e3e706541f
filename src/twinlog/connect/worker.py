"""The Connect worker of `twinlog serve`: stores connector configurations, runs them, and reports their states."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from twinlog.config.flows import FlowConfig
from twinlog.connect import connector_status, inline_secrets, offset_reset
from twinlog.connect import offset_requests as requests
from twinlog.connect import topic_records as records
from twinlog.connect.connector_check import Check
from twinlog.connect.connector_files import ConnectorFiles, ConnectorFileSet
from twinlog.connect.connector_plugins import VERSION
from twinlog.connect.connector_status import ConnectorStatus, restarting
from twinlog.connect.connector_view import KINDS, ConnectorFacts, ConnectorView
from twinlog.connect.errors import ConnectError
from twinlog.connect.offset_requests import Offset, key_of, value_of
from twinlog.connect.topic_records import PAUSED, STARTED, STOPPED, Entry, StatusRecord, TargetState
from twinlog.connect.worker_api import Json
from twinlog.connect.worker_topics import KeyedWriter, WorkerTopics
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import error_codes
from twinlog.mm2.source_offsets import connector_offsets_topic
from twinlog.runtime.components import RECORDS, SUBJECTS, TOPICS, Component, DesiredFlow
from twinlog.runtime.flow_choice import tasks_of
from twinlog.runtime.supervisor import Supervisor
from twinlog.text import counted

_log = logging.getLogger(__name__)

_STOP_TIMEOUT_S: Final = 30.0
_GENERATION: Final = 1  # of the worker group, in status records: it has only one member
_STATUS_INTERVAL_S: Final = 1.0
_STATES: Final[dict[str, TargetState]] = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}


class ServeWorker(ConnectorView):
    """Thread-safe, except `tick` and `close`, which the supervisor's thread calls."""

    def __init__(
        self,
        runtime: Supervisor,
        store: WorkerTopics,
        files: ConnectorFiles,
        check: Check,
        status_writer: KeyedWriter,
        offset_writer: KeyedWriter,
        worker_id: str,
    ) -> None:
        super().__init__(runtime, worker_id)
        self._offset_writer = offset_writer
        self._beating: set[str] = set()  # heartbeat connectors whose offset was written
        self._altered: SimpleQueue[str] = SimpleQueue()  # connectors whose offsets were altered since the last tick
        self._store = store
        self._files = files
        self._check = check
        self._status_writer = status_writer
        self._lock = threading.RLock()  # guards the store and all changes
        self._file_set = ConnectorFileSet()
        self._revision = 0  # of the desired flows, as numbered by the supervisor
        self._cleaned_revision = 0
        self._restarts: dict[str, dict[str, int]] = {}
        self._events: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._reported: dict[bytes, StatusRecord] = {}  # as last written
        self._reported_at = 0.0
        self._active_lock = threading.Lock()
        self._active = store.activity.topics

    @property
    def cluster_id(self) -> str | None:
        return self._store.cluster_id

    @property
    def flows(self) -> tuple[FlowConfig, ...]:
        return self._file_set.flows

    def begin(self) -> None:
        """Starts the connectors of the config topic; called before the first request."""
        with self._lock:
            self._apply()

    # Changes

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> Json:
        state = _initial(initial_state)
        with self._writing():
            texts = self._checked(name, config)
            self._catch_up()
            if name in self._store.connectors.configs:
                raise ConnectError(409, f"Connector {name} already exists")
            self._put(name, texts, state, "created" if state is None else f"created, {state.lower()}")
            return connector_status.info_json(name, texts, 0)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, Json]:
        with self._writing():
            self._catch_up()
            before = self._store.connectors.configs.get(name)
            texts = self._checked(name, config)
            self._put(name, texts, None, "created" if before is None else "changed")
            tasks = 0 if before is None else len(self.status_of(name).tasks)
            return before is None, connector_status.info_json(name, texts, tasks)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        with self._writing():
            self._catch_up()
            before = self._store.connectors.configs.get(name)
            if before is None:
                raise ConnectError(404, f"Connector {name} not found")
            removed = {key for key, text in patch.items() if text is None}
            texts = self._checked(name, {key: text for key, text in {**before, **patch}.items() if key not in removed})
            self._put(name, texts, None, "changed")
            return connector_status.info_json(name, texts, len(self.status_of(name).tasks))

    def delete(self, name: str) -> None:
        with self._writing():
            self._require(name, "Connector {} not found")
            self._store.put(records.removal_entries(name))
            self._restarts.pop(name, None)
            self._apply()
            self._event(name, "deleted")
        self.reset_topics(name)

    def pause(self, name: str) -> None:
        self._set_state(name, PAUSED, "paused")

    def resume(self, name: str) -> None:
        self._set_state(name, STARTED, "resumed")

    def stop(self, name: str) -> None:
        self._set_state(name, STOPPED, "stopped")

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Json | None:
        with self._writing():
            self._require(name, "Unknown connector: {}")
            found = self.status_of(name)
            subjects = to_restart(self._role(name), found, include_tasks=include_tasks, only_failed=only_failed)
            self._restart(name, subjects)
        if not include_tasks and not only_failed:
            return None
        shown = restarting(found, include_tasks=include_tasks, only_failed=only_failed)
        return connector_status.status_json(name, shown, self._worker_id, VERSION, self._type(name))

    def restart_task(self, name: str, task: int) -> None:
        """Spark runs all tasks of a flow in one query, so they restart together."""
        with self._writing():
            self._require(name, "Unknown connector: {}")
            if not 0 <= task < len(self.status_of(name).tasks):
                raise ConnectError(404, f"Unknown task: {name}-{task}")
            self._restart(name, {SUBJECTS[self._role(name)][0]})

    # Offsets

    def offsets(self, name: str) -> Json:
        with self._writing():
            self._require(name, "Connector {} not found")
            return requests.offsets_json(self._store.offsets(name))

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]] | None) -> Json:
        requests.require_entries(entries)  # Connect checks this before the connector's name
        with self._writing():
            self._require(name, "Connector {} not found")
            found = requests.parse_entries(KINDS[self._role(name)], entries)
            self._write_offsets(name, found)
            self._event(name, f"offsets of {counted(len(found), 'partition')} altered")
        return {"message": "The offsets for this connector have been altered successfully"}

    def reset_offsets(self, name: str) -> Json:
        with self._writing():
            self._require(name, "Connector {} not found")
            self._wait_until_stopped(name)
            self._write_offsets(name, [Offset(each.partition, None) for each in self._store.offsets(name)])
            self._event(name, "offsets reset")
        return {"message": "The offsets for this connector have been reset successfully"}

    def _write_offsets(self, name: str, entries: Sequence[Offset]) -> None:
        """First Twinlog's positions, then MM2's offsets: once the latter are visible, the former are stored."""
        self._wait_until_stopped(name)
        its = self._facts.flow_roles.get(name)
        if its is not None and its.role == "source":
            moves = offset_reset.moves_of(its.flow, entries)
            self._store.put_offsets(offset_reset.position_entries(its.flow, moves))
        found = [(key_of(name, each.partition), value_of(each.offset)) for each in entries]
        if its is not None and its.role == "source" and (own := connector_offsets_topic(its.flow)):
            try:
                self._store.put_offsets(found, own.name)  # takes precedence over the worker's topic
            except RefusedError as error:
                if error.code not in error_codes.TOPIC_MISSING:  # a connector that never ran has not created it yet
                    raise
        self._store.put_offsets(found)
        self._altered.put(name)

    def _wait_until_stopped(self, name: str) -> None:
        if self._store.connectors.state(name) != STOPPED:
            raise ConnectError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )
        its = self._facts.flow_roles.get(name)
        if its is None:
            return
        component = Component(str(its.flow), SUBJECTS[its.role][0])
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        runtime = self._runtime
        while runtime.up and (runtime.applied_version < self._revision or component in runtime.components):
            if time.monotonic() > deadline:
                raise ConnectError(500, f"connector {name}: not stopped after {_STOP_TIMEOUT_S:.0f} s; retry")
            time.sleep(0.05)

    # Topics

    def topics(self, name: str) -> Json:
        with self._active_lock:
            return {name: {"topics": sorted(self._active.get(name, ()))}}

    def reset_topics(self, name: str) -> None:
        with self._active_lock:
            topics = self._active.pop(name, set())
        self._status_writer.put(records.active_topic_removals(name, topics))

    # In the supervisor's thread

    def tick(self, events: Callable[[str, str], None]) -> None:
        """Reports events, writes changed states, and removes files that are not used any more."""
        with contextlib.suppress(Empty):
            while True:
                events(*self._events.get_nowait())
        now = time.monotonic()
        if now - self._reported_at < _STATUS_INTERVAL_S:
            return
        self._reported_at = now
        self._report_states()
        self._report_topics()
        self._write_heartbeat_offsets()
        paths, revision = self._file_set.paths, self._revision
        if revision != self._cleaned_revision and self._runtime.applied_version >= revision:
            self._files.remove_unused({*paths, *self._runtime.used_paths})
            self._cleaned_revision = revision

    def close(self) -> None:
        """Reports UNASSIGNED, except for what failed: another worker may have taken it over, and reports its state."""
        failed = {key for key, status in self._reported.items() if status.state == "FAILED"}
        failed |= {records.connector_key(name) for name in self.names() if records.task_key(name, 0) in failed}
        unassigned = self._status_value(StatusRecord("UNASSIGNED"))
        self._status_writer.put([(key, unassigned) for key in self._reported if key not in failed])
        writers = self._status_writer, self._offset_writer
        for writer in writers:
            writer.request_close()
        for writer in writers:
            writer.close()

    def _report_states(self) -> None:
        states: dict[bytes, StatusRecord] = {}
        for name in self.names():
            found = self.status_of(name)
            states[records.connector_key(name)] = found.connector
            states |= {records.task_key(name, task): each for task, each in enumerate(found.tasks)}
        before = self._reported
        changed: list[Entry] = [
            (key, self._status_value(status)) for key, status in states.items() if before.get(key) != status
        ]
        changed += [(key, None) for key in {**dict.fromkeys(self._store.activity.keys), **before} if key not in states]
        self._store.activity.keys.clear()
        self._reported = states
        self._status_writer.put(changed)

    def _status_value(self, status: StatusRecord) -> bytes:
        return records.status_value(status, self._worker_id, _GENERATION, VERSION)

    def _report_topics(self) -> None:
        now = int(time.time() * 1000)
        for name in self.names():
            with self._active_lock:
                new = self.written_topics(name) - self._active.get(name, set())
                if new:
                    self._active.setdefault(name, set()).update(new)
            self._status_writer.put([records.active_topic_entry(name, topic, 0, now) for topic in sorted(new)])

    def _write_heartbeat_offsets(self) -> None:
        """Like Connect, stores offset 0 for a heartbeat connector once it has sent its first heartbeat."""
        with contextlib.suppress(Empty):  # also for one that was stopped and resumed between two ticks
            while True:
                self._beating.discard(self._altered.get_nowait())
        roles = self._facts.flow_roles
        beating = {name for name, its in roles.items() if its.role == "heartbeat" and self.written_topics(name)}
        for name in sorted(beating - self._beating):
            settings = roles[name].flow.connectors["heartbeat"].settings
            partition = {
                "sourceClusterAlias": settings.source_cluster_alias,
                "targetClusterAlias": settings.target_cluster_alias,
            }
            self._offset_writer.put([(key_of(name, partition), value_of({"offset": 0}))])
        self._beating = beating

    # Internals

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One request at a time; failures of a cluster become 500, as in Connect."""
        with self._lock:
            try:
                yield
            except ConnectError:
                raise
            except (TwinlogError, OSError) as error:
                raise ConnectError(500, str(error)) from error

    def _checked(self, name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
        texts = {**config, "name": name}
        self._check(name, texts)
        return texts

    def _require(self, name: str, message: str) -> None:
        self._catch_up()
        if name not in self._store.connectors.configs:
            raise ConnectError(404, message.format(name))

    def _catch_up(self) -> None:
        """Applies what another worker of the group may have written."""
        if self._store.catch_up():
            self._apply()

    def _put(self, name: str, texts: Mapping[str, str | None], state: TargetState | None, event: str) -> None:
        entries = [] if state is None else [records.state_entry(name, state)]
        entries.append(records.connector_entry(name, texts))
        if state == STOPPED:
            entries.append(records.no_tasks_entry(name))
        before = self._store.connectors.configs.get(name, {})
        if warning := inline_secrets.warning(texts, before, self._store.config_topic):
            _log.warning("connector %s: %s", name, warning)
        self._store.put(entries)
        self._apply()
        self._event(name, event)

    def _set_state(self, name: str, state: TargetState, event: str) -> None:
        with self._writing():
            self._require(name, "Unknown connector {}")
            before = self._store.connectors.state(name)
            self._store.put(
                [records.state_entry(name, state), *([records.no_tasks_entry(name)] if state == STOPPED else [])]
            )
            self._apply()
            if before != state:
                self._event(name, event)

    def _restart(self, name: str, subjects: set[str]) -> None:
        counts = self._restarts.setdefault(name, {})
        for subject in subjects:
            counts[subject] = counts.get(subject, 0) + 1
        self._apply()
        if subjects:
            self._event(name, "restarted")

    def _role(self, name: str) -> str:
        its = self._facts.flow_roles.get(name)
        return its.role if its is not None else "source"

    def _event(self, name: str, text: str) -> None:
        self._events.put(("", f"connector {name}: {text}"))

    def _apply(self) -> None:
        """Puts the current content of the config topic into effect."""
        known = self._store.connectors
        file_set = self._files.make(known)
        for name, reason in file_set.failed.items():
            if self._file_set.failed.get(name) != reason:
                self._event(name, f"cannot run: {reason}")
        flow_roles = file_set.flow_roles
        desired = []
        for flow in file_set.flows:
            restarts: dict[str, int] = {}
            for name, its in flow_roles.items():
                if its.flow is flow:
                    restarts |= self._restarts.get(name, {})
            tasks = tasks_of(flow) if flow.source else 1
            desired.append(DesiredFlow(flow, file_set.paths, tasks, tuple(sorted(restarts.items()))))
        self._file_set = file_set
        self._facts = ConnectorFacts(
            {name: dict(config) for name, config in known.configs.items()},
            {name: known.state(name) for name in known.configs},
            flow_roles,
            file_set.failed,
        )
        self._revision = self._runtime.set_desired(desired)


def to_restart(role: str, found: ConnectorStatus, *, include_tasks: bool, only_failed: bool) -> set[str]:
    """The components to restart. For a source connector, RECORDS are its tasks and TOPICS the connector itself."""
    itself = not only_failed or found.connector.state == "FAILED"
    its_tasks = include_tasks and (not only_failed or any(task.state == "FAILED" for task in found.tasks))
    if role != "source":
        return set(SUBJECTS[role]) if itself or its_tasks else set()
    never_started = itself and found.connector.state == "FAILED"
    return ({TOPICS} if itself else set()) | ({RECORDS} if its_tasks or never_started else set())


def _initial(state: str | None) -> TargetState | None:
    if state is None:
        return None
    found = _STATES.get(str(state).upper())
    if found is None:
        raise ConnectError(400, f"initial_state {state!r}: expected RUNNING, PAUSED or STOPPED")
    return found
