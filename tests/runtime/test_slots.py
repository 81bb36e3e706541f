"""The number of task slots while executors are added and lost."""

from twinlog.runtime.slots import Slots


def test_embedded_slots_are_fixed() -> None:
    slots = Slots()
    slots.update(3, 0, fixed=True)
    assert slots.slots == 3


def test_on_a_cluster_the_number_must_be_stable() -> None:
    slots = Slots()
    for now, count in enumerate([None, None, 2, 4]):
        slots.update(count, now)
    slots.update(4, 22)
    assert slots.slots is None, "executors are still being added"
    slots.update(4, 23)
    assert slots.slots == 4


def test_a_lost_executor_that_is_replaced_changes_nothing() -> None:
    slots = Slots()
    for now, count in [(0, 4), (20, 4), (30, 2), (49, 2), (49.5, 4), (69, 4)]:
        slots.update(count, now)
    assert slots.slots == 4
    for now, count in [(70, 2), (90, 2)]:
        slots.update(count, now)
    assert slots.slots == 2


def test_without_executors_the_last_number_is_kept() -> None:
    slots = Slots()
    for now, count in [(0, 4), (20, 4), (30, None), (60, None)]:
        slots.update(count, now)
    assert slots.slots == 4
