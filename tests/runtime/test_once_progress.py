"""Progress display of `twinlog run --once`; on a terminal see tests/cli/test_plan.py."""

from typing import Any

import pytest

from twinlog.cli.progress import OnceProgress
from twinlog.journal.messages import Report
from twinlog.status.flow import FlowStatus


def flow(**positions: tuple[int, int]) -> FlowStatus:
    """By topic: position and end."""
    status = FlowStatus("run")
    partitions: dict[str, dict[str, Any]] = {
        f"{topic}-0": {
            "topic": topic,
            "partition": 0,
            "remote": topic,
            "state": "running",
            "position": at,
            "until": end,
        }
        for topic, (at, end) in positions.items()
    }
    status.add(Report("run", 1, 0, 0, 1000, partitions, []))
    return status


@pytest.mark.parametrize(
    ("positions", "copied", "text"),
    [
        ({}, 0, "counting"),
        ({"a": (-1, 100), "b": (-1, 100)}, 0, "counting, 0 of 2 partitions"),
        ({"a": (0, 100), "b": (-1, 100)}, 0, "counting, 1 of 2 partitions"),
        (
            {"a": (50, 100), "b": (-1, 100)},
            50,
            "counting, 1 of 2 partitions, 50 records copied, 10 records/s, 1.0 kB/s",
        ),
        (
            {"a": (0, 100), "b": (0, 100)},
            0,
            "0 %, 0 records copied, 200 to go, 10 records/s, 1.0 kB/s, about 20 s left",
        ),
        ({"a": (100, 100), "b": (100, 100)}, 200, "100 %, 200 records copied"),
    ],
)
def test_texts(positions: dict[str, tuple[int, int]], copied: int, text: str) -> None:
    assert OnceProgress().text(flow(**positions).partitions.values(), (10.0, 1000.0), copied) == text


def test_the_percentage_is_of_the_initial_backlog() -> None:
    countdown = OnceProgress()
    found = [
        countdown.text(flow(a=(at, 200)).partitions.values(), (0.0, 0.0), at - 100).partition(",")[0]
        for at in (100, 125, 199, 200)
    ]
    assert found == ["0 %", "25 %", "99 %", "100 %"]
