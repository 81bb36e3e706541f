"""Sources that were truncated, rewritten or re-created between runs; takeover from MM2; concurrent flows."""

import time
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition as Place

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from twinlog.kafka.client import NO_ID
from twinlog.kafka.records import encode
from twinlog.kafka.topic_writer import partition_for
from twinlog.mm2 import source_offsets
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.log_reader import LogReader
from twinlog.replicate.position_reader import PositionReader
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec

pytestmark = pytest.mark.broker

_NOW = int(time.time() * 1000)


def _records(numbers: range, *, mark: bytes = b"", key: bytes | None = None) -> list[Record]:
    return [Record(_NOW + each, key, mark + b"%d" % each) for each in numbers]


def _write(cluster: Cluster, topic: str, records: list[Record], size: int = 100) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        for at in range(0, len(records), size):
            wire.produce(topic, 0, batches.encode(records[at : at + size]))


def _values(cluster: Cluster, topic: str) -> list[bytes]:
    return [record.value or b"" for record in read(cluster.client_properties(), topic)]


def _make_again(cluster: Cluster, topic: str) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic)


def _stored(flow: Any, topic: str, offset: int | None) -> None:
    """Stores a source offset as MM2 does; None: a tombstone."""
    job = flow.job()  # creates the topics, unless another test has
    client = job.client("target")
    try:
        key = source_offsets.key(job.connector, "us", topic, 0)
        tp = TopicPartition(job.offsets, partition_for(key, job.offsets_partitions))
        client.append(tp, encode([(1, key, None if offset is None else source_offsets.value(offset), ())]))
    finally:
        client.close()


def _kinds(flow: Any, topic: str) -> set[str]:
    return {event["kind"] for event in flow.events(topic)}


@pytest.mark.parametrize("key", [None, b"the same"])
@pytest.mark.parametrize("rewritten", [80, 20])
def test_a_truncated_and_rewritten_source_is_copied_from_the_divergence(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, key: bytes | None, rewritten: int
) -> None:
    """It had 1,000 records, all copied; it lost the last 100 and got others. Neither leader epoch nor topic id shows it."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, _records(range(1000), key=key))
    flow.copy()
    _make_again(us, topic)
    _write(us, topic, _records(range(900), key=key))
    _write(us, topic, _records(range(900, 900 + rewritten), mark=b"new ", key=key))

    def older(assignment: PartitionAssignment) -> PartitionAssignment:
        assert assignment.stored_position is not None
        stored_position = replace(
            assignment.stored_position, source=800, target=800, sequence=800, topic_id="", leader_epoch=-1
        )
        return replace(assignment, topic_id=NO_ID, sync=None, stored_position=stored_position)

    with flow.start(older) as running:
        running.until(lambda: running[topic].target.acked_position == 900 + rewritten, "copied")
    expected = [*(b"%d" % each for each in range(1000)), *(b"new %d" % each for each in range(900, 900 + rewritten))]
    assert _values(eu, flow.remote(topic)) == expected
    assert "truncated" in _kinds(flow, topic)


def test_a_topic_recreated_after_mm2_had_copied_it_is_copied(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """MM2 does not use topic ids: its offset is far past the end of the new topic."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(eu, flow.remote(topic), _records(range(1000)))
    _write(us, topic, _records(range(50), mark=b"new "))
    _stored(flow, topic, 999)
    flow.copy()
    assert _values(eu, flow.remote(topic))[1000:] == [b"new %d" % each for each in range(50)]
    assert "re-created" in _kinds(flow, topic)


def test_a_source_that_lost_its_end_resumes_at_its_end(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(eu, flow.remote(topic), _records(range(1000)))
    _write(us, topic, _records(range(950)))
    _stored(flow, topic, 999)
    with flow.start() as running:
        running.until_running()
        _write(us, topic, _records(range(950, 960), mark=b"new "))
        running.until(lambda: running[topic].target.acked_position == 960, "copied")
    assert _values(eu, flow.remote(topic))[1000:] == [b"new %d" % each for each in range(950, 960)]
    assert "truncated" in _kinds(flow, topic)


@pytest.mark.parametrize("commits", [True, False])
def test_what_mm2_copied_of_an_open_transaction_is_not_copied_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, commits: bool
) -> None:
    """MM2 reads uncommitted records, so it is past the last stable offset."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    _write(us, topic, _records(range(10)))
    with RawProtocol(us.client_properties()) as wire:
        producer = Transactions(wire, topic)
        producer.produce(topic, 0, _records(range(10, 15)))
        _write(eu, flow.remote(topic), _records(range(15)))
        with flow.start(lambda assignment: replace(assignment, sync=OffsetPair(5, 5), mm2_position=15)) as running:
            running.until_running()
            producer.produce(topic, 0, _records(range(15, 18)))
            producer.commit() if commits else producer.abort()
            _write(us, topic, _records(range(20, 25)))
            running.until(
                lambda: running[topic].target.acked_position == running[topic].source.high_watermark == 24, "copied"
            )
    expected = [*range(18), *range(20, 25)] if commits else [*range(15), *range(20, 25)]
    assert _values(eu, flow.remote(topic)) == [b"%d" % each for each in expected]


def test_two_flows_between_the_same_clusters_have_positions_of_their_own(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """They copy a topic under different names. Records between their positions must not be skipped."""
    us.create_topic(topic)
    first = mirror(us, eu, topic)
    second = mirror(us, eu, topic, replication__policy__separator="-", twinlog__foreign__records="expect")
    other = f"us-{topic}"
    _write(us, topic, _records(range(30)))
    first.copy()
    _stored(first, topic, None)  # both flows share the connector name, and so MM2's offset
    second.copy()
    _write(eu, other, _records(range(20), mark=b"foreign "))
    _write(us, topic, _records(range(30, 50)))
    first.copy()
    second.copy()
    for name in (first.remote(topic), other):
        ours = [value for value in _values(eu, name) if not value.startswith(b"foreign")]
        assert ours == [b"%d" % each for each in range(50)], name


def test_after_a_crash_mm2s_offsets_are_written_before_new_records_come(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, _records(range(50)))
    flow.copy()
    _stored(flow, topic, 9)  # as a killed task left it
    job = TaskSpec(flow.config.flow, flow.config, (), ())
    source, target = job.client("source"), job.client("target")
    try:

        def stored() -> int | None:
            known = PositionReader(flow.config, source, target)
            known.read()
            return known.mm2_positions.get(TopicPartition(topic, 0))

        assert stored() == 10
        with flow.start() as running:
            running.until(lambda: stored() == 50, "written at recovery")
    finally:
        source.close()
        target.close()


def test_partitions_that_were_stopped_gracefully_resume_without_reading_a_log(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each one takes several round trips: 100 s for 2,000 partitions between continents."""
    us.create_topic(topic, 20)
    flow = mirror(us, eu, topic)
    with RawProtocol(us.client_properties()) as wire:
        for partition in range(20):
            wire.produce(topic, partition, batches.encode(_records(range(5))))
    flow.copy()
    reads = list[Any]()
    monkeypatch.setattr(LogReader, "read", lambda *about: reads.append(about))
    with flow.start() as running:
        running.until_running()
    assert not reads


def test_retention_on_the_target_does_not_turn_others_records_into_ours(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    remote = flow.remote(topic)
    _write(us, topic, _records(range(50)))
    flow.copy()
    _write(eu, remote, _records(range(100), mark=b"foreign "))
    _write(us, topic, _records(range(50, 250)))
    with eu.admin() as admin:
        admin.delete_records({Place(remote, 0): 120})
    flow.copy()
    ours = [value for value in _values(eu, remote) if not value.startswith(b"foreign")]
    assert ours == [b"%d" % each for each in range(50, 250)]


def test_latest_does_not_skip_a_backlog_when_the_remote_topic_was_recreated(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic, us__consumer__auto__offset__reset="latest")
    with flow.start() as running:
        running.until_running()
        _write(us, topic, _records(range(100)))
        running.until(lambda: running[topic].target.acked_position == 100, "copied")
    _write(us, topic, _records(range(100, 150)))
    _make_again(eu, flow.remote(topic))
    flow.copy()
    assert _values(eu, flow.remote(topic)) == [b"%d" % each for each in range(100, 150)]


def test_a_recreated_remote_topic_gets_only_new_records_as_with_mm2(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic, twinlog__deleted__remote__topics="continue")
    _write(us, topic, _records(range(100)))
    flow.copy()
    _write(us, topic, _records(range(100, 150)))
    _make_again(eu, flow.remote(topic))
    flow.copy()
    assert _values(eu, flow.remote(topic)) == [b"%d" % each for each in range(100, 150)]
    assert "target lost" in _kinds(flow, topic)


def test_what_is_fetched_is_sent_though_the_source_has_deleted_it_meanwhile(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with flow.start() as running:
        running.until_running()
        producer = running.relay.producer
        send, held = producer.pump, list[Any]()
        producer.pump = held.append
        _write(us, topic, _records(range(100)))
        running.until(lambda: running[topic].source.position == 100, "fetched")
        _write(us, topic, _records(range(100, 110)), size=1)
        with us.admin() as admin:
            admin.delete_records({Place(topic, 0): 110})
        time.sleep(0.5)
        producer.pump = send
        running.until(lambda: running[topic].target.acked_position >= 110, "resumed")
    assert _values(eu, flow.remote(topic))[:100] == [b"%d" % each for each in range(100)]


def test_a_merged_topic_whose_source_was_truncated_resumes_at_the_truncation(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """The newest records of the target are foreign: ours are searched before them."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic, twinlog__foreign__records="expect")
    _write(us, topic, _records(range(200)))
    flow.copy()
    _write(eu, flow.remote(topic), _records(range(2500), mark=b"foreign "))
    _make_again(us, topic)
    _write(us, topic, _records(range(190)))

    def without_id(assignment: PartitionAssignment) -> PartitionAssignment:
        assert assignment.stored_position is not None
        return replace(
            assignment,
            topic_id=NO_ID,
            stored_position=replace(assignment.stored_position, topic_id="", leader_epoch=-1),
        )

    with flow.start(without_id) as running:
        running.until_running()
        assert running[topic].target.acked_position == 190
        _write(us, topic, _records(range(190, 195), mark=b"new "))
        running.until(lambda: running[topic].target.acked_position == 195, "copied")
    ours = [value for value in _values(eu, flow.remote(topic)) if not value.startswith(b"foreign")]
    assert ours == [*(b"%d" % each for each in range(200)), *(b"new %d" % each for each in range(190, 195))]


def test_a_leader_that_moves_while_the_old_one_lives_is_followed(
    trio: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Recovery has several clients: each must notice a leader change."""
    trio.create_topic(topic, 6, replication_factor=3)
    us_to_trio = mirror(eu, trio, f"{topic}-back", alias=f"moves{topic[-1]}", heartbeats__replication__enabled="false")
    eu.create_topic(f"{topic}-back", 6)
    with us_to_trio.start() as running:
        running.until_running()
        remote = us_to_trio.remote(f"{topic}-back")
        for turn in range(4):
            for partition in range(6):
                if trio.leader(remote, partition) != (target := (turn + partition) % 3):
                    trio.move_leader(remote, partition, target)
            with RawProtocol(eu.client_properties()) as wire:
                for partition in range(6):
                    wire.produce(f"{topic}-back", partition, batches.encode(_records(range(5))))
            running.until(
                lambda turn=turn: all(p.target.acked_position == 5 * (turn + 1) for p in running.relay.partitions),
                "all of them follow",
            )
