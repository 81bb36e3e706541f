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

    CPU is counted from `begin` (or from the start); the most memory is that of the whole time.
    """

    def __init__(self, pid: int, every: float = 1.0) -> None:
        self._pid, self._every = pid, every
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._own: dict[tuple[int, str], int] = {}  # process and when it was born -> its ticks
        self._ticks = 0
        self._began, self._before = time.monotonic(), 0
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
        self._began, self._before = time.monotonic(), self._count()

    def spent(self) -> tuple[float, float | None]:
        """Seconds and CPU seconds since `begin`."""
        ticks = self._count()
        seconds = max(time.monotonic() - self._began, 0.001)
        return seconds, (ticks - self._before) / _TICKS if _PROC.is_dir() else None

    def _count(self) -> int:
        """Ticks of the tree, with those of processes that are gone.

        What a child has used goes to its parent's account when it is waited for, but Spark lets its Python processes go
        without: theirs is remembered from the last look. A child too short-lived to be seen is only in its parent's.
        """
        with self._lock:
            family = [(each, stat) for each in tree(self._pid) if (stat := _stat(each))]
            for each, stat in family:
                self._own[each, stat[19]] = sum(map(int, stat[11:13]))
            inherited = sum(sum(map(int, stat[11:15])) for _, stat in family)
            self._ticks = max(self._ticks, sum(self._own.values()), inherited)
            return self._ticks

    def _look(self) -> None:
        while not self._closing.wait(self._every):
            self._count()
            # A tree that ends while it is looked at has no size.
            self.pss = pss_bytes(self._pid) or self.pss
            self.peak = max(self.peak, self.pss)
