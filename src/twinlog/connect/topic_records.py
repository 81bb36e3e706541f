"""The records of a Connect worker's config topic and status topic, as Connect writes and reads them. Pure.

Keys are a prefix and a name (`connector-<name>`); values are JSON without a schema. Unknown records are ignored, as in
Connect, whose workers write more than is needed here.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

TargetState = Literal["STARTED", "PAUSED", "STOPPED"]
STARTED: Final[TargetState] = "STARTED"
PAUSED: Final[TargetState] = "PAUSED"
STOPPED: Final[TargetState] = "STOPPED"

_STATES: Final = frozenset((STARTED, PAUSED, STOPPED))
_CONNECTOR: Final = "connector-"
_STATE: Final = "target-state-"
_COMMIT: Final = "commit-"
_TOPIC: Final = "status-topic-"
_OF_CONNECTOR: Final = ":connector-"

Entry = tuple[bytes, bytes | None]  # key, value


@dataclass(slots=True)
class Connectors:
    """The content of a config topic: connectors in the order of creation, with their target states."""

    configs: dict[str, Mapping[str, str | None]] = field(default_factory=dict)  # null is stored and means "not set"
    states: dict[str, TargetState] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)  # number of task configs written by a Connect worker

    def on_record(self, key: bytes | None, value: bytes | None) -> None:
        text = (key or b"").decode(errors="replace")
        content = _object(value)
        if text.startswith(_CONNECTOR):
            name = text.removeprefix(_CONNECTOR)
            if value is None:
                self.configs.pop(name, None)
                self.tasks.pop(name, None)
            elif isinstance(properties := content.get("properties"), dict):
                self.configs[name] = {key: _text(one) for key, one in properties.items()}
        elif text.startswith(_STATE):
            name = text.removeprefix(_STATE)
            if value is None:
                self.states.pop(name, None)
            elif isinstance(state := content.get("state.v2", content.get("state")), str) and state in _STATES:
                self.states[name] = state
        elif text.startswith(_COMMIT) and isinstance(count := content.get("tasks"), int):
            self.tasks[text.removeprefix(_COMMIT)] = count

    def state(self, name: str) -> TargetState:
        return self.states.get(name, STARTED)


def connector_entry(name: str, config: Mapping[str, str | None]) -> Entry:
    return f"{_CONNECTOR}{name}".encode(), _json({"properties": dict(config)})


def state_entry(name: str, state: TargetState) -> Entry:
    """Workers before 3.5 know only two states; for them, stopped is paused."""
    older = PAUSED if state == STOPPED else state
    return f"{_STATE}{name}".encode(), _json({"state": older, "state.v2": state})


def no_tasks_entry(name: str) -> Entry:
    """Written for stopped connectors: otherwise a Connect worker would refuse to alter their offsets."""
    return f"{_COMMIT}{name}".encode(), _json({"tasks": 0})


def removal_entries(name: str) -> list[Entry]:
    return [(f"{_CONNECTOR}{name}".encode(), None), (f"{_STATE}{name}".encode(), None)]


# The status topic


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """The state of a connector or task."""

    state: str  # RUNNING, PAUSED, FAILED, UNASSIGNED, STOPPED, RESTARTING
    trace: str = ""


def connector_key(name: str) -> bytes:
    return f"status-connector-{name}".encode()


def task_key(name: str, task: int) -> bytes:
    return f"status-task-{name}-{task}".encode()


def status_value(status: StatusRecord, worker_id: str, generation: int, version: str) -> bytes:
    return _json(
        {
            "state": status.state,
            "trace": status.trace or None,
            "worker_id": worker_id,
            "generation": generation,
            "version": version,
        }
    )


def active_topic_entry(connector: str, topic: str, task: int, now_ms: int) -> Entry:
    key = f"{_TOPIC}{topic}{_OF_CONNECTOR}{connector}".encode()
    content = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}
    return key, _json({"topic": content})


def active_topic_removals(connector: str, topics: Iterable[str]) -> list[Entry]:
    return [(f"{_TOPIC}{topic}{_OF_CONNECTOR}{connector}".encode(), None) for topic in topics]


@dataclass(slots=True)
class Activity:
    """What a worker needs from the status topic when it starts: active topics, and the keys of written states."""

    topics: dict[str, set[str]] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)  # of connector and task states

    def on_record(self, key: bytes | None, value: bytes | None) -> None:
        text = (key or b"").decode(errors="replace")
        if text.startswith(_TOPIC):
            topic, found, connector = text.removeprefix(_TOPIC).partition(_OF_CONNECTOR)
            if not found:
                return
            if value is None:
                self.topics.get(connector, set()).discard(topic)
            else:
                self.topics.setdefault(connector, set()).add(topic)
        elif key is not None and text.startswith(("status-connector-", "status-task-")):
            if value is None:
                self.keys.discard(key)
            else:
                self.keys.add(key)


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else json.dumps(content)
