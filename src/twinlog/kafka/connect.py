"""Opens a socket to a broker, with TLS if the client's settings ask for it."""

import socket
from typing import Final

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import UnreachableError
from twinlog.security.tls_handshake import handshake

_TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")


def addresses(config: ClientConfig) -> list[tuple[str, int]]:
    """The addresses in `bootstrap.servers`, which the configuration has validated."""
    found = []
    for server in config["bootstrap.servers"]:
        host, _, port = server.rpartition(":")
        found.append((host.rpartition("/")[2].strip("[]"), int(port)))
    return found


def uses_tls(config: ClientConfig) -> bool:
    return config["security.protocol"].upper() in _TLS_PROTOCOLS


def uses_sasl(config: ClientConfig) -> bool:
    return bool(config["security.protocol"].upper().startswith("SASL_"))


def open_socket(config: ClientConfig, host: str, port: int, timeout: float) -> socket.socket:
    """A connected, blocking socket. UnreachableError without a connection, AuthenticationError without TLS."""
    try:
        sock = socket.create_connection((host, port), timeout)
    except OSError as error:
        raise UnreachableError(error.strerror or str(error), address=f"{host}:{port}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _kernel_buffer(sock, socket.SO_SNDBUF, config["send.buffer.bytes"])
    _kernel_buffer(sock, socket.SO_RCVBUF, config["receive.buffer.bytes"])
    return handshake(sock, config, host, port) if uses_tls(config) else sock


def _kernel_buffer(sock: socket.socket, which: int, size: int) -> None:
    # Linux adapts the buffers to a connection's throughput and latency, better than the client's small defaults
    # (64 KiB, 128 KiB), so only larger values are applied.
    if size > 1 << 20:
        sock.setsockopt(socket.SOL_SOCKET, which, size)
