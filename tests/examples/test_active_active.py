"""Seed two: when a cluster counts as gone, and as well again; where a consumer goes on; and the whole of it, played."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from twinlog.lab.cluster import Cluster
from twinlog.lab.ports import HOST, free_port
from twinlog.tracking.checkpoints import Checkpoint

HERE = Path(__file__).parents[2]
EXAMPLE = HERE / "examples" / "active-active"

Load = Callable[[str, str], ModuleType]


@pytest.fixture
def watch(module: Load) -> ModuleType:
    return module("active-active", "cluster_watch")


@pytest.fixture
def failover(module: Load) -> ModuleType:
    return module("active-active", "failover_consumer")


# When a cluster is gone


@pytest.fixture
def health(watch: ModuleType) -> dict[str, Any]:
    patience = watch.Patience(gone_after=10, well_after=30)
    return {"source": watch.Health(patience, 0.0), "target": watch.Health(patience, 0.0)}


def see(
    health: dict[str, Any], now: float, source: tuple[bool, int | None], target: tuple[bool, int | None] = (True, None)
) -> None:
    """Of each cluster: whether its brokers answer, and the newest heartbeat of it that the other cluster has."""
    for alias, (answers, heartbeat) in {"source": source, "target": target}.items():
        health[alias].see(now, answers=answers, heartbeat=heartbeat)


def test_a_cluster_is_gone_when_neither_brokers_nor_heartbeats_come(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(21):  # its brokers answer up to 5, its heartbeats arrive up to 10
        see(health, now, (now <= 5, min(now, 10)))
        where = watch.choose("source", "source", "target", health, now)
        assert where == ("target" if now >= 20 else "source"), now


def test_while_heartbeats_arrive_only_our_own_way_is_broken(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(100):
        see(health, now, (False, now))
        assert watch.choose("source", "source", "target", health, now) == "source"


def test_where_no_heartbeats_ever_came_brokers_alone_decide(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(12):
        see(health, now, (now == 0, None))
    assert watch.choose("source", "source", "target", health, 9) == "source"
    assert watch.choose("source", "source", "target", health, 10) == "target"


def test_nobody_moves_to_a_cluster_that_does_not_answer(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(100):
        see(health, now, (False, None), (False, None))
    assert watch.choose("source", "source", "target", health, 99) == "source"
    see(health, 100, (False, None), (True, None))
    assert watch.choose("source", "source", "target", health, 100) == "target"


def test_home_is_well_after_a_while_without_a_break(watch: ModuleType, health: dict[str, Any]) -> None:
    at, moved = "target", []
    for now in range(100):
        see(health, now, (now >= 20 and now != 40, now), (True, now))  # one answer is missing at 40
        where = watch.choose(at, "source", "target", health, now)
        moved += [(now, where)] if where != at else []
        at = where
    assert moved == [(71, "source")]


@pytest.mark.parametrize(("there", "back"), [(5, 100), (100, 5)], ids=["from home", "to home"])
def test_home_is_not_well_while_a_flow_stands_still(
    watch: ModuleType, health: dict[str, Any], there: int, back: int
) -> None:
    for now in range(100):
        see(health, now, (True, min(now, there)), (True, min(now, back)))
        if now > 30:
            assert watch.choose("target", "source", "target", health, now) == "target"


def test_when_both_were_away_the_one_that_answers_is_taken(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(20):
        see(health, now, (now == 19, None), (False, None))  # we are at target, which is gone; home has just returned
    assert watch.choose("target", "source", "target", health, 19) == "source"


# Where a consumer goes on, on real brokers


def put(cluster: Cluster, topic: str, records: list[tuple[bytes | None, bytes]], partition: int = 0) -> None:
    producer = Producer({**cluster.librdkafka_properties(), "acks": "all"})
    for key, value in records:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(30) == 0


def take(consumer: Any, count: int, seconds: float = 60) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            found.append(f"{message.topic()}-{message.partition()} {message.value().decode()}")
            consumer.done(message)
    return found


@pytest.mark.broker
def test_a_consumer_goes_on_at_the_furthest_known_place(
    watch: ModuleType, failover: ModuleType, us: Cluster, eu: Cluster, topic: str
) -> None:
    near, copy = f"{topic}-near", f"{topic}-near.{topic}"
    eu.create_topic(topic, partitions=2)
    eu.create_topic(copy, partitions=2)
    eu.create_topic(f"{near}.checkpoints.internal")
    for name in (topic, copy):
        for partition in (0, 1):
            put(eu, name, [(None, str(number).encode()) for number in range(5)], partition)
    # By offsets of its own and by checkpoints; each further in one place. Of the last partition nothing is known.
    own = Consumer({**eu.librdkafka_properties(), "group.id": topic})
    own.committed([TopicPartition(topic, 0)], timeout=30)  # until there is a coordinator, nothing can be committed
    own.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(copy, 0, 1)], asynchronous=False)
    own.close()
    checkpoints = [
        Checkpoint(topic, topic, 0, 9, 2),
        Checkpoint(topic, copy, 0, 9, 4),
        Checkpoint(topic, copy, 1, 9, 5),
    ]
    put(eu, f"{near}.checkpoints.internal", [(each.key(), each.value()) for each in checkpoints])
    clusters = {near: watch.Access.plain(us.bootstrap()), "far": watch.Access.plain(eu.bootstrap())}
    told: list[str] = []
    wanted = [f"{topic}-0 3", f"{topic}-0 4", f"{copy}-0 4", *(f"{topic}-1 {number}" for number in range(5))]
    with failover.FailoverConsumer(clusters, home="far", group=topic, topic=topic, tell=told.append) as consumer:
        assert sorted(take(consumer, len(wanted))) == sorted(wanted), told
        assert take(consumer, 1, seconds=1) == []
    # What is done is committed when it leaves.
    put(eu, copy, [(None, b"new")], partition=1)
    with failover.FailoverConsumer(clusters, home="far", group=topic, topic=topic, tell=told.append) as consumer:
        assert take(consumer, 1) == [f"{copy}-1 new"]


@pytest.mark.broker
def test_a_consumer_whose_home_does_not_answer_moves(
    watch: ModuleType, failover: ModuleType, eu: Cluster, topic: str
) -> None:
    eu.create_topic(topic)
    put(eu, topic, [(None, b"1")])
    clusters = {"near": watch.Access.plain(f"{HOST}:{free_port()}"), "far": watch.Access.plain(eu.bootstrap())}
    told: list[str] = []
    patience = watch.Patience(gone_after=1, well_after=60, look_every=0.2)
    with failover.FailoverConsumer(
        clusters, home="near", group=topic, topic=topic, patience=patience, tell=told.append
    ) as consumer:
        assert consumer.at == "near"
        assert take(consumer, 1) == [f"{topic}-0 1"]
        assert consumer.at == "far"
    assert told[0] == "moves from near to far"
    assert told[1].startswith("no translated offsets: cluster far has no topic near.checkpoints.internal")
    assert told[2] == f"reads on far: {topic}-0 from 0"


# What a user copies


def test_the_properties_are_the_seeds_and_a_few_more() -> None:
    seed = (HERE / "tests" / "config" / "seeds" / "active-active.properties").read_text()
    ours = (EXAMPLE / "active-to-active-mm2.properties").read_text()
    assert ours.startswith(seed)
    added = [line for line in ours.removeprefix(seed).splitlines() if line and not line.startswith("#")]
    assert {line.partition(" = ")[0] for line in added} == {
        "emit.checkpoints.interval.seconds",
        "refresh.groups.interval.seconds",
        "config.storage.replication.factor",
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
    }


# All of it


@pytest.mark.broker
@pytest.mark.spark
def test_it_plays(play: Callable[..., str]) -> None:
    said = play("active-active", "--seconds", "4")
    moves = re.findall(r"^  (\S+) has moved to (\S+)$", said, re.MULTILINE)
    assert moves == [
        *[(f"billing-{member}", where) for where in ("target", "source") for member in (1, 2)],
        *[(f"shipping-{member}", where) for where in ("source", "target") for member in (1, 2)],
    ]
    assert "billing has read all that target has been given meanwhile; source is started again" in said
    assert "shipping has read all that source has been given meanwhile; target is started again" in said
    records = dict(re.findall(r"^  ProductA on (\S+) and \S+ on \S+: ([\d,]+) records, equal$", said, re.MULTILINE))
    total = sum(int(count.replace(",", "")) for count in records.values())
    assert records.keys() == {"source", "target"}
    for group in ("billing", "shipping"):
        assert f"{group} has read all {total:,} records of both sides; none is lost" in said
    assert "\nproven in " in said
