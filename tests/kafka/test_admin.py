"""Admin requests against real brokers and consumer groups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from lab.listeners import PLAINTEXT, SUPER_USER
from lab.waiting import until
from twinlog.config import load
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes, groups
from twinlog.kafka.admin import AclBinding, Admin, ConfigChange
from twinlog.kafka.client import Client
from twinlog.kafka.resources import DEFAULT_CONFIG, TOPIC_CONFIG
from twinlog.model import TopicPartition

pytestmark = pytest.mark.broker

MakeAdmin = Callable[[Cluster], Admin]


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[MakeAdmin]:
    made: list[Client] = []

    def make(cluster: Cluster) -> Admin:
        file = tmp_path / "mm2.properties"
        servers = cluster.bootstrap(PLAINTEXT)
        file.write_text(
            f"clusters=us,eu\nus.bootstrap.servers={servers}\neu.bootstrap.servers=h:1\nus->eu.enabled=true"
        )
        flow = next(flow for flow in load([file]).flows if flow.replicates)
        assert flow.source is not None
        made.append(Client("us", flow.source.clients["source.admin"]))
        return Admin(made[-1])

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def guarded(lab: Lab) -> Iterator[Cluster]:
    """An authorizer that permits everything to the unauthenticated user."""
    settings = {"super.users": f"User:{SUPER_USER};User:ANONYMOUS"}
    (cluster,) = lab.clusters(ClusterSpec(name="admin-guarded", authorizer=True, settings=settings))
    yield cluster
    lab.discard(cluster)


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[Cluster]:
    (cluster,) = lab.clusters(ClusterSpec(name="admin-pair", brokers=2))
    yield cluster
    lab.discard(cluster)


class TestConfigs:
    def test_configs_have_a_source(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic, configs={"cleanup.policy": "compact,delete"})
        found, failed = admin(us).topic_configs([topic, "nowhere"])
        assert failed == {"nowhere": error_codes.UNKNOWN_TOPIC_OR_PARTITION}
        policy, rolled = found[topic]["cleanup.policy"], found[topic]["segment.ms"]
        assert (policy.value, policy.source, policy.is_default) == ("compact,delete", TOPIC_CONFIG, False)
        assert (rolled.value, rolled.source, rolled.is_default) == ("604800000", DEFAULT_CONFIG, True)
        assert not policy.read_only
        assert not policy.sensitive

    def test_of_many_topics(self, us: Cluster, admin: MakeAdmin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("twinlog.kafka.admin._BATCH", 2)
        names = [f"{topic}-{each}" for each in range(5)]
        for name in names:
            us.create_topic(name, configs={"segment.ms": "777777"})
        found, failed = admin(us).topic_configs([*names, "nowhere"])
        assert {name: entries["segment.ms"].value for name, entries in found.items()} == dict.fromkeys(names, "777777")
        assert list(failed) == ["nowhere"]

    def test_configs_are_altered_per_topic(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic, configs={"retention.ms": "5000", "segment.ms": "6000"})
        us.create_topic(f"{topic}-b", configs={"retention.ms": "5000"})
        admin_client = admin(us)
        wanted = {
            topic: [ConfigChange("retention.ms", None), ConfigChange("max.message.bytes", "7000")],
            f"{topic}-b": [ConfigChange("retention.ms", "sometimes")],
            "nowhere": [ConfigChange("retention.ms", "1")],
            f"{topic}-c": [],
        }
        refused = admin_client.alter_topic_configs(wanted)
        assert {name: error.code for name, error in refused.items()} == {
            f"{topic}-b": error_codes.INVALID_CONFIG,
            "nowhere": error_codes.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert "sometimes" in str(refused[f"{topic}-b"])
        wanted_configs = {"segment.ms": "6000", "max.message.bytes": "7000"}
        until(lambda: own(admin_client, topic) == wanted_configs, f"configs should be {wanted_configs}")
        assert own(admin_client, f"{topic}-b") == {"retention.ms": "5000"}

    def test_validate_only_changes_nothing(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        admin_client = admin(us)
        good, bad = ConfigChange("retention.ms", "5000"), ConfigChange("no.such.thing", "1")
        assert admin_client.alter_topic_configs({topic: [good]}, validate_only=True) == {}
        assert list(admin_client.alter_topic_configs({topic: [good, bad]}, validate_only=True)) == [topic]
        assert own(admin_client, topic) == {}
        assert admin_client.refuses_topic(f"{topic}-b", 1, 1, {"retention.ms": "5000"}) is None
        refused = admin_client.refuses_topic(f"{topic}-b", 1, 1, {"no.such.thing": "5000"})
        assert refused is not None
        assert refused.code == error_codes.INVALID_CONFIG
        assert "no.such.thing" in str(refused)
        assert admin_client.topic_configs([f"{topic}-b"])[1] == {f"{topic}-b": error_codes.UNKNOWN_TOPIC_OR_PARTITION}


class TestAcls:
    def test_without_an_authorizer_there_are_none(self, us: Cluster, admin: MakeAdmin) -> None:
        assert admin(us).acls() is None
        binding = AclBinding("TOPIC", "t", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        ((refused, reason),) = admin(us).create_acls([binding])
        assert refused == binding
        assert "authorizer" in reason.lower()

    def test_created_acls_are_listed(self, guarded: Cluster, admin: MakeAdmin, topic: str) -> None:
        admin_client = admin(guarded)
        wanted = [
            AclBinding("TOPIC", topic, "LITERAL", "User:alice", "*", "READ", "ALLOW"),
            AclBinding("TOPIC", topic, "LITERAL", "User:alice", "10.0.0.1", "ALL", "DENY"),
            AclBinding("TOPIC", f"{topic}-", "PREFIXED", "User:bob", "*", "DESCRIBE_CONFIGS", "ALLOW"),
        ]
        nameless = AclBinding("TOPIC", "", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        group = AclBinding("GROUP", topic, "LITERAL", "User:alice", "*", "READ", "ALLOW")
        assert [binding for binding, _ in admin_client.create_acls([nameless, *wanted, group])] == [nameless]
        assert admin_client.create_acls(wanted) == []
        until(
            lambda: sorted(each for each in admin_client.acls() or () if each.name.startswith(topic)) == sorted(wanted),
            "the broker should show the ACLs",
        )

    def test_without_permission(self, secure: Cluster, admin: MakeAdmin) -> None:
        with pytest.raises(RefusedError) as caught:
            admin(secure).acls()
        assert caught.value.code == error_codes.CLUSTER_AUTHORIZATION_FAILED
        binding = AclBinding("TOPIC", "t", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        assert [refused for refused, _ in admin(secure).create_acls([binding])] == [binding]


class TestRights:
    def test_without_an_authorizer(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        rights = admin(us).topic_rights([topic, "nowhere"])
        assert rights["nowhere"] is None
        assert (rights[topic] or set()) >= {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DELETE"}
        cluster = admin(us).cluster_rights()
        assert cluster is not None
        assert cluster >= {"CREATE", "ALTER", "DESCRIBE"}

    def test_with_an_authorizer(self, secure: Cluster, admin: MakeAdmin, topic: str) -> None:
        secure.create_topic(topic)
        secure.create_topic(f"{topic}-closed")
        secure.grant("ANONYMOUS", "READ", "DESCRIBE_CONFIGS", topic=topic)
        rights = admin(secure).topic_rights([topic, f"{topic}-closed"])
        assert rights == {topic: {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}, f"{topic}-closed": frozenset()}
        assert admin(secure).cluster_rights() == frozenset()


@contextmanager
def member(cluster: Cluster, group: str, topic: str, protocol: str) -> Iterator[Any]:
    """A consumer that has its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(PLAINTEXT),
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), f"{group} has its partitions")
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
class TestAGroup:
    """Classic, and of the new protocol."""

    def test_life_cycle(self, us: Cluster, admin: MakeAdmin, topic: str, protocol: str) -> None:
        us.create_topic(topic, 2)
        admin_client = admin(us)
        tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert admin_client.describe_groups([topic]) == {topic: None}
        assert admin_client.committed([topic]) == ({topic: {}}, {})
        with member(us, topic, topic, protocol) as consumer:
            until(lambda: admin_client.describe_groups([topic]) == {topic: "Stable"}, "stable")
            (listed,) = [each for each in admin_client.groups() if each.group == topic]
            assert (listed.protocol_type, listed.state, listed.kind) == ("consumer", "Stable", protocol)
            # Only members may commit now.
            assert admin_client.commit(topic, {tps[0]: (7, "")}) == {tps[0]: error_codes.UNKNOWN_MEMBER_ID}
            assert admin_client.committed([topic]) == ({topic: {}}, {})
            consumer.commit(offsets=[Place(topic, 0, 3)], asynchronous=False)
            assert admin_client.committed([topic])[0][topic] == {tps[0]: (3, "")}
        until(lambda: admin_client.describe_groups([topic]) == {topic: "Empty"}, "empty")
        assert admin_client.commit(topic, {tps[0]: (8, "from afar"), tps[1]: (9, "")}) == {}
        assert admin_client.committed([topic]) == ({topic: {tps[0]: (8, "from afar"), tps[1]: (9, "")}}, {})


class TestGroups:
    def test_commit_creates_the_group(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        admin_client = admin(us)
        tp = TopicPartition(topic, 0)
        assert admin_client.commit(topic, {tp: (5, "m"), TopicPartition("nowhere", 0): (5, "")}) == {
            TopicPartition("nowhere", 0): error_codes.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert admin_client.describe_groups([topic]) == {topic: "Empty"}
        # Others see the same.
        theirs = AdminClient({"bootstrap.servers": us.bootstrap()})
        (asked_for,) = theirs.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]).values()
        (position,) = asked_for.result().topic_partitions
        assert (position.topic, position.partition, position.offset) == (topic, 0, 5)

    def test_many_at_once(self, pair: Cluster, admin: MakeAdmin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """In several requests, at both brokers: each coordinates some of them."""
        monkeypatch.setattr(groups, "_BATCH", 4)
        pair.create_topic(topic)
        admin_client = admin(pair)
        names = [f"{topic}-{each}" for each in range(30)]
        tp = TopicPartition(topic, 0)
        for at, name in enumerate(names):
            assert admin_client.commit(name, {tp: (at, str(at))}) == {}
        assert set(admin_client._coordinators.values()) == {0, 1}
        fresh = admin(pair)
        found, failed = fresh.committed([*names, *names])
        assert failed == {}
        assert found == {name: {tp: (at, str(at))} for at, name in enumerate(names)}
        assert fresh.describe_groups([*names, "nobody"]) == dict.fromkeys(names, "Empty") | {"nobody": None}
        assert {each.group for each in fresh.groups()} >= set(names)

    def test_moved_coordinator(self, pair: Cluster, admin: MakeAdmin, topic: str) -> None:
        pair.create_topic(topic)
        admin_client = admin(pair)
        tp = TopicPartition(topic, 0)
        assert admin_client.commit(topic, {tp: (1, "")}) == {}
        right = admin_client._coordinators[topic]
        requests: list[tuple[Callable[[], object], object]] = [
            (lambda: admin_client.committed([topic]), ({topic: {tp: (1, "")}}, {})),
            (lambda: admin_client.describe_groups([topic]), {topic: "Empty"}),
            (lambda: admin_client.commit(topic, {tp: (1, "")}), {}),
        ]
        for send, expected in requests:
            admin_client._coordinators[topic] = 1 - right
            assert send() == expected
            assert admin_client._coordinators[topic] == right

    def test_without_permission(self, secure: Cluster, admin: MakeAdmin, topic: str) -> None:
        secure.create_topic(topic)
        secure.grant("ANONYMOUS", "READ", group=f"{topic}-open")
        secure.grant("ANONYMOUS", "READ", topic=topic)
        admin_client = admin(secure)
        tp = TopicPartition(topic, 0)
        assert admin_client.commit(f"{topic}-open", {tp: (1, "")}) == {}
        closed = f"{topic}-closed"
        assert admin_client.commit(closed, {tp: (1, "")}) == {tp: error_codes.GROUP_AUTHORIZATION_FAILED}
        found, failed = admin_client.committed([closed, f"{topic}-open"])
        assert found == {f"{topic}-open": {tp: (1, "")}}
        assert failed == {closed: error_codes.GROUP_AUTHORIZATION_FAILED}
        assert admin_client.describe_groups([closed, f"{topic}-open"]) == {closed: "", f"{topic}-open": "Empty"}
        assert [each.group for each in admin_client.groups() if each.group.startswith(topic)] == [f"{topic}-open"]


@pytest.mark.parametrize("line", ["3.9"])
def test_an_older_broker(lab: Lab, admin: MakeAdmin, topic: str, line: str) -> None:
    old = lab.clusters(ClusterSpec(name="old-admin", line=line))[0]
    old.create_topic(topic, configs={"cleanup.policy": "compact"})
    admin_client = admin(old)
    tp = TopicPartition(topic, 0)
    assert own(admin_client, topic) == {"cleanup.policy": "compact"}
    assert admin_client.commit(topic, {tp: (4, "m")}) == {}
    assert admin_client.committed([topic]) == ({topic: {tp: (4, "m")}}, {})
    assert admin_client.describe_groups([topic, "nobody"]) == {topic: "Empty", "nobody": None}
    assert admin_client.acls() is None


def test_versions_from_before_batches(
    us: Cluster, admin: MakeAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 3.0 need one request per group, which newer ones support too."""
    us.create_topic(topic)
    admin_client = admin(us)
    names = [f"{topic}-{each}" for each in range(3)]
    for name in names:
        assert admin_client.commit(name, {TopicPartition(topic, 0): (6, "m")}) == {}
    monkeypatch.setattr(groups, "_BY_TOPIC_NAME", 7)
    assert admin_client.committed(names) == ({name: {TopicPartition(topic, 0): (6, "m")} for name in names}, {})


def own(admin_client: Admin, topic: str) -> dict[str, str | None]:
    """What is set for the topic itself."""
    found = admin_client.topic_configs([topic])[0][topic]
    return {name: entry.value for name, entry in found.items() if entry.source == TOPIC_CONFIG}
