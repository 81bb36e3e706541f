"""A Connect worker for MM2's three connectors: keeps their configurations, has them run, and answers for them."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from twinlog.config.flows import FlowConfig
from twinlog.connect import offsets as offset_rules
from twinlog.connect import rewind, standing
from twinlog.connect import topics as written
from twinlog.connect.check import Check
from twinlog.connect.errors import ConnectError
from twinlog.connect.generations import Generation, Generations
from twinlog.connect.offsets import Offset, key_of, value_of
from twinlog.connect.plugins import VERSION
from twinlog.connect.standing import Standings, restarting
from twinlog.connect.store import StatusWriter, Store
from twinlog.connect.topics import PAUSED, STARTED, STOPPED, Entry, Standing, TargetState
from twinlog.connect.view import Json, Sight, View, kind_of
from twinlog.errors import TwinlogError
from twinlog.runtime.choice import tasks_of
from twinlog.runtime.parts import RECORDS, SUBJECTS, TOPICS, Part, Wanted
from twinlog.runtime.supervisor import Runtime

_ENDS: Final = 30.0  # seconds that a stopped connector may take to end
_GENERATION: Final = 1  # in records of states: that of the group, of which there is only one member
_LOOK: Final = 1.0  # seconds between two looks at states
_STATES: Final[dict[str, TargetState]] = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}


class ServeWorker(View):
    """Its methods may be called from any thread; `tick` and `close` belong to that of the supervisor."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        generations: Generations,
        check: Check,
        status: StatusWriter,
        worker_id: str,
    ) -> None:
        super().__init__(runtime, worker_id)
        self._store = store
        self._generations = generations
        self._check = check
        self._status = status
        self._lock = threading.RLock()  # for the store, and for whoever changes what is wanted
        self._generation = Generation()
        self._wish = 0
        self._swept = 0
        self._restarts: dict[str, dict[str, int]] = {}
        self._said: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._told: dict[bytes, bytes] = {}  # states as they were last written
        self._looked = 0.0
        self._active_lock = threading.Lock()
        self._active = store.activity.topics

    @property
    def cluster_id(self) -> str | None:
        return self._store.cluster_id

    @property
    def flows(self) -> tuple[FlowConfig, ...]:
        return self._generation.flows

    def begin(self) -> None:
        """Has run what the config topic says; before anything is asked."""
        with self._lock:
            self._apply()

    # What is changed

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str | None = None) -> Json:
        state = _initial(initial_state)
        with self._writing():
            texts = self._checked(name, config)
            self._catch_up()
            if name in self._store.connectors.configs:
                raise ConnectError(409, f"Connector {name} already exists")
            self._put(name, texts, state, "created" if state is None else f"created, {state.lower()}")
            return standing.info_json(name, texts, 0)

    def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, Json]:
        with self._writing():
            self._catch_up()
            before = self._store.connectors.configs.get(name)
            texts = self._checked(name, config)
            self._put(name, texts, None, "created" if before is None else "changed")
            tasks = 0 if before is None else len(self.standings(name).tasks)
            return before is None, standing.info_json(name, texts, tasks)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        with self._writing():
            self._catch_up()
            before = self._store.connectors.configs.get(name)
            if before is None:
                raise ConnectError(404, f"Connector {name} not found")
            texts = self._checked(name, {**before, **patch})
            self._put(name, texts, None, "changed")
            return standing.info_json(name, texts, len(self.standings(name).tasks))

    def delete(self, name: str) -> None:
        with self._writing():
            self._known(name, "Connector {} not found")
            self._store.put(written.removal_entries(name))
            self._restarts.pop(name, None)
            self._apply()
            self._say(name, "deleted")
        self.reset_topics(name)

    def pause(self, name: str) -> None:
        self._set_state(name, PAUSED, "paused")

    def resume(self, name: str) -> None:
        self._set_state(name, STARTED, "resumed")

    def stop(self, name: str) -> None:
        self._set_state(name, STOPPED, "stopped")

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> Json | None:
        with self._writing():
            self._known(name, "Unknown connector: {}")
            found = self.standings(name)
            self._renew(name, to_restart(self._role(name), found, include_tasks=include_tasks, only_failed=only_failed))
        if not include_tasks and not only_failed:
            return None
        shown = restarting(found, include_tasks=include_tasks, only_failed=only_failed)
        return standing.status_json(name, shown, self._worker_id, VERSION, self._type(name))

    def restart_task(self, name: str, task: int) -> None:
        """Spark runs all tasks of a flow in one query: they are restarted together."""
        with self._writing():
            self._known(name, "Unknown connector: {}")
            if not 0 <= task < len(self.standings(name).tasks):
                raise ConnectError(404, f"Unknown task: {name}-{task}")
            self._renew(name, {SUBJECTS[self._role(name)][0]})

    # Offsets

    def offsets(self, name: str) -> Json:
        with self._writing():
            self._known(name, "Connector {} not found")
            return offset_rules.offsets_json(self._store.offsets(name))

    def alter_offsets(self, name: str, entries: Sequence[Mapping[str, Any]] | None) -> Json:
        with self._writing():
            self._known(name, "Connector {} not found")
            found = offset_rules.asked(kind_of(self._role(name)), entries)
            self._move(name, found)
            self._say(name, f"offsets of {len(found)} partitions altered" if found[1:] else "an offset altered")
        return {"message": "The offsets for this connector have been altered successfully"}

    def reset_offsets(self, name: str) -> Json:
        with self._writing():
            self._known(name, "Connector {} not found")
            self._wait_until_ended(name)
            self._move(name, [Offset(each.partition, None) for each in self._store.offsets(name)])
            self._say(name, "offsets reset")
        return {"message": "The offsets for this connector have been reset successfully"}

    def _move(self, name: str, entries: Sequence[Offset]) -> None:
        """First where Twinlog goes on, then what MM2 reads: whoever sees the latter can rely on the former."""
        self._wait_until_ended(name)
        place = self._sight.places.get(name)
        if place is not None and place.role == "source":
            self._store.put_offsets(rewind.cursors(place.flow, rewind.moves_of(place.flow, entries)))
        self._store.put_offsets([(key_of(name, each.partition), value_of(each.offset)) for each in entries])

    def _wait_until_ended(self, name: str) -> None:
        if self._store.connectors.state(name) != STOPPED:
            raise ConnectError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )
        place = self._sight.places.get(name)
        if place is None:
            return
        part = Part(str(place.flow), SUBJECTS[place.role][0])
        deadline = time.monotonic() + _ENDS
        while self._runtime.up and (self._runtime.carried_out < self._wish or part in self._runtime.parts):
            if time.monotonic() > deadline:
                raise ConnectError(500, f"{name} has not ended after {_ENDS:.0f} s: try again")
            time.sleep(0.05)

    # Topics

    def topics(self, name: str) -> Json:
        with self._active_lock:
            return {name: {"topics": sorted(self._active.get(name, ()))}}

    def reset_topics(self, name: str) -> None:
        with self._active_lock:
            gone = self._active.pop(name, set())
        self._status.put(written.active_topic_removals(name, gone))

    # In the supervisor's thread

    def tick(self, events: Callable[[str, str], None]) -> None:
        """What was said since; states that changed are written, and files that nobody needs any more removed."""
        with contextlib.suppress(Empty):
            while True:
                events(*self._said.get_nowait())
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        self._tell_states()
        self._tell_topics()
        paths, wish = self._generation.paths, self._wish
        if wish != self._swept and self._runtime.carried_out >= wish:
            self._generations.sweep({*paths, *self._runtime.used_paths})
            self._swept = wish

    def close(self) -> None:
        """What is not run any more is nobody's. What failed may have been taken over: there, that one's word counts."""
        failed = {key for key, value in self._told.items() if b'"state":"FAILED"' in value}
        failed |= {written.connector_key(name) for name in self.names() if written.task_key(name, 0) in failed}
        unassigned = self._value(Standing("UNASSIGNED"))
        self._status.put([(key, unassigned) for key in self._told if key not in failed])
        self._status.close()

    def _tell_states(self) -> None:
        states: dict[bytes, bytes] = {}
        for name in self.names():
            found = self.standings(name)
            states[written.connector_key(name)] = self._value(found.connector)
            states |= {written.task_key(name, task): self._value(each) for task, each in enumerate(found.tasks)}
        before = {**dict.fromkeys(self._store.activity.keys, b""), **self._told}
        changed: list[Entry] = [(key, value) for key, value in states.items() if before.get(key) != value]
        changed += [(key, None) for key in before if key not in states]
        self._store.activity.keys.clear()
        self._told = states
        self._status.put(changed)

    def _value(self, found: Standing) -> bytes:
        return written.standing_value(found, self._worker_id, _GENERATION, VERSION)

    def _tell_topics(self) -> None:
        now = int(time.time() * 1000)
        for name in self.names():
            with self._active_lock:
                new = self.written_topics(name) - self._active.get(name, set())
                if new:
                    self._active.setdefault(name, set()).update(new)
            self._status.put([written.active_topic_entry(name, topic, 0, now) for topic in sorted(new)])

    # The inside

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One at a time; a cluster that does not answer is told as Connect tells of its own mishaps."""
        with self._lock:
            try:
                yield
            except ConnectError:
                raise
            except (TwinlogError, OSError) as error:
                raise ConnectError(500, str(error)) from error

    def _checked(self, name: str, config: Mapping[str, str | None]) -> dict[str, str]:
        texts = {key: text for key, text in {**config, "name": name}.items() if text is not None}
        self._check(name, texts)
        return texts

    def _known(self, name: str, otherwise: str) -> None:
        self._catch_up()
        if name not in self._store.connectors.configs:
            raise ConnectError(404, otherwise.format(name))

    def _catch_up(self) -> None:
        """Another worker of the group may have written."""
        if self._store.catch_up():
            self._apply()

    def _put(self, name: str, texts: Mapping[str, str], state: TargetState | None, said: str) -> None:
        entries = [] if state is None else [written.state_entry(name, state)]
        entries.append(written.connector_entry(name, texts))
        if state == STOPPED:
            entries.append(written.no_tasks_entry(name))
        self._store.put(entries)
        self._apply()
        self._say(name, said)

    def _set_state(self, name: str, state: TargetState, said: str) -> None:
        with self._writing():
            self._known(name, "Unknown connector {}")
            before = self._store.connectors.state(name)
            self._store.put(
                [written.state_entry(name, state), *([written.no_tasks_entry(name)] if state == STOPPED else [])]
            )
            self._apply()
            if before != state:
                self._say(name, said)

    def _renew(self, name: str, subjects: set[str]) -> None:
        counts = self._restarts.setdefault(name, {})
        for subject in subjects:
            counts[subject] = counts.get(subject, 0) + 1
        self._apply()
        if subjects:
            self._say(name, "restarted")

    def _role(self, name: str) -> str:
        place = self._sight.places.get(name)
        return place.role if place is not None else "source"

    def _say(self, name: str, text: str) -> None:
        self._said.put(("", f"connector {name}: {text}"))

    def _apply(self) -> None:
        """What the config topic says now, put into effect."""
        known = self._store.connectors
        generation = self._generations.make(known)
        for name, reason in generation.failed.items():
            if self._generation.failed.get(name) != reason:
                self._say(name, f"cannot be run: {reason}")
        places = generation.places
        wanted = []
        for flow in generation.flows:
            restarts: dict[str, int] = {}
            for name, place in places.items():
                if place.flow is flow:
                    restarts |= self._restarts.get(name, {})
            tasks = tasks_of(flow) if flow.source else 1
            wanted.append(Wanted(flow, generation.paths, tasks, tuple(sorted(restarts.items()))))
        self._generation = generation
        self._sight = Sight(
            {name: dict(config) for name, config in known.configs.items()},
            {name: known.state(name) for name in known.configs},
            places,
            generation.failed,
        )
        self._wish = self._runtime.want(wanted)


def to_restart(role: str, found: Standings, *, include_tasks: bool, only_failed: bool) -> set[str]:
    """Which parts are started anew. Of the source connector the records are its tasks; all else is itself."""
    itself = not only_failed or found.connector.state == "FAILED"
    its_tasks = include_tasks and (not only_failed or any(task.state == "FAILED" for task in found.tasks))
    if role != "source":
        return set(SUBJECTS[role]) if itself or its_tasks else set()
    never_begun = itself and found.connector.state == "FAILED"
    return ({TOPICS} if itself else set()) | ({RECORDS} if its_tasks or never_begun else set())


def _initial(state: str | None) -> TargetState | None:
    if state is None:
        return None
    found = _STATES.get(str(state).upper())
    if found is None:
        raise ConnectError(400, f"initial_state {state!r}: expected RUNNING, PAUSED or STOPPED")
    return found
