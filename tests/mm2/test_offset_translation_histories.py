"""Translations in any history: never ahead, never back, exact where it was promised."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.mm2.conftest import T0, ready, translated
from twinlog.mm2 import offset_translation
from twinlog.mm2.offset_syncs import OffsetSync, SyncGate
from twinlog.mm2.offset_translation import TOO_OLD, OffsetSyncStore

# Histories. A step is a batch: foreign records and a gap before it, the steps between its records, seconds passed, what
# becomes of its sync, and whether a new lifetime begins with it.
Step = tuple[int, int, list[int], float, str, bool]


def steps(gaps: list[int], fates: list[str]) -> st.SearchStrategy[list[Step]]:
    step = st.tuples(
        st.sampled_from([0, 0, 0, 1, 3, 5]),
        st.sampled_from(gaps),
        st.lists(st.sampled_from([1, 1, 1, 1, 2, 4]), max_size=4),
        st.sampled_from([0.1, 0.4, 1.5]),
        st.sampled_from(fates),
        st.sampled_from([False, False, False, True]),
    )
    return st.lists(step, min_size=1, max_size=14)


ONWARD = [0, 0, 0, 1, 3, 5]
REWOUND = [*ONWARD, -1, -4, -9]
ANY_FATE = ["ours", "ours", "MM2's", "never written"]


@dataclass
class Moment:
    """After a batch: the syncs that were written, and where the source's records are."""

    syncs: list[OffsetSync] = field(default_factory=list)
    tps: dict[int, int] = field(default_factory=dict)
    end: int = 0

    def first_unread(self, upstream: int) -> int:
        """Where the first record at or behind an offset is; or where it will be, at the earliest."""
        return min((down for up, down in self.tps.items() if up >= upstream), default=self.end)


def played(history: list[Step]) -> list[Moment]:
    gate = SyncGate("t", 0)
    last: OffsetSync | None = None
    tps: dict[int, int] = {}
    moments = []
    next_up = next_down = 0
    now = 0.0
    for foreign, gap, strides, seconds, fate, restarted in history:
        now += seconds
        written = [] if (due := gate.due(now)) is None else [due]
        if restarted:
            gate = SyncGate("t", 0, resumed=last)
        ups = [max(0, next_up + gap)]
        for stride in strides:
            ups.append(ups[-1] + stride)
        first_down = next_down + foreign
        # What lies behind a rewind is gone, or is copied again: behind all that is there.
        tps = {up: down for up, down in tps.items() if up < ups[0]}
        tps |= {up: first_down + at for at, up in enumerate(ups)}
        next_up, next_down = ups[-1] + 1, first_down + len(ups)
        written += gate.acked(first_up=ups[0], last_up=ups[-1], count=len(ups), first_down=first_down, now=now)
        if written:
            last = written[-1] if fate == "ours" else None
        kept = {
            "ours": written,
            "MM2's": [replace(each, since=None) for each in written],
            "never written": [],
        }[fate]
        moments.append(Moment(kept, dict(tps), next_down))
    return moments


def check(store: OffsetSyncStore, moment: Moment, newest: OffsetSync) -> None:
    ups = range(max(moment.tps) + 4)
    found = translated(store, ups)
    assert len(found) == len(ups)
    assert all(a <= b for a, b in pairwise(found))
    for up, down in zip(ups, found, strict=True):
        assert down <= newest.downstream + 1
        assert down <= moment.first_unread(up), up


@given(steps(REWOUND, ANY_FATE))
@example([(0, 0, [1, 1], 0.1, "ours", False), (0, -2, [1, 1, 1], 0.1, "ours", False)])
@example([(0, 0, [1, 1], 0.1, "MM2's", False), (0, -2, [1, 1, 1], 0.1, "ours", False)])
def test_never_ahead_and_monotonic(history: list[Step]) -> None:
    store, newest = ready(), None
    for moment in played(history):
        for each in moment.syncs:
            store.add(each)
            newest = each
        if newest is not None:
            check(store, moment, newest)


@given(steps(REWOUND, ANY_FATE), st.integers(1, 3))
def test_nor_where_few_runs_are_kept(history: list[Step], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_translation, "_MAX_RUNS", most)
        test_never_ahead_and_monotonic.hypothesis.inner_test(history)  # type: ignore[attr-defined]


@given(steps(ONWARD, ANY_FATE))
def test_never_less_than_mm2(history: list[Step]) -> None:
    store, mm2 = ready(), ready()
    moments = played(history)
    ups = range(max(moments[-1].tps) + 4)
    for each in (each for moment in moments for each in moment.syncs):
        store.add(each)
        mm2.add(replace(each, since=None))
        for ours, theirs in zip(translated(store, ups), translated(mm2, ups), strict=True):
            assert ours >= theirs


@given(steps(ONWARD, ANY_FATE))
def test_all_that_was_promised_is_exact(history: list[Step]) -> None:
    store = ready()
    moments = played(history)
    syncs = [each for moment in moments for each in moment.syncs]
    for each in syncs:
        store.add(each)
    for each in syncs:
        for up in range(each.upstream if each.since is None else each.since, each.upstream + 1):
            exact = store.translate(T0, up) == moments[-1].tps[up]
            assert exact or each.since is None  # of MM2's, the slots keep not all


@given(steps(ONWARD, ["ours"]))
def test_a_group_that_moves_after_a_drain_misses_nothing_and_reads_nothing_twice(history: list[Step]) -> None:
    slowly = [(foreign, gap, strides, 1.5, fate, restarted) for foreign, gap, strides, _, fate, restarted in history]
    moments = played(slowly)  # so every batch has its sync
    store = ready(*(each for moment in moments for each in moment.syncs))
    assert store.translate(T0, max(moments[-1].tps) + 1) == moments[-1].end
    if all(set(strides) <= {1} for _, _, strides, *_ in history):  # a batch with gaps promises its last record only
        for up, down in moments[-1].tps.items():
            assert store.translate(T0, up) == down


@given(steps(REWOUND, ANY_FATE), st.data())
def test_after_a_restart_without_checkpoints_nothing_is_less_than_ever_before(
    history: list[Step], data: st.DataObject
) -> None:
    moments = played(history)
    syncs = [each for moment in moments for each in moment.syncs]
    ups = range(max(max(moment.tps) for moment in moments) + 4)
    end = data.draw(st.integers(0, len(syncs)), "syncs before the restart")
    compacted = data.draw(st.integers(0, max(0, end - 1)), "of which are compacted away")
    kind = data.draw(st.sampled_from(["Twinlog", "MM2"]), "who emitted before")
    before = ready()
    emitted = dict.fromkeys(ups, TOO_OLD)
    for each in syncs[:end]:
        before.add(each if kind == "Twinlog" else replace(each, since=None))
        emitted = {up: max(emitted[up], before.translate(T0, up) or 0) for up in ups}
    after = OffsetSyncStore(must_read_to_end=True)
    for each in syncs[compacted:end]:
        after.add(each)
    after.finish_initial_read()
    for more in [None, *syncs[end:]]:
        if more is not None:
            after.add(more)
        found = [after.translate(T0, up) for up in ups]
        for up, down in zip(ups, found, strict=True):
            assert down is None or down == TOO_OLD or down >= emitted[up], up
        known = [down for down in found if down is not None]
        assert all(a <= b for a, b in pairwise(known))


@given(steps(ONWARD, ["ours"]), st.lists(st.integers(0, 12), min_size=14, max_size=14))
def test_never_ahead_when_the_target_loses_its_newest_records(history: list[Step], losses: list[int]) -> None:
    store, gate = ready(), SyncGate("t", 0, interval=0)
    tps: dict[int, int] = {}
    next_up = next_down = 0
    for (foreign, gap, strides, *_), loss in zip(history, losses, strict=False):
        next_down = max(0, next_down - max(0, loss - 6))
        first_up, first_down, count = next_up + gap, next_down + foreign, len(strides) + 1
        tps = {up: down for up, down in tps.items() if down < next_down}
        tps |= {first_up + at: first_down + at for at in range(count)}
        next_up, next_down = first_up + count, first_down + count
        syncs = gate.acked(first_up=first_up, last_up=next_up - 1, count=count, first_down=first_down, now=0)
        for each in syncs:
            store.add(each)
        if foreign == 0 or loss <= 6:  # or foreign records may hide what was lost
            check(store, Moment([], tps, next_down), syncs[-1])
        else:
            return


@given(steps(ONWARD, ANY_FATE), st.data())
def test_no_checkpoint_that_was_right_is_ever_beyond_the_limit(history: list[Step], data: st.DataObject) -> None:
    """While the target only grows; also after a restart, with older syncs compacted away.

    Where the source was rewound, a checkpoint may be replaced by an earlier one: a group then reads records again.
    """
    moments = played(history)
    syncs = [each for moment in moments for each in moment.syncs]
    ups = range(max(max(moment.tps) for moment in moments) + 4)
    restarted = data.draw(st.integers(0, len(syncs)), "syncs before the restart")
    compacted = data.draw(st.integers(0, max(0, restarted - 1)), "of which are compacted away")
    store = ready()
    emitted = dict.fromkeys(ups, TOO_OLD)
    for number, each in enumerate(syncs):
        if number == restarted:
            store = ready(*syncs[compacted:restarted])
        store.add(each)
        for up in ups:
            now = store.translate(T0, up)
            limit = store.limit(T0, up)
            emitted[up] = max(emitted[up], TOO_OLD if now is None else now)
            assert limit is None or limit >= emitted[up], up
