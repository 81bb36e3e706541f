"""Minimum, average and maximum over about the last minute, in constant memory. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_SECONDS: Final = 10  # of a bucket
_BUCKETS: Final = 6


class RecentStats:
    __slots__ = ("_buckets",)

    def __init__(self, buckets: Iterable[Sequence[float]] = ()) -> None:
        # number, count, sum, minimum, maximum
        self._buckets = [(int(number), *map(float, rest)) for number, *rest in buckets]

    def buckets(self, seconds: float) -> list[tuple[float, ...]]:
        """Those that still count at that time: the constructor takes them."""
        oldest = int(seconds) // _SECONDS - _BUCKETS
        return [bucket for bucket in self._buckets if bucket[0] > oldest]

    def add(self, seconds: float, stats: Sequence[float]) -> None:
        """`stats` covers the time since the last report: count, sum, minimum, maximum."""
        count, total, least, most = stats
        number = int(seconds) // _SECONDS
        buckets = self._buckets
        if buckets and buckets[-1][0] >= number:
            last, n, s, low, high = buckets[-1]
            buckets[-1] = (last, n + count, s + total, min(low, least), max(high, most))
            return
        buckets.append((number, count, total, least, most))
        if len(buckets) > _BUCKETS:
            del buckets[0]

    def over(self, seconds: float) -> tuple[float, float, float] | None:
        """Minimum, average and maximum in the minute before; None: there was nothing."""
        oldest = int(seconds) // _SECONDS - _BUCKETS
        count = total = 0.0
        least, most = math.inf, -math.inf
        for number, n, s, low, high in self._buckets:  # one loop: every scrape does this for every partition
            if number > oldest and n:
                count += n
                total += s
                least = min(least, low)
                most = max(most, high)
        return (least, total / count, most) if count else None
