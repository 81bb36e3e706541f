"""Translates source offsets to target offsets, from all offset syncs.

MM2 keeps 64 syncs per partition, dense near the newest one and ever sparser before it, and translates to the last one
at or before an offset, or to the offset after it. That is safe, but imprecise for groups that lag behind.

Twinlog's own syncs have more information (`since`, see offset_syncs.py): a run of records that are on both sides
without a gap. Runs are kept in addition to MM2's slots. Inside a run a translation is exact; everywhere else the last
known record before the offset counts, of a slot or of a run. Without a `since` everything is as in MM2, with one
exception:

A sync that places a record on the target at or before one that the source has earlier means that the target lost
records or was re-created. MM2 keeps its older syncs, and so sends groups beyond the target's end, or past records that
they have never seen. Here they are dropped, as MM2 itself does when the source is rewound.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

from twinlog.mm2.offset_syncs import OffsetSync
from twinlog.model import TopicPartition

_SLOTS: Final = 64
_LAST: Final = _SLOTS - 1
_MAX_RUNS: Final = 256  # a topic written in transactions has one run per transaction

TOO_OLD: Final = -1

Slots = tuple[OffsetSync, ...]  # newest first; one sync may fill many


class OffsetSyncStore:
    """One thread may add while others translate: the state of a partition is replaced, never changed.

    `must_read_to_end`: it is not known which checkpoints were emitted before, so none may be emitted that takes a group
    back. MM2 then keeps only the latest sync of the initial read, because an older one, with those in between compacted
    away, would translate to less than before. The run of that latest sync is kept with it: inside a run a translation
    is the offset of that very record, and no earlier translation can have exceeded it. The same holds for a run of a
    later sync, however far it reaches back. Inexact translations, to the offset after the last known record, are only
    made for offsets at or after the latest sync of the initial read; so no group goes back unless it did on the source.
    """

    def __init__(self, must_read_to_end: bool = False) -> None:
        self._must_read_to_end = must_read_to_end
        self._ready = False
        self._known: dict[TopicPartition, _Known] = {}

    def add(self, sync: OffsetSync) -> None:
        """In the topic's order. Impossible values are ignored: a negative offset, or a run that starts at one."""
        if sync.upstream < 0 or sync.downstream < 0:
            return
        if sync.since is not None and not max(0, -sync.difference) <= sync.since <= sync.upstream:
            sync = replace(sync, since=None)
        tp = TopicPartition(sync.topic, sync.partition)
        known = self._known.get(tp)
        only_the_latest = self._must_read_to_end and not self._ready
        self._known[tp] = _first(sync) if known is None or only_the_latest else known.adding(sync)

    def finish_initial_read(self) -> None:
        """Before this call nothing is translated."""
        self._ready = True

    def translate(self, tp: TopicPartition, upstream: int) -> int | None:
        """None: nothing is known yet. TOO_OLD (-1): it is before all known records.

        It increases with `upstream`, and never skips a record that was not consumed: it is at most the offset after the
        newest record known to be replicated.
        """
        known = self._known.get(tp) if self._ready else None
        return None if known is None else known.translate(upstream)

    def limit(self, tp: TopicPartition, upstream: int) -> int | None:
        """The largest offset on the target that a source offset can have: that of the first known record at or after
        it. None: all known records are before it. It is never less than the translation.
        """
        known = self._known.get(tp) if self._ready else None
        limit = None if known is None else known.limit(upstream)
        return None if known is None or limit is None else max(limit, known.translate(upstream))

    def forget_beyond(self, tp: TopicPartition, end: int) -> bool:
        """Drops a partition if its newest sync is of a record that the target does not have: its remote topic ends at
        `end`, so it lost records or was re-created, and older syncs are not reliable either.
        """
        known = self._known.get(tp)
        if known is None or known.slots[0].downstream < end:
            return False
        del self._known[tp]
        return True

    def forget(self, topic: str) -> None:
        """All partitions of a source topic whose remote topic was re-created."""
        for tp in [tp for tp in self._known if tp.topic == topic]:
            del self._known[tp]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs, oldest first: records `first` to `last` of the source are on the target, each at its offset + `shift`.

    They do not overlap, and are ordered on both sides. In arrays, because there may be millions.
    """

    first: "array[int]" = field(default_factory=lambda: array("q"))
    last: "array[int]" = field(default_factory=lambda: array("q"))
    shift: "array[int]" = field(default_factory=lambda: array("q"))

    def at(self, upstream: int) -> int:
        """The index of the last run that starts at or before an offset; -1: none does."""
        return bisect_right(self.first, upstream) - 1

    def adding(self, first: int, last: int, shift: int) -> "_Runs | None":
        """None: it contradicts the known runs, because a record cannot be at two offsets.

        `last` is never before the end of the known runs.
        """
        keep = len(self.first)
        while keep and self.shift[keep - 1] == shift and self.last[keep - 1] + 1 >= first:
            keep -= 1  # contiguous
            first = min(first, self.first[keep])
        if keep:
            end = self.last[keep - 1]
            if end >= first or end + self.shift[keep - 1] >= first + shift:
                return None
        oldest = max(0, keep + 1 - _MAX_RUNS)
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
        if rewound or _shows_loss(self.slots, begin, sync.difference):
            return _first(sync)
        runs = self.runs.adding(begin, sync.upstream, sync.difference)
        if runs is None:  # rewound, or lost records, and the sync that shows it was never written
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
        # No run ends before all slots: its last record is a sync's, and the oldest syncs are dropped last.
        return TOO_OLD

    def limit(self, upstream: int) -> int | None:
        at = self.runs.at(upstream)
        if at >= 0 and upstream <= self.runs.last[at]:
            return upstream + self.runs.shift[at]
        behind = [slot.downstream for slot in self.slots if slot.upstream >= upstream]
        if at + 1 < len(self.runs.first):
            behind.append(self.runs.first[at + 1] + self.runs.shift[at + 1])
        return min(behind, default=None)


def _first(sync: OffsetSync) -> _Known:
    runs = _Runs().adding(_begin(sync), sync.upstream, sync.difference) if sync.since is not None else None
    return _Known((sync,) * _SLOTS, runs or _Runs())


def _begin(sync: OffsetSync) -> int:
    return sync.upstream if sync.since is None else sync.since


def _shows_loss(slots: Slots, begin: int, difference: int) -> bool:
    """Whether records from `begin` on are on the target before known records that should precede them.

    A record at an earlier offset than known is not a loss: it was copied again.
    """
    for slot in slots:
        if slot.upstream < begin:
            return slot.downstream >= begin + difference
        if slot.downstream > slot.upstream + difference:
            return True
    return False


# MM2's rules for the syncs in slots i < j, if they are not the same one:
# B: s[i].upstream <= s[j].upstream + 2^j - 2^i. They are not too far apart, so offsets in between stay precise.
# C: s[i].upstream >= s[j].upstream + 2^max(i-2, 0). Nor are they too close, so 64 reach back to the start.
# MM2's bounds overflow, and are then never reached; these do not overflow.


def _promoted(old: Slots, sync: OffsetSync) -> Slots:
    """The slots with a new sync in front; displaced ones move back or are dropped."""
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
