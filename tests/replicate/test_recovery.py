"""Recovery of positions from stored positions, offset syncs, MM2's offsets and the target's log."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition as Place

from lab import batches, corner_case_topics
from lab.batches import Record
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions, producer_id
from twinlog.kafka.records import encode
from twinlog.kafka.topic_writer import partition_for
from twinlog.mm2.source_offsets import StoredPosition
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.partition import State
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec
from twinlog.spark.planner import Planner

pytestmark = pytest.mark.broker

_NOW = int(time.time() * 1000)


def _records(numbers: range) -> list[Record]:
    return [Record(_NOW + each, b"k%d" % each, b"%d" % each) for each in numbers]


def _write(cluster: Cluster, topic: str, numbers: range, size: int = 10, **how: Any) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        for first in range(numbers.start, numbers.stop, size):
            some = range(first, min(first + size, numbers.stop))
            wire.produce(topic, 0, batches.encode(_records(some), **how))


def _values(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.value or b"-1") for record in read(cluster.client_properties(), topic)]


def _foreign(cluster: Cluster, topic: str, count: int) -> None:
    """Foreign records, by a producer without an id."""
    with RawProtocol(cluster.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode([Record(0, b"foreign", b"-1")] * count))


def _first_position(assignment: PartitionAssignment) -> PartitionAssignment:
    """As if the task had been killed before it stored anything but its first position."""
    assert assignment.stored_position is not None
    return replace(
        assignment, sync=None, stored_position=replace(assignment.stored_position, source=0, target=0, sequence=0)
    )


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(lambda assignment: replace(assignment, sync=None, mm2_position=None), id="stored position only"),
        pytest.param(lambda assignment: replace(assignment, stored_position=None, mm2_position=None), id="sync only"),
        pytest.param(
            lambda assignment: replace(assignment, sync=OffsetPair(3, 3), stored_position=None), id="an early sync only"
        ),
        pytest.param(_first_position, id="the first stored position only"),
        pytest.param(lambda assignment: replace(assignment, stored_position=None, sync=None), id="MM2's offset only"),
    ],
)
def test_one_stored_position_is_enough(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, known: Callable[[PartitionAssignment], PartitionAssignment]
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _write(us, topic, range(50, 75), size=7)
    with flow.start(known) as running:
        flow.until_equal(topic)
        running.until(lambda: running[topic].target.acked_position == 75, "acknowledged")
        assert running[topic].report.counters.records == 25


def test_twinlog_resumes_where_mm2_stopped(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """MM2's source offset in its offsets topic, and records on the target by another producer."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    eu.create_topic(flow.remote(topic))
    _write(eu, flow.remote(topic), range(30))
    job = flow.job()
    key = b'["MirrorSourceConnector",{"cluster":"us","partition":0,"topic":"%s"}]' % topic.encode()
    tp = TopicPartition(job.offsets, partition_for(key, job.offsets_partitions))
    client = job.client("target")
    try:
        client.append(tp, encode([(int(time.time() * 1000), key, b'{"offset":29}', ())]))
    finally:
        client.close()
    flow.copy()
    flow.until_equal(topic, seconds=0)


@pytest.mark.parametrize("count", [1, 7, 60])
@pytest.mark.parametrize("killed", [False, True])
def test_foreign_records_are_counted_and_nothing_is_lost(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, count: int, killed: bool
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _foreign(eu, flow.remote(topic), count)
    _write(us, topic, range(50, 100))
    with flow.start(_first_position if killed else lambda assignment: assignment) as running:
        running.until(lambda: running[topic].target.acked_position == 100, "copied")
        assert running[topic].report.counters.foreign == count
        _foreign(eu, flow.remote(topic), 3)
        _write(us, topic, range(100, 110))
        running.until(lambda: running[topic].target.acked_position == 110, "copied")
        assert running[topic].report.counters.foreign == count + 3
    found = _values(eu, flow.remote(topic))
    assert [value for value in found if value >= 0] == [*range(110)]
    reported = [event["amount"] for event in flow.events(topic) if event["kind"] == "foreign"]
    assert reported == [count], "once a minute"


def test_sequence_numbers_wrap_around(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """After 2^31 - 1 comes 0: within a batch, between two, and across a restart."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    (number,) = flow.job().producers
    _write(us, topic, range(20))
    with RawProtocol(eu.client_properties()) as wire:
        wire.produce(flow.remote(topic), 0, batches.encode(_records(range(5)), producer=(number, 0, 2**31 - 30)))

    def near_the_end(assignment: PartitionAssignment) -> PartitionAssignment:
        return replace(assignment, stored_position=StoredPosition(5, 5, str(assignment.topic_id), 0))

    with flow.start(near_the_end):
        for numbers in (range(20, 27), range(27, 40), range(40, 90)):
            _write(us, topic, numbers, size=7)
            flow.until_equal(topic)
    _write(us, topic, range(90, 120))
    flow.copy()
    flow.until_equal(topic, seconds=0)


def test_compaction_after_the_last_offset_pair(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """Counting is wrong by the number of compacted records."""
    settings = {
        "cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }  # fmt: skip
    us.create_topic(topic, configs=settings)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))  # not compacted
    rounds = [[Record(_NOW + 1000 * turn, b"k%d" % each, b"%d" % turn) for each in range(20)] for turn in range(4)]
    with RawProtocol(us.client_properties()) as wire:
        for records in rounds[:3]:
            wire.produce(topic, 0, batches.encode(records))
    flow.copy()
    time.sleep(0.4)
    with RawProtocol(us.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode(rounds[3][5:]))  # begins a segment; five keys keep their third round
        with corner_case_topics._fast_cleaner(us):
            deadline = time.monotonic() + 30
            while len(_pairs(us, topic)) > 40 and time.monotonic() < deadline:
                time.sleep(0.2)
    assert len(_pairs(us, topic)) <= 40
    with flow.start(_first_position) as running:
        running.until(lambda: running[topic].target.acked_position == 75, "copied")
    expected = [(record.key, record.value) for turn in (*rounds[:3], rounds[3][5:]) for record in turn]
    assert _pairs(eu, flow.remote(topic)) == expected


def _pairs(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in read(cluster.client_properties(), topic)]


def test_retention_past_the_last_offset_pair(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """Markers take offsets, so the position is not the pair's offset plus the records written since."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with RawProtocol(us.client_properties()) as wire:
        producer = Transactions(wire, topic)
        for turn in range(10):
            producer.produce(topic, 0, _records(range(turn * 5, turn * 5 + 5)))
            producer.commit()
        flow.copy()
        with us.admin() as admin:
            admin.delete_records({Place(topic, 0): 13})
        producer.produce(topic, 0, _records(range(50, 55)))
        producer.commit()
    with flow.start(_first_position) as running:
        running.until(lambda: running[topic].target.acked_position >= 65, "copied")
    assert _values(eu, flow.remote(topic)) == [*range(55)]


def test_a_late_batch_of_ours_is_never_followed_by_a_wrong_one(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """A batch of a killed task arrives after the target was queried, before the first batch: it is not repeated."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _write(us, topic, range(50, 80))
    (number,) = flow.job().producers
    with flow.start() as running:
        # The sequence numbers are the same, in whatever order they arrive.
        with RawProtocol(eu.client_properties()) as wire:
            for first in (50, 60):
                try:
                    batch = batches.encode(_records(range(first, first + 10)), producer=(number, 0, first))
                    wire.produce(flow.remote(topic), 0, batch)
                except Exception as error:  # noqa: BLE001
                    assert "45" in str(error)  # noqa: PT017  # the relay was faster, and is further
        running.until(lambda: running[topic].target.acked_position == 80, "copied")
    flow.until_equal(topic, seconds=0)


def test_a_stale_assignment_causes_no_duplicates(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """Two runs are planned when nothing is known yet. The second one starts late: its assignments have no position."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    first, second = flow.start(), flow.start()
    _write(us, topic, range(50))
    with first:
        first.until(lambda: first[topic].target.acked_position == 50, "copied")
    _write(us, topic, range(50, 80))
    with second:
        second.until(lambda: second[topic].target.acked_position == 80, "copied")
        assert second[topic].report.counters.records == 30
    flow.until_equal(topic, seconds=0)
    assert not flow.events(topic)


def test_two_first_runs_at_once_agree_on_one_producer(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """With different ids, the broker would not detect that both write the same records."""
    flow = mirror(us, eu, topic, alias="agreeing")
    planners = [Planner(flow.config, str(each)) for each in range(3)]
    for planner in planners:
        planner.prepare()
        planner._positions.read()
    job = TaskSpec(flow.config.flow, flow.config, (), ())
    used = [planner._producer_ids(3, job.offsets)[-1] for planner in planners]
    used += [planner.plan(1, once=False, assignments=[]).producers[-1] for planner in planners]
    used.append(flow.job().producers[-1])
    assert len(set(used)) == 1
    for planner in planners:
        planner.close()


@pytest.mark.parametrize("offset", [1, 55, 130, 300])
def test_copying_can_begin_anywhere_in_odd_batches(us: Cluster, eu: Cluster, mirror: Any, offset: int) -> None:
    """Inside compressed batches, transactions and gaps, where MM2 happened to stop."""
    makers = {
        "codecs": corner_case_topics.codecs,
        "transactions": corner_case_topics.transactions,
        "switched": corner_case_topics.switched_time,
        "late": corner_case_topics.late_start,
    }
    topics = {f"odd-{name}": maker for name, maker in makers.items()}
    _make_once(us, topics)
    flow = mirror(us, eu, "odd-.*", alias=f"from{offset}")
    with flow.start(lambda assignment: replace(assignment, mm2_position=offset), once=True) as running:
        running.wait()
    for name in topics:
        there = _with_offsets(us, name)
        with RawProtocol(us.client_properties()) as wire:
            beyond = offset > wire.offsets(name, 0)[1]
        # An offset that the log does not reach is about another topic of that name: auto.offset.reset decides, as in MM2.
        expected = [record for at, record in there if at >= offset or beyond]
        assert [tuple(record)[:4] for record in read(eu.client_properties(), flow.remote(name))] == expected


_made: set[str] = set()


def _make_once(cluster: Cluster, topics: dict[str, Any]) -> None:
    for name, maker in topics.items():
        if name not in _made:
            _made.add(name)
            maker(cluster, name)


def _with_offsets(cluster: Cluster, topic: str) -> Sequence[tuple[int, Any]]:
    found = []
    with RawProtocol(cluster.client_properties()) as wire:
        start, _ = wire.offsets(topic, 0)
        for batch in wire.batches(topic, 0, "read_committed"):
            if not batches.Header.of(batch).control:
                found += [pair for pair in zip(*batches.decode(batch), strict=True) if pair[0] >= start]
    return found


def test_the_first_batch_is_sent_alone(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A broker accepts any sequence number from an unknown producer. If it refused the first batch (leader change, missing
    follower) and accepted the second, the first would be missing.
    """
    us.create_topic(topic)
    with RawProtocol(us.client_properties()) as wire:
        number = producer_id(wire)
        assert wire.produce(topic, 0, batches.encode(_records(range(10)), producer=(*number, 10))) == 0, "any number"
    _write(us, topic, range(10, 50), codec="lz4")  # compressed: forwarded unchanged
    flow = mirror(us, eu, topic)
    for turn in range(2):
        running = flow.start()
        put, sizes = running.relay.producer.put, list[int]()

        def counted(partition: Any, outbound: list[Any], put: Any = put, sizes: list[int] = sizes) -> None:
            sizes.append(len(outbound))
            put(partition, outbound)

        running.relay.producer.put = counted
        with running:
            running.until(
                lambda running=running: (
                    running[topic].target.acked_position == running[topic].source.high_watermark > 0
                ),
                "copied",
            )
        # In the second run the broker knows the producer.
        assert sizes == ([1, 4] if not turn else [5]), turn
        flow.until_equal(topic, seconds=0)
        _write(us, topic, range(100, 150), codec="lz4")


def test_offset_syncs_are_readable_by_kafkas_own_formatter(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    mirror(us, eu, topic).copy()
    output = us.tool(
        "console-consumer", "--topic", "mm2-offset-syncs.eu.internal", "--from-beginning", "--timeout-ms", "4000",
        "--formatter", "org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter",
    )  # fmt: skip
    last = [line for line in output.splitlines() if f"={topic}-0" in line][-1]
    assert "upstreamOffset=49" in last
    assert "downstreamOffset=49" in last


def test_a_stopped_partition_of_a_source_that_lost_its_end_is_not_stuck(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """The target has more records than the source: the loss is reported at once, and not waited for."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    (number,) = flow.job().producers
    with RawProtocol(eu.client_properties()) as wire:
        wire.produce(flow.remote(topic), 0, batches.encode(_records(range(50, 60)), producer=(number, 0, 50)))
    with flow.start() as running:
        running.until(lambda: running[topic].state is State.RUNNING, "running before a stall is noticed", seconds=25)
        _write(us, topic, range(200, 210))
        running.until(lambda: running[topic].target.acked_position == 60, "copied")
    assert _values(eu, flow.remote(topic)) == [*range(60), *range(200, 210)]
    assert [(event["kind"], event["amount"]) for event in flow.events(topic)] == [("truncated", 10)]
