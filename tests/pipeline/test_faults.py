"""Whatever dies, sleeps or loses its network: nothing is lost, nothing is there twice, nothing changes places."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka.records import encode
from twinlog.lab import batches
from twinlog.lab.batches import Record
from twinlog.lab.cluster import Cluster
from twinlog.lab.proxy import Proxy
from twinlog.lab.waiting import until
from twinlog.lab.wire import Wire
from twinlog.model import TopicPartition
from twinlog.pipeline.job import Job

pytestmark = pytest.mark.broker

PARTITIONS = 3
# Batches of many sizes, compressed and not, so that both lanes and merging are on the way; and gaps in the offsets.
KINDS: list[dict[str, Any]] = [
    {"linger.ms": 0},
    {"linger.ms": 50},
    {"compression.type": "lz4", "linger.ms": 20},
    {"transactional": "faults"},
]


def test_a_relay_that_is_killed_again_and_again_repeats_nothing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
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


def test_a_sleeper_that_wakes_up_beside_its_successor_does_no_harm(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    us.create_topic(topic, PARTITIONS)
    flow = mirror(us, eu, topic)
    with writer(us, topic, PARTITIONS):
        sleeper = flow.process("sleeper").start()
        sleeper.wait_until_relaying()
        for _ in range(3):
            time.sleep(0.7)
            sleeper.pause()
            time.sleep(0.2)
            with flow.start() as second:
                second.until_running()
                time.sleep(1.0)
                sleeper.resume()
                # Both believe that the partitions are theirs.
                time.sleep(1.5)
    flow.until_equal(topic)
    sleeper.kill()
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
    us.create_topic(topic, PARTITIONS)
    with Proxy(us) as near, Proxy(eu) as far:
        flow = mirror(
            us, eu, topic,
            us__bootstrap__servers=near.bootstrap, eu__bootstrap__servers=far.bootstrap,
            us__consumer__request__timeout__ms="1000", us__consumer__default__api__timeout__ms="1000",
            eu__producer__request__timeout__ms="1000", eu__producer__delivery__timeout__ms="5000",
        )  # fmt: skip
        with flow.start() as running, writer(us, topic, PARTITIONS):
            running.until_running()
            for network in (near, far):
                for bytes_more in (10, 1000, 50_000):
                    network.cut_after(bytes_more, "answers")
                    time.sleep(0.3)
                    network.cut_after(bytes_more, "requests")
                    time.sleep(0.3)
                network.cut()
                time.sleep(0.5)
                network.stall()
                time.sleep(1.9)  # longer than anyone waits for an answer
                network.resume()
                time.sleep(0.5)
                network.black_hole()  # the target stores what it is sent, and nobody hears of it
                time.sleep(1.9)
                network.resume()
                time.sleep(0.5)
                network.refuse()
                network.cut()
                time.sleep(1.5)
                assert any(p.error for p in running.relay.partitions), str(running)
                network.accept()
                time.sleep(1)
        with flow.start() as running:
            flow.until_equal(topic)
            running.until(lambda: not any(p.error for p in running.relay.partitions), "errors gone")


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
        # The next one dies with whoever was talking to it, and their successors begin without it.
        for relay in relays:
            relay.kill()
        trio.brokers[1].kill()
        relays = [flow.process().start() for flow in (out, home)]
        time.sleep(2)
        trio.brokers[1].start()
        trio.brokers[2].pause()
        time.sleep(6)  # long enough for the others to go on without it
        trio.brokers[2].resume()
        time.sleep(1)
    out.until_equal(topic)
    home.until_equal(topic)


def test_whoever_reads_and_writes_beside_the_records_follows_when_a_leader_stays_dead(
    us: Cluster, trio: Cluster, topic: str, mirror: Any
) -> None:
    """Reports, positions and those who read them: until the controller has noticed, it still names the dead one."""
    trio.create_topic(topic, 1, 3)
    flow = mirror(us, trio, topic)
    reader, clerk = (Job(flow.config.flow, flow.config, (), ()).client("target") for _ in range(2))
    place = TopicPartition(topic, 0)

    def tried(what: Callable[[], object]) -> bool:
        with suppress(UnreachableError, RefusedError):
            return bool(what())
        return False

    def append() -> int:
        return 1 + clerk.append(place, encode([(0, b"k", b"v", ())]))

    assert append()
    assert reader.read(place, 0).records
    dead = trio.brokers[trio.leader(topic, 0)]
    dead.kill()
    try:
        until(lambda: tried(append), "the clerk should find the next leader", seconds=30)
        until(lambda: tried(lambda: reader.read(place, 0).records), "so should the reader", seconds=30)
    finally:
        dead.start()
        reader.close()
        clerk.close()


def test_quotas_are_obeyed(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """Kafka says how long to be silent; whoever is not silent is muted, and everyone on his connection with him."""
    us.create_topic(topic, PARTITIONS)
    flow = mirror(us, eu, topic, alias="slow")  # quotas stay, and shall concern no other test's flow
    client = f"twinlog-{flow.config.flow}-0"
    for cluster, quota in ((us, "consumer_byte_rate=110000"), (eu, "producer_byte_rate=90000")):
        cluster.tool("configs", "--alter", "--add-config", quota, "--entity-type", "clients", "--entity-name", client)
    noise = random.Random(1)
    with Wire(us.client_properties()) as wire:
        for number in range(30):
            records = [Record(_now(), b"%d" % number, noise.randbytes(4000)) for _ in range(10)]
            wire.produce(topic, number % PARTITIONS, batches.encode(records))
    began = time.monotonic()
    with flow.start() as running:
        flow.until_equal(topic)
        took = time.monotonic() - began
        assert running.relay.outlet.throttled_ms > 0
        assert running.relay.intake.throttled_ms > 0
        assert all(p.counters.recoveries == 0 for p in running.relay.partitions), str(running)
    assert took > 2, "1.2 MB at 100 KB/s, where ten seconds' worth is credit"


def _now() -> int:
    return int(time.time() * 1000)
