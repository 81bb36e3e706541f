"""Watches a flow from any machine that reaches its target: by its journal, with no access to the process that runs it.

A bulletin in the last seconds tells where the newest keyframe is. The flow is rebuilt from that, and every report after
it is added, by the same class that the running process has.
"""

import time
from collections.abc import Iterator
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, Client
from twinlog.kafka.reading import batch_end, records_from
from twinlog.kafka.records import Record
from twinlog.model import TopicPartition
from twinlog.status.flow import FlowStatus
from twinlog.status.keyframe import Gathering
from twinlog.tracking.journal import REPORTS, Bulletin, Frame, Report, journal_topic
from twinlog.upkeep.look import Eyes

_STEPS: Final = (15.0, 120.0, 900.0, None)  # seconds before the journal's end in which a bulletin is looked for; all
SILENT: Final = 20.0  # seconds without a bulletin: one comes every 5
_INSISTS: Final = 4  # bulletins in a row after which a run counts that seems to be the older one
_AT_ONCE: Final = 4 << 20  # bytes
_ALIVE: Final = frozenset({"starting", "running", "retrying", "paused"})


class Follower:
    """What the journal's records say of one flow, in their order. Pure."""

    def __init__(self, name: str, source: str, target: str) -> None:
        self._name, self._source, self._target = name, source, target
        self._frames = Gathering()
        self.status = FlowStatus("", name, source, target)
        self.status.state = "silent"
        self.bulletin: Bulletin | None = None  # the newest
        self._others = 0  # bulletins of another run since

    def hear(self, value: bytes | None) -> None:
        if (frame := Frame.decode(value)) is not None:
            self._hear_frame(frame)
        elif (report := Report.decode(value)) is not None:
            self._hear_report(report)
        elif (bulletin := Bulletin.decode(value)) is not None and bulletin.flow == self._name:
            self._hear_bulletin(bulletin)

    def begin(self, status: FlowStatus) -> None:
        """From a keyframe on."""
        self.status = status
        if self.bulletin is not None:
            status.bulletin(self.bulletin)

    def _hear_report(self, report: Report) -> None:
        """Where a flow runs in somebody's own Spark there are no bulletins: then its tasks tell that it runs."""
        told_ms = self.bulletin.time_ms + int(SILENT * 1000) if self.bulletin is not None else 0
        if report.flow == self._name and report.task >= 0 and report.time_ms > max(told_ms, self.status.told_ms):
            if report.run != self.status.run:
                self.status = FlowStatus(report.run, self._name, self._source, self._target)
                self.status.began_ms = report.time_ms
            self.status.state, self.status.told_ms = "running", report.time_ms
        self.status.add(report)

    def _hear_bulletin(self, told: Bulletin) -> None:
        known = self.bulletin
        if known is not None and told.run != known.run and told.began_ms <= known.began_ms:
            # The last words of a run that another one has replaced; or of the one that did, if its clock is behind.
            self._others += 1
            if self._others < _INSISTS:
                return
        self.bulletin, self._others = told, 0
        if told.run != self.status.run:
            self.status = FlowStatus(told.run, self._name, self._source, self._target)
        self.status.bulletin(told)

    def _hear_frame(self, frame: Frame) -> None:
        """Of use where nothing else is known: whoever has heard all reports knows as much."""
        if frame.flow == self._name and (found := self._frames.add(frame)) is not None:
            status, _ = found
            if status.run == self.status.run and not self.status.partitions:
                self.begin(status)


class Watch:
    """Belongs to one thread."""

    def __init__(self, config: FlowConfig) -> None:
        self.config = config
        self._eyes = Eyes(config)
        self._client: Client = self._eyes.client("target", "data.producer")  # as the running process
        self._place = TopicPartition(journal_topic(config.flow.source), REPORTS)
        self._next: int | None = None
        self._follower = self._new()
        self._heard_at = float("-inf")  # when something new was last said

    def close(self) -> None:
        self._eyes.close()

    @property
    def status(self) -> FlowStatus:
        return self._follower.status

    def catch_up(self, patience: float = 6.0) -> None:
        """All that is known by now. A process whose clock differs from ours is given time to say something."""
        self._find()
        deadline = time.monotonic() + patience
        while self._seems_silent() and self._next is not None and time.monotonic() < deadline:
            self.listen(1000)
        self.settle()

    def listen(self, wait_ms: int) -> None:
        """What comes, or nothing for so long."""
        if self._next is None:
            self._find()
            if self._next is None:
                time.sleep(wait_ms / 1000)
                return
        answer = self._client.read(self._place, self._next, max_bytes=_AT_ONCE, wait_ms=wait_ms)
        if answer.error_code == codes.OFFSET_OUT_OF_RANGE:  # the journal keeps an hour
            self._next = None
            return
        self._check(answer.error_code)
        before = self.status.told_ms
        for record in records_from(answer.records, self._next):
            self._follower.hear(record.value)
        if self.status.told_ms != before:
            self._heard_at = time.monotonic()
        self._next = batch_end(answer.records, self._next) or self._next

    def settle(self) -> None:
        """Whoever says nothing any more is not there any more."""
        if self._seems_silent():
            self.status.state = "silent"

    def _seems_silent(self) -> bool:
        """By its clock, which may differ from ours, and by ours."""
        old = time.time() - self.status.told_ms / 1000 > SILENT
        return old and self.status.state in _ALIVE and time.monotonic() - self._heard_at > SILENT

    def _new(self) -> Follower:
        return Follower(str(self.config), self.config.flow.source, self.config.flow.target)

    def _find(self) -> None:
        """Finds the newest bulletin, begins with the keyframe that it names, and hears what follows."""
        self._follower = self._new()
        info = self._client.metadata([self._place.topic]).topics.get(self._place.topic)
        if info is None or info.error == codes.UNKNOWN_TOPIC_OR_PARTITION:
            return
        self._check(info.error)
        start, end = self._offset(EARLIEST), self._offset(LATEST)
        newest = self._client.newest_timestamps([self._place]).get(self._place, -1)
        newest = newest if newest >= 0 else int(time.time() * 1000)
        upper = end
        for seconds in _STEPS:
            at = start if seconds is None else self._since(newest - int(seconds * 1000), end)
            for record in self._records(at, upper):
                if Bulletin.decode(record.value) is not None:  # reports make sense only from a keyframe on
                    self._follower.hear(record.value)
            if self._follower.bulletin is not None:
                break
            upper = at
        found = self._follower.bulletin
        at = start if found is None else self._begin(found, start, end)
        for record in self._records(at, end):
            self._follower.hear(record.value)
        self._next = end

    def _begin(self, found: Bulletin, start: int, end: int) -> int:
        """From where on reports are to be heard."""
        if found.keyframe >= start:
            frames = Gathering()
            for record in self._records(found.keyframe, end):
                frame = Frame.decode(record.value)
                if frame is None or (frame.flow, frame.run) != (found.flow, found.run):
                    continue
                if (kept := frames.add(frame)) is not None:
                    self._follower.begin(kept[0])
                    return max(kept[1], start)
        return self._since(found.began_ms, end)

    def _records(self, at: int, end: int) -> Iterator[Record]:
        while at < end:
            answer = self._client.read(self._place, at, max_bytes=_AT_ONCE)
            self._check(answer.error_code)
            for record in records_from(answer.records, at):
                if record.offset < end:
                    yield record
            at = batch_end(answer.records, at) or end

    def _offset(self, timestamp: int) -> int:
        found, failed = self._client.list_offsets([self._place], timestamp)
        if failed:
            self._check(failed[self._place])
        return found[self._place]

    def _since(self, time_ms: int, end: int) -> int:
        """The offset of the first record that is not older; the end, where there is none."""
        return self._client.list_offsets([self._place], max(time_ms, 0))[0].get(self._place, end)

    def _check(self, code: int) -> None:
        if code:
            raise RefusedError(f"cluster {self._client.alias}: {self._place}: {codes.name(code)}", code)
