"""Where a source offset is on the target: MM2's rules, and what runs add to them."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from tests.mm2.conftest import T0, ready, slots, sync, translated
from twinlog.mm2.offset_syncs import OffsetSync, encode_key, encode_value
from twinlog.mm2.offset_translation import TOO_OLD, OffsetSyncStore
from twinlog.model import TopicPartition

Invoke = Callable[..., Any]

TOP = 2**63 - 1


class TestMm2sVectors:
    def test_must_read_to_end(self) -> None:
        store = OffsetSyncStore(must_read_to_end=True)
        for up in range(0, 1001, 10):
            store.add(sync(up))
            assert store.translate(T0, up) is None
        store.finish_initial_read()
        assert slots(store) == [(0, 1000)]
        for up in range(1010, 10001, 10):
            store.add(sync(up))
        assert [up for _, up in slots(store)] == [
            10000, 9990, 9970, 9940, 9880, 9640, 9160, 8680, 6760, 4840, 1000,
        ]  # fmt: skip
        assert translated(store, [999, 1000, 4839, 9999]) == [-1, 1000, 1001, 9991]

    def test_not_must_read_to_end(self) -> None:
        store = OffsetSyncStore(must_read_to_end=False)
        for up in range(0, 1001, 10):
            store.add(sync(up))
            assert store.translate(T0, up) is None
        store.finish_initial_read()
        assert slots(store) == [
            (0, 1000), (5, 990), (6, 960), (7, 900), (8, 840), (9, 720), (10, 480), (11, 0),
        ]  # fmt: skip
        for up in range(1000, 10001, 10):
            store.add(sync(up))
        assert [up for _, up in slots(store)] == [
            10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0,
        ]  # fmt: skip

    def test_sparse(self) -> None:
        store = ready(*map(sync, range(0, 100_001, 100)))
        assert slots(store) == [
            (0, 100_000), (8, 99_900), (9, 99_800), (10, 99_600), (11, 99_200), (12, 97_600), (13, 96_000),
            (14, 89_600), (15, 76_800), (16, 51_200), (17, 0),
        ]  # fmt: skip

    def test_dense_and_a_rewind(self) -> None:
        store = ready(*map(sync, range(11, 18)))
        assert [up for _, up in slots(store)] == [17, 16, 15, 11]
        for up in range(0, 10_001, 10):
            store.add(sync(up))
        store.add(sync(1500, 11_000))
        assert translated(store, [1499, 1500, 2000]) == [-1, 11_000, 11_001]

    def test_as_in_mm2s_own_suite(self) -> None:
        store = ready(sync(100, 200))
        assert store.translate(T0, 150) == 201
        store.add(sync(150, 251))
        assert translated(store, [5, 100, 149, 150, 151]) == [-1, 200, 201, 251, 252]
        store.add(sync(200, 10))  # the target was made again
        assert store.translate(T0, 200) == 10
        store.add(sync(20, 20))  # so was the source
        assert store.translate(T0, 20) == 20

    def test_equal_upstream_offsets_are_no_rewind(self) -> None:
        assert translated(ready(sync(5, 5), sync(10, 10), sync(10, 15)), [5, 7, 10, 11]) == [5, 6, 15, 16]

    def test_nothing_is_known(self) -> None:
        store = OffsetSyncStore()
        store.add(sync(1))
        assert store.translate(T0, 1) is None
        store.finish_initial_read()
        assert store.translate(T0, 1) == 1
        assert store.translate(TopicPartition("t", 1), 1) is None
        assert store.translate(TopicPartition("u", 0), 1) is None


class TestRuns:
    def test_inside_a_run_every_offset_is_exact(self) -> None:
        store = ready(sync(1000, 3000, since=10))
        assert translated(store, [9, 10, 11, 500, 999, 1000, 1001, 5000]) == [
            TOO_OLD, 2010, 2011, 2500, 2999, 3000, 3001, 3001,
        ]  # fmt: skip

    def test_in_a_gap_it_is_the_place_after_the_run_before(self) -> None:
        gap = ready(sync(9, 9, since=0), sync(29, 19, since=20))
        assert translated(gap, [9, 10, 15, 19, 20, 21]) == [9, 10, 10, 10, 10, 11]
        foreign = ready(sync(9, 9, since=0), sync(29, 39, since=20))
        assert translated(foreign, [9, 10, 15, 19, 20, 21]) == [9, 10, 10, 10, 30, 31]

    def test_runs_that_continue_each_other_are_one(self) -> None:
        store = ready(sync(9, 9, since=0), sync(19, 19, since=10), sync(29, 29, since=15), sync(39, 39, since=31))
        runs = store._known[T0].runs
        assert (list(runs.first), list(runs.last)) == ([0, 31], [29, 39])
        store.add(sync(49, 49, since=30))
        runs = store._known[T0].runs
        assert (list(runs.first), list(runs.last)) == ([0], [49])

    def test_with_another_difference_they_are_two(self) -> None:
        runs = ready(sync(9, 9, since=0), sync(19, 20, since=10))._known[T0].runs
        assert (list(runs.first), list(runs.last), list(runs.shift)) == ([0, 10], [9, 19], [0, 1])

    def test_the_newest_are_kept_and_behind_them_mm2s_slots_answer(self) -> None:
        syncs = [sync(20 * at + 9, 11 * at + 9, since=20 * at) for at in range(1000)]
        store, mm2 = ready(*syncs), ready(*(replace(each, since=None) for each in syncs))
        runs = store._known[T0].runs
        assert (len(runs.first), runs.first[0]) == (256, 20 * 744)
        assert slots(store) == slots(mm2)
        assert translated(store, range(20 * 744)) == translated(mm2, range(20 * 744))
        for up in range(20 * 744, 20 * 1000):
            at, within = divmod(up, 20)
            assert store.translate(T0, up) == 11 * at + min(within, 10)

    def test_a_sync_of_mm2s_beside_runs(self) -> None:
        store = ready(sync(9, 9, since=0), sync(100, 50), sync(129, 69, since=120))
        assert translated(store, [5, 9, 10, 99, 100, 101, 119, 120, 125, 200]) == [
            5, 9, 10, 10, 50, 51, 51, 60, 65, 70,
        ]  # fmt: skip
        store.add(sync(300, 300, since=90))  # which says that 100 was copied again, further back
        assert translated(store, [89, 90, 100]) == [TOO_OLD, 90, 100]

    @pytest.mark.parametrize(
        "newest",
        [sync(99, 300), sync(99, 300, since=99), sync(99, 300, since=0)],
        ids=["as MM2 says it", "one record", "a run"],
    )
    def test_a_rewind_forgets_all_that_was_before(self, newest: OffsetSync) -> None:
        store = ready(sync(50, 50, since=0), sync(100, 200, since=60), newest)
        fresh = ready(newest)
        assert translated(store, range(120)) == translated(fresh, range(120))

    @pytest.mark.parametrize(
        "newest",
        [
            sync(110, 200), sync(110, 120), sync(100, 199), sync(110, 209, since=101), sync(110, 215, since=90),
            sync(300, 250, since=101), sync(150, 240, since=90), sync(150, 260, since=90), sync(100, 201),
        ],
        ids=[
            "the place of another", "before another", "the same, further in front", "two at one place",
            "copied again, further back, of a run", "a run that begins in front", "a run in front",
            "a run further back", "of a run, further back",
        ],
    )  # fmt: skip
    def test_so_does_what_cannot_be_true_beside_it(self, newest: OffsetSync) -> None:
        store = ready(sync(50, 50, since=0), sync(100, 200, since=60), newest)
        fresh = ready(newest)
        assert translated(store, range(320)) == translated(fresh, range(320))

    @pytest.mark.parametrize(
        "newest", [sync(110, 200), sync(100, 199), sync(300, 250, since=150), sync(150, 240, since=90)]
    )
    def test_also_beside_mm2s_syncs(self, newest: OffsetSync) -> None:
        store = ready(sync(50, 50), sync(100, 200), newest)
        fresh = ready(newest)
        assert translated(store, range(320)) == translated(fresh, range(320))

    def test_also_where_the_slots_have_dropped_what_shows_it(self) -> None:
        store = ready(sync(9, 14, since=0), *(sync(up, up + 2, since=20) for up in range(20, 60)))
        known = store._known[T0]
        store._known[T0] = replace(known, slots=known.slots[:1] * 64)
        store.add(sync(60, 62, since=12))  # 12 would be at 14, where 9 is
        assert translated(store, [9, 11, 12, 60]) == [TOO_OLD, TOO_OLD, 14, 62]

    def test_a_target_that_lost_records_skips_no_others(self) -> None:
        """MM2 would answer 46 for offset 6: past the records 11 to 56, which are now at 0 to 45."""
        store = ready(sync(5, 45), sync(10, 100), sync(11, 0))
        for up in range(12, 1000):
            store.add(sync(up, up - 11))
        assert translated(store, [5, 6, 10, 11]) == [TOO_OLD, TOO_OLD, TOO_OLD, 0]

    @pytest.mark.parametrize("since", [-1, 4, 11, 2**70])
    def test_a_since_that_makes_no_sense_promises_nothing(self, since: int) -> None:
        store = ready(sync(10, 5, since=since))  # 4 would be at -1
        assert translated(store, [4, 7, 9, 10, 11]) == [TOO_OLD, TOO_OLD, TOO_OLD, 5, 6]

    @pytest.mark.parametrize("senseless", [sync(-1, 5), sync(5, -1), sync(-(2**63), TOP)])
    def test_a_negative_offset_is_no_offset(self, senseless: OffsetSync) -> None:
        store = ready(senseless)
        assert store.translate(T0, 5) is None
        store.add(sync(0, 0, since=0))
        store.add(senseless)
        assert translated(store, [0, 5]) == [0, 1]

    def test_the_largest_offsets(self) -> None:
        store = ready(sync(0, TOP - 5), sync(5, TOP, since=1), sync(TOP, TOP))
        assert translated(store, [0, TOP - 1, TOP]) == [TOO_OLD, TOO_OLD, TOP]
        store = ready(sync(0, 0), sync(2**62, 2**62, since=1), sync(2**62, 2**62, since=2**62))
        assert translated(store, [0, 7, 2**62, TOP]) == [0, 7, 2**62, 2**62 + 1]


class TestMustReadToEnd:
    def restarted(self, *before: OffsetSync) -> OffsetSyncStore:
        store = OffsetSyncStore(must_read_to_end=True)
        for each in before:
            store.add(each)
        store.finish_initial_read()
        return store

    def test_the_run_of_the_latest_sync_counts(self) -> None:
        store = self.restarted(sync(50, 50, since=0), sync(100, 200, since=60))
        assert translated(store, [0, 50, 55, 59, 60, 70, 100, 101]) == [-1, -1, -1, -1, 160, 170, 200, 201]

    def test_a_latest_sync_of_mm2s_is_all_that_counts(self) -> None:
        store = self.restarted(sync(50, 50, since=0), sync(100, 200))
        assert translated(store, [0, 50, 99, 100, 101]) == [-1, -1, -1, 200, 201]

    def test_a_later_run_is_exact_however_far_it_reaches_back(self) -> None:
        store = self.restarted(sync(100, 200))
        store.add(sync(150, 250, since=60))
        assert translated(store, [59, 60, 99, 100, 101, 150]) == [-1, 160, 199, 200, 201, 250]

    def test_afterwards_history_is_built_as_ever(self) -> None:
        store = self.restarted(sync(100, 200, since=60))
        store.add(sync(200, 310, since=180))
        assert translated(store, [59, 60, 101, 179, 180, 201]) == [-1, 160, 201, 201, 290, 311]


PLAIN = st.lists(st.tuples(st.sampled_from([0, 1, 1, 2, 9, 10, 100, 5000, -3, -200]), st.integers(0, 3)), max_size=80)


def plain(moves: list[tuple[int, int]]) -> list[OffsetSync]:
    """As MM2 writes them, on a target that loses nothing."""
    syncs: list[OffsetSync] = []
    up, down = 1000, 0
    for step, foreign in moves:
        up = max(0, up + step)
        down += max(step, 1) + foreign
        syncs.append(sync(up, down))
    return syncs


@given(PLAIN)
def test_mm2s_invariants(moves: list[tuple[int, int]]) -> None:
    store = ready()
    oldest = newest = None
    for each in plain(moves):
        if newest is None or each.upstream < newest.upstream:
            oldest = each
        newest = each
        store.add(each)
        kept = store._known[T0].slots
        assert kept[0] is newest
        assert kept[63] is oldest
        for i, (newer, older) in enumerate(pairwise(kept)):
            if newer is not older:
                assert newer.upstream <= older.upstream + 2 ** (i + 1) - 2**i
                # MM2 does not keep rule C where a sync repeats an upstream offset.
                apart = newer.upstream >= older.upstream + 2 ** max(i - 2, 0)
                assert apart or newer.upstream == older.upstream


@pytest.mark.java
@pytest.mark.parametrize("must_read_to_end", [False, True])
def test_mm2s_own_store_has_the_same_syncs_and_translations(
    kafka_jvm: KafkaJvm, invoke: Invoke, must_read_to_end: bool
) -> None:
    java = kafka_jvm.jvm
    dice = random.Random(5)
    partition = java.org.apache.kafka.common.TopicPartition("t", 0)
    for _ in range(2):
        theirs = invoke("org.apache.kafka.connect.mirror.OffsetSyncStore", "new")
        ours = OffsetSyncStore(must_read_to_end=must_read_to_end)
        switch(theirs, "initializationMustReadToEnd", to=must_read_to_end)
        moves = [(dice.choice([0, 1, 1, 2, 9, 10, 100, 5000]), dice.randrange(4)) for _ in range(120)]
        moves[dice.randrange(120)] = (-200, 0)
        for at, each in enumerate(plain(moves)):
            if at == 30:
                switch(theirs, "readToEnd", to=True)
                ours.finish_initial_read()
            record = java.org.apache.kafka.clients.consumer.ConsumerRecord(
                "x", 0, at, encode_key(each), encode_value(each)
            )
            invoke(theirs, "handleRecord", record)
            ours.add(each)
            kept = field_of(theirs, "offsetSyncs").get(theirs).get(partition)
            mine = [ours._known[T0].slots[at] for at, _ in slots(ours)]
            expected = ",".join(f"{one.upstream}:{one.downstream}" for one in mine)
            assert invoke(theirs, "offsetArrayToString", kept) == f"[{expected}]"
        assert [one.upstreamOffset() for one in kept] == [one.upstream for one in ours._known[T0].slots]
        ups = {dice.randrange(each.upstream + 9) for _ in range(60)} | {0, each.upstream, each.upstream + 1}
        for up in sorted(ups):
            assert invoke(theirs, "translateDownstream", "g", partition, up).getAsLong() == ours.translate(T0, up)


def field_of(java: Any, name: str) -> Any:
    found = java.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found


def switch(java: Any, name: str, *, to: bool) -> None:
    field_of(java, name).setBoolean(java, to)


class TestTheLimit:
    """How far on the target an offset can be at most."""

    def test_inside_a_run_it_is_exact(self) -> None:
        store = ready(sync(99, 69, since=30))
        assert [store.limit(T0, up) for up in (30, 80, 99)] == [0, 50, 69]

    def test_before_all_that_is_known_it_is_the_first_known_record(self) -> None:
        assert ready(sync(99, 69, since=30)).limit(T0, 5) == 0
        assert ready(sync(99, 69)).limit(T0, 5) == 69

    def test_between_runs_it_is_the_next_one(self) -> None:
        store = ready(sync(9, 9, since=0), sync(29, 19, since=20))
        assert [store.limit(T0, up) for up in (9, 10, 15, 20)] == [9, 10, 10, 10]

    def test_behind_all_that_is_known_there_is_none(self) -> None:
        assert ready(sync(99, 69, since=30)).limit(T0, 100) is None
        assert ready().limit(T0, 0) is None
        assert OffsetSyncStore().limit(T0, 0) is None

    def test_mm2s_syncs_bound_it_as_well(self) -> None:
        store = ready(*(sync(up, up - 30) for up in range(30, 200, 10)))
        assert store.limit(T0, 80) in range(50, 80)  # not all syncs are kept
        assert store.limit(T0, 190) == 160

    def test_a_record_that_was_copied_again_counts_where_it_is_now(self) -> None:
        store = ready(sync(100, 100), sync(100, 150))
        assert store.translate(T0, 100) == store.limit(T0, 100) == 150


class TestARemoteTopicThatLostRecords:
    def test_syncs_of_records_that_it_does_not_have_are_forgotten(self) -> None:
        store = ready(sync(99, 99, since=0))
        assert not store.forget_beyond(T0, 100)
        assert store.translate(T0, 50) == 50
        assert store.forget_beyond(T0, 99)
        assert store.translate(T0, 50) is None
        assert not store.forget_beyond(T0, 0)
        store.add(sync(9, 9, since=0))
        assert store.translate(T0, 50) == 10

    def test_all_partitions_of_a_topic(self) -> None:
        store = ready(sync(9), OffsetSync("t", 1, 9, 9), OffsetSync("u", 0, 9, 9))
        store.forget("t")
        assert [store.translate(TopicPartition(*tp), 9) for tp in (("t", 0), ("t", 1), ("u", 0))] == [
            None,
            None,
            9,
        ]
