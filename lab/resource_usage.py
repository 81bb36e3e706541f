"""CPU time and memory of a process and its descendants, from Linux's /proc; None on other systems."""

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
    """User and system time of the process tree, including children that have exited and been waited for."""
    if not _PROC.is_dir():
        return None
    return sum(sum(map(int, _stat(each)[11:15])) for each in tree(pid)) / _TICKS


def pss_bytes(pid: int) -> int | None:
    """Proportional set size of the process tree: shared pages are divided between the processes that share them."""
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
    try:
        tasks = list((_PROC / str(pid) / "task").glob("*/children"))
    except OSError:  # it has exited meanwhile
        return
    for task in tasks:
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from tree(int(child))


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may contain spaces and parentheses; empty if the process has exited."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split() or []
    except OSError:
        return []


class Meter:
    """Samples a process tree's CPU time and memory about once a second, in a thread.

    CPU time counts from `begin` (or from the start); `peak` is the maximum memory of the whole time.
    """

    def __init__(self, pid: int, every: float = 1.0) -> None:
        self._pid, self._every = pid, every
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._own: dict[tuple[int, str], int] = {}  # pid and start time -> its ticks
        self._ticks = 0
        self._began, self._before = time.monotonic(), 0
        self.pss = self.peak = 0
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        self._thread.join()

    def begin(self) -> None:
        """Starts to count CPU time."""
        self._began, self._before = time.monotonic(), self._count()

    def spent(self) -> tuple[float, float | None]:
        """Elapsed seconds and CPU seconds since `begin`."""
        ticks = self._count()
        seconds = max(time.monotonic() - self._began, 0.001)
        return seconds, (ticks - self._before) / _TICKS if _PROC.is_dir() else None

    def _count(self) -> int:
        """Ticks of the tree, including those of processes that have exited.

        A child's time is added to its parent's when the parent waits for it. Spark does not wait for its Python
        processes: their last sample counts. A child that exits between two samples counts in its parent only.
        """
        with self._lock:
            processes = [(each, stat) for each in tree(self._pid) if (stat := _stat(each))]
            for each, stat in processes:
                self._own[each, stat[19]] = sum(map(int, stat[11:13]))
            inherited = sum(sum(map(int, stat[11:15])) for _, stat in processes)
            self._ticks = max(self._ticks, sum(self._own.values()), inherited)
            return self._ticks

    def _sample(self) -> None:
        while not self._closing.wait(self._every):
            self._count()
            # 0 if the processes exit while they are sampled.
            self.pss = pss_bytes(self._pid) or self.pss
            self.peak = max(self.peak, self.pss)
