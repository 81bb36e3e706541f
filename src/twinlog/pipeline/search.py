"""Recovery as an errand: where partitions go on is found beside the loop, and written down before it is used."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twinlog.kafka.client import Client, Metadata
from twinlog.pipeline.errands import Errands
from twinlog.pipeline.job import Job
from twinlog.pipeline.ledger import Ledger
from twinlog.pipeline.positions import Positions
from twinlog.pipeline.recovery import Finding, Question, Recovery


class Found(NamedTuple):
    findings: list[Finding]
    upstream: Metadata
    downstream: Metadata
    positions: Positions | None  # read anew, if what some question knew was stale


class Search:
    """One at a time. Its clients are kept from one to the next, and made by the first."""

    def __init__(self, job: Job, ledger: Ledger, errands: Errands) -> None:
        self.busy = False
        self._job = job
        self._ledger = ledger
        self._errands = errands
        self._clients: tuple[Client, Client] | None = None
        self._closed = False

    def start(self, questions: Sequence[Question], done: Callable[[Found | None, Exception | None], None]) -> None:
        """`done` is called in the loop's thread."""
        self.busy = True

        def back(found: Found | None, error: Exception | None) -> None:
            self.busy = False
            done(found, error)

        self._errands.run(lambda: self._find(questions), back)

    def close(self) -> None:
        self._closed = True
        self._close_clients()

    def _find(self, questions: Sequence[Question]) -> Found:
        if self._clients is None:
            self._clients = (self._job.client("source"), self._job.client("target"))
        source, target = self._clients
        try:
            recovery = Recovery(source, target, self._job.producers, self._job.manner)
            findings, upstream, downstream = recovery.find(questions)
            # Where the operator wants to decide, nothing is written that would look like his decision.
            begun = [f for f in findings if not f.error and not self._job.stops_on(f.trouble)]
            if not self._closed:
                self._ledger.secure(begun, target)
            positions = None
            if any(f.stale for f in findings):
                positions = Positions(self._job.config, source, target)
                positions.read()
        finally:
            if self._closed:  # the epoch ended meanwhile
                self._close_clients()
        return Found(findings, upstream, downstream, positions)

    def _close_clients(self) -> None:
        """Whoever still uses one closes it again when he has done."""
        for client in self._clients or ():
            client.close()
