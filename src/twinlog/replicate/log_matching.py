"""Finds the newest record that two logs have in common. Pure. Used where counting fails, as after compaction."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

_CONTEXT: Final = 50  # preceding records that are compared to choose between identical records


@dataclass(frozen=True, slots=True)
class Match:
    at: int  # index in the source of the newest common record
    unmatched: int  # records of the target after it, which the source does not have
    ambiguous: int  # distance to the newest record of the source that matches equally well


def newest_common(target: Sequence[Hashable], source: Sequence[Hashable]) -> Match | None:
    """`target` was copied from `source`, in order; since then either may have lost records anywhere.

    Of identical records in the source, the one with the most matching predecessors is chosen; of several such, the
    oldest: copying twice is better than not copying.
    """
    positions: dict[Hashable, list[int]] = {}
    for at, record in enumerate(source):
        positions.setdefault(record, []).append(at)
    for back in range(len(target) - 1, -1, -1):
        if candidates := positions.get(target[back]):
            fit = {at: _fits(target, back, source, at) for at in candidates}
            most = max(fit.values())
            best = [at for at in candidates if fit[at] == most]
            return Match(best[0], len(target) - 1 - back, best[-1] - best[0])
    return None


def _fits(target: Sequence[Hashable], back: int, source: Sequence[Hashable], at: int) -> int:
    """How many records before the two are equal; `_CONTEXT` if they are equal up to the start of one log."""
    count = 0
    most = min(back, at, _CONTEXT)
    while count < most and target[back - count - 1] == source[at - count - 1]:
        count += 1
    return _CONTEXT if count == most else count
