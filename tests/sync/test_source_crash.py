"""The source crashes while records are produced and consumed; the consumer fails over to the target."""

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer

from lab.cluster import Cluster
from lab.compare_logs import read
from lab.errors import LabError
from lab.lab import Lab
from lab.waiting import until
from tests.sync.conftest import checkpoint_sync, consumed, fill, offsets
from twinlog.kafka.client import Client
from twinlog.kafka.topic_reader import TopicReader
from twinlog.mm2 import offset_syncs
from twinlog.mm2.selection import offset_syncs_location
from twinlog.model import TopicPartition

pytestmark = pytest.mark.broker

FIRST = (0, 1_000_000)  # the number of the first record of each partition


class Traffic:
    """Writes and reads until the cluster is gone; `processed` is how far the reader got, by partition."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self.processed = [0, 0]
        self._over = threading.Event()
        consumer = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({**cluster.librdkafka_properties(), **consumer, "fetch.wait.max.ms": 50})
        self._consumer.subscribe([topic])
        work = (lambda: self._write(cluster, topic)), self._read
        self._threads = [threading.Thread(target=each, daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def _write(self, cluster: Cluster, topic: str) -> None:
        at = 0
        while not self._over.is_set():
            try:
                for partition, first in enumerate(FIRST):
                    fill(cluster, topic, range(first + at, first + at + 20), partition)
            except (LabError, OSError):
                return  # it is dead
            at += 20

    def _read(self) -> None:
        while not self._over.is_set():
            some = [each for each in self._consumer.consume(50, 0.1) if not each.error()]
            for each in some:
                self.processed[each.partition() or 0] = (each.offset() or 0) + 1
            if some and not self._over.is_set():
                self._consumer.commit(asynchronous=True)
        self._consumer.close()

    def stop(self) -> None:
        self._over.set()

    def wait(self) -> None:
        for thread in self._threads:
            thread.join()


def test_no_record_is_missed_and_duplicates_are_limited_by_the_last_offset_sync(
    lab: Lab, eu: Cluster, topic: str, mirror: Any
) -> None:
    group = f"group-{topic}"
    source = lab.cluster("doomed")
    try:
        source.create_topic(topic, 2)
        flow = mirror(source, eu, topic, alias="doomed", groups=group)  # with an alias, syncs are on the target
        traffic = Traffic(source, group, topic)
        try:
            with flow.start() as running, checkpoint_sync(flow.config) as sync:
                until(lambda: min(traffic.processed) > 500, "a consumer in the middle of its work", seconds=60)
                for _ in range(3):
                    sync.emit()
                    sync.sync_groups()
                    time.sleep(0.3)
                committed, syncs = offsets(flow.config, "source", group), last_syncs(flow, topic)
                sync.emit()
                sync.sync_groups()
                source.brokers[0].kill()
                traffic.stop()
                running.relay.end("the source is gone")
        finally:
            traffic.stop()
            source.brokers[0].start()  # librdkafka does not let go of a group whose coordinator is gone
            traffic.wait()
    finally:
        lab.discard(source)

    remote = [TopicPartition(flow.remote(topic), partition) for partition in range(2)]
    there = offsets(flow.config, "target", group)
    for partition in range(2):
        # Every record has the same offset on both sides here, so that positions can be compared.
        here = TopicPartition(topic, partition)
        assert min(committed[here], syncs[partition]) <= there[remote[partition]] <= traffic.processed[partition]
    rest = [
        int(record.value or b"")
        for tp in remote
        for record in read(eu.client_properties(), tp.topic, tp.partition)[there[tp] :]
    ]
    assert sorted(consumed(eu, group, [flow.remote(topic)], len(rest))) == sorted(rest)


def last_syncs(flow: Any, topic: str) -> list[int]:
    """The upstream offset of the newest offset sync of each partition."""
    side, syncs = offset_syncs_location(flow.config)
    client = Client("test", flow.config.source.clients[f"{side}.admin"], "test")
    try:
        decoded = [offset_syncs.decode(record.key, record.value) for record in TopicReader(client, syncs).read()]
    finally:
        client.close()
    return [
        max(each.upstream for each in decoded if (each.topic, each.partition) == (topic, partition))
        for partition in range(2)
    ]
