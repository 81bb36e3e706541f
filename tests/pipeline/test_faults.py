"""Whatever dies, sleeps or loses its network: nothing is lost, nothing is there twice, nothing changes places."""

import random
import time
from typing import Any

import pytest

from twinlog.lab.cluster import Cluster
from twinlog.lab.proxy import Proxy

pytestmark = pytest.mark.broker

PARTITIONS = 3
# Batches of many sizes, compressed and not, so that both lanes and merging are on the way.
KINDS: list[dict[str, Any]] = [{"linger.ms": 0}, {"linger.ms": 50}, {"compression.type": "lz4", "linger.ms": 20}]


def test_a_relay_that_is_killed_again_and_again_repeats_nothing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    for number, _ in enumerate(KINDS):
        us.create_topic(f"{topic}-{number}", PARTITIONS)
    flow = mirror(us, eu, f"{topic}-.*")
    dice = random.Random(4)
    writers = [writer(us, f"{topic}-{number}", PARTITIONS, **kind) for number, kind in enumerate(KINDS)]
    with writers[0], writers[1], writers[2]:
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
    writers = [writer(us, f"{topic}-{number}", PARTITIONS, **kind) for number, kind in enumerate(KINDS)]
    with writers[0], writers[1], writers[2], flow.start() as first:
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
            us__consumer__request__timeout__ms="2000", us__consumer__default__api__timeout__ms="2000",
            eu__producer__request__timeout__ms="2000", eu__producer__delivery__timeout__ms="5000",
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
                time.sleep(3.5)  # longer than anyone waits for an answer
                network.resume()
                time.sleep(0.5)
                network.black_hole()  # the target stores what it is sent, and nobody hears of it
                time.sleep(3.5)
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
