"""Comes to one address of a cluster as a client would, and notes how far it got. Nothing is sent but questions."""

import contextlib
import errno
import socket
import ssl
from typing import Final, Literal

from cryptography import x509

from twinlog.config.flows import Client
from twinlog.doctor.facts import Knock, Lock
from twinlog.errors import ConfigError, KafkaError, LockedError, TwinlogError
from twinlog.kafka import checkup
from twinlog.kafka.channel import Channel, connect
from twinlog.kafka.dial import dial, uses_sasl, uses_tls
from twinlog.security.handshake import peer_certificate

PATIENCE: Final = 5.0  # seconds, for each step
_NAME: Final = "twinlog-doctor"


def knock(config: Client, host: str, port: int) -> Knock:
    try:
        resolved = _resolved(host, port)
    except (OSError, UnicodeError) as error:
        number = error.errno or 0 if isinstance(error, OSError) else 0
        return Knock(stage="name", trouble=getattr(error, "strerror", None) or "not a host name", error=number)
    try:
        socket.create_connection((host, port), PATIENCE).close()
    except OSError as error:
        number = errno.ETIMEDOUT if isinstance(error, TimeoutError) else error.errno or 0
        return Knock(stage="connection", trouble=error.strerror or str(error), error=number, resolved=resolved)
    lock = None
    if uses_tls(config):
        try:
            lock = _lock(config, host, port)
        except TwinlogError as error:
            speaks: Literal["", "plain"] = "plain" if _answers_in_plain(host, port) else ""
            return Knock(stage="tls", trouble=_bare(error, host, port), resolved=resolved, speaks=speaks)
    try:
        channel = connect(config, host, port, _NAME, PATIENCE)
    except TwinlogError as error:
        stage: Literal["tls", "login"] = "login" if uses_sasl(config) else "tls"
        tls: Literal["", "tls"] = "tls" if not uses_tls(config) and peer_certificate(host, port) else ""
        return Knock(stage=stage, trouble=_bare(error, host, port), resolved=resolved, speaks=tls, lock=lock)
    with contextlib.closing(channel):
        try:
            found = checkup.hello(channel, PATIENCE)
        except (OSError, KafkaError) as error:
            wanted = () if uses_sasl(config) else _mechanisms(config, host, port)
            trouble = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            return Knock(stage="question", trouble=trouble, resolved=resolved, lock=lock, mechanisms=wanted)
        return Knock(
            stage="open", resolved=resolved, lock=lock, versions=channel.versions,
            cluster_id=found.cluster_id, controller=found.controller, brokers=found.addresses,
        )  # fmt: skip


def _resolved(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _lock(config: Client, host: str, port: int) -> Lock | None:
    with dial(config, host, port, PATIENCE) as sock:
        if not isinstance(sock, ssl.SSLSocket) or not (der := sock.getpeercert(binary_form=True)):
            return None
        version = sock.version() or "TLS"
    try:
        shown = x509.load_der_x509_certificate(der)
        return Lock(version, shown.issuer.rfc4514_string(), shown.not_valid_after_utc)
    except ValueError:  # OpenSSL takes some that this library does not
        return None


def _answers_in_plain(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), PATIENCE) as sock:
            Channel(sock, _NAME, PATIENCE)
    except (OSError, KafkaError):
        return False
    return True


def _mechanisms(config: Client, host: str, port: int) -> tuple[str, ...]:
    """Those of a login that the listener asks for."""
    try:
        with dial(config, host, port, PATIENCE) as sock:
            return checkup.mechanisms(Channel(sock, _NAME, PATIENCE), PATIENCE)
    except (OSError, KafkaError):
        return ()


def _bare(error: TwinlogError, host: str, port: int) -> str:
    """Without the address, which is said beside it."""
    text = str(error)
    while isinstance(error, LockedError | KafkaError | ConfigError) and text.startswith(f"{host}:{port}: "):
        text = text.removeprefix(f"{host}:{port}: ")
    return text
