"""examples/active-active: detection of failed and recovered clusters, resume positions, and the whole example."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lab.cluster import Cluster
from lab.ports import HOST, free_port
from lab.waiting import until
from twinlog.mm2.checkpoints import Checkpoint

HERE = Path(__file__).parents[2]
EXAMPLE = HERE / "examples" / "active-active"

Load = Callable[[str, str], ModuleType]


@pytest.fixture
def watch(module: Load) -> ModuleType:
    return module("active-active", "cluster_watch")


@pytest.fixture
def failover(module: Load) -> ModuleType:
    return module("active-active", "failover_consumer")


# Detection of failures and recovery


@pytest.fixture
def health(watch: ModuleType) -> dict[str, Any]:
    timeouts = watch.Timeouts(gone_after=10, well_after=30)
    return {"source": watch.Health(timeouts, 0.0), "target": watch.Health(timeouts, 0.0)}


def update(
    health: dict[str, Any], now: float, source: tuple[bool, int | None], target: tuple[bool, int | None] = (True, None)
) -> None:
    """For each cluster: whether its brokers respond, and its newest heartbeat at the other cluster."""
    for alias, (responds, heartbeat) in {"source": source, "target": target}.items():
        health[alias].update(now, responds=responds, heartbeat=heartbeat)


def test_a_cluster_is_down_without_responses_and_heartbeats(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(21):  # its brokers respond up to 5, its heartbeats arrive up to 10
        update(health, now, (now <= 5, min(now, 10)))
        chosen = watch.choose("source", "source", "target", health, now)
        assert chosen == ("target" if now >= 20 else "source"), now


def test_a_cluster_with_heartbeats_is_not_down(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(100):
        update(health, now, (False, now))
        assert watch.choose("source", "source", "target", health, now) == "source"


def test_without_any_heartbeats_only_responses_count(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(12):
        update(health, now, (now == 0, None))
    assert watch.choose("source", "source", "target", health, 9) == "source"
    assert watch.choose("source", "source", "target", health, 10) == "target"


def test_no_failover_to_a_cluster_that_does_not_respond(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(100):
        update(health, now, (False, None), (False, None))
    assert watch.choose("source", "source", "target", health, 99) == "source"
    update(health, 100, (False, None), (True, None))
    assert watch.choose("source", "source", "target", health, 100) == "target"


def test_failback_after_responses_without_interruption(watch: ModuleType, health: dict[str, Any]) -> None:
    current, moved = "target", []
    for now in range(100):
        update(health, now, (now >= 20 and now != 40, now), (True, now))  # no response at 40
        chosen = watch.choose(current, "source", "target", health, now)
        moved += [(now, chosen)] if chosen != current else []
        current = chosen
    assert moved == [(71, "source")]


@pytest.mark.parametrize(("there", "back"), [(5, 100), (100, 5)], ids=["from home", "to home"])
def test_no_failback_while_a_flow_is_stopped(watch: ModuleType, health: dict[str, Any], there: int, back: int) -> None:
    for now in range(100):
        update(health, now, (True, min(now, there)), (True, min(now, back)))
        if now > 30:
            assert watch.choose("target", "source", "target", health, now) == "target"


def test_after_both_were_down_the_first_to_respond_is_chosen(watch: ModuleType, health: dict[str, Any]) -> None:
    for now in range(20):
        update(health, now, (now == 19, None), (False, None))  # target is down; home has just recovered
    assert watch.choose("target", "source", "target", health, 19) == "source"


# Resume positions, on real brokers


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
def test_a_consumer_resumes_at_the_higher_of_committed_and_translated_offset(
    watch: ModuleType, failover: ModuleType, us: Cluster, eu: Cluster, topic: str
) -> None:
    near, copy = f"{topic}-near", f"{topic}-near.{topic}"
    eu.create_topic(topic, partitions=2)
    eu.create_topic(copy, partitions=2)
    eu.create_topic(f"{near}.checkpoints.internal")
    for name in (topic, copy):
        for partition in (0, 1):
            put(eu, name, [(None, str(number).encode()) for number in range(5)], partition)
    # Committed offsets and checkpoints; each is higher in one partition. The last partition has neither.
    own = Consumer({**eu.librdkafka_properties(), "group.id": topic})

    def coordinator_found() -> bool:
        try:
            own.committed([TopicPartition(topic, 0)], timeout=30)
        except KafkaException:  # NOT_COORDINATOR: the group's partition is still being loaded
            return False
        return True

    until(coordinator_found, "the group's coordinator should answer")
    own.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(copy, 0, 1)], asynchronous=False)
    own.close()
    checkpoints = [
        Checkpoint(topic, topic, 0, 9, 2),
        Checkpoint(topic, copy, 0, 9, 4),
        Checkpoint(topic, copy, 1, 9, 5),
    ]
    put(eu, f"{near}.checkpoints.internal", [(each.key(), each.value()) for each in checkpoints])
    clusters = {near: watch.Access.plain(us.bootstrap()), "far": watch.Access.plain(eu.bootstrap())}
    logged: list[str] = []
    expected = [f"{topic}-0 3", f"{topic}-0 4", f"{copy}-0 4", *(f"{topic}-1 {number}" for number in range(5))]
    with failover.FailoverConsumer(clusters, home="far", group=topic, topic=topic, log=logged.append) as consumer:
        assert sorted(take(consumer, len(expected))) == sorted(expected), logged
        assert take(consumer, 1, seconds=1) == []
    # Processed records are committed on close.
    put(eu, copy, [(None, b"new")], partition=1)
    with failover.FailoverConsumer(clusters, home="far", group=topic, topic=topic, log=logged.append) as consumer:
        assert take(consumer, 1) == [f"{copy}-1 new"]


@pytest.mark.broker
def test_a_consumer_fails_over_if_home_does_not_respond(
    watch: ModuleType, failover: ModuleType, eu: Cluster, topic: str
) -> None:
    eu.create_topic(topic)
    put(eu, topic, [(None, b"1")])
    clusters = {"near": watch.Access.plain(f"{HOST}:{free_port()}"), "far": watch.Access.plain(eu.bootstrap())}
    logged: list[str] = []
    timeouts = watch.Timeouts(gone_after=1, well_after=60, probe_every=0.2)
    with failover.FailoverConsumer(
        clusters, home="near", group=topic, topic=topic, timeouts=timeouts, log=logged.append
    ) as consumer:
        assert consumer.current == "near"
        assert take(consumer, 1) == [f"{topic}-0 1"]
        assert consumer.current == "far"
    assert logged[0] == "moving from near to far"
    assert logged[1].startswith("no translated offsets: cluster far has no topic near.checkpoints.internal")
    assert logged[2] == f"reading on far: {topic}-0 from 0"


# Files


def test_the_properties_extend_the_original_file() -> None:
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


# The whole example


@pytest.mark.broker
@pytest.mark.spark
def test_example(run_example: Callable[..., str]) -> None:
    output = run_example("active-active", "--seconds", "4")
    moves = re.findall(r"^  (\S+) has moved to (\S+)$", output, re.MULTILINE)
    assert moves == [
        *[(f"billing-{member}", where) for where in ("target", "source") for member in (1, 2)],
        *[(f"shipping-{member}", where) for where in ("source", "target") for member in (1, 2)],
    ]
    assert "billing has read all records that target received since; restarting source" in output
    assert "shipping has read all records that source received since; restarting target" in output
    records = dict(re.findall(r"^  ProductA on (\S+) and \S+ on \S+: ([\d,]+) records, equal$", output, re.MULTILINE))
    total = sum(int(count.replace(",", "")) for count in records.values())
    assert records.keys() == {"source", "target"}
    for group in ("billing", "shipping"):
        assert f"{group} has read all {total:,} records of both clusters; none is lost" in output
    assert "\nverified in " in output
