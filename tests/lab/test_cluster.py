"""Clusters: topics, leaders, tools, and recovery from killed and paused brokers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, RequestTimedOutError

from lab import kafka_tools
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.errors import LabError
from lab.lab import Lab
from lab.listeners import OAUTH, PLAINTEXT, SCRAM_512_TLS, TLS
from lab.waiting import until

pytestmark = pytest.mark.broker

Produce = Callable[..., int]
Consume = Callable[..., list[str]]


@pytest.fixture(scope="module")
def trio(lab: Lab) -> Iterator[Cluster]:
    cluster = lab.cluster("three", brokers=3)
    yield cluster
    lab.discard(cluster)


@pytest.fixture(scope="module")
def old(lab: Lab) -> Iterator[Cluster]:
    spec = ClusterSpec(name="old", line="3.9", listeners=(PLAINTEXT, SCRAM_512_TLS, OAUTH), users=("alice",))
    (cluster,) = lab.clusters(spec)
    yield cluster
    lab.discard(cluster)


def test_clusters_are_independent(us: Cluster, eu: Cluster, topic: str, produce: Produce) -> None:
    us.create_topic(topic, partitions=2)
    produce(us.librdkafka_properties(), topic, "hello")
    with us.admin() as admin:
        assert topic in admin.list_topics()
    with eu.admin() as admin:
        assert topic not in admin.list_topics()


def test_a_new_cluster_has_the_features_of_one_that_an_operator_formats(us: Cluster) -> None:
    described = us.tool("features", "describe")
    levels = {line.split()[1]: line.split("FinalizedVersionLevel: ")[1].split()[0] for line in described.splitlines()}
    assert levels["group.version"] == "1"
    assert levels["transaction.version"] == "2"


def test_kafkas_own_tools_see_the_topic_and_its_settings(us: Cluster, topic: str) -> None:
    us.create_topic(topic, partitions=3, configs={"retention.ms": "60000"})
    described = us.tool("topics", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=60000" in described


def test_a_log_segment_can_be_dumped(us: Cluster, topic: str, produce: Produce) -> None:
    us.create_topic(topic)
    produce(us.librdkafka_properties(), topic, "hello")
    segment = us.brokers[0].data / f"{topic}-0" / "00000000000000000000.log"
    assert "payload: hello" in kafka_tools.run("dump-log", "--print-data-log", "--files", str(segment))


def test_a_tool_that_fails_reports_why(us: Cluster) -> None:
    with pytest.raises(LabError, match=r"tool topics failed(?s:.)*no-such-topic"):
        us.tool("topics", "--describe", "--topic", "no-such-topic")


def test_an_unknown_listener_is_an_error(us: Cluster) -> None:
    with pytest.raises(LabError, match="us has no listener TLS"):
        us.bootstrap(TLS)


def test_a_topic_that_was_created_although_the_request_timed_out(
    us: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = KafkaAdminClient.create_topics
    responses = iter([RequestTimedOutError(), None])

    def late(*arguments: Any) -> Any:
        created = create(*arguments)
        if error := next(responses):
            raise error
        return created

    monkeypatch.setattr(KafkaAdminClient, "create_topics", late)
    us.create_topic(topic, partitions=2)
    assert us.leader(topic, 1) == 0


def test_a_topic_cannot_be_created_twice(us: Cluster, topic: str) -> None:
    us.create_topic(topic)
    with pytest.raises(LabError, match=f"us: .*{topic}"):
        us.create_topic(topic)


@pytest.mark.slow
def test_kill_and_restart_keep_records_and_port(trio: Cluster, topic: str, produce: Produce, consume: Consume) -> None:
    trio.create_topic(topic, replication_factor=1)
    client = trio.librdkafka_properties()
    produce(client, topic, "before")
    before = client["bootstrap.servers"]
    broker = trio.brokers[trio.leader(topic, 0)]
    broker.kill()
    assert not broker.alive
    broker.restart()
    assert trio.bootstrap() == before
    until(lambda: trio.leader(topic, 0) == broker.id, "waiting for the broker to lead again")
    assert produce(client, topic, "after") == 1
    assert consume(client, topic, 2) == ["before", "after"]


# kafka-python may send a request to the paused broker, time out, and leave its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_another_broker_leads_while_the_leader_is_paused(
    trio: Cluster, topic: str, produce: Produce, consume: Consume
) -> None:
    trio.create_topic(topic)
    client = trio.librdkafka_properties()
    produce(client, topic, "before")
    leader = trio.leader(topic, 0)

    def another_leads() -> bool:
        try:
            return trio.leader(topic, 0) not in (leader, -1)
        except (LabError, KafkaError):
            return False

    trio.brokers[leader].pause()
    try:
        until(another_leads, "waiting for another leader")
        assert produce(client, topic, "meanwhile") == 1
    finally:
        trio.brokers[leader].resume()
    until(lambda: leader in trio.partition(topic, 0)["isr_nodes"], "waiting for the paused broker to catch up")
    assert consume(client, topic, 2) == ["before", "meanwhile"]


@pytest.mark.slow
def test_a_leader_can_be_moved(trio: Cluster, topic: str, produce: Produce, consume: Consume) -> None:
    trio.create_topic(topic)
    client = trio.librdkafka_properties()
    for step, broker in enumerate((0, 1, 2)):
        trio.move_leader(topic, 0, broker)
        assert trio.leader(topic, 0) == broker
        assert produce(client, topic, str(step)) == step
    assert consume(client, topic, 3) == ["0", "1", "2"]


@pytest.mark.slow
def test_a_leader_moves_to_a_broker_without_a_replica(trio: Cluster, topic: str, produce: Produce) -> None:
    trio.create_topic(topic, replication_factor=1)
    produce(trio.librdkafka_properties(), topic, "hello")
    other = (trio.leader(topic, 0) + 1) % 3
    trio.move_leader(topic, 0, other)
    assert trio.partition(topic, 0)["replica_nodes"] == [other]
    assert produce(trio.librdkafka_properties(), topic, "again") == 1


@pytest.mark.slow
def test_a_stopped_broker_moves_its_leaders_first(trio: Cluster, topic: str) -> None:
    trio.create_topic(topic)
    leader = trio.leader(topic, 0)
    trio.brokers[leader].stop()
    try:
        assert trio.leader(topic, 0) not in (leader, -1)
    finally:
        trio.brokers[leader].start()
    until(lambda: leader in trio.partition(topic, 0)["isr_nodes"], "waiting for the broker to be in sync")


@pytest.mark.slow
def test_one_of_two_brokers_may_fail(lab: Lab, topic: str, produce: Produce) -> None:
    pair = lab.cluster("pair", brokers=2)
    pair.create_topic(topic)
    pair.brokers[1].kill()
    until(lambda: pair.leader(topic, 0) == 0, "waiting for the other broker to lead")
    assert produce(pair.librdkafka_properties(), topic, "hello") == 0
    pair.brokers[1].restart()
    until(lambda: len(pair.partition(topic, 0)["isr_nodes"]) == 2, "waiting for both to be in sync")
    lab.discard(pair)


@pytest.mark.slow
def test_an_older_release_line_works_and_survives_a_kill(
    old: Cluster, topic: str, produce: Produce, consume: Consume
) -> None:
    old.create_topic(topic)
    assert produce(old.librdkafka_properties(), topic, "plaintext") == 0
    assert produce(old.librdkafka_properties(SCRAM_512_TLS, "alice"), topic, "scram") == 1
    assert produce(old.librdkafka_properties(OAUTH, "alice"), topic, "oauth") == 2
    old.brokers[0].kill()
    old.brokers[0].restart()
    assert consume(old.librdkafka_properties(), topic, 3) == ["plaintext", "scram", "oauth"]
    assert "PartitionCount: 1" in old.tool("topics", "--describe", "--topic", topic)
