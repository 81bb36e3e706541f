"""OAuth tokens on the client: their lifetime, renewal and cache. Signatures are checked by the broker only."""

import base64
import binascii
import copy
import json
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from twinlog.config.flows import Client
from twinlog.errors import AuthenticationError

MAX_BYTES: Final = 1 << 18  # brokers accept at most 512 KiB per SASL request (sasl.server.max.receive.size)
_ALLOWED: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")  # RFC 6750; other characters could end the SASL message early
_RETRY_SECONDS: Final = 10.0  # between failed renewals while the old token is still valid
_UNKNOWN_LIFETIME: Final = 300.0  # seconds


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    subject: str = ""
    issued: float | None = None
    expires: float | None = None

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


class Expiring(Protocol):
    """A token, or AWS credentials."""

    @property
    def issued(self) -> float | None: ...

    @property
    def expires(self) -> float | None: ...

    def is_expired(self, now: float) -> bool: ...


T = TypeVar("T", bound=Expiring)
T_co = TypeVar("T_co", bound=Expiring, covariant=True)


class Source(Protocol[T_co]):
    def fetch(self) -> T_co:
        """A new token. AuthenticationError if there is none."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """`sasl.login.refresh.*`: when a token is renewed."""

    factor: float = 0.8
    jitter: float = 0.05
    least_seconds: float = 60.0
    buffer_seconds: float = 300.0


def refresh(config: Client) -> Refresh:
    return Refresh(
        config["sasl.login.refresh.window.factor"],
        config["sasl.login.refresh.window.jitter"],
        config["sasl.login.refresh.min.period.seconds"],
        config["sasl.login.refresh.buffer.seconds"],
    )


def token(text: str, where: str, lifetime: float | None = None, subject: str = "sub") -> Token:
    """The token of a file or an endpoint. `lifetime` applies to tokens without an `exp` claim."""
    value = text.strip()
    if len(value) > MAX_BYTES or not _ALLOWED.fullmatch(value):
        raise AuthenticationError(f"OAUTHBEARER: no valid token from {where}", "check its content", retriable=True)
    claims = _claims(value)
    issued, expires = _time(claims.get("iat")), _time(claims.get("exp"))
    if expires is None and lifetime is not None:
        expires = time.time() + lifetime
    name = claims.get(subject)
    return Token(value, name if isinstance(name, str) else "", issued, expires)


def read_token(path: Path) -> Token:
    """From a file that is renewed externally (of a Kubernetes service account, for example): read at every login."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise AuthenticationError(
            f"OAUTHBEARER: token file {path}: {error.strerror}", "check the path and its permissions", retriable=True
        ) from None
    return token(content.decode(errors="replace"), str(path))


def renewal(current: Expiring, now: float, rules: Refresh, spread: float) -> float:
    """When to renew a token received now, by Kafka's rule. `spread` (0 to 1) staggers the renewals of many clients."""
    if current.expires is None:
        return now + _UNKNOWN_LIFETIME
    share = rules.factor + rules.jitter * spread
    if now + rules.least_seconds + rules.buffer_seconds > current.expires:  # lifetime too short for the buffers
        return now + (current.expires - now) * share
    start = now if current.issued is None else current.issued
    due = start + (current.expires - start) * share
    return max(min(due, current.expires - rules.buffer_seconds), now + rules.least_seconds)


class TokenCache(Generic[T]):
    """The token of one login, shared by all connections. One caller renews it when due; the others use the old one."""

    def __init__(self, source: Source[T], rules: Refresh, clock: Callable[[], float] = time.time) -> None:
        self._source, self._rules, self._clock = source, rules, clock
        self._lock = threading.Lock()
        self._current: T | None = None
        self._due = 0.0
        self._failed: tuple[float, AuthenticationError] | None = None

    def token(self) -> tuple[T, bool]:
        """The token, and whether this call fetched it."""
        current, now = self._current, self._clock()
        if current is not None and not current.is_expired(now):
            if now < self._due or not self._lock.acquire(blocking=False):
                return current, False
        else:
            self._lock.acquire()
        try:
            return self._renew(current, now)
        finally:
            self._lock.release()

    def drop(self, rejected: T) -> None:
        """The broker rejected it: the next login fetches another."""
        with self._lock:
            if self._current is rejected:
                self._current = None

    def _renew(self, seen: T | None, requested: float) -> tuple[T, bool]:
        if self._current is not None and self._current is not seen and not self._current.is_expired(self._clock()):
            return self._current, False  # renewed by another thread
        if self._failed is not None and self._failed[0] > requested:  # while waiting; a retry would take as long
            raise copy.copy(self._failed[1])
        try:
            fresh = self._source.fetch()
        except AuthenticationError as error:
            now = self._clock()
            self._failed = (now, error)
            if self._current is None or self._current.is_expired(now):
                raise
            self._due = now + _RETRY_SECONDS
            return self._current, False
        self._current = fresh
        self._due = renewal(fresh, self._clock(), self._rules, random.random())  # noqa: S311  (not a secret)
        return fresh, True


def encoded(content: bytes) -> str:
    """base64url without padding, as in a JWT."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def json_part(content: dict[str, Any]) -> str:
    return encoded(json.dumps(content, separators=(",", ":")).encode())


def _claims(value: str) -> dict[str, Any]:
    """The claims of a JWT; empty for an opaque token."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time(claim: object) -> float | None:
    """Seconds since 1970; None if out of range."""
    usable = isinstance(claim, int | float) and not isinstance(claim, bool) and 0 <= claim < 1e12
    return float(claim) if usable and isinstance(claim, int | float) else None
