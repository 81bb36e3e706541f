"""A sign of life for questions that take longer than a person waits without one."""

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO


class Progress:
    """What is being done, on standard error: nothing for two seconds, then a line that moves; a new line every ten
    seconds where nobody looks.
    """

    def __init__(self, title: str, out: TextIO | None = None, *, quiet: float = 2.0, seldom: float = 10.0) -> None:
        self._title = title
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._quiet, self._pause = quiet, 0.2 if self._live else seldom
        self._step = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def step(self, text: str) -> None:
        self._step = text

    def _show(self) -> None:
        shown = False
        wait = self._quiet
        while not self._over.wait(wait):
            wait, shown = self._pause, True
            line = f"{self._title}: {self._step} ({time.monotonic() - self._began:.0f} s)"
            self._out.write(f"\r\033[K{line[:118]}" if self._live else f"{line}\n")
            self._out.flush()
        if shown and self._live:
            self._out.write("\r\033[K")
            self._out.flush()
