"""What a process and its children cost: CPU seconds and memory, from Linux's /proc. Elsewhere: None."""

import os
from collections.abc import Iterator
from pathlib import Path

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
