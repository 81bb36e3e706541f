"""Waits for a condition, with progress on a terminal if it takes long."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from lab.errors import LabError
from lab.progress import Progress

_SILENT_SECONDS = 2.0  # before progress is shown


def until(
    condition: Callable[[], bool],
    what: str,
    *,
    seconds: float = 60,
    failed: Callable[[], str | None] | None = None,
    logs: Callable[[], str] | None = None,
) -> None:
    """Returns once `condition` holds. `failed` returns a reason to give up early; it becomes the error.

    On timeout the text from `logs` is appended to the error.
    """
    started = time.monotonic()
    progress: Progress | None = None
    with ExitStack() as stack:
        while not condition():
            elapsed = time.monotonic() - started
            if failed is not None and (reason := failed()):
                raise LabError(reason)
            if elapsed > seconds:
                raise LabError(f"{what}: timed out after {seconds:.0f} s{logs() if logs else ''}")
            if elapsed > _SILENT_SECONDS and sys.stderr.isatty():
                progress = progress or stack.enter_context(Progress(f"{what}:"))
                progress.update(0, f"{elapsed:.0f} s")
            time.sleep(0.05)
