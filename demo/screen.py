"""The demo's output: a table that is redrawn in place on a terminal, and plain lines elsewhere."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

WIDTH = 100
_EVENT_LINES = 8
_LINE_SECONDS = 5.0  # between plain lines
_BAR = 24
_BOLD, _DIM, _GREEN, _YELLOW, _RED, _CYAN = "1", "2", "32", "33", "31", "36"
_STATES = {"running": _GREEN, "waiting": _DIM, "stopped": _RED, "failing": _RED}

_HEAD = ("topic", "partitions", "records", "lag", "records/s", "MB/s", "latency", "state")
_WIDTHS = (16, 10, 11, 9, 9, 7, 9, 11)


@dataclass(frozen=True, slots=True)
class Row:
    """A topic; None for values that are not known yet."""

    topic: str
    state: str = "waiting"
    partitions: int | None = None
    records: int | None = None
    lag: int | None = None
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    latency_ms: float | None = None
    new: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    phase: str
    elapsed: float
    total: float
    rows: Sequence[Row]
    p50_ms: float | None = None
    p99_ms: float | None = None
    pss: int = 0
    peak: int = 0
    cpu_percent: float | None = None
    events: Sequence[tuple[str, str]] = field(default=())  # all events so far: time and text


class Style:
    """ANSI colours, if enabled."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, text: str, *styles: str) -> str:
        return f"\033[{';'.join(styles)}m{text}\033[0m" if self._enabled and styles else text


def supports_colour(out: TextIO, env: Mapping[str, str]) -> bool:
    return out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"  # https://no-color.org


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.0f} s"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"


def lines(frame: Frame, style: Style, width: int = WIDTH) -> list[str]:
    """No line is wider than `width`; the number of lines depends on the number of topics only."""
    found = [_title(frame, style), "", style(_cells(_HEAD, width), _DIM)]
    for row in frame.rows:
        shown, state = _cells(_texts(row), width), row.state
        if shown.endswith(state):
            shown = shown.removesuffix(state)
            found.append(style(shown, *((_BOLD,) if row.new else ())) + style(state, _STATES.get(state, _YELLOW)))
        else:
            found.append(shown)
    found += [style(_cells(_texts(_sum(frame.rows)), width), _BOLD), ""]
    cpu = "-" if frame.cpu_percent is None else f"{frame.cpu_percent:.0f} % of a core"
    facts = (
        ("latency", f"p50 {milliseconds(frame.p50_ms)}, p99 {milliseconds(frame.p99_ms)}"),
        ("memory (PSS)", f"{megabytes(frame.pss)}, peak {megabytes(frame.peak)}"),
        ("CPU", cpu),
    )
    plain = "   ".join(f"{name} {value}" for name, value in facts)
    if len(plain) + 2 <= width:
        found.append("  " + "   ".join(style(name, _DIM) + f" {value}" for name, value in facts))
    else:
        found.append(_cut("  " + plain, width))
    found.append("")
    shown_events = [*frame.events[-_EVENT_LINES:]]
    for clock, text in shown_events:
        text_width = max(width - len(clock) - 4, 10)
        found.append(f"  {style(clock, _DIM)}  {_cut(text, text_width)}")
    return found + [""] * (_EVENT_LINES - len(shown_events))


def line(frame: Frame) -> str:
    """A summary in one plain line."""
    total = _sum(frame.rows)
    return (
        f"{frame.elapsed:4.0f} s  {frame.phase:<14}  {total.records or 0:>9,} records  lag {total.lag or 0:>7,}  "
        f"{total.bytes_per_second / 1e6:6.2f} MB/s  p50 {milliseconds(frame.p50_ms):>7}  "
        f"p99 {milliseconds(frame.p99_ms):>7}  {megabytes(frame.pss):>8}"
    )


def _title(frame: Frame, style: Style) -> str:
    share = min(frame.elapsed / frame.total, 1.0) if frame.total else 0.0
    full = round(share * _BAR)
    clock = f"{_clock(frame.elapsed)} of {_clock(frame.total)}"
    bar = style("━" * full, _CYAN) + style("━" * (_BAR - full), _DIM)
    return f"  {style('us -> eu', _BOLD)}  {bar}  {clock}  {style(frame.phase, _BOLD)}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _texts(row: Row) -> tuple[str, ...]:
    known = row.records is not None
    return (
        row.topic,
        "-" if row.partitions is None else str(row.partitions),
        "-" if row.records is None else f"{row.records:,}",
        "-" if row.lag is None else f"{row.lag:,}",
        f"{row.records_per_second:,.0f}" if known else "-",
        f"{row.bytes_per_second / 1e6:.2f}" if known else "-",
        milliseconds(row.latency_ms),
        row.state,
    )


def _sum(rows: Sequence[Row]) -> Row:
    known = [row for row in rows if row.records is not None]
    return Row(
        "all",
        "",
        sum(row.partitions or 0 for row in rows),
        sum(row.records or 0 for row in known) if known else None,
        sum(row.lag or 0 for row in known) if known else None,
        sum(row.records_per_second for row in known),
        sum(row.bytes_per_second for row in known),
        max((row.latency_ms for row in known if row.latency_ms is not None), default=None),
    )


def _cells(texts: Sequence[str], width: int) -> str:
    last = len(texts) - 1
    cells = [
        text.ljust(size) if column in {0, last} else text.rjust(size)
        for column, (text, size) in enumerate(zip(texts, _WIDTHS, strict=True))
    ]
    return _cut(("  " + "  ".join(cells)).rstrip(), width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


class Screen:
    """Shows frames. On a terminal each one replaces the previous one, in a single write to avoid flicker."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self.style = Style(enabled=supports_colour(self._out, os.environ))
        self._height = 0
        self._printed_at = float("-inf")
        self._printed_events = 0

    def show(self, frame: Frame, *, last: bool = False) -> None:
        if self._live:
            self._draw(frame)
        else:
            self._print(frame, last=last)

    def _draw(self, frame: Frame) -> None:
        size = shutil.get_terminal_size((WIDTH, 40))
        # One column stays free: some terminals wrap when the last column is written.
        shown = lines(frame, self.style, min(WIDTH, size.columns - 1))[: max(size.lines - 1, 1)]
        up = f"\033[{self._height}A" if self._height else ""
        self._height = len(shown)
        self._out.write(f"\033[?25l{up}\r" + "".join(f"{each}\033[K\n" for each in shown) + "\033[J\033[?25h")
        self._out.flush()

    def _print(self, frame: Frame, *, last: bool) -> None:
        text = [f"        {clock}  {event}" for clock, event in frame.events[self._printed_events :]]
        self._printed_events = len(frame.events)
        if last or time.monotonic() - self._printed_at >= _LINE_SECONDS:
            self._printed_at = time.monotonic()
            text.append(line(frame))
        if text:
            self._out.write("\n".join(text) + "\n")
            self._out.flush()
