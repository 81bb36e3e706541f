"""HTTP Basic authentication.

Every request carries the password, so a digest of each verified password is cached. After a few failures, further
attempts of the same user from the same address are rejected unchecked for a growing delay; other users and other
addresses are not affected. Hashes are computed one at a time, so guessing uses at most one CPU.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.http.users import User, hashed_password

_log = logging.getLogger("twinlog.http")

_FREE_FAILURES: Final = 5  # without a delay: the web UI sends several requests at once
_MAX_DELAY_S: Final = 30.0
_FORGET_AFTER_S: Final = 900.0
_MAX_TRACKED: Final = 10_000
_MAX_WAITING: Final = 32  # logins that wait for their hash


@dataclass(frozen=True, slots=True)
class LoginRefused:
    status: int  # 401: wrong or missing credentials; 429: delayed after failures; 503: too many concurrent logins
    message: str
    retry_after: int = 0


class Failures:
    """Consecutive failed logins, by address and user."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def wait(self, who: tuple[str, str], now: float) -> float:
        """Seconds until the next attempt is checked."""
        count, last = self._known.get(who, (0, 0.0))
        return max(last + delay(count) - now, 0.0)

    def add(self, who: tuple[str, str], now: float) -> int:
        """The number of consecutive failures, with this one."""
        count, last = self._known.pop(who, (0, now))
        count = 1 if now - last > _FORGET_AFTER_S else count + 1
        self._known[who] = (count, now)
        while len(self._known) > _MAX_TRACKED:
            self._known.popitem(last=False)
        return count

    def clear(self, who: tuple[str, str]) -> None:
        self._known.pop(who, None)


def delay(failures: int) -> float:
    return 0.0 if failures < _FREE_FAILURES else min(2.0 ** min(failures - _FREE_FAILURES, 10), _MAX_DELAY_S)


class Logins:
    def __init__(self, users: Mapping[str, User]) -> None:
        self._users = users
        self._key = os.urandom(32)
        self._verified: dict[str, bytes] = {}  # user -> digest of the password
        self._failures = Failures()
        self._waiting = 0
        self._hashing = asyncio.Semaphore(1)
        hashes = any(user.hashed for user in users.values())
        # Unknown names take as long as a wrong password, so that timing does not reveal which users exist.
        self._dummy = User("", hashed_password("", bytes(16)) if hashes else "\0", hashed=hashes)

    async def login(self, authorization: str, address: str) -> User | LoginRefused:
        given = credentials(authorization)
        if given is None:
            return LoginRefused(401, "authentication required: send a user name and password (HTTP Basic)")
        name, password = given
        user = self._users.get(name)
        who = (network(address), name if user else "")
        if (refused := self._too_soon(who)) is not None:
            return refused
        if user is not None and self._is_verified(user, password):
            self._failures.clear(who)
            return user
        tried = user or self._dummy
        if not tried.hashed:
            same = tried.has(password)
        elif self._waiting >= _MAX_WAITING:
            return LoginRefused(503, "too many concurrent logins; retry", 1)
        else:
            self._waiting += 1
            try:
                async with self._hashing:
                    if (refused := self._too_soon(who)) is not None:
                        return refused
                    same = await asyncio.to_thread(tried.has, password)
            finally:
                self._waiting -= 1
        if user is None or not same:
            count = self._failures.add(who, time.monotonic())
            # An unknown name is not logged: it may be a password typed into the wrong field.
            label = f"user {name}" if user else "unknown user"
            _log.warning("login failed: %s from %s: wrong user name or password (%d in a row)", label, address, count)
            return LoginRefused(401, "authentication failed: wrong user name or password")
        self._failures.clear(who)
        self._verified[name] = self._digest(password)
        return user

    def _too_soon(self, who: tuple[str, str]) -> LoginRefused | None:
        wait = self._failures.wait(who, time.monotonic())
        if not wait:
            return None
        seconds = int(wait) + 1
        return LoginRefused(429, f"too many failed logins; retry in {seconds} s", seconds)

    def _is_verified(self, user: User, password: str) -> bool:
        known = self._verified.get(user.name)
        return known is not None and hmac.compare_digest(known, self._digest(password))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), hashlib.sha256)


def credentials(authorization: str) -> tuple[str, str] | None:
    """User and password of an Authorization header."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        given = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:  # neither base64 nor UTF-8
        return None
    name, colon, password = given.partition(":")
    return (name, password) if scheme.lower() == "basic" and colon else None


def network(address: str) -> str:
    """The addresses that one client can choose from: one IPv4 address, or a /64 network of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
