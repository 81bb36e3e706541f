"""`twinlog run`: lines for what happens, and one line that moves while something is being copied."""

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.errors import RelayError
from twinlog.runtime.choice import beating, chosen
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.supervisor import Runtime
from twinlog.surface.logs import Format, Log
from twinlog.surface.numbers import amount, counted, size

if TYPE_CHECKING:
    from twinlog.surface.http.server import Server

_TOGETHER = 1.0
_LASTS = 3.0  # a leader that moves is no news
_SELDOM = 30.0


class Extent:
    """How much a flow carries: one line at first, one for each change."""

    def __init__(self) -> None:
        self._told = self._seen = ""
        self._seen_at = 0.0

    def news(self, flow: FlowRun) -> str:
        partitions = flow.status.partitions.values()
        topics = counted(len({each.topic for each in partitions}), "topic")
        text = f"relaying {topics}, {counted(len(partitions), 'partition')}" if partitions else ""
        if text != self._seen:
            self._seen, self._seen_at = text, time.monotonic()
        # Tasks tell of their parts one after the other.
        if text == self._told or time.monotonic() - self._seen_at < _TOGETHER:
            return ""
        self._told = text
        return text or "nothing is left to relay"


class Troubles:
    """Partitions that cannot go on: one line when that begins to last, one when it is over, few in between."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told_at = float("-inf")
        self._told = ""

    def news(self, flow: FlowRun) -> str:
        now = time.monotonic()
        waiting = [each for each in flow.status.troubled if each.state != "stopped"]  # those have an event of their own
        if not waiting:
            self._since = None
            told, self._told = self._told, ""
            return "all go on again" if told else ""
        self._since = self._since or now
        text = f"{counted(len(waiting), 'partition')} cannot go on: {waiting[0].error}"
        if now - self._since < _LASTS or text == self._told or now - self._told_at < _SELDOM:
            return ""
        self._told, self._told_at = text, now
        return text


class Watch:
    """Says what happens to flows: lines for what stays, one line that moves."""

    def __init__(self, log: Log, runtime: Runtime, *, once: bool = False) -> None:
        self._log, self._runtime, self._once = log, runtime, once
        self._extents: dict[str, Extent] = {}
        self._troubles: dict[str, Troubles] = {}
        self._lately: dict[tuple[str, str], float] = {}

    def events(self, flow: str, text: str) -> None:
        """Several tasks, and the planner, may see the same."""
        now = time.monotonic()
        for said in [said for said, at in self._lately.items() if now - at > _SELDOM]:
            del self._lately[said]
        if (flow, text) not in self._lately:
            self._lately[flow, text] = now
            self._log.line(text, flow=flow)

    def tick(self) -> None:
        flows = self._runtime.flows
        for flow in flows:
            if text := self._extents.setdefault(flow.name, Extent()).news(flow):
                self._log.line(text, flow=flow.name)
            if text := self._troubles.setdefault(flow.name, Troubles()).news(flow):
                self._log.line(text, flow=flow.name)
        self._log.moving("   ".join(_summary(flow, once=self._once) for flow in flows))


@contextlib.contextmanager
def stopped_by_signals(runtime: Runtime) -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda _n, _f: runtime.stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class Door:
    """Where the API is served, by which certificate, and whose passwords are in which file."""

    port: int
    host: str = "127.0.0.1"
    certificate: Path | None = None
    key: Path | None = None
    users: Path | None = None


def run(
    paths: Sequence[str],
    *,
    flows: Sequence[str],
    clusters: Sequence[str],
    once: bool,
    master: str | None,
    secrets: Path | None,
    conf: dict[str, str],
    door: Door | None = None,
    log_format: Format = "text",
) -> int:
    config = load(paths, secrets)
    wanted = chosen(config, flows, clusters)
    only = beating(config, flows, clusters)
    runtime = Runtime(wanted, paths=paths, secrets=secrets, master=master, once=once, conf=conf, beating=only)
    with Log(log_format) as log, contextlib.ExitStack() as stack:
        for flow in runtime.flows:
            log.line(counted(flow.tasks, "task"), flow=flow.name)
        watch = Watch(log, runtime, once=once)
        stack.enter_context(stopped_by_signals(runtime))
        if door is not None:
            stack.enter_context(_open(door, runtime, (*wanted, *only), log))
        began = time.monotonic()
        runtime.run(watch.events, watch.tick)
        return _farewell(runtime, log, time.monotonic() - began, once=once)


def _open(door: Door, runtime: Runtime, flows: Sequence[FlowConfig], log: Log) -> "Server":
    from twinlog.connect.run_worker import RunWorker  # noqa: PLC0415  # a run without a door needs no HTTP
    from twinlog.surface import door as doors  # noqa: PLC0415

    lock = doors.Lock(door.certificate, door.key, door.users)
    worker = RunWorker(runtime, f"{door.host}:{door.port}")
    server = doors.server(
        worker, runtime.board, lambda: doors.plan_json(flows), host=door.host, port=door.port, lock=lock
    )
    worker.known_as(f"{door.host}:{server.port}")
    log.line(f"{server.url} shows it: the page, /metrics, and Kafka Connect's API to look and to pause")
    if warning := doors.open_to_all(door.host, lock):
        log.line(warning, level="WARN")
    return server


def _farewell(runtime: Runtime, log: Log, seconds: float, *, once: bool) -> int:
    broken = []
    for flow in runtime.flows:
        status = flow.status
        volume = size(status.total("bytes"))
        log.line(f"{counted(status.total('records'), 'record')}, {volume} copied in {seconds:.0f} s", flow=flow.name)
        broken += [f"{flow.name}: {event['text']}" for event in status.events if event.get("kind") == "left out"]
        broken += [f"{flow.name}: {each.error}" for each in status.partitions.values() if each.state == "stopped"]
    if once and not all(flow.finished for flow in runtime.flows):
        raise RelayError("stopped before all was copied: start again to go on")
    if once and broken:
        others = f" (and {len(broken) - 1} more, see above)" if broken[1:] else ""
        raise RelayError(f"not all is copied: {broken[0]}{others}")
    return 0


def _summary(flow: FlowRun, *, once: bool) -> str:
    status = flow.status
    records, volume = status.rates()
    lag = status.lag
    if once:
        lag = sum(max((each.until or 0) - each.position, 0) for each in status.partitions.values())
    text = f"{flow.name}: {amount(status.total('records'))} records, {size(volume)}/s, {amount(int(records))} records/s"
    text += f", {amount(lag)} to go"
    if troubled := status.troubled:
        text += f", {counted(len(troubled), 'partition')} in trouble"
    return text
