"""Which task gets which partition: by what each has to carry, not only by how many there are. Pure."""

import heapq
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)

# A partition costs something even when nothing happens in it; in bytes per second, so that idle ones are spread, too.
_AT_REST: Final = 1024.0
# Below this a task is not worth relieving, whatever the others do; and how far above the mean it must be.
_WORTH_MOVING: Final = 4 << 20
_TOO_MUCH: Final = 1.5


def assign(partitions: Sequence[T], tasks: int, load: Mapping[T, float]) -> list[list[T]]:
    """At most `tasks` groups, none empty, the heaviest as light as it can be had by giving the largest first.

    `load` is in bytes per second; one that is not in it is taken to be as heavy as the mean of the others.
    """
    count = min(tasks, len(partitions))
    if count < 1:
        return []
    known = [load[each] for each in partitions if each in load]
    usual = sum(known) / len(known) if known else 0.0
    weights = {each: load.get(each, usual) + _AT_REST for each in partitions}
    groups: list[list[T]] = [[] for _ in range(count)]
    heap = [(0.0, 0, at) for at in range(count)]
    for each in sorted(
        partitions, key=lambda one: (-weights[one], partitions.index(one) if len(partitions) < 64 else 0)
    ):
        weight, size, at = heapq.heappop(heap)
        groups[at].append(each)
        heapq.heappush(heap, (weight + weights[each], size + 1, at))
    return groups


def lopsided(groups: Sequence[Sequence[T]], load: Mapping[T, float]) -> bool:
    """Whether a new assignment would relieve the busiest task by so much that the interruption is worth it."""
    if len(groups) < 2:
        return False
    partitions = [each for group in groups for each in group]
    now = max(sum(load.get(each, 0.0) for each in group) for group in groups)
    mean = sum(load.get(each, 0.0) for each in partitions) / len(groups)
    if now < _WORTH_MOVING or now < _TOO_MUCH * mean:
        return False
    better = max(sum(load.get(each, 0.0) for each in group) for group in assign(partitions, len(groups), load))
    return better < now / 1.25
