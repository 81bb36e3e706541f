"""The guardian: a process that outlives its parent by a moment, to kill and sweep what the parent left behind.

Run as a script with nothing but the standard library. The parent holds the other end of our standard input and tells
us, line by line, what it has (`+ process 4711`, `+ folder /tmp/x`) and what it gave up (`- process 4711`). When the
pipe ends, the parent is gone, however it died: kill -9 closes pipes too.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

PATIENCE = 10.0  # seconds in which a dying process may still write into a folder that we remove


def watch(lines: Iterable[str]) -> tuple[set[int], set[str]]:
    """What the parent still held when it went."""
    processes: set[int] = set()
    folders: set[str] = set()
    for line in lines:
        match line.rstrip("\n").split(" ", 2):
            case ["+", "process", number]:
                processes.add(int(number))
            case ["-", "process", number]:
                processes.discard(int(number))
            case ["+", "folder", folder]:
                folders.add(folder)
            case ["-", "folder", folder]:
                folders.discard(folder)
    return processes, folders


def sweep(processes: set[int], folders: set[str]) -> None:
    for process in processes:
        # Each child leads a process group of its own. SIGKILL also ends a stopped (SIGSTOP) one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while folders and time.monotonic() < deadline:
        for folder in list(folders):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.lexists(folder):
                folders.discard(folder)
        if folders:
            time.sleep(0.05)


def main() -> None:
    # A service manager or a closing terminal signals the whole family; we must be the last to go.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    sweep(*watch(sys.stdin))


if __name__ == "__main__":
    main()
