"""`twinlog serve` in place of a Kafka Connect worker: with its file, port and topics.

The tests depend on each other, in order: a real worker, two instances of `twinlog serve`, the real worker again.
Connectors are created, changed, paused and deleted, and the replicated topics are compared throughout.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lab.cluster import Cluster
from lab.compare_logs import compare
from lab.end_offsets import EndOffsets
from lab.lab import Lab
from lab.ports import free_port
from lab.process import cleanup
from lab.waiting import until
from twinlog.config.properties import properties_text

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TWINLOG = Path(sys.executable).with_name("twinlog")
MIRROR = "org.apache.kafka.connect.mirror."
GROUP = "story-connect"
SECRET = "swordfish"


class World:
    """Two clusters, a Connect worker, and consecutive instances of `twinlog serve`."""

    def __init__(self, lab: Lab, us: Cluster, eu: Cluster, folder: Path) -> None:
        self.us, self.eu, self.folder = us, eu, folder
        self._ends = contextlib.ExitStack()
        self.source_ends = self._ends.enter_context(EndOffsets(us))
        self.target_ends = self._ends.enter_context(EndOffsets(eu))
        self._producer = Producer({**us.librdkafka_properties(), "acks": "all"})
        self._processes: list[subprocess.Popen[bytes]] = []
        providers = {
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
        self.connect = lab.connect_worker({**eu.client_properties(), **providers}, GROUP)
        self.file = folder / "connect-distributed.properties"
        self.file.write_text(properties_text(self.connect.properties))
        self.port = self.connect.port

    def launch(self, *options: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"serve-{len(self._processes)}.err"
        scratch = self.folder / f"scratch-{len(self._processes)}"
        scratch.mkdir()
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [TWINLOG, "serve", str(self.file), *options],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(scratch)},
                start_new_session=True,
            )
        cleanup.add_process(process.pid)
        self._processes.append(process)
        return process

    def start(self, *options: str) -> None:
        process = self.launch(*options)
        until(
            lambda: self._health() == 200,
            "twinlog serve should be up",
            seconds=120,
            failed=lambda: None if process.poll() is None else f"it ended:\n{self.log}",
            logs=lambda: f"; its log:\n{self.log}",
        )

    @property
    def log(self) -> str:
        return (self.folder / f"serve-{len(self._processes) - 1}.err").read_text()

    @property
    def scratch(self) -> Path:
        return self.folder / f"scratch-{len(self._processes) - 1}"

    def terminate(self, instance: int = -1) -> int:
        self._processes[instance].send_signal(signal.SIGTERM)
        return self._processes[instance].wait(40)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            cleanup.remove_process(process.pid)
        del self._producer
        self._ends.close()

    def _health(self) -> int:
        try:
            return self.send("GET", "/health")[0]
        except OSError:
            return 0

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                content = answer.read()
                return answer.status, json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            with error:
                content = error.read()
                return error.code, json.loads(content) if content else None

    def states(self, name: str) -> list[str]:
        code, status = self.send("GET", f"/connectors/{name}/status")
        if code != 200:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def wait_for(self, name: str, *states: str) -> None:
        until(
            lambda: self.states(name) == list(states),
            f"{name} should be {states}",
            seconds=180,
            logs=lambda: f"; it is {self.send('GET', f'/connectors/{name}/status')}; log of serve:\n{self.log}",
        )

    def produce(self, topic: str, count: int, partition: int = 0) -> None:
        for number in range(count):
            self._producer.produce(topic, key=f"{number}", value=f"value {number}", partition=partition)
        self._producer.flush()

    def arrived(self, topic: str) -> list[int]:
        return self.target_ends.each(f"us.{topic}")

    def wait_until_arrived(self, topic: str, *ends: int) -> None:
        until(
            lambda: self.arrived(topic) == list(ends),
            f"us.{topic} should have {ends}",
            seconds=180,
            logs=lambda: f"; it has {self.arrived(topic)}; log of serve:\n{self.log}",
        )

    def wait_until_equal(self, topic: str) -> None:
        self.wait_until_arrived(topic, *self.source_ends.each(topic))
        found = compare(self.us.client_properties(), topic, self.eu.client_properties(), f"us.{topic}")
        assert not found.differences, found.differences[0]

    def connector(self, topic: str, kind: str = "MirrorSource", **more: str) -> dict[str, str]:
        return {
            "connector.class": f"{MIRROR}{kind}Connector",
            "source.cluster.alias": "us",
            "target.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": self.us.bootstrap(),
            "target.cluster.bootstrap.servers": self.eu.bootstrap(),
            "topics": topic,
            "tasks.max": "2",
            "heartbeats.replication.enabled": "false",
            "refresh.topics.interval.seconds": "5",
            **dict.fromkeys(
                (
                    "replication.factor",
                    "offset-syncs.topic.replication.factor",
                    "heartbeats.topic.replication.factor",
                    "checkpoints.topic.replication.factor",
                ),
                "1",
            ),
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def records(self, topic: str) -> dict[str, Any]:
        """The last value of each key, read by another client."""
        consumer = Consumer({**self.eu.librdkafka_properties(), "group.id": "reader", "enable.partition.eof": True})
        count = len(self.target_ends.each(topic))
        found: dict[str, Any] = {}
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
            ended = 0
            while ended < count:
                message = consumer.poll(10)
                assert message is not None
                if message.error():
                    ended += 1
                else:
                    value = message.value()
                    found[(message.key() or b"").decode()] = json.loads(value) if value is not None else None
        finally:
            consumer.close()
        return found


@pytest.fixture(scope="module")
def world(lab: Lab, us: Cluster, eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(lab, us, eu, tmp_path_factory.mktemp("serve"))
    try:
        for topic in ("story-old", "story-a", "story-b"):
            us.create_topic(topic, partitions=2)
        yield world
    finally:
        world.close()


def test_it_does_not_start_while_a_connect_worker_runs(world: World) -> None:
    world.produce("story-old", 60, 0)
    world.produce("story-old", 40, 1)
    world.connect.put("old", world.connector("story-old"))
    world.wait_until_equal("story-old")
    refused = world.launch()
    assert refused.wait(60) == 2, world.log
    assert f"group.id {GROUP}: a Kafka Connect worker of this group is running" in world.log


def test_it_takes_over_the_connectors(world: World) -> None:
    world.connect.stop()
    world.produce("story-old", 10, 0)
    world.start()
    assert world.send("GET", "/connectors") == (200, ["old"])
    world.wait_until_equal("story-old")
    world.wait_for("old", "RUNNING", "RUNNING", "RUNNING")


def test_a_created_connector_replicates(world: World) -> None:
    world.produce("story-a", 100, 0)
    world.produce("story-a", 50, 1)
    code, made = world.send("POST", "/connectors", {"name": "a", "config": world.connector("story-a")})
    assert code == 201, made
    assert (made["name"], made["type"], made["tasks"]) == ("a", "source", [])
    world.wait_until_equal("story-a")
    world.wait_for("a", "RUNNING", "RUNNING", "RUNNING")

    def assigned() -> list[str]:
        _, tasks = world.send("GET", "/connectors/a/tasks")
        return sorted(task["config"].get("task.assigned.partitions", "") for task in tasks)

    until(lambda: assigned() == ["story-a-0", "story-a-1"], "tasks should report their partitions", seconds=60)
    until(
        lambda: world.send("GET", "/connectors/a/topics")[1] == {"a": {"topics": ["us.story-a"]}},
        "its topics",
        seconds=60,
    )


def test_a_second_connector_runs(world: World) -> None:
    secret = world.folder / "secrets.properties"
    secret.write_text(f"password={SECRET}\ntopics=story-b\n")
    secret.chmod(0o600)
    config = {**world.connector("${file:" + str(secret) + ":topics}"), "tasks.max": "1"}
    code, made = world.send("PUT", "/connectors/b/config", config)
    assert code == 201, made
    world.produce("story-b", 20, 0)
    world.wait_until_equal("story-b")
    _, shown = world.send("GET", "/connectors/b/config")
    assert shown["topics"].startswith("${file:"), "references are not resolved"
    assert {flow["name"] for flow in flows(world)} == {"us->eu", "us->eu (a)", "us->eu (b)"}


def flows(world: World) -> list[dict[str, Any]]:
    _, answer = world.send("GET", "/twinlog/flows")
    found: list[dict[str, Any]] = answer["flows"]
    return found


def test_pausing_one_connector_does_not_affect_others(world: World) -> None:
    before = {flow["name"]: flow["run"] for flow in flows(world)}
    assert world.send("PUT", "/connectors/a/pause") == (202, None)
    world.wait_for("a", "PAUSED", "PAUSED", "PAUSED")
    world.produce("story-a", 30, 0)
    world.produce("story-b", 30, 0)
    world.wait_until_equal("story-b")
    assert world.arrived("story-a") == [100, 50]
    assert world.send("PUT", "/connectors/a/resume") == (202, None)
    world.wait_until_equal("story-a")
    after = {flow["name"]: flow["run"] for flow in flows(world)}
    assert after["us->eu (b)"] == before["us->eu (b)"], "it was not restarted"
    assert after["us->eu"] == before["us->eu"]
    assert after["us->eu (a)"] != before["us->eu (a)"]


def test_a_changed_connector_uses_the_new_configuration(world: World, us: Cluster) -> None:
    us.create_topic("story-c", partitions=1)
    world.produce("story-c", 10)
    code, changed = world.send("PATCH", "/connectors/a/config", {"topics": "story-a,story-c", "tasks.max": "1"})
    assert (code, changed["config"]["topics"]) == (200, "story-a,story-c")
    world.wait_until_equal("story-c")
    world.wait_until_equal("story-a")
    world.wait_for("a", "RUNNING", "RUNNING")


def test_offsets_are_altered_only_while_stopped(world: World) -> None:
    entry = {"partition": {"topic": "story-a", "partition": 0, "cluster": "us"}, "offset": {"offset": 119}}
    code, refused = world.send("PATCH", "/connectors/a/offsets", {"offsets": [entry]})
    assert code == 400, refused
    assert "STOPPED" in refused["message"]
    assert world.send("PUT", "/connectors/a/stop") == (204, None)
    code, answer = world.send("PATCH", "/connectors/a/offsets", {"offsets": [entry]})  # waits until it has stopped
    assert code == 200, answer
    assert world.states("a") == ["STOPPED"]
    _, stored = world.send("GET", "/connectors/a/offsets")
    known = {(each["partition"]["topic"], each["partition"]["partition"]): each["offset"] for each in stored["offsets"]}
    assert known == {("story-a", 0): {"offset": 119}, ("story-a", 1): {"offset": 49}, ("story-c", 0): {"offset": 9}}


def test_the_next_record_is_the_one_after_the_altered_offset(world: World) -> None:
    assert world.send("PUT", "/connectors/a/resume")[0] == 202
    world.wait_until_arrived("story-a", 140, 50)  # only 120 to 129 are replicated again
    assert world.arrived("story-c") == [10]
    world.produce("story-a", 5, 0)
    world.produce("story-a", 5, 1)
    world.wait_until_arrived("story-a", 145, 55)


def test_after_a_reset_it_starts_from_the_beginning(world: World) -> None:
    assert world.send("PUT", "/connectors/a/stop")[0] == 204
    code, answer = world.send("DELETE", "/connectors/a/offsets")
    assert code == 200, answer
    assert world.send("GET", "/connectors/a/offsets")[1] == {"offsets": []}
    assert world.send("PUT", "/connectors/a/resume")[0] == 202
    world.wait_until_arrived("story-a", 145 + 135, 55 + 55)
    world.wait_until_arrived("story-c", 20)


def test_a_failing_connector_does_not_affect_others(world: World) -> None:
    away = world.connector("story-b", source_cluster_alias="away", source_cluster_bootstrap_servers="127.0.0.1:1")
    assert world.send("PUT", "/connectors/away/config", away)[0] == 201
    until(lambda: world.states("away") == ["FAILED"], "it should fail", seconds=60)
    _, status = world.send("GET", "/connectors/away/status")
    assert "cluster away cannot be reached" in status["connector"]["trace"]
    world.produce("story-b", 5, 1)
    world.wait_until_equal("story-b")
    assert world.send("DELETE", "/connectors/away") == (204, None)
    assert world.send("GET", "/connectors/away/status")[0] == 404


def test_rejected_requests(world: World) -> None:
    config = world.connector("story-a")
    assert world.send("POST", "/connectors", {"name": "a", "config": config})[0] == 409
    assert world.send("PUT", "/connectors/x/config", {**config, "tasks.max": "many"})[0] == 400
    assert world.send("PUT", "/connectors/x/config", {**config, "connector.class": "io.example.Sink"})[0] == 400
    assert world.send("PUT", "/connectors/x/config", {**config, "name": "y"})[0] == 400
    for method, path in (
        ("GET", "/connectors/x"),
        ("GET", "/connectors/x/status"),
        ("PUT", "/connectors/x/pause"),
        ("POST", "/connectors/x/restart"),
        ("POST", "/connectors/a/tasks/9/restart"),
        ("DELETE", "/connectors/x"),
        ("GET", "/connectors/x/offsets"),
    ):
        assert world.send(method, path)[0] == 404, path
    assert world.send("GET", "/connectors")[1] == ["old", "a", "b"]


def test_a_restarted_connector_resumes(world: World) -> None:
    before = {flow["name"]: flow["run"] for flow in flows(world)}
    code, answer = world.send("POST", "/connectors/b/restart?includeTasks=true&onlyFailed=false")
    assert code == 202
    assert answer["connector"]["state"] == "RESTARTING"
    until(
        lambda: {f["name"]: f["run"] for f in flows(world)}["us->eu (b)"] != before["us->eu (b)"],
        "a new run",
        seconds=60,
    )
    world.produce("story-b", 5, 0)
    world.wait_until_equal("story-b")


def test_records_in_the_worker_topics(world: World) -> None:
    configs = world.records(f"{GROUP}-configs")
    assert configs["connector-a"]["properties"]["topics"] == "story-a,story-c"
    assert configs["connector-a"]["properties"]["name"] == "a"
    assert configs["target-state-a"] == {"state": "STARTED", "state.v2": "STARTED"}
    assert configs["connector-away"] is None
    assert SECRET not in json.dumps(configs)

    def reported() -> bool:
        states = world.records(f"{GROUP}-statuss")
        return (
            states.get("status-connector-a", {}).get("state") == "RUNNING"
            and states.get("status-task-b-0", {}).get("worker_id") == f"127.0.0.1:{world.port}"
            and not states.get("status-connector-away")
            and "status-topic-us.story-b:connector-b" in states
        )

    until(reported, "states should be in the status topic", seconds=60)


def test_only_this_user_can_read_its_files(world: World) -> None:
    files = [path for path in world.scratch.rglob("connectors/*/*") if path.is_file()]
    assert files
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*files, *{path.parent for path in files}))
    assert len({path.parent for path in files}) <= 1 + len(flows(world)), "old ones are removed"


def test_a_second_instance_takes_over(world: World) -> None:
    """Configurations outlive a process, and two instances do not replicate the same flow."""
    _, before = world.send("GET", "/connectors/a/config")
    topics = world.send("GET", "/connectors/a/topics")
    at = world.arrived("story-a")
    assert world.send("PUT", "/connectors/b/pause")[0] == 202
    world.wait_for("b", "PAUSED", "PAUSED")
    first, world.port = world.port, free_port()
    world.start("--port", str(world.port))
    assert world.send("GET", "/connectors/a/config") == (200, before)
    assert world.send("GET", "/connectors/a/topics") == topics, "they are stored"
    second, world.port = world.port, first
    until(lambda: "FAILED" in world.states("a"), "the first should stop", seconds=180)
    _, status = world.send("GET", "/connectors/a/status")
    assert "flow us->eu (a) was taken over by another instance (" in status["tasks"][0]["trace"]
    assert world.terminate(-2) == 0
    world.port = second
    world.produce("story-a", 40, 1)
    world.wait_until_arrived("story-a", at[0], at[1] + 40)
    until(lambda: world.states("a")[0] == "RUNNING", "it should run", seconds=60)
    world.wait_for("b", "PAUSED", "PAUSED")
    world.wait_until_equal("story-old")


def test_the_other_two_connectors(world: World) -> None:
    assert world.send("PUT", "/connectors/beat/config", world.connector("x", "MirrorHeartbeat"))[0] == 201
    assert world.send("PUT", "/connectors/check/config", world.connector("x", "MirrorCheckpoint"))[0] == 201
    world.wait_for("beat", "RUNNING", "RUNNING")
    world.wait_for("check", "RUNNING")  # without a consumer group it has no task, as in Connect
    count = world.target_ends.each("heartbeats")
    until(lambda: world.target_ends.each("heartbeats") > count, "heartbeats should be sent", seconds=30)
    assert world.send("PUT", "/connectors/beat/pause")[0] == 202
    world.wait_for("beat", "PAUSED", "PAUSED")
    time.sleep(0.2)  # one may be in flight
    count = world.target_ends.each("heartbeats")
    time.sleep(2.5)
    assert world.target_ends.each("heartbeats") == count
    world.wait_for("check", "RUNNING")  # without a consumer group it has no task, as in Connect


def test_deleted_connectors_are_gone(world: World) -> None:
    for name in ("a", "b", "beat", "check"):
        assert world.send("DELETE", f"/connectors/{name}") == (204, None)
    assert world.send("GET", "/connectors") == (200, ["old"])
    until(lambda: [flow["name"] for flow in flows(world)] == ["us->eu"], "one flow should be left", seconds=60)
    assert world.send("PUT", "/connectors/old/stop")[0] == 204
    world.wait_for("old", "STOPPED")
    assert world.terminate() == 0, world.log
    assert "Traceback" not in world.log
    assert SECRET not in world.log
    assert world.records(f"{GROUP}-statuss")["status-connector-old"]["state"] == "UNASSIGNED"


def test_the_real_worker_resumes(world: World) -> None:
    world.produce("story-old", 30, 1)
    world.connect.start()
    until(lambda: world.connect.connectors() == ["old"], "it should read its topic", seconds=60)
    until(lambda: world.connect.status("old")["connector"]["state"] == "STOPPED", "it was stopped", seconds=60)
    offsets = world.connect.call("GET", "/connectors/old/offsets")["offsets"]
    assert {each["partition"]["partition"]: each["offset"]["offset"] for each in offsets} == {0: 69, 1: 39}
    world.connect.call("PUT", "/connectors/old/resume")
    world.wait_until_equal("story-old")
    world.connect.stop()
