"""CPU and memory of this process and its children (Spark's JVM, Python workers), from /proc. Linux only."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_START_TIME, _CPU_TIMES, _THREADS = 19, slice(11, 13), 17  # fields of /proc/<pid>/stat after the name


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float
    memory_bytes: int
    processes: int
    threads: int
    started_at: float  # of the root process


class UsageReader:
    """Includes the CPU time of ended processes, up to their last reading, as Spark does not wait for its workers."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid or os.getpid()
        self._ended_ticks = 0
        self._ticks: dict[tuple[int, str], int] = {}  # by process id and start time

    def read(self) -> Usage | None:
        processes = [(pid, stat) for pid in _tree(self._pid) if (stat := _stat(pid))]
        if not processes:
            return None
        now = {(pid, stat[_START_TIME]): sum(map(int, stat[_CPU_TIMES])) for pid, stat in processes}
        self._ended_ticks += sum(ticks for process, ticks in self._ticks.items() if process not in now)
        self._ticks = now
        return Usage(
            cpu_seconds=(self._ended_ticks + sum(now.values())) / _TICKS,
            memory_bytes=sum(_memory(pid) for pid, _ in processes),
            processes=len(processes),
            threads=sum(int(stat[_THREADS]) for _, stat in processes),
            started_at=time.time() - _uptime() + int(processes[0][1][_START_TIME]) / _TICKS,
        )


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        for child in _text(task).split():
            yield from _tree(int(child))


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may contain spaces and brackets; empty if the process has ended."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _memory(pid: int) -> int:
    """Proportional set size: shared pages are divided among their processes."""
    for line in _text(_PROC / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _uptime() -> float:
    return float(_text(_PROC / "uptime").split()[0])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
