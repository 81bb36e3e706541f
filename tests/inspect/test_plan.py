"""What a flow would do to its clusters: decisions only, without a cluster."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from twinlog.config import FlowConfig
from twinlog.inspect.permissions import CLUSTER, Missing, Need, RequiredAccess, Resource, missing, needs
from twinlog.inspect.plan import FlowPlan, Reconfigured, make, without_loops
from twinlog.inspect.snapshot import Backlog, ClusterSnapshot, FlowSnapshot, Refusal, Topic
from twinlog.kafka.resources import DEFAULT_CONFIG, TOPIC_CONFIG, AclBinding, ConfigEntry
from twinlog.model import TopicPartition
from twinlog.sync.internal_topics import InternalTopic

ReadFlow = Callable[..., FlowConfig]

MIRROR = "org.apache.kafka.connect.mirror."
IDENTITY = f"replication.policy.class = {MIRROR}IdentityReplicationPolicy"
ONE = "replication.factor = 1"


def source(**topics: int) -> ClusterSnapshot:
    return ClusterSnapshot(alias="A", id="a", brokers=3, topics={name: Topic(count) for name, count in topics.items()})


def target(brokers: int = 3, **topics: int) -> ClusterSnapshot:
    named = {name.replace("A_", "A."): Topic(count) for name, count in topics.items()}
    return ClusterSnapshot(alias="B", id="b", brokers=brokers, topics=named)


def entry(name: str, value: str, kind: int = TOPIC_CONFIG) -> dict[str, ConfigEntry]:
    return {name: ConfigEntry(name, value, kind)}


class TestTopics:
    def test_created_with_the_sources_partitions_and_configs(self, read_flow: ReadFlow) -> None:
        here = replace(
            source(orders=3),
            configs={
                "orders": entry("retention.ms", "5")
                | entry("min.insync.replicas", "2")
                | entry("segment.ms", "9", DEFAULT_CONFIG)
            },
        )
        backlogs = {TopicPartition("orders", 0): Backlog(10, 1000), TopicPartition("orders", 2): Backlog(5, 50)}
        plan = make(read_flow(ONE), FlowSnapshot(source=here, target=target(), backlogs=backlogs))
        (new,) = plan.created
        assert (new.topic, new.remote, new.partitions, new.replication_factor) == ("orders", "A.orders", 3, 1)
        assert new.configs == {"retention.ms": "5"}  # neither what is excluded, nor a default
        assert new.backlog == plan.backlog == Backlog(15, 1050)
        assert not plan.known
        assert not plan.problems

    def test_grown_kept_and_too_wide(self, read_flow: ReadFlow) -> None:
        plan = make(
            read_flow(),
            FlowSnapshot(source=source(narrow=4, same=2, wide=1), target=target(A_narrow=2, A_same=2, A_wide=3)),
        )
        assert [(each.remote, each.remote_partitions, each.partitions) for each in plan.known if each.grows] == [
            ("A.narrow", 2, 4)
        ]
        assert plan.topics == ["narrow", "same", "wide"]
        assert not plan.created
        (problem,) = plan.problems
        assert problem.startswith("A.wide has 3 partitions on B, wide only 1 on A: ")

    def test_left_out_by_their_reasons(self, read_flow: ReadFlow) -> None:
        here = source(orders=1, secret1=1, secret2=1, __consumer_offsets=50)
        here = replace(here, topics={**here.topics, "B.orders": Topic(1), "gone": Topic(0, "UNKNOWN")})
        plan = make(read_flow("topics.exclude = secret.*"), FlowSnapshot(source=here, target=target()))
        assert plan.topics == ["orders"]
        assert dict(plan.left_out) == {
            "topics.exclude has 'secret.*' (mm2.properties:5)": ("secret1", "secret2"),
            "replication cycle: by its name it was copied from B": ("B.orders",),
            "internal topic (its name starts with __)": ("__consumer_offsets",),
            "A: UNKNOWN": ("gone",),
        }

    def test_a_size_that_is_not_known_makes_the_sum_unknown(self, read_flow: ReadFlow) -> None:
        backlogs = {TopicPartition("t", 0): Backlog(10, 1000), TopicPartition("t", 1): Backlog(5, None)}
        plan = make(read_flow(ONE), FlowSnapshot(source=source(t=2), target=target(), backlogs=backlogs))
        assert plan.backlog == Backlog(15, None)

    def test_a_flow_that_only_emits_heartbeats(self, read_flow: ReadFlow) -> None:
        flow = read_flow("A->B.enabled = false", "A->B.emit.heartbeats.enabled = true")
        own = InternalTopic("target", "heartbeats", 1, 3, "heartbeats.topic.replication.factor")
        plan = make(flow, FlowSnapshot(source=source(), target=target(1), internal_topics=(own,)))
        assert not plan.topics
        assert plan.internal_topics == (own,)
        assert plan.problems == (
            "heartbeats.topic.replication.factor is 3, but B has 1 broker: heartbeats cannot be created",
        )


class TestConfigs:
    def changes(self, flow: FlowConfig, here: dict[str, ConfigEntry], there: dict[str, ConfigEntry]) -> FlowPlan:
        return make(
            flow,
            FlowSnapshot(
                source=replace(source(t=1), configs={"t": here}),
                target=replace(target(A_t=1), configs={"A.t": there}),
            ),
        )

    def test_set_changed_and_removed(self, read_flow: ReadFlow) -> None:
        plan = self.changes(
            read_flow(),
            entry("retention.ms", "5") | entry("segment.ms", "7") | entry("max.message.bytes", "1", DEFAULT_CONFIG),
            entry("retention.ms", "6") | entry("segment.ms", "8", DEFAULT_CONFIG) | entry("max.message.bytes", "2"),
        )
        assert list(plan.configs) == [
            Reconfigured("A.t", "retention.ms", "6", "5"),
            Reconfigured("A.t", "segment.ms", None, "7"),
            Reconfigured("A.t", "max.message.bytes", "2", None),
        ]

    @pytest.mark.parametrize("off", ["sync.topic.configs.enabled = false", "sync.topic.configs.interval.seconds = -1"])
    def test_not_when_it_is_switched_off(self, read_flow: ReadFlow, off: str) -> None:
        assert not self.changes(read_flow(off), entry("retention.ms", "5"), entry("retention.ms", "6")).configs

    def test_unsupported_configs_are_reported(self, read_flow: ReadFlow) -> None:
        plan = self.changes(read_flow(), entry("new.thing", "5"), {})
        assert not plan.configs
        assert plan.problems == ("B does not support the topic config new.thing: not copied for 1 topic",)

    def test_refused_configs_are_reported_and_left_out(self, read_flow: ReadFlow) -> None:
        here, there = entry("a", "5") | entry("b", "6"), entry("a", "1") | entry("b", "2")
        snapshot = FlowSnapshot(
            source=replace(source(t=1), configs={"t": here}),
            target=replace(target(A_t=1), configs={"A.t": there}),
            config_refusals={"A.t": Refusal("too small", without=("a",))},
        )
        plan = make(read_flow(), snapshot)
        assert [each.name for each in plan.configs] == ["b"]
        assert plan.problems == ("A.t would not get a: too small",)


class TestAcls:
    HERE = AclBinding("TOPIC", "orders", "LITERAL", "User:alice", "*", "ALL", "ALLOW")
    THERE = AclBinding("TOPIC", "A.orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")

    def test_only_those_that_are_missing(self, read_flow: ReadFlow) -> None:
        other = replace(self.HERE, operation="DESCRIBE")
        snapshot = FlowSnapshot(
            source=replace(source(orders=1), acls=(self.HERE, other)),
            target=replace(target(A_orders=1), acls=(self.THERE,)),
        )
        assert list(make(read_flow(), snapshot).granted) == [replace(self.THERE, operation="DESCRIBE")]
        assert not make(read_flow("sync.topic.acls.enabled = false"), snapshot).granted

    def test_a_target_without_an_authorizer(self, read_flow: ReadFlow) -> None:
        snapshot = FlowSnapshot(
            source=replace(source(orders=1), acls=(self.HERE,)), target=replace(target(A_orders=1), acls=None)
        )
        plan = make(read_flow(), snapshot)
        assert not plan.granted
        assert plan.problems == ("1 ACLs of A would not be copied: B has no authorizer",)


class TestProblems:
    def test_more_replicas_than_brokers(self, read_flow: ReadFlow) -> None:
        own = InternalTopic("source", "mm2-offset-syncs.B.internal", 1, 4, "offset-syncs.topic.replication.factor")
        plan = make(
            read_flow("replication.factor = 2"),
            FlowSnapshot(source=source(a=1, b=1), target=target(1), internal_topics=(own,)),
        )
        assert list(plan.problems) == [
            "replication.factor is 2 (mm2.properties:5), but B has 1 broker: 2 topics cannot be created",
            "offset-syncs.topic.replication.factor is 4, but A has 3 brokers: mm2-offset-syncs.B.internal cannot be created",
        ]
        there = make(read_flow("replication.factor = 2"), FlowSnapshot(source=source(a=1), target=target(1, A_a=1)))
        assert not there.problems  # nothing is created, so nothing fails

    def test_one_cluster_under_two_aliases(self, read_flow: ReadFlow) -> None:
        same = replace(target(), id="a")
        flow = read_flow()
        plan = make(flow, FlowSnapshot(source=source(orders=1), target=same))
        assert plan.problems == ("A and B are the same cluster (id a): check bootstrap.servers",)
        assert without_loops(plan, [flow], {"A": "a", "B": "a"}) == plan  # `A.orders` is not copied again

    def test_topics_in_a_cycle_are_left_out(self, read_flow: ReadFlow) -> None:
        flow = read_flow(IDENTITY)
        plan = make(flow, FlowSnapshot(source=source(heartbeats=1, orders=1, users=1), target=target(orders=1)))
        assert without_loops(plan, [flow], {"A": "a", "B": "b"}) == plan
        left = without_loops(plan, [flow], {"A": "a", "B": "a"})
        assert left.topics == ["heartbeats"]  # the only one that is renamed
        assert left.left_out == {"replication cycle over A->B": ("orders", "users")}
        assert "A and B are the same cluster (id a): topic orders, which keeps its name" in left.problems[0]
        assert left.problems[0].endswith(" (and 1 more)")

    def test_what_the_target_would_refuse(self, read_flow: ReadFlow) -> None:
        here = replace(source(a=1, b=1, c=1), configs={"b": entry("x", "1") | entry("y", "2")})
        refusals = {
            ("target", "A.a"): Refusal("its name is taken"),
            ("target", "A.b"): Refusal("x is too small", without=("x",)),
            ("target", "A.c"): Refusal("not yours", denied=True),
        }
        plan = make(read_flow(ONE), FlowSnapshot(source=here, target=target(), refusals=refusals))  # type: ignore[arg-type]
        assert list(plan.problems) == [
            "A.a would not be created: its name is taken",
            "A.b would be created without x: x is too small",
        ]
        assert [dict(each.configs) for each in plan.created] == [{}, {"y": "2"}, {}]
        assert [each.remedy("b:1") for each in plan.missing] == [
            "kafka-acls --bootstrap-server b:1 --add --allow-principal User:... --operation Create --topic A.c"
        ]

    def test_topics_that_are_asked_for_by_name(self, read_flow: ReadFlow) -> None:
        plan = make(
            read_flow(), FlowSnapshot(source=source(), target=target(), named={"orders": False, "secret": True})
        )
        assert plan.problems == ("topics lists orders, but A has no such topic",)
        (lack,) = plan.missing
        assert (lack.side, lack.operations, lack.resources) == ("source", ("READ",), (Resource("topic", "secret"),))

    def test_no_leader_and_a_problem_with_a_position(self, read_flow: ReadFlow) -> None:
        here = replace(source(t=2, u=1), topics={"t": Topic(3, leaderless=(1,)), "u": Topic(1)})
        odd = Backlog(5, 5, "7 records are lost")
        backlogs = {TopicPartition("t", 0): odd, TopicPartition("t", 2): odd, TopicPartition("u", 0): odd}
        plan = make(read_flow(ONE), FlowSnapshot(source=here, target=target(), backlogs=backlogs))
        assert set(plan.problems) == {
            "t-1: no leader on A: nothing is copied until one is elected",
            "t-0 and 2 more partitions: 7 records are lost",
        }


class TestRights:
    """Section 3.8."""

    def test_what_a_flow_needs(self) -> None:
        access = RequiredAccess(
            copied=("orders",),
            described=("orders",),
            reads_acls=True,
            written=("A.orders",),
            grown=("A.orders",),
            configured=("A.orders",),
            grants_acls=True,
            internal_topics=(("source", "mm2-offset-syncs.B.internal"),),
        )
        wanted = {(each.side, str(each.resource), each.operation) for each in needs(access)}
        assert wanted == {
            ("source", "topic orders", "READ"),
            ("source", "topic orders", "DESCRIBE_CONFIGS"),
            ("source", "the cluster", "DESCRIBE"),
            ("source", "topic mm2-offset-syncs.B.internal", "READ"),
            ("source", "topic mm2-offset-syncs.B.internal", "WRITE"),
            ("target", "topic A.orders", "WRITE"),
            ("target", "topic A.orders", "READ"),
            ("target", "topic A.orders", "ALTER"),
            ("target", "topic A.orders", "ALTER_CONFIGS"),
            ("target", "topic A.orders", "DESCRIBE_CONFIGS"),
            ("target", "the cluster", "ALTER"),
        }
        assert not needs(RequiredAccess())

    def test_nothing_is_missing_if_the_broker_reports_no_rights(self) -> None:
        wanted = needs(RequiredAccess(copied=("orders",), reads_acls=True))
        assert not missing(wanted, {})
        assert not missing(wanted, {(each.side, each.role, each.resource): None for each in wanted})

    def test_what_is_held_is_not_missing(self) -> None:
        wanted = needs(RequiredAccess(copied=("orders",), described=("orders",)))
        held = {(each.side, each.role, each.resource): frozenset({"READ", "DESCRIBE"}) for each in wanted}
        (lack,) = missing(wanted, held)
        assert lack == Missing("source", (Resource("topic", "orders"),), ("DESCRIBE_CONFIGS",), ("to copy configs",))

    def test_each_client_has_rights_of_its_own(self) -> None:
        orders = Resource("topic", "orders")
        wanted = needs(RequiredAccess(copied=("orders",), described=("orders",)))
        everything = frozenset({"READ", "DESCRIBE_CONFIGS"})
        (lack,) = missing(
            wanted,
            {("source", "source.consumer", orders): frozenset(), ("source", "source.admin", orders): everything},
        )
        assert lack.operations == ("READ",)

    def test_equal_needs_are_grouped(self) -> None:
        wanted = [
            *(Need("source", "source.consumer", Resource("topic", name), "READ", "to read") for name in "cab"),
            Need("source", "source.admin", Resource("topic", "c"), "DESCRIBE_CONFIGS", "to copy configs"),
            Need("source", "source.admin", CLUSTER, "DESCRIBE", "to copy ACLs"),
        ]
        found = missing(wanted, {(each.side, each.role, each.resource): frozenset() for each in wanted})
        assert [each.remedy("a:1,a:2").partition("User:... ")[2] for each in found] == [
            "--operation Describe --cluster",
            "--operation Read --topic a --topic b",
            "--operation Read --operation DescribeConfigs --topic c",
        ]
        assert found[1].remedy("a:1", most=1).endswith("--operation Read --topic a")
