"""`twinlog status` from a process of its own, about a real `twinlog run` that it shares nothing with but the clusters."""

import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from lab import batches
from lab.cluster import Cluster
from lab.ports import HOST, free_port
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from lab.waiting import until
from tests.cli.conftest import NOBODY, TWINLOG, commit, fill, twinlog, unchanged, write
from tests.http.conftest import Answer, send
from tests.runtime.conftest import Pair, Twin
from twinlog.journal.messages import journal_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SETTINGS = {
    "topics": "seen-orders, seen-large, seen-open",
    "groups": "seen-app",
    "tasks.max": "2",
    "sync.topic.configs.enabled": "false",  # or the limit that a test sets would not last
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}


def status(file: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    run = twinlog("status", file, "--json", *arguments)
    (flow,) = json.loads(run.stdout)["flows"]
    return run.returncode, dict(flow)


def until_code(file: Path, code: int, what: str, *arguments: str, seconds: float = 60) -> dict[str, Any]:
    """The first snapshot with that exit code."""
    found: list[tuple[int, dict[str, Any]]] = []

    def reached() -> bool:
        found.append(status(file, *arguments))
        return found[-1][0] == code and found[-1][1]["state"] != "starting"

    until(reached, what, seconds=seconds, logs=lambda: f"; status {found[-1][0]}: {found[-1][1]['health']}")
    return found[-1][1]


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    with RawProtocol(cluster.client_properties()) as wire:
        return {partition: wire.offsets(topic, partition)[1] for partition in wire.partitions(topic)}


@pytest.fixture(scope="module")
def pair(us: Cluster, eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(us, eu, tmp_path_factory.mktemp("status"))
    try:
        yield pair
    finally:
        pair.close()


@pytest.fixture(scope="module")
def file(pair: Pair, us: Cluster, eu: Cluster) -> Path:
    with eu.admin() as admin:
        exists = (journal := journal_topic("us")) in admin.list_topics()
    if exists:  # other tests have run a flow of this name
        eu.delete_topic(journal)
    us.create_topic("seen-orders", 3)
    us.create_topic("seen-large", 1)
    us.create_topic("seen-open", 1)
    eu.create_topic("us.seen-large", 1, configs={"max.message.bytes": "2000"})
    for partition in range(3):
        fill(us, "seen-orders", partition, 100 * (partition + 1))
    return pair.file(SETTINGS)


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def twin(pair: Pair, file: Path, port: int) -> Twin:
    return pair.run(file, "--port", str(port), "--log-format", "json")


def test_a_flow_that_is_not_running_has_a_backlog(file: Path, us: Cluster, eu: Cluster) -> None:
    with unchanged(us, eu):
        code, flow = status(file)
        text = twinlog("status", file)
    assert code == 4
    assert flow["state"] == "silent"
    assert "not running" in flow["health"]["reasons"][0]
    assert flow["lag"] == 600
    assert {(each["partition"], each["lag"]) for each in flow["partitions"] if each["topic"] == "seen-orders"} == {
        (0, 100), (1, 200), (2, 300),
    }  # fmt: skip
    assert text.returncode == 4
    assert "us->eu: BROKEN, silent" in text.stdout


def test_a_flow_that_has_caught_up_is_healthy(twin: Twin, file: Path, pair: Pair, us: Cluster, eu: Cluster) -> None:
    pair.wait_until_equal("seen-orders", seconds=180)
    flow = until_code(file, 0, "the flow should be healthy")
    assert flow["state"] == "running", flow
    assert (flow["lag"], flow["lag_seconds"]) == (0, 0.0)
    assert flow["records"] == 600
    assert flow["tasks"] == 2
    assert len(flow["executors"]) == 2
    assert flow["heartbeat_ms"] > time.time() * 1000 - 30_000
    known = {each["partition"]: each for each in flow["partitions"] if each["topic"] == "seen-orders"}
    assert {number: each["position"] for number, each in known.items()} == ends(us, "seen-orders")
    assert {number: each["end"] for number, each in known.items()} == ends(us, "seen-orders")
    assert {number: each["target"] for number, each in known.items()} == ends(eu, "us.seen-orders")
    assert {each["lane"] for each in known.values()} == {"fast"}
    assert twin.running


def test_groups_are_shown_on_both_sides(twin: Twin, file: Path, us: Cluster) -> None:
    def committed() -> bool:
        """The coordinator of a young cluster takes its time."""
        try:
            commit(us, "seen-app", "seen-orders", 40)
        except KafkaException:
            return False
        return True

    until(committed, "the group should have a position", seconds=60)
    fill(us, "seen-orders", 0, 50)

    def seen() -> dict[str, Any] | None:
        rows = [each for each in status(file, "--groups")[1]["groups"] if each["partition"] == 0]
        return rows[0] if rows and rows[0]["target_offset"] == 40 and rows[0]["target_end"] == 150 else None

    until(lambda: seen() is not None, "the group should be on both sides", seconds=90)
    row = seen()
    assert row is not None
    assert (row["group"], row["topic"], row["source_topic"]) == ("seen-app", "us.seen-orders", "seen-orders")
    assert (row["source_offset"], row["source_end"], row["source_lag"]) == (40, 150, 110)
    assert (row["checkpoint_offset"], row["target_offset"], row["target_lag"]) == (40, 40, 110)
    assert row["checkpoint_ms"] > time.time() * 1000 - 60_000
    text = twinlog("status", file, "--groups", "--topic", "seen-orders")
    assert text.returncode == 0, text.stdout
    assert "seen-app" in text.stdout
    assert "seen-orders -> us.seen-orders" in text.stdout
    assert twin.running


def test_a_topic_behind_an_open_transaction_lags_with_a_reason(twin: Twin, file: Path, us: Cluster) -> None:
    with RawProtocol(us.client_properties()) as wire:
        transactions = Transactions(wire, "seen-open")
        transactions.produce("seen-open", 0, [batches.Record(int(time.time() * 1000), None, b"x")])
        flow = until_code(file, 3, "an open transaction keeps a topic waiting", "--max-lag-seconds", "1")
        assert any("open transaction at offset 0" in each for each in flow["health"]["reasons"])
        (topic,) = [each for each in flow["topics"] if each["lag"]]
        assert (topic["topic"], topic["lag"]) == ("seen-open", 1)
        assert topic["lag_seconds"] >= 1
        assert status(file, "--max-lag-seconds", "600")[0] == 0
        transactions.commit()
    until_code(file, 0, "a committed transaction blocks nothing", "--max-lag-seconds", "1")
    assert twin.running


def test_a_live_view_follows(twin: Twin, file: Path, us: Cluster) -> None:
    watching = subprocess.Popen([TWINLOG, "status", file, "--watch", "--json"], stdout=subprocess.PIPE, text=True)
    impatient = threading.Timer(120, watching.kill)
    impatient.start()
    try:
        assert watching.stdout is not None
        before = json.loads(watching.stdout.readline())["flows"][0]["records"]
        fill(us, "seen-orders", 1, 25)
        for line in watching.stdout:
            flow = json.loads(line)["flows"][0]
            if flow["state"] == "running" and flow["records"] >= before + 25 and not flow["lag"]:
                break
        else:
            pytest.fail(f"it should see 25 records more than {before}, and none that waits; at last: {flow}")
    finally:
        impatient.cancel()
        watching.kill()
        watching.wait()
        assert watching.stdout is not None
        watching.stdout.close()
    assert twin.running


def test_it_is_paused_and_resumed_by_connects_api(twin: Twin, file: Path, us: Cluster, eu: Cluster, port: int) -> None:
    source = f"/connectors/{urllib.parse.quote('us->eu.MirrorSourceConnector')}"

    def request(method: str, path: str) -> Answer:
        return send(f"http://{HOST}:{port}", method, source + path)

    def state() -> str:
        return str(request("GET", "/status").json["connector"]["state"])

    copied = ends(us, "seen-orders")
    assert state() == "RUNNING"
    assert request("PUT", "/pause").status == 202
    until(lambda: state() == "PAUSED", "it should pause", seconds=60)
    fill(us, "seen-orders", 0, 5)
    refused = request("DELETE", "")
    assert refused.status == 403
    assert "twinlog serve" in refused.json["message"]
    stored = request("GET", "/offsets").json["offsets"]
    own = {
        each["partition"]["partition"]: each["offset"] for each in stored if each["partition"]["topic"] == "seen-orders"
    }
    assert own == {partition: {"offset": end - 1} for partition, end in copied.items()}, "stored before it pauses"
    assert ends(eu, "us.seen-orders") == copied
    assert request("PUT", "/resume").status == 202
    until(lambda: ends(eu, "us.seen-orders") == ends(us, "seen-orders"), "it should resume", logs=lambda: twin.output)
    until_code(file, 0, "the flow should be healthy again")


def test_a_stopped_partition_is_broken_with_a_remedy(twin: Twin, file: Path, us: Cluster) -> None:
    fill(us, "seen-large", 0, 1, size=5000)
    flow = until_code(file, 4, "a record that is refused should be seen")
    assert "change max.message.bytes of topic us.seen-large on eu" in flow["health"]["reasons"][0]
    run = twinlog("status", file, "--topic", "seen-large")
    assert run.returncode == 4
    assert "stopped" in run.stdout
    assert any(event["kind"] == "stopped" for event in flow["events"])
    assert twin.running


def test_a_stopped_flow_has_a_backlog(twin: Twin, file: Path, us: Cluster, port: int) -> None:
    before = status(file)[1]
    assert twin.terminate(60) == 0
    logged = [json.loads(line)["text"] for line in twin.output.splitlines()]
    assert [text for text in logged if f"http://{HOST}:{port}" in text]
    fill(us, "seen-orders", 2, 7)
    code, flow = status(file)
    assert (code, flow["state"]) == (4, "stopped")
    assert flow["health"]["reasons"][0].startswith("stopped ")
    assert {each["topic"]: each["lag"] for each in flow["topics"]} == {
        "seen-orders": 7,
        "seen-large": 1,
        "seen-open": 0,
    }
    assert (flow["run"], flow["records"]) == (before["run"], before["records"]), "counters are kept"


def test_an_unreachable_cluster_is_named_and_the_other_flow_is_shown(us: Cluster, eu: Cluster, tmp_path: Path) -> None:
    file = write(tmp_path, us=us.bootstrap(), eu=eu.bootstrap())
    more = f"gone.bootstrap.servers = {NOBODY}\nus->gone.enabled = true\nus->eu.topics = seen-nothing\n"
    file.write_text(file.read_text().replace("clusters = us, eu", "clusters = us, eu, gone") + "\n" + more)
    run = twinlog("status", file, "--json")
    assert run.returncode == 4
    flows = {flow["name"]: flow["health"]["reasons"] for flow in json.loads(run.stdout)["flows"]}
    assert "cluster gone cannot be reached" in flows["us->gone"][0]
    assert "cannot be reached" not in " ".join(flows["us->eu"])


def test_invalid_arguments(us: Cluster, eu: Cluster, tmp_path: Path) -> None:
    file = write(tmp_path, us=us.bootstrap(), eu=eu.bootstrap())
    assert twinlog("status", file, "--flow", "us->ap").returncode == 2
    assert twinlog("status", file, "--max-lag-seconds", "-1").returncode == 2
    file.write_text(file.read_text().replace("enabled = true", "enabled = false"))
    run = twinlog("status", file)
    assert run.returncode == 2
    assert "no flow replicates" in run.stderr
