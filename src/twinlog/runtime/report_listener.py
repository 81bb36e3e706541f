"""Reads the task reports of a flow from its journal."""

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from twinlog.errors import TwinlogError
from twinlog.journal.messages import REPORTS, Report, journal_topic
from twinlog.kafka.client import LATEST
from twinlog.kafka.topic_reader import PartitionTail
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import FlowRun
from twinlog.sync.flow_clients import FlowClients

_OUTAGE: Final = 5.0  # seconds: shorter outages are not reported
_LAST: Final = 10.0  # seconds for the last reports, which hold the final counts
_POLL: Final = 1000  # ms


class ReportListener:
    """Reads the reports of one flow in its own thread; the supervisor's thread applies them to the status."""

    def __init__(self, flow: FlowRun) -> None:
        self._flow = flow
        self._client = FlowClients(flow.config).client("data.producer")
        self._tail = PartitionTail(self._client, TopicPartition(journal_topic(flow.config.flow.source), REPORTS))
        self._queue: SimpleQueue[Report | int | str] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"listener {flow.name}", daemon=True)
        self._thread.start()

    def apply_reports(self, events: Callable[[str, str], None]) -> None:
        """Adds the reports since the last call to the flow's status, and passes their events on."""
        with contextlib.suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, Report):
                    self._flow.status.add(item)
                elif isinstance(item, int):
                    self._flow.journal_offset = item
                else:
                    events(self._flow.name, item)
        for event in self._flow.status.take_events():
            events(self._flow.name, str(event.get("text", "")))

    def finish(self, events: Callable[[str, str], None], seconds: float = _LAST) -> None:
        """Reads the existing reports, then stops. In the thread, so that an unreachable cluster does not block us."""
        self._closing.set()
        self._thread.join(timeout=seconds)
        self.apply_reports(events)

    def _listen(self) -> None:
        failing_since: float | None = None
        reported = False
        while not self._closing.is_set():
            try:
                self._poll(_POLL)
            except (TwinlogError, OSError) as error:
                now = time.monotonic()
                failing_since = failing_since or now
                if not reported and now - failing_since > _OUTAGE:
                    self._queue.put(str(error))
                    reported = True
                self._closing.wait(0.5)
            else:
                if reported:
                    self._queue.put(f"cluster {self._flow.config.flow.target}: reachable again")
                failing_since, reported = None, False
        with contextlib.suppress(TwinlogError, OSError):
            while self._poll(0):
                pass
        self._client.close()

    def _poll(self, wait_ms: int) -> bool:
        """Whether there were new records."""
        tail = self._tail
        if (start := tail.position) is None:  # at first, or after the journal's retention of an hour
            self._client.leader(tail.tp, fresh=True)
            ends, _ = self._client.list_offsets([tail.tp], LATEST)
            tail.position = ends.get(tail.tp)
            if tail.position is not None:
                self._queue.put(tail.position)
            return False
        for record in tail.poll(wait_ms):
            if (report := Report.decode(record.value)) is not None:
                self._queue.put(report)
        if tail.position in {None, start}:
            return False
        self._queue.put(tail.position)
        return True
