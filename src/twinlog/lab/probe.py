"""Asks a listener one question that needs no login (ApiVersions): an answer proves that requests are served there.

A port that accepts connections proves less: Kafka binds its ports well before it reads from them.
"""

import socket
import ssl
import struct

from twinlog.lab import certificates
from twinlog.lab.listeners import SUPER_USER, Listener
from twinlog.lab.ports import HOST

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)  # key, version, correlation id, no client id


def answers(listener: Listener, port: int, authority: certificates.Authority | None, timeout: float = 1.0) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout) as plain:
            if not listener.tls:
                return _ask(plain)
            assert authority is not None
            context = ssl.create_default_context(cafile=str(authority.ca))
            if listener.client_certificate:
                files = authority.client(SUPER_USER)
                context.load_cert_chain(files.certificate, files.key)
            with context.wrap_socket(plain, server_hostname=HOST) as secured:
                return _ask(secured)
    except OSError:  # refused, reset, timed out, or a handshake that came too early
        return False


def _ask(connection: socket.socket) -> bool:
    connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
    return len(connection.recv(4)) > 0
