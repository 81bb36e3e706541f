"""How many tasks Spark has room for: for good where it is embedded, as long as executors last on a cluster. Pure."""

from typing import Final

_STEADY: Final = 20.0  # seconds: an executor that was lost is often replaced within a few


class Room:
    """`slots` is None as long as nothing is known for sure: then tasks are started as they are asked for."""

    def __init__(self) -> None:
        self.slots: int | None = None
        self._seen: int | None = None
        self._since = 0.0

    def see(self, slots: int | None, now: float, *, fixed: bool = False) -> None:
        """`slots`: those of now, None where there is no executor. `fixed`: it never changes."""
        if slots != self._seen:
            self._seen, self._since = slots, now
        if slots is not None and (fixed or now - self._since >= _STEADY):
            self.slots = slots
