"""MM2's connectors as Kafka Connect takes them: JSON files, flat or {"name", "config"}, and the worker's file."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from twinlog.config.clients import CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.flows import State
from twinlog.config.layers import Values
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.settings import BYTE_ARRAY, CONNECTORS, MIRROR
from twinlog.config.sources import Source
from twinlog.config.values import Origin, Value, derived

_KEY = re.compile(r'"(?:[^"\\]|\\.)*"(?=\s*:)')
_STATES = ("running", "paused", "stopped")

# For connectors that come without a worker's file: the names of Kafka's connect-distributed.properties, and the only
# converter that leaves bytes alone.
_WORKER = {
    "group.id": "connect-cluster",
    "offset.storage.topic": "connect-offsets",
    "config.storage.topic": "connect-configs",
    "status.storage.topic": "connect-status",
    "key.converter": BYTE_ARRAY,
    "value.converter": BYTE_ARRAY,
    "header.converter": BYTE_ARRAY,
}


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One connector, as a file gives it."""

    kind: str  # MirrorSourceConnector ...
    values: dict[str, Value]
    state: State = "running"


def read_connectors(source: Source, problems: Problems) -> list[ConnectorFile]:
    """The connectors in one JSON file; those that are not MM2's are left out with a warning."""
    try:
        # Numbers stay as they are written: Connect's configuration is text.
        content = json.loads(source.text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError:
        problems.error(source.name, "nested too deeply")
        return []
    except json.JSONDecodeError as error:
        problems.error(f"{source.name}:{error.lineno}", f"not JSON: {error.msg} at column {error.colno}")
        return []
    lines = _lines(source.text)
    found = []
    for body in content if isinstance(content, list) else [content]:
        if not isinstance(body, dict):
            problems.error(source.name, 'expected a connector: {"name": ..., "config": {...}} or its config alone')
        elif connector := _connector(source, body, lines, problems):
            found.append(connector)
    return found


def _connector(
    source: Source, body: dict[str, Any], lines: Mapping[str, int], problems: Problems
) -> ConnectorFile | None:
    def origin(key: str) -> Origin:
        return Origin("file", source.name, lines.get(key, 1), key)

    config = body
    state: State = "running"
    if isinstance(body.get("config"), dict):
        config = dict(body["config"])
        if "name" in body:
            config.setdefault("name", body["name"])
        state = _state(body.get("initial_state"), origin("initial_state"), problems)
        for key in set(body) - {"name", "config", "initial_state", "tasks", "type"}:
            problems.warn(origin(key), f"{key}: unknown key beside name and config: it is ignored")
    values: dict[str, Value] = {}
    for key, content in config.items():
        if isinstance(content, dict | list):
            problems.error(origin(key), f"{key}: expected a text, a number, true or false")
        elif content is not None:
            values[key] = Value(key, _text(content), origin(key))
    values.setdefault("name", derived("name", source.path.stem, f"the name of {source.name}"))
    named = values.get("connector.class")
    if named is None and not source.named:
        problems.warn(source.name, "no connector.class, so no connector: left out")
        return None
    if named is None:
        problems.error(
            source.name, "connector.class is missing: one of " + ", ".join(MIRROR + name for name in CONNECTORS)
        )
        return None
    kind = connector_kind(named.text.strip())
    if kind is None:
        near = did_you_mean(named.text.strip(), [MIRROR + name for name in CONNECTORS])
        if near:  # a connector that is left out because of one letter would be missed only when it is needed
            problems.error(named.origin, f"connector.class = {named.text!r}: no such class{near}")
        else:
            problems.warn(named.origin, f"connector.class = {named.text!r} is not a connector of MM2: left out")
        return None
    return ConnectorFile(kind, values, state)


def connector_kind(name: str) -> str | None:
    """Connect takes the class, its simple name, or that without `Connector`."""
    simple = name.removeprefix(MIRROR)
    return next((kind for kind in CONNECTORS if simple in (kind, kind.removesuffix("Connector"))), None)


def default_worker(target: Values, worker: Values | None) -> dict[str, Value]:
    """The worker of a flow: its own file if there is one, else Kafka's defaults on the connector's target cluster.

    On a real Connect cluster the records go to the worker's cluster, whatever `target.cluster.*` says.
    """
    standalone = worker is not None and "offset.storage.file.filename" in worker
    if worker is not None and not standalone:
        return dict(worker)
    made = {key: derived(key, text, "assumed") for key, text in _WORKER.items()}
    for key in CONNECTION_KEYS:
        if (value := target.get(f"target.cluster.{key}")) is not None:
            made[key] = value.named(key)
            for client in CLIENT_LETTERS:
                made[f"{client}.{key}"] = value.named(f"{client}.{key}")
    return made | dict(worker or {})  # a standalone worker keeps no topics of its own


def is_worker_file(keys: Iterable[str]) -> bool:
    return bool({"group.id", "offset.storage.topic", "config.storage.topic", "key.converter"} & set(keys))


def _state(content: object, origin: Origin, problems: Problems) -> State:
    state = str(content or "running").lower()
    if state not in _STATES:
        problems.error(origin, f"initial_state = {content!r}: expected RUNNING, PAUSED or STOPPED")
        return "running"
    return cast("State", state)


def _text(content: object) -> str:
    return str(content).lower() if isinstance(content, bool) else str(content)


def _lines(text: str) -> dict[str, int]:
    """Where each key stands; of two equal ones the last, which is the one that counts."""
    return {json.loads(match[0]): text.count("\n", 0, match.start()) + 1 for match in _KEY.finditer(text)}
