"""Commands and reports: what one Twinlog writes another reads, and neither trips over what it does not know."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.tracking.journal import Command, Report, journal_topic

COMMAND = Command("end", "run-1", 7, "us->eu (mirror-2)")
REPORT = Report("run-1", 7, 1, 2, 1_700_000_000_000, {"orders-3": {"topic": "orders", "lag": 5}}, [{"text": "x"}], final=True)  # fmt: skip


def test_the_topic_is_internal_by_mm2s_rules() -> None:
    assert journal_topic("us") == "mm2-twinlog.us.internal"


def test_there_and_back() -> None:
    assert Command.decode(COMMAND.encode()) == COMMAND
    assert Report.decode(REPORT.encode()) == REPORT


def test_a_newer_twinlog_may_say_more() -> None:
    for written, kind in ((COMMAND, Command), (REPORT, Report)):
        content = json.loads(written.encode()) | {"mood": "good"}
        assert kind.decode(json.dumps(content).encode()) == written


def test_one_is_not_taken_for_the_other() -> None:
    """Both are in one topic, and whoever reads all of it meets both."""
    assert Command.decode(REPORT.encode()) is None
    assert Report.decode(COMMAND.encode()) is None


@pytest.mark.parametrize("left_out", ["verb", "run", "epoch", "flow"])
def test_half_a_command_is_none(left_out: str) -> None:
    content = json.loads(COMMAND.encode())
    del content[left_out]
    assert Command.decode(json.dumps(content).encode()) is None


@given(st.one_of(st.none(), st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())))  # fmt: skip
def test_anything_else_is_skipped(value: bytes | None) -> None:
    assert Command.decode(value) is None
    assert Report.decode(value) is None
