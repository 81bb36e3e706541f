"""Script of the cleanup process: kills the child processes and removes the folders that its parent left behind.

Uses the standard library only. The parent writes a line to standard input for each resource it adds (`+ process 4711`,
`+ folder /tmp/x`) or removes (`- process 4711`). End of file means that the parent is gone: kill -9 closes pipes too.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable

RETRY_SECONDS = 10.0  # a dying process may still write into a folder that is being removed


def remaining(lines: Iterable[str]) -> tuple[set[int], set[str]]:
    """The processes and folders that were added and not removed by the end of the input."""
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


def clean_up(processes: set[int], folders: set[str]) -> None:
    for process in processes:
        # Each child leads its own process group. SIGKILL also ends a stopped (SIGSTOP) process.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
    deadline = time.monotonic() + RETRY_SECONDS
    while folders and time.monotonic() < deadline:
        for folder in list(folders):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.lexists(folder):
                folders.discard(folder)
        if folders:
            time.sleep(0.05)


def main() -> None:
    # A service manager or a closing terminal signals all processes; this one must exit last.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    clean_up(*remaining(sys.stdin))


if __name__ == "__main__":
    main()
