"""How many connections to a far broker are used: as many as increase the throughput. Pure."""

from typing import Final

LONG_ROUND_TRIP: Final = 0.005  # seconds: below, one connection carries more than 20 MB/s
MAX_CONNECTIONS: Final = 32  # of a task to one broker
_FIRST: Final = 8
_GROWTH: Final = 1.1  # a doubled number must bring at least this factor
_HOLD_SECONDS: Final = 15.0  # until more are tried again
_ROUND_TRIPS: Final = 20  # of one measurement: a range takes about ten


class ConnectionCount:
    def __init__(self, limit: int, round_trip: float) -> None:
        self._limit = limit
        self._seconds = max(_ROUND_TRIPS * round_trip, 1.0)
        self._count = min(_FIRST, limit)
        self._before: tuple[int, float] | None = None  # the number before the last change, and its bytes/s
        self._since = -1.0
        self._bytes = 0
        self._try_at = 0.0
        self.rate = 0.0  # bytes/s, of the last measurement

    def wanted(self, now: float) -> int:
        if self._since < 0:
            self._since = now
        elif now - self._since >= self._seconds:
            self._measured(self._bytes / (now - self._since), now)
            self._since, self._bytes = now, 0
        return self._count

    def received(self, size: int, now: float) -> None:
        if self._since < 0:
            self._since = now
        self._bytes += size

    def _measured(self, rate: float, now: float) -> None:
        self.rate = rate
        if self._before is not None:
            count, before = self._before
            self._before = None
            if rate < before * _GROWTH:  # the link, the broker or the target limits it
                self._count, self._try_at = count, now + _HOLD_SECONDS
                return
        if now >= self._try_at and self._count < self._limit and rate > 0:
            self._before = self._count, rate
            self._count = min(self._count * 2, self._limit)
