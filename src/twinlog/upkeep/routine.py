"""Chores that come round: each at its own interval, one after the other, in one thread."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinlog.errors import TwinlogError

Warn = Callable[[str, str], None]  # about what, in which words


@dataclass(slots=True)
class Chore:
    name: str
    every: float  # seconds; 0: only once
    do: Callable[[], object]
    first: float = 0.0  # seconds after the start
    due: float = field(default=0.0, init=False)


class Routine:
    """An error is told of and ends nothing: the chore's turn comes again."""

    def __init__(self, name: str, chores: Sequence[Chore], warn: Warn, close: Callable[[], None]) -> None:
        self._chores = list(chores)
        self._warn = warn
        self._close = close
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        now = time.monotonic()
        for chore in self._chores:
            chore.due = now + chore.first
        self._thread.start()

    def tell_to_end(self) -> None:
        self._ending.set()

    def stop(self, patience: float = 3.0) -> None:
        """The chore that is being done is finished, if that does not take long."""
        self._ending.set()
        self._thread.join(timeout=patience)

    def _run(self) -> None:
        while not self._ending.is_set() and self._chores:
            chore = min(self._chores, key=lambda each: each.due)
            if self._ending.wait(max(chore.due - time.monotonic(), 0)):
                break
            attempt(chore, self._warn)
            if not chore.every:
                self._chores.remove(chore)
            # As MM2's: at a fixed rate, but what was missed is not made up for.
            chore.due = max(chore.due + chore.every, time.monotonic())
        self._close()


def attempt(chore: Chore, warn: Warn) -> None:
    try:
        chore.do()
    except (TwinlogError, OSError) as error:
        warn(chore.name, f"{chore.name}: {error}")
    except Exception as error:  # noqa: BLE001  # an answer that nobody thought of must not end the thread
        warn(chore.name, f"{chore.name}: {type(error).__name__}: {error}")
