"""Waiting for something to become true, with a sign of life on a terminal when it takes long."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from twinlog.errors import LabError
from twinlog.lab.progress import Progress

_SILENT = 2.0  # seconds without a sign that nobody minds


def until(
    condition: Callable[[], bool],
    what: str,
    *,
    seconds: float = 60,
    failed: Callable[[], str | None] | None = None,
    logs: Callable[[], str] | None = None,
) -> None:
    """Returns once `condition` holds. `failed` may tell early that it never will: the reason is the error.

    When the time is up, `logs` goes into the error.
    """
    started = time.monotonic()
    progress: Progress | None = None
    with ExitStack() as stack:
        while not condition():
            elapsed = time.monotonic() - started
            if failed is not None and (reason := failed()):
                raise LabError(reason)
            if elapsed > seconds:
                raise LabError(f"{what}: not done after {seconds:.0f} s{logs() if logs else ''}")
            if elapsed > _SILENT and sys.stderr.isatty():
                progress = progress or stack.enter_context(Progress(f"{what}:"))
                progress.update(0, f"{elapsed:.0f} s")
            time.sleep(0.05)
