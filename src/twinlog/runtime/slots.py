"""The number of Spark task slots: fixed if embedded, changing with the executors on a cluster. Pure."""

from typing import Final

_STABLE: Final = 20.0  # seconds: a lost executor is often replaced within a few


class Slots:
    """`slots` is None until the number is stable: then tasks are not limited."""

    def __init__(self) -> None:
        self.slots: int | None = None
        self._current: int | None = None
        self._since = 0.0

    def update(self, slots: int | None, now: float, *, fixed: bool = False) -> None:
        """`slots`: the current number, None if there is no executor. `fixed`: it never changes."""
        if slots != self._current:
            self._current, self._since = slots, now
        if slots is not None and (fixed or now - self._since >= _STABLE):
            self.slots = slots
