"""Progress of long steps (downloads, publishing, measurements) on standard error."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO


class Progress:
    """One line per step. On a terminal it is updated in place; elsewhere a new line is written every 10 s."""

    def __init__(self, title: str, total: int | None = None, out: TextIO | None = None) -> None:
        self._title, self._total = title, total
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._started = self._shown = time.monotonic()
        self._done = 0
        self._detail = ""

    def __enter__(self) -> Self:
        self._show("\r" if self._live else "\n")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        seconds = time.monotonic() - self._started
        stopped = isinstance(error, KeyboardInterrupt)
        self._detail = "stopped" if stopped else "failed" if error else f"{seconds:.0f} s" if seconds >= 1 else ""
        self._show("\n")

    def update(self, done: int, detail: str = "") -> None:
        self._done, self._detail = done, detail
        now = time.monotonic()
        if now - self._shown >= (0.1 if self._live else 10):
            self._shown = now
            self._show("\r" if self._live else "\n")

    def _show(self, end: str) -> None:
        count = f" {self._done}/{self._total}" if self._total else ""
        clear = "\r\033[K" if self._live else ""
        self._out.write(f"{clear}{self._title}{count} {self._detail}".rstrip() + ("" if end == "\r" else end))
        self._out.flush()
