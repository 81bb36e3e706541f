"""A flow's lag and rates over the last hour: one point about every five seconds. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

EVERY: Final = 5.0
_HOUR: Final = 3600.0

Point = tuple[float, int, float | None, float, float]  # time, lag, lag in seconds, records/s, bytes/s


class History:
    def __init__(self, points: Iterable[Point] = ()) -> None:
        self._points: deque[Point] = deque(points, maxlen=int(_HOUR / EVERY))

    def due(self, now: float) -> bool:
        return not self._points or now - self._points[-1][0] >= EVERY

    def add(self, now: float, lag: int, lag_seconds: float | None, records: float, volume: float) -> None:
        self._points.append((now, lag, lag_seconds, records, volume))

    def points(self) -> list[Point]:
        """The oldest first."""
        return list(self._points)
