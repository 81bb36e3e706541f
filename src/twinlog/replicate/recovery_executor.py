"""Runs recovery in threads, and stores the positions before they are used.

Partitions with the same pair of leaders are recovered together, separately from the others: a broker that does not
respond delays only its own partitions. Results go to the loop as soon as they are known.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twinlog.errors import KafkaError
from twinlog.kafka.client import Client, Metadata
from twinlog.replicate.known_positions import AssignmentPositions
from twinlog.replicate.loop_executor import LoopExecutor
from twinlog.replicate.progress import ProgressTracker
from twinlog.replicate.recovery import Recovery, RecoveryRequest, RecoveryResult
from twinlog.replicate.task_spec import TaskSpec

THREADS: Final = 4


class RecoveryUpdate(NamedTuple):
    """Results of some requests, or an `error` for all `requests`."""

    results: list[RecoveryResult]
    requests: Sequence[RecoveryRequest]
    source_metadata: Metadata | None = None
    target_metadata: Metadata | None = None
    positions: AssignmentPositions | None = None  # read again, if a result is stale
    producer_retention_ms: float = 0.0  # see Recovery
    error: str = ""


class _Clients(NamedTuple):
    source: Client
    target: Client


class RecoveryExecutor:
    """Clients are reused, one pair per concurrent recovery."""

    def __init__(
        self, spec: TaskSpec, progress: ProgressTracker, executor: LoopExecutor, done: Callable[[RecoveryUpdate], None]
    ) -> None:
        """`done` is called in the loop's thread, with each update."""
        self._spec = spec
        self._progress = progress
        self._executor = executor
        self._done = done
        self._idle: deque[_Clients] = deque()
        self._positions: AssignmentPositions | None = None
        self._position_clients: _Clients | None = None
        self._reading = threading.Lock()
        self._producer_retention_ms = 0.0  # see Recovery
        self._closed = False

    def start(self, requests: Sequence[RecoveryRequest]) -> None:
        self._run(lambda clients: self._split(clients, requests), requests)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            _close(self._idle.popleft())
        if self._position_clients is not None:
            _close(self._position_clients)

    def _run(self, work: Callable[[_Clients], None], requests: Sequence[RecoveryRequest]) -> None:
        def with_clients() -> None:
            try:
                clients = self._idle.popleft()
            except IndexError:
                clients = _Clients(self._spec.client("source"), self._spec.client("target"))
            try:
                work(clients)
            finally:
                if self._closed:  # the epoch has ended
                    _close(clients)
                else:
                    self._idle.append(clients)

        def done(_: None, error: Exception | None) -> None:
            if error is not None:
                self._done(RecoveryUpdate([], requests, error=str(error) or type(error).__name__))

        self._executor.run(with_clients, done)

    def _split(self, clients: _Clients, requests: Sequence[RecoveryRequest]) -> None:
        """Finds the leaders, then recovers the partitions of each pair of leaders separately."""
        results, source_metadata, target_metadata = self._recovery(clients).leaders(requests)
        self._post(RecoveryUpdate([f for f in results if f.error], (), source_metadata, target_metadata))
        groups: dict[tuple[int, int], list[RecoveryResult]] = {}
        for result in results:
            if not result.error:
                groups.setdefault((result.leader, result.target_leader), []).append(result)
        for group in groups.values():
            self._run(
                lambda own, group=group: self._find(own, group),  # type: ignore[misc]
                [result.request for result in group],
            )

    def _find(self, clients: _Clients, results: list[RecoveryResult]) -> None:
        recovery = self._recovery(clients)
        for lot in recovery.find(results):
            if self._closed:
                return
            # A partition that stops for the operator's decision must not get a new stored position.
            self._progress.store_starts(
                [f for f in lot if not f.error and not self._spec.stops_on(f.problem)], clients.target
            )
            self._producer_retention_ms = recovery.producer_retention_ms
            positions = self._read_positions() if any(f.stale for f in lot) else None
            self._post(
                RecoveryUpdate(lot, (), positions=positions, producer_retention_ms=recovery.producer_retention_ms)
            )

    def _read_positions(self) -> AssignmentPositions | None:
        """The positions stored by now; None: they cannot be read."""
        with self._reading:
            if self._positions is None:
                self._position_clients = _Clients(self._spec.client("source"), self._spec.client("target"))
                self._positions = AssignmentPositions(self._spec.config, *self._position_clients)
            try:
                self._positions.read()
            except KafkaError:
                return None
            return self._positions

    def _recovery(self, clients: _Clients) -> Recovery:
        return Recovery(
            clients.source,
            clients.target,
            self._spec.producers,
            self._spec.recovery_policy,
            self._producer_retention_ms,
        )

    def _post(self, update: RecoveryUpdate) -> None:
        if update.results or update.source_metadata is not None:
            self._executor.post(update, self._done)


def _close(clients: _Clients) -> None:
    for client in clients:
        client.close()
