"""Whoever was refused waits before he knocks again; others do not wait with him."""

import pytest

from twinlog.errors import LockedError
from twinlog.kafka.doors import Doors


def test_pauses_grow_and_end() -> None:
    now = 0.0
    doors = Doors(lambda: now)
    doors.knock("a")
    pauses = []
    for _ in range(9):
        doors.refused("a", LockedError("wrong password"))
        began = now
        while True:
            now += 0.25
            try:
                doors.knock("a")
            except LockedError as error:
                assert str(error) == "wrong password"  # noqa: PT017
                assert not error.heals  # noqa: PT017
            else:
                break
        pauses.append(now - began)
        doors.knock("b")
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    doors.opened("a")
    doors.refused("a", LockedError("down", heals=True))
    now += 0.5
    doors.knock("a")


def test_what_may_heal_is_tried_more_often() -> None:
    now = 0.0
    doors = Doors(lambda: now)
    for _ in range(20):
        doors.refused("a", LockedError("expired", heals=True))
    now = 4.9
    with pytest.raises(LockedError, match="expired"):
        doors.knock("a")
    now = 5.0
    doors.knock("a")
