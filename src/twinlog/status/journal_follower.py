"""Follows a flow's journal on the target, with no access to the process that runs the flow.

A recent supervisor report names the offset of the newest snapshot. The status is rebuilt from that snapshot and every
report after it, by the class that the running process uses.
"""

import time
from collections.abc import Iterator
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.journal.messages import REPORTS, Report, SnapshotPart, SupervisorReport, journal_topic
from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST
from twinlog.kafka.records import Record
from twinlog.kafka.topic_reader import PartitionTail, check_partition, read_range
from twinlog.model import TopicPartition
from twinlog.status.flow import FlowStatus
from twinlog.status.snapshot_records import SnapshotAssembler
from twinlog.sync.flow_clients import FlowClients

# Seconds before the journal's end in which a supervisor report is searched for; None: the whole journal.
_SEARCH_STEPS: Final = (15.0, 120.0, 900.0, None)
SILENT_SECONDS: Final = 20.0  # without a supervisor report, which comes every 5 seconds
_OLDER_RUN_REPORTS: Final = 4  # reports in a row after which a run that seems older is accepted
_FETCH_BYTES: Final = 4 << 20
_ALIVE: Final = frozenset({"starting", "running", "retrying", "paused"})


class FlowHistory:
    """One flow's status, from the journal's records in order. Pure."""

    def __init__(self, name: str, source: str, target: str) -> None:
        self._name, self._source, self._target = name, source, target
        self._snapshots = SnapshotAssembler()
        self.status = FlowStatus("", name, source, target)
        self.status.state = "silent"
        self.supervisor_report: SupervisorReport | None = None  # the newest
        self._others = 0  # reports of another run since

    def on_record(self, value: bytes | None) -> None:
        if (part := SnapshotPart.decode(value)) is not None:
            self._on_snapshot_part(part)
        elif (report := Report.decode(value)) is not None:
            self._on_report(report)
        elif (supervisor_report := SupervisorReport.decode(value)) is not None and supervisor_report.flow == self._name:
            self._on_supervisor_report(supervisor_report)

    def start_from(self, status: FlowStatus) -> None:
        """`status`: that of a snapshot."""
        self.status = status
        if self.supervisor_report is not None:
            status.supervisor_report(self.supervisor_report)

    def _on_report(self, report: Report) -> None:
        """A flow in a Spark application of the user's has no supervisor: its task reports show that it runs."""
        reported_ms = (
            self.supervisor_report.time_ms + int(SILENT_SECONDS * 1000) if self.supervisor_report is not None else 0
        )
        if (
            report.flow == self._name
            and report.task >= 0
            and report.time_ms > max(reported_ms, self.status.reported_ms)
        ):
            if report.run != self.status.run:
                self.status = FlowStatus(report.run, self._name, self._source, self._target)
                self.status.began_ms = report.time_ms
            self.status.state, self.status.reported_ms = "running", report.time_ms
        self.status.add(report)

    def _on_supervisor_report(self, report: SupervisorReport) -> None:
        known = self.supervisor_report
        if known is not None and report.run != known.run and report.began_ms <= known.began_ms:
            # The last reports of a run that was replaced; or of the one that replaced it, if its clock is behind.
            self._others += 1
            if self._others < _OLDER_RUN_REPORTS:
                return
        self.supervisor_report, self._others = report, 0
        if report.run != self.status.run:
            self.status = FlowStatus(report.run, self._name, self._source, self._target)
        self.status.supervisor_report(report)

    def _on_snapshot_part(self, part: SnapshotPart) -> None:
        """Needed only while no partition is known: the reports contain the rest."""
        if part.flow == self._name and (found := self._snapshots.add(part)) is not None:
            status, _ = found
            if status.run == self.status.run and not self.status.partitions:
                self.start_from(status)


class JournalFollower:
    """Belongs to one thread."""

    def __init__(self, config: FlowConfig) -> None:
        self.config = config
        self._client = FlowClients(config).client("data.producer")  # authenticated as the running process is
        self._tp = TopicPartition(journal_topic(config.flow.source), REPORTS)
        self._tail = PartitionTail(self._client, self._tp)
        self._history = self._new_history()
        self._reported_at = float("-inf")  # by our clock

    def close(self) -> None:
        self._client.close()

    @property
    def status(self) -> FlowStatus:
        return self._history.status

    @property
    def alive(self) -> bool:
        return self.status.state in _ALIVE

    def catch_up(self, patience: float = 6.0) -> None:
        """Reads the journal to its end. A process whose clock differs from ours gets time to report."""
        self._start()
        deadline = time.monotonic() + patience
        while self._seems_silent() and self._tail.position is not None and time.monotonic() < deadline:
            self.poll(1000)
        self.check_silent()

    def poll(self, wait_ms: int) -> None:
        """Applies new records; waits up to `wait_ms` for some."""
        if self._tail.position is None:  # at first, or after the journal's retention of an hour
            self._start()
            if self._tail.position is None:
                time.sleep(wait_ms / 1000)
                return
        before = self.status.reported_ms
        for record in self._tail.poll(wait_ms, max_bytes=_FETCH_BYTES):
            self._history.on_record(record.value)
        if self.status.reported_ms != before:
            self._reported_at = time.monotonic()

    def check_silent(self) -> None:
        """Sets the state to `silent` if reports have stopped."""
        if self._seems_silent():
            self.status.state = "silent"

    def _seems_silent(self) -> bool:
        """By the reporting clock, which may differ from ours, and by ours."""
        old = time.time() - self.status.reported_ms / 1000 > SILENT_SECONDS
        return old and self.status.state in _ALIVE and time.monotonic() - self._reported_at > SILENT_SECONDS

    def _new_history(self) -> FlowHistory:
        return FlowHistory(str(self.config), self.config.flow.source, self.config.flow.target)

    def _start(self) -> None:
        """Finds the newest supervisor report, starts from the snapshot it names, and applies the reports after it."""
        self._history = self._new_history()
        info = self._client.metadata([self._tp.topic]).topics.get(self._tp.topic)
        if info is None or info.error == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            return
        check_partition(self._client, self._tp, info.error)
        start, end = self._offset(EARLIEST), self._offset(LATEST)
        newest = self._client.newest_timestamps([self._tp]).get(self._tp, -1)
        newest = newest if newest >= 0 else int(time.time() * 1000)
        upper = end
        for seconds in _SEARCH_STEPS:
            at = start if seconds is None else self._since(newest - int(seconds * 1000), end)
            for record in self._records(at, upper):
                if SupervisorReport.decode(record.value) is not None:  # task reports need a snapshot first
                    self._history.on_record(record.value)
            if self._history.supervisor_report is not None:
                break
            upper = at
        found = self._history.supervisor_report
        at = start if found is None else self._load_snapshot(found, start, end)
        for record in self._records(at, end):
            self._history.on_record(record.value)
        self._tail.position = end

    def _load_snapshot(self, found: SupervisorReport, start: int, end: int) -> int:
        """Returns the offset from which reports are to be applied."""
        if found.keyframe >= start:
            snapshots = SnapshotAssembler()
            for record in self._records(found.keyframe, end):
                part = SnapshotPart.decode(record.value)
                if part is None or (part.flow, part.run) != (found.flow, found.run):
                    continue
                if (snapshot := snapshots.add(part)) is not None:
                    status, after = snapshot
                    self._history.start_from(status)
                    return max(after, start)
        return self._since(found.began_ms, end)

    def _records(self, at: int, end: int) -> Iterator[Record]:
        return read_range(self._client, self._tp, at, end, max_bytes=_FETCH_BYTES)

    def _offset(self, timestamp: int) -> int:
        found, failed = self._client.list_offsets([self._tp], timestamp)
        if failed:
            check_partition(self._client, self._tp, failed[self._tp])
        return found[self._tp]

    def _since(self, time_ms: int, end: int) -> int:
        """The offset of the first record that is not older; the end if there is none."""
        return self._client.list_offsets([self._tp], max(time_ms, 0))[0].get(self._tp, end)
