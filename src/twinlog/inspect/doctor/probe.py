"""Connects to one address of a cluster as a client would, and reports how far it came. Read-only."""

import contextlib
import errno
import socket
import ssl
from typing import Final, Literal

from cryptography import x509

from twinlog.config.flows import Client
from twinlog.errors import KafkaError, TwinlogError
from twinlog.inspect.doctor.facts import ProbeResult, TlsFacts
from twinlog.kafka import admin_queries
from twinlog.kafka.blocking_connection import BlockingConnection, connect
from twinlog.kafka.connect import open_socket, uses_sasl, uses_tls
from twinlog.security.tls_handshake import peer_certificate

TIMEOUT: Final = 5.0  # seconds, for each step
_NAME: Final = "twinlog-doctor"


def probe(config: Client, host: str, port: int) -> ProbeResult:
    try:
        resolved = _resolved(host, port)
    except (OSError, UnicodeError) as error:
        number = error.errno or 0 if isinstance(error, OSError) else 0
        return ProbeResult(stage="name", problem=getattr(error, "strerror", None) or "not a host name", error=number)
    try:
        socket.create_connection((host, port), TIMEOUT).close()
    except OSError as error:
        number = errno.ETIMEDOUT if isinstance(error, TimeoutError) else error.errno or 0
        return ProbeResult(stage="connection", problem=error.strerror or str(error), error=number, resolved=resolved)
    tls = None
    if uses_tls(config):
        try:
            tls = _tls_facts(config, host, port)
        except TwinlogError as error:
            speaks: Literal["", "plain"] = "plain" if _accepts_plaintext(host, port) else ""
            return ProbeResult(
                stage="tls", problem=_problem(error), advice=error.advice, resolved=resolved, speaks=speaks
            )
    try:
        channel = connect(config, host, port, _NAME, TIMEOUT)
    except TwinlogError as error:
        stage: Literal["tls", "login"] = "login" if uses_sasl(config) else "tls"
        protocol: Literal["", "tls"] = "tls" if not uses_tls(config) and peer_certificate(host, port) else ""
        return ProbeResult(
            stage=stage, problem=_problem(error), advice=error.advice, resolved=resolved, speaks=protocol, tls=tls
        )
    with contextlib.closing(channel):
        try:
            found = admin_queries.brokers(channel, TIMEOUT)
        except (OSError, KafkaError) as error:
            wanted = () if uses_sasl(config) else _mechanisms(config, host, port)
            problem = "no response in time" if isinstance(error, TimeoutError) else str(error)
            return ProbeResult(stage="request", problem=problem, resolved=resolved, tls=tls, mechanisms=wanted)
        return ProbeResult(
            stage="open", resolved=resolved, tls=tls, versions=channel.versions,
            cluster_id=found.cluster_id, controller=found.controller, brokers=found.addresses,
        )  # fmt: skip


def _resolved(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def _tls_facts(config: Client, host: str, port: int) -> TlsFacts | None:
    with open_socket(config, host, port, TIMEOUT) as sock:
        if not isinstance(sock, ssl.SSLSocket) or not (der := sock.getpeercert(binary_form=True)):
            return None
        version = sock.version() or "TLS"
    try:
        certificate = x509.load_der_x509_certificate(der)
        return TlsFacts(version, certificate.issuer.rfc4514_string(), certificate.not_valid_after_utc)
    except ValueError:  # OpenSSL accepts some that this library does not
        return None


def _accepts_plaintext(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), TIMEOUT) as sock:
            BlockingConnection(sock, _NAME, TIMEOUT)
    except (OSError, KafkaError):
        return False
    return True


def _mechanisms(config: Client, host: str, port: int) -> tuple[str, ...]:
    """The SASL mechanisms that the listener supports."""
    try:
        with open_socket(config, host, port, TIMEOUT) as sock:
            return admin_queries.sasl_mechanisms(BlockingConnection(sock, _NAME, TIMEOUT), TIMEOUT)
    except (OSError, KafkaError):
        return ()


def _problem(error: TwinlogError) -> str:
    """Without the address, which the finding shows itself."""
    return error.cause if isinstance(error, KafkaError) else error.problem
