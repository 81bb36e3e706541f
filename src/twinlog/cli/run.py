"""`twinlog run`: logs events, and shows a progress line on a terminal."""

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cli.progress import OnceProgress
from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.errors import ReplicationError
from twinlog.http.options import HttpOptions
from twinlog.logs import Format, Log
from twinlog.runtime.flow_choice import heartbeat_flows, select_flows
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.supervisor import Supervisor
from twinlog.status.partition import PartitionStatus
from twinlog.text import amount, counted, size, some

if TYPE_CHECKING:
    from twinlog.http.server import Server

# Seconds
_SETTLED = 1.0  # without a change in the number of partitions
_TRANSIENT = 3.0  # a leader election is not worth a line
_REPEAT = 30.0


class FlowExtent:
    """The number of topics and partitions of a flow: one line at first, one for each change."""

    def __init__(self) -> None:
        self._logged = self._seen = ""
        self._seen_at = 0.0

    def update(self, flow: FlowRun) -> str:
        partitions = flow.status.partitions.values()
        topics = counted(len({each.topic for each in partitions}), "topic")
        text = f"relaying {topics}, {counted(len(partitions), 'partition')}" if partitions else ""
        if text != self._seen:
            self._seen, self._seen_at = text, time.monotonic()
        # Tasks report their partitions one after the other.
        if text == self._logged or time.monotonic() - self._seen_at < _SETTLED:
            return ""
        self._logged = text
        return text or "nothing left to replicate"


class Failures:
    """Failing partitions: one line when it lasts, one when it is over, few in between."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._logged_at = float("-inf")
        self._logged = ""

    def update(self, flow: FlowRun) -> str:
        now = time.monotonic()
        failing = flow.status.failing
        retried = [each for each in failing if each.state != "stopped"]  # stopped ones have an event of their own
        if not retried:
            self._since = None
            logged, self._logged = self._logged, ""
            return "all partitions recovered" if logged and not failing else ""
        self._since = self._since or now
        text = f"{counted(len(retried), 'partition')} failing, retrying: {retried[0].error}"
        if now - self._since < _TRANSIENT or text == self._logged or now - self._logged_at < _REPEAT:
            return ""
        self._logged, self._logged_at = text, now
        return text


class StoppedPartitions:
    """One line when partitions resume. That they stopped, and why, is an event."""

    def __init__(self) -> None:
        self._stopped: dict[str, int] = {}  # partition -> the offset at which it stopped

    def update(self, flow: FlowRun) -> str:
        partitions = flow.status.partitions
        resumed = []
        for name, offset in list(self._stopped.items()):
            each = partitions.get(name)
            if each is None or (each.state != "stopped" and each.position > offset):
                del self._stopped[name]
                resumed += [name] if each is not None else []
        self._stopped |= {str(each.tp): each.position for each in flow.status.failing if each.state == "stopped"}
        return f"{some(resumed)} resumed" if resumed else ""


class RunDisplay:
    """Logs events of the flows, and shows their progress."""

    def __init__(self, log: Log, runtime: Supervisor, *, once: bool = False) -> None:
        self._log, self._runtime, self._once = log, runtime, once
        self._extents: dict[str, FlowExtent] = {}
        self._failures: dict[str, Failures] = {}
        self._stopped: dict[str, StoppedPartitions] = {}
        self._progress: dict[str, OnceProgress] = {}
        self._recent: dict[tuple[str, str], float] = {}

    def events(self, flow: str, text: str) -> None:
        """Logs an event once, although several tasks and the planner may report it."""
        now = time.monotonic()
        for logged in [logged for logged, at in self._recent.items() if now - at > _REPEAT]:
            del self._recent[logged]
        if (flow, text) not in self._recent:
            self._recent[flow, text] = now
            self._log.line(text, flow=flow)

    def tick(self) -> None:
        flows = self._runtime.flows
        for flow in flows:
            if text := self._extents.setdefault(flow.name, FlowExtent()).update(flow):
                self._log.line(text, flow=flow.name)
            if text := self._failures.setdefault(flow.name, Failures()).update(flow):
                self._log.line(text, flow=flow.name)
            if text := self._stopped.setdefault(flow.name, StoppedPartitions()).update(flow):
                self._log.line(text, flow=flow.name)
        if self._runtime.waiting_for:
            self._log.moving(f"stopping: waiting for {self._runtime.waiting_for}")
        else:
            self._log.moving("   ".join(map(self._summary, flows)))

    def _summary(self, flow: FlowRun) -> str:
        status = flow.status
        records, volume = status.rates()
        copied = status.total("records")
        if self._once:
            progress = self._progress.setdefault(flow.name, OnceProgress())
            text = progress.text(status.partitions.values(), (records, volume), copied)
        else:
            text = f"{amount(copied)} records, {size(volume)}/s, {amount(int(records))} records/s"
            text += f", {amount(status.lag)} to go"
        if failing := status.failing:
            text += f", {counted(len(failing), 'partition')} failing"
        return f"{flow.name}: {text}"


@contextlib.contextmanager
def stopped_by_signals(runtime: Supervisor) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda _n, _f: runtime.stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def run(
    paths: Sequence[str],
    *,
    flows: Sequence[str],
    clusters: Sequence[str],
    once: bool,
    master: str | None,
    secrets: Path | None,
    conf: dict[str, str],
    http: HttpOptions | None = None,
    take_over: bool = False,
    log_format: Format = "text",
) -> int:
    config = load(paths, secrets)
    wanted = select_flows(config, flows, clusters)
    only = heartbeat_flows(config, flows, clusters)
    runtime = Supervisor(
        wanted,
        paths=paths,
        secrets=secrets,
        master=master,
        once=once,
        conf=conf,
        heartbeat_flows=only,
        take_over=take_over,
    )
    with Log(log_format) as log, contextlib.ExitStack() as stack:
        for flow in runtime.flows:
            log.line(counted(flow.tasks, "task"), flow=flow.name)
        display = RunDisplay(log, runtime, once=once)
        stack.enter_context(stopped_by_signals(runtime))
        if http is not None:
            stack.enter_context(_http_server(http, runtime, (*wanted, *only), log))
        began = time.monotonic()
        runtime.run(display.events, display.tick)
        return _finish(runtime, log, time.monotonic() - began, once=once)


def _http_server(options: HttpOptions, runtime: Supervisor, flows: Sequence[FlowConfig], log: Log) -> "Server":
    from twinlog.connect.run_worker import RunWorker  # noqa: PLC0415  # without --port, no HTTP library is imported
    from twinlog.http import setup  # noqa: PLC0415

    worker = RunWorker(runtime, f"{options.host}:{options.port}")
    server = setup.server(worker, runtime.board, lambda: setup.plan_json(flows), options)
    worker.set_worker_id(f"{options.host}:{server.port}")
    log.line(f"HTTP at {server.url}: web UI, /metrics, Connect REST API (read, pause, resume)")
    if warning := setup.unauthenticated_warning(options.host, login=options.login):
        log.line(warning, level="WARN")
    return server


def _finish(runtime: Supervisor, log: Log, seconds: float, *, once: bool) -> int:
    incomplete = []
    for flow in runtime.flows:
        status = flow.status
        volume = size(status.total("bytes"))
        log.line(f"{counted(status.total('records'), 'record')}, {volume} copied in {seconds:.0f} s", flow=flow.name)
        incomplete += [f"{flow.name}: {event['text']}" for event in status.events if event.get("kind") == "left out"]
        incomplete += [f"{flow.name}: {text}" for each in status.partitions.values() if (text := _uncopied(each))]
    if once and not all(flow.finished for flow in runtime.flows):
        raise ReplicationError("stopped before everything was copied; run it again to continue")
    if once and incomplete:
        others = f" (and {len(incomplete) - 1} more, see above)" if incomplete[1:] else ""
        raise ReplicationError(f"not everything was copied: {incomplete[0]}{others}")
    return 0


def _uncopied(each: PartitionStatus) -> str:
    """Why --once has not copied everything of a partition; empty: it has."""
    if each.state == "stopped":
        return each.error
    left = (each.until or 0) - each.position
    return (
        f"{each.topic}-{each.partition}: {counted(left, 'offset')} left; {each.error or 'run it again'}"
        if left > 0
        else ""
    )
