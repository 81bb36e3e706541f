"""What is made of a flow's topics, on both sides."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import ReadFlow
from twinlog.inspect.doctor import flow_checks
from twinlog.inspect.doctor.facts import ClusterFacts, ClusterSide, FlowFacts
from twinlog.inspect.doctor.findings import Finding
from twinlog.inspect.permissions import Resource
from twinlog.inspect.snapshot import Backlog, ClusterSnapshot, FlowSnapshot, Refusal, Topic
from twinlog.kafka.admin_queries import Replicas
from twinlog.kafka.resources import DEFAULT_CONFIG, TOPIC_CONFIG, ConfigEntry
from twinlog.mm2.topic_configs import Entries
from twinlog.model import TopicPartition
from twinlog.sync.internal_topics import InternalTopic

QUIET = ("topics = orders", "emit.heartbeats.enabled = false", "heartbeats.replication.enabled = false")


def entries(own: Mapping[str, str] | None = None, **defaults: str) -> Entries:
    found = {key.replace("_", "."): (value, DEFAULT_CONFIG) for key, value in defaults.items()}
    found |= {key: (value, TOPIC_CONFIG) for key, value in (own or {}).items()}
    return {key: ConfigEntry(key, value, source) for key, (value, source) in found.items()}


def snapshot(here: Entries | None = None, there: Entries | None = None, **more: Any) -> FlowSnapshot:
    """`orders` with two partitions on A; where `there` is given, A.orders is on B already."""
    source = ClusterSnapshot(alias="A", id="a", brokers=3, topics={"orders": Topic(2)}, configs={"orders": here or {}})
    target = ClusterSnapshot(alias="B", id="b", brokers=3, topics={})
    if there is not None:
        target = replace(target, topics={"A.orders": Topic(2)}, configs={"A.orders": there})
    return replace(FlowSnapshot(source=source, target=target), **more)


def cluster(alias: str = "B", **settings: str) -> ClusterFacts:
    known = {key.replace("_", "."): value for key, value in settings.items()}
    return ClusterFacts(alias=alias, id="b", controller=0, brokers={}, versions={}, settings={0: known})


@pytest.fixture
def judged(read_flow: ReadFlow) -> Any:
    def judged(
        seen: FlowSnapshot | None, *lines: str, target: ClusterFacts | None = None, **more: Any
    ) -> list[Finding]:
        flow = read_flow(*QUIET, *lines)
        found = flow_checks.findings(
            FlowFacts(flow=flow, snapshot=seen, **more), {"B": target or cluster()}, [flow], {}
        )
        return [each for each in found if each.status != "ok"]

    return judged


def test_no_problems(judged: Any) -> None:
    assert judged(snapshot()) == []
    assert judged(snapshot(entries(max_message_bytes="5"), entries(max_message_bytes="5"))) == []


def test_no_topic_at_all_and_one_that_is_missing(judged: Any) -> None:
    empty = FlowSnapshot(
        source=ClusterSnapshot(alias="A", id="a", brokers=1, topics={}),
        target=snapshot().target,
        named={"orders": False},
    )
    none, missing = judged(empty)
    assert (none.status, none.found) == ("warning", "no topic of A is selected")
    assert (missing.where, missing.found) == ("orders", "listed in topics, but A has no such topic")


def test_two_topics_into_one(judged: Any) -> None:
    """A policy of the operator's own may give two topics one name."""
    both = replace(snapshot().source, topics={"orders": Topic(1), "old-orders": Topic(1)})
    found = judged(
        replace(snapshot(), source=both),
        "topics = .*orders",
        "replication.policy.class = tests.inspect.doctor.conftest:OneName",
    )
    assert [(each.status, each.where) for each in found] == [("error", "one")]


@pytest.mark.parametrize(
    ("lines", "default", "bad"),
    [
        (("replication.factor = 4",), "1", "replication.factor is 4"),
        (("replication.factor = -1",), "5", "replication.factor is 5 (default.replication.factor of the brokers)"),
        (("replication.factor = -1",), "3", ""),
        (("replication.factor = 3",), "9", ""),
    ],
)
def test_factors_against_brokers(judged: Any, lines: tuple[str, ...], default: str, bad: str) -> None:
    found = judged(snapshot(), *lines, target=cluster(default_replication_factor=default))
    assert [each.check for each in found] == (["replication"] if bad else [])
    assert all(each.status == "error" and bad in each.found and each.where == "A.orders" for each in found)


def test_internal_topics(judged: Any) -> None:
    own = InternalTopic("source", "mm2-offset-syncs.B.internal", 1, 5, "offset-syncs.topic.replication.factor")
    (found,) = judged(snapshot(internal_topics=(own,)), "offset-syncs.topic.replication.factor = 5")
    assert (found.where, found.status) == (own.name, "error")
    assert "mm2.properties:8" in found.found
    kept = entries({"cleanup.policy": "delete"})
    there = replace(
        snapshot(internal_topics=(own,)),
        source=replace(snapshot().source, topics={"orders": Topic(1), own.name: Topic(1)}),
    )
    (found,) = judged(there, own_configs={("source", own.name): kept})
    assert (found.status, found.check, found.where) == ("warning", "retention", own.name)
    assert judged(there, own_configs={("source", own.name): entries({"cleanup.policy": "compact,delete"})}) == []


def test_leaders_and_replicas(judged: Any) -> None:
    parts = (Replicas(0, -1, 3, 0), Replicas(1, 2, 3, 2))
    found = judged(snapshot(), replicas={"source": {"orders": parts}})
    assert [(each.status, each.check, each.where) for each in found] == [
        ("error", "leaders", "orders-0"),
        ("warning", "leaders", "orders-1"),
    ]


@pytest.mark.parametrize(
    ("least", "parts", "status"),
    [
        ("2", (Replicas(0, 0, 1, 1),), "error"),
        ("2", (Replicas(0, 0, 3, 1),), "error"),  # for now
        ("3", (Replicas(0, 0, 3, 3),), "note"),
        ("2", (Replicas(0, 0, 3, 3),), ""),
    ],
)
def test_replicas_that_must_agree(judged: Any, least: str, parts: tuple[Replicas, ...], status: str) -> None:
    seen = snapshot({}, entries(min_insync_replicas=least))
    found = judged(seen, replicas={"target": {"A.orders": parts}})
    assert [each.status for each in found if each.check == "replication"] == ([status] if status else [])


def test_replicas_that_must_agree_in_topics_to_come(judged: Any) -> None:
    (found,) = judged(snapshot(), "replication.factor = 1", target=cluster(min_insync_replicas="2"))
    assert (found.status, found.found) == (
        "error",
        "min.insync.replicas is 2 with 1 replica: acks=all never succeeds there",
    )


def test_sizes(judged: Any) -> None:
    here = entries({"max.message.bytes": "9000000"})
    # A new topic is given the source's own setting; one that comes from the broker's default is not.
    assert judged(snapshot(here), target=cluster(message_max_bytes="1000000")) == []
    (found,) = judged(snapshot(entries(max_message_bytes="2000000")), target=cluster(message_max_bytes="1000000"))
    assert (found.status, found.check, found.where) == ("warning", "size", "A.orders")
    assert "up to 1,000,000 bytes" in found.found
    assert found.advice.endswith("to 2000000")
    # What is synced will be there; what is not synced stays.
    there = entries(max_message_bytes="1000000")
    assert judged(snapshot(here, there)) == []
    (found,) = judged(snapshot(here, there), "sync.topic.configs.enabled = false")
    assert found.check == "size"
    (found,) = judged(snapshot(here, here), target=cluster(socket_request_max_bytes="5000000"))
    assert "accept requests of 5,000,000 bytes" in found.found
    (found,) = judged(snapshot(entries(max_message_bytes="300000000"), entries(max_message_bytes="300000000")))
    assert "which Twinlog cannot read" in found.found


def test_times(judged: Any) -> None:
    kept = entries(retention_ms="604800000", message_timestamp_after_max_ms="9223372036854775807")
    (found,) = judged(snapshot(kept, entries(message_timestamp_type="LogAppendTime")))
    assert (found.status, found.check) == ("warning", "time")
    (found,) = judged(snapshot(kept, entries(message_timestamp_before_max_ms="86400000")))
    assert (found.status, "older than 1 day" in found.found) == ("warning", True)
    assert judged(snapshot(kept, entries(message_timestamp_before_max_ms="604800000"))) == []
    (found,) = judged(snapshot(kept, entries(message_timestamp_after_max_ms="3600000")))
    assert (found.status, "more than 1 hour ahead" in found.found) == ("note", True)


def test_broker_defaults_of_the_target(judged: Any) -> None:
    create, recode = judged(snapshot(), target=cluster(auto_create_topics_enable="true", compression_type="zstd"))
    assert (create.status, "auto.create.topics.enable" in create.found) == ("note", True)
    assert (recode.status, recode.check) == ("note", "compression")


def test_refusals_backlogs_and_heartbeats(judged: Any) -> None:
    refusals = {
        ("target", "A.orders"): Refusal("a policy says no", without=("retention.ms",)),
        ("target", "x"): Refusal("no room"),
        ("target", "y"): Refusal("denied", denied=True),
    }
    backlogs = {TopicPartition("orders", 0): Backlog(1, 1, "some are gone: too late")}
    seen = snapshot(refusals=refusals, backlogs=backlogs, config_refusals={"z": Refusal("no", without=("a",))})
    found = judged(seen, "heartbeats.replication.enabled = true")
    assert [(each.status, each.check, each.where) for each in found] == [
        ("warning", "topics", "orders-0"),
        ("warning", "topics", "A.orders"),
        ("error", "topics", "x"),
        ("warning", "topics", "z"),
        ("note", "topics", "heartbeats"),
        ("error", "rights", "topic y"),
    ]


def test_missing_rights_have_a_command(judged: Any) -> None:
    held = {("source", "source.consumer", Resource("topic", "orders")): frozenset({"DESCRIBE"})}
    (found,) = judged(snapshot(rights=held))
    assert (found.status, found.where, found.found) == (
        "error",
        "topic orders",
        "Read on A is missing (to read records)",
    )
    assert (
        found.advice
        == "kafka-acls --bootstrap-server a:1 --add --allow-principal User:... --operation Read --topic orders"
    )


def test_a_single_cluster(judged: Any) -> None:
    held = {("source", "source.consumer", Resource("topic", "orders")): frozenset[str]()}
    single = ClusterSide(
        "source", replace(snapshot(rights=held), target=ClusterSnapshot(alias="", id=None, brokers=0, topics={}))
    )
    skipped, lack = judged(None, unreachable=("B",), sides=(single,))
    assert (skipped.status, skipped.found) == ("note", "topics not compared: B unreachable")
    assert (lack.status, lack.where) == ("error", "topic orders")
    (error,) = judged(None, problem="cluster A: no response", advice="check it")
    assert (error.status, error.found, error.advice) == ("error", "cluster A: no response", "check it")
