"""Flows without Spark, whose periodic jobs are run by the test; and real consumers."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from tests.replicate.conftest import mirror  # noqa: F401  # a fixture
from twinlog.config import FlowConfig
from twinlog.kafka.admin import Admin
from twinlog.kafka.client import Client
from twinlog.model import TopicPartition
from twinlog.sync.checkpoints import CheckpointSync

NOW = 1_700_000_000_000


def fill(cluster: Cluster, topic: str, numbers: range, partition: int = 0, size: int = 5) -> None:
    """Records whose values are these numbers, in batches."""
    with RawProtocol(cluster.client_properties()) as wire:
        for first in range(numbers.start, numbers.stop, size):
            some = range(first, min(first + size, numbers.stop))
            wire.produce(topic, partition, batches.encode([Record(NOW + n, b"k%d" % n, b"%d" % n) for n in some]))


def consumed(cluster: Cluster, group: str, topics: Sequence[str], count: int, seconds: float = 30) -> list[int]:
    """What a consumer of the group reads until it has `count` records; then it commits and leaves.

    With `count` 0: what it reads in the first seconds after the assignment.
    """
    assigned: list[object] = []
    consumer = Consumer(
        {
            **cluster.librdkafka_properties(),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    found: list[int] = []
    try:
        consumer.subscribe(list(topics), on_assign=lambda _, parts: assigned.extend(parts))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (len(found) < count or (not count and not assigned)):
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                found.append(int(message.value() or b"-1"))
        quiet_until = time.monotonic() + (0.3 if count else 2.0)
        while time.monotonic() < quiet_until:
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                found.append(int(message.value() or b"-1"))
        if found:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


@contextmanager
def admin(config: FlowConfig, side: str) -> Iterator[Admin]:
    assert config.source is not None
    client = Client(getattr(config.flow, side), config.source.clients[f"{side}.admin"], "test")
    try:
        client.metadata([])
        yield Admin(client)
    finally:
        client.close()


def offsets(config: FlowConfig, side: str, group: str) -> dict[TopicPartition, int]:
    with admin(config, side) as asked:
        found, failed = asked.committed([group])
    assert not failed, failed
    return {tp: offset for tp, (offset, _) in found.get(group, {}).items() if offset >= 0}


def commit(config: FlowConfig, side: str, group: str, positions: dict[TopicPartition, int]) -> None:
    with admin(config, side) as asked:
        assert not asked.commit(group, {tp: (offset, "") for tp, offset in positions.items()})


def delete_group(cluster: Cluster, group: str) -> None:
    with cluster.admin() as asked:
        asked.delete_groups([group])


@contextmanager
def checkpoint_sync(config: FlowConfig) -> Iterator[CheckpointSync]:
    """Fails if there are warnings."""
    warnings: list[str] = []
    sync = CheckpointSync(config, lambda _, text: warnings.append(text))
    try:
        yield sync
    finally:
        sync.close()
    assert not warnings, warnings
