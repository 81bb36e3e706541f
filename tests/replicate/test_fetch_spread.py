"""Partitions of a far broker are spread over several fetch sessions when one cannot carry them, and merged again."""

import threading
import time
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol
from twinlog.model import TopicPartition
from twinlog.replicate.fetch_spread import to_move


def test_half_of_the_load_is_moved() -> None:
    loads = {TopicPartition("t", number): size for number, size in enumerate((10, 900, 50, 800))}
    assert to_move(loads) == [TopicPartition("t", 3), TopicPartition("t", 0)]


def test_a_single_partition_is_not_moved() -> None:
    assert to_move({TopicPartition("t", 0): 1000}) == []


@pytest.mark.broker
def test_a_saturated_session_is_split_and_merged(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic, 4)
    written, leaving = [0], threading.Event()

    def write() -> None:
        with RawProtocol(us.client_properties()) as wire:
            while not leaving.is_set():
                for partition in range(4):
                    records = [
                        Record(int(time.time() * 1000), b"%d" % (written[0] + n), bytes(1000)) for n in range(60)
                    ]
                    wire.produce(topic, partition, batches.encode(records))
                written[0] += 60
                time.sleep(0.05)

    with Proxy(us) as far:
        far.delay(0.015)
        far.limit_in_flight(50_000)
        flow = mirror(us, eu, topic, us__bootstrap__servers=far.bootstrap, twinlog__fetch__connections="32")
        with flow.start() as running:
            running.until_running()
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            fetcher = running.relay.fetcher
            try:
                running.until(lambda: len(fetcher.connections) > 1, "a second session", seconds=60)
            finally:
                leaving.set()
                writer.join()
            running.until(
                lambda: all(running[topic, each].target.acked_position == written[0] for each in range(4)), "copied"
            )
            node = running[topic].source.node
            sessions = fetcher.spread._sessions(node)
            assert sum(len(each.partitions) for each in sessions) == len(running.relay.partitions)
            for _ in sessions[1:]:  # as if a minute had passed without load
                fetcher.spread._saturated_at[node] = time.monotonic() - 60
                running.until(lambda: fetcher.spread._saturated_at.get(node, 0) > time.monotonic() - 50, "merged")
            running.until(lambda: len(fetcher.spread._sessions(node)) == 1, "one session is left")
            with RawProtocol(us.client_properties()) as wire:
                for partition in range(4):
                    wire.produce(topic, partition, batches.encode([Record(int(time.time() * 1000), b"last", b"")]))
            running.until(
                lambda: all(running[topic, each].target.acked_position == written[0] + 1 for each in range(4)), "last"
            )
            assert all(p.report.counters.recoveries == 0 for p in running.relay.partitions), str(running)
    flow.until_equal(topic, seconds=0)


@pytest.mark.broker
def test_cut_sessions_lose_nothing(us: Cluster, eu: Cluster, topic: str, mirror: Any, writer: Any) -> None:
    us.create_topic(topic, 6)
    with Proxy(us) as far:
        far.delay(0.01)
        flow = mirror(us, eu, topic, us__bootstrap__servers=far.bootstrap, twinlog__fetch__connections="32")
        with flow.start() as running:
            running.until_running()
            node = running[topic].source.node
            fetcher = running.relay.fetcher
            with writer(us, topic, 6) as written:
                for _ in range(3):
                    session = fetcher.spread.choose(node)
                    session.loads.update({TopicPartition(topic, each): 1000 for each in range(6)})
                    running.relay._executor.post(session, lambda each: fetcher.spread._split(each, time.monotonic()))
                    time.sleep(0.3)
                    far.cut()
                assert len(fetcher.connections) > 1
            running.until(
                lambda: sum(running[topic, each].target.acked_position for each in range(6)) == written.written,
                "copied",
            )
    flow.until_equal(topic, seconds=0)
