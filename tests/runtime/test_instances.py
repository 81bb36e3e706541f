"""Several instances of one flow, as MM2 is often run: they must not take over from each other endlessly."""

import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.waiting import until
from tests.cli.conftest import twinlog
from tests.runtime.conftest import Pair, Twin
from twinlog.config import FlowConfig, load
from twinlog.config.properties import properties_text
from twinlog.errors import ReplicationError, SupersededError
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.query_runner import check_ready, is_running_elsewhere
from twinlog.runtime.status_publisher import FlowState, StatusPublisher
from twinlog.spark.planner import Planner
from twinlog.spark.writer import RelayWriter, TaskResult

pytestmark = pytest.mark.broker


class Instance:
    """A supervisor without its query: publishes its state, and ends after a takeover as a reader would."""

    def __init__(self, config: FlowConfig, host: str) -> None:
        self.flow = FlowRun(config, 1)
        self.flow.query = object()  # type: ignore[assignment]
        self._planner = Planner(config, self.flow.run, instance=f"{host}:1")
        self._publisher = StatusPublisher()
        self._killed = threading.Event()
        self._reporter = threading.Thread(target=self._report, daemon=True)
        self._reporter.start()
        self._planner.prepare()

    def _report(self) -> None:
        while not self._killed.wait(0.5):
            self._publisher.publish([FlowState(self.flow, "running")])

    def ended(self) -> str:
        """The error message if it was taken over."""
        if not self._planner.superseded():
            return ""
        self.kill()
        return self._planner.report_takeover()

    def kill(self) -> None:
        """It stops reporting, without a last report."""
        self._killed.set()
        self._reporter.join()

    def close(self) -> None:
        self.kill()
        self._publisher.close()
        self._planner.close()


def settings(pair: Pair, alias: str, topic: str) -> Path:
    """With another alias of the source, and so with a separate journal."""
    lines = {
        "clusters": f"{alias}, eu",
        f"{alias}.bootstrap.servers": pair.source.bootstrap(),
        "eu.bootstrap.servers": pair.target.bootstrap(),
        f"{alias}->eu.enabled": "true",
        "topics": topic,
        "heartbeats.replication.enabled": "false",
        "offset-syncs.topic.location": "target",
    }
    factors = (
        "",
        "offset.storage.",
        "status.storage.",
        "checkpoints.topic.",
        "heartbeats.topic.",
        "offset-syncs.topic.",
    )
    file = pair.folder / f"{alias}.properties"
    file.write_text(properties_text(lines | {f"{name}replication.factor": "1" for name in factors}))
    return file


@pytest.fixture
def config(pair: Pair, us: Cluster, topic: str) -> FlowConfig:
    us.create_topic(topic)
    return next(flow for flow in load([settings(pair, "nodes", topic)]).flows if flow.replicates)


@pytest.fixture
def instances() -> Iterator[list[Instance]]:
    found: list[Instance] = []
    yield found
    for each in found:
        each.close()


def test_restarted_instances_do_not_take_over_from_each_other_endlessly(
    pair: Pair, config: FlowConfig, instances: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd on three nodes: an instance that ends is restarted."""

    def start(host: str) -> Instance:
        monkeypatch.setattr("twinlog.runtime.query_runner.socket.gethostname", lambda: host)
        check_ready(config, uuid.uuid4().hex, take_over=False)
        instances.append(Instance(config, host))
        until(lambda: is_running_elsewhere(config), "it should report")
        return instances[-1]

    monkeypatch.setattr("twinlog.runtime.status_publisher._EVERY", 0.5)
    first = start("one")
    second = start("two")
    assert first.ended() == f"flow {config} was taken over by another instance (two:1); run each flow in one place"
    assert not second.ended(), "the takeover is final"
    with pytest.raises(
        ReplicationError, match=r"is running elsewhere \(two:1\): an instance on one was just superseded"
    ):
        start("one")
    with pytest.raises(ReplicationError, match=r"several instances contend for it .*or use --take-over"):
        start("three")
    assert_refused(pair.run(pair.folder / "nodes.properties"))
    assert not second.ended()

    # --take-over works, and the error of the other instance names the contenders.
    check_ready(config, uuid.uuid4().hex, take_over=True)
    instances.append(third := Instance(config, "three"))
    output = second.ended()
    assert output.startswith(
        f"flow {config} was taken over by another instance (three:1): several instances contend for it ("
    )
    assert not third.ended()

    # A killed instance has reported recently, but does not run: the next one may start.
    third.kill()
    for module in ("runtime.query_runner", "status.journal_follower"):
        monkeypatch.setattr(f"twinlog.{module}.SILENT_SECONDS", 3.0)
    start("one")


def assert_refused(twin: Twin) -> None:
    assert twin.wait(60) == 1
    assert twin.lines[-1].startswith("twinlog: flow ")
    assert "->eu is running elsewhere (" in twin.lines[-1]
    assert twin.lines[-1].endswith("; run each flow in one place, or use --take-over")
    assert not [line for line in twin.lines if "Spark" in line], "it is refused before anything is started"


def test_once_fails_when_another_instance_takes_over(config: FlowConfig, instances: list[Instance]) -> None:
    instances += [first := Instance(config, "one"), Instance(config, "two")]
    results = [
        TaskResult(0, "done", first.flow.run, once=True),
        TaskResult(1, "superseded", first.flow.run, once=True),
    ]
    with pytest.raises(SupersededError, match=r"was taken over by another instance \(two:1\)"):
        RelayWriter(config).commit(results, 1)
    RelayWriter(config).commit(results[:1], 1)


@pytest.mark.spark
@pytest.mark.slow
def test_a_third_instance_is_refused_and_status_shows_it(pair: Pair, us: Cluster) -> None:
    us.create_topic("contended", 2)
    pair.put("contended", 0, b"a record")
    file = settings(pair, "west", "contended")
    host = socket.gethostname()

    def start() -> Twin:
        twin = pair.run(file)
        twin.wait_for("west->eu: relaying", seconds=120)
        return twin

    first = start()
    second = start()
    assert first.wait(60) == 1
    taken = f"({host}:{second.process.pid})"
    assert (
        first.lines[-1]
        == f"twinlog: flow west->eu was taken over by another instance {taken}; run each flow in one place"
    )
    second.wait_for(f"took the flow over from {host}:{first.process.pid}, which was running")
    third = start()
    assert second.wait(60) == 1
    assert "several instances contend for it" in second.lines[-1]
    assert_refused(pair.run(file))
    assert third.running
    third.wait_for("was not allowed to take the flow over")

    def shown() -> bool:
        return "was not allowed to take the flow over" in twinlog("status", file).stdout

    until(shown, "status shows the refusal", seconds=60)
    until(lambda: pair.arrived("contended", "west") == 1, "the record should arrive")
    assert third.terminate() == 0
