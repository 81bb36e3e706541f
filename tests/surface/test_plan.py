"""`twinlog plan`: what it announces on real clusters, that it changes nothing, and that `twinlog run` then does it."""

import json
from pathlib import Path

import pytest
from tests.runtime.conftest import Pair
from tests.surface.conftest import NOBODY, commit, everything, fill, planned, settings_file, twinlog, unchanged, write

from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab


@pytest.mark.broker
def test_the_target_is_down(tmp_path: Path, us: Cluster) -> None:
    run = twinlog("plan", write(tmp_path, us=us.bootstrap(), eu=NOBODY))
    assert run.returncode == 1
    assert run.stderr.startswith("twinlog: cluster eu cannot be reached (127.0.0.1:1: ")


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
    assert (
        "topics that would be created on eu\n  plan-new  us.plan-new  3 partitions, 1 replica  120 rec" in people.stdout
    )
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
    assert "plan-stranger" in reasons["no position in a topic of this flow"]
    assert ["plan-left-out"] in [reason["names"] for reason in found["left_out"]]
    assert not found["missing_rights"]
    assert not found["problems"]


@pytest.mark.broker
@pytest.mark.spark
def test_run_does_what_was_announced(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
    file = stage(tmp_path, us, eu, "planned")
    found = planned(file)
    before = everything(eu)["topics"]
    pair = Pair(us, eu, tmp_path)
    try:
        assert pair.run(file, "--once").wait(90) == 0
    finally:
        pair.close()
    after = everything(eu)["topics"]
    announced = {each["remote"]: each["partitions"] for each in (*found["created"], *found["there"])}
    assert {name: after[name] for name in announced} == announced
    beside = {each["topic"] for each in found["beside_the_records"] if each["cluster"] == "eu"}
    assert set(after) - set(before) - beside == {each["remote"] for each in found["created"]}

    again = planned(file)
    assert not again["created"]
    assert not [each for each in again["there"] if each["grows"]]
    assert (again["records"], again["bytes_about"], again["problems"]) == (0, 0, [])
    fill(us, "planned-new", 0, 5)
    more = planned(file)
    assert more["records"] == 5
    assert 5 * 100 < more["bytes_about"] < 5 * 200


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
    assert "topics names plan-odd-nowhere, but us has no such topic" in problems


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
    assert "us and here are one cluster" in found["problems"][0]
    file.write_text(text + "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")
    with unchanged(us):
        found = planned(file, "us->here")
    assert not found["created"]
    assert not found["there"]
    assert "topic plan-round keeps its name" in found["problems"][0]


@pytest.mark.broker
def test_looking_at_clusters_that_nobody_has_used_yet_changes_nothing(tmp_path: Path) -> None:
    """A cluster makes __consumer_offsets when somebody asks for a group's coordinator; and topics, if it may."""
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
        assert found["problems"] == ["topics names payments, but here has no such topic"]
        assert "here->there: here has no topic payments (that we may see)" in run.stdout.splitlines()
        assert list(everything(here)["topics"]) == ["orders"]
        assert not everything(there)["topics"]


@pytest.mark.broker
def test_why_with_a_look_at_the_clusters(tmp_path: Path, us: Cluster, eu: Cluster) -> None:
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
    assert "us->eu: eu has no topic look-orders (that we may see)" in lines
    assert "us->eu: us has group look-orders (Empty), with a position in look-orders" in lines
    assert shown["flows"][0]["seen"]["group_topics"] == ["look-orders"]
