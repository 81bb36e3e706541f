"""Warnings for keys without effect, with the reason and what was probably meant."""

import difflib
from collections.abc import Sequence

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.dedicated import CONNECTOR_KEYS, WORKER_PREFIXES, Dedicated
from twinlog.config.layers import Values
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.setting import rows
from twinlog.config.settings import (
    ALIASES,
    CONNECTORS,
    DROPPED,
    WORKER_CLIENT_KEYS,
    WORKER_WITHOUT_EFFECT,
    WorkerSettings,
)
from twinlog.config.values import shown_key
from twinlog.model import Flow

CONNECTOR_NAMES = frozenset(row.key.name for settings in CONNECTORS.values() for row in rows(settings)) | set(ALIASES)
WORKER_NAMES = frozenset(row.key.name for row in rows(WorkerSettings)) | WORKER_WITHOUT_EFFECT | WORKER_CLIENT_KEYS
_EVERY = CONNECTOR_NAMES | WORKER_NAMES | set(CONNECTION_KEYS)
_REST = ("listeners", "rest.", "admin.listeners", "access.control.", "ssl.client.auth", "response.http.")
_DEDICATED_ONLY = ("clusters", "dedicated.mode.enable.internal.rest")
# Prefixes of settings that are defined by a plugin class or by topics, so any name is accepted.
_FLOW_PREFIXES = ("transforms.", "predicates.", "topic.creation.")
_NOT_CLUSTER_PREFIXES = ("replication.policy.", *_FLOW_PREFIXES)
_WORKER_PREFIXES = ("offset.storage.", "config.storage.", "status.storage.", "listeners.https.")
_OPEN_PREFIXES = (
    "config.providers.", "key.converter.", "value.converter.", "header.converter.", "internal.key.converter.",
    "internal.value.converter.", *_NOT_CLUSTER_PREFIXES,
)  # fmt: skip


def check_dedicated(file: Dedicated, problems: Problems) -> None:
    flows = [Flow(a, b) for a in file.aliases for b in file.aliases if a != b]
    for key, value in file.raw.items():
        flow = next((f for f in flows if key.startswith(f"{f}.")), None)
        # The longest match, in case one alias is a dotted prefix of another.
        alias = max((a for a in file.aliases if key.startswith(f"{a}.")), key=len, default=None)
        if flow:
            complaint = _flow_key(key.removeprefix(f"{flow}."), flow)
        elif alias is not None:
            complaint = _cluster_key(key.removeprefix(f"{alias}."), alias)
        elif "->" in key:
            complaint = _unknown_flow_key(key, file.aliases)
        else:
            complaint = _top_level_key(key, file.aliases)
        if complaint:
            problems.warn(value.origin, f"{shown_key(key)}: {complaint}")


def check_connector(values: Values, problems: Problems) -> None:
    """The keys of one connector, of a JSON file or a Strimzi resource."""
    for key, value in values.items():
        if value.origin.kind == "file" and (complaint := _connector_key(key)):
            problems.warn(value.origin, f"{value.origin.key}: {complaint}")


def check_worker(values: Values, problems: Problems) -> None:
    """The keys of a Connect worker's file."""
    for key, value in values.items():
        if _is_open(key, *_WORKER_PREFIXES) or key in WORKER_NAMES or key in CONNECTION_KEYS:
            if complaint := _typo(key):
                problems.warn(value.origin, f"{value.origin.key or key}: {complaint}")
            continue
        client, dot, rest = key.partition(".")
        if not (dot and client in CLIENT_LETTERS and rest in CLIENT_KEYS[CLIENT_LETTERS[client]]):
            written = value.origin.key or key
            problems.warn(value.origin, f"{written}: unknown key{did_you_mean(key, _worker_keys())}")


def _top_level_key(key: str, aliases: Sequence[str]) -> str | None:
    if (
        key in CONNECTOR_KEYS or key in ALIASES or key in CONNECTION_KEYS or key in _DEDICATED_ONLY
        or key.startswith((*WORKER_PREFIXES, "config.providers", *_REST))
    ):  # fmt: skip
        return _typo(key)
    if key in DROPPED:
        return f"no longer a setting: {DROPPED[key]}"
    if key in CONNECTOR_NAMES or key.startswith(_FLOW_PREFIXES):
        return f"ignored by MM2 at the top level; write <source>-><target>.{key}"
    if key in WORKER_NAMES or key.startswith(("producer.", "consumer.", "admin.")):
        return f"ignored by MM2 at the top level; write <target>.{key}"
    head, dot, rest = key.partition(".")
    if dot and (near := did_you_mean(head, aliases, short=True)) and (_cluster_key(rest, head) is None):
        return f"unknown cluster {head!r}{near}"
    return "unknown key" + did_you_mean(key, {*CONNECTOR_NAMES, *WORKER_NAMES, *CONNECTION_KEYS, *_DEDICATED_ONLY})


def _cluster_key(key: str, alias: str) -> str | None:
    if key in CONNECTION_KEYS or key in WORKER_NAMES:
        return None
    if _is_open(key, *_WORKER_PREFIXES) and not key.startswith(_NOT_CLUSTER_PREFIXES):
        return _typo(key)
    client, dot, rest = key.partition(".")
    if dot and client in CLIENT_LETTERS:
        return _client_key(client, rest)
    if key in CONNECTOR_NAMES:
        return f"ignored by MM2 for a cluster; write {key}, or <source>-><target>.{key}"
    owners = [name for name, letter in CLIENT_LETTERS.items() if key in CLIENT_KEYS[letter]]
    if owners:
        instead = (
            " or ".join(f"{alias}.{owner}.{key}" for owner in owners if owner != "admin") or f"{alias}.admin.{key}"
        )
        return f"ignored by MM2 for a cluster; write {instead}"
    return f"unknown key{did_you_mean(key, _worker_keys())}"


def _flow_key(key: str, flow: Flow) -> str | None:
    if (complaint := _connector_key(key)) and key in WORKER_NAMES:
        return f"ignored by MM2 for a flow, it is a worker's key; write {flow.target}.{key}"
    return complaint


def _unknown_flow_key(key: str, aliases: Sequence[str]) -> str:
    source, _, rest = key.partition("->")
    target = rest.split(".")[0]
    if not rest:
        other = next((alias for alias in aliases if alias != source), "target")
        return f"the key ends at a blank, '=' or ':'; write {source}->{other} without them"
    for alias, other in ((source, target), (target, source)):
        if alias not in aliases:
            near = did_you_mean(alias, set(aliases) - {other}, short=True)
            return f"unknown cluster {alias!r}{near}"
    return "source and target of a flow are the same cluster; name two different ones"


def _connector_key(key: str) -> str | None:
    if key in CONNECTOR_NAMES:
        return None
    if _is_open(key):
        return _typo(key)
    if key in DROPPED:
        return f"no longer a setting: {DROPPED[key]}"
    for prefix in ("source.", "target.", ""):
        for client in CLIENT_LETTERS:
            if key.startswith(f"{prefix}{client}.override."):
                used = not prefix and client != "consumer"  # the worker creates no consumer for a source connector
                rest = key.removeprefix(f"{client}.override.")
                return (
                    _client_key(client, rest)
                    if used
                    else "has no effect; only producer.override.* and admin.override.* do"
                )
            if key.startswith(f"{prefix}{client}."):
                return _client_key(client, key.removeprefix(f"{prefix}{client}."))
    for side in ("source.cluster.", "target.cluster."):
        if key.startswith(side):
            return _side_key(key.removeprefix(side), side)
    if key in CONNECTION_KEYS:
        return None
    return f"unknown key{did_you_mean(key, {*CONNECTOR_NAMES, *CONNECTION_KEYS})}"


def _side_key(key: str, side: str) -> str | None:
    if key in CONNECTION_KEYS or key in WORKER_NAMES or key == "alias":
        return None
    client, dot, rest = key.partition(".")
    if dot and client in CLIENT_LETTERS:
        return f"ignored by MM2 here; write {side.removesuffix('cluster.')}{client}.{rest}"
    return f"ignored by MM2 here{did_you_mean(key, CONNECTION_KEYS)}"


def _client_key(client: str, key: str) -> str | None:
    known = CLIENT_KEYS[CLIENT_LETTERS[client]]
    if key in known:
        return None
    other = [name for name, letter in CLIENT_LETTERS.items() if key in CLIENT_KEYS[letter]]
    hint = f" (it is a setting of the {' and the '.join(other)})" if other else did_you_mean(key, known)
    return f"not a setting of a Kafka {client}{hint}"


def _is_open(key: str, *more: str) -> bool:
    return key.startswith((*_OPEN_PREFIXES, *more)) or key == "config.providers"


def _typo(key: str) -> str | None:
    """A complaint about a key that is accepted by its prefix but similar to a known one."""
    if key in _EVERY or any(key.startswith(f"{name}.") for name in _EVERY):
        return None
    near = difflib.get_close_matches(key, _EVERY, n=1, cutoff=0.92)
    return f"unknown key (did you mean {near[0]}?)" if near else None


def _worker_keys() -> set[str]:
    return {
        *WORKER_NAMES,
        *CONNECTION_KEYS,
        *(f"{c}.{k}" for c, letter in CLIENT_LETTERS.items() for k in CLIENT_KEYS[letter]),
    }
