"""Delays new attempts after a failed authentication, for all threads of the process.

Repeating a wrong password can lock the account, and every handshake costs the broker CPU time.
"""

import copy
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import AuthenticationError

_FIRST_PAUSE: Final = 0.5  # seconds
_LONGEST_PAUSE: Final = {True: 5.0, False: 30.0}  # by whether the error is retriable


@dataclass(slots=True)
class _Failure:
    error: AuthenticationError
    times: int
    retry_at: float


class AuthBackoff:
    """Thread safe. Each pause is twice as long as the previous one."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[Hashable, _Failure] = {}
        self._lock = threading.Lock()

    def check(self, key: Hashable) -> None:
        """Raises the last error again if it is too early for another attempt."""
        with self._lock:
            found = self._failures.get(key)
        if found is not None and self._now() < found.retry_at:
            raise copy.copy(found.error)  # raising the same object again would lengthen its traceback each time

    def failed(self, key: Hashable, error: AuthenticationError) -> None:
        with self._lock:
            before = self._failures.get(key)
            times = before.times + 1 if before else 0
            pause = min(_FIRST_PAUSE * 2 ** min(times, 10), _LONGEST_PAUSE[error.retriable])
            self._failures[key] = _Failure(error, times, self._now() + pause)

    def succeeded(self, key: Hashable) -> None:
        with self._lock:
            self._failures.pop(key, None)


def backoff_key(config: ClientConfig, host: str, port: int) -> Hashable:
    """Identifies an address and the credentials used there: by their hash, so that secrets are not stored."""
    values = config.values
    credentials = tuple((name, values[name].text) for name in CONNECTION_KEYS if name in values)
    return host, port, hash(credentials)


AUTH_BACKOFF: Final = AuthBackoff()
