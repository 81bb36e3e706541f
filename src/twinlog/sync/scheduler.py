"""Runs periodic jobs, each at its own interval, one at a time in one thread."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twinlog.errors import TwinlogError

Warn = Callable[[str, str], None]  # key, text: a text is reported once, until the key has another one

ONCE: Final = 0.0
_LONGEST_WAIT: Final = 86_400.0  # a very long interval, meant as "never", would overflow the timer


def interval(seconds: int, *, enabled: bool = True, least: float = 0.1) -> float | None:
    """MM2's intervals: None if a job is not scheduled (disabled, or negative); 0 means continuously.

    `least`: minimum seconds between two runs, so that "continuously" does not overload this process and the brokers.
    """
    return max(float(seconds), least) if enabled and seconds >= 0 else None


@dataclass(slots=True)
class PeriodicJob:
    name: str
    every: float  # seconds; ONCE: only once
    run: Callable[[], object]
    first: float = 0.0  # seconds after the start
    due: float = field(default=0.0, init=False)


class Scheduler:
    """A failing job is reported and stays scheduled."""

    def __init__(self, name: str, jobs: Sequence[PeriodicJob], warn: Warn, close: Callable[[], None]) -> None:
        self._jobs = list(jobs)
        self._warn = warn
        self._close = close
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        now = time.monotonic()
        for job in self._jobs:
            job.due = now + job.first
        self._thread.start()

    def request_stop(self) -> None:
        self._stopping.set()

    def stop(self, timeout: float = 3.0) -> None:
        """Waits for the running job to finish."""
        self._stopping.set()
        self._thread.join(timeout=timeout)

    def _run(self) -> None:
        while not self._stopping.is_set() and self._jobs:
            job = min(self._jobs, key=lambda each: each.due)
            if self._stopping.wait(min(max(job.due - time.monotonic(), 0), _LONGEST_WAIT)):
                break
            if time.monotonic() < job.due:
                continue
            run_job(job, self._warn)
            if job.every == ONCE:
                self._jobs.remove(job)
            # As in MM2: at a fixed rate, but missed runs are not made up for.
            job.due = max(job.due + job.every, time.monotonic())
        self._close()


def run_job(job: PeriodicJob, warn: Warn) -> None:
    """Reports errors instead of raising them."""
    try:
        job.run()
    except (TwinlogError, OSError) as error:
        warn(job.name, f"{job.name}: {error}")
    except Exception as error:  # noqa: BLE001  # an unexpected response must not end the thread
        warn(job.name, f"{job.name}: {type(error).__name__}: {error}")
