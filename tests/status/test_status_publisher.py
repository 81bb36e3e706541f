"""In which words a supervisor tells how a flow is."""

from dataclasses import replace

import pytest

from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.journal.messages import Report
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.status_publisher import FlowState


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> FlowConfig:
    file = tmp_path_factory.mktemp("publisher") / "mm2.properties"
    file.write_text(
        "clusters = us, eu\nus.bootstrap.servers = u:1\neu.bootstrap.servers = e:1\nus->eu.enabled = true\n"
    )
    return load([str(file)]).flows[0]


@pytest.mark.parametrize(
    ("doing", "state"),
    [
        ("starting", "starting"),
        ("running", "starting"),  # nothing was heard of its tasks yet
        ("retrying", "retrying"),
        ("failed", "stopped"),
        ("finished", "finished"),
        ("idle", "stopped"),
    ],
)
def test_each_thing_that_it_does_has_a_name(config: FlowConfig, doing: str, state: str) -> None:
    assert FlowState(FlowRun(config, 1), doing, config).state(0.0) == state


def test_it_runs_once_its_tasks_report_or_have_had_time_to(config: FlowConfig) -> None:
    flow = FlowRun(config, 1)
    news = FlowState(flow, "running", config)
    flow.status.add(Report(flow.run, -1, -1, 0, 1, {}, []))
    assert news.state(5.0) == "starting", "it was the planner"
    assert news.state(25.0) == "running", "there may be nothing to report"
    flow.status.add(Report(flow.run, 1, 0, 0, 1, {}, []))
    assert news.state(5.0) == "running"
    flow.run = flow.status.run = "another"
    assert news.state(5.0) == "starting", "its tasks begin anew"


def test_a_paused_connector_makes_a_paused_flow(config: FlowConfig) -> None:
    assert config.source is not None
    paused = replace(config, source=replace(config.source, state="paused"))
    assert FlowState(FlowRun(config, 1), "idle", paused).state(0.0) == "paused"
