"""What a cluster tells of those upstream, as MirrorClient sees it."""

from collections.abc import Iterator

import confluent_kafka
import pytest

from lab.cluster import Cluster
from lab.listeners import PLAINTEXT
from lab.waiting import until
from tests.failover.conftest import (
    GOOD_KEY,
    GOOD_VALUE,
    HEARTBEAT_MS,
    NOW_MS,
    POLICY,
    checkpoint,
    failed,
    heartbeat,
    write,
)
from twinlog import failover
from twinlog.errors import ConfigError, RefusedError, UnreachableError
from twinlog.failover import MirrorClient, OffsetAndMetadata, Upstream
from twinlog.kafka.records import Record
from twinlog.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.model import TopicPartition

DEFAULT = DefaultReplicationPolicy()
MALFORMED: dict[str, tuple[bytes | None, bytes | None]] = {
    "no key": (None, GOOD_VALUE),
    "key cut off": (GOOD_KEY[:-1], GOOD_VALUE),
    "empty value": (GOOD_KEY, b""),
    "value cut off": (GOOD_KEY, GOOD_VALUE[:-1]),
    "another version": checkpoint("app", "us.orders", 0, 10, 6, version=1),
    "negative offset": checkpoint("app", "us.orders", 0, 10, -1),
}


def records(*pairs: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [Record(at, NOW_MS + at, key, value) for at, (key, value) in enumerate(pairs)]


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
            ({}, "bootstrap.servers is missing; set it to the brokers of cluster 'eu' as host:port,host:port"),
            ({"bootstrap.servers": "h"}, "bootstrap.servers = 'h': 'h' is not host:port"),
            ({"bootstrap.servers": "<brokers>"}, "bootstrap.servers = '<brokers>': placeholder"),
            ({"bootstrap.servers": "h:1", "consumer.security.protocol": "TLS"}, "security.protocol = 'TLS': expected"),
            (
                {"bootstrap.servers": "h:1", POLICY + "class": "com.acme.Policy"},
                "'com.acme.Policy': unsupported Java class",
            ),
        ],
    )
    def test_properties_that_make_no_sense(self, properties: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigError) as raised:
            MirrorClient(properties, alias="eu")
        assert complaint in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_a_policy_of_the_operators_own(self) -> None:
        servers = {"bootstrap.servers": "h:1"}
        named = {
            POLICY + "class": "twinlog.mm2.replication_policy:IdentityReplicationPolicy",
            POLICY + "separator": "_",
        }
        with MirrorClient({**servers, **named, "source.cluster.alias": "A"}) as client:
            assert client.replication_policy == IdentityReplicationPolicy(
                source_alias="A", separator="_", internal_separator="_"
            )
        with pytest.raises(ConfigError, match="no module 'acme'"):
            MirrorClient({**servers, POLICY + "class": "acme.names:Policy"})

    def test_a_pattern_that_java_refuses(self) -> None:
        with (
            MirrorClient({"bootstrap.servers": "h:1"}) as client,
            pytest.raises(ConfigError, match=r"pattern 'app-\('"),
        ):
            client.remote_consumer_offsets_by_pattern("app-(", "us")


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
        with pytest.raises(UnreachableError, match=r"mcdA\.checkpoints\.internal not read to its end within 0 s"):
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
            tps = [confluent_kafka.TopicPartition(*tp, *at) for tp, at in offsets.items()]
            consumer.commit(offsets=tps, asynchronous=False)
            (there,) = consumer.committed(tps, timeout=20)
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
