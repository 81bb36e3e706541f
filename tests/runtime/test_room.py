"""How many tasks there is room for, while executors come and go."""

from twinlog.runtime.room import Room


def test_embedded_it_is_known_at_once() -> None:
    room = Room()
    room.see(3, 0, fixed=True)
    assert room.slots == 3


def test_on_a_cluster_it_must_last() -> None:
    room = Room()
    for now, seen in enumerate([None, None, 2, 4]):
        room.see(seen, now)
    room.see(4, 22)
    assert room.slots is None, "executors still come"
    room.see(4, 23)
    assert room.slots == 4


def test_a_lost_executor_that_is_replaced_changes_nothing() -> None:
    room = Room()
    for now, seen in [(0, 4), (20, 4), (30, 2), (49, 2), (49.5, 4), (69, 4)]:
        room.see(seen, now)
    assert room.slots == 4
    for now, seen in [(70, 2), (90, 2)]:
        room.see(seen, now)
    assert room.slots == 2


def test_where_none_is_left_all_wait_as_they_are() -> None:
    room = Room()
    for now, seen in [(0, 4), (20, 4), (30, None), (60, None)]:
        room.see(seen, now)
    assert room.slots == 4
