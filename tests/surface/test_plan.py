"""`twinlog plan`: what it announces on real clusters, that it changes nothing, and that `twinlog run` then does it."""

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePatternFilter,
    ResourceType,
)
from tests.runtime.conftest import Pair

from twinlog.config import FlowConfig
from twinlog.config.properties import properties_text
from twinlog.lab import batches
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.peer import mirror_properties
from twinlog.lab.wire import Wire
from twinlog.surface import plan as view
from twinlog.surface.progress import Progress
from twinlog.topology.acls import AclBinding
from twinlog.topology.plan import FlowPlan, KnownTopic, NewTopic, Reconfigured
from twinlog.topology.rights import CLUSTER, Missing, Resource
from twinlog.topology.sight import OwnTopic, Wait

TWINLOG = Path(sys.executable).with_name("twinlog")
NOBODY = "127.0.0.1:1"  # no port of that number is ever in use
ReadFlow = Callable[..., FlowConfig]


def twinlog(*arguments: str | Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    run = subprocess.run([TWINLOG, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=seconds)
    assert "Traceback" not in run.stderr, run.stderr
    return run


def planned(file: Path, flow: str = "us->eu") -> dict[str, Any]:
    run = twinlog("plan", file, "--flow", flow, "--json")
    assert run.returncode == 0, run.stderr
    (found,) = json.loads(run.stdout)["flows"]
    return dict(found)


def fill(cluster: Cluster, topic: str, partition: int, records: int, size: int = 100) -> None:
    with Wire(cluster.client_properties()) as wire:
        now = int(time.time() * 1000)
        some = [batches.Record(now, b"%d" % n, b"*" * size) for n in range(records)]
        wire.produce(topic, partition, batches.encode(some))


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**cluster.librdkafka_properties(), "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[Place(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def everything(cluster: Cluster) -> dict[str, Any]:
    """All that an operator could see of a cluster, by a client that is not ours."""
    with cluster.admin() as admin:
        topics = sorted(admin.list_topics())
        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]
        groups = admin.list_groups()
        return {
            "topics": {each["name"]: len(each["partitions"]) for each in admin.describe_topics(topics)},
            "configs": json.dumps(admin.describe_configs(wanted), default=str, sort_keys=True) if wanted else "",
            "groups": sorted(str(each) for each in groups),
            "acls": sorted(map(repr, _acls(admin)[0])) if cluster.spec.authorizer else [],
        }


def _acls(admin: Any) -> Any:
    pattern = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern))


@contextmanager
def unchanged(*clusters: Cluster) -> Iterator[None]:
    before = [everything(cluster) for cluster in clusters]
    yield
    assert [everything(cluster) for cluster in clusters] == before


# Without a cluster


class TestLook:
    @pytest.fixture
    def plan(self, read_flow: ReadFlow) -> FlowPlan:
        return FlowPlan(
            flow=read_flow(),
            own=(OwnTopic("source", "mm2-offset-syncs.B.internal", 1, 3, "offset-syncs.topic.replication.factor"),),
            created=(NewTopic("orders", "A.orders", 3, -1, {"retention.ms": "5"}, Wait(1200, 250_000)),),
            known=(KnownTopic("users", "A.users", 4, 2, Wait(1, None)), KnownTopic("logs", "A.logs", 1, 1, Wait(0, 0))),
            configs=(Reconfigured("A.users", "segment.ms", None, "7"), Reconfigured("A.users", "a", "1", None)),
            granted=(AclBinding("TOPIC", "A.orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"),),
            groups=tuple(f"g{number}" for number in range(7)),
            groups_left_out={"no position in a topic of this flow": ("idle",)},
            left_out={"topics.exclude has 'x.*' (the default)": ("x1", "x2")},
            missing=(
                Missing("source", tuple(Resource("topic", f"t{n}") for n in range(7)), ("READ",), ("to read records",)),
                Missing("target", (CLUSTER,), ("ALTER",), ("to copy ACLs",)),
            ),
            problems=("something is odd",),
        )

    def test_for_people(self, plan: FlowPlan) -> None:
        said = view.as_text([plan])
        assert [line.rstrip() for line in said.splitlines()] == [
            "A->B: replicates 3 topics, 8 partitions; 1,201 records wait, of unknown size",
            "============================================================================",
            "",
            "to be looked at",
            "  something is odd",
            "",
            "permissions that are missing",
            "  A: Read on topic t0, t1, t2, t3, t4 and 2 more (to read records)",
            "    kafka-acls --bootstrap-server a:1 --add --allow-principal User:... --operation Read --topic t0 --topic t1 --topic t2 --topic t3 --topic t4 ... (all of them with --json)",
            "  B: Alter on the cluster itself (to copy ACLs)",
            "    kafka-acls --bootstrap-server b:1 --add --allow-principal User:... --operation Alter --cluster",
            "",
            "topics that would be created on B",
            "  orders  A.orders  3 partitions, the broker's number of replicas  1,200 records wait, about 250.0 kB  retention.ms=5",
            "",
            "topics that would get more partitions on B",
            "  A.users  2 -> 4",
            "",
            "topic configs that would change on B",
            "  A.users  segment.ms  not set -> 7",
            "  A.users  a           1 -> not set",
            "",
            "ACLs that would be granted on B",
            "  ALLOW  User:alice  READ  A.orders  from *",
            "",
            "topics that are on B already",
            "  users  A.users  4 partitions  1 record waits, of unknown size",
            "  logs   A.logs   1 partition   nothing waits",
            "",
            "topics beside the records that would be created",
            "  mm2-offset-syncs.B.internal  on A  1 partition, 3 replicas",
            "",
            "consumer groups whose offsets would be translated",
            "  7 groups: g0, g1, g2, g3, g4 and 2 more",
            "  not translated: 1 group  no position in a topic of this flow: idle",
            "",
            "topics of A that are left out",
            "  2 topics  topics.exclude has 'x.*' (the default): x1, x2",
            "",
            "Nothing was changed.",
        ]

    def test_for_scripts_every_name_is_there(self, plan: FlowPlan) -> None:
        (flow,) = json.loads(view.as_json([plan]))["flows"]
        assert flow["flow"] == "A->B"
        assert (flow["records"], flow["bytes_about"]) == (1201, None)
        assert flow["created"][0]["configs"] == {"retention.ms": "5"}
        assert [(each["remote"], each["grows"]) for each in flow["there"]] == [("A.users", True), ("A.logs", False)]
        assert len(flow["groups"]) == 7
        assert len(flow["missing_rights"][0]["resources"]) == 7
        assert flow["missing_rights"][0]["remedy"].endswith(" --topic t6")
        assert flow["left_out"] == [{"reason": "topics.exclude has 'x.*' (the default)", "names": ["x1", "x2"]}]
        assert flow["problems"] == ["something is odd"]


def test_a_flow_that_replicates_nothing(read_flow: ReadFlow) -> None:
    flow = read_flow("A->B.enabled = false", "A->B.emit.heartbeats.enabled = true")
    assert view.as_text([FlowPlan(flow=flow)]).startswith("A->B: replicates nothing, emits heartbeats\n")


def test_a_sign_of_life_that_says_what_is_done() -> None:
    out = io.StringIO()
    seen = threading.Event()
    with Progress("twinlog plan", out, quiet=0.001, seldom=0.001) as progress:
        progress.step("topics of us")
        for _ in range(2000):
            if "twinlog plan: topics of us (" in out.getvalue():
                seen.set()
                break
            time.sleep(0.005)
    assert seen.is_set(), out.getvalue()


def test_nothing_is_said_of_what_does_not_last() -> None:
    out = io.StringIO()
    with Progress("twinlog plan", out, quiet=600) as progress:
        progress.step("topics of us")
    assert not out.getvalue()


def write(folder: Path, **servers: str) -> Path:
    file = folder / "mm2.properties"
    lines = [f"clusters = {', '.join(servers)}", *(f"{name}.bootstrap.servers = {at}" for name, at in servers.items())]
    first, second = servers
    file.write_text("\n".join([*lines, f"{first}->{second}.enabled = true"]))
    return file


def test_a_cluster_is_down(tmp_path: Path) -> None:
    for form in ([], ["--json"]):
        run = twinlog("plan", write(tmp_path, us=NOBODY, eu=NOBODY), *form)
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr == (
            "twinlog: cluster us cannot be reached (127.0.0.1:1: Connection refused): "
            "check us.bootstrap.servers, and that the brokers run\n"
        )


def test_a_wrong_call(tmp_path: Path) -> None:
    file = write(tmp_path, us=NOBODY, eu=NOBODY)
    for arguments, said in (
        (["plan"], "Missing argument"),
        (["plan", "nowhere.properties"], "no such file or folder"),
        (["plan", file, "--flow", "a->b"], "--flow a->b: no such flow"),
    ):
        run = twinlog(*arguments)
        assert run.returncode == 2
        assert said in run.stderr


# On real clusters


def settings_file(folder: Path, source: Cluster, target: Cluster, settings: Mapping[str, str]) -> Path:
    file = folder / "mm2.properties"
    settings = {"heartbeats.replication.enabled": "false", **settings}
    file.write_text(properties_text(mirror_properties([source, target], [(source, target)], settings)))
    return file


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


@pytest.mark.broker
@pytest.mark.spark
def test_rights_that_are_missing_and_those_that_suffice(tmp_path: Path, lab: Lab) -> None:
    """Both clusters are closed. What the plan asks for is granted, word for word; then the flow runs."""
    closed = [ClusterSpec(name=name, users=("alice",), authorizer=True) for name in ("inner", "outer")]
    inner, outer = lab.clusters(*closed)
    try:
        inner.create_topic("vault", 2)
        inner.create_topic("hall", 1)
        inner.grant("ANONYMOUS", "DESCRIBE", topic="hall")
        inner.grant("alice", "READ", topic="hall")
        file = settings_file(tmp_path, inner, outer, {"topics": "vault, hall", "groups": "nobody"})
        with unchanged(inner, outer):
            found = planned(file, "inner->outer")
        asked = _asked(found)
        assert ("inner", "topic", "vault", "Read") in asked  # it may not even be seen
        assert ("inner", "topic", "hall", "Read") in asked
        assert ("inner", "topic", "hall", "DescribeConfigs") in asked
        assert ("inner", "cluster", "", "Describe") in asked
        assert ("outer", "topic", "inner.hall", "Create") in asked
        assert ("outer", "topic", "inner.hall", "Write") in asked
        assert ("outer", "topic", "mm2-offsets.inner.internal", "Create") in asked
        people = twinlog("plan", file, "--flow", "inner->outer").stdout
        assert (
            f"kafka-acls --bootstrap-server {inner.bootstrap()} --add --allow-principal User:... --operation" in people
        )
        rounds = 0
        while asked:
            rounds += 1
            assert rounds <= 4, asked
            _grant({"inner": inner, "outer": outer}, asked)
            found = planned(file, "inner->outer")
            asked = _asked(found)
        assert sorted(each["topic"] for each in found["created"]) == ["hall", "vault"]
        assert not found["problems"]
        granted = {(each["principal"], each["operation"], each["name"]) for each in found["acls"]}
        assert ("User:alice", "READ", "inner.hall") in granted

        with Wire(inner.client_properties()) as wire:
            inner.grant("ANONYMOUS", "WRITE", topic="vault")
            wire.produce("vault", 1, batches.encode([batches.Record(1_700_000_000_000, None, b"gold")]))
        pair = Pair(inner, outer, tmp_path)
        try:
            twin = pair.run(file, "--once", "--flow", "inner->outer")
            assert twin.wait(90) == 0, twin.said
        finally:
            pair.close()
        assert "uthoriz" not in twin.said
        assert everything(outer)["topics"]["inner.vault"] == 2
    finally:
        lab.discard(inner)
        lab.discard(outer)


def _asked(found: Mapping[str, Any]) -> set[tuple[str, str, str, str]]:
    return {
        (each["cluster"], resource["kind"], resource["name"], operation)
        for each in found["missing_rights"]
        for resource in each["resources"]
        for operation in each["operations"]
    }


def _grant(clusters: Mapping[str, Cluster], asked: set[tuple[str, str, str, str]]) -> None:
    for alias, kind, name, operation in asked:
        word = "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).strip("_").upper()
        clusters[alias].grant("ANONYMOUS", word, **{kind: name or "kafka-cluster"})
