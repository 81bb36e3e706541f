"""Which topics go, under which names, and the sentence that says why: sections 2.2 and 2.6 to 2.8."""

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig, load
from twinlog.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mm2.selection import (
    ConfigFilter,
    TopicFilter,
    TopicSelection,
    checkpoint_topics_of,
    config_filter_of,
    group_selection_of,
    offset_syncs_location,
    selection_of,
)
from twinlog.model import Flow

ReadFlow = Callable[..., FlowConfig]
Invoke = Callable[..., Any]

MIRROR = "org.apache.kafka.connect.mirror."
IDENTITY = f"replication.policy.class = {MIRROR}IdentityReplicationPolicy"
ALL = TopicFilter((".*",), ())


@pytest.mark.parametrize(
    ("topic", "until_4_3", "since_4_4"),
    [
        ("source.t", False, True),
        ("target.t", True, True),
        ("source.target.t", True, True),
        ("target.source.t", True, True),
        ("other.target.t", True, True),
        ("other.source.t", False, True),
        ("t", False, False),
        ("other.t", False, False),
        ("othersource.t", False, False),
    ],
)
def test_cycles(topic: str, until_4_3: bool, since_4_4: bool) -> None:
    """By default the rule of 4.3 and older: who switches has no topic less than before."""
    for newer, cycle in ((False, until_4_3), (True, since_4_4)):
        selection = TopicSelection("source", "target", DefaultReplicationPolicy(), ALL, own_alias_is_cycle=newer)
        assert (selection.cycle_through(topic) is not None) is cycle
        assert selection.selects(topic) is not cycle


def test_the_setting_of_the_newer_rule(read_flow: ReadFlow) -> None:
    assert selection_of(read_flow()).reason("A.orders") == "replicated as A.A.orders: topics has '.*'"
    newer = selection_of(read_flow("twinlog.source.alias.topics = exclude"))
    assert newer.reason("A.orders") == (
        "not replicated: by its name it was copied from A, and twinlog.source.alias.topics is exclude"
    )
    assert newer.setting_of_cycle("A.orders") == "twinlog.source.alias.topics"
    assert newer.setting_of_cycle("B.orders") == ""
    assert newer.left_out_as_cycle("A.orders") == "A"
    assert newer.left_out_as_cycle("A.__x") == "A"
    assert newer.left_out_as_cycle("__x") is None


def test_the_identity_policy_sees_cycles_of_heartbeats_only() -> None:
    selection = TopicSelection("A", "B", IdentityReplicationPolicy(source_alias="A"), ALL)
    assert {topic: selection.selects(topic) for topic in ("t", "A.t", "B.t")} == {"t": True, "A.t": True, "B.t": True}
    assert not selection.selects("B.heartbeats")
    assert selection.selects("A.heartbeats")  # 4.4's rule is not for this policy
    assert selection.remote_name("B.t") == "B.t"


class TestByDefault:
    """Everything but what is internal, a replica by its name, or on its way back."""

    @pytest.mark.parametrize(
        ("topic", "reason"),
        [
            ("orders", "replicated as A.orders: topics has '.*'"),
            ("heartbeats", "replicated as A.heartbeats: topics has '.*'"),
            ("C.heartbeats", "replicated as A.C.heartbeats: topics has '.*'"),
            ("my.replica", r"not replicated: topics.exclude has '.*\\.replica'"),
            ("__consumer_offsets", "not replicated: internal topic (its name starts with __)"),
            ("C.checkpoints.internal", "not replicated: internal topic of MM2"),
            (
                "B.orders",
                "not replicated: replication cycle: by its name it was copied from B",
            ),
        ],
    )
    def test_reasons(self, read_flow: ReadFlow, topic: str, reason: str) -> None:
        selection = selection_of(read_flow())
        assert selection.reason(topic) == reason
        assert selection.selects(topic) is reason.startswith("replicated")


class TestWithAFilter:
    @pytest.mark.parametrize(
        ("topic", "reason"),
        [
            ("orders", "replicated as A.orders: topics has 'orders'"),
            ("Orders", "not replicated: no pattern of topics matches it"),
            ("orders2", "not replicated: no pattern of topics matches it"),
            ("clicks-eu", "replicated as A.clicks-eu: topics has 'clicks-.*'"),
            ("clicks-test", "not replicated: topics.exclude has '.*-test'"),
            ("C.heartbeats", "replicated as A.C.heartbeats: heartbeats topic, replicated regardless of topics and topics.exclude"),
        ],
    )  # fmt: skip
    def test_reasons(self, read_flow: ReadFlow, topic: str, reason: str) -> None:
        selection = selection_of(read_flow("topics = orders, clicks-.*", "topics.exclude = x, .*-test"))
        assert selection.reason(topic) == reason
        assert selection.selects(topic) is reason.startswith("replicated")

    def test_the_old_name_of_the_exclusion(self, read_flow: ReadFlow) -> None:
        assert not selection_of(read_flow("topics.blacklist = orders")).selects("orders")

    def test_an_empty_list_includes_nothing_but_heartbeats(self, read_flow: ReadFlow) -> None:
        selection = selection_of(read_flow("topics =", "topics.exclude ="))
        assert not selection.selects("orders")
        assert selection.selects("heartbeats")

    def test_without_heartbeats(self, read_flow: ReadFlow) -> None:
        selection = selection_of(read_flow("topics = orders", "heartbeats.replication.enabled = false"))
        assert not selection.selects("heartbeats")
        assert selection.reason("heartbeats").endswith("heartbeats.replication.enabled is false")

    def test_two_elements_that_are_one_pattern(self, read_flow: ReadFlow) -> None:
        selection = selection_of(read_flow("topics = (a,b)"))
        assert selection.reason("a") == "replicated as A.a: topics has '(a|b)'"


class TestGroups:
    @pytest.mark.parametrize(
        ("group", "reason"),
        [
            ("billing", "followed: groups has '.*'"),
            ("console-consumer-1", "not followed: groups.exclude has 'console-consumer-.*'"),
            ("connect-mm2", "not followed: groups.exclude has 'connect-.*'"),
            ("__own", "not followed: groups.exclude has '__.*'"),
            ("", "followed: groups has '.*'"),
        ],
    )
    def test_by_default(self, read_flow: ReadFlow, group: str, reason: str) -> None:
        selection = group_selection_of(read_flow())
        assert selection.reason(group) == reason
        assert selection.selects(group) is reason.startswith("followed")

    @pytest.mark.parametrize(
        ("group", "reason"),
        [
            ("billing", "followed: groups has 'bill.*'"),
            ("billing-test", "not followed: groups.exclude has '.*-test'"),
            ("shipping-test", "not followed: groups.exclude has '.*-test'"),
            ("shipping", "not followed: no pattern of groups matches it"),
            ("Billing", "not followed: no pattern of groups matches it"),
        ],
    )
    def test_with_a_filter(self, read_flow: ReadFlow, group: str, reason: str) -> None:
        selection = group_selection_of(read_flow("groups = bill.*, x", "groups.exclude = .*-test"))
        assert selection.reason(group) == reason
        assert selection.selects(group) is reason.startswith("followed")

    def test_an_empty_list_includes_nothing(self, read_flow: ReadFlow) -> None:
        assert not group_selection_of(read_flow("groups =", "groups.exclude =")).selects("billing")

    def test_a_flow_without_a_checkpoint_connector(self, read_flow: ReadFlow) -> None:
        flow = FlowConfig(Flow("A", "B"), read_flow().worker)
        with pytest.raises(ValueError, match="A->B has no checkpoint connector"):
            group_selection_of(flow)


def test_checkpoints_go_by_the_plain_filter(read_flow: ReadFlow) -> None:
    topics = checkpoint_topics_of(read_flow("topics = orders, B.*", "topics.exclude ="))
    accepted = [name for name in ("orders", "B.orders", "heartbeats", "clicks") if topics.accepts(name)]
    assert accepted == ["orders", "B.orders"]


class TestConfigs:
    def test_by_default(self, read_flow: ReadFlow) -> None:
        chosen = config_filter_of(read_flow())
        assert isinstance(chosen, ConfigFilter)
        assert chosen.reason("retention.ms") == "copied: no pattern of config.properties.exclude matches it"
        assert chosen.reason("min.insync.replicas") == (
            "not copied: config.properties.exclude has 'min.insync.replicas'"
        )

    def test_an_empty_list_excludes_nothing(self, read_flow: ReadFlow) -> None:
        assert config_filter_of(read_flow("config.properties.exclude =")).accepts("min.insync.replicas")


def test_aliases_are_the_connectors(read_flow: ReadFlow) -> None:
    """MM2 lets a flow's own settings rename it."""
    flow = read_flow("A->B.source.cluster.alias = us")
    assert selection_of(flow).remote_name("t") == "us.t"
    assert offset_syncs_location(read_flow("A->B.target.cluster.alias = eu"))[1] == "mm2-offset-syncs.eu.internal"


def test_a_selection_can_be_pickled(read_flow: ReadFlow) -> None:
    selection = selection_of(read_flow("topics = o.*"))
    again = pickle.loads(pickle.dumps(selection))
    assert again == selection
    assert again.selects("orders")


def test_a_flow_without_a_source_connector(read_flow: ReadFlow) -> None:
    flow = FlowConfig(Flow("A", "B"), read_flow().worker)
    with pytest.raises(ValueError, match="A->B has no source connector"):
        selection_of(flow)
    with pytest.raises(ValueError, match="A->B has neither"):
        offset_syncs_location(flow)


@pytest.mark.parametrize(
    ("lines", "location"),
    [
        ([], ("source", "mm2-offset-syncs.B.internal")),
        (["offset-syncs.topic.location = source"], ("source", "mm2-offset-syncs.B.internal")),
        (["offset-syncs.topic.location = target"], ("target", "mm2-offset-syncs.A.internal")),
        (
            ["offset-syncs.topic.location = target", "replication.policy.separator = _"],
            ("target", "mm2-offset-syncs_A_internal"),
        ),
        ([IDENTITY], ("source", "mm2-offset-syncs.B.internal")),
    ],
)
def test_where_offset_syncs_are(read_flow: ReadFlow, lines: list[str], location: tuple[str, str]) -> None:
    assert offset_syncs_location(read_flow(*lines)) == location


def test_checkpoints_alone_know_where_offset_syncs_are(tmp_path: Path) -> None:
    body = {
        "name": "cpc",
        "connector.class": f"{MIRROR}MirrorCheckpointConnector",
        "source.cluster.alias": "us",
        "source.cluster.bootstrap.servers": "u:1",
        "target.cluster.bootstrap.servers": "e:1",
    }
    (tmp_path / "cpc.json").write_text(json.dumps(body))
    (flow,) = load([tmp_path]).flows
    assert offset_syncs_location(flow) == ("source", "mm2-offset-syncs.target.internal")


TOPICS = st.lists(st.sampled_from(["A", "B", "C", "t", "heartbeats", "__x", "", "internal", "mm2"]), min_size=1, max_size=4)  # fmt: skip


@given(parts=TOPICS, identity=st.booleans(), heartbeats=st.booleans(), pattern=st.sampled_from([".*", "t", "A.*"]))
def test_the_reason_agrees_with_the_decision(parts: list[str], identity: bool, heartbeats: bool, pattern: str) -> None:
    policy = IdentityReplicationPolicy(source_alias="A") if identity else DefaultReplicationPolicy()
    selection = TopicSelection("A", "B", policy, TopicFilter((pattern,), ("B.*",)), heartbeats)
    topic = ".".join(parts)
    assert selection.reason(topic).startswith("replicated as ") is selection.selects(topic)


@pytest.mark.java
@pytest.mark.parametrize("policy", ["Default", "Identity"])
@pytest.mark.parametrize("heartbeats", [True, False])
def test_mm2_selects_the_same(
    kafka_jvm: KafkaJvm, invoke: Invoke, read_flow: ReadFlow, policy: str, heartbeats: bool
) -> None:
    """Also of names with the source's alias: MM2 4.3 takes them. Control topics it takes, too; we never do."""
    lines = [f"replication.policy.class = {MIRROR}{policy}ReplicationPolicy", "topics = t.*, X.*, A.*, C.heartbeats"]
    flow = read_flow(*lines, "topics.exclude = t1, X.y", f"heartbeats.replication.enabled = {str(heartbeats).lower()}")
    assert flow.source is not None
    texts = {key: value.text for key, value in flow.source.values.items()}
    mirror = kafka_jvm.jvm.org.apache.kafka.connect.mirror
    topic_filter = mirror.DefaultTopicFilter()
    topic_filter.configure(kafka_jvm.map(texts))
    names = getattr(mirror, f"{policy}ReplicationPolicy")()
    names.configure(kafka_jvm.map(texts))
    pair = mirror.SourceAndTarget("A", "B")
    theirs = invoke(
        f"{MIRROR}MirrorSourceConnector", "new", pair, names, topic_filter, mirror.DefaultConfigPropertyFilter(), heartbeats
    )  # fmt: skip
    ours = selection_of(flow)
    rng = random.Random(policy)
    words = [
        "A",
        "B",
        "C",
        "t",
        "t1",
        "X",
        "y",
        "heartbeats",
        "my-heartbeats",
        "__t",
        "",
        "checkpoints",
        "internal",
        "mm2",
    ]
    selected = 0
    for _ in range(150):
        topic = ".".join(rng.choice(words) for _ in range(rng.randint(1, 4)))
        if ours.control.holds(ours.remote_name(topic)):
            assert not ours.selects(topic)
            continue
        assert ours.selects(topic) == invoke(theirs, "shouldReplicateTopic", topic), topic
        selected += ours.selects(topic)
    assert selected > 10


@pytest.mark.java
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("separator", ["", "replication.policy.separator = _"])
def test_mm2_puts_offset_syncs_there(
    kafka_jvm: KafkaJvm, invoke: Invoke, read_flow: ReadFlow, side: str, separator: str
) -> None:
    flow = read_flow(f"offset-syncs.topic.location = {side}", separator)
    assert flow.source is not None
    texts = {key: value.text for key, value in flow.source.values.items()}
    config = kafka_jvm.jvm.org.apache.kafka.connect.mirror.MirrorSourceConfig(kafka_jvm.map(texts))
    assert offset_syncs_location(flow) == (side, invoke(config, "offsetSyncsTopic"))
