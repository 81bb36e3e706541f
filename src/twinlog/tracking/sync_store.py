"""Where a source offset is on the target: what all the offset syncs together say.

MM2 keeps 64 syncs of each partition, close together near the newest one and ever sparser behind it, and translates to
the last one at or before an offset, or to the place after it. That is safe, and coarse for groups that lag behind.

Our own syncs say more (`since`, see offset_syncs.py): they tell a run of records that lie on both sides without a gap.
Runs are kept beside MM2's slots. Inside a run a translation is exact; everywhere else, the last known record before
the offset counts, be it a slot's or the last one of a run. Without a `since` all is as in MM2, with one exception:

A sync that puts a record on the target at or before one that the source has earlier says that the target lost records,
or was made again. MM2 keeps what it knew, and so sends groups behind the target's end, or past records that they never
saw. Here it is forgotten, as MM2 itself forgets when the source is rewound.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

from twinlog.model import TopicPartition
from twinlog.tracking.offset_syncs import OffsetSync

_SLOTS: Final = 64
_LAST: Final = _SLOTS - 1
_MOST_RUNS: Final = 256  # a topic written in transactions has a run for each of them

TOO_OLD: Final = -1

Slots = tuple[OffsetSync, ...]  # newest first; one sync may fill many


class OffsetSyncStore:
    """One thread may add while others translate: what is known of a partition is replaced as a whole.

    `must_read_to_end`: it is not known which checkpoints were emitted before, so none may be emitted that takes a group
    back. MM2 then keeps only the latest sync of the initial read, for with those between compacted away an older one
    would translate to less than it once did. The run of that latest sync is kept with it: inside a run a translation
    is the place of that very record, and nobody has ever translated to more than that. The same holds for a run that
    a later sync tells, however far it reaches back. What is inexact, the place after the last known record, is only
    given for offsets at or behind the latest sync of the initial read; so no group goes back unless it did on the
    source.
    """

    def __init__(self, must_read_to_end: bool = False) -> None:
        self._must_read_to_end = must_read_to_end
        self._ready = False
        self._known: dict[TopicPartition, _Known] = {}

    def add(self, sync: OffsetSync) -> None:
        """In the topic's order. What no log can hold is passed over: a negative offset, a run that begins at one."""
        if sync.upstream < 0 or sync.downstream < 0:
            return
        if sync.since is not None and not max(0, -sync.difference) <= sync.since <= sync.upstream:
            sync = replace(sync, since=None)
        place = TopicPartition(sync.topic, sync.partition)
        known = self._known.get(place)
        only_the_latest = self._must_read_to_end and not self._ready
        self._known[place] = _first(sync) if known is None or only_the_latest else known.adding(sync)

    def finish_initial_read(self) -> None:
        """Until then nothing is translated."""
        self._ready = True

    def translate(self, place: TopicPartition, upstream: int) -> int | None:
        """None: nothing is known yet. TOO_OLD (-1): it lies before all that is known.

        It grows with `upstream`, and never leads past a record that was not consumed: at most to the place after the
        newest record that is known to be replicated.
        """
        known = self._known.get(place) if self._ready else None
        return None if known is None else known.translate(upstream)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs, oldest first: records `first` to `last` of the source are on the target, each at its offset + `shift`.

    They do not overlap, and on both sides each lies behind the one before. In arrays, for there may be millions.
    """

    first: "array[int]" = field(default_factory=lambda: array("q"))
    last: "array[int]" = field(default_factory=lambda: array("q"))
    shift: "array[int]" = field(default_factory=lambda: array("q"))

    def at(self, upstream: int) -> int:
        """The index of the run that begins last at or before an offset; -1: none does."""
        return bisect_right(self.first, upstream) - 1

    def adding(self, first: int, last: int, shift: int) -> "_Runs | None":
        """None: it does not fit to those that are known, for a record cannot be at two places.

        `last` is never before the end of those that are known.
        """
        keep = len(self.first)
        while keep and self.shift[keep - 1] == shift and self.last[keep - 1] + 1 >= first:
            keep -= 1  # they continue each other
            first = min(first, self.first[keep])
        if keep:
            end = self.last[keep - 1]
            if end >= first or end + self.shift[keep - 1] >= first + shift:
                return None
        oldest = max(0, keep + 1 - _MOST_RUNS)
        return _Runs(
            self.first[oldest:keep] + array("q", (first,)),
            self.last[oldest:keep] + array("q", (last,)),
            self.shift[oldest:keep] + array("q", (shift,)),
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """Of one partition."""

    slots: Slots
    runs: _Runs

    def adding(self, sync: OffsetSync) -> "_Known":
        begin = _begin(sync)
        rewound = sync.upstream < self.slots[0].upstream
        if rewound or _tells_of_loss(self.slots, begin, sync.difference):
            return _first(sync)
        runs = self.runs.adding(begin, sync.upstream, sync.difference)
        if runs is None:  # it was rewound, or lost records, and the sync that said so was never written
            return _first(sync)
        return _Known(_promoted(self.slots, sync), self.runs if sync.since is None else runs)

    def translate(self, upstream: int) -> int:
        at = self.runs.at(upstream)
        end = self.runs.last[at] if at >= 0 else TOO_OLD
        if upstream <= end:
            return upstream + self.runs.shift[at]
        for slot in self.slots:
            if slot.upstream <= upstream:
                if slot.upstream <= end:
                    return end + self.runs.shift[at] + 1
                return slot.downstream if slot.upstream == upstream else slot.downstream + 1
        # No run ends before all slots: its last record is a sync's, and those of the oldest are kept until all go.
        return TOO_OLD


def _first(sync: OffsetSync) -> _Known:
    runs = _Runs().adding(_begin(sync), sync.upstream, sync.difference) if sync.since is not None else None
    return _Known((sync,) * _SLOTS, runs or _Runs())


def _begin(sync: OffsetSync) -> int:
    return sync.upstream if sync.since is None else sync.since


def _tells_of_loss(slots: Slots, begin: int, difference: int) -> bool:
    """Whether records from `begin` on lie on the target before others that are known, and that should be before them.

    That one lies further back than was known is no loss: it was copied again.
    """
    for slot in slots:
        if slot.upstream < begin:
            return slot.downstream >= begin + difference
        if slot.downstream > slot.upstream + difference:
            return True
    return False


# MM2's rules for the syncs in slots i < j, if they are not the same one:
# B: s[i].upstream <= s[j].upstream + 2^j - 2^i. They are not too far apart, so an offset between loses little.
# C: s[i].upstream >= s[j].upstream + 2^max(i-2, 0). Nor are they too close, so 64 reach back to the beginning.
# MM2's bounds overflow, and then count as too large to be reached; ours do not, and are.


def _promoted(old: Slots, sync: OffsetSync) -> Slots:
    """The slots with a new sync in front; what it pushes out moves back, or goes."""
    slots = [sync, *old[1:]]
    candidate = sync
    reading = 0
    for current in range(1, _SLOTS):
        previous = slots[current - 1]
        while True:
            value = old[reading]
            separate = _rule_c(previous, value, current - 1)
            repeated = reading < _LAST and value is old[reading + 1]
            skipped = repeated or not separate
            if (
                separate
                and _rule_b(previous, value, current - 1, current)
                and (current == _LAST or _rule_c(value, slots[current + 1], current))
            ):
                candidate = value
                reading += 1
            elif skipped:
                reading += 1
            if reading >= current or not skipped:
                break
        if _rule_b(previous, slots[current], current - 1, current):
            break
        slots[current] = candidate
    return tuple(slots)


def _rule_b(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    return newer is older or newer.upstream <= older.upstream + (1 << j) - (1 << i)


def _rule_c(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    return newer is older or newer.upstream >= older.upstream + (1 << max(i - 2, 0))
