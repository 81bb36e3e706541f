"""Publishes the state of running flows in their journals, for observers on any machine."""

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import TwinlogError
from twinlog.journal.messages import REPORTS, SupervisorReport, journal_topic
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import FlowRun
from twinlog.status import snapshot_records
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.flow_sync import FlowSync

_EVERY: Final = 5.0  # seconds between reports of an unchanged flow
_FIRST: Final = 5.0  # seconds until the first snapshot of a run: by then tasks have reported all partitions
_KEYFRAME: Final = 60.0
_SHARE: Final = 400  # a snapshot is made at most 1/400 of the time
_MAX_QUEUED: Final = 4
_STARTED: Final = 20.0  # seconds after which a query counts as running, even without a report


@dataclass(frozen=True, slots=True)
class FlowState:
    """`runner_state` is that of QueryRunner: idle, starting, running, retrying, failed, finished or ending."""

    flow: FlowRun
    runner_state: str
    config: FlowConfig | None = None  # the desired configuration
    flow_sync: FlowSync | None = None

    def state(self, now: float) -> str:
        """The state in a supervisor report."""
        match self.runner_state:
            case "idle":
                source = self.config.source if self.config is not None else None
                return "paused" if source is not None and source.state == "paused" else "stopped"
            case "running" | "ending":
                started = self.flow.status.reported_run == self.flow.run or now - self.flow.started_at > _STARTED
                return "running" if started else "starting"
            case "failed":
                return "stopped"
        return self.runner_state


class StatusPublisher:
    """Used in the supervisor's thread. Each flow has its own writing thread, so that no cluster blocks the others."""

    def __init__(self) -> None:
        self._publishers: dict[str, FlowPublisher] = {}

    def publish(self, states: Iterable[FlowState]) -> None:
        """May be called often: writes only what is due."""
        names = set()
        for each in states:
            names.add(each.flow.name)
            publisher = self._publishers.get(each.flow.name)
            if publisher is None or publisher.flow is not each.flow:
                publisher = self._publishers[each.flow.name] = FlowPublisher(each.flow)
            publisher.publish(each)
        for name in [name for name in self._publishers if name not in names]:
            publisher = self._publishers.pop(name)
            publisher.publish(FlowState(publisher.flow, "stopped"))
            publisher.close(0)

    def close(self, seconds: float = 3.0) -> None:
        """Publishes that the flows are no longer running here."""
        for publisher in self._publishers.values():
            publisher.publish(
                FlowState(publisher.flow, "finished" if publisher.flow.finished else "stopped"), last=True
            )
        deadline = time.monotonic() + seconds
        for publisher in self._publishers.values():
            publisher.close(max(deadline - time.monotonic(), 0))


@dataclass(slots=True)
class _Run:
    id: str = ""
    began_ms: int = 0
    keyframe_due: float = 0.0


@dataclass(frozen=True, slots=True)
class _Keyframe:
    run: str
    parts: list[bytes]


@dataclass(slots=True)
class _Published:
    report: SupervisorReport | None = None
    at: float = field(default=float("-inf"))


class FlowPublisher:
    """Publishes the state of one flow."""

    def __init__(self, flow: FlowRun) -> None:
        self.flow = flow
        self._run = _Run()
        self._last = _Published()
        self._groups = flow.status.groups
        self._queue: SimpleQueue[SupervisorReport | _Keyframe | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name=f"publisher {flow.name}", daemon=True)
        self._thread.start()

    def publish(self, state: FlowState, *, last: bool = False) -> None:
        flow, now = self.flow, time.monotonic()
        if flow.run != self._run.id:
            # A resumed flow has a history that observers need at once.
            due = now if flow.status.partitions else now + _FIRST
            self._run = _Run(flow.run, max(int(time.time() * 1000), self._run.began_ms + 1), due)
        if state.flow_sync is not None and state.flow_sync.groups is not self._groups:
            self._groups = state.flow_sync.groups
            flow.status.set_groups(self._groups)
        report = self._report(state)
        same = self._last.report is not None and _without_times(self._last.report) == _without_times(report)
        if last or not same or now - self._last.at >= _EVERY:
            self._last = _Published(report, now)
            flow.status.supervisor_report(report)
            self._put(report)
            if flow.journal_offset >= 0 and now >= self._run.keyframe_due:
                parts = snapshot_records.encode(flow.status, report.time_ms, flow.journal_offset)
                self._run.keyframe_due = now + max(_KEYFRAME, _SHARE * (time.monotonic() - now))
                self._put(_Keyframe(flow.run, parts))

    def _put(self, item: SupervisorReport | _Keyframe) -> None:
        """If the target is unreachable, only the newest items are kept."""
        with contextlib.suppress(Empty):
            while self._queue.qsize() >= _MAX_QUEUED:
                self._queue.get_nowait()
        self._queue.put(item)

    def close(self, seconds: float) -> None:
        self._queue.put(None)
        self._thread.join(seconds)

    def _report(self, state: FlowState) -> SupervisorReport:
        flow, flow_sync = self.flow, state.flow_sync
        status = flow.status
        return SupervisorReport(
            flow.name,
            flow.run,
            self._run.began_ms,
            int(time.time() * 1000),
            state.state(time.monotonic()),
            flow.error,
            flow.tasks,
            flow.starts,
            flow_sync.heartbeat_ms if flow_sync is not None else status.heartbeat_ms,
            flow_sync.checkpoint_ms if flow_sync is not None else status.checkpoint_ms,
        )

    # In the writing thread

    def _write(self) -> None:
        tp = TopicPartition(journal_topic(self.flow.config.flow.source), REPORTS)
        client = FlowClients(self.flow.config).client("data.producer")
        run, at = "", -1
        while (item := self._queue.get()) is not None:
            try:
                if isinstance(item, _Keyframe):
                    now = int(time.time() * 1000)
                    offsets = [client.append(tp, encode([(now, None, part, ())])) for part in item.parts]
                    run, at = item.run, offsets[0]
                else:
                    report = replace(item, keyframe=at if item.run == run else -1)
                    client.append(tp, encode([(item.time_ms, None, report.encode(), ())]))
            except (TwinlogError, OSError):  # the next item is due soon, and the listener reports the outage
                client.close()
                client = FlowClients(self.flow.config).client("data.producer")  # its credentials may have changed
        client.close()


def _without_times(report: SupervisorReport) -> SupervisorReport:
    """Without the fields that always change."""
    return replace(report, time_ms=0, heartbeat_ms=None, checkpoint_ms=None)
