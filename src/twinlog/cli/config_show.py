"""`twinlog config show`: every effective setting of each flow and its origin, as a table or as JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from twinlog.config import Client, Config, Connector, FlowConfig, Problem
from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.layers import known_client_key, letter
from twinlog.config.setting import rows
from twinlog.config.settings import CONNECTORS
from twinlog.config.values import DEFAULT, Origin, Value, is_secret
from twinlog.text import MASK

_TITLES = {
    "source": "records, topics, configs, ACLs (MirrorSourceConnector)",
    "checkpoint": "consumer groups (MirrorCheckpointConnector)",
    "heartbeat": "heartbeats (MirrorHeartbeatConnector)",
}
_CLIENTS = {
    "data.producer": "writes the records to the target",
    "source.consumer": "reads the records from the source",
    "source.producer": "writes offset syncs, if they are on the source",
    "source.admin": "lists the source's topics, groups and ACLs",
    "target.consumer": "reads checkpoints and offset syncs on the target",
    "target.producer": "writes offset syncs, if they are on the target",
    "target.admin": "creates topics, partitions and ACLs on the target",
}
# Settings of clients are listed per client instead.
_OF_CLIENTS = ("source.", "target.", "consumer.", "producer.", "admin.", "config.providers.")
_WIDE = 80  # characters from which a list has one element per line
_KNOWN = {row.key.name for settings in CONNECTORS.values() for row in rows(settings)} | set(CONNECTION_KEYS)
Setting = tuple[Any, Origin, str]  # effective value, origin, why it has no effect (mostly empty)


def as_json(config: Config) -> str:
    return _dumped(
        {
            "files": config.files,
            "clusters": {alias: _values(client.values) for alias, client in config.clusters.items()},
            "flows": [_flow(flow) for flow in config.flows],
            "problems": _problems(config.problems),
        }
    )


def problems_as_json(problems: Iterable[Problem]) -> str:
    """For an invalid configuration: there is nothing else to show."""
    return _dumped({"problems": _problems(problems)})


def as_text(config: Config, *, defaults: bool = True) -> str:
    """Warnings first, so that hundreds of lines or a pager do not hide them."""
    sections = []
    if config.problems:
        sections.append("\n".join(["problems", *(f"  {problem}" for problem in config.problems)]))
    sections.append(_clusters(config.clusters))
    sections += [_flow_text(flow, defaults=defaults) for flow in config.flows]
    return "\n\n".join(section for section in sections if section)


def _dumped(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


def _problems(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"level": problem.level, "where": problem.where, "text": problem.text} for problem in problems]


def _flow(flow: FlowConfig) -> dict[str, Any]:
    return {
        "flow": str(flow),
        "source": flow.flow.source,
        "target": flow.flow.target,
        "replicates": flow.replicates,
        "emits_heartbeats": flow.emits_heartbeats,
        "connectors": {
            connector.kind: {
                "state": connector.state,
                "settings": _settings_json(connector.settings, connector.values),
                "config": _values(connector.values),
                "clients": {role: _values(client.values, role) for role, client in connector.clients.items()},
            }
            for connector in flow.connectors.values()
        },
        "worker": {
            "settings": _settings_json(flow.worker.settings, flow.worker.values),
            "config": _values(flow.worker.values),
        },
    }


def _settings_json(settings: Any, values: Mapping[str, Value]) -> dict[str, Any]:
    return {
        key: {"value": value, "from": _origin(origin), **_marked(no_effect)}
        for key, (value, origin, no_effect) in _effective(settings, values).items()
    }


def _values(values: Mapping[str, Value], client: str = "") -> dict[str, Any]:
    """`client`: the role of the client, if they are settings of one."""
    return {
        key: {
            "value": values[key].shown,
            "from": _origin(values[key].origin),
            **_marked(_no_effect_of_client(client, key) if client else ""),
        }
        for key in sorted(values)
    }


def _marked(reason: str) -> dict[str, str]:
    return {"no_effect": reason} if reason else {}


def _no_effect_of_client(role: str, key: str) -> str:
    return CLIENT_KEYS[letter(role)][key].no_effect if known_client_key(role, key) else ""


def _origin(origin: Origin) -> dict[str, Any]:
    full = {"kind": origin.kind, "file": origin.file, "line": origin.line, "key": origin.key, "note": origin.note}
    return {name: part for name, part in full.items() if part}


def _effective(settings: Any, values: Mapping[str, Value]) -> dict[str, Setting]:
    """Every known key, with its effective value."""
    found = {}
    for row in rows(type(settings)):
        name = row.key.name
        value = getattr(settings, row.field)
        given = values.get(name)
        if given and is_secret(name, given.text):
            value = MASK
        elif given and given.reference and not isinstance(value, bool | int | float):
            value = given.reference  # a value from a provider may be a secret, but not a number or a boolean
        found[name] = (value, given.origin if given else DEFAULT, row.key.no_effect)
    return found


def _custom(values: Mapping[str, Value]) -> dict[str, Setting]:
    """Settings of custom classes: transformations, converters, filters."""
    return {
        key: (value.shown, value.origin, "")
        for key, value in sorted(values.items())
        if key not in _KNOWN and value.origin.kind == "file" and not key.startswith(_OF_CLIENTS)
    }


def _flow_text(flow: FlowConfig, *, defaults: bool) -> str:
    what = "replicates" if flow.replicates else "does not replicate"
    title = f"{flow}: {what}, {'emits' if flow.emits_heartbeats else 'emits no'} heartbeats"
    tables: dict[str, Mapping[str, Setting]] = {}
    effective = {
        name: _effective(connector.settings, connector.values) | _custom(connector.values)
        for name, connector in flow.connectors.items()
    }
    shared = _shared(effective.values())
    tables["all connectors"] = shared
    for name, settings in effective.items():
        tables[_TITLES[name]] = {key: setting for key, setting in settings.items() if key not in shared}
    tables["worker (on the target)"] = _effective(flow.worker.settings, flow.worker.values)
    tables |= _clients(flow.connectors.values())
    parts = [title + "\n" + "=" * len(title)]
    for name, table in tables.items():
        shown = {key: one for key, one in table.items() if defaults or one[1].kind == "file"}
        if shown:
            parts.append(_table(name, shown))
    return "\n\n".join(parts)


def _shared(maps: Iterable[Mapping[str, Setting]]) -> dict[str, Setting]:
    """Settings that are the same in several connectors."""
    every: dict[str, list[Setting]] = {}
    for settings in maps:
        for key, setting in settings.items():
            every.setdefault(key, []).append(setting)
    return {key: found[0] for key, found in every.items() if len(found) > 1 and all(one == found[0] for one in found)}


def _clients(connectors: Iterable[Connector[Any]]) -> dict[str, Mapping[str, Setting]]:
    """The settings of each client, without Kafka's defaults; once if connectors agree."""
    found: dict[str, dict[str, Setting]] = {}
    titles: dict[str, str] = {}
    for connector in connectors:
        for role, client in connector.clients.items():
            settings = {
                key: (value.shown, value.origin, _no_effect_of_client(role, key))
                for key, value in sorted(client.values.items())
                if known_client_key(role, key)
            }
            if found.setdefault(role, settings) != settings:
                found[f"{role} of {connector.kind}"] = settings
            titles[role] = f"client {role} ({_CLIENTS[role]})"
    return {titles.get(role, f"client {role}"): settings for role, settings in found.items()}


def _clusters(clusters: Mapping[str, Client]) -> str:
    settings = {
        f"{alias}.{key}": (value.shown, value.origin, "")
        for alias, client in clusters.items()
        for key, value in client.values.items()
    }
    return _table("clusters", settings) if settings else ""


def _table(title: str, settings: Mapping[str, Setting]) -> str:
    """Key, origin, value: the value is last because it may be long, followed by a note, which is rare."""
    keys = max(len(key) for key in settings)
    places = {key: _place(origin) for key, (_, origin, _) in settings.items()}
    width = max(len(place) for place in places.values())
    indent = "\n" + " " * (keys + width + 6)
    lines = []
    for key, (value, origin, no_effect) in settings.items():
        text = _text(value)
        if isinstance(value, tuple) and len(text) > _WIDE:
            text = text.replace(", ", f",{indent}")
        notes = [origin.note] if origin.note else []
        notes += [f"no effect: {no_effect}"] if no_effect else []
        note = f"  ({'; '.join(notes)})" if notes else ""
        lines.append(f"  {key:<{keys}}  {places[key]:<{width}}  {text}{note}".rstrip())
    return "\n".join([title, *lines])


def _place(origin: Origin) -> str:
    return f"{origin.file}:{origin.line}" if origin.kind == "file" else origin.kind


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(value) or "(empty)"
        case str():
            return value.replace("\n", "\\n") or '""'
        case _:
            return str(value)
