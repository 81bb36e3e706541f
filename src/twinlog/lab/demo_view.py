"""What the demo shows: a picture that is redrawn in place, or plain lines where nobody looks at a terminal."""

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

WIDTH = 100
_EVENTS = 8  # lines of them
_EVERY = 5.0  # seconds between plain lines
_BAR = 24
_BOLD, _DIM, _GREEN, _YELLOW, _RED, _CYAN = "1", "2", "32", "33", "31", "36"
_STATES = {"running": _GREEN, "waiting": _DIM, "stopped": _RED, "trouble": _RED}

_HEAD = ("topic", "partitions", "records", "lag", "records/s", "MB/s", "latency", "state")
_WIDTHS = (16, 10, 11, 9, 9, 7, 9, 11)


@dataclass(frozen=True, slots=True)
class Row:
    """A topic. Of what is not known yet there is None."""

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
class Picture:
    phase: str
    elapsed: float
    total: float
    rows: Sequence[Row]
    p50_ms: float | None = None
    p99_ms: float | None = None
    pss: int = 0
    peak: int = 0
    cpu_percent: float | None = None
    events: Sequence[tuple[str, str]] = field(default=())  # clock and text, all there were so far


class Paint:
    """ANSI colours, if they are wanted: https://no-color.org."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, text: str, *styles: str) -> str:
        return f"\033[{';'.join(styles)}m{text}\033[0m" if self._wanted and styles else text


def wants_colour(out: TextIO, env: Mapping[str, str]) -> bool:
    return out.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.0f} s"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f} MB"


def lines(picture: Picture, paint: Paint, width: int = WIDTH) -> list[str]:
    """No line is wider than `width`, and each picture of a run has as many lines as its topics ask for."""
    found = [_title(picture, paint), "", paint(_cells(_HEAD, width), _DIM)]
    for row in picture.rows:
        shown, state = _cells(_texts(row), width), row.state
        if shown.endswith(state):
            shown = shown.removesuffix(state)
            found.append(paint(shown, *((_BOLD,) if row.new else ())) + paint(state, _STATES.get(state, _YELLOW)))
        else:
            found.append(shown)
    found += [paint(_cells(_texts(_sum(picture.rows)), width), _BOLD), ""]
    cpu = "-" if picture.cpu_percent is None else f"{picture.cpu_percent:.0f} % of a core"
    facts = (
        ("latency", f"p50 {milliseconds(picture.p50_ms)}, p99 {milliseconds(picture.p99_ms)}"),
        ("memory (PSS)", f"{megabytes(picture.pss)}, peak {megabytes(picture.peak)}"),
        ("CPU", cpu),
    )
    plain = "   ".join(f"{name} {value}" for name, value in facts)
    if len(plain) + 2 <= width:
        found.append("  " + "   ".join(paint(name, _DIM) + f" {value}" for name, value in facts))
    else:
        found.append(_cut("  " + plain, width))
    found.append("")
    shown_events = [*picture.events[-_EVENTS:]]
    for clock, text in shown_events:
        room = max(width - len(clock) - 4, 10)
        found.append(f"  {paint(clock, _DIM)}  {_cut(text, room)}")
    return found + [""] * (_EVENTS - len(shown_events))


def line(picture: Picture) -> str:
    """The same in one plain line."""
    total = _sum(picture.rows)
    return (
        f"{picture.elapsed:4.0f} s  {picture.phase:<14}  {total.records or 0:>9,} records  lag {total.lag or 0:>7,}  "
        f"{total.bytes_per_second / 1e6:6.2f} MB/s  p50 {milliseconds(picture.p50_ms):>7}  "
        f"p99 {milliseconds(picture.p99_ms):>7}  {megabytes(picture.pss):>8}"
    )


def _title(picture: Picture, paint: Paint) -> str:
    share = min(picture.elapsed / picture.total, 1.0) if picture.total else 0.0
    full = round(share * _BAR)
    clock = f"{_clock(picture.elapsed)} of {_clock(picture.total)}"
    bar = paint("━" * full, _CYAN) + paint("━" * (_BAR - full), _DIM)
    return f"  {paint('us -> eu', _BOLD)}  {bar}  {clock}  {paint(picture.phase, _BOLD)}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _texts(row: Row) -> tuple[str, ...]:
    moving = row.records is not None
    return (
        row.topic,
        "-" if row.partitions is None else str(row.partitions),
        "-" if row.records is None else f"{row.records:,}",
        "-" if row.lag is None else f"{row.lag:,}",
        f"{row.records_per_second:,.0f}" if moving else "-",
        f"{row.bytes_per_second / 1e6:.2f}" if moving else "-",
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
    """Shows pictures. On a terminal each takes the place of the one before, in a single write: nothing flickers."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self.paint = Paint(wanted=wants_colour(self._out, os.environ))
        self._height = 0
        self._said_at = float("-inf")
        self._told = 0

    def show(self, picture: Picture, *, last: bool = False) -> None:
        if self._live:
            self._draw(picture)
        else:
            self._tell(picture, last=last)

    def _draw(self, picture: Picture) -> None:
        size = shutil.get_terminal_size((WIDTH, 40))
        # One column stays free: some terminals go to the next line when the last one is written to.
        shown = lines(picture, self.paint, min(WIDTH, size.columns - 1))[: max(size.lines - 1, 1)]
        up = f"\033[{self._height}A" if self._height else ""
        self._height = len(shown)
        self._out.write(f"\033[?25l{up}\r" + "".join(f"{each}\033[K\n" for each in shown) + "\033[J\033[?25h")
        self._out.flush()

    def _tell(self, picture: Picture, *, last: bool) -> None:
        text = [f"        {clock}  {event}" for clock, event in picture.events[self._told :]]
        self._told = len(picture.events)
        if last or time.monotonic() - self._said_at >= _EVERY:
            self._said_at = time.monotonic()
            text.append(line(picture))
        if text:
            self._out.write("\n".join(text) + "\n")
            self._out.flush()
