"""The bytes of an offset sync, and when one is due."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.mm2.offset_syncs import (
    SINCE_HEADER,
    OffsetSync,
    SyncGate,
    decode,
    encode_headers,
    encode_key,
    encode_value,
)

Invoke = Callable[..., Any]
Pair = tuple[int, int]

MIRROR = "org.apache.kafka.connect.mirror."
LONG = st.integers(-(2**63), 2**63 - 1)


class TestBytes:
    KEY = bytes.fromhex("0006 746f70696331 00000002")
    VALUE = bytes.fromhex("0000000000000064 00000000000000c8")
    SYNC = OffsetSync("topic1", 2, 100, 200)

    def test_the_specifications_example(self) -> None:
        assert (encode_key(self.SYNC), encode_value(self.SYNC)) == (self.KEY, self.VALUE)
        assert decode(self.KEY, self.VALUE) == self.SYNC

    @given(st.text(max_size=40).filter(lambda text: text.isprintable()), st.integers(0, 2**31 - 1), LONG, LONG)
    def test_there_and_back(self, topic: str, partition: int, upstream: int, downstream: int) -> None:
        sync = OffsetSync(topic, partition, upstream, downstream)
        assert decode(encode_key(sync), encode_value(sync), encode_headers(sync)) == sync

    def test_since_travels_in_a_header(self) -> None:
        sync = OffsetSync("topic1", 2, 100, 200, since=7)
        assert (encode_key(sync), encode_value(sync)) == (self.KEY, self.VALUE)  # MM2 sees no difference
        assert decode(self.KEY, self.VALUE, encode_headers(sync)) == sync
        assert encode_headers(self.SYNC) == []

    @pytest.mark.parametrize("content", [None, b"", b"123", b"\xff" * 8, (101).to_bytes(8, "big")])
    def test_a_header_that_makes_no_sense_promises_nothing(self, content: bytes | None) -> None:
        assert decode(self.KEY, self.VALUE, [("other", b"12345678"), (SINCE_HEADER, content)]) == self.SYNC

    @pytest.mark.parametrize(
        ("key", "value", "complaint"),
        [
            (None, VALUE, "without a key"),
            (KEY, None, "without a value"),
            (b"", VALUE, "key of 0 bytes is too short for a topic's length"),
            (KEY[:-1], VALUE, "key of 11 bytes is too short for a topic of 6 and a partition"),
            (b"\xff\xff" + KEY[2:], VALUE, "invalid topic length -1"),
            (KEY.replace(b"topic1", b"\xfftopic"), VALUE, "not UTF-8"),
            (KEY, VALUE[:-1], "value of 15 bytes is too short for two offsets"),
        ],
    )
    def test_malformed(self, key: bytes | None, value: bytes | None, complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint):
            decode(key, value)

    @given(st.binary(max_size=20), st.binary(max_size=20))
    def test_any_bytes_are_a_sync_or_a_value_error(self, key: bytes, value: bytes) -> None:
        try:
            sync = decode(key, value)
        except ValueError:
            return
        assert key.startswith(encode_key(sync))
        assert value.startswith(encode_value(sync))

    @pytest.mark.java
    def test_mm2_writes_and_reads_the_same(self, kafka_jvm: KafkaJvm) -> None:
        mirror = kafka_jvm.jvm.org.apache.kafka.connect.mirror
        partition = kafka_jvm.jvm.org.apache.kafka.common.TopicPartition("tópic", 2**31 - 1)
        theirs = mirror.OffsetSync(partition, 2**63 - 1, 2**40)
        ours = OffsetSync("tópic", 2**31 - 1, 2**63 - 1, 2**40)
        key, value = encode_key(ours), encode_value(ours)
        for extra in (b"", b"bytes behind the last field"):
            record = kafka_jvm.jvm.org.apache.kafka.clients.consumer.ConsumerRecord(
                "x", 0, 0, key + extra, value + extra
            )
            assert mirror.OffsetSync.deserializeRecord(record).equals(theirs)
            assert decode(key + extra, value + extra) == ours


class PartitionState:
    """MM2's own rule, record by record (section 4.5): what the gate is compared with."""

    def __init__(self, lag: int) -> None:
        self.lag = lag
        self.last_up = self.last_down = self.last_sync_down = -1
        self.flag = False

    def update(self, up: int, down: int) -> bool:
        stale = down - (self.last_sync_down + 1) >= self.lag
        if self.last_sync_down == -1 or stale or up - self.last_up != 1 or down < self.last_down:
            self.last_sync_down, self.flag = down, True
        self.last_up, self.last_down = up, down
        return self.flag


# (up, down, is a sync due?, is the flag kept?) with offset.lag.max = 50
VECTOR = [
    (0, 100, True, False), (2, 102, True, False), (3, 152, False, False), (4, 153, True, False),
    (5, 154, False, False), (6, 203, False, False), (7, 204, True, False), (2, 206, True, False),
    (3, 207, False, False), (4, 3, True, False), (5, 4, False, True), (7, 6, True, True), (7, 6, True, True),
    (8, 7, True, True), (10, 57, True, False), (11, 58, False, False),
]  # fmt: skip


def test_mm2s_vector() -> None:
    state = PartitionState(50)
    for up, down, due, kept in VECTOR:
        assert state.update(up, down) is due, (up, down)
        state.flag = state.flag and kept


@pytest.mark.java
def test_mm2s_vector_is_mm2s(invoke: Invoke) -> None:
    state = invoke(f"{MIRROR}OffsetSyncWriter$PartitionState", "new", 50)
    for up, down, due, kept in VECTOR:
        assert invoke(state, "update", up, down) is due, (up, down)
        if not kept:
            invoke(state, "reset")


def gate(**options: Any) -> SyncGate:
    return SyncGate("t", 0, **options)


def sync(upstream: int, downstream: int, since: int) -> OffsetSync:
    return OffsetSync("t", 0, upstream, downstream, since)


class TestTheGate:
    def test_the_first_batch_of_a_lifetime_is_synced_at_once(self) -> None:
        assert gate().acked(first_up=5, last_up=9, count=5, first_down=105, now=0) == (sync(9, 109, since=5),)

    def test_then_one_a_second(self) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        assert it.due(now=5) is None  # nothing is pending
        assert it.acked(first_up=10, last_up=19, count=10, first_down=10, now=5.1) == (sync(19, 19, since=0),)
        assert it.acked(first_up=20, last_up=29, count=10, first_down=20, now=5.2) == ()
        assert it.acked(first_up=30, last_up=39, count=10, first_down=30, now=6.0) == ()
        assert it.due(now=6.0) is None
        assert it.due(now=6.1) == sync(39, 39, since=0)
        assert it.due(now=9) is None

    def test_before_a_stop_the_pending_one_is_due_at_once(self) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        it.acked(first_up=10, last_up=19, count=10, first_down=10, now=0.1)
        assert it.due(now=0.2, at_once=True) == sync(19, 19, since=0)
        assert it.acked(first_up=20, last_up=29, count=10, first_down=20, now=0.3) == ()

    @pytest.mark.parametrize(
        ("first_up", "first_down"), [(25, 20), (20, 25), (25, 25), (3, 20), (20, 3), (15, 15)],
        ids=["gap", "foreign write", "both, cancelling out", "rewind", "target truncated", "both went back"],
    )  # fmt: skip
    def test_a_new_run_is_synced_at_once_and_the_end_of_the_old_one_with_it(
        self, first_up: int, first_down: int
    ) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        it.acked(first_up=10, last_up=19, count=10, first_down=10, now=0.1)
        syncs = it.acked(first_up=first_up, last_up=first_up + 4, count=5, first_down=first_down, now=0.2)
        # What a source that was rewound no longer has is not worth a sync.
        before = (sync(19, 19, since=0),) if first_up > 19 else ()
        assert syncs == (*before, sync(first_up + 4, first_down + 4, since=first_up))

    def test_a_batch_with_gaps_promises_its_last_record_only(self) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        assert it.acked(first_up=10, last_up=19, count=4, first_down=10, now=0.1) == (sync(19, 13, since=19),)
        assert it.acked(first_up=20, last_up=24, count=5, first_down=14, now=2) == (sync(24, 18, since=19),)

    def test_a_gap_and_a_foreign_write_that_cancel_out_are_seen(self) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        gap = it.acked(first_up=15, last_up=19, count=5, first_down=10, now=0.1)
        foreign = it.acked(first_up=20, last_up=24, count=5, first_down=20, now=0.2)
        assert [each.difference for each in (*gap, *foreign)] == [-5, 0]

    def test_also_within_one_batch(self) -> None:
        it = gate()
        it.acked(first_up=0, last_up=9, count=10, first_down=0, now=0)
        # Five foreign records, then a batch from which five of ten are gone.
        syncs = it.acked(first_up=10, last_up=19, count=5, first_down=15, now=0.1)
        assert syncs == (sync(10, 15, since=10), sync(19, 19, since=19))

    def test_a_run_continues_after_a_restart_if_its_end_is_known(self) -> None:
        it = gate(resumed=sync(99, 199, since=3))
        assert it.acked(first_up=100, last_up=109, count=10, first_down=200, now=0) == (sync(109, 209, since=3),)
        broken = gate(resumed=sync(99, 199, since=3))
        assert broken.acked(first_up=100, last_up=109, count=10, first_down=201, now=0) == (sync(109, 210, since=100),)
        mm2s = gate(resumed=OffsetSync("t", 0, 99, 199))
        assert mm2s.acked(first_up=100, last_up=109, count=10, first_down=200, now=0) == (sync(109, 209, since=99),)

    @pytest.mark.parametrize("count", [0, -1, 6])
    def test_no_such_batch(self, count: int) -> None:
        with pytest.raises(ValueError, match=f"invalid batch: {count} records from offset 5 to 9"):
            gate().acked(first_up=5, last_up=9, count=count, first_down=0, now=0)


# A history: per batch, foreign records and a gap before it, the steps between its records, and the seconds passed.
BATCH = st.tuples(
    st.sampled_from([0, 0, 0, 1, 3, 5]),
    st.sampled_from([0, 0, 0, 1, 3, 5, -4]),
    st.lists(st.sampled_from([1, 1, 1, 1, 2, 4]), max_size=4),
    st.sampled_from([0.1, 0.4, 1.5]),
)
History = list[tuple[int, int, list[int], float]]


def play(history: History) -> tuple[list[Pair], list[tuple[OffsetSync, int]]]:
    """Where each record went, and the syncs, each with the number of records that were there when it was written."""
    it = gate()
    records: list[Pair] = []
    written: list[tuple[OffsetSync, int]] = []
    next_up = next_down = 0
    now = 0.0
    for foreign, gap, steps, seconds in history:
        now += seconds
        if (due := it.due(now)) is not None:
            written.append((due, len(records)))
        ups = [max(0, next_up + gap)]
        for step in steps:
            ups.append(ups[-1] + step)
        first_down = next_down + foreign
        records += [(up, first_down + at) for at, up in enumerate(ups)]
        syncs = it.acked(first_up=ups[0], last_up=ups[-1], count=len(ups), first_down=first_down, now=now)
        written += [(each, len(records)) for each in syncs]
        next_up, next_down = ups[-1] + 1, first_down + len(ups)
    if (due := it.due(now, at_once=True)) is not None:
        written.append((due, len(records)))
    return records, written


@given(st.lists(BATCH, min_size=1, max_size=12))
@example([(0, 0, [1], 0.1), (0, 5, [], 0.1), (5, 0, [1], 0.1)])
@example([(0, 0, [1], 0.1), (4, 0, [4, 2], 0.1)])
def test_every_sync_is_true_and_so_is_all_it_promises(history: History) -> None:
    records, written = play(history)
    for each, count in written:
        newest = dict(records[:count])  # of a record that was copied twice, after a rewind, the later copy
        assert newest[each.upstream] == each.downstream
        assert each.since is not None
        for upstream in range(each.since, each.upstream + 1):
            assert newest[upstream] == upstream + each.difference
    assert (written[-1][0].upstream, written[-1][0].downstream) == records[-1]


@given(st.lists(BATCH, min_size=1, max_size=12))
@example([(0, 0, [1], 0.1), (0, 5, [], 0.1), (5, 0, [1], 0.1)])
@example([(0, 0, [1], 0.1), (4, 0, [4, 2], 0.1)])
def test_between_two_neighbours_with_the_same_difference_nothing_hides(history: History) -> None:
    records, written = play(history)
    at = {down: number for number, (_, down) in enumerate(records)}
    for (earlier, _), (later, _) in pairwise(written):
        if earlier.difference != later.difference or later.upstream < earlier.upstream:
            continue
        between = records[at[earlier.downstream] : at[later.downstream] + 1]
        hidden = any((b[0] - a[0], b[1] - a[1]) != (1, 1) for a, b in pairwise(between))
        assert later.since is not None
        assert hidden is (later.since > earlier.upstream)
        if hidden:  # nothing that could be written would have shown it to who looks at differences only
            assert {down - up for up, down in between} == {earlier.difference}


@given(st.lists(BATCH, min_size=1, max_size=12))
def test_what_mm2_syncs_at_once_we_do_too(history: History) -> None:
    """Batches of one record, so that both see the same acknowledgements; the lag apart, which a second's limit replaces."""
    it, state = gate(), PartitionState(2**62)
    up = down = -1
    for foreign, gap, *_ in history:
        up, down = max(0, up + 1 + gap), down + 1 + foreign
        due = state.update(up, down)
        state.flag = False
        syncs = it.acked(first_up=up, last_up=up, count=1, first_down=down, now=0)
        if due:
            assert (syncs[-1].upstream, syncs[-1].downstream) == (up, down)
