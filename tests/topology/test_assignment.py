"""Who carries what: properties that hold for every set of partitions and loads."""

from hypothesis import given
from hypothesis import strategies as st

from twinlog.topology.assignment import assign, lopsided

PARTITIONS = st.lists(st.integers(), unique=True, max_size=200)
LOADS = st.floats(0, 1e9)


@given(PARTITIONS, st.integers(0, 20), st.data())
def test_every_partition_has_exactly_one_carrier_and_no_carrier_is_idle(
    partitions: list[int], tasks: int, data: st.DataObject
) -> None:
    load = {each: data.draw(LOADS) for each in partitions if data.draw(st.booleans())}
    groups = assign(partitions, tasks, load)
    if tasks:
        assert sorted(each for group in groups for each in group) == sorted(partitions)
    assert len(groups) == min(tasks, len(partitions))
    assert all(groups)


@given(PARTITIONS, st.integers(1, 20))
def test_where_nothing_is_known_the_numbers_are_even(partitions: list[int], tasks: int) -> None:
    sizes = [len(group) for group in assign(partitions, tasks, {})]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_no_carrier_has_more_than_a_fair_share_and_one_partition(
    partitions: list[int], tasks: int, data: st.DataObject
) -> None:
    """The bound of giving the largest first: whoever is heaviest was lightest before his last partition."""
    load = {each: data.draw(LOADS) for each in partitions}
    groups = assign(partitions, tasks, load)
    if not groups:
        return
    heaviest = max(sum(load[each] for each in group) for group in groups)
    fair = sum(load.values()) / len(groups)
    assert heaviest <= fair + max(load.values()) + 1024 * len(partitions)


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_the_same_facts_give_the_same_assignment(partitions: list[int], tasks: int, data: st.DataObject) -> None:
    load = {each: data.draw(LOADS) for each in partitions}
    assert assign(partitions, tasks, load) == assign(partitions, tasks, dict(reversed(load.items())))


@given(PARTITIONS, st.integers(1, 20), st.data())
def test_a_fresh_assignment_is_never_lopsided(partitions: list[int], tasks: int, data: st.DataObject) -> None:
    """Else epochs would end for ever."""
    load = {each: data.draw(LOADS) for each in partitions}
    assert not lopsided(assign(partitions, tasks, load), load)


def test_a_hot_partition_is_alone() -> None:
    load = {"hot": 100e6, "a": 1e6, "b": 2e6, "c": 1e6}
    assert ["hot"] in assign(list(load), 2, load)
    assert lopsided([["hot", "a"], ["b", "c"]], {"hot": 100e6, "a": 60e6, "b": 0, "c": 0})


def test_an_idle_flow_is_left_alone() -> None:
    load = {"a": 1000.0, "b": 0.0}
    assert not lopsided([["a", "b"], []], load)
