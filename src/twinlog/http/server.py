"""The HTTP server; runs in its own thread, so that the caller keeps the main thread and its signals."""

import contextlib
import ipaddress
import logging
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from twinlog.connect.worker_file import LOOPBACK, PORT
from twinlog.errors import ConfigError, TwinlogError
from twinlog.http.connection_limits import DEFAULT, Limits, limited_protocol

_GRACE_S = 2  # for responses in progress when the server stops
_STOP_TIMEOUT_S = 10.0

_log = logging.getLogger("twinlog.http")


class Server:
    """`with Server(app, port=8083):` serves until the end of the block. Port 0: the system chooses a free one.

    While it serves, `health_file` contains the URL of its health check.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str = LOOPBACK,
        port: int = PORT,
        tls: ssl.SSLContext | None = None,
        health_file: Path | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        self._health_file = health_file
        self._mutual = tls is not None and tls.verify_mode is ssl.CERT_REQUIRED
        self._socket = _bound(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        config = uvicorn.Config(
            app,
            http=limited_protocol(limits),
            h11_max_incomplete_event_size=limits.head_bytes,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        self._thread.start()
        _log.debug("serving %s", self.url)
        if self._health_file is not None:
            _write_health_file(
                self._health_file, health_url(self.url) + (" client-certificate" if self._mutual else "")
            )

    def stop(self) -> None:
        """Returns once the port is free."""
        if self._health_file is not None:
            with contextlib.suppress(OSError):
                self._health_file.unlink()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT_S)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def health_url(url: str) -> str:
    """The health check URL for clients on this machine: on loopback if the server listens on all addresses."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:") + "/health"


def _write_health_file(file: Path, content: str) -> None:
    """Renamed into place: readers never see a partial file, and an existing symbolic link is not followed."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix=f".{file.name}-", dir=file.parent, delete=False) as written:
            written.write(f"{content}\n")
        Path(written.name).replace(file)
    except OSError as error:
        _log.warning("TWINLOG_HEALTH_FILE %s: %s; health checks will fail", file, error.strerror)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_context(certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> ssl.SSLContext:
    """From PEM files; the certificate's file may contain the key. `client_ca`: require client certificates (mTLS)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        files = " and ".join(str(file) for file in (certificate, key) if file)
        raise ConfigError(
            f"{files}: not a PEM certificate with an unencrypted key ({error.reason or 'unreadable'})"
        ) from error
    except OSError as error:
        missing = next((file for file in (certificate, key) if file and not file.is_file()), certificate)
        raise ConfigError(f"{missing}: {error.strerror}") from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError as error:
            raise ConfigError(f"{client_ca}: no PEM certificates in it") from error
        except OSError as error:
            raise ConfigError(f"{client_ca}: {error.strerror}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _bound(host: str, port: int) -> socket.socket:
    """Binds and listens before anything else starts, so that a port in use is reported at once."""
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
        reason = (error.strerror or str(error)).lower()
        raise TwinlogError(f"cannot listen on {host}:{port}: {reason}; choose another --port or --host") from error
    return bound
