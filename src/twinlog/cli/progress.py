"""Progress output: the steps of commands that take more than a moment, and the percentage of `run --once`."""

import sys
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TextIO

from twinlog.status.partition import PartitionStatus
from twinlog.status.reason import span
from twinlog.text import amount, counted, size


class Progress:
    """The current step, on standard error: nothing for two seconds, then a line that is updated in place; without a
    terminal a new line every ten seconds.
    """

    def __init__(self, title: str, out: TextIO | None = None, *, delay: float = 2.0, interval: float = 10.0) -> None:
        self._title = title
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._delay, self._interval = delay, 0.2 if self._live else interval
        self._step = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def step(self, text: str) -> None:
        self._step = text

    def _show(self) -> None:
        shown = False
        wait = self._delay
        while not self._done.wait(wait):
            wait, shown = self._interval, True
            line = f"{self._title}: {self._step} ({time.monotonic() - self._began:.0f} s)"
            self._out.write(f"\r\033[K{line[:118]}" if self._live else f"{line}\n")
            self._out.flush()
        if shown and self._live:
            self._out.write("\r\033[K")
            self._out.flush()


class OnceProgress:
    """Of one flow: counting, then a percentage, a rate and the time left. Pure."""

    def __init__(self) -> None:
        self._most = 0  # records to copy, at the start

    def text(self, partitions: Iterable[PartitionStatus], rates: tuple[float, float], copied: int) -> str:
        """`rates`: records and bytes per second; `copied`: records, so far."""
        every = [each for each in partitions if each.until is not None and each.state != "stopped"]
        known = [each for each in every if each.position >= 0]
        left = sum(max((each.until or 0) - each.position, 0) for each in known)
        self._most = max(self._most, left)
        records, volume = rates
        speed = f"{amount(int(records))} records/s, {size(volume)}/s"
        if not every:
            return "counting"
        if len(known) < len(every):
            text = f"counting, {amount(len(known))} of {counted(len(every), 'partition')}"
            return f"{text}, {counted(copied, 'record')} copied, {speed}" if copied else text
        if not left:
            return f"100 %, {counted(copied, 'record')} copied"
        percent = min(100 * (self._most - left) // self._most, 99)
        text = f"{percent} %, {counted(copied, 'record')} copied, {amount(left)} to go, {speed}"
        return f"{text}, about {span(left / records)} left" if records >= 1 else text
