"""Doors that stayed shut: who was refused is not let knock again at once, however many of his threads would like to.

A wrong password does not get better by being repeated; it may lock the account, and a handshake is work for a broker.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import LockedError

_FIRST: Final = 0.5  # seconds
_LONGEST: Final = {True: 5.0, False: 30.0}  # by whether time may heal it


@dataclass(slots=True)
class _Refusal:
    error: LockedError
    times: int
    again_at: float


class Doors:
    """Thread safe. Each pause is twice as long as the one before."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._shut: dict[Hashable, _Refusal] = {}
        self._lock = threading.Lock()

    def knock(self, key: Hashable) -> None:
        """Raises what was said the last time, if it is too early to ask again."""
        with self._lock:
            found = self._shut.get(key)
        if found is not None and self._now() < found.again_at:
            raise LockedError(str(found.error), heals=found.error.heals)

    def refused(self, key: Hashable, error: LockedError) -> None:
        with self._lock:
            before = self._shut.get(key)
            times = before.times + 1 if before else 0
            pause = min(_FIRST * 2 ** min(times, 10), _LONGEST[error.heals])
            self._shut[key] = _Refusal(error, times, self._now() + pause)

    def opened(self, key: Hashable) -> None:
        with self._lock:
            self._shut.pop(key, None)


def key_of(config: ClientConfig, host: str, port: int) -> Hashable:
    """Who knocks where, and with which keys. A hash, so that no secret is kept a second time."""
    values = config.values
    login = tuple((name, values[name].text) for name in CONNECTION_KEYS if name in values)
    return host, port, hash(login)


DOORS: Final = Doors()
