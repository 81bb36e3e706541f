"""How something was of late: count, average, least and most of about a minute, in a few numbers. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_SECONDS: Final = 10
_KEPT: Final = 6


class Window:
    """Ten seconds are one bucket; the last six count."""

    __slots__ = ("_buckets",)

    def __init__(self, buckets: Iterable[Sequence[float]] = ()) -> None:
        # number, count, sum, least, most
        self._buckets = [(int(number), *map(float, rest)) for number, *rest in buckets]

    def kept(self, seconds: float) -> list[tuple[float, ...]]:
        """From which it can be made again, as far as it still counts at that time."""
        oldest = int(seconds) // _SECONDS - _KEPT
        return [bucket for bucket in self._buckets if bucket[0] > oldest]

    def add(self, seconds: float, told: Sequence[float]) -> None:
        """`told` is what happened since the last report: count, sum, least, most."""
        count, total, least, most = told
        number = int(seconds) // _SECONDS
        buckets = self._buckets
        if buckets and buckets[-1][0] >= number:
            last, n, s, low, high = buckets[-1]
            buckets[-1] = (
                last,
                n + count,
                s + total,
                min(low, least),
                max(high, most),
            )
            return
        buckets.append((number, count, total, least, most))
        if len(buckets) > _KEPT:
            del buckets[0]

    def over(self, seconds: float) -> tuple[float, float, float] | None:
        """Least, average and most in the minute before; None: there was nothing."""
        oldest = int(seconds) // _SECONDS - _KEPT
        count = total = 0.0
        least, most = math.inf, -math.inf
        for number, n, s, low, high in self._buckets:  # one loop: a scrape asks this of every partition
            if number > oldest and n:
                count += n
                total += s
                least = min(least, low)
                most = max(most, high)
        return (least, total / count, most) if count else None
