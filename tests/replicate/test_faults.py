"""Crashes, suspended processes and network faults cause no loss, no duplicates and no reordering."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.replicate.task_spec import TaskSpec
from twinlog.status.journal_follower import JournalFollower

pytestmark = pytest.mark.broker

PARTITIONS = 3
# Batches of many sizes, compressed and not, and offset gaps: forwarded, rebuilt and coalesced.
KINDS: list[dict[str, Any]] = [
    {"linger.ms": 0},
    {"linger.ms": 50},
    {"compression.type": "lz4", "linger.ms": 20},
    {"transactional": "faults"},
]


def test_repeated_kills_cause_no_duplicates(us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any) -> None:
    for number, _ in enumerate(KINDS):
        us.create_topic(f"{topic}-{number}", PARTITIONS)
    flow = mirror(us, eu, f"{topic}-.*")
    dice = random.Random(4)
    writers = [writer(us, f"{topic}-{number}", PARTITIONS, rate=700, **kind) for number, kind in enumerate(KINDS)]
    with writers[0], writers[1], writers[2], writers[3]:
        for _ in range(6):
            relay = flow.process().start()
            relay.wait_until_relaying()
            time.sleep(dice.uniform(0.0, 1.5))
            relay.kill()
    with flow.start():
        flow.until_equal(*(f"{topic}-{number}" for number, _ in enumerate(KINDS)))


def test_a_suspended_task_that_resumes_next_to_its_successor_causes_no_duplicates(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic, PARTITIONS)
    flow = mirror(us, eu, topic)
    with writer(us, topic, PARTITIONS):
        suspended = flow.process("suspended").start()
        suspended.wait_until_relaying()
        for _ in range(3):
            time.sleep(0.7)
            suspended.pause()
            time.sleep(0.2)
            with flow.start() as second:
                second.until_running()
                time.sleep(1.0)
                suspended.resume()
                # Both tasks have the same partitions assigned.
                time.sleep(1.5)
    flow.until_equal(topic)
    suspended.kill()
    time.sleep(0.5)
    flow.until_equal(topic, seconds=0)


def test_two_relays_of_the_same_partitions_write_each_record_once(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    topics = [f"{topic}-{number}" for number, _ in enumerate(KINDS)]
    for name in topics:
        us.create_topic(name, PARTITIONS)
    flow = mirror(us, eu, f"{topic}-.*")
    writers = [writer(us, f"{topic}-{number}", PARTITIONS, rate=700, **kind) for number, kind in enumerate(KINDS)]
    with writers[0], writers[1], writers[2], writers[3], flow.start() as first:
        first.until_running()
        with flow.start() as second:
            second.until_running()
            time.sleep(4)
    with flow.start():
        flow.until_equal(*topics)


def test_a_network_that_fails_in_every_way_loses_nothing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    """Two flows at a time: one whose source, and one whose target cannot be relied on."""
    us.create_topic(topic, PARTITIONS)
    timeouts = {
        "us__consumer__request__timeout__ms": "1000", "us__consumer__default__api__timeout__ms": "1000",
        "eu__producer__request__timeout__ms": "1000", "eu__producer__delivery__timeout__ms": "5000",
    }  # fmt: skip
    with Proxy(us) as near, Proxy(eu) as far:
        networks = (near, far)
        other = {key.replace("us__", "other__"): value for key, value in timeouts.items()}
        flows = [
            mirror(us, eu, topic, us__bootstrap__servers=near.bootstrap, **timeouts),
            mirror(us, eu, topic, alias="other", eu__bootstrap__servers=far.bootstrap, **other),
        ]
        with flows[0].start() as first, flows[1].start() as second, writer(us, topic, PARTITIONS):
            for running in (first, second):
                running.until_running()
            for bytes_more in (10, 1000, 50_000):
                for direction in ("responses", "requests"):
                    for network in networks:
                        network.cut_after(bytes_more, direction)
                    time.sleep(0.3)
            for network in networks:
                network.cut()
            time.sleep(0.5)
            for fault in (Proxy.stall, Proxy.black_hole):  # of a black hole, the target stores batches
                for network in networks:
                    fault(network)
                time.sleep(1.9)  # longer than every timeout
                for network in networks:
                    network.resume()
                time.sleep(0.5)
            for network in networks:
                network.refuse()
                network.cut()
            for running in (first, second):
                running.until(lambda running=running: has_errors(running), "an error")
            for network in networks:
                network.accept()
            time.sleep(1)
        for flow in flows:
            with flow.start() as running:
                flow.until_equal(topic)
                running.until(lambda running=running: not has_errors(running), "no errors")


def has_errors(running: Any) -> bool:
    return any(partition.report.error for partition in running.relay.partitions)


def test_brokers_that_die_move_and_sleep_on_either_side_lose_nothing(
    us: Cluster, eu: Cluster, trio: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    trio.create_topic(topic, PARTITIONS)
    us.create_topic(topic, PARTITIONS)
    out, home = mirror(trio, eu, topic), mirror(us, trio, topic)
    remote = home.remote(topic)
    relays = [flow.process().start() for flow in (out, home)]
    with writer(trio, topic, PARTITIONS, rate=500), writer(us, topic, PARTITIONS, rate=500):
        for relay in relays:
            relay.wait_until_relaying()
        for partition in range(2):
            for name in (topic, remote):
                trio.move_leader(name, partition, to=(trio.leader(name, partition) + 1) % 3)
        trio.brokers[0].kill()
        time.sleep(2)
        trio.brokers[0].start()
        time.sleep(1)
        # The next broker is killed together with the tasks, whose successors start without it.
        for relay in relays:
            relay.kill()
        trio.brokers[1].kill()
        relays = [flow.process().start() for flow in (out, home)]
        time.sleep(2)
        trio.brokers[1].start()
        trio.brokers[2].pause()
        time.sleep(6)  # long enough for a leader election
        trio.brokers[2].resume()
        time.sleep(1)
    out.until_equal(topic)
    home.until_equal(topic)


def test_clients_of_internal_topics_follow_a_leader_change(us: Cluster, trio: Cluster, topic: str, mirror: Any) -> None:
    """Until the controller has noticed, metadata still names the dead leader."""
    trio.create_topic(topic, 1, 3)
    flow = mirror(us, trio, topic)
    reader, writer = (TaskSpec(flow.config.flow, flow.config, (), ()).client("target") for _ in range(2))
    tp = TopicPartition(topic, 0)

    def tried(what: Callable[[], object]) -> bool:
        with suppress(UnreachableError, RefusedError):
            return bool(what())
        return False

    def append() -> int:
        return 1 + writer.append(tp, encode([(0, b"k", b"v", ())]))

    assert append()
    assert reader.read(tp, 0).records
    dead = trio.brokers[trio.leader(topic, 0)]
    dead.kill()
    try:
        until(lambda: tried(append), "the writer should find the next leader", seconds=30)
        until(lambda: tried(lambda: reader.read(tp, 0).records), "so should the reader", seconds=30)
    finally:
        dead.start()
        reader.close()
        writer.close()


def test_quotas_are_obeyed(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A client that ignores throttle_time_ms gets its connection muted."""
    us.create_topic(topic, PARTITIONS)
    # For MM2's client ids, with an alias of their own: quotas stay, and must not affect other tests.
    flow = mirror(us, eu, topic, alias="slow", eu__producer__client__id="slow-producer")
    for cluster, quota, client in (
        (us, "consumer_byte_rate=110000", "slow->eu|MirrorSourceConnector-0|replication-consumer"),
        (eu, "producer_byte_rate=90000", "slow-producer"),
    ):
        cluster.tool("configs", "--alter", "--add-config", quota, "--entity-type", "clients", "--entity-name", client)
    noise = random.Random(1)
    with RawProtocol(us.client_properties()) as wire:
        for number in range(36):
            records = [Record(_now(), b"%d" % number, noise.randbytes(4000)) for _ in range(10)]
            wire.produce(topic, number % PARTITIONS, batches.encode(records))
    began = time.monotonic()
    with flow.start() as running:
        flow.until_equal(topic)
        took = time.monotonic() - began
        assert running.relay.producer.throttled_ms > 0
        assert running.relay.fetcher.throttled_ms > 0
        assert sum(p.report.counters.source_throttled_ms for p in running.relay.partitions) > 0
        assert sum(p.report.counters.target_throttled_ms for p in running.relay.partitions) > 0
        assert all(p.report.counters.recoveries == 0 for p in running.relay.partitions), str(running)
    assert took > 2, "1.4 MB at 100 KB/s, where ten seconds' worth is credit"
    follower = JournalFollower(flow.config)
    try:
        follower.catch_up()
        status = follower.status
    finally:
        follower.close()
    assert status.total("source_throttled_ms") > 0
    assert status.total("target_throttled_ms") > 0


def _now() -> int:
    return int(time.time() * 1000)
