"""Decides whether the loop of a task waits for acknowledgements, or reads them when the next records arrive.

At a low rate most of the CPU time goes into waking up, not into the records: each time, the CPU's caches are cold. An
unread acknowledgement delays no record. So while small batches arrive every few milliseconds, acknowledgements are read
together with the next batch: one wake-up for each batch instead of two. Pure: times are passed in.
"""

from typing import Final

MEASURED_EVERY: Final = 0.25  # seconds between acknowledgements of a partition that are awaited, to measure the latency
_LONGEST: Final = 0.02  # seconds that an acknowledgement may remain unread
_USUAL_INTERVAL: Final = 0.015  # seconds between batches, above which hardly any would arrive in time
_MAX_PENDING: Final = 64 * 1024  # bytes; more of them are a backlog
_MAX_REQUESTS: Final = 2  # open to one broker: the next one must not have to wait for an acknowledgement
_BACKLOG: Final = 1.0  # seconds without deferral after batches that have to wait for acknowledgements
_SMOOTHING: Final = 0.2


class AckDeferral:
    def __init__(self) -> None:
        self._interval = 1.0  # seconds between fetched batches, smoothed
        self._fetched_at = float("-inf")
        self._deferred_since: float | None = None
        self._measuring = False
        self._backlog_until = float("-inf")

    def fetched(self, now: float, *, measure: bool) -> None:
        """Records have been fetched. `measure`: the latency of their acknowledgement is to be measured."""
        passed = now - self._fetched_at
        self._interval += _SMOOTHING * ((passed if passed < 1 else 1.0) - self._interval)
        self._fetched_at = now
        if measure:
            self._measuring = True

    def backlog(self, now: float) -> None:
        """Batches have to wait for the acknowledgements of others."""
        self._backlog_until = now + _BACKLOG

    def seconds(self, now: float, *, pending_bytes: int, open_requests: int) -> float:
        """How long acknowledgements may remain unread; 0: wait for them. `open_requests`: the most to one broker."""
        if (
            self._measuring
            or not 0 < open_requests <= _MAX_REQUESTS
            or pending_bytes > _MAX_PENDING
            or now < self._backlog_until
            or max(self._interval, now - self._fetched_at) > _USUAL_INTERVAL
        ):
            return 0.0
        if self._deferred_since is None:
            self._deferred_since = now
        return max(self._deferred_since + _LONGEST - now, 0.0)

    def acknowledged(self) -> None:
        """Acknowledgements have been read."""
        self._deferred_since = None
        self._measuring = False
