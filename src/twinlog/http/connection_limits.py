"""Limits on connections and on the time to receive a request's headers.

At the limit, the connection that has been idle longest is closed for the new one, so that a client that opens many idle
connections cannot block others. A connection with a request in progress is never closed.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from twinlog.http.logins import network


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 512
    per_address: int = 128
    head_seconds: float = 10.0
    head_bytes: int = 32 << 10


DEFAULT: Final = Limits()
_SHORT: Final = {"commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C"}


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """A protocol class; uvicorn creates an instance for each connection."""

    class Limited(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _idle_since = 0.0
        _refused = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._idle_since = time.monotonic()
            self.app = _with_certificate(self.app, transport)
            others = [each for each in self.connections if isinstance(each, Limited) and each is not self]
            same_network = [each for each in others if each._network == self._network]  # noqa: SLF001
            if len(same_network) >= limits.per_address:
                self._refused = not _close_idle(same_network)
            elif len(others) >= limits.connections:
                self._refused = not _close_idle(others)
            if self._refused:
                self.connections.discard(self)
                transport.abort()
                return
            self._update_timer()

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            super().data_received(data)
            self._update_timer()

        def on_response_complete(self) -> None:
            self._idle_since = time.monotonic()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_timer()
            super().connection_lost(exc)

        @property
        def idle(self) -> bool:
            """Whether no request is in progress: received headers without a complete response."""
            return self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)

        @property
        def _network(self) -> str:
            return network(self.client[0]) if self.client else ""

        def _update_timer(self) -> None:
            if not self.idle:
                self._cancel_timer()
            elif self._timer is None:
                self._timer = self.loop.call_later(limits.head_seconds, self._on_timeout)

        def _cancel_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _on_timeout(self) -> None:
            self._timer = None
            if self.idle and not self.transport.is_closing():
                self.transport.abort()

    def _close_idle(connections: list[Limited]) -> bool:
        """Closes the connection that has been idle longest; False if none is idle."""
        idle = [each for each in connections if each.idle]
        if not idle:
            return False
        longest = min(idle, key=lambda each: each._idle_since)  # noqa: SLF001
        longest.connections.discard(longest)
        longest.transport.abort()
        return True

    return Limited


def _with_certificate(app: Any, transport: asyncio.Transport) -> Any:
    """Adds the subject of the client's certificate to the scope, as in ASGI's TLS extension."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return app
    parts = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    name = ", ".join(f"{_SHORT.get(key, key)}={value}" for part in parts for key, value in part)

    async def with_certificate(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "extensions": {"tls": {"client_cert_name": name}}}, receive, send)

    return with_certificate
