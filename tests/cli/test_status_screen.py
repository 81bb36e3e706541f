"""`twinlog status` on terminals of several sizes, and for one topic, of flows made from reports."""

import io
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.status.samples import made_flow
from twinlog.cli import status
from twinlog.cli.status_screen import cut, screen_lines, wrapped
from twinlog.cli.status_text import StatusOptions, as_text
from twinlog.journal.messages import Report
from twinlog.status.flow import FlowStatus

REFUSED = (
    "record at offset 24 of topic-00000-0 refused by eu: us.topic-00000-0: MESSAGE_TOO_LARGE; change "
    "max.message.bytes of topic us.topic-00000 on eu, or set errors.tolerance = all to skip such records"
)


def event(flow: FlowStatus, text: str, partition: str = "", second: int = 0, topics: Sequence[str] = ()) -> None:
    content: dict[str, Any] = {"time": second * 1000, "kind": "test", "amount": 0, "text": text}
    if partition:
        content["partition"] = partition
    if topics:
        content["topics"] = list(topics)
    flow.add(Report(flow.run, 1, 0, 0, 1, {}, [content]))


class Terminal(io.StringIO):
    """Something to write to that is a terminal, or not."""

    def __init__(self, *, is_one: bool = True) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


# Widths and heights


@pytest.mark.parametrize("width", [30, 79, 80, 120, 200])
def test_reasons_are_wrapped_and_no_word_is_lost(width: int) -> None:
    text = as_text([made_flow(3, 1, stopped=REFUSED)], StatusOptions())
    lines = wrapped(text, width)
    first = next(number for number, line in enumerate(lines) if line.startswith("  ! "))
    rest = [line for line in lines[first + 1 :] if line.startswith("    ")]
    after = lines.index(next(line for line in lines if line.startswith("  lag ")))
    reason = lines[first:after]
    assert all(len(line) <= width for line in reason)
    assert reason[1:] == rest[: len(reason) - 1], "indented under the mark"
    assert " ".join(" ".join(reason).split()) == f"! topic-00000-0 is stopped: {REFUSED}"
    assert [*lines[:first], *lines[after:]] == [line for line in text.split("\n") if "  ! " not in line]


def test_what_fits_is_left_as_it_is() -> None:
    text = as_text([made_flow(3, 1, stopped=REFUSED), made_flow(2, 1)], StatusOptions())
    assert "\n".join(wrapped(text, 1000)) == text


def test_commands_are_not_torn_at_their_hyphens() -> None:
    lines = wrapped("  ! end it: kafka-transactions.sh abort --start-offset 168", 30)
    assert lines == ["  ! end it:", "    kafka-transactions.sh", "    abort --start-offset 168"]


@pytest.mark.parametrize("width", [1, 7, 40, 79, 119])
@pytest.mark.parametrize("height", [1, 2, 5, 12, 23, 60])
def test_a_screen_fits_and_counts_the_lines_cut(width: int, height: int) -> None:
    text = as_text([made_flow(20, 1, lag=5, stopped=REFUSED, lost=3)], StatusOptions(), live=True)
    full = screen_lines(text, "12:34:56", width, 10_000)
    lines = screen_lines(text, "12:34:56", width, height)
    assert all(len(line) <= width for line in lines)
    assert len(lines) == min(len(full), height)
    if len(full) > height:
        assert lines[:-1] == full[: height - 1]
        assert lines[-1] == cut(f"… {len(full) - height + 1} more lines", width)
    else:
        assert lines == full


def test_the_clock_is_in_the_first_line_only() -> None:
    lines = screen_lines(as_text([made_flow(), made_flow()], StatusOptions()), "12:34:56", 79, 50)
    assert lines[0] == "12:34:56  us->eu: healthy, running"
    assert not any("12:34:56" in line for line in lines[1:])


def test_in_a_table_the_error_is_cut_first_and_with_a_sign() -> None:
    lines = screen_lines(as_text([made_flow(3, 1, lag=5, stopped=REFUSED)], StatusOptions()), "12:34:56", 90, 50)
    (row,) = [line for line in lines if line.startswith("    topic-00000 ")]
    assert row.split()[:4] == ["topic-00000", "1", "stopped", "5"]
    assert re.search(r"  record.*…$", row)
    assert len(row) == 90
    assert cut("    12   345   ", 11) == "    12   3…"
    assert cut("    12    345", 10) == "    12   …", "12 is all of it"
    assert cut("12", 2) == "12"


def test_the_newest_event_is_the_first_one_in_a_live_view() -> None:
    flow = made_flow()
    for number in range(12):
        event(flow, f"number {number}", second=number)
    found = re.findall(r"number (\d+)", as_text([flow], StatusOptions()))
    assert found == [str(number) for number in range(4, 12)]
    live = as_text([flow], StatusOptions(), live=True)
    assert re.findall(r"number (\d+)", live) == found[::-1]
    assert "  events, newest first:" in live


# On a terminal, and on none


def test_only_a_terminal_gets_wrapped_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    flow = made_flow(stopped=REFUSED)
    monkeypatch.setattr("sys.stdout", Terminal(is_one=False))
    plain = status.as_text([flow], StatusOptions())
    monkeypatch.setattr("sys.stdout", Terminal())
    fitted = status.as_text([flow], StatusOptions())
    assert f"  ! topic-00000-0 is stopped: {REFUSED}\n" in plain
    assert all(len(line) <= 60 for line in fitted.split("\n")[1:5])


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `watch` writes until Ctrl-C after the first screen_lines."""

    class Observed:
        config = "us->eu"

        def __init__(self, *_: object, **__: object) -> None:
            self.status = made_flow(20, 1, lag=5, stopped=REFUSED)
            self.ready = threading.Event()
            self.ready.set()

        def follow(self, stop: threading.Event) -> None:
            stop.wait(10)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    def run(out: Terminal, *, as_lines: bool = False) -> str:
        monkeypatch.setattr("sys.stdout", out)
        assert status.watch([None], StatusOptions(), as_lines=as_lines) == 4  # type: ignore[list-item]
        return out.getvalue()

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setattr(status, "Observer", Observed)
    monkeypatch.setattr("twinlog.cli.status.time.sleep", interrupt)
    return run


def test_a_live_view_stays_within_the_screen_and_ends_with_a_line_of_its_own(watched: Callable[..., str]) -> None:
    text = watched(Terminal())
    head, _, drawn = text.partition("\033[H")
    assert head == "\033[2J"
    drawn, _, end = drawn.partition("\033[J")
    assert end == "\n", "or the prompt follows ^C"
    lines = drawn.replace("\033[K", "").split("\n")
    assert len(lines) == 20, "19 of them, and the cursor in the last row: nothing scrolls"
    assert lines[-1] == ""
    assert re.fullmatch(r"\d\d:\d\d:\d\d  us->eu: BROKEN \(the process is running\)", lines[0])
    assert re.fullmatch(r"… \d+ more lines", lines[-2])
    assert max(map(len, lines)) <= 79
    assert "1049" not in text, "no alternate screen, which a process that is killed could not leave"


def test_who_reads_the_stream_gets_no_signs_for_terminals(watched: Callable[..., str]) -> None:
    text = watched(Terminal(is_one=False))
    assert "\033" not in text
    assert text.startswith("us->eu: BROKEN (the process is running)\n")
    assert watched(Terminal(is_one=False), as_lines=True).count("\n") == 1
    assert watched(Terminal(), as_lines=True).endswith("}\n\n")


# One topic


def test_with_a_topic_only_its_reasons_are_shown_and_the_others_counted() -> None:
    flow = made_flow(3, 2, lag=5, stopped=REFUSED)
    view = StatusOptions(max_lag_seconds=-1, topic="topic-00000")
    for name in ("topic-00000", "us.topic-00000"):
        text = as_text([flow], StatusOptions(max_lag_seconds=-1, topic=name))
        assert f"  ! topic-00000-0 is stopped: {REFUSED}" in text
        assert "  also: 1 other reason (twinlog status without --topic)" in text
        assert "topic-00001" not in text
        assert "topic-00002" not in text
    other = as_text([flow], StatusOptions(max_lag_seconds=-1, topic="topic-00001"))
    assert "topic-00000" not in other
    assert other.startswith("us->eu: BROKEN (the process is running)\n  ! 2 partitions ")
    assert re.search(r"^  also: \d other reasons \(", other, re.MULTILINE)
    assert "also:" not in as_text([flow], StatusOptions(max_lag_seconds=-1))
    assert "also:" not in as_text([made_flow()], StatusOptions(topic="topic-00000"))
    assert status.exit_code([flow], view) == 4, "that of the flow"


def test_reasons_of_the_flow_concern_every_topic() -> None:
    flow = made_flow()
    flow.state = "silent"
    for topic in ("topic-00001", "nothing"):
        text = as_text([flow], StatusOptions(topic=topic))
        assert text.startswith("us->eu: BROKEN, silent\n  ! no report since ")
        assert "also:" not in text


def test_lost_records_of_another_topic_are_not_shown() -> None:
    flow = made_flow(3, 1, lost=3)
    own, other = (as_text([flow], StatusOptions(topic=f"topic-0000{number}")) for number in (0, 1))
    assert "  - 3 records were deleted from the source" in own
    assert "10 to 12" in own
    assert "also:" not in own
    assert "deleted from the source" not in other
    assert "10 to 12" not in other
    assert "  also: 1 other reason (" in other


def test_with_a_topic_only_its_events_are_shown() -> None:
    flow = made_flow()
    event(flow, "its own", "topic-00001-1")
    event(flow, "of a longer name", "topic-00001-x-1")
    event(flow, "of another", "topic-00002-1")
    event(flow, "2 topics: now replicated", topics=["topic-00000-x", "topic-00001"])
    event(flow, "topic topic-00001.x: now replicated", topics=["topic-00001.x"])
    event(flow, "topic-00001 is only in the text")
    for name in ("topic-00001", "us.topic-00001"):
        text = as_text([flow], StatusOptions(topic=name))
        events = [line.split("test  ")[1] for line in text.split("\n") if "  test  " in line]
        assert events == ["its own", "2 topics: now replicated"]
    assert "events:" not in as_text([flow], StatusOptions(topic="topic-00000"))


@pytest.mark.parametrize(
    ("files", "topic", "command"),
    [
        (("mm2.properties",), "users", "twinlog why mm2.properties users"),
        (("a b.yaml", "c.yaml"), "users", "twinlog why 'a b.yaml' c.yaml users"),
        ((), "users", "twinlog why CONFIG users"),
        (("f",), "a;\033b", "twinlog why f 'a; b'"),
    ],
)
def test_a_topic_that_is_not_there_comes_with_a_command(files: tuple[str, ...], topic: str, command: str) -> None:
    text = as_text([made_flow()], StatusOptions(topic=topic, files=files))
    assert text.endswith(f"no such topic in this flow; to see which rule decides: {command}")


# The first line


@pytest.mark.parametrize(
    ("state", "stopped", "error", "words"),
    [
        ("running", "", "", "healthy, running"),
        ("running", "x", "", "BROKEN (the process is running)"),
        ("running", "", "status unknown: x", "BROKEN (was running at the last report)"),
        ("retrying", "", "", "BROKEN, retrying"),
        ("silent", "", "", "BROKEN, silent"),
    ],
)
def test_the_headline_of_a_broken_flow(state: str, stopped: str, error: str, words: str) -> None:
    flow = made_flow(stopped=stopped)
    flow.state, flow.observation_error = state, error
    assert as_text([flow], StatusOptions()).split("\n")[0] == f"us->eu: {words}"
