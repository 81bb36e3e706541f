"""What an administrator asks, of real brokers and of real consumer groups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from twinlog.config import load
from twinlog.errors import RefusedError
from twinlog.kafka import codes, groups
from twinlog.kafka.admin import AclBinding, Admin, ConfigChange
from twinlog.kafka.client import Client
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.listeners import PLAINTEXT, SUPER_USER
from twinlog.lab.waiting import until
from twinlog.model import TopicPartition
from twinlog.topology.configs import DEFAULT_CONFIG, TOPIC_CONFIG

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
    """An authorizer that lets the product, which is nobody yet, do everything."""
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
    def test_they_are_read_with_where_they_come_from(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic, configs={"cleanup.policy": "compact,delete"})
        found, failed = admin(us).topic_configs([topic, "nowhere"])
        assert failed == {"nowhere": codes.UNKNOWN_TOPIC_OR_PARTITION}
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

    def test_they_are_changed_one_by_one(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic, configs={"retention.ms": "5000", "segment.ms": "6000"})
        us.create_topic(f"{topic}-b", configs={"retention.ms": "5000"})
        asked = admin(us)
        wanted = {
            topic: [ConfigChange("retention.ms", None), ConfigChange("max.message.bytes", "7000")],
            f"{topic}-b": [ConfigChange("retention.ms", "sometimes")],
            "nowhere": [ConfigChange("retention.ms", "1")],
            f"{topic}-c": [],
        }
        refused = asked.alter_topic_configs(wanted)
        assert {name: error.code for name, error in refused.items()} == {
            f"{topic}-b": codes.INVALID_CONFIG,
            "nowhere": codes.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert "sometimes" in str(refused[f"{topic}-b"])
        assert own(asked, topic) == {"segment.ms": "6000", "max.message.bytes": "7000"}
        assert own(asked, f"{topic}-b") == {"retention.ms": "5000"}

    def test_a_trial_changes_nothing(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        asked = admin(us)
        good, bad = ConfigChange("retention.ms", "5000"), ConfigChange("no.such.thing", "1")
        assert asked.alter_topic_configs({topic: [good]}, validate_only=True) == {}
        assert list(asked.alter_topic_configs({topic: [good, bad]}, validate_only=True)) == [topic]
        assert own(asked, topic) == {}
        assert asked.refuses_topic(f"{topic}-b", 1, 1, {"retention.ms": "5000"}) is None
        refusal = asked.refuses_topic(f"{topic}-b", 1, 1, {"no.such.thing": "5000"})
        assert refusal is not None
        assert refusal.code == codes.INVALID_CONFIG
        assert "no.such.thing" in str(refusal)
        assert asked.topic_configs([f"{topic}-b"])[1] == {f"{topic}-b": codes.UNKNOWN_TOPIC_OR_PARTITION}


class TestAcls:
    def test_without_an_authorizer_there_are_none(self, us: Cluster, admin: MakeAdmin) -> None:
        assert admin(us).acls() is None
        binding = AclBinding("TOPIC", "t", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        ((refused, reason),) = admin(us).create_acls([binding])
        assert refused == binding
        assert "authorizer" in reason.lower()

    def test_what_is_created_is_there(self, guarded: Cluster, admin: MakeAdmin, topic: str) -> None:
        asked = admin(guarded)
        wanted = [
            AclBinding("TOPIC", topic, "LITERAL", "User:alice", "*", "READ", "ALLOW"),
            AclBinding("TOPIC", topic, "LITERAL", "User:alice", "10.0.0.1", "ALL", "DENY"),
            AclBinding("TOPIC", f"{topic}-", "PREFIXED", "User:bob", "*", "DESCRIBE_CONFIGS", "ALLOW"),
        ]
        nameless = AclBinding("TOPIC", "", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        group = AclBinding("GROUP", topic, "LITERAL", "User:alice", "*", "READ", "ALLOW")
        assert [binding for binding, _ in asked.create_acls([nameless, *wanted, group])] == [nameless]
        assert asked.create_acls(wanted) == []
        found = asked.acls()
        assert found is not None
        assert sorted(each for each in found if each.name.startswith(topic)) == sorted(wanted)

    def test_without_the_right(self, secure: Cluster, admin: MakeAdmin) -> None:
        with pytest.raises(RefusedError) as caught:
            admin(secure).acls()
        assert caught.value.code == codes.CLUSTER_AUTHORIZATION_FAILED
        binding = AclBinding("TOPIC", "t", "LITERAL", "User:alice", "*", "READ", "ALLOW")
        assert [refused for refused, _ in admin(secure).create_acls([binding])] == [binding]


class TestRights:
    def test_where_nothing_is_guarded(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        rights = admin(us).topic_rights([topic, "nowhere"])
        assert rights["nowhere"] is None
        assert (rights[topic] or set()) >= {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "DELETE"}
        cluster = admin(us).cluster_rights()
        assert cluster is not None
        assert cluster >= {"CREATE", "ALTER", "DESCRIBE"}

    def test_where_it_is(self, secure: Cluster, admin: MakeAdmin, topic: str) -> None:
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

    def test_its_life(self, us: Cluster, admin: MakeAdmin, topic: str, protocol: str) -> None:
        us.create_topic(topic, 2)
        asked = admin(us)
        places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert asked.describe_groups([topic]) == {topic: None}
        assert asked.committed([topic]) == ({topic: {}}, {})
        with member(us, topic, topic, protocol) as consumer:
            until(lambda: asked.describe_groups([topic]) == {topic: "Stable"}, "stable")
            (listed,) = [each for each in asked.groups() if each.group == topic]
            assert (listed.protocol_type, listed.state, listed.kind) == ("consumer", "Stable", protocol)
            # Only members may commit now.
            assert asked.commit(topic, {places[0]: (7, "")}) == {places[0]: codes.UNKNOWN_MEMBER_ID}
            assert asked.committed([topic]) == ({topic: {}}, {})
            consumer.commit(offsets=[Place(topic, 0, 3)], asynchronous=False)
            assert asked.committed([topic])[0][topic] == {places[0]: (3, "")}
        until(lambda: asked.describe_groups([topic]) == {topic: "Empty"}, "empty")
        assert asked.commit(topic, {places[0]: (8, "from afar"), places[1]: (9, "")}) == {}
        assert asked.committed([topic]) == ({topic: {places[0]: (8, "from afar"), places[1]: (9, "")}}, {})


class TestGroups:
    def test_one_that_nobody_has_made_is_made_by_a_commit(self, us: Cluster, admin: MakeAdmin, topic: str) -> None:
        us.create_topic(topic)
        asked = admin(us)
        place = TopicPartition(topic, 0)
        assert asked.commit(topic, {place: (5, "m"), TopicPartition("nowhere", 0): (5, "")}) == {
            TopicPartition("nowhere", 0): codes.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert asked.describe_groups([topic]) == {topic: "Empty"}
        # Others see the same.
        theirs = AdminClient({"bootstrap.servers": us.bootstrap()})
        (asked_for,) = theirs.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]).values()
        (position,) = asked_for.result().topic_partitions
        assert (position.topic, position.partition, position.offset) == (topic, 0, 5)

    def test_many_at_once(self, pair: Cluster, admin: MakeAdmin, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """In several requests, at both brokers: each coordinates some of them."""
        monkeypatch.setattr(groups, "_BATCH", 4)
        pair.create_topic(topic)
        asked = admin(pair)
        names = [f"{topic}-{each}" for each in range(30)]
        place = TopicPartition(topic, 0)
        for at, name in enumerate(names):
            assert asked.commit(name, {place: (at, str(at))}) == {}
        assert set(asked._coordinators.values()) == {0, 1}
        fresh = admin(pair)
        found, failed = fresh.committed([*names, *names])
        assert failed == {}
        assert found == {name: {place: (at, str(at))} for at, name in enumerate(names)}
        assert fresh.describe_groups([*names, "nobody"]) == dict.fromkeys(names, "Empty") | {"nobody": None}
        assert {each.group for each in fresh.groups()} >= set(names)

    def test_a_coordinator_that_moved_is_found_again(self, pair: Cluster, admin: MakeAdmin, topic: str) -> None:
        pair.create_topic(topic)
        asked = admin(pair)
        place = TopicPartition(topic, 0)
        assert asked.commit(topic, {place: (1, "")}) == {}
        right = asked._coordinators[topic]
        questions: list[tuple[Callable[[], object], object]] = [
            (lambda: asked.committed([topic]), ({topic: {place: (1, "")}}, {})),
            (lambda: asked.describe_groups([topic]), {topic: "Empty"}),
            (lambda: asked.commit(topic, {place: (1, "")}), {}),
        ]
        for ask, answer in questions:
            asked._coordinators[topic] = 1 - right
            assert ask() == answer
            assert asked._coordinators[topic] == right

    def test_without_the_right(self, secure: Cluster, admin: MakeAdmin, topic: str) -> None:
        secure.create_topic(topic)
        secure.grant("ANONYMOUS", "READ", group=f"{topic}-open")
        secure.grant("ANONYMOUS", "READ", topic=topic)
        asked = admin(secure)
        place = TopicPartition(topic, 0)
        assert asked.commit(f"{topic}-open", {place: (1, "")}) == {}
        closed = f"{topic}-closed"
        assert asked.commit(closed, {place: (1, "")}) == {place: codes.GROUP_AUTHORIZATION_FAILED}
        found, failed = asked.committed([closed, f"{topic}-open"])
        assert found == {f"{topic}-open": {place: (1, "")}}
        assert failed == {closed: codes.GROUP_AUTHORIZATION_FAILED}
        assert asked.describe_groups([closed, f"{topic}-open"]) == {closed: "", f"{topic}-open": "Empty"}
        assert [each.group for each in asked.groups() if each.group.startswith(topic)] == [f"{topic}-open"]


@pytest.mark.parametrize("line", ["3.9"])
def test_an_older_broker(lab: Lab, admin: MakeAdmin, topic: str, line: str) -> None:
    old = lab.clusters(ClusterSpec(name="old-admin", line=line))[0]
    old.create_topic(topic, configs={"cleanup.policy": "compact"})
    asked = admin(old)
    place = TopicPartition(topic, 0)
    assert own(asked, topic) == {"cleanup.policy": "compact"}
    assert asked.commit(topic, {place: (4, "m")}) == {}
    assert asked.committed([topic]) == ({topic: {place: (4, "m")}}, {})
    assert asked.describe_groups([topic, "nobody"]) == {topic: "Empty", "nobody": None}
    assert asked.acls() is None


def test_versions_from_before_batches(
    us: Cluster, admin: MakeAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers before 3.0 are asked for one group at a time: a new one still understands that."""
    us.create_topic(topic)
    asked = admin(us)
    names = [f"{topic}-{each}" for each in range(3)]
    for name in names:
        assert asked.commit(name, {TopicPartition(topic, 0): (6, "m")}) == {}
    monkeypatch.setattr(groups, "_NAMES_TOPICS", 7)
    assert asked.committed(names) == ({name: {TopicPartition(topic, 0): (6, "m")} for name in names}, {})


def own(asked: Admin, topic: str) -> dict[str, str | None]:
    """What is set for the topic itself."""
    found = asked.topic_configs([topic])[0][topic]
    return {name: entry.value for name, entry in found.items() if entry.source == TOPIC_CONFIG}
