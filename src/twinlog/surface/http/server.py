"""The HTTP server: in a thread of its own, so that whoever starts it keeps the main thread, and signals."""

import ipaddress
import logging
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from twinlog.errors import ConfigError, TwinlogError

LOOPBACK = "127.0.0.1"
PORT = 8083  # Connect's
_FAREWELL = 2  # seconds that answers under way have when the server stops; pages keep theirs open for ever
_PATIENCE = 10.0

_log = logging.getLogger("twinlog.http")


class Server:
    """`with Server(app, port=8083):` serves until the end of the block. Port 0 lets the system choose one."""

    def __init__(
        self, app: ASGIApp, *, host: str = LOOPBACK, port: int = PORT, tls: ssl.SSLContext | None = None
    ) -> None:
        self._socket = _bound(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_FAREWELL,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()
        _log.debug("serving %s", self.url)

    def stop(self) -> None:
        """Returns when the port is free again."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """From PEM files; the key may stand in the certificate's file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        files = " and ".join(str(file) for file in (certificate, key) if file)
        raise ConfigError(
            f"{files}: not a PEM certificate with its unencrypted key ({error.reason or 'unreadable'})"
        ) from error
    except OSError as error:
        missing = next((file for file in (certificate, key) if file and not file.is_file()), certificate)
        raise ConfigError(f"{missing}: {error.strerror}") from error
    return context


def _bound(host: str, port: int) -> socket.socket:
    """Bound and listening before anything else is begun, so that a port that is taken is said at once."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"cannot listen on {host!r}: {error.strerror}") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        why = (error.strerror or str(error)).lower()
        raise TwinlogError(f"cannot listen on {host}:{port}: {why}: choose another --port or --host") from error
    return bound
