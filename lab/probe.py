"""Probes a listener with an ApiVersions request, which needs no authentication.

An open port is not enough: Kafka binds its ports well before it serves requests.
"""

import socket
import ssl
import struct

from lab import certificates
from lab.listeners import SUPER_USER, Listener
from lab.ports import HOST

_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)  # key, version, correlation id, no client id


def is_serving(listener: Listener, port: int, authority: certificates.Authority | None, timeout: float = 1.0) -> bool:
    try:
        with socket.create_connection((listener.host, port), timeout) as plain:
            if not listener.tls:
                return _responds(plain)
            assert authority is not None
            context = ssl.create_default_context(cafile=str(authority.ca))
            if listener.client_certificate:
                files = authority.client(SUPER_USER)
                context.load_cert_chain(files.certificate, files.key)
            with context.wrap_socket(plain, server_hostname=HOST) as secured:
                return _responds(secured)
    except OSError:  # refused, reset, timed out, or a TLS handshake that failed
        return False


def _responds(connection: socket.socket) -> bool:
    connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
    return len(connection.recv(4)) > 0
