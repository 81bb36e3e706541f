"""`twinlog config show`: every effective setting of each flow and where it came from, as a table or as JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from twinlog.config import Client, Config, Connector, FlowConfig
from twinlog.config.table import rows
from twinlog.config.values import DEFAULT, MASK, Origin, Value, is_secret

_TITLES = {
    "source": "records, topics, configs, ACLs (MirrorSourceConnector)",
    "checkpoint": "consumer groups (MirrorCheckpointConnector)",
    "heartbeat": "heartbeats (MirrorHeartbeatConnector)",
}
Setting = tuple[Any, Origin]


def as_json(config: Config) -> str:
    return json.dumps(
        {
            "files": config.files,
            "clusters": {alias: _values(client.values) for alias, client in config.clusters.items()},
            "flows": [_flow(flow) for flow in config.flows],
            "problems": [{"level": p.level, "where": p.where, "text": p.text} for p in config.problems],
        },
        indent=2,
        ensure_ascii=False,
    )


def as_text(config: Config) -> str:
    sections = [_clusters(config.clusters)]
    sections += [_flow_text(flow) for flow in config.flows]
    return "\n\n".join(section for section in sections if section)


def _flow(flow: FlowConfig) -> dict[str, Any]:
    return {
        "flow": str(flow),
        "source": flow.flow.source,
        "target": flow.flow.target,
        "replicates": flow.replicates,
        "connectors": {
            connector.settings.connector_class.rpartition(".")[2]: {
                "state": connector.state,
                "settings": _settings_json(connector.settings, connector.values),
                "config": _values(connector.values),
                "clients": {role: _values(client.values) for role, client in connector.clients.items()},
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
        key: {"value": value, "from": _origin(origin)} for key, (value, origin) in _effective(settings, values).items()
    }


def _values(values: Mapping[str, Value]) -> dict[str, Any]:
    return {key: {"value": values[key].shown, "from": _origin(values[key].origin)} for key in sorted(values)}


def _origin(origin: Origin) -> dict[str, Any]:
    full = {"kind": origin.kind, "file": origin.file, "line": origin.line, "key": origin.key, "note": origin.note}
    return {name: part for name, part in full.items() if part}


def _effective(settings: Any, values: Mapping[str, Value]) -> dict[str, Setting]:
    """Every key of the table, with the typed value in effect."""
    made = {}
    for row in rows(type(settings)):
        name = row.key.name
        value = getattr(settings, row.field)
        hidden = name in values and is_secret(name, values[name].text)
        made[name] = (MASK if hidden else value, values[name].origin if name in values else DEFAULT)
    return made


def _flow_text(flow: FlowConfig) -> str:
    what = "replicates" if flow.replicates else "does not replicate"
    beats = flow.heartbeat and flow.heartbeat.settings.emit_heartbeats_enabled and flow.heartbeat.state == "running"
    title = f"{flow}: {what}, {'emits' if beats else 'emits no'} heartbeats"
    parts = [title + "\n" + "=" * len(title)]
    effective = {name: _effective(c.settings, c.values) for name, c in flow.connectors.items()}
    shared = _shared(effective.values())
    if shared:
        parts.append(_table("all connectors", shared))
    for name, settings in effective.items():
        own = {key: setting for key, setting in settings.items() if key not in shared}
        parts.append(_table(_TITLES[name], own))
    parts.append(_table("worker (on the target)", _effective(flow.worker.settings, flow.worker.values)))
    parts += [_table(f"client {role}", client) for role, client in _clients(flow.connectors.values()).items()]
    return "\n\n".join(parts)


def _shared(maps: Iterable[Mapping[str, Setting]]) -> dict[str, Setting]:
    """What more than one connector has and all have alike: told once."""
    every: dict[str, list[Setting]] = {}
    for settings in maps:
        for key, setting in settings.items():
            every.setdefault(key, []).append(setting)
    return {key: found[0] for key, found in every.items() if len(found) > 1 and all(one == found[0] for one in found)}


def _clients(connectors: Iterable[Connector[Any]]) -> dict[str, dict[str, Setting]]:
    """What is set for each client; Kafka's defaults hold for the rest. Told once where connectors agree."""
    made: dict[str, dict[str, Setting]] = {}
    for connector in connectors:
        for role, client in connector.clients.items():
            settings = {key: (value.shown, value.origin) for key, value in sorted(client.values.items())}
            if made.setdefault(role, settings) != settings:
                made[f"{role} ({connector.settings.name})"] = settings
    return made


def _clusters(clusters: Mapping[str, Client]) -> str:
    settings = {
        f"{alias}.{key}": (value.shown, value.origin)
        for alias, client in clusters.items()
        for key, value in client.values.items()
    }
    return _table("clusters", settings) if settings else ""


def _table(title: str, settings: Mapping[str, Setting]) -> str:
    """Key, origin, value: the value comes last because it may be long."""
    texts = [(key, str(origin), _text(value)) for key, (value, origin) in settings.items()]
    keys = max((len(key) for key, _, _ in texts), default=0)
    origins = max((len(origin) for _, origin, _ in texts), default=0)
    lines = [f"  {key:<{keys}}  {origin:<{origins}}  {value}".rstrip() for key, origin, value in texts]
    return "\n".join([title, *lines])


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
