"""Assigns partitions to tasks by load, not only by number. Pure."""

import heapq
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

_IDLE_COST: Final = 1024.0  # bytes per second: an idle partition has a cost too, so idle ones are spread evenly
_MIN_LOAD: Final = 4 << 20  # bytes per second: a task below this is never rebalanced
_MAX_OVER_MEAN: Final = 1.5  # nor is one below this multiple of the mean
_MIN_GAIN: Final = 1.25  # the busiest task's load, before and after, must differ by this factor


def assign(partitions: Sequence[T], tasks: int, load: Mapping[T, float]) -> list[list[T]]:
    """At most `tasks` groups, none empty, balanced greedily (heaviest partition first).

    `load` is in bytes per second; partitions without an entry count as the mean of the others.
    """
    count = min(tasks, len(partitions))
    if count < 1:
        return []
    known = [load[each] for each in partitions if each in load]
    mean = sum(known) / len(known) if known else 0.0
    weights = {each: load.get(each, mean) + _IDLE_COST for each in partitions}
    groups: list[list[T]] = [[] for _ in range(count)]
    heap = [(0.0, 0, at) for at in range(count)]
    for each in sorted(
        partitions, key=lambda one: (-weights[one], partitions.index(one) if len(partitions) < 64 else 0)
    ):
        weight, size, at = heapq.heappop(heap)
        groups[at].append(each)
        heapq.heappush(heap, (weight + weights[each], size + 1, at))
    return groups


def is_unbalanced(groups: Sequence[Sequence[T]], load: Mapping[T, float]) -> bool:
    """Whether a new assignment would relieve the busiest task enough to be worth the interruption."""
    if len(groups) < 2:
        return False
    partitions = [each for group in groups for each in group]
    busiest = max(sum(load.get(each, 0.0) for each in group) for group in groups)
    mean = sum(load.get(each, 0.0) for each in partitions) / len(groups)
    if busiest < _MIN_LOAD or busiest < _MAX_OVER_MEAN * mean:
        return False
    better = max(sum(load.get(each, 0.0) for each in group) for group in assign(partitions, len(groups), load))
    return better < busiest / _MIN_GAIN
