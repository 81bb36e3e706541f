"""Clusters that are hurt and recover, as an operator would see it."""

from collections.abc import Callable, Iterator

import pytest
from kafka.errors import KafkaError

from twinlog.errors import LabError
from twinlog.lab import tools
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import OAUTH, PLAINTEXT, SCRAM_512_TLS, TLS
from twinlog.lab.waiting import until

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
    wanted = ClusterSpec(name="old", line="3.9", listeners=(PLAINTEXT, SCRAM_512_TLS, OAUTH), users=("alice",))
    (cluster,) = lab.clusters(wanted)
    yield cluster
    lab.discard(cluster)


def test_two_clusters_are_two(us: Cluster, eu: Cluster, topic: str, produce: Produce) -> None:
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


def test_a_log_segment_can_be_read_as_it_lies_on_the_disk(us: Cluster, topic: str, produce: Produce) -> None:
    us.create_topic(topic)
    produce(us.librdkafka_properties(), topic, "hello")
    segment = us.brokers[0].data / f"{topic}-0" / "00000000000000000000.log"
    assert "payload: hello" in tools.run("dump-log", "--print-data-log", "--files", str(segment))


def test_a_tool_that_fails_says_why(us: Cluster) -> None:
    with pytest.raises(LabError, match=r"tool topics failed(?s:.)*no-such-topic"):
        us.tool("topics", "--describe", "--topic", "no-such-topic")


def test_a_listener_that_was_not_asked_for_is_an_error(us: Cluster) -> None:
    with pytest.raises(LabError, match="us has no listener TLS"):
        us.bootstrap(TLS)


def test_a_topic_cannot_be_made_twice(us: Cluster, topic: str) -> None:
    us.create_topic(topic)
    with pytest.raises(LabError, match=f"us: .*{topic}"):
        us.create_topic(topic)


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
    until(lambda: trio.leader(topic, 0) == broker.id, "the broker leads again")
    assert produce(client, topic, "after") == 1
    assert consume(client, topic, 2) == ["before", "after"]


# kafka-python may ask the one that is paused, give up, and leave its socket to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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
        until(another_leads, "another broker leads")
        assert produce(client, topic, "meanwhile") == 1
    finally:
        trio.brokers[leader].resume()
    until(lambda: leader in trio.partition(topic, 0)["isr_nodes"], "the paused broker caught up")
    assert consume(client, topic, 2) == ["before", "meanwhile"]


def test_a_leader_moves_where_it_is_told(trio: Cluster, topic: str, produce: Produce, consume: Consume) -> None:
    trio.create_topic(topic)
    client = trio.librdkafka_properties()
    for step, broker in enumerate((0, 1, 2)):
        trio.move_leader(topic, 0, broker)
        assert trio.leader(topic, 0) == broker
        assert produce(client, topic, str(step)) == step
    assert consume(client, topic, 3) == ["0", "1", "2"]


def test_a_leader_moves_to_a_broker_that_had_no_copy(trio: Cluster, topic: str, produce: Produce) -> None:
    trio.create_topic(topic, replication_factor=1)
    produce(trio.librdkafka_properties(), topic, "hello")
    other = (trio.leader(topic, 0) + 1) % 3
    trio.move_leader(topic, 0, other)
    assert trio.partition(topic, 0)["replica_nodes"] == [other]
    assert produce(trio.librdkafka_properties(), topic, "again") == 1


def test_a_broker_that_is_stopped_hands_its_leaders_over_first(trio: Cluster, topic: str) -> None:
    trio.create_topic(topic)
    leader = trio.leader(topic, 0)
    trio.brokers[leader].stop()
    try:
        assert trio.leader(topic, 0) not in (leader, -1)
    finally:
        trio.brokers[leader].start()
    until(lambda: leader in trio.partition(topic, 0)["isr_nodes"], "it is in sync again")


def test_of_two_brokers_one_may_die(lab: Lab, topic: str, produce: Produce) -> None:
    pair = lab.cluster("pair", brokers=2)
    pair.create_topic(topic)
    pair.brokers[1].kill()
    until(lambda: pair.leader(topic, 0) == 0, "the other broker leads")
    assert produce(pair.librdkafka_properties(), topic, "hello") == 0
    pair.brokers[1].restart()
    until(lambda: len(pair.partition(topic, 0)["isr_nodes"]) == 2, "both are in sync")
    lab.discard(pair)


def test_an_older_line_serves_and_survives_a_kill(old: Cluster, topic: str, produce: Produce, consume: Consume) -> None:
    old.create_topic(topic)
    assert produce(old.librdkafka_properties(), topic, "plaintext") == 0
    assert produce(old.librdkafka_properties(SCRAM_512_TLS, "alice"), topic, "scram") == 1
    assert produce(old.librdkafka_properties(OAUTH, "alice"), topic, "oauth") == 2
    old.brokers[0].kill()
    old.brokers[0].restart()
    assert consume(old.librdkafka_properties(), topic, 3) == ["plaintext", "scram", "oauth"]
    assert "PartitionCount: 1" in old.tool("topics", "--describe", "--topic", topic)
