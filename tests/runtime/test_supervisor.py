"""Decisions of the supervisor and of the run display, without Spark and brokers."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from twinlog.cli import run as cli_run
from twinlog.cli.main import cli
from twinlog.cli.run import Failures, FlowExtent, StoppedPartitions
from twinlog.config import Config, FlowConfig, load
from twinlog.errors import ConfigError, ReplicationError, UnauthorizedError, UnreachableError
from twinlog.journal.messages import Report
from twinlog.runtime import supervisor
from twinlog.runtime.components import share_slots
from twinlog.runtime.flow_choice import heartbeat_flows, select_flows, tasks_of
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.supervisor import Supervisor
from twinlog.spark.query import cause, failure_of

TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from Python
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/srv/twinlog/spark/datasource.py", line 1, in write
    raise {error}
{error}
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TRACE.format(error="twinlog.errors.ReplicationError: topic x does not exist"), "topic x does not exist"),
        (TRACE.format(error="KeyError: 'epoch'"), "internal error: KeyError: 'epoch'"),
        ("Broken pipe\n\tat java.io.Socket", "a Python process of Spark exited"),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled\n\tat x", "[SPARK_JOB_CANCELLED] Job 3 cancelled"),
        ("", "no reason given"),
    ],
)
def test_a_trace_is_reduced_to_one_line(text: str, line: str) -> None:
    assert cause(text) == line


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("twinlog.errors.UnauthorizedError: no", UnauthorizedError),
        ("twinlog.errors.ReplicationError: no", ReplicationError),
        ("twinlog.errors.Strange: no", None),
        ("KeyError: 'twinlog.errors.UnauthorizedError: no'", None),
    ],
)
def test_the_class_of_our_errors_is_found_in_a_trace(error: str, kind: type[Exception] | None) -> None:
    assert failure_of(TRACE.format(error=error)).kind is kind


def runtime(folder: Path, **tasks: int) -> Supervisor:
    """Flows from each of these clusters to `hub`, with so many tasks."""
    lines = [f"clusters = hub, {', '.join(tasks)}", "hub.bootstrap.servers = h:1"]
    for alias, count in tasks.items():
        lines += [f"{alias}.bootstrap.servers = {alias}:1", f"{alias}->hub.enabled = true", f"{alias}->hub.tasks.max = {count}"]  # fmt: skip
    file = folder / "mm2.properties"
    file.write_text("\n".join(lines))
    return Supervisor(select_flows(load([file]), [], []), paths=[str(file)], master="local[n]")


def test_an_unreachable_cluster_delays_only_its_own_flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in MM2. If no flow can start, the addresses are probably wrong: that is an error."""
    unreachable = {"a"}

    def ready(config: FlowConfig, run: str, *, take_over: bool) -> None:
        del run, take_over
        if config.flow.source in unreachable:
            raise UnreachableError(f"cluster {config.flow.source} cannot be reached")

    monkeypatch.setattr(supervisor, "check_ready", ready)
    found, output = runtime(tmp_path, a=1, b=1), list[tuple[str, str]]()
    found._check_ready(lambda flow, text: output.append((flow, text)))
    assert output == [("a->hub", "cluster a cannot be reached; starting the other flows, retrying this one")]
    assert {name: each._options.retry_start for name, each in found._runners.items()} == {
        "a->hub": True,
        "b->hub": False,
    }
    unreachable.add("b")
    with pytest.raises(UnreachableError):
        runtime(tmp_path, a=1, b=1)._check_ready(lambda *_: None)


class TestClusters:
    """Of MM2's --clusters."""

    FILE = """
clusters = us, eu, asia
us.bootstrap.servers = us:1
eu.bootstrap.servers = eu:1
asia.bootstrap.servers = asia:1
us->eu.enabled = true
us->asia.enabled = true
"""

    def read(self, folder: Path) -> Config:
        file = folder / "mm2.properties"
        file.write_text(self.FILE)
        return load([file])

    def test_a_node_that_only_emits_heartbeats(self, tmp_path: Path) -> None:
        config = self.read(tmp_path)
        assert select_flows(config, [], ["us"]) == []
        assert {str(flow) for flow in heartbeat_flows(config, [], ["us"])} == {"eu->us", "asia->us"}

    def test_unknown_cluster(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="--clusters x: no such cluster"):
            select_flows(self.read(tmp_path), [], ["x"])

    def test_several_clusters(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read(tmp_path)
        called: list[tuple[tuple[str, ...], list[str]]] = []

        def run(paths: tuple[str, ...], *, clusters: list[str], **others: object) -> None:
            called.append((paths, clusters))
            del others

        monkeypatch.setattr(cli_run, "run", run)
        file = str(tmp_path / "mm2.properties")
        for words in (
            ["--clusters", "eu", "asia"],
            ["--clusters", "eu,asia"],
            ["--clusters", "eu", "--clusters", "asia"],
        ):
            assert CliRunner().invoke(cli, ["run", file, *words]).exit_code == 0, words
        assert called == [((file,), ["eu", "asia"])] * 3
        CliRunner().invoke(cli, ["run", "missing.properties", "--clusters", "eu"])
        assert called[-1] == (("missing.properties",), ["eu"]), "a wrong path stays one"


@pytest.mark.parametrize(
    ("slots", "shares"),
    [(None, [1, 1, 1, 5]), (8, [1, 1, 1, 5]), (7, [1, 1, 1, 4]), (5, [1, 1, 1, 2]), (4, [1, 1, 1, 1])],
)
def test_slots_are_shared_so_that_every_flow_runs(tmp_path: Path, slots: int | None, shares: list[int]) -> None:
    found = runtime(tmp_path, a=1, b=1, c=1, d=5)
    output: list[str] = []
    given = share_slots(found._desired, slots)
    found._report_fewer_tasks(found._desired, given, lambda flow, text: output.append(f"{flow}: {text}"))
    assert [flow.tasks for flow in given] == shares
    assert len(output) == (0 < shares[3] < 5), "fewer tasks are reported"


@pytest.mark.parametrize(
    ("flows", "cores", "tasks"),
    [(1, 2, 2), (2, 2, 2), (4, 2, 1), (20, 2, 1), (1, 8, 4), (2, 8, 4), (8, 8, 2), (20, 8, 1)],
)
def test_many_flows_have_fewer_tasks_by_default(tmp_path: Path, flows: int, cores: int, tasks: int) -> None:
    file = tmp_path / "mm2.properties"
    lines = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
    file.write_text(lines)
    assert tasks_of(select_flows(load([file]), [], [])[0], flows, cores) == tasks
    file.write_text(f"{lines}tasks.max = 3\n")
    assert tasks_of(select_flows(load([file]), [], [])[0], flows, cores) == 3, "the operator's setting wins"


def test_every_flow_needs_a_slot(tmp_path: Path) -> None:
    found = runtime(tmp_path, a=1, b=1)
    found._slots.slots = 1
    with pytest.raises(ReplicationError, match="1 task slots for 2 flows, each flow needs one"):
        found._check_slots()
    assert [flow.tasks for flow in share_slots(found._desired, 1)] == [1, 0], "one flow waits"


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
    monkeypatch.setattr("twinlog.cli.run.time.monotonic", clock.monotonic)
    return clock


def add_report(flow: FlowRun, epoch: int = 1, **errors: str) -> None:
    partitions = {name: {"topic": name, "partition": 0, "state": "recovering" if error else "running", "error": error} for name, error in errors.items()}  # fmt: skip
    flow.status.add(Report(flow.run, epoch, 0, 0, epoch * 60_000, partitions, []))


def test_failures_are_logged_when_they_last_and_when_they_are_over(flow: FlowRun, clock: Clock) -> None:
    failures = Failures()
    add_report(flow, a="us: no leader", b="us: no leader")
    assert failures.update(flow) == "", "a leader election is not logged"
    clock.now += 4
    assert failures.update(flow) == "2 partitions failing, retrying: us: no leader"
    clock.now += 60
    assert failures.update(flow) == "", "unchanged"
    add_report(flow, a="")
    assert failures.update(flow) == "1 partition failing, retrying: us: no leader"
    add_report(flow, b="")
    assert failures.update(flow) == "all partitions recovered"
    assert failures.update(flow) == ""


def test_it_is_logged_that_a_stopped_partition_resumes(flow: FlowRun) -> None:
    stopped = StoppedPartitions()

    def reported(epoch: int, state: str, position: int) -> str:
        partition = {
            "topic": "t",
            "partition": 0,
            "state": state,
            "position": position,
            "end": 30,
            "error": "too large",
        }
        flow.status.add(Report(flow.run, epoch, 0, 0, epoch * 60_000, {"t-0": partition}, []))
        return stopped.update(flow)

    assert [reported(1, "running", 10), reported(1, "stopped", 10), reported(1, "recovering", 10)] == ["", "", ""]
    assert reported(1, "running", 20) == "t-0 resumed"
    assert reported(1, "running", 30) == ""


def test_the_extent_of_a_flow_is_logged_when_all_tasks_have_reported(flow: FlowRun, clock: Clock) -> None:
    extent = FlowExtent()
    assert extent.update(flow) == "", "it waits for topics"
    add_report(flow, a="")
    assert extent.update(flow) == ""
    clock.now += 0.5
    add_report(flow, b="")
    assert extent.update(flow) == "", "more may follow"
    clock.now += 1.5
    assert extent.update(flow) == "relaying 2 topics, 2 partitions"
    clock.now += 60
    assert extent.update(flow) == ""
