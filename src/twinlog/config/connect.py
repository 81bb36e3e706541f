"""Reads MM2 connectors in the formats of Kafka Connect: JSON, flat or {"name", "config"}, and the worker's file."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from twinlog.config.clients import CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.files import Source
from twinlog.config.flows import State
from twinlog.config.layers import Values
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.settings import BYTE_ARRAY, CONNECTORS, MIRROR
from twinlog.config.values import Origin, Value, derived

_KEY = re.compile(r'"(?:[^"\\]|\\.)*"(?=\s*:)')
_STATES = ("running", "paused", "stopped")

# For connectors without a worker's file: the names in Kafka's connect-distributed.properties, and the only converter
# that does not change bytes.
_WORKER_DEFAULTS = {
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
    """One connector of a file."""

    kind: str  # MirrorSourceConnector ...
    values: dict[str, Value]
    state: State = "running"


def read_connectors(source: Source, problems: Problems) -> list[ConnectorFile]:
    """The connectors in one JSON file; those that are not MM2's are skipped with a warning."""
    try:
        # Numbers are kept as text, as in Connect's configuration.
        content = json.loads(source.text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError:
        problems.error(source.name, "not a connector: JSON nested too deeply")
        return []
    except json.JSONDecodeError as error:
        problems.error(f"{source.name}:{error.lineno}", f"invalid JSON: {error.msg} at column {error.colno}")
        return []
    lines = _lines(source.text)
    found = []
    for body in content if isinstance(content, list) else [content]:
        if not isinstance(body, dict):
            problems.error(source.name, 'not a connector; expected {"name": ..., "config": {...}} or its config only')
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
            problems.warn(origin(key), f"{key}: unknown key next to name and config, ignored; move it into config")
    values: dict[str, Value] = {}
    for key, content in config.items():
        if isinstance(content, dict | list):
            problems.error(origin(key), f"{key}: expected a string, a number, true or false")
        elif content is not None:
            values[key] = Value(key, _text(content), origin(key))
    values.setdefault("name", derived("name", source.path.stem, f"the name of {source.name}"))
    named = values.get("connector.class")
    if named is None and not source.named:
        problems.warn(source.name, "skipped: not a connector, connector.class is missing")
        return None
    if named is None:
        problems.error(
            source.name, "connector.class is missing; use one of " + ", ".join(MIRROR + name for name in CONNECTORS)
        )
        return None
    kind = connector_kind(named.text.strip())
    if kind is None:
        near = did_you_mean(named.text.strip(), [MIRROR + name for name in CONNECTORS])
        if near:  # an error, because a connector skipped for a typo might only be missed when it is needed
            problems.error(named.origin, f"connector.class = {named.text!r}: unknown class{near}")
        else:
            problems.warn(named.origin, f"connector.class = {named.text!r}: skipped, not a connector of MM2")
        return None
    return ConnectorFile(kind, values, state)


def connector_kind(name: str) -> str | None:
    """Connect accepts the class name, its simple name, or that without `Connector`."""
    simple = name.removeprefix(MIRROR)
    return next((kind for kind in CONNECTORS if simple in (kind, kind.removesuffix("Connector"))), None)


def default_worker(target: Values, worker: Values | None) -> dict[str, Value]:
    """The worker of a flow: its file if there is one, else Kafka's defaults on the connector's target cluster.

    On a real Connect cluster the records go to the worker's cluster, regardless of `target.cluster.*`.
    """
    standalone = worker is not None and "offset.storage.file.filename" in worker
    if worker is not None and not standalone:
        return dict(worker)
    values = {key: derived(key, text, "assumed") for key, text in _WORKER_DEFAULTS.items()}
    for key in CONNECTION_KEYS:
        if (value := target.get(f"target.cluster.{key}")) is not None:
            values[key] = value.named(key)
            for client in CLIENT_LETTERS:
                values[f"{client}.{key}"] = value.named(f"{client}.{key}")
    return values | dict(worker or {})  # a standalone worker has no topics


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
    """The line of each key; of duplicates the last, which is the effective one."""
    return {json.loads(match[0]): text.count("\n", 0, match.start()) + 1 for match in _KEY.finditer(text)}
