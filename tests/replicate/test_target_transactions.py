"""Transactions in remote topics and in the offsets topic: left by an exactly-once MM2 that may have crashed."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.mirrormaker import MirrorMaker, mirror_properties
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from lab.waiting import until
from twinlog.kafka.records import encode
from twinlog.kafka.topic_writer import partition_for
from twinlog.mm2 import source_offsets
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.position_reader import PositionReader

pytestmark = pytest.mark.broker

_NOW = int(time.time() * 1000)


def _records(numbers: range) -> list[Record]:
    return [Record(_NOW + each, None, b"%d" % each) for each in numbers]


def _write(cluster: Cluster, topic: str, records: list[Record]) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode(records))


def _committed(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.value or b"") for record in read(cluster.client_properties(), topic)]


@pytest.fixture
def mm2(eu: Cluster, topic: str) -> Iterator[Transactions]:
    """Writes to the target in transactions, as an MM2 with `exactly.once.source.support` does."""
    with RawProtocol(eu.client_properties()) as wire:
        yield Transactions(wire, f"mm2-{topic}")


@pytest.mark.parametrize("sync", [5, 12])
def test_what_mm2_aborted_is_copied(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, mm2: Transactions, sync: int
) -> None:
    """Aborted records and markers do not count. With 12 no committed record follows the sync."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(us, topic, _records(range(30)))
    mm2.produce(flow.remote(topic), 0, _records(range(10)))
    mm2.commit()
    mm2.produce(flow.remote(topic), 0, _records(range(10, 20)))
    mm2.abort()
    offset_pair = OffsetPair(5, 5) if sync == 5 else OffsetPair(10, 11)
    with flow.start(lambda assignment: replace(assignment, sync=offset_pair, mm2_position=10)) as running:
        running.until(lambda: running[topic].target.acked_position == 30, "copied")
    assert _committed(eu, flow.remote(topic)) == list(range(30))
    flow.copy()  # continues after ours, across the markers
    assert _committed(eu, flow.remote(topic)) == list(range(30))


def test_what_mm2_committed_in_several_transactions_is_not_copied_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, mm2: Transactions
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(us, topic, _records(range(30)))
    for first in range(0, 20, 5):
        mm2.produce(flow.remote(topic), 0, _records(range(first, first + 5)))
        mm2.commit()
    with flow.start(lambda assignment: replace(assignment, sync=OffsetPair(0, 0), mm2_position=20)) as running:
        running.until(lambda: running[topic].target.acked_position == 30, "copied")
    assert _committed(eu, flow.remote(topic)) == list(range(30))
    assert not running[topic].report.counters.duplicates


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_that_mm2_left_open_is_waited_for(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, mm2: Transactions, commits: bool
) -> None:
    """Only when it ends is it known whether its records count."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(us, topic, _records(range(30)))
    _write(eu, flow.remote(topic), _records(range(10)))
    mm2.produce(flow.remote(topic), 0, _records(range(10, 20)))
    with flow.start(lambda assignment: replace(assignment, sync=OffsetPair(5, 5), mm2_position=10)) as running:
        running.until(lambda: "transaction" in running[topic].report.error, "the open transaction is reported")
        assert f"producer {mm2.producer_id}" in running[topic].report.error
        assert running[topic].target.acked_position < 20
        mm2.commit() if commits else mm2.abort()
        running.until(lambda: running[topic].target.acked_position == 30, "copied")
    assert _committed(eu, flow.remote(topic)) == list(range(30))


@pytest.mark.parametrize("foreign", ["tell", "expect"])
def test_an_open_transaction_of_others_does_not_keep_ours(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, mm2: Transactions, foreign: str
) -> None:
    """Our records are recognised by producer id, also after the last stable offset."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic, twinlog__foreign__records=foreign)
    _write(us, topic, _records(range(10)))
    flow.copy()
    old = flow.job().assignments[0]
    mm2.produce(flow.remote(topic), 0, _records(range(100, 105)))
    _write(us, topic, _records(range(10, 20)))
    flow.copy()
    # As after a crash: the stored position is older than the log end, so the log must be read.
    with flow.start(
        lambda assignment: replace(assignment, sync=old.sync, stored_position=old.stored_position)
    ) as running:
        running.until_running()
        _write(us, topic, _records(range(20, 25)))
        running.until(lambda: running[topic].target.acked_position == 25, "copied")
    mm2.abort()
    assert _committed(eu, flow.remote(topic)) == list(range(25))


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_that_mm2_aborted_do_not_count(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, mm2: Transactions, commits: bool
) -> None:
    """MM2 writes them in the transaction of their records. Ours count, although they come after an open one."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    job = flow.job()  # creates the topics, unless another test has
    source, target = job.client("source"), job.client("target")

    def offset(number: int) -> tuple[int, bytes]:
        key = source_offsets.key(job.connector, "us", topic, number)
        return partition_for(key, job.offsets_partitions), key

    def stored() -> dict[TopicPartition, int]:
        known = PositionReader(flow.config, source, target)
        known.read()
        return {tp: at for tp, at in known.mm2_positions.items() if tp.topic == topic}

    try:
        partition, key = offset(0)
        ours = next(each for each in range(1, 500) if offset(each)[0] == partition)
        mm2.produce(job.offsets, partition, [Record(_NOW, key, source_offsets.value(9))])
        mm2.commit()
        mm2.produce(job.offsets, partition, [Record(_NOW, key, source_offsets.value(19))])
        target.append(
            TopicPartition(job.offsets, partition), encode([(1, offset(ours)[1], source_offsets.value(7), ())])
        )
        assert stored() == {TopicPartition(topic, 0): 10, TopicPartition(topic, ours): 8}
        mm2.commit() if commits else mm2.abort()
        assert stored() == {TopicPartition(topic, 0): 20 if commits else 10, TopicPartition(topic, ours): 8}
    finally:
        source.close()
        target.close()


@pytest.mark.java
@pytest.mark.slow
def test_an_exactly_once_mm2_that_was_killed(us: Cluster, eu: Cluster, topic: str, mirror: Any, tmp_path: Path) -> None:
    """With a real MM2, whose last transaction is open on the target, with records and source offsets."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    settings = {
        "topics": topic,
        "groups": "nobody",
        "emit.heartbeats.enabled": "false",
        "eu.exactly.once.source.support": "enabled",
        "eu.producer.transaction.timeout.ms": "15000",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "4000",
        "offset.storage.partitions": "3",
    }
    mm2 = MirrorMaker(mirror_properties([us, eu], [(us, eu)], settings), tmp_path)
    written = 0

    def feed() -> None:
        nonlocal written
        _write(us, topic, _records(range(written, written + 10)))
        written += 10

    def ends() -> tuple[int, int]:
        """The last stable offset and the end."""
        with RawProtocol(eu.client_properties()) as wire:
            if not wire.partitions(flow.remote(topic)):
                return 0, 0
            return wire.offsets(flow.remote(topic), 0, "read_committed")[1], wire.offsets(flow.remote(topic), 0)[1]

    def is_open() -> bool:
        """Something is committed, and a transaction with records of its own is open."""
        feed()
        stable, end = ends()
        return 0 < stable < end

    for _ in range(5):  # MM2 may commit between the look and the kill
        mm2.start()
        try:
            until(is_open, "a transaction of MM2", seconds=120)
        finally:
            mm2.kill()
        stable, end = ends()
        if stable < end:
            break
    assert 0 < stable < end
    with flow.start() as running:
        running.until(lambda: running[topic].target.acked_position == written, "copied", seconds=120)
    until(lambda: len(set(ends())) == 1, "the end of MM2's transaction", seconds=60)
    assert _committed(eu, flow.remote(topic)) == list(range(written))
