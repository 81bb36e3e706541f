"""What this process and its children cost (Spark's JVM, its Python workers), from Linux's /proc. Elsewhere: nothing."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_BORN, _OWN_TIME, _THREADS = 19, slice(11, 13), 17  # fields of /proc/<pid>/stat, counted behind the name


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_seconds: float
    memory_bytes: int
    processes: int
    threads: int
    started_at: float  # of this process


class Meter:
    """CPU of processes that are gone is kept from the last look, as Spark lets its Python workers go unaccounted."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid or os.getpid()
        self._gone = 0
        self._seen: dict[tuple[int, str], int] = {}  # process and when it was born -> ticks

    def look(self) -> Cost | None:
        family = [(pid, stat) for pid in _tree(self._pid) if (stat := _stat(pid))]
        if not family:
            return None
        now = {(pid, stat[_BORN]): sum(map(int, stat[_OWN_TIME])) for pid, stat in family}
        self._gone += sum(ticks for process, ticks in self._seen.items() if process not in now)
        self._seen = now
        return Cost(
            cpu_seconds=(self._gone + sum(now.values())) / _TICKS,
            memory_bytes=sum(_memory(pid) for pid, _ in family),
            processes=len(family),
            threads=sum(int(stat[_THREADS]) for _, stat in family),
            started_at=time.time() - _uptime() + int(family[0][1][_BORN]) / _TICKS,
        )


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in (_PROC / str(pid) / "task").glob("*/children"):
        for child in _text(task).split():
            yield from _tree(int(child))


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may itself hold blanks and brackets; none for a process that is gone."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _memory(pid: int) -> int:
    """Proportional set size: pages that several share count once between them."""
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
