"""`twinlog plan`: what it announces on real clusters, that it changes nothing, and that `twinlog run` then does it."""

import json
import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from lab.process import cleanup
from tests.cli.conftest import (
    NOBODY,
    TWINLOG,
    commit,
    everything,
    fill,
    planned,
    settings_file,
    twinlog,
    unchanged,
    write,
)
from tests.runtime.conftest import INSIDES, Pair


@pytest.mark.broker
def test_the_target_is_down(tmp_path: Path, us: Cluster) -> None:
    run = twinlog("plan", write(tmp_path, us=us.bootstrap(), eu=NOBODY))
    assert run.returncode == 1
    assert run.stderr.startswith("twinlog: cluster eu cannot be reached: 127.0.0.1:1: ")


def stage(folder: Path, us: Cluster, eu: Cluster, name: str) -> Path:
    """A topic that is new, one that must grow, one whose configs differ, one that is left out; and the file."""
    us.create_topic(f"{name}-new", 3, configs={"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    us.create_topic(f"{name}-grown", 4)
    us.create_topic(f"{name}-kept", 1, configs={"retention.ms": "86400001"})
    us.create_topic(f"{name}-left-out", 1)
    eu.create_topic(f"us.{name}-grown", 2)
    eu.create_topic(f"us.{name}-kept", 1, configs={"retention.ms": "86400002", "segment.ms": "86400003"})
    fill(us, f"{name}-new", 0, 50)
    fill(us, f"{name}-new", 2, 70)
    fill(us, f"{name}-grown", 3, 10)
    wanted = {"topics": f"{name}-.*", "topics.exclude": f"{name}-left-.*", "groups": f"{name}-.*"}
    return settings_file(folder, us, eu, wanted)


@pytest.mark.broker
def test_what_it_announces(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    file = stage(tmp_path, us, eu, "plan")
    commit(us, "plan-reader", "plan-new", 20)
    commit(us, "plan-stranger", "plan-left-out", 0)
    with unchanged(us, eu):
        found = planned(file)
        people = twinlog("plan", file)
    assert (people.returncode, people.stderr) == (0, "")
    assert "topics to be created on eu\n  plan-new  us.plan-new  3 partitions, 1 replica  120 rec" in people.stdout
    assert people.stdout.endswith("\nNothing was changed.\n")

    (new,) = found["created"]
    assert [new[key] for key in ("topic", "remote", "partitions", "replication_factor")] == [
        "plan-new",
        "us.plan-new",
        3,
        1,
    ]
    assert new["configs"] == {"retention.ms": "86400000", "cleanup.policy": "compact,delete"}
    assert new["records"] == 120
    assert 120 * 100 < new["bytes_about"] < 120 * 200
    there = {each["remote"]: (each["grows"], each["records"]) for each in found["there"]}
    assert there == {"us.plan-grown": (True, 10), "us.plan-kept": (False, 0)}
    assert found["records"] == 130
    changes = {(each["remote"], each["name"]): (each["now"], each["then"]) for each in found["configs"]}
    assert changes == {
        ("us.plan-kept", "retention.ms"): ("86400002", "86400001"),
        ("us.plan-kept", "segment.ms"): ("86400003", None),
    }
    assert found["groups"] == ["plan-reader"]
    reasons = {reason["reason"]: reason["names"] for reason in found["groups_left_out"]}
    assert "plan-stranger" in reasons["no committed offset in a topic of this flow"]
    assert ["plan-left-out"] in [reason["names"] for reason in found["left_out"]]
    assert not found["missing_rights"]
    assert not found["problems"]


def on_a_terminal(*arguments: str | Path, scratch: Path) -> tuple[int, list[str]]:
    """The exit code, and all successive texts of the progress line."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TWINLOG, "run", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    cleanup.add_process(process.pid)
    os.close(theirs)
    output = bytearray()

    def read() -> None:
        while True:
            try:
                output.extend(os.read(ours, 4096))
            except OSError:  # the terminal was closed
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        code = process.wait(120)
        reader.join(10)
    finally:
        process.kill()
        cleanup.remove_process(process.pid)
        os.close(ours)
    assert not [word for word in INSIDES if word in output.decode()], output
    return code, [line for line in re.split(r"\r\x1b\[K|\r?\n", output.decode()) if line.startswith("us->eu: ")]


@pytest.mark.broker
@pytest.mark.spark
def test_run_does_what_was_announced_and_shows_its_progress(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    file = stage(tmp_path, us, eu, "planned")
    pair = Pair(us, eu, tmp_path)
    try:
        feed = pair.feed("planned-kept", per_second=20_000)
        feed.flow()
        threading.Event().wait(1.0)
        feed.pause()
        found = planned(file)
        before = everything(eu)["topics"]
        code, shown = on_a_terminal(file, "--once", scratch=tmp_path)
    finally:
        pair.close()
    assert code == 0, shown
    _assert_progress(shown)
    assert found["records"] == feed.count + 130
    assert f"us->eu: 100 %, {found['records']:,} records copied" in shown
    after = everything(eu)["topics"]
    announced = {each["remote"]: each["partitions"] for each in (*found["created"], *found["there"])}
    assert {name: after[name] for name in announced} == announced
    internal = {each["topic"] for each in found["beside_the_records"] if each["cluster"] == "eu"}
    assert set(after) - set(before) - internal == {each["remote"] for each in found["created"]}

    again = planned(file)
    assert not again["created"]
    assert not [each for each in again["there"] if each["grows"]]
    assert (again["records"], again["bytes_about"], again["problems"]) == (0, 0, [])
    fill(us, "planned-new", 0, 5)
    more = planned(file)
    assert more["records"] == 5
    assert 5 * 100 < more["bytes_about"] < 5 * 200


def _assert_progress(shown: list[str]) -> None:
    """It counts before it shows a percentage."""
    assert shown[0] == "us->eu: counting"
    assert not [line for line in shown if "0 to go" in line and "%" not in line], shown
    counted = [at for at, line in enumerate(shown) if "%" in line]
    assert counted, shown
    assert not [line for line in shown[counted[0] :] if "counting" in line], shown


@pytest.mark.broker
def test_what_would_go_wrong(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    us.create_topic("plan-odd-a", 1)
    us.create_topic("plan-odd-b", 1)
    eu.create_topic("us.plan-odd-b", 3)
    file = settings_file(tmp_path, us, eu, {"topics": "plan-odd-.*, plan-odd-nowhere", "replication.factor": "3"})
    with unchanged(us, eu):
        found = planned(file)
    problems = "\n".join(found["problems"])
    assert "replication.factor is 3 (mm2.properties:" in problems
    assert "), but eu has 1 broker: 1 topic cannot be created" in problems
    assert "us.plan-odd-b has 3 partitions on eu, plan-odd-b only 1 on us: " in problems
    assert "topics lists plan-odd-nowhere, but us has no such topic" in problems


@pytest.mark.broker
def test_configs_that_the_target_would_refuse(tmp_path: Path, lab: Lab, eu: Cluster) -> None:
    """Kafka 4 has a larger minimum of segment.bytes than 3.9."""
    old = lab.clusters(ClusterSpec(name="aged", line="3.9"))[0]
    try:
        configs = {"segment.bytes": "100000", "retention.ms": "86400000"}
        for topic in ("plan-made", "plan-changed"):
            old.create_topic(topic, configs=configs)
        eu.create_topic("aged.plan-changed")
        file = settings_file(tmp_path, old, eu, {"topics": "plan-.*"})
        with unchanged(old, eu):
            found = planned(file, "aged->eu")
    finally:
        lab.discard(old)
    assert [each["configs"] for each in found["created"]] == [{"retention.ms": "86400000"}]
    assert [(each["name"], each["then"]) for each in found["configs"]] == [("retention.ms", "86400000")]
    assert len(found["problems"]) == 2
    assert found["problems"][0].startswith("aged.plan-made would be created without segment.bytes: ")
    assert found["problems"][1].startswith("aged.plan-changed would not get segment.bytes: ")


@pytest.mark.broker
def test_one_cluster_under_two_names(tmp_path: Path, us: Cluster) -> None:
    us.create_topic("plan-round", 1)
    text = (
        f"clusters = us, here\nus.bootstrap.servers = {us.bootstrap()}\nhere.bootstrap.servers = {us.bootstrap()}\n"
        "us->here.enabled = true\ntopics = plan-round\nreplication.factor = 1\nheartbeats.replication.enabled = false\n"
    )
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    with unchanged(us):
        found = planned(file, "us->here")
    assert [each["topic"] for each in found["created"]] == ["plan-round"]
    assert "us and here are the same cluster" in found["problems"][0]
    file.write_text(text + "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")
    with unchanged(us):
        found = planned(file, "us->here")
    assert not found["created"]
    assert not found["there"]
    assert "topic plan-round, which keeps its name," in found["problems"][0]


@pytest.mark.broker
def test_inspecting_unused_clusters_changes_nothing(tmp_path: Path) -> None:
    """A cluster creates __consumer_offsets on a request for a group's coordinator, and topics with auto-creation."""
    young = {"auto.create.topics.enable": "true"}
    with Lab() as lab:
        here, there = lab.clusters(ClusterSpec(name="here", settings=young), ClusterSpec(name="there", settings=young))
        here.create_topic("orders", 2)
        file = settings_file(
            tmp_path, here, there, {"topics": "orders, payments", "sync.group.offsets.enabled": "true"}
        )
        with unchanged(here, there):
            found = planned(file, "here->there")
            run = twinlog("why", file, "payments", "--look")
        assert [each["remote"] for each in found["created"]] == ["here.orders"]
        assert found["problems"] == ["topics lists payments, but here has no such topic"]
        assert "here->there: here has no topic payments (or it may not be described)" in run.stdout.splitlines()
        assert list(everything(here)["topics"]) == ["orders"]
        assert not everything(there)["topics"]


@pytest.mark.broker
def test_why_with_a_lookup_on_the_clusters(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    us.create_topic("look-orders", 2)
    eu.create_topic("us.look-orders", 2)
    commit(us, "look-orders", "look-orders", 0)  # a group of the same name
    file = settings_file(tmp_path, us, eu, {"topics": "look-.*"})
    with unchanged(us, eu):
        run = twinlog("why", file, "look-orders", "--look", "--flow", "us->eu")
        shown = json.loads(twinlog("why", file, "look-orders", "--look", "--flow", "us->eu", "--json").stdout)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert "us->eu: us has topic look-orders, with 2 partitions" in lines
    assert "us->eu: eu has topic us.look-orders, with 2 partitions" in lines
    assert "us->eu: eu has no topic look-orders (or it may not be described)" in lines
    assert "us->eu: us has group look-orders (Empty), with committed offsets in look-orders" in lines
    assert shown["flows"][0]["seen"]["group_topics"] == ["look-orders"]
