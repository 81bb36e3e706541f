"""Commands and reports: what one Twinlog writes another reads, and neither trips over what it does not know."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.tracking.journal import Bulletin, Command, Frame, Report, journal_topic

COMMAND = Command("end", "run-1", 7, "us->eu (mirror-2)")
REPORT = Report("run-1", 7, 1, 2, 1_700_000_000_000, {"orders-3": {"topic": "orders", "lag": 5}}, [{"text": "x"}], final=True)  # fmt: skip
BULLETIN = Bulletin("us->eu", "run-1", 5, 7, "running", "", 2, 1, 1_700_000_000_000, None, 42)
FRAME = Frame("us->eu", "run-1", 7, 1, 3, {"epoch": 4}, [["orders", 3], []])


def test_the_topic_is_internal_by_mm2s_rules() -> None:
    assert journal_topic("us") == "mm2-twinlog.us.internal"


def test_there_and_back() -> None:
    assert Command.decode(COMMAND.encode()) == COMMAND
    assert Report.decode(REPORT.encode()) == REPORT
    assert Bulletin.decode(BULLETIN.encode()) == BULLETIN
    assert Frame.decode(FRAME.encode()) == FRAME


def test_an_older_twinlog_says_less() -> None:
    content = json.loads(REPORT.encode())
    del content["host"], content["flow"]
    assert Report.decode(json.dumps(content).encode()) == REPORT


def test_a_newer_twinlog_may_say_more() -> None:
    for written, kind in ((COMMAND, Command), (REPORT, Report)):
        content = json.loads(written.encode()) | {"mood": "good"}
        assert kind.decode(json.dumps(content).encode()) == written
    said = json.loads(BULLETIN.encode())
    said["bulletin"]["mood"] = "good"
    assert Bulletin.decode(json.dumps(said).encode()) == BULLETIN


def test_one_is_not_taken_for_the_other() -> None:
    """All are in one topic, and whoever reads all of it meets all."""
    values = {Command: COMMAND.encode(), Report: REPORT.encode(), Bulletin: BULLETIN.encode(), Frame: FRAME.encode()}
    for kind in (Command, Report, Bulletin, Frame):
        assert [other for other, value in values.items() if kind.decode(value) is not None] == [kind]


@pytest.mark.parametrize("window", [[], [1, 2, 3], "1234", {"a": 1}, [1, 2, 3, None], [1, 2, 3, float("nan")]])
def test_times_that_are_none_spoil_a_report(window: object) -> None:
    content = json.loads(REPORT.encode())
    content["partitions"]["orders-3"]["latency"] = window
    assert Report.decode(json.dumps(content).encode()) is None


def test_a_keyframe_that_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = b"\x00frame\x00" + zlib.compress(b'{"flow":"' + b"x" * (64 << 20) + b'"}')
    assert len(bomb) < 100_000
    assert Frame.decode(bomb) is None


@pytest.mark.parametrize(("index", "count"), [(-1, 1), (1, 1), (0, 0), (0, 1 << 40)])
def test_a_part_of_no_keyframe_is_none(index: int, count: int) -> None:
    assert Frame.decode(Frame("us->eu", "r", 1, index, count, {}, []).encode()) is None


@pytest.mark.parametrize("left_out", ["verb", "run", "epoch", "flow"])
def test_half_a_command_is_none(left_out: str) -> None:
    content = json.loads(COMMAND.encode())
    del content[left_out]
    assert Command.decode(json.dumps(content).encode()) is None


@given(st.one_of(st.none(), st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())))  # fmt: skip
def test_anything_else_is_skipped(value: bytes | None) -> None:
    for kind in (Command, Report, Bulletin, Frame):
        assert kind.decode(value) is None
