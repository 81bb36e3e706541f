"""Opens a connection to a broker, and locks it by TLS where the client's settings say so."""

import socket
from typing import Final

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import UnreachableError
from twinlog.security.handshake import handshake

_LOCKED: Final = ("SSL", "SASL_SSL")


def addresses(config: ClientConfig) -> list[tuple[str, int]]:
    """`bootstrap.servers`, which the configuration room has checked."""
    found = []
    for server in config["bootstrap.servers"]:
        host, _, port = server.rpartition(":")
        found.append((host.rpartition("/")[2].strip("[]"), int(port)))
    return found


def uses_tls(config: ClientConfig) -> bool:
    return config["security.protocol"].upper() in _LOCKED


def uses_sasl(config: ClientConfig) -> bool:
    return bool(config["security.protocol"].upper().startswith("SASL_"))


def dial(config: ClientConfig, host: str, port: int, timeout: float) -> socket.socket:
    """A connected, blocking socket. UnreachableError when nobody answers, LockedError when TLS cannot be had."""
    try:
        sock = socket.create_connection((host, port), timeout)
    except OSError as error:
        raise UnreachableError(f"{host}:{port}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    _kernel_buffer(sock, socket.SO_SNDBUF, config["send.buffer.bytes"])
    _kernel_buffer(sock, socket.SO_RCVBUF, config["receive.buffer.bytes"])
    return handshake(sock, config, host, port) if uses_tls(config) else sock


def _kernel_buffer(sock: socket.socket, which: int, size: int) -> None:
    # Linux tunes the buffers of a connection to its speed and distance, better than the client's small defaults
    # (64 KiB, 128 KiB) would. Only a larger value is taken at its word.
    if size > 1 << 20:
        sock.setsockopt(socket.SOL_SOCKET, which, size)
