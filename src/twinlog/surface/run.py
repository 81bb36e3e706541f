"""`twinlog run`: lines for what happens, and one line that moves while something is being copied."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from twinlog.config import load
from twinlog.errors import RelayError
from twinlog.runtime import FlowRun, Runtime, chosen
from twinlog.surface.numbers import amount, size


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
    runtime = Runtime(config, wanted, paths=paths, secrets=secrets, master=master, once=once, conf=conf)
    screen = Screen()
    for flow in runtime.flows:
        screen.line(f"{flow.name}: {flow.tasks} task{'s' if flow.tasks > 1 else ''}")
    before = [signal.signal(number, lambda _n, _f: runtime.stop()) for number in (signal.SIGTERM, signal.SIGINT)]
    began = time.monotonic()
    started: set[str] = set()

    def events(flow: str, text: str) -> None:
        screen.line(f"{flow}: {text}" if flow else text)

    def tick() -> None:
        for flow in runtime.flows:
            if flow.name not in started and flow.status.partitions:
                started.add(flow.name)
                topics = len({each.topic for each in flow.status.partitions.values()})
                screen.line(f"{flow.name}: relaying {topics} topics, {len(flow.status.partitions)} partitions")
        screen.moving("   ".join(_summary(flow, once=once) for flow in runtime.flows))

    try:
        runtime.run(events, tick)
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    seconds = time.monotonic() - began
    broken = []
    for flow in runtime.flows:
        records, volume = flow.status.total("records"), flow.status.total("bytes")
        screen.line(f"{flow.name}: {amount(records)} records, {size(volume)} copied in {seconds:.0f} s")
        broken += [f"{flow.name}: {each.error}" for each in flow.status.partitions.values() if each.state == "stopped"]
    if once and broken:
        raise RelayError(f"{len(broken)} partitions stopped: {broken[0]}")
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
        text += f", {len(troubled)} partitions in trouble"
    return text
