"""Reads a Connect worker file: the cluster and names of its topics, and the address of its API."""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from twinlog.config import unknown_keys
from twinlog.config.checks import check_bootstrap, check_client, check_security
from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client
from twinlog.config.layers import stripped
from twinlog.config.problems import Problem, Problems
from twinlog.config.properties import properties_text, read_properties
from twinlog.config.providers import declared_providers
from twinlog.config.setting import read
from twinlog.config.settings import BYTE_ARRAY, WorkerSettings
from twinlog.config.values import FrozenMap, Value
from twinlog.errors import ConfigError
from twinlog.security import keystores
from twinlog.security.ssl_context import load_identity

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8083  # Connect's
ALL: Final = "0.0.0.0"  # noqa: S104  # only if the operator's file sets it

# For a worker without a file: the names in Kafka's connect-distributed.properties, and the brokers' default replication
# factor.
_DEFAULTS: Final = {
    "group.id": "connect-cluster",
    "offset.storage.topic": "connect-offsets",
    "config.storage.topic": "connect-configs",
    "status.storage.topic": "connect-status",
    "offset.storage.replication.factor": "-1",
    "config.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "key.converter": BYTE_ARRAY,
    "value.converter": BYTE_ARRAY,
    "header.converter": BYTE_ARRAY,
}


@dataclass(frozen=True, slots=True)
class Listening:
    """The address of the API; `advertised`: the worker's address for others."""

    host: str
    port: int
    secure: bool = False
    advertised: str = ""

    @property
    def worker_id(self) -> str:
        return self.advertised or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WorkerFile:
    content: bytes  # as written by the operator; read by Spark's processes
    settings: WorkerSettings
    values: FrozenMap
    client: Client  # for the worker's own topics
    problems: tuple[Problem, ...] = ()


def read_worker(path: Path | None, bootstrap: str | None = None) -> WorkerFile:
    """Raises ConfigError with all errors. `bootstrap` overrides the file."""
    if path is None and not bootstrap:
        raise ConfigError("no cluster: name a Connect worker file, or set --bootstrap-servers")
    where = path.name if path else "--bootstrap-servers"
    content = _content(path)
    if bootstrap:  # of duplicate keys, the last one counts
        content = content.rstrip(b"\\") + b"\n" + properties_text({"bootstrap.servers": bootstrap}).encode("latin-1")
    problems = Problems()
    written = read_properties(content.decode("latin-1"), where, problems)
    if "clusters" in written:
        problems.error(where, "dedicated-mode MM2 file, not a Connect worker file; use twinlog run for it")
    problems.raise_if_any()
    if path:
        unknown_keys.check_worker(written, problems)
    values = declared_providers(written, problems).resolve_all(written, problems)
    settings = read(WorkerSettings, values, where, problems)
    check_bootstrap("worker", values.get("bootstrap.servers"), where, "bootstrap.servers", problems)
    connection = {key: value for key, value in values.items() if key in CONNECTION_KEYS}
    check_client("admin", connection, problems)
    check_security(values, problems)
    problems.raise_if_any()
    assert settings is not None
    return WorkerFile(
        content, settings, FrozenMap(values), Client("admin", FrozenMap(connection)), tuple(problems.found)
    )


def listening(values: Mapping[str, Value], host: str | None, port: int | None) -> Listening:
    """On loopback, unless the command line or the file sets an address.

    As in Connect, `listeners=http://:8083` means all addresses; `rest.port` sets only the port.
    """
    named = [text.strip() for text in _text(values, "listeners").split(",") if text.strip()]
    first = urlsplit(named[0]) if named else None
    try:
        file_port = first.port if first else int(_text(values, "rest.port") or PORT)
    except ValueError:
        key, text = ("listeners", named[0]) if named else ("rest.port", _text(values, "rest.port"))
        raise ConfigError(f"{key} = {text!r}: invalid port") from None
    if first and first.scheme.lower() not in {"http", "https"}:
        raise ConfigError(f"listeners = {named[0]!r}: expected http://host:port or https://host:port")
    file_host = (first.hostname or ALL) if first else _text(values, "rest.host.name")
    secure = bool(first and first.scheme.lower() == "https")
    chosen_host = host or file_host or LOOPBACK
    if port is None:
        port = PORT if file_port is None else file_port
    advertised_host = _text(values, "rest.advertised.host.name")
    advertised_host = advertised_host or (socket.gethostname() if chosen_host in {ALL, "::"} else chosen_host)
    advertised_port = _text(values, "rest.advertised.port") or port
    return Listening(chosen_host, port, secure, f"{advertised_host}:{advertised_port}")


def tls_of(values: Mapping[str, Value]) -> ssl.SSLContext:
    """From `listeners.https.ssl.*` if there are any, otherwise from the worker's `ssl.*`."""
    own = stripped(values, "listeners.https.")
    chosen = own if any(key.startswith("ssl.") for key in own) else dict(values)
    client = Client("admin", FrozenMap({key: value for key, value in chosen.items() if key in CONNECTION_KEYS}))
    files = keystores.read_files(client)
    identities = keystores.identities(client, files)
    if not identities:
        raise ConfigError("listeners: https:// without a private key; set listeners.https.ssl.keystore.location")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for identity in identities:
        load_identity(context, identity, client)
    client_auth = _text(chosen, "ssl.client.auth").lower() or "none"
    if client_auth in {"required", "requested"}:
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=b"".join(keystores.trusted(client, files) or ()))
    return context


def _content(path: Path | None) -> bytes:
    if path is None:
        return properties_text(_DEFAULTS).encode("latin-1")
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return path.read_bytes()


def _text(values: Mapping[str, Value], key: str) -> str:
    return values[key].text.strip() if key in values else ""
