"""MirrorClient and Kafka's own Java MirrorClient, asked the same about the same topics, by every way to name them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.kafka_classes import KafkaJvm
from tests.failover.conftest import PLACES, Place, orders
from twinlog import failover
from twinlog.failover import MirrorClient, OffsetAndMetadata
from twinlog.model import TopicPartition


class Java:
    """Kafka's own MirrorClient, and the static methods around it."""

    def __init__(self, kafka: KafkaJvm, properties: Mapping[str, str]) -> None:
        self._kafka = kafka
        self.properties = kafka.map(properties)
        mirror = kafka.jvm.org.apache.kafka.connect.mirror
        self.utils = mirror.RemoteClusterUtils
        self.client = mirror.MirrorClient(self.properties)

    def close(self) -> None:
        self.client.close()

    def names(self, found: Any) -> set[str]:
        return {str(each) for each in found}

    def offsets(self, found: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            TopicPartition(each.getKey().topic(), each.getKey().partition()): OffsetAndMetadata(
                each.getValue().offset(), each.getValue().metadata()
            )
            for each in found.entrySet()
        }

    def by_group(self, found: Any) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        return {str(each.getKey()): self.offsets(each.getValue()) for each in found.entrySet()}

    def seconds(self, number: int) -> Any:
        return self._kafka.jvm.java.time.Duration.ofSeconds(number)

    def pattern(self, regex: str) -> Any:
        return self._kafka.jvm.java.util.regex.Pattern.compile(regex)


@pytest.fixture(scope="module", params=PLACES)
def tp(request: pytest.FixtureRequest) -> Place:
    return PLACES[request.param]


@pytest.fixture(scope="module")
def properties(stage: Cluster, tp: Place) -> dict[str, str]:
    return {"bootstrap.servers": stage.bootstrap(), **tp.settings}


@pytest.fixture(scope="module")
def java(kafka_jvm: KafkaJvm, properties: dict[str, str]) -> Iterator[Java]:
    made = Java(kafka_jvm, properties)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(properties: dict[str, str]) -> Iterator[MirrorClient]:
    with MirrorClient(properties, alias="eu") as made:
        yield made


@pytest.mark.broker
class TestAsJavaAnswers:
    def test_topic_names(self, client: MirrorClient, java: Java, tp: Place) -> None:
        found = client.heartbeat_topics()
        assert found == java.names(java.client.heartbeatTopics())
        assert {"heartbeats", f"{tp.a}{tp.sep}heartbeats"} <= found
        found = client.checkpoint_topics()
        assert found == java.names(java.client.checkpointTopics())
        assert tp.checkpoints_topic(tp.a) in found
        found = client.upstream_clusters()
        assert found == java.names(java.client.upstreamClusters())
        assert {tp.a, tp.b, f"{tp.a}C", f"{tp.a}D"} <= found
        assert f"{tp.a}E" not in found
        assert client.remote_topics() == java.names(java.client.remoteTopics())
        for alias in (tp.a, tp.b, "nobody"):
            assert client.remote_topics(alias) == java.names(java.client.remoteTopics(alias))

    def test_hops(self, client: MirrorClient, java: Java, tp: Place) -> None:
        wanted = {tp.a: 1, tp.b: 2, f"{tp.a}C": 1, f"{tp.a}D": 2, f"{tp.a}E": -1, "nobody": -1}
        assert {alias: client.replication_hops(alias) for alias in wanted} == wanted
        assert {alias: java.client.replicationHops(alias) for alias in wanted} == wanted

    def test_offsets_of_a_group(self, client: MirrorClient, java: Java, tp: Place) -> None:
        for group in ("app-1", "nobody"):
            found = client.remote_consumer_offsets(group, tp.a, 20)
            judge = java.client.remoteConsumerOffsets(group, tp.a, java.seconds(20))
            assert found == java.offsets(judge)
        assert client.remote_consumer_offsets("app-1", tp.a, 20) == {
            TopicPartition(orders(tp), 0): OffsetAndMetadata(15, ""),
            TopicPartition(orders(tp), 1): OffsetAndMetadata(90, "from a consumer"),
        }
        assert client.remote_consumer_offsets("app-2", tp.a) == {
            TopicPartition(orders(tp), 0): OffsetAndMetadata(1, "")
        }

    def test_an_empty_checkpoints_topic(self, client: MirrorClient, java: Java, tp: Place) -> None:
        assert client.remote_consumer_offsets("app-1", tp.b, 20) == {}
        assert java.offsets(java.client.remoteConsumerOffsets("app-1", tp.b, java.seconds(20))) == {}
        assert client.remote_consumer_offsets_by_pattern(".*", tp.b, 20) == {}

    def test_offsets_of_every_group(self, client: MirrorClient, java: Java, tp: Place) -> None:
        found = client.remote_consumer_offsets_by_pattern(".*", tp.a, 20)
        assert found == java.by_group(java.client.remoteConsumerOffsets(java.pattern(".*"), tp.a, java.seconds(20)))
        assert set(found) == {"app-1", "app-2", "app-11", "Größe"}


@pytest.mark.broker
@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("app-.", {"app-1", "app-2"}),
        ("app", set()),
        ("(?i)APP-1+", {"app-1", "app-11"}),
        (r"\Qapp-2\E|Gr.*", {"app-2", "Größe"}),
    ],
)
def test_patterns_are_javas(stage: Cluster, kafka_jvm: KafkaJvm, pattern: str, groups: set[str]) -> None:
    properties = {"bootstrap.servers": stage.bootstrap()}
    found = failover.translate_offsets_by_pattern(properties, "mcdA", pattern, 20)
    java = Java(kafka_jvm, properties)
    try:
        judge = java.utils.translateOffsets(java.properties, "mcdA", java.pattern(pattern), java.seconds(20))
        assert found == java.by_group(judge)
    finally:
        java.close()
    assert set(found) == groups


@pytest.mark.broker
def test_the_functions_answer_as_javas_utilities(stage: Cluster, kafka_jvm: KafkaJvm) -> None:
    tp = PLACES["default"]
    properties = {"bootstrap.servers": stage.bootstrap()}
    java = Java(kafka_jvm, properties)
    try:
        utils, given = java.utils, java.properties
        assert failover.replication_hops(properties, tp.b) == utils.replicationHops(given, tp.b) == 2
        assert failover.heartbeat_topics(properties) == java.names(utils.heartbeatTopics(given))
        assert failover.checkpoint_topics(properties) == java.names(utils.checkpointTopics(given))
        assert failover.upstream_clusters(properties) == java.names(utils.upstreamClusters(given))
        found = failover.translate_offsets(properties, tp.a, "app-1", 20)
        assert found == java.offsets(utils.translateOffsets(given, tp.a, "app-1", java.seconds(20)))
        assert found
    finally:
        java.close()
