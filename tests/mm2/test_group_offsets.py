"""Which offsets are written for a group on the target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.mm2.checkpoints import Checkpoint
from twinlog.mm2.group_offsets import Committed, to_write
from twinlog.model import TopicPartition

P0, P1, P2, P3, P4 = (TopicPartition("us.t", partition) for partition in range(5))


def checkpoints() -> dict[TopicPartition, Checkpoint]:
    return {tp: Checkpoint("g", *tp, 100 + tp.partition, 50, f"m{tp.partition}") for tp in (P0, P1, P2, P3)}


@pytest.mark.parametrize("state", [None, "Dead", "Empty"])
def test_a_group_that_is_not_there_gets_all(state: str | None) -> None:
    assert to_write(checkpoints(), state, {}) == {
        P0: Committed(50, "m0"), P1: Committed(50, "m1"), P2: Committed(50, "m2"), P3: Committed(50, "m3"),
    }  # fmt: skip


@pytest.mark.parametrize("state", ["Empty", "Dead", None])
def test_it_is_never_rewound(state: str | None) -> None:
    there = {P0: Committed(49, "behind"), P1: Committed(50, "equal"), P2: Committed(51, "ahead"), P3: Committed(-1),
             P4: Committed(3, "of no checkpoint")}  # fmt: skip
    assert to_write(checkpoints(), state, there) == {P0: Committed(50, "m0"), P3: Committed(50, "m3")}


def test_offset_0_is_an_offset() -> None:
    at_0 = {P0: Checkpoint("g", *P0, 0, 0)}
    assert to_write(at_0, "Empty", {}) == {P0: Committed(0, "")}
    assert to_write(at_0, "Empty", {P0: Committed(0, "")}) == {}


@pytest.mark.parametrize(
    "state",
    ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Unknown", "NotReady", ""],
)
def test_an_active_group_is_not_touched(state: str) -> None:
    assert to_write(checkpoints(), state, {}) == {}


OFFSETS = st.dictionaries(st.sampled_from([P0, P1, P2, P3]), st.integers(-1, 9))


@given(OFFSETS, OFFSETS, st.sampled_from(["Empty", "Dead", None]))
def test_nothing_falls_and_then_nothing_is_left_to_write(
    known: dict[TopicPartition, int], there: dict[TopicPartition, int], state: str | None
) -> None:
    checkpoints = {tp: Checkpoint("g", *tp, 0, offset) for tp, offset in known.items()}
    before = {tp: Committed(offset) for tp, offset in there.items()}
    written = to_write(checkpoints, state, before)
    after = before | written
    for tp, offset in known.items():
        assert after.get(tp, Committed(-1)).offset == max(offset, there.get(tp, -1))
    assert to_write(checkpoints, "Empty", after) == {}
    assert all(each.offset >= 0 for each in written.values())
