"""Remote topics, their configs and ACLs, with real brokers and a real authorizer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.lab import Lab
from lab.listeners import PLAINTEXT, SASL_PLAIN, SUPER_USER
from lab.waiting import until
from twinlog.config import FlowConfig, load
from twinlog.kafka.admin import Admin, ConfigChange
from twinlog.kafka.client import Client, NewTopic
from twinlog.kafka.resources import TOPIC_CONFIG, AclBinding
from twinlog.spark.planner import Planner, PlannerWarning
from twinlog.sync.configs_and_acls import ConfigAndAclSync
from twinlog.sync.remote_topics import batches

pytestmark = pytest.mark.broker

Produce = Callable[..., int]
Consume = Callable[..., list[str]]


class Flow:
    """A->B between two clusters, which may be one, for the topics of one test."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster, topics: str, *lines: str) -> None:
        file = folder / "mm2.properties"
        file.write_text(
            "clusters = A, B\n"
            f"A.bootstrap.servers = {source.bootstrap(PLAINTEXT)}\n"
            f"B.bootstrap.servers = {target.bootstrap(PLAINTEXT)}\n"
            f"A->B.enabled = true\ntopics = {topics}\nreplication.factor = 1\n"
            "heartbeats.replication.enabled = false\n" + "\n".join(lines)
        )
        self.config: FlowConfig = next(flow for flow in load([file]).flows if flow.replicates)
        self.warnings: dict[str, str] = {}
        self.sync = ConfigAndAclSync(self.config, self._warn)
        self.planner = Planner(self.config, "run")
        assert self.config.source is not None
        self.client = Client("B", self.config.source.clients["target.admin"])
        self.target = Admin(self.client)

    def _warn(self, key: str, text: str) -> None:
        assert key not in self.warnings, "one warning per key"
        self.warnings[key] = text

    def close(self) -> None:
        self.sync.close()
        self.planner.close()
        self.client.close()

    def own(self, topic: str) -> dict[str, str | None]:
        """Configs set on the topic itself, on the target."""
        entries = self.target.topic_configs([topic])[0][topic]
        return {name: entry.value for name, entry in entries.items() if entry.source == TOPIC_CONFIG}

    def changed(self, topic: str, name: str, value: str) -> dict[str, str | None]:
        """The same when the broker has applied a change, which is acknowledged by the controller."""
        until(lambda: self.own(topic).get(name) == value, f"{name} of {topic} should be {value}", seconds=30)
        return self.own(topic)

    def set(self, topic: str, **configs: str | None) -> None:
        """A manual change on the target."""
        changes = [ConfigChange(name.replace("_", "."), value) for name, value in configs.items()]
        assert self.target.alter_topic_configs({topic: changes}) == {}
        wanted = {change.name: change.value for change in changes}
        until(lambda: wanted.items() <= self.own(topic).items(), f"{topic} should have {wanted}", seconds=30)


MakeFlow = Callable[..., Flow]


@pytest.fixture
def flow(tmp_path: Path) -> Iterator[MakeFlow]:
    made: list[Flow] = []

    def make(source: Cluster, target: Cluster, topics: str, *lines: str) -> Flow:
        made.append(Flow(tmp_path, source, target, topics, *lines))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def guarded(lab: Lab) -> Cluster:
    """With an authorizer that allows everything for unauthenticated clients."""
    settings = {"super.users": f"User:{SUPER_USER};User:ANONYMOUS"}
    wanted = ClusterSpec(
        name="guarded-topics",
        listeners=(PLAINTEXT, SASL_PLAIN),
        users=("alice", "bob"),
        authorizer=True,
        settings=settings,
    )
    return lab.clusters(wanted)[0]


@pytest.fixture(scope="module")
def old(lab: Lab) -> Cluster:
    """Kafka 3.9 has topic configs that Kafka 4 does not support, and accepts values that it rejects."""
    return lab.clusters(ClusterSpec(name="old-topics", line="3.9"))[0]


class TestANewRemoteTopic:
    def test_it_has_the_sources_configs_from_the_start(
        self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        us.create_topic(
            topic, 3, configs={"cleanup.policy": "compact", "retention.ms": "12345678", "min.insync.replicas": "1"}
        )
        us.create_topic(f"{topic}-b")
        mirror = flow(us, eu, f"{topic}.*")
        assignments = mirror.planner.discover()
        assert [str(assignment.remote) for assignment in assignments] == [
            *(f"A.{topic}-{each}" for each in range(3)),
            f"A.{topic}-b-0",
        ]
        assert mirror.own(f"A.{topic}") == {"cleanup.policy": "compact", "retention.ms": "12345678"}
        assert mirror.own(f"A.{topic}-b") == {}
        assert mirror.planner.warnings == []
        assert mirror.sync.sync_configs() == 0

    def test_topics_are_created_together_and_one_that_is_refused_does_not_affect_the_others(
        self, old: Cluster, eu: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        """Newer Kafka requires segments of at least 1 MB."""
        for name, size in (("a", "2000000"), ("b", "100000"), ("c", "3000000")):
            old.create_topic(f"{topic}-{name}", 2, configs={"segment.bytes": size})
        mirror = flow(old, eu, f"{topic}-.*")
        assert len(mirror.planner.discover()) == 6
        assert mirror.own(f"A.{topic}-a") == {"segment.bytes": "2000000"}
        assert mirror.own(f"A.{topic}-b") == {}
        assert mirror.own(f"A.{topic}-c") == {"segment.bytes": "3000000"}
        (warning,) = mirror.planner.warnings
        assert f"topic A.{topic}-b created without segment.bytes = 100000" in warning.text
        wanted = [NewTopic(f"A.{topic}-{name}", 1, 1, {}) for name in ("a", "d", "e" * 300)]
        assert mirror.client.create_topics(wanted) == {f"A.{topic}-a", f"A.{topic}-d"}, "those that exist now"

    def test_with_the_sources_defaults(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic, configs={"retention.ms": "12345678"})
        mirror = flow(us, eu, topic, "A->B.use.defaults.from = source")
        mirror.planner.discover()
        own = mirror.own(f"A.{topic}")
        assert own["retention.ms"] == "12345678"
        assert own["cleanup.policy"] == "delete"
        assert own["segment.bytes"] == "1073741824"
        assert "min.insync.replicas" not in own
        assert mirror.planner.warnings == []
        assert mirror.sync.sync_configs() == 0

    def test_configs_that_the_target_rejects(self, old: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        """Newer Kafka requires segments of at least 1 MB."""
        old.create_topic(
            topic, configs={"segment.bytes": "100000", "cleanup.policy": "compact", "segment.ms": "6000000"}
        )
        mirror = flow(old, eu, topic)
        assert len(mirror.planner.discover()) == 1
        assert mirror.own(f"A.{topic}") == {"cleanup.policy": "compact", "segment.ms": "6000000"}
        (warning,) = mirror.planner.warnings
        assert warning.text.startswith(f"topic A.{topic} created without segment.bytes = 100000: ")
        assert not warning.left_out

    def test_configs_that_the_target_does_not_support(
        self, old: Cluster, eu: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        old.create_topic(topic, configs={"cleanup.policy": "compact"})
        mirror = flow(old, eu, topic, "A->B.use.defaults.from = source")
        assert len(mirror.planner.discover()) == 1
        assert mirror.own(f"A.{topic}")["cleanup.policy"] == "compact"
        (warning,) = mirror.planner.warnings
        assert "message.format.version = " in warning.text

    def test_without_permission_to_read_configs(self, secure: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        for name in (topic, f"{topic}-open"):
            secure.create_topic(name, configs={"cleanup.policy": "compact"})
            secure.grant("ANONYMOUS", "READ", topic=name)
        secure.grant("ANONYMOUS", "DESCRIBE_CONFIGS", topic=f"{topic}-open")
        mirror = flow(secure, eu, f"{topic}.*")
        assert len(mirror.planner.discover()) == 2
        assert mirror.own(f"A.{topic}") == {}
        assert mirror.own(f"A.{topic}-open") == {"cleanup.policy": "compact"}
        (warning,) = mirror.planner.warnings
        assert warning == PlannerWarning(
            f"cluster A: cannot read configs of {topic}: TOPIC_AUTHORIZATION_FAILED; their remote topics get the target's "
            "defaults, grant DESCRIBE_CONFIGS",
            left_out=False,
            topics=(topic,),
        )

    def test_without_permission_to_create_it(self, us: Cluster, secure: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic)
        us.create_topic(f"{topic}-b")
        secure.grant("ANONYMOUS", "CREATE", "DESCRIBE", topic=f"A.{topic}-b")
        mirror = flow(us, secure, f"{topic}.*")
        assert [str(assignment.remote) for assignment in mirror.planner.discover()] == [f"A.{topic}-b-0"]
        (warning,) = mirror.planner.warnings
        assert f"A.{topic}" in warning.text

    def test_with_too_few_brokers(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic, configs={"cleanup.policy": "compact"})
        mirror = flow(us, eu, topic, "A->B.replication.factor = 2")
        for _ in range(2):  # reported once
            assert mirror.planner.discover() == []
        (warning,) = mirror.planner.warnings
        assert warning.text.endswith("; set replication.factor to at most the number of brokers")
        assert warning.left_out


class TestPartitions:
    def test_they_are_added_with_the_source(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic, 3)
        eu.create_topic(f"A.{topic}", 1)
        mirror = flow(us, eu, topic)
        assert [assignment.remote.partition for assignment in mirror.planner.discover()] == [0, 1, 2]
        assert mirror.planner.warnings == []

    def test_without_permission_to_add_partitions(
        self, us: Cluster, secure: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        us.create_topic(topic, 3)
        secure.create_topic(f"A.{topic}", 2)
        secure.grant("ANONYMOUS", "WRITE", topic=f"A.{topic}")
        mirror = flow(us, secure, topic)
        assert [assignment.remote.partition for assignment in mirror.planner.discover()] == [0, 1]
        (warning,) = mirror.planner.warnings
        assert f"A.{topic}" in warning.text
        assert warning.text.endswith("; only partitions 0 to 1 are replicated")
        assert warning.left_out

    def test_more_than_the_source_has(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic, 2)
        eu.create_topic(f"A.{topic}", 5)
        mirror = flow(us, eu, topic)
        for _ in range(2):
            assert [assignment.remote.partition for assignment in mirror.planner.discover()] == [0, 1]
        text = (
            f"topic A.{topic} of B has 5 partitions, {topic} of A has 2; replicated records keep their partition, but "
            "producers on B map keys to other partitions"
        )
        assert mirror.planner.warnings == [PlannerWarning(text, left_out=False, topics=(topic, f"A.{topic}"))]


class TestConfigs:
    def test_sync_topic_configs_and_replicate_target_default(
        self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        us.create_topic(topic, configs={"retention.ms": "5000000", "min.insync.replicas": "1"})
        eu.create_topic(f"A.{topic}", configs={"min.insync.replicas": "2"})
        us.create_topic(f"{topic}-nowhere")  # not on the target
        mirror = flow(us, eu, f"{topic}.*")
        assert mirror.sync.sync_configs() == 1
        assert mirror.changed(f"A.{topic}", "retention.ms", "5000000") == {
            "retention.ms": "5000000",
            "min.insync.replicas": "2",
        }
        assert mirror.sync.sync_configs() == 0
        # Manual changes on the target are reverted, except of excluded configs.
        mirror.set(f"A.{topic}", retention_ms="7000000", segment_ms="8000000", min_insync_replicas="1")
        assert mirror.sync.sync_configs() == 1
        assert mirror.changed(f"A.{topic}", "min.insync.replicas", "1") == {
            "retention.ms": "5000000",
            "min.insync.replicas": "1",
        }
        assert mirror.warnings == {}

    def test_replicate_source_default(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic)
        eu.create_topic(f"A.{topic}", configs={"segment.ms": "8000000"})
        mirror = flow(us, eu, topic, "A->B.use.defaults.from = source", "config.properties.exclude = cleanup.policy")
        assert mirror.sync.sync_configs() == 1
        own = mirror.changed(f"A.{topic}", "segment.ms", "604800000")
        assert own["segment.ms"] == "604800000"
        assert own["max.message.bytes"] == "1048588"
        assert "cleanup.policy" not in own
        assert mirror.sync.sync_configs() == 0
        assert mirror.warnings == {}

    def test_under_the_identity_policy(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic, configs={"retention.ms": "5000000"})
        eu.create_topic(topic)
        policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        mirror = flow(us, eu, topic, policy)
        assert mirror.sync.sync_configs() == 1
        assert mirror.changed(topic, "retention.ms", "5000000") == {"retention.ms": "5000000"}

    def test_unsupported_and_rejected_configs_do_not_affect_the_rest(
        self, old: Cluster, eu: Cluster, flow: MakeFlow, topic: str
    ) -> None:
        old.create_topic(topic, configs={"segment.bytes": "100000", "retention.ms": "5000000"})
        eu.create_topic(f"A.{topic}")
        mirror = flow(old, eu, topic, "A->B.use.defaults.from = source")
        assert mirror.sync.sync_configs() == 1
        own = mirror.changed(f"A.{topic}", "retention.ms", "5000000")
        assert own["retention.ms"] == "5000000"
        assert "segment.bytes" not in own
        assert (
            "topic config message.format.version: not supported by cluster B; not synced for A."
            in (mirror.warnings["topic config message.format.version"])
        )
        assert mirror.warnings[f"configs of A.{topic}"].startswith(
            f"topic A.{topic} of B: segment.bytes = 100000 not synced: "
        )

    def test_without_permissions(self, secure: Cluster, flow: MakeFlow, topic: str) -> None:
        """The same cluster on both sides: each topic lacks another permission."""
        for name, here, there in (
            ("a", (), ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
            ("b", ("DESCRIBE_CONFIGS",), ()),
            ("c", ("DESCRIBE_CONFIGS",), ("DESCRIBE_CONFIGS",)),
            ("d", ("DESCRIBE_CONFIGS",), ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
        ):
            secure.create_topic(f"{topic}-{name}", configs={"retention.ms": "5000000"})
            secure.create_topic(f"A.{topic}-{name}")
            secure.grant("ANONYMOUS", "DESCRIBE", *here, topic=f"{topic}-{name}")
            secure.grant("ANONYMOUS", "DESCRIBE", *there, topic=f"A.{topic}-{name}")
        mirror = flow(secure, secure, f"{topic}-.*")
        assert mirror.sync.sync_configs() == 1
        assert mirror.changed(f"A.{topic}-d", "retention.ms", "5000000") == {"retention.ms": "5000000"}
        why = "TOPIC_AUTHORIZATION_FAILED; grant"
        off = "or set sync.topic.configs.enabled = false"
        assert sorted(mirror.warnings.values()) == [
            f"cluster A: cannot read configs of {topic}-a: {why} DESCRIBE_CONFIGS, {off}",
            f"cluster B: cannot change configs of A.{topic}-c: {why} ALTER_CONFIGS, {off}",
            f"cluster B: cannot read configs of A.{topic}-b: {why} DESCRIBE_CONFIGS, {off}",
        ]

    def test_a_topic_that_is_deleted_meanwhile(
        self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        us.create_topic(topic, configs={"retention.ms": "5000000"})
        us.create_topic(f"{topic}-half", configs={"retention.ms": "5000000"})
        eu.create_topic(f"A.{topic}")
        mirror = flow(us, eu, f"{topic}.*")
        seen = {"gone": "A.gone", f"{topic}-half": f"A.{topic}-half", topic: f"A.{topic}"}
        monkeypatch.setattr(mirror.sync, "_remote_names", lambda: seen)
        assert mirror.sync.sync_configs() == 1
        assert mirror.changed(f"A.{topic}", "retention.ms", "5000000") == {"retention.ms": "5000000"}
        assert sorted(mirror.warnings.values()) == [
            "cluster A: cannot read configs of gone: UNKNOWN_TOPIC_OR_PARTITION",
            f"cluster B: cannot read configs of A.{topic}-half: UNKNOWN_TOPIC_OR_PARTITION",
        ]


class TestAcls:
    def test_sync_topic_acls(
        self, guarded: Cluster, flow: MakeFlow, topic: str, produce: Produce, consume: Consume
    ) -> None:
        """Tested with the authorizer: one cluster is both sides."""
        guarded.create_topic(topic)
        guarded.create_topic(f"A.{topic}")
        guarded.grant("alice", "ALL", topic=topic)
        guarded.grant("bob", "READ", "WRITE", topic=topic)
        guarded.deny("bob", "DESCRIBE", topic=topic)
        guarded.grant("bob", "READ", topic=f"{topic}*")
        guarded.grant("alice", "READ", group="*")
        assert produce(guarded.librdkafka_properties(PLAINTEXT), f"A.{topic}", "hello") == 0
        alice = guarded.librdkafka_properties(SASL_PLAIN, "alice")
        assert consume(alice, f"A.{topic}", 1, seconds=2) == []

        mirror = flow(guarded, guarded, topic)
        assert mirror.sync.sync_acls() == 3
        wanted = [
            AclBinding("TOPIC", f"A.{topic}", "LITERAL", "User:alice", "*", "READ", "ALLOW"),
            AclBinding("TOPIC", f"A.{topic}", "LITERAL", "User:bob", "*", "DESCRIBE", "DENY"),
            AclBinding("TOPIC", f"A.{topic}", "LITERAL", "User:bob", "*", "READ", "ALLOW"),
        ]
        until(
            lambda: sorted(each for each in mirror.target.acls() or () if each.name == f"A.{topic}") == wanted,
            "the broker should show the new ACLs",
        )
        assert consume(alice, f"A.{topic}", 1) == ["hello"]
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            produce(alice, f"A.{topic}", "mine")
        assert mirror.sync.sync_acls() == 0
        # Permissions revoked on the source stay on the target, as in MM2; new ones are added.
        guarded.grant("bob", "DESCRIBE_CONFIGS", topic=topic)
        assert mirror.sync.sync_acls() == 1
        assert mirror.warnings == {}

    def test_a_source_without_an_authorizer(self, us: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        us.create_topic(topic)
        mirror = flow(us, eu, topic)
        assert mirror.sync.sync_acls() == 0
        assert mirror.warnings == {}

    def test_a_target_without_an_authorizer(self, guarded: Cluster, eu: Cluster, flow: MakeFlow, topic: str) -> None:
        guarded.create_topic(topic)
        guarded.grant("alice", "READ", topic=topic)
        mirror = flow(guarded, eu, topic)
        assert mirror.sync.sync_acls() == 0
        assert mirror.warnings == {
            "ACLs": "1 ACLs of A not synced: cluster B has no authorizer; if that is intended, set "
            "sync.topic.acls.enabled = false"
        }

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_without_permission(self, guarded: Cluster, secure: Cluster, flow: MakeFlow, topic: str, side: str) -> None:
        guarded.create_topic(topic)
        guarded.grant("alice", "READ", topic=topic)
        mirror = flow(secure, guarded, topic) if side == "source" else flow(guarded, secure, topic)
        assert mirror.sync.sync_acls() == 0
        (warning,) = mirror.warnings.values()
        assert warning.startswith(f"ACLs not synced: cluster {'A' if side == 'source' else 'B'}: ")
        assert warning.endswith(
            "; grant DESCRIBE on cluster A and ALTER on cluster B, or set sync.topic.acls.enabled = false"
        )


class TestJobs:
    """Periodic jobs and their intervals."""

    def test_by_default(self, us: Cluster, eu: Cluster, flow: MakeFlow) -> None:
        found: list[Any] = flow(us, eu, "t").sync.jobs()
        assert [(job.name, job.every, job.first) for job in found] == [
            ("topic ACLs", 600.0, 0.0),
            ("topic configs", 600.0, 0.0),
        ]

    def test_as_they_are_set(self, us: Cluster, eu: Cluster, flow: MakeFlow) -> None:
        lines = ("sync.topic.acls.enabled = false", "sync.topic.configs.interval.seconds = 5")
        assert [(job.name, job.every) for job in flow(us, eu, "t", *lines).sync.jobs()] == [("topic configs", 5.0)]


def test_how_many_topics_are_created_with_one_request() -> None:
    assert list(batches({})) == []
    assert [len(each) for each in batches({str(n): 1 for n in range(250)})] == [100, 100, 50]
    assert list(batches({"a": 300, "b": 200, "c": 1, "d": 2000, "e": 1})) == [["a", "b"], ["c"], ["d"], ["e"]]
