"""OAuth tokens as a client sees them: how long one lives, when the next is due. Signatures are the broker's affair."""

import base64
import binascii
import json
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from twinlog.config.flows import Client
from twinlog.errors import LockedError

LARGEST: Final = 1 << 18  # brokers take logins of at most half a megabyte (sasl.server.max.receive.size)
_ALLOWED: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")  # RFC 6750; anything else would end the message early
_AGAIN: Final = 10.0  # seconds until a renewal that failed is tried again, while the old token is still good
_UNKNOWN_LIFE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    subject: str = ""
    issued: float | None = None
    expires: float | None = None

    def is_over(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


class Source(Protocol):
    def fetch(self) -> Token:
        """A new token. LockedError where it cannot be had."""


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


def token(text: str, where: str, life: float | None = None, subject: str = "sub") -> Token:
    """What a file or an endpoint gave. `life` is the endpoint's word for a token that cannot be looked into."""
    value = text.strip()
    if len(value) > LARGEST or not _ALLOWED.fullmatch(value):
        raise LockedError(f"OAUTHBEARER: what {where} holds is not a token", heals=True)
    claims = _claims(value)
    issued, expires = _time(claims.get("iat")), _time(claims.get("exp"))
    if expires is None and life is not None:
        expires = time.time() + life
    name = claims.get(subject)
    return Token(value, name if isinstance(name, str) else "", issued, expires)


def read_token(path: Path) -> Token:
    """From a file that somebody keeps fresh (a Kubernetes service account's, say): read anew for every login."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise LockedError(f"OAUTHBEARER: {path}: {error.strerror}: no token to log in with", heals=True) from None
    return token(content.decode(errors="replace"), str(path))


def renewal(held: Token, now: float, rules: Refresh, luck: float) -> float:
    """When a token that was received just now is replaced, by Kafka's rule. `luck` from 0 to 1 spreads many clients."""
    if held.expires is None:
        return now + _UNKNOWN_LIFE
    share = rules.factor + rules.jitter * luck
    if now + rules.least_seconds + rules.buffer_seconds > held.expires:  # too short a life for any margin
        return now + (held.expires - now) * share
    start = now if held.issued is None else held.issued
    wanted = start + (held.expires - start) * share
    return max(min(wanted, held.expires - rules.buffer_seconds), now + rules.least_seconds)


class Keeper:
    """The token of one login, shared by all connections; whoever asks when it is due renews it, the others go on."""

    def __init__(self, source: Source, rules: Refresh, clock: Callable[[], float] = time.time) -> None:
        self._source, self._rules, self._clock = source, rules, clock
        self._lock = threading.Lock()
        self._held: Token | None = None
        self._due = 0.0
        self._failed: tuple[float, LockedError] | None = None

    def token(self) -> tuple[Token, bool]:
        """The token, and whether it was fetched by this very call."""
        held, now = self._held, self._clock()
        if held is not None and not held.is_over(now):
            if now < self._due or not self._lock.acquire(blocking=False):
                return held, False
        else:
            self._lock.acquire()
        try:
            return self._renewed(held, now)
        finally:
            self._lock.release()

    def drop(self, refused: Token) -> None:
        """The broker does not want it: the next login asks for another."""
        with self._lock:
            if self._held is refused:
                self._held = None

    def _renewed(self, seen: Token | None, asked: float) -> tuple[Token, bool]:
        if self._held is not None and self._held is not seen and not self._held.is_over(self._clock()):
            return self._held, False  # somebody was faster
        if self._failed is not None and self._failed[0] > asked:  # while we waited; to ask again would take as long
            raise LockedError(str(self._failed[1]), heals=self._failed[1].heals)
        try:
            fresh = self._source.fetch()
        except LockedError as error:
            now = self._clock()
            self._failed = (now, error)
            if self._held is None or self._held.is_over(now):
                raise
            self._due = now + _AGAIN
            return self._held, False
        self._held = fresh
        self._due = renewal(fresh, self._clock(), self._rules, random.random())  # noqa: S311  (no secret)
        return fresh, True


def encoded(content: bytes) -> str:
    """base64url without padding, as all parts of a JWT."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def json_part(content: dict[str, Any]) -> str:
    return encoded(json.dumps(content, separators=(",", ":")).encode())


def _claims(value: str) -> dict[str, Any]:
    """Of a JWT; nothing of a token that is only a reference."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _time(claim: object) -> float | None:
    """Seconds since 1970; an absurd number is none."""
    usable = isinstance(claim, int | float) and not isinstance(claim, bool) and 0 <= claim < 1e12
    return float(claim) if usable and isinstance(claim, int | float) else None
