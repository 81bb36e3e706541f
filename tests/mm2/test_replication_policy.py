"""The specification's examples, sections 2.3 to 2.5 and appendix B; then the same questions to Kafka's own policies."""

import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig
from twinlog.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    policy_of,
)

ReadFlow = Callable[..., FlowConfig]

DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="A")
MIRROR = "org.apache.kafka.connect.mirror."
FLAG = "replication.policy.internal.topic.separator.enabled"
NAMES = st.text(alphabet="AB._-ht", max_size=12)


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original", "heartbeats"),
    [
        ("t", None, None, "t", False),
        ("A.t", "A", "t", "t", False),
        ("A.B.t", "A", "B.t", "t", False),
        ("A.", None, None, "A.", False),
        (".t", "", "t", "t", False),
        ("A..t", "A", ".t", "t", False),
        (".", None, None, ".", False),
        ("heartbeats", None, None, "heartbeats", True),
        ("X.Y.heartbeats", "X", "Y.heartbeats", "heartbeats", True),
        ("my-heartbeats", None, None, "my-heartbeats", False),
        ("orders.v1", "orders", "v1", "v1", False),
    ],
)
def test_the_origin_of_a_name(
    topic: str, source: str | None, upstream: str | None, original: str, heartbeats: bool
) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original
    assert DEFAULT.is_heartbeats_topic(topic) is heartbeats


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "remote"),
    [
        ("t", "A", "t", "t"),
        ("A.heartbeats", "A", "heartbeats", "A.A.heartbeats"),
        ("my-heartbeats", None, None, "A.my-heartbeats"),
        ("B.t", "A", "B.t", "B.t"),
    ],
)
def test_the_identity_policy_keeps_names_but_those_of_heartbeats(
    topic: str, source: str | None, upstream: str | None, remote: str
) -> None:
    assert IDENTITY.topic_source(topic) == source
    assert IDENTITY.upstream_topic(topic) == upstream
    assert IDENTITY.format_remote_topic("A", topic) == remote
    assert IdentityReplicationPolicy().topic_source("t") is None


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("mm2-configs.A.internal", True),
        ("mm2-offset-syncs.B.internal", True),
        ("A.checkpoints.internal", True),
        ("__x", True),
        (".x", True),
        ("my.internal", False),
        ("connect-offsets-internal", False),
        ("mm2-test", False),
        ("orders", False),
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_internal_topics(policy: ReplicationPolicy, topic: str, internal: bool) -> None:
    assert policy.is_internal_topic(topic) is internal
    assert policy.is_mm2_internal_topic(topic) is (internal and not topic.startswith(("_", ".")))


class TestTheSeparatorOfInternalTopics:
    """KIP-949: a separator may be kept out of the names of internal topics."""

    @pytest.mark.parametrize(
        ("lines", "syncs", "checkpoints", "remote"),
        [
            ([], "mm2-offset-syncs.B.internal", "A.checkpoints.internal", "A.t"),
            (["replication.policy.separator = _"], "mm2-offset-syncs_B_internal", "A_checkpoints_internal", "A_t"),
            (
                ["replication.policy.separator = _", f"{FLAG} = false"],
                "mm2-offset-syncs.B.internal",
                "A.checkpoints.internal",
                "A_t",
            ),
            ([f"{FLAG} = false"], "mm2-offset-syncs.B.internal", "A.checkpoints.internal", "A.t"),
        ],
    )
    def test_names(self, read_flow: ReadFlow, lines: list[str], syncs: str, checkpoints: str, remote: str) -> None:
        policy = policy_of_source(read_flow(*lines))
        assert policy.offset_syncs_topic("B") == syncs
        assert policy.checkpoints_topic("A") == checkpoints
        assert policy.format_remote_topic("A", "t") == remote
        assert policy.heartbeats_topic() == "heartbeats"
        assert policy.is_checkpoints_topic(checkpoints)
        assert policy.is_internal_topic(syncs)

    def test_a_flag_with_a_blank_behind_it_is_false_as_in_mm2(self, read_flow: ReadFlow) -> None:
        policy = policy_of_source(read_flow("replication.policy.separator = _", f"{FLAG} = true "))
        assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_the_identity_policy_knows_the_flows_source(read_flow: ReadFlow) -> None:
    policy = policy_of_source(read_flow(f"replication.policy.class = {MIRROR}IdentityReplicationPolicy"))
    assert policy == IDENTITY
    strimzis = read_flow("replication.policy.class = io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy")
    assert policy_of_source(strimzis) == IDENTITY


def policy_of_source(flow: FlowConfig) -> ReplicationPolicy:
    assert flow.source is not None
    return policy_of(flow.source)


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy(separator="_", internal_separator="."), IDENTITY])
def test_a_policy_can_be_pickled(policy: ReplicationPolicy) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy


@given(topic=NAMES.filter(bool), alias=st.sampled_from(["A", "B"]), separator=st.sampled_from([".", "_", "--"]))
def test_a_remote_topic_remembers_where_it_came_from(topic: str, alias: str, separator: str) -> None:
    policy = DefaultReplicationPolicy(separator=separator)
    remote = policy.format_remote_topic(alias, topic)
    if topic.replace(separator, ""):  # else Java's split drops it as empty parts at the end
        assert (policy.topic_source(remote), policy.upstream_topic(remote)) == (alias, topic)


@pytest.mark.java
class TestAgainstKafka:
    """Each answer is that of Kafka's own class, on names and separators made to be hard."""

    @pytest.mark.parametrize("kind", ["Default", "Identity"])
    @pytest.mark.parametrize("separator", [".", "_", "-", "..", "|", r"\E", "", "heart", "A"])
    @pytest.mark.parametrize("flag", ["true", "false"])
    def test_every_answer_is_kafkas(self, kafka_jvm: KafkaJvm, kind: str, separator: str, flag: str) -> None:
        settings = {"replication.policy.separator": separator, FLAG: flag, "source.cluster.alias": "A"}
        theirs = getattr(kafka_jvm.jvm.org.apache.kafka.connect.mirror, f"{kind}ReplicationPolicy")()
        theirs.configure(kafka_jvm.map(settings))
        internal = separator if flag == "true" else "."
        ours = (
            DefaultReplicationPolicy(separator=separator, internal_separator=internal)
            if kind == "Default"
            else IdentityReplicationPolicy(source_alias="A", separator=separator, internal_separator=internal)
        )
        rng = random.Random(f"{kind}{separator}{flag}")
        for topic in made_up_names(rng, separator, internal):
            assert answers(ours, topic) == kafkas(theirs, topic), topic
        assert ours.offset_syncs_topic("B") == theirs.offsetSyncsTopic("B")
        assert ours.checkpoints_topic("B") == theirs.checkpointsTopic("B")
        assert ours.heartbeats_topic() == theirs.heartbeatsTopic()

    @pytest.mark.parametrize("kind", ["Default", "Identity"])
    @pytest.mark.parametrize("separator", [None, "_", ""])
    @pytest.mark.parametrize("flag", [None, "true", "TRUE", "false", "true ", " true", "False"])
    def test_a_connectors_policy_is_mm2s(
        self, kafka_jvm: KafkaJvm, read_flow: ReadFlow, kind: str, separator: str | None, flag: str | None
    ) -> None:
        lines = [f"replication.policy.class = {MIRROR}{kind}ReplicationPolicy"]
        lines += [] if separator is None else [f"replication.policy.separator = {separator}"]
        lines += [] if flag is None else [f"{FLAG} = {flag}".replace("=  ", r"= \ ")]
        source = read_flow(*lines).source
        assert source is not None
        texts = {key: value.text for key, value in source.values.items()}
        config = kafka_jvm.jvm.org.apache.kafka.connect.mirror.MirrorSourceConfig(kafka_jvm.map(texts))
        theirs = config.getConfiguredInstance(
            "replication.policy.class", kafka_jvm._class(f"{MIRROR}ReplicationPolicy")
        )
        for topic in ("t", "A.t", "B_t", "heartbeats", "A_checkpoints_internal", "A.checkpoints.internal"):
            assert answers(policy_of(source), topic) == kafkas(theirs, topic), topic


def answers(policy: ReplicationPolicy, topic: str) -> list[Any]:
    return [
        policy.format_remote_topic("A", topic),
        policy.topic_source(topic),
        policy.upstream_topic(topic),
        policy.original_topic(topic),
        policy.is_heartbeats_topic(topic),
        policy.is_checkpoints_topic(topic),
        policy.is_mm2_internal_topic(topic),
        policy.is_internal_topic(topic),
    ]


def kafkas(policy: Any, topic: str) -> list[Any]:
    return [
        policy.formatRemoteTopic("A", topic),
        policy.topicSource(topic),
        policy.upstreamTopic(topic),
        policy.originalTopic(topic),
        policy.isHeartbeatsTopic(topic),
        policy.isCheckpointsTopic(topic),
        policy.isMM2InternalTopic(topic),
        policy.isInternalTopic(topic),
    ]


def made_up_names(rng: random.Random, *separators: str) -> list[str]:
    words = ["A", "B", "t", "heartbeats", "my-heartbeats", "internal", "checkpoints", "mm2", "mm2-x", "__x", "", "x.y"]
    return ["".join(rng.choice([*words, *separators * 4]) for _ in range(rng.randint(1, 6))) for _ in range(40)]
