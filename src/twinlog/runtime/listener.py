"""Hears what the tasks of a flow report, through the journal."""

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import codes
from twinlog.kafka.client import LATEST
from twinlog.kafka.reading import batch_end, records_from
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import FlowRun, client_of
from twinlog.tracking.journal import REPORTS, Report, journal_topic

_SILENT: Final = 5.0  # seconds without an answer that are not worth a line
_LAST: Final = 10.0  # seconds for the last answer: a busy machine takes its time, and what it holds is the final count


class Listener:
    """Hears the reports of one flow, in a thread of its own; they are taken over in the supervisor's."""

    def __init__(self, flow: FlowRun) -> None:
        self._flow = flow
        self._client = client_of(flow.config, "target")
        self._place = TopicPartition(journal_topic(flow.config.flow.source), REPORTS)
        self._next: int | None = None
        self._heard: SimpleQueue[Report | int | str] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"listener {flow.name}", daemon=True)
        self._thread.start()

    def take(self, events: Callable[[str, str], None]) -> None:
        """What was heard since this was last called."""
        with contextlib.suppress(Empty):
            while True:
                heard = self._heard.get_nowait()
                if isinstance(heard, Report):
                    self._flow.status.add(heard)
                elif isinstance(heard, int):
                    self._flow.heard = heard
                else:
                    events(self._flow.name, heard)
        for event in self._flow.status.news():
            events(self._flow.name, str(event.get("text", "")))

    def finish(self, events: Callable[[str, str], None]) -> None:
        """Hears what is there by now, and no more."""
        self._closing.set()
        self._thread.join(timeout=_LAST)
        if not self._thread.is_alive():
            with contextlib.suppress(TwinlogError, OSError):
                while self._hear(0):
                    pass
            self._client.close()
        self.take(events)

    def _listen(self) -> None:
        silent_since: float | None = None
        told = False
        while not self._closing.is_set():
            try:
                self._hear(1000)
            except (TwinlogError, OSError) as error:
                now = time.monotonic()
                silent_since = silent_since or now
                if not told and now - silent_since > _SILENT:
                    self._heard.put(str(error))
                    told = True
                self._closing.wait(0.5)
            else:
                if told:
                    self._heard.put(f"cluster {self._flow.config.flow.target} answers again")
                silent_since, told = None, False

    def _hear(self, wait_ms: int) -> bool:
        """Whether there was something."""
        if self._next is None:
            self._client.leader(self._place, fresh=True)
            ends, _ = self._client.list_offsets([self._place], LATEST)
            self._next = ends.get(self._place)
            if self._next is not None:
                self._heard.put(self._next)
            return False
        answer = self._client.read(self._place, self._next, wait_ms=wait_ms)
        if answer.error_code == codes.OFFSET_OUT_OF_RANGE:  # the journal keeps an hour
            self._next = None
            return False
        if answer.error_code:
            raise RefusedError(f"{self._place}: {codes.name(answer.error_code)}", answer.error_code)
        for record in records_from(answer.records, self._next):
            if (report := Report.decode(record.value)) is not None:
                self._heard.put(report)
        end = batch_end(answer.records, self._next)
        if end is not None:
            self._next = end
            self._heard.put(end)
        return end is not None
