"""Where two logs part, told by their records. Pure. For when counting does not help: a cleaner took some away since."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

_CONTEXT: Final = 50  # records before a pair that are looked at to tell it from its likes


@dataclass(frozen=True, slots=True)
class Match:
    at: int  # index in the source of the newest record that both have
    behind: int  # how many records the target has after it, which the source has not
    likes: int  # how many records further the newest of those lies that could be meant as well


def newest_common(target: Sequence[Hashable], source: Sequence[Hashable]) -> Match | None:
    """`target` was copied from `source`, in order; since then either may have lost records anywhere.

    Where several records of the source are alike, that one is meant whose neighbours fit, too; and if all do, the
    oldest: to copy twice is better than not to copy.
    """
    places: dict[Hashable, list[int]] = {}
    for at, record in enumerate(source):
        places.setdefault(record, []).append(at)
    for back in range(len(target) - 1, -1, -1):
        if alike := places.get(target[back]):
            fit = {at: _fits(target, back, source, at) for at in alike}
            best = [at for at in alike if fit[at] == max(fit.values())]
            return Match(best[0], len(target) - 1 - back, best[-1] - best[0])
    return None


def _fits(target: Sequence[Hashable], back: int, source: Sequence[Hashable], at: int) -> int:
    """How many neighbours before the two are equal."""
    count = 0
    most = min(back, at, _CONTEXT)
    while count < most and target[back - count - 1] == source[at - count - 1]:
        count += 1
    return count
