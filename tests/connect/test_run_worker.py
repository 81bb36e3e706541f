"""The Connect worker of `twinlog run`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config import load
from twinlog.connect.errors import ConnectError
from twinlog.connect.run_worker import RunWorker
from twinlog.runtime.components import Component, reconcile
from twinlog.runtime.flow_choice import heartbeat_flows, select_flows
from twinlog.runtime.supervisor import ComponentState, Supervisor

DEDICATED = """clusters = us, eu
us.bootstrap.servers = u:1
eu.bootstrap.servers = e:1
us->eu.enabled = true
us->eu.tasks.max = 2
us.sasl.jaas.config = ${file:SECRET:jaas}
us.security.protocol = SASL_PLAINTEXT
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
"""
SOURCE = "us->eu.MirrorSourceConnector"


def runtime_of(*paths: Path) -> Supervisor:
    config = load(paths)
    return Supervisor(
        select_flows(config, [], []), paths=list(map(str, paths)), heartbeat_flows=heartbeat_flows(config, [], [])
    )


@pytest.fixture
def runtime(tmp_path: Path) -> Supervisor:
    secret = tmp_path / "secret.properties"
    secret.write_text("jaas=org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=b;\n")
    file = tmp_path / "mm2.properties"
    file.write_text(DEDICATED.replace("SECRET", str(secret)))
    return runtime_of(file)


@pytest.fixture
def worker(runtime: Supervisor) -> RunWorker:
    return RunWorker(runtime, "127.0.0.1:8083")


def test_connectors_of_a_dedicated_file_are_named_as_in_strimzi(worker: RunWorker) -> None:
    kinds = ("Source", "Checkpoint", "Heartbeat")
    there = {f"us->eu.Mirror{kind}Connector" for kind in kinds}
    assert (
        there
        <= set(worker.names())
        <= there | {"eu->us.MirrorSourceConnector"} | {f"eu->us.Mirror{kind}Connector" for kind in kinds}
    )
    assert worker.connector(SOURCE)["name"] == worker.config(SOURCE)["name"] == SOURCE
    assert worker.config(SOURCE)["tasks.max"] == "2"


def test_resolved_references_are_not_shown(worker: RunWorker) -> None:
    shown = json.dumps([worker.connector(name) for name in worker.names()])
    assert "PlainLoginModule" not in shown
    assert "${file:" in shown


def test_before_spark_is_up(worker: RunWorker, runtime: Supervisor) -> None:
    assert worker.health()[0] == 503
    assert worker.status(SOURCE)["connector"]["state"] == "UNASSIGNED"
    runtime.up = True
    runtime.components = {Component("us->eu", "records"): ComponentState("running", tasks=2)}
    assert worker.health()[0] == 200
    assert [task["state"] for task in worker.status(SOURCE)["tasks"]] == ["RUNNING", "RUNNING"]
    assert worker.task_status(SOURCE, 1)["worker_id"] == "127.0.0.1:8083"


def test_only_the_paused_connector_stops(worker: RunWorker, runtime: Supervisor) -> None:
    def running() -> dict[Component, object]:
        return {Component(f.name, subject): f.fingerprint(subject) for f in runtime.desired for subject in f.subjects}

    before = running()
    worker.pause("us->eu.MirrorCheckpointConnector")
    steps = reconcile(before, runtime.desired)
    assert (steps.stop, steps.start) == ([Component("us->eu", "checkpoints")], [])
    worker.pause(SOURCE)
    assert {part.subject for part in reconcile(before, runtime.desired).stop} == {"checkpoints", "records", "topics"}
    assert worker.status(SOURCE)["connector"]["state"] == "PAUSED"
    worker.resume(SOURCE)
    worker.resume("us->eu.MirrorCheckpointConnector")
    assert running() == before


def test_a_connector_paused_by_its_file_cannot_be_resumed(tmp_path: Path) -> None:
    def connector(kind: str, **more: str) -> None:
        config = {
            "connector.class": f"Mirror{kind}",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": "a:1",
            "target.cluster.bootstrap.servers": "b:1",
        }
        (tmp_path / f"{kind}.json").write_text(json.dumps({"name": f"my-{kind}", "config": config, **more}))

    connector("Source")
    connector("Heartbeat", initial_state="PAUSED")
    worker = RunWorker(runtime_of(tmp_path), "h:1")
    assert sorted(worker.names()) == ["my-Heartbeat", "my-Source"]
    assert worker.status("my-Heartbeat")["connector"]["state"] == "PAUSED"
    with pytest.raises(ConnectError, match="paused by its file") as refused:
        worker.resume("my-Heartbeat")
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "change",
    [
        lambda worker: worker.create("x", {}),
        lambda worker: worker.put_config(SOURCE, {}),
        lambda worker: worker.patch_config(SOURCE, {}),
        lambda worker: worker.stop(SOURCE),
        lambda worker: worker.restart(SOURCE),
        lambda worker: worker.restart_task(SOURCE, 0),
        lambda worker: worker.delete(SOURCE),
        lambda worker: worker.alter_offsets(SOURCE, []),
        lambda worker: worker.reset_offsets(SOURCE),
        lambda worker: worker.reset_topics(SOURCE),
    ],
)
def test_other_changes_are_rejected(worker: RunWorker, change: Callable[[RunWorker], object]) -> None:
    with pytest.raises(ConnectError, match="twinlog serve") as refused:
        change(worker)
    assert refused.value.status == 403


def test_unknown_connectors(worker: RunWorker) -> None:
    for send in (worker.connector, worker.config, worker.status, worker.tasks, worker.pause, worker.offsets):
        with pytest.raises(ConnectError) as refused:
            send("nobody")
        assert refused.value.status == 404
    with pytest.raises(ConnectError, match="No status found for task"):
        worker.task_status(SOURCE, 9)
