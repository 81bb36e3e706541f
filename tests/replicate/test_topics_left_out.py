"""Which topics a flow takes on real clusters: alias-named topics, replication cycles, control topics of the target."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from twinlog.config import FlowConfig, load
from twinlog.inspect.clusters import inspect_flow
from twinlog.inspect.plan import make
from twinlog.inspect.why import of_topic
from twinlog.spark.planner import Planner

pytestmark = pytest.mark.broker

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def _flow(folder: Path, us: Cluster, eu: Cluster, *lines: str) -> FlowConfig:
    file = folder / "mm2.properties"
    common = [
        "clusters = us, eu", f"us.bootstrap.servers = {us.bootstrap()}", f"eu.bootstrap.servers = {eu.bootstrap()}",
        "us->eu.enabled = true", "replication.factor = 1", "heartbeats.replication.enabled = false",
    ]  # fmt: skip
    file.write_text("\n".join([*common, *lines]))
    return next(flow for flow in load([file]).flows if flow.replicates)


def _taken(flow: FlowConfig) -> tuple[dict[str, str], Planner]:
    """Topic -> remote topic; and the planner (closed), with its events."""
    planner = Planner(flow, "run")
    try:
        return {assignment.tp.topic: assignment.remote.topic for assignment in planner.discover()}, planner
    finally:
        planner.close()


def test_a_topic_named_after_its_own_cluster_is_copied(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """MM2 up to 4.3 copies us.orders of us as us.us.orders; only 4.4 leaves it out (KAFKA-9914)."""
    name = f"us.{topic}"
    us.create_topic(name)
    with RawProtocol(us.client_properties()) as wire:
        wire.produce(name, 0, batches.encode([Record(1_700_000_000_000, b"k", b"v")]))
    flow = mirror(us, eu, name.replace(".", r"\\."), heartbeats__replication__enabled="false")
    copied = flow.copy()
    assert [(p.remote.topic, p.report.counters.records) for p in copied.relay.partitions] == [(f"us.us.{topic}", 1)]


def test_the_rule_of_4_4_is_a_setting(us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
    for name in (topic, f"us.{topic}"):
        us.create_topic(name)
    lines = [rf"topics = (us\\.)?{topic}"]
    assert _taken(_flow(tmp_path, us, eu, *lines))[0] == {topic: f"us.{topic}", f"us.{topic}": f"us.us.{topic}"}
    flow = _flow(tmp_path, us, eu, *lines, "twinlog.source.alias.topics = exclude")
    taken, planner = _taken(flow)
    assert taken == {topic: f"us.{topic}"}
    ((origin, cycle),) = planner.cycles.items()
    assert (origin, cycle.topics) == ("us", (f"us.{topic}",))
    assert "twinlog.source.alias.topics" in str(of_topic(flow, f"us.{topic}"))


def test_what_is_left_out_as_a_cycle_is_reported_once(us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
    """At run time and by plan; topics that are not selected are not reported."""
    for name in (topic, f"eu.{topic}", f"eu.{topic}-2", f"eu.{topic}-unwanted"):
        us.create_topic(name)
    flow = _flow(tmp_path, us, eu, rf"topics = {topic}, eu\\.{topic}, eu\\.{topic}-2")
    planner = Planner(flow, "run")
    try:
        assert {assignment.tp.topic for assignment in planner.discover()} == {topic}
        (event,) = planner.take_cycles()
        assert event["kind"] == "cycle"
        assert event["amount"] == 2
        assert f"eu.{topic}, eu.{topic}-2" in event["text"]
        assert "unwanted" not in event["text"]
        planner.discover()
        assert not planner.take_cycles()
    finally:
        planner.close()
    plan = make(flow, inspect_flow(flow, lambda _: None))
    (names,) = [names for reason, names in plan.left_out.items() if "copied from eu" in reason]
    assert set(names) >= {f"eu.{topic}", f"eu.{topic}-2"}


POLICY = """
class Flat:
    '''Keeps names, as a class ported from Java that knows nothing of Twinlog's own.'''
    twinlog_plugin = True
    def __init__(self, settings): self.alias = settings["source.cluster.alias"]
    def format_remote_topic(self, alias, topic): return topic
    def topic_source(self, topic): return {source}
    def upstream_topic(self, topic): return {upstream}
    def original_topic(self, topic): return topic
    def heartbeats_topic(self): return "heartbeats"
    def offset_syncs_topic(self, alias): return f"mm2-offset-syncs.{{alias}}.internal"
    def checkpoints_topic(self, alias): return f"{{alias}}.checkpoints.internal"
    def is_heartbeats_topic(self, topic): return topic == "heartbeats"
    def is_checkpoints_topic(self, topic): return topic.endswith(".checkpoints.internal")
    def is_mm2_internal_topic(self, topic): return False
    def is_internal_topic(self, topic): return False
"""


@pytest.mark.parametrize("rule", ["copy", "exclude"])
@pytest.mark.parametrize(
    ("source", "upstream"), [("self.alias", "topic"), ("self.alias", "None"), ("None", "None"), ("self.alias", "'x' + topic")]
)  # fmt: skip
def test_a_ported_policy_that_keeps_names(
    us: Cluster, eu: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, source: str, upstream: str
) -> None:  # fmt: skip
    module = f"ported_{abs(hash((source, upstream)))}"
    if upstream == "'x' + topic":  # names that change without end must not hang the flow either
        upstream = "'y' if topic == 'x' else 'x'"
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(POLICY.format(source=source, upstream=upstream)))
    monkeypatch.syspath_prepend(str(tmp_path))
    us.create_topic(topic)
    flow = _flow(
        tmp_path, us, eu, f"topics = {topic}", f"replication.policy.class = {module}:Flat", f"twinlog.source.alias.topics = {rule}"
    )  # fmt: skip
    assert _taken(flow)[0] == {topic: topic}


class TestControlTopics:
    """A source that holds a topic of such a name could steer Twinlog, or a Connect worker, on the target."""

    def test_of_the_worker_and_of_the_flows_themselves(
        self, us: Cluster, eu: Cluster, topic: str, tmp_path: Path
    ) -> None:
        control = [
            f"{topic}-configs", f"{topic}-offsets", f"{topic}-status", f"{topic}-own-offsets", "mm2-twinlog.us.internal",
            "mm2-offsets.asia.internal", "us_checkpoints_internal", "mm2-offset-syncs_us_internal",
        ]  # fmt: skip
        for name in (topic, *control):
            us.create_topic(name)
        flow = _flow(
            tmp_path, us, eu, f"replication.policy.class = {IDENTITY}", "replication.policy.separator = _",
            f"topics = {topic}.*, mm2.*, us_.*", "topics.exclude =", f"eu.config.storage.topic = {topic}-configs",
            f"eu.offset.storage.topic = {topic}-offsets", f"eu.status.storage.topic = {topic}-status",
            f"us->eu.offsets.storage.topic = {topic}-own-offsets", "offset-syncs.topic.location = target",
        )  # fmt: skip
        assert not set(control) & set(_taken(flow)[0])
        assert topic in _taken(flow)[0]
        for name in control[:4]:
            assert "control topic" in str(of_topic(flow, name)), str(of_topic(flow, name))
        left_out = make(flow, inspect_flow(flow, lambda _: None)).left_out
        assert {name for reason, names in left_out.items() if "control topic" in reason for name in names} >= set(
            control[:4]
        )

    def test_a_name_that_becomes_one_on_the_target(self, us: Cluster, eu: Cluster, tmp_path: Path) -> None:
        """Of us, `checkpoints.internal` is an ordinary topic; as us.checkpoints.internal it would move groups of eu."""
        us.create_topic("checkpoints.internal")
        flow = _flow(tmp_path, us, eu, r"topics = checkpoints\\.internal", "topics.exclude =")
        assert not _taken(flow)[0]
        assert "us.checkpoints.internal on eu is a control topic" in str(of_topic(flow, "checkpoints.internal"))

    def test_of_another_flow_into_the_same_cluster(self, tmp_path: Path) -> None:
        file = tmp_path / "mm2.properties"
        file.write_text(
            "clusters = us, asia, eu\nus.bootstrap.servers = a:1\nasia.bootstrap.servers = b:1\neu.bootstrap.servers = c:1\n"
            f"us->eu.enabled = true\nasia->eu.enabled = true\nreplication.policy.class = {IDENTITY}\n"
            "asia->eu.offsets.storage.topic = elsewhere\nasia->eu.replication.policy.separator = _\n"
        )
        (flow,) = [flow for flow in load([file]).flows if str(flow) == "us->eu"]
        answers = {name: of_topic(flow, name).yes for name in ("elsewhere", "asia_checkpoints_internal", "orders")}
        assert answers == {"elsewhere": False, "asia_checkpoints_internal": False, "orders": True}

    @pytest.mark.parametrize("separator", [".", "-", "_", "--"])
    def test_of_any_flow_by_their_names(self, tmp_path: Path, separator: str) -> None:
        file = tmp_path / "mm2.properties"
        file.write_text(
            "clusters = us, eu\nus.bootstrap.servers = a:1\neu.bootstrap.servers = c:1\nus->eu.enabled = true\n"
            f"replication.policy.class = {IDENTITY}\nreplication.policy.separator = {separator}\ntopics.exclude =\n"
        )
        (flow,) = [flow for flow in load([file]).flows if flow.replicates]
        families = ("mm2-offsets", "mm2-configs", "mm2-status", "mm2-offset-syncs", "mm2-twinlog")
        for one in {".", separator}:
            for family in families:
                assert not of_topic(flow, f"{family}{one}asia{one}internal").yes
        assert of_topic(flow, f"orders{separator}internal").yes

    def test_heartbeats_still_go(self, tmp_path: Path) -> None:
        file = tmp_path / "mm2.properties"
        file.write_text(
            "clusters = us, eu\nus.bootstrap.servers = a:1\neu.bootstrap.servers = c:1\nus->eu.enabled = true\n"
            f"replication.policy.class = {IDENTITY}\n"
        )
        (flow,) = [flow for flow in load([file]).flows if flow.replicates]
        assert of_topic(flow, "heartbeats").remote == "us.heartbeats"
        assert of_topic(flow, "asia.heartbeats").remote == "us.asia.heartbeats"
