"""The supervisor's and the screen's small decisions, without Spark and without brokers."""

from pathlib import Path

import pytest

from twinlog.config import load
from twinlog.errors import RelayError
from twinlog.pipeline.query import cause
from twinlog.runtime.choice import chosen
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.parts import shared
from twinlog.runtime.supervisor import Runtime
from twinlog.surface.run import Extent, Troubles
from twinlog.tracking.journal import Report

TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from Python
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/srv/twinlog/pipeline/datasource.py", line 1, in write
    raise {error}
{error}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TRACE.format(error="twinlog.errors.RelayError: topic x is not there"), "topic x is not there"),
        (TRACE.format(error="KeyError: 'epoch'"), "a bug: KeyError: 'epoch'"),
        ("Broken pipe\n\tat java.io.Socket", "a Python process of Spark's is gone"),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled\n\tat x", "[SPARK_JOB_CANCELLED] Job 3 cancelled"),
        ("", "without a reason"),
    ],
)
def test_a_trace_comes_down_to_one_line(text: str, line: str) -> None:
    assert cause(text) == line


def runtime(folder: Path, **tasks: int) -> Runtime:
    """Flows from each of these clusters to `hub`, with so many tasks."""
    lines = [f"clusters = hub, {', '.join(tasks)}", "hub.bootstrap.servers = h:1"]
    for alias, count in tasks.items():
        lines += [f"{alias}.bootstrap.servers = {alias}:1", f"{alias}->hub.enabled = true", f"{alias}->hub.tasks.max = {count}"]  # fmt: skip
    file = folder / "mm2.properties"
    file.write_text("\n".join(lines))
    return Runtime(chosen(load([file]), [], []), paths=[str(file)], master="local[n]")


@pytest.mark.parametrize(
    ("slots", "shares"),
    [(None, [1, 1, 1, 5]), (8, [1, 1, 1, 5]), (7, [1, 1, 1, 4]), (5, [1, 1, 1, 2]), (4, [1, 1, 1, 1])],
)
def test_slots_are_shared_so_that_every_flow_moves(tmp_path: Path, slots: int | None, shares: list[int]) -> None:
    found = runtime(tmp_path, a=1, b=1, c=1, d=5)
    said: list[str] = []
    given = shared(found._asked, slots)
    found._say_fewer(found._asked, given, lambda flow, text: said.append(f"{flow}: {text}"))
    assert [flow.tasks for flow in given] == shares
    assert len(said) == (0 < shares[3] < 5), "and it is said"


def test_a_flow_without_a_slot_would_never_move(tmp_path: Path) -> None:
    found = runtime(tmp_path, a=1, b=1)
    found._room.slots = 1
    with pytest.raises(RelayError, match="runs 1 tasks at a time, and each flow needs one"):
        found._fit()
    assert [flow.tasks for flow in shared(found._asked, 1)] == [1, 0], "where flows come and go, one waits"


@pytest.fixture
def flow(tmp_path: Path) -> FlowRun:
    return runtime(tmp_path, us=1).flows[0]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("twinlog.surface.run.time.monotonic", clock.monotonic)
    return clock


def tell(flow: FlowRun, epoch: int = 1, **errors: str) -> None:
    told = {name: {"topic": name, "partition": 0, "state": "recovering" if error else "running", "error": error} for name, error in errors.items()}  # fmt: skip
    flow.status.add(Report(flow.run, epoch, 0, 0, epoch * 60_000, told, []))


def test_trouble_is_told_when_it_lasts_and_when_it_is_over(flow: FlowRun, clock: Clock) -> None:
    troubles = Troubles()
    tell(flow, a="us: no leader", b="us: no leader")
    assert troubles.news(flow) == "", "a leader that moves is no news"
    clock.now += 4
    assert troubles.news(flow) == "2 partitions cannot go on: us: no leader"
    clock.now += 60
    assert troubles.news(flow) == "", "it is still so"
    tell(flow, a="")
    assert troubles.news(flow) == "1 partition cannot go on: us: no leader"
    tell(flow, b="")
    assert troubles.news(flow) == "all go on again"
    assert troubles.news(flow) == ""


def test_what_a_flow_carries_is_told_when_all_tasks_have_spoken(flow: FlowRun, clock: Clock) -> None:
    extent = Extent()
    assert extent.news(flow) == "", "it waits for topics"
    tell(flow, a="")
    assert extent.news(flow) == ""
    clock.now += 0.5
    tell(flow, b="")
    assert extent.news(flow) == "", "one more came, and more may come"
    clock.now += 1.5
    assert extent.news(flow) == "relaying 2 topics, 2 partitions"
    clock.now += 60
    assert extent.news(flow) == ""
