"""Assignment of partitions to tasks: properties for all sets of partitions and loads."""

from hypothesis import given
from hypothesis import strategies as st

from twinlog.spark.assignment import assign, is_unbalanced

PARTITIONS = st.lists(st.integers(), unique=True, max_size=200)
LOADS = st.floats(0, 1e9)


@given(PARTITIONS, st.integers(0, 20), st.data())
def test_every_partition_has_exactly_one_task_and_no_task_is_idle(
    partitions: list[int], tasks: int, data: st.DataObject
) -> None:
    load = {each: data.draw(LOADS) for each in partitions if data.draw(st.booleans())}
    groups = assign(partitions, tasks, load)
    if tasks:
        assert sorted(each for group in groups for each in group) == sorted(partitions)
    assert len(groups) == min(tasks, len(partitions))
    assert all(groups)


@given(PARTITIONS, st.integers(1, 20))
def test_without_known_loads_counts_are_even(partitions: list[int], tasks: int) -> None:
    sizes = [len(group) for group in assign(partitions, tasks, {})]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_no_task_exceeds_the_mean_by_more_than_one_partition(
    partitions: list[int], tasks: int, data: st.DataObject
) -> None:
    """The bound of the greedy algorithm: the heaviest task was the lightest before its last partition."""
    load = {each: data.draw(LOADS) for each in partitions}
    groups = assign(partitions, tasks, load)
    if not groups:
        return
    heaviest = max(sum(load[each] for each in group) for group in groups)
    mean = sum(load.values()) / len(groups)
    assert heaviest <= mean + max(load.values()) + 1024 * len(partitions)


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_the_assignment_is_deterministic(partitions: list[int], tasks: int, data: st.DataObject) -> None:
    load = {each: data.draw(LOADS) for each in partitions}
    assert assign(partitions, tasks, load) == assign(partitions, tasks, dict(reversed(load.items())))


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_a_new_assignment_is_never_unbalanced(partitions: list[int], tasks: int, data: st.DataObject) -> None:
    """Otherwise no epoch would last."""
    load = {each: data.draw(LOADS) for each in partitions}
    assert not is_unbalanced(assign(partitions, tasks, load), load)


def test_a_hot_partition_has_its_own_task() -> None:
    load = {"hot": 100e6, "a": 1e6, "b": 2e6, "c": 1e6}
    assert ["hot"] in assign(list(load), 2, load)
    assert is_unbalanced([["hot", "a"], ["b", "c"]], {"hot": 100e6, "a": 60e6, "b": 0, "c": 0})


def test_an_idle_flow_is_not_rebalanced() -> None:
    load = {"a": 1000.0, "b": 0.0}
    assert not is_unbalanced([["a", "b"], []], load)
