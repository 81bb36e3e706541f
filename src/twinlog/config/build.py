"""Builds typed flows from MM2's maps: old names, references, types, clients. Used for all kinds of files."""

from collections.abc import Mapping
from typing import Any

from twinlog.config import layers
from twinlog.config.checks import (
    check_client,
    check_client_types,
    check_connectors,
    check_named_classes,
    check_worker,
)
from twinlog.config.flows import Client, Connector, FlowConfig, State, Worker
from twinlog.config.layers import Values
from twinlog.config.problems import Problems
from twinlog.config.providers import Providers, declared_providers
from twinlog.config.setting import read
from twinlog.config.settings import (
    ALIASES,
    CONNECTORS,
    SAME_CLASS,
    WORKER_CLIENT_KEYS,
    WorkerSettings,
)
from twinlog.config.values import FrozenMap, Value
from twinlog.model import Flow


def build_flow(
    flow: Flow,
    worker: Values,
    connectors: Mapping[str, Values],
    providers: Providers,
    problems: Problems,
    *,
    label: str = "",
    states: Mapping[str, State] = {},
) -> FlowConfig | None:
    """`connectors` by class name, with references to config providers. None if there were errors."""
    errors = problems.errors
    # A worker may declare providers (`eu.config.providers`), which resolve its connectors' settings too.
    providers = Providers({**declared_providers(worker, Problems()).by_name, **providers.by_name})
    worker = providers.resolve_all(worker, problems)
    where = _file(worker, *connectors.values())
    worker_settings = read(WorkerSettings, worker, where, problems)
    check_client_types("admin", {key: value for key, value in worker.items() if key in WORKER_CLIENT_KEYS}, problems)
    check_worker(worker, problems)
    built: dict[str, Connector[Any]] = {}
    for name, raw in connectors.items():
        values = _current_names(providers.resolve_all(raw, problems), problems)
        settings = read(CONNECTORS[name], values, _file(values), problems)
        if settings is None:
            continue
        check_named_classes(values, problems)
        clients = layers.connector_clients(values)
        if name == "MirrorSourceConnector":
            clients["data.producer"] = layers.data_producer(worker, values)
        for role, client in clients.items():
            check_client(role, client, problems)
        built[name] = Connector(
            name,
            settings,
            FrozenMap(values),
            FrozenMap({role: Client(role, FrozenMap(client)) for role, client in clients.items()}),
            states.get(name, "running"),
        )
    if worker_settings is None or problems.errors > errors:
        return None
    check_connectors(built, worker_settings, worker, problems)
    if problems.errors > errors:
        return None
    return FlowConfig(
        flow,
        Worker(worker_settings, FrozenMap(worker)),
        source=built.get("MirrorSourceConnector"),
        checkpoint=built.get("MirrorCheckpointConnector"),
        heartbeat=built.get("MirrorHeartbeatConnector"),
        label=label,
    )


def _file(*maps: Values) -> str:
    """The file to name in messages about missing settings."""
    return next(
        (value.origin.file for values in maps for value in values.values() if value.origin.file), "configuration"
    )


def _current_names(values: dict[str, Value], problems: Problems) -> dict[str, Value]:
    """Replaces old names of settings; a new name has precedence."""
    for old, new in ALIASES.items():
        if (value := values.pop(old, None)) is None:
            continue
        written = value.origin.key or old
        if new in values:
            problems.warn(value.origin, f"{written} is ignored: {new} is set too ({values[new].origin}); remove one")
            continue
        problems.note(value.origin, f"{written} is an old name; it is read as {new}")
        values[new] = Value(new, value.text, value.origin.noting(f"alias: {old}"), value.reference)
    policy = values.get("replication.policy.class")
    if policy and (same := SAME_CLASS.get(policy.text.strip())):
        problems.note(policy.origin, f"{policy.text.strip()} is read as {same}")
        values["replication.policy.class"] = Value(
            policy.key, same, policy.origin.noting(f"alias: {policy.text.strip()}")
        )
    return values
