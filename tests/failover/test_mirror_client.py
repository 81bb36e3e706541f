"""What a cluster tells of those upstream: asked of MirrorClient, and of Kafka's own Java MirrorClient on the same topics.

Heartbeats and checkpoints are made by hand here, from the specification's tables.
"""

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from twinlog import failover
from twinlog.config import Config, load
from twinlog.errors import ConfigError, RefusedError, UnreachableError
from twinlog.failover import MirrorClient, OffsetAndMetadata, Upstream, client_properties
from twinlog.kafka.client import Client
from twinlog.kafka.records import Record, encode
from twinlog.lab.cluster import Cluster
from twinlog.lab.jvm import KafkaJvm
from twinlog.lab.listeners import PLAINTEXT
from twinlog.lab.waiting import until
from twinlog.model import TopicPartition
from twinlog.topology.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.topology.properties import client_of, policy_from

MIRROR = "org.apache.kafka.connect.mirror."
POLICY = "replication.policy."
FLAG = POLICY + "internal.topic.separator.enabled"
IDENTITY = {POLICY + "class": MIRROR + "IdentityReplicationPolicy"}
DEFAULT = DefaultReplicationPolicy()
NOW_MS = int(time.time() * 1000)  # brokers delete what is older than a week


def text(content: str) -> bytes:
    return struct.pack(">h", len(content.encode())) + content.encode()


def checkpoint(
    group: str, topic: str, partition: int, up: int, down: int, metadata: str = "", version: int = 0
) -> tuple[bytes, bytes]:
    key = text(group) + text(topic) + struct.pack(">i", partition)
    return key, struct.pack(">hqq", version, up, down) + text(metadata)


def heartbeat(source: str, target: str, time_ms: int) -> tuple[bytes, bytes]:
    return text(source) + text(target), struct.pack(">hq", 0, time_ms)


def records(*pairs: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [Record(at, NOW_MS + at, key, value) for at, (key, value) in enumerate(pairs)]


GOOD_KEY, GOOD_VALUE = checkpoint("app", "us.orders", 0, 10, 5)
MALFORMED: dict[str, tuple[bytes | None, bytes | None]] = {
    "no key": (None, GOOD_VALUE),
    "key cut off": (GOOD_KEY[:-1], GOOD_VALUE),
    "empty value": (GOOD_KEY, b""),
    "value cut off": (GOOD_KEY, GOOD_VALUE[:-1]),
    "another version": checkpoint("app", "us.orders", 0, 10, 6, version=1),
    "negative offset": checkpoint("app", "us.orders", 0, 10, -1),
}


class TestWithoutACluster:
    def test_the_specifications_example_of_hops(self) -> None:
        assert failover._hops(DEFAULT, "B.A.heartbeats", "B") == 1
        assert failover._hops(DEFAULT, "B.A.heartbeats", "A") == 2
        assert failover._hops(DEFAULT, "B.A.heartbeats", "C") == -1
        assert failover._hops(DEFAULT, "heartbeats", "A") == -1

    def test_a_topic_that_went_round_ends_where_it_comes_again(self) -> None:
        assert failover._sources(DEFAULT, "A.B.A.C.heartbeats") == ["A", "B"]
        assert failover._hops(DEFAULT, "A.B.A.C.heartbeats", "C") == -1

    def test_the_identity_policy_does_not_go_round_for_ever(self) -> None:
        assert failover._sources(IdentityReplicationPolicy(source_alias="A"), "orders") == ["A"]

    def test_the_heartbeats_of_a_cluster_are_those_that_were_written_on_it(self) -> None:
        topics = ["heartbeats", "B.A.heartbeats", "B.heartbeats", "A.heartbeats"]
        assert failover._nearest(DEFAULT, topics, "B") == (1, "B.heartbeats")
        assert failover._nearest(DEFAULT, topics, "A") == (1, "A.heartbeats")
        assert failover._nearest(DEFAULT, topics[:2], "A") == (2, "B.A.heartbeats")
        assert failover._nearest(DEFAULT, topics[:2], "B") == (1, "B.A.heartbeats")

    def test_the_last_checkpoint_of_a_partition_wins_also_when_it_goes_back(self) -> None:
        found = failover._newest(
            "t",
            records(
                checkpoint("app", "us.orders", 0, 10, 5),
                checkpoint("app", "us.orders", 1, 7, 7, "mine"),
                checkpoint("other", "us.orders", 0, 1, 1),
                checkpoint("app", "us.orders", 0, 4, 2),
            ),
            lambda group: group == "app",
        )
        orders = [TopicPartition("us.orders", each) for each in (0, 1)]
        assert found.offsets("app") == {orders[0]: OffsetAndMetadata(2, ""), orders[1]: OffsetAndMetadata(7, "mine")}
        assert found.groups["app"][orders[0]].upstream == 4
        assert found.written_ms == {"app": NOW_MS + 3}
        assert found.others == {"other"}
        assert found.offsets("other") == {}
        assert found.skipped == 0

    @pytest.mark.parametrize("pair", MALFORMED.values(), ids=MALFORMED)
    def test_what_is_no_checkpoint_is_left_out_and_counted(self, pair: tuple[bytes | None, bytes | None]) -> None:
        found = failover._newest("t", records((GOOD_KEY, GOOD_VALUE), pair), lambda _: True)
        assert found.offsets("app") == {TopicPartition("us.orders", 0): OffsetAndMetadata(5, "")}
        assert found.skipped == 1

    def test_a_tombstone_takes_a_checkpoint_away_as_compaction_will(self) -> None:
        found = failover._newest("t", records((GOOD_KEY, GOOD_VALUE), (GOOD_KEY, None)), lambda _: True)
        assert found.groups == {}
        assert found.skipped == 0

    @pytest.mark.parametrize(
        ("properties", "complaint"),
        [
            ({}, "bootstrap.servers is missing: give cluster 'eu' its brokers as host:port,host:port"),
            ({"bootstrap.servers": "h"}, "bootstrap.servers = 'h': 'h' is not host:port"),
            ({"bootstrap.servers": "<brokers>"}, "bootstrap.servers = '<brokers>' is a placeholder"),
            ({"bootstrap.servers": "h:1", "consumer.security.protocol": "TLS"}, "security.protocol = 'TLS': expected"),
            ({"bootstrap.servers": "h:1", POLICY + "class": "com.acme.Policy"}, "'com.acme.Policy': this class cannot"),
        ],
    )
    def test_properties_that_make_no_sense(self, properties: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigError) as raised:
            MirrorClient(properties, alias="eu")
        assert complaint in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_a_policy_of_the_operators_own(self) -> None:
        servers = {"bootstrap.servers": "h:1"}
        named = {POLICY + "class": "twinlog.topology.policy:IdentityReplicationPolicy", POLICY + "separator": "_"}
        with MirrorClient({**servers, **named, "source.cluster.alias": "A"}) as client:
            assert client.replication_policy == IdentityReplicationPolicy(
                source_alias="A", separator="_", internal_separator="_"
            )
        with pytest.raises(ConfigError, match="there is no module 'acme'"):
            MirrorClient({**servers, POLICY + "class": "acme.names:Policy"})

    def test_a_pattern_that_java_refuses(self) -> None:
        with (
            MirrorClient({"bootstrap.servers": "h:1"}) as client,
            pytest.raises(ConfigError, match=r"pattern 'app-\('"),
        ):
            client.remote_consumer_offsets_by_pattern("app-(", "us")


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
        assert all(internal(topic) for topic in failover._BROKERS_OWN)
        assert not internal("__other")
        field = kafka_jvm._class("org.apache.kafka.common.internals.Topic").getDeclaredField("INTERNAL_TOPICS")
        field.setAccessible(True)
        assert {str(each) for each in field.get(None)} == failover._BROKERS_OWN

    def test_names_are_those_that_the_flow_writes(self, read: Callable[..., Config]) -> None:
        config = read("us->eu.replication.policy.separator = _")
        assert policy_from(client_properties(config, "eu")).checkpoints_topic("us") == "us_checkpoints_internal"
        assert policy_from(client_properties(config, "us")).checkpoints_topic("eu") == "eu.checkpoints.internal"

    def test_flows_that_name_topics_differently_must_be_told_apart(self, read: Callable[..., Config]) -> None:
        more = "asia.bootstrap.servers = asia:1\nasia->eu.enabled = true\nasia->eu.replication.policy.separator = _\n"
        config = read(file=FILE.replace("us, eu", "us, eu, asia") + more)
        with pytest.raises(ConfigError, match="flows into it name topics differently"):
            client_properties(config, "eu")
        assert "replication.policy.separator" not in client_properties(config, "eu", "us")
        assert client_properties(config, "eu", "asia")["replication.policy.separator"] == "_"

    def test_flows_that_name_topics_alike_in_other_words(self, read: Callable[..., Config]) -> None:
        more = "asia.bootstrap.servers = asia:1\nasia->eu.enabled = true\nasia->eu.replication.policy.separator = .\n"
        config = read(file=FILE.replace("us, eu", "us, eu, asia") + more)
        assert client_properties(config, "eu")["bootstrap.servers"] == "eu:9092"

    def test_a_source_that_is_named_is_the_identity_policys(self, read: Callable[..., Config]) -> None:
        config = read("replication.policy.class = " + MIRROR + "IdentityReplicationPolicy")
        assert policy_from(client_properties(config, "eu", "us")).topic_source("orders") == "us"
        assert policy_from(client_properties(config, "eu")).topic_source("orders") is None

    def test_a_cluster_that_is_not_in_the_file(self, read: Callable[..., Config]) -> None:
        with pytest.raises(ConfigError, match=r"cluster moon: no such cluster in .*; there is: eu, us"):
            client_properties(read(), "moon")

    def test_a_file_without_flows_does_not_tell_names(self, read: Callable[..., Config]) -> None:
        with pytest.raises(ConfigError, match="how its topics are named is not known"):
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


class Place(NamedTuple):
    """One way to name topics, and aliases that no other test uses."""

    settings: dict[str, str]
    a: str
    b: str
    sep: str = "."
    internal: str = "."

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self.internal}checkpoints{self.internal}internal"


PLACES = {
    "default": Place({}, "mcdA", "mcdB"),
    "underscore": Place({POLICY + "separator": "_"}, "mcuA", "mcuB", "_", "_"),
    "underscore, dotted internals": Place({POLICY + "separator": "_", FLAG: "false"}, "mcfA", "mcfB", "_"),
    "hyphen": Place({POLICY + "separator": "-", FLAG: "TRUE"}, "mchA", "mchB", "-", "-"),
    "flag without separator": Place({FLAG: "false"}, "mcwA", "mcwB"),
    "identity": Place(IDENTITY, "mciA", "mciB"),
    "identity, source named": Place({**IDENTITY, "source.cluster.alias": "mcnA"}, "mcnA", "mcnB"),
    "identity, underscore": Place({**IDENTITY, POLICY + "separator": "_"}, "mcjA", "mcjB", "_", "_"),
}
HEARTBEAT_MS = 1_700_000_000_000


def _orders(place: Place) -> str:
    return f"{place.a}{place.sep}orders"


def _written(place: Place) -> list[tuple[bytes | None, bytes | None]]:
    orders = _orders(place)
    return [
        checkpoint("app-1", orders, 0, 10, 5),
        checkpoint("app-1", orders, 1, 100, 90, "from a consumer"),
        checkpoint("app-2", orders, 0, 3, 3),
        (b"\0", b"\0"),
        checkpoint("app-1", orders, 0, 20, 15),
        (GOOD_KEY, GOOD_VALUE[:-1]),
        checkpoint("Größe", orders, 0, 2**40, 2**40 - 1, "ä"),
        checkpoint("app-2", orders, 0, 1, 1),
        checkpoint("app-11", orders, 0, 0, 0),
    ]


@pytest.fixture(scope="module")
def stage(eu: Cluster) -> Cluster:
    """A cluster downstream of others, by every way to name topics: A beside it, B behind A, and one that went round."""
    topics: dict[str, list[tuple[bytes | None, bytes | None]]] = {"heartbeats": [heartbeat("us", "eu", HEARTBEAT_MS)]}
    for place in PLACES.values():
        a, b, sep = place.a, place.b, place.sep
        topics |= {
            f"{a}{sep}heartbeats": [heartbeat("x", a, HEARTBEAT_MS), heartbeat("y", a, HEARTBEAT_MS + 7)],
            f"{a}{sep}{b}{sep}heartbeats": [],
            f"{a}C{sep}{a}D{sep}{a}C{sep}{a}E{sep}heartbeats": [],
            f"{a}{sep}my-heartbeats": [],
            _orders(place): [],
            f"{a}{sep}{b}{sep}orders": [],
            f"{a}plain": [],
            place.checkpoints_topic(a): _written(place),
            place.checkpoints_topic(b): [],
            f"mm2-offset-syncs{place.internal}{a}{place.internal}internal": [],
        }
    with eu.admin() as admin:
        missing = set(topics) - set(admin.list_topics())
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1} for topic in missing})
        admin.wait_for_topics(sorted(topics))
    for topic, pairs in topics.items():
        write(eu.bootstrap(), topic, *pairs)
    return eu


def write(servers: str, topic: str, *pairs: tuple[bytes | None, bytes | None]) -> None:
    if not pairs:
        return
    batch = encode([(NOW_MS + at, key, value, ()) for at, (key, value) in enumerate(pairs)])
    client = Client("eu", client_of("eu", {"bootstrap.servers": servers}, "consumer"))

    try:
        until(
            lambda: not failed(lambda: client.append(TopicPartition(topic, 0), batch)), f"writing to {topic}"
        )  # it may have been made this very moment
    finally:
        client.close()


def failed(question: Callable[[], object]) -> bool:
    try:
        question()
    except RefusedError:
        return True
    return False


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
def place(request: pytest.FixtureRequest) -> Place:
    return PLACES[request.param]


@pytest.fixture(scope="module")
def properties(stage: Cluster, place: Place) -> dict[str, str]:
    return {"bootstrap.servers": stage.bootstrap(), **place.settings}


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
    def test_what_names_say(self, client: MirrorClient, java: Java, place: Place) -> None:
        found = client.heartbeat_topics()
        assert found == java.names(java.client.heartbeatTopics())
        assert {"heartbeats", f"{place.a}{place.sep}heartbeats"} <= found
        found = client.checkpoint_topics()
        assert found == java.names(java.client.checkpointTopics())
        assert place.checkpoints_topic(place.a) in found
        found = client.upstream_clusters()
        assert found == java.names(java.client.upstreamClusters())
        assert {place.a, place.b, f"{place.a}C", f"{place.a}D"} <= found
        assert f"{place.a}E" not in found
        assert client.remote_topics() == java.names(java.client.remoteTopics())
        for alias in (place.a, place.b, "nobody"):
            assert client.remote_topics(alias) == java.names(java.client.remoteTopics(alias))

    def test_hops(self, client: MirrorClient, java: Java, place: Place) -> None:
        wanted = {place.a: 1, place.b: 2, f"{place.a}C": 1, f"{place.a}D": 2, f"{place.a}E": -1, "nobody": -1}
        assert {alias: client.replication_hops(alias) for alias in wanted} == wanted
        assert {alias: java.client.replicationHops(alias) for alias in wanted} == wanted

    def test_offsets_of_a_group(self, client: MirrorClient, java: Java, place: Place) -> None:
        for group in ("app-1", "nobody"):
            found = client.remote_consumer_offsets(group, place.a, 20)
            judge = java.client.remoteConsumerOffsets(group, place.a, java.seconds(20))
            assert found == java.offsets(judge)
        orders = _orders(place)
        assert client.remote_consumer_offsets("app-1", place.a, 20) == {
            TopicPartition(orders, 0): OffsetAndMetadata(15, ""),
            TopicPartition(orders, 1): OffsetAndMetadata(90, "from a consumer"),
        }
        assert client.remote_consumer_offsets("app-2", place.a) == {TopicPartition(orders, 0): OffsetAndMetadata(1, "")}

    def test_an_empty_checkpoints_topic(self, client: MirrorClient, java: Java, place: Place) -> None:
        assert client.remote_consumer_offsets("app-1", place.b, 20) == {}
        assert java.offsets(java.client.remoteConsumerOffsets("app-1", place.b, java.seconds(20))) == {}
        assert client.remote_consumer_offsets_by_pattern(".*", place.b, 20) == {}

    def test_offsets_of_every_group(self, client: MirrorClient, java: Java, place: Place) -> None:
        found = client.remote_consumer_offsets_by_pattern(".*", place.a, 20)
        assert found == java.by_group(java.client.remoteConsumerOffsets(java.pattern(".*"), place.a, java.seconds(20)))
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
    place = PLACES["default"]
    properties = {"bootstrap.servers": stage.bootstrap()}
    java = Java(kafka_jvm, properties)
    try:
        utils, given = java.utils, java.properties
        assert failover.replication_hops(properties, place.b) == utils.replicationHops(given, place.b) == 2
        assert failover.heartbeat_topics(properties) == java.names(utils.heartbeatTopics(given))
        assert failover.checkpoint_topics(properties) == java.names(utils.checkpointTopics(given))
        assert failover.upstream_clusters(properties) == java.names(utils.upstreamClusters(given))
        found = failover.translate_offsets(properties, place.a, "app-1", 20)
        assert found == java.offsets(utils.translateOffsets(given, place.a, "app-1", java.seconds(20)))
        assert found
    finally:
        java.close()


@pytest.mark.broker
class TestBeyondJava:
    @pytest.fixture
    def client(self, stage: Cluster) -> Iterator[MirrorClient]:
        with MirrorClient({"bootstrap.servers": stage.bootstrap()}, alias="eu") as made:
            yield made

    def test_records_that_are_no_checkpoints_are_counted(self, client: MirrorClient) -> None:
        found = client.checkpoints("mcdA", 20, lambda group: group == "app-1")
        assert found.skipped == 2
        assert found.others == {"app-2", "Größe", "app-11"}
        assert found.written_ms == {"app-1": NOW_MS + 4}

    def test_a_checkpoints_topic_that_is_missing(self, client: MirrorClient) -> None:
        with pytest.raises(RefusedError) as raised:
            client.remote_consumer_offsets("app-1", "mars")
        said = str(raised.value)
        assert said.startswith("cluster eu has no topic mars.checkpoints.internal")
        assert "mars->eu" in said
        assert "emit.checkpoints.enabled" in said
        known = said.rpartition(": ")[2].split(", ")
        assert {"mcdA", "mcdB", "mcwA", "mciA"} <= set(known)
        assert "mars.checkpoints.internal" not in client.checkpoint_topics()  # nor was it made

    def test_time_that_is_too_short_is_an_error_not_half_an_answer(self, client: MirrorClient) -> None:
        with pytest.raises(
            UnreachableError, match=r"mcdA\.checkpoints\.internal could not be read to its end within 0 s"
        ):
            client.remote_consumer_offsets("app-1", "mcdA", 0)
        assert client.remote_consumer_offsets("app-1", "mcdA")  # and the client goes on

    def test_what_comes_later_is_seen(self, client: MirrorClient, eu: Cluster, topic: str) -> None:
        eu.create_topic(f"{topic}.checkpoints.internal")
        assert client.remote_consumer_offsets("app", topic) == {}
        for offset in (5, 9):
            write(eu.bootstrap(), f"{topic}.checkpoints.internal", checkpoint("app", "t", 0, 10, offset))
            found = client.remote_consumer_offsets("app", topic)
            assert found == {TopicPartition("t", 0): OffsetAndMetadata(offset, "")}

    def test_many_checkpoints_over_many_fetches(self, client: MirrorClient, eu: Cluster, topic: str) -> None:
        eu.create_topic(f"{topic}.checkpoints.internal")
        for turn in range(4):
            pairs = [checkpoint(f"g{at}", "t", 0, turn, turn, "m" * 200) for at in range(2500)]
            write(eu.bootstrap(), f"{topic}.checkpoints.internal", *pairs)
        found = client.remote_consumer_offsets_by_pattern("g.*", topic)
        assert len(found) == 2500
        assert {offsets[TopicPartition("t", 0)].offset for offsets in found.values()} == {3}

    def test_upstream_clusters_with_their_newest_heartbeats(self, client: MirrorClient) -> None:
        found = {each.alias: each for each in client.upstreams()}
        assert set(found) == client.upstream_clusters()
        near, far = found["mcdA"], found["mcdB"]
        assert (near.hops, near.heartbeats_topic, near.heartbeat_ms) == (1, "mcdA.heartbeats", HEARTBEAT_MS + 7)
        assert near.remote_topics == (
            "mcdA.heartbeats",
            "mcdA.mcdB.heartbeats",
            "mcdA.mcdB.orders",
            "mcdA.my-heartbeats",
            "mcdA.orders",
        )
        assert (far.hops, far.heartbeats_topic, far.heartbeat_ms) == (2, "mcdA.mcdB.heartbeats", None)
        assert far.remote_topics == ()

    def test_a_newest_heartbeat_that_has_others_behind_it(self, client: MirrorClient, eu: Cluster, topic: str) -> None:
        """Others wrote into the topic: the newest record that is a heartbeat counts, however far back."""
        name = f"{topic}.heartbeats"
        eu.create_topic(name)
        write(eu.bootstrap(), name, heartbeat("x", topic, 1), heartbeat("x", topic, 2))
        write(eu.bootstrap(), name, *[(b"?", b"?")] * 150)
        assert client._newest_heartbeat(name) == 2

    def test_offsets_can_be_committed_by_a_client_of_kafka(self, client: MirrorClient, eu: Cluster, topic: str) -> None:
        """The example of docs/failover.md."""
        eu.create_topic(f"{topic}.orders")
        eu.create_topic(f"{topic}.checkpoints.internal")
        pair = checkpoint(topic, f"{topic}.orders", 0, 30, 20, "mine")
        write(eu.bootstrap(), f"{topic}.checkpoints.internal", pair)
        offsets = client.remote_consumer_offsets(topic, topic)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": eu.bootstrap(), "group.id": topic})
        try:
            places = [confluent_kafka.TopicPartition(*place, *at) for place, at in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
            (there,) = consumer.committed(places, timeout=20)
        finally:
            consumer.close()
        assert (there.topic, there.partition, there.offset, there.metadata) == (f"{topic}.orders", 0, 20, "mine")

    def test_a_right_is_missing(self, secure: Cluster, topic: str) -> None:
        checkpoints, heartbeats = f"{topic}.checkpoints.internal", f"{topic}.heartbeats"
        for name in (checkpoints, heartbeats):
            secure.create_topic(name)
        servers = secure.bootstrap(PLAINTEXT)
        with MirrorClient({"bootstrap.servers": servers}, alias="eu") as client:
            with pytest.raises(RefusedError, match=f"grant Describe and Read on topic {checkpoints}"):
                client.checkpoints(topic, 20)
            for name in (checkpoints, heartbeats):
                secure.grant("ANONYMOUS", "DESCRIBE", "WRITE", topic=name)
                write(servers, name, heartbeat("x", topic, 1))
            with pytest.raises(RefusedError, match=f"grant Describe and Read on topic {checkpoints}"):
                client.checkpoints(topic, 20)
            # Who may not read heartbeats still sees what names say.
            assert client.upstreams() == [Upstream(topic, 1, heartbeats, None, (heartbeats,))]
            secure.grant("ANONYMOUS", "READ", topic=checkpoints)
            until(lambda: not failed(lambda: client.checkpoints(topic, 20)), "granting")

    def test_brokers_own_topics_are_hidden(self, client: MirrorClient, stage: Cluster) -> None:
        with stage.admin() as admin:
            admin.list_group_offsets(["whoever"])  # makes the cluster create __consumer_offsets
        until(lambda: "__consumer_offsets" in client._admin.metadata(None).topics, "making __consumer_offsets")
        assert "__consumer_offsets" not in client._topics()
