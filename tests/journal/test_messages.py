"""Journal records are compatible between versions, and anything that is not one is skipped."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.journal.messages import Command, Report, SnapshotPart, SupervisorReport, journal_topic

COMMAND = Command("end", "run-1", 7, "us->eu (mirror-2)")
REPORT = Report("run-1", 7, 1, 2, 1_700_000_000_000, {"orders-3": {"topic": "orders", "lag": 5}}, [{"text": "x"}], final=True)  # fmt: skip
SUPERVISOR_REPORT = SupervisorReport("us->eu", "run-1", 5, 7, "running", "", 2, 1, 1_700_000_000_000, None, 42)
SNAPSHOT_PART = SnapshotPart("us->eu", "run-1", 7, 1, 3, {"epoch": 4}, [["orders", 3], []])


def test_the_topic_is_internal_by_mm2s_rules() -> None:
    assert journal_topic("us") == "mm2-twinlog.us.internal"


def test_round_trip() -> None:
    assert Command.decode(COMMAND.encode()) == COMMAND
    assert Report.decode(REPORT.encode()) == REPORT
    assert SupervisorReport.decode(SUPERVISOR_REPORT.encode()) == SUPERVISOR_REPORT
    assert SnapshotPart.decode(SNAPSHOT_PART.encode()) == SNAPSHOT_PART


def test_a_report_of_an_older_version_lacks_fields() -> None:
    content = json.loads(REPORT.encode())
    del content["host"], content["flow"]
    assert Report.decode(json.dumps(content).encode()) == REPORT


def test_a_newer_version_may_add_fields() -> None:
    for written, kind in ((COMMAND, Command), (REPORT, Report)):
        content = json.loads(written.encode()) | {"mood": "good"}
        assert kind.decode(json.dumps(content).encode()) == written
    content = json.loads(SUPERVISOR_REPORT.encode())
    content["bulletin"]["mood"] = "good"
    assert SupervisorReport.decode(json.dumps(content).encode()) == SUPERVISOR_REPORT


def test_one_kind_is_not_decoded_as_another() -> None:
    """All kinds share one topic."""
    values = {
        Command: COMMAND.encode(),
        Report: REPORT.encode(),
        SupervisorReport: SUPERVISOR_REPORT.encode(),
        SnapshotPart: SNAPSHOT_PART.encode(),
    }
    for kind in (Command, Report, SupervisorReport, SnapshotPart):
        assert [other for other, value in values.items() if kind.decode(value) is not None] == [kind]


@pytest.mark.parametrize("window", [[], [1, 2, 3], "1234", {"a": 1}, [1, 2, 3, None], [1, 2, 3, float("nan")]])
def test_a_report_with_invalid_samples_is_skipped(window: object) -> None:
    content = json.loads(REPORT.encode())
    content["partitions"]["orders-3"]["latency"] = window
    assert Report.decode(json.dumps(content).encode()) is None


def test_a_decompression_bomb_is_not_decompressed() -> None:
    bomb = b"\x00frame\x00" + zlib.compress(b'{"flow":"' + b"x" * (64 << 20) + b'"}')
    assert len(bomb) < 100_000
    assert SnapshotPart.decode(bomb) is None


@pytest.mark.parametrize(("index", "count"), [(-1, 1), (1, 1), (0, 0), (0, 1 << 40)])
def test_a_part_with_an_impossible_index_is_skipped(index: int, count: int) -> None:
    assert SnapshotPart.decode(SnapshotPart("us->eu", "r", 1, index, count, {}, []).encode()) is None


@pytest.mark.parametrize("left_out", ["verb", "run", "epoch", "flow"])
def test_an_incomplete_command_is_skipped(left_out: str) -> None:
    content = json.loads(COMMAND.encode())
    del content[left_out]
    assert Command.decode(json.dumps(content).encode()) is None


@given(st.one_of(st.none(), st.binary(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())))  # fmt: skip
def test_anything_else_is_skipped(value: bytes | None) -> None:
    for kind in (Command, Report, SupervisorReport, SnapshotPart):
        assert kind.decode(value) is None
