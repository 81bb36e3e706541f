"""Keys that do nothing: each gets a warning that says why, and what was probably meant."""

import difflib
from collections.abc import Sequence

from twinlog.config.clients import CLIENT_KEYS, CLIENT_LETTERS, CONNECTION_KEYS
from twinlog.config.dedicated import CONNECTOR_KEYS, WORKER_PREFIXES, Dedicated
from twinlog.config.layers import Values
from twinlog.config.problems import Problems, did_you_mean
from twinlog.config.settings import (
    ALIASES,
    CONNECTORS,
    DROPPED,
    WORKER_CLIENT_KEYS,
    WORKER_WITHOUT_EFFECT,
    WorkerSettings,
)
from twinlog.config.table import rows
from twinlog.config.values import shown_key
from twinlog.model import Flow

CONNECTOR_NAMES = frozenset(row.key.name for settings in CONNECTORS.values() for row in rows(settings)) | set(ALIASES)
WORKER_NAMES = frozenset(row.key.name for row in rows(WorkerSettings)) | WORKER_WITHOUT_EFFECT | WORKER_CLIENT_KEYS
_EVERY = CONNECTOR_NAMES | WORKER_NAMES | set(CONNECTION_KEYS)
_REST = ("listeners", "rest.", "admin.listeners", "access.control.", "ssl.client.auth", "response.http.")
_DEDICATED_ONLY = ("clusters", "dedicated.mode.enable.internal.rest")
# Families whose last words belong to a class of the operator's choice, or to a topic's own settings.
_OF_FLOWS = ("transforms.", "predicates.", "topic.creation.")
_NEVER_OF_CLUSTERS = ("replication.policy.", *_OF_FLOWS)
_OF_WORKERS = ("offset.storage.", "config.storage.", "status.storage.", "listeners.https.")
_OPEN = (
    "config.providers.", "key.converter.", "value.converter.", "header.converter.", "internal.key.converter.",
    "internal.value.converter.", *_NEVER_OF_CLUSTERS,
)  # fmt: skip


def check_dedicated(file: Dedicated, problems: Problems) -> None:
    flows = [Flow(a, b) for a in file.aliases for b in file.aliases if a != b]
    for key, value in file.raw.items():
        flow = next((f for f in flows if key.startswith(f"{f}.")), None)
        # The longest that fits, should one alias be a dotted prefix of another.
        alias = max((a for a in file.aliases if key.startswith(f"{a}.")), key=len, default=None)
        if flow:
            complaint = _of_flow(key.removeprefix(f"{flow}."), flow)
        elif alias is not None:
            complaint = _of_cluster(key.removeprefix(f"{alias}."), alias)
        elif "->" in key:
            complaint = _of_no_flow(key, file.aliases)
        else:
            complaint = _of_top(key, file.aliases)
        if complaint:
            problems.warn(value.origin, f"{shown_key(key)}: {complaint}")


def check_connector(values: Values, problems: Problems) -> None:
    """The keys of one connector, as in a JSON file or a Strimzi resource."""
    for key, value in values.items():
        if value.origin.kind == "file" and (complaint := _of_connector(key)):
            problems.warn(value.origin, f"{value.origin.key}: {complaint}")


def check_worker(values: Values, problems: Problems) -> None:
    """The keys of a Connect worker's own file."""
    for key, value in values.items():
        if _open(key, *_OF_WORKERS) or key in WORKER_NAMES or key in CONNECTION_KEYS:
            if near := _slip(key):
                problems.warn(value.origin, f"{value.origin.key or key}: {near}")
            continue
        client, dot, rest = key.partition(".")
        if not (dot and client in CLIENT_LETTERS and rest in CLIENT_KEYS[CLIENT_LETTERS[client]]):
            written = value.origin.key or key
            problems.warn(value.origin, f"{written}: unknown key{did_you_mean(key, _worker_words())}")


def _of_top(key: str, aliases: Sequence[str]) -> str | None:
    if (
        key in CONNECTOR_KEYS or key in ALIASES or key in CONNECTION_KEYS or key in _DEDICATED_ONLY
        or key.startswith((*WORKER_PREFIXES, "config.providers", *_REST))
    ):  # fmt: skip
        return _slip(key)
    if key in DROPPED:
        return f"no longer a setting: {DROPPED[key]}"
    if key in CONNECTOR_NAMES or key.startswith(_OF_FLOWS):
        return f"MM2 ignores it at the top level: write <source>-><target>.{key}"
    if key in WORKER_NAMES or key.startswith(("producer.", "consumer.", "admin.")):
        return f"MM2 ignores it at the top level: write <target>.{key}"
    head, dot, rest = key.partition(".")
    if dot and (near := did_you_mean(head, aliases, short=True)) and (_of_cluster(rest, head) is None):
        return f"no cluster is called {head!r}{near}"
    return "unknown key" + did_you_mean(key, {*CONNECTOR_NAMES, *WORKER_NAMES, *CONNECTION_KEYS, *_DEDICATED_ONLY})


def _of_cluster(key: str, alias: str) -> str | None:
    if key in CONNECTION_KEYS or key in WORKER_NAMES:
        return None
    if _open(key, *_OF_WORKERS) and not key.startswith(_NEVER_OF_CLUSTERS):
        return _slip(key)
    client, dot, rest = key.partition(".")
    if dot and client in CLIENT_LETTERS:
        return _of_client(client, rest)
    if key in CONNECTOR_NAMES:
        return f"MM2 ignores it for a cluster: write {key}, or <source>-><target>.{key}"
    owners = [name for name, letter in CLIENT_LETTERS.items() if key in CLIENT_KEYS[letter]]
    if owners:
        instead = (
            " or ".join(f"{alias}.{owner}.{key}" for owner in owners if owner != "admin") or f"{alias}.admin.{key}"
        )
        return f"MM2 ignores it for a cluster: write {instead}"
    return f"unknown key{did_you_mean(key, _worker_words())}"


def _of_flow(key: str, flow: Flow) -> str | None:
    if (complaint := _of_connector(key)) and key in WORKER_NAMES:
        return f"never reaches the worker from here: write {flow.target}.{key}"
    return complaint


def _of_no_flow(key: str, aliases: Sequence[str]) -> str:
    source, _, rest = key.partition("->")
    target = rest.split(".")[0]
    if not rest:
        other = next((alias for alias in aliases if alias != source), "target")
        return f"a blank, = or : ended the key: write {source}->{other} without any inside"
    for alias, other in ((source, target), (target, source)):
        if alias not in aliases:
            near = did_you_mean(alias, set(aliases) - {other}, short=True)
            return f"no cluster is called {alias!r}{near}"
    return "a flow joins two different clusters: write source->target"


def _of_connector(key: str) -> str | None:
    if key in CONNECTOR_NAMES:
        return None
    if _open(key):
        return _slip(key)
    if key in DROPPED:
        return f"no longer a setting: {DROPPED[key]}"
    for prefix in ("source.", "target.", ""):
        for client in CLIENT_LETTERS:
            if key.startswith(f"{prefix}{client}.override."):
                used = not prefix and client != "consumer"  # a source connector's worker makes no consumer
                rest = key.removeprefix(f"{client}.override.")
                return (
                    _of_client(client, rest)
                    if used
                    else "has no effect: only producer.override.* and admin.override.* do"
                )
            if key.startswith(f"{prefix}{client}."):
                return _of_client(client, key.removeprefix(f"{prefix}{client}."))
    for side in ("source.cluster.", "target.cluster."):
        if key.startswith(side):
            return _of_side(key.removeprefix(side), side)
    if key in CONNECTION_KEYS:
        return None
    return f"unknown key{did_you_mean(key, {*CONNECTOR_NAMES, *CONNECTION_KEYS})}"


def _of_side(key: str, side: str) -> str | None:
    if key in CONNECTION_KEYS or key in WORKER_NAMES or key == "alias":
        return None
    client, dot, rest = key.partition(".")
    if dot and client in CLIENT_LETTERS:
        return f"MM2 ignores it here: write {side.removesuffix('cluster.')}{client}.{rest}"
    return f"MM2 ignores it here{did_you_mean(key, CONNECTION_KEYS)}"


def _of_client(client: str, key: str) -> str | None:
    known = CLIENT_KEYS[CLIENT_LETTERS[client]]
    if key in known:
        return None
    other = [name for name, letter in CLIENT_LETTERS.items() if key in CLIENT_KEYS[letter]]
    hint = f" (it is one of the {' and the '.join(other)})" if other else did_you_mean(key, known)
    return f"a Kafka {client} has no such setting{hint}"


def _open(key: str, *more: str) -> bool:
    return key.startswith((*_OPEN, *more)) or key == "config.providers"


def _slip(key: str) -> str | None:
    """A key of an open family that is one letter away from a known one."""
    if key in _EVERY or any(key.startswith(f"{name}.") for name in _EVERY):
        return None
    near = difflib.get_close_matches(key, _EVERY, n=1, cutoff=0.92)
    return f"unknown key (did you mean {near[0]}?)" if near else None


def _worker_words() -> set[str]:
    return {
        *WORKER_NAMES,
        *CONNECTION_KEYS,
        *(f"{c}.{k}" for c, letter in CLIENT_LETTERS.items() for k in CLIENT_KEYS[letter]),
    }
