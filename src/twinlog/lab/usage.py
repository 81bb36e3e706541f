"""What a process and its children cost: CPU seconds and memory, from Linux's /proc. Elsewhere: None."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float | None:
    """User and system time of the whole tree, with the children that have ended and been waited for."""
    if not _PROC.is_dir():
        return None
    return sum(sum(map(int, _stat(each)[11:15])) for each in tree(pid)) / _TICKS


def pss_bytes(pid: int) -> int | None:
    """Proportional set size of the whole tree: shared pages are counted once between those that share them."""
    if not _PROC.is_dir():
        return None
    total = 0
    for each in tree(pid):
        try:
            lines = (_PROC / str(each) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def tree(pid: int) -> Iterator[int]:
    if not _stat(pid):
        return
    yield pid
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may itself hold blanks and brackets; none for a process that is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split() or []
    except OSError:
        return []


class Meter:
    """What a process tree takes, looked at about once a second from a thread of its own.

    CPU is counted from `begin` (or from the start) to the last look; the most memory is that of the whole time.
    """

    def __init__(self, pid: int, every: float = 1.0) -> None:
        self._pid, self._every = pid, every
        self._closing = threading.Event()
        self._cpu_before = cpu_seconds(pid)
        self._began = time.monotonic()
        self.pss = self.peak = 0
        self._thread = threading.Thread(target=self._look, name="meter", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        self._thread.join()

    def begin(self) -> None:
        """CPU is counted from now."""
        self._began, self._cpu_before = time.monotonic(), cpu_seconds(self._pid)

    def spent(self) -> tuple[float, float | None]:
        """Seconds and CPU seconds since `begin`."""
        now = cpu_seconds(self._pid)
        seconds = max(time.monotonic() - self._began, 0.001)
        return seconds, None if now is None or self._cpu_before is None else now - self._cpu_before

    def _look(self) -> None:
        while not self._closing.wait(self._every):
            # A tree that ends while it is looked at has no size.
            self.pss = pss_bytes(self._pid) or self.pss
            self.peak = max(self.peak, self.pss)
