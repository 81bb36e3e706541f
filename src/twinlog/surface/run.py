"""`twinlog run`: lines for what happens, and one line that moves while something is being copied."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from twinlog.config import load
from twinlog.errors import RelayError
from twinlog.runtime.choice import beating, chosen
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.supervisor import Runtime
from twinlog.surface.numbers import amount, counted, size

_TOGETHER = 1.0
_LASTS = 3.0  # a leader that moves is no news
_SELDOM = 30.0


class Screen:
    """Writes to standard error; a moving line only where a person looks."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = ""
        self._drawn_at = 0.0

    def line(self, text: str) -> None:
        self._wipe()
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def moving(self, text: str) -> None:
        now = time.monotonic()
        if self._live and now - self._drawn_at >= 0.5:
            self._drawn_at = now
            self._wipe()
            self._shown = text[:118]
            print(self._shown, end="", file=sys.stderr, flush=True)

    def _wipe(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr)
            self._shown = ""


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


def run(
    paths: Sequence[str],
    *,
    flows: Sequence[str],
    clusters: Sequence[str],
    once: bool,
    master: str | None,
    secrets: Path | None,
    conf: dict[str, str],
) -> int:
    config = load(paths, secrets)
    wanted = chosen(config, flows, clusters)
    only = beating(config, flows, clusters)
    runtime = Runtime(wanted, paths=paths, secrets=secrets, master=master, once=once, conf=conf, beating=only)
    screen = Screen()
    for flow in runtime.flows:
        screen.line(f"{flow.name}: {counted(flow.tasks, 'task')}")
    before = [signal.signal(number, lambda _n, _f: runtime.stop()) for number in (signal.SIGTERM, signal.SIGINT)]
    began = time.monotonic()
    extents = {flow.name: Extent() for flow in runtime.flows}
    troubles = {flow.name: Troubles() for flow in runtime.flows}

    lately: dict[tuple[str, str], float] = {}

    def events(flow: str, text: str) -> None:
        """Several tasks, and the planner, may see the same."""
        now = time.monotonic()
        for said in [said for said, at in lately.items() if now - at > _SELDOM]:
            del lately[said]
        if (flow, text) not in lately:
            lately[flow, text] = now
            screen.line(f"{flow}: {text}" if flow else text)

    def tick() -> None:
        for flow in runtime.flows:
            if text := extents[flow.name].news(flow):
                screen.line(f"{flow.name}: {text}")
            if text := troubles[flow.name].news(flow):
                screen.line(f"{flow.name}: {text}")
        screen.moving("   ".join(_summary(flow, once=once) for flow in runtime.flows))

    try:
        runtime.run(events, tick)
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    seconds = time.monotonic() - began
    broken = []
    for flow in runtime.flows:
        status = flow.status
        volume = size(status.total("bytes"))
        screen.line(f"{flow.name}: {counted(status.total('records'), 'record')}, {volume} copied in {seconds:.0f} s")
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
