"""What a MirrorClient is given: derived from a configuration as MM2 derives it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.kafka_classes import KafkaJvm
from tests.failover.conftest import FLAG, MIRROR
from twinlog import failover
from twinlog.config import Config, load
from twinlog.errors import ConfigError
from twinlog.failover import client_properties
from twinlog.mm2.client_properties import client_of, policy_from

FILE = """\
clusters = us, eu
us.bootstrap.servers = us:9092
eu.bootstrap.servers = eu:9092
us->eu.enabled = true
"""
SECRET = 'org.acme.Login required password="hunter2";'


class TestFromAConfiguration:
    @pytest.fixture
    def read(self, tmp_path: Path) -> Callable[..., Config]:
        def read(*lines: str, file: str = FILE) -> Config:
            path = tmp_path / "mm2.properties"
            path.write_text(file + "\n".join(lines) + "\n")
            return load([path])

        return read

    @pytest.mark.java
    @pytest.mark.parametrize(
        "lines",
        [
            [],
            ["security.protocol = SASL_SSL", f"sasl.jaas.config = {SECRET}", "eu.sasl.mechanism = PLAIN"],
            ["eu.security.protocol = SSL", "eu.admin.security.protocol = PLAINTEXT", "eu.consumer.client.id = me"],
            ["eu.consumer.bootstrap.servers = reader:1", "eu.admin.request.timeout.ms = 1"],
            ["replication.policy.separator = _"],
            ["replication.policy.separator = _", FLAG + " = false"],
            [FLAG + " = false"],
            ["replication.policy.separator = _", "eu.replication.policy.separator = -"],
            ["replication.policy.class = " + MIRROR + "IdentityReplicationPolicy"],
        ],
    )
    def test_as_mm2_derives_a_client_from_its_file(
        self, read: Callable[..., Config], kafka_jvm: KafkaJvm, lines: list[str]
    ) -> None:
        config = read(*lines)
        table = kafka_jvm.properties(Path(config.files[0]).read_bytes())
        mm2 = kafka_jvm.jvm.org.apache.kafka.connect.mirror.MirrorMakerConfig(
            kafka_jvm.map({"plugin.discovery": "service_load", **table})
        )
        for alias in ("us", "eu"):
            java = mm2.clientConfig(alias)
            properties = client_properties(config, alias)
            for role in ("admin", "consumer", "producer"):
                ours = client_of(alias, properties, role)
                theirs = getattr(java, f"{role}Config")()
                assert {str(key) for key in theirs.keySet()} >= set(ours.values)
                assert {str(key): ours[str(key)] for key in theirs.keySet()} == _typed(theirs)
            policy, judge = policy_from(properties), java.replicationPolicy()
            assert policy.checkpoints_topic("us") == judge.checkpointsTopic("us")
            for topic in ("us.orders", "us_orders", "us-orders", "us.heartbeats", "us_heartbeats", "orders"):
                assert policy.topic_source(topic) == judge.topicSource(topic)
                assert policy.is_heartbeats_topic(topic) == judge.isHeartbeatsTopic(topic)

    @pytest.mark.java
    def test_what_brokers_call_internal(self, kafka_jvm: KafkaJvm) -> None:
        internal = kafka_jvm.jvm.org.apache.kafka.common.internals.Topic.isInternal
        assert all(internal(topic) for topic in failover._BROKER_TOPICS)
        assert not internal("__other")
        field = kafka_jvm._class("org.apache.kafka.common.internals.Topic").getDeclaredField("INTERNAL_TOPICS")
        field.setAccessible(True)
        assert {str(each) for each in field.get(None)} == failover._BROKER_TOPICS

    def test_names_are_those_that_the_flow_writes(self, read: Callable[..., Config]) -> None:
        config = read("us->eu.replication.policy.separator = _")
        assert policy_from(client_properties(config, "eu")).checkpoints_topic("us") == "us_checkpoints_internal"
        assert policy_from(client_properties(config, "us")).checkpoints_topic("eu") == "eu.checkpoints.internal"

    def test_flows_with_different_policies_need_a_source(self, read: Callable[..., Config]) -> None:
        more = "asia.bootstrap.servers = asia:1\nasia->eu.enabled = true\nasia->eu.replication.policy.separator = _\n"
        config = read(file=FILE.replace("us, eu", "us, eu, asia") + more)
        with pytest.raises(ConfigError, match="flows into it have different replication policies"):
            client_properties(config, "eu")
        assert "replication.policy.separator" not in client_properties(config, "eu", "us")
        assert client_properties(config, "eu", "asia")["replication.policy.separator"] == "_"

    def test_flows_with_equal_policies_written_differently(self, read: Callable[..., Config]) -> None:
        more = "asia.bootstrap.servers = asia:1\nasia->eu.enabled = true\nasia->eu.replication.policy.separator = .\n"
        config = read(file=FILE.replace("us, eu", "us, eu, asia") + more)
        assert client_properties(config, "eu")["bootstrap.servers"] == "eu:9092"

    def test_a_source_that_is_named_is_the_identity_policys(self, read: Callable[..., Config]) -> None:
        config = read("replication.policy.class = " + MIRROR + "IdentityReplicationPolicy")
        assert policy_from(client_properties(config, "eu", "us")).topic_source("orders") == "us"
        assert policy_from(client_properties(config, "eu")).topic_source("orders") is None

    def test_a_cluster_that_is_not_in_the_file(self, read: Callable[..., Config]) -> None:
        with pytest.raises(ConfigError, match=r"cluster moon: no such cluster in .*; configured: eu, us"):
            client_properties(read(), "moon")

    def test_a_file_without_flows_has_no_policy(self, read: Callable[..., Config]) -> None:
        with pytest.raises(ConfigError, match="its replication policy is unknown"):
            client_properties(read(file="bootstrap.servers = h:1\n"), "mm2")


def _typed(table: Any) -> dict[str, Any]:
    """A Java map of settings, as ours are typed."""

    def typed(value: Any) -> Any:
        kind = value.getClass().getName() if hasattr(value, "getClass") else ""
        if kind.endswith(".Password"):
            return str(value.value())
        if kind == "java.lang.Class":
            return str(value.getName())
        return tuple(str(each) for each in value) if "List" in kind else value

    return {str(entry.getKey()): typed(entry.getValue()) for entry in table.entrySet()}
