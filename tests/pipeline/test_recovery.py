"""Where a partition goes on, found from whatever is left: cursors, syncs, MM2's offsets, the target's own log."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition as Place

from twinlog.kafka.records import encode
from twinlog.lab import batches, odd
from twinlog.lab.batches import Record
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import read
from twinlog.lab.transactions import Transactions, producer_id
from twinlog.lab.wire import Wire
from twinlog.model import Anchor, TopicPartition
from twinlog.pipeline.job import Claim, Job
from twinlog.pipeline.partition import State
from twinlog.pipeline.planner import Planner
from twinlog.tracking import source_offsets
from twinlog.tracking.source_offsets import Cursor

pytestmark = pytest.mark.broker

_NOW = int(time.time() * 1000)


def _records(numbers: range) -> list[Record]:
    return [Record(_NOW + each, b"k%d" % each, b"%d" % each) for each in numbers]


def _write(cluster: Cluster, topic: str, numbers: range, size: int = 10, **how: Any) -> None:
    with Wire(cluster.client_properties()) as wire:
        for first in range(numbers.start, numbers.stop, size):
            some = range(first, min(first + size, numbers.stop))
            wire.produce(topic, 0, batches.encode(_records(some), **how))


def _values(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.value or b"-1") for record in read(cluster.client_properties(), topic)]


def _foreign(cluster: Cluster, topic: str, count: int) -> None:
    """Somebody else's records, by a producer without a number."""
    with Wire(cluster.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode([Record(0, b"somebody", b"-1")] * count))


def _first_cursor(claim: Claim) -> Claim:
    """As if the task had been killed before it wrote anything but its first cursor."""
    assert claim.cursor is not None
    return replace(claim, sync=None, cursor=replace(claim.cursor, source=0, target=0))


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(lambda claim: replace(claim, sync=None, mm2_offset=None), id="cursor only"),
        pytest.param(lambda claim: replace(claim, cursor=None, mm2_offset=None), id="sync only"),
        pytest.param(lambda claim: replace(claim, sync=Anchor(3, 3), cursor=None), id="an early sync only"),
        pytest.param(_first_cursor, id="the first cursor only"),
        pytest.param(lambda claim: replace(claim, cursor=None, sync=None), id="MM2's offset only"),
    ],
)
def test_one_witness_is_enough(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, known: Callable[[Claim], Claim]
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _write(us, topic, range(50, 75), size=7)
    with flow.start(known) as running:
        flow.until_equal(topic, seconds=20)
        running.until(lambda: running[topic].acked == 75, "acknowledged")
        assert running[topic].counters.records == 25


def test_twinlog_goes_on_where_mm2_stopped(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """MM2's bytes in its offsets topic, and its records on the target, by a producer that is not ours."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    eu.create_topic(flow.remote(topic))
    _write(eu, flow.remote(topic), range(30))
    job = flow.job()
    key = b'["MirrorSourceConnector",{"cluster":"us","partition":0,"topic":"%s"}]' % topic.encode()
    place = TopicPartition(job.offsets, source_offsets.partition_for(key, job.offsets_partitions))
    client = job.client("target")
    try:
        client.append(place, encode([(int(time.time() * 1000), key, b'{"offset":29}', ())]))
    finally:
        client.close()
    flow.copy()
    flow.until_equal(topic, seconds=0)


@pytest.mark.parametrize("count", [1, 7, 60])
@pytest.mark.parametrize("killed", [False, True])
def test_what_somebody_else_wrote_is_counted_and_costs_nothing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, count: int, killed: bool
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _foreign(eu, flow.remote(topic), count)
    _write(us, topic, range(50, 100))
    with flow.start(_first_cursor if killed else lambda claim: claim) as running:
        running.until(lambda: running[topic].acked == 100, "copied")
        assert running[topic].counters.foreign == count
        _foreign(eu, flow.remote(topic), 3)
        _write(us, topic, range(100, 110))
        running.until(lambda: running[topic].acked == 110, "copied")
        assert running[topic].counters.foreign == count + 3
    found = _values(eu, flow.remote(topic))
    assert [value for value in found if value >= 0] == [*range(110)]
    told = [event["amount"] for event in flow.events(topic) if event["kind"] == "foreign"]
    assert told == [count], "once a minute"


def test_numbers_go_round(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A producer counts to 2^31 - 1, then from 0: in the middle of a batch, between two, and across a restart."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic))
    (number,) = flow.job().producers
    _write(us, topic, range(20))
    with Wire(eu.client_properties()) as wire:
        wire.produce(flow.remote(topic), 0, batches.encode(_records(range(5)), producer=(number, 0, 2**31 - 30)))

    def near_the_end(claim: Claim) -> Claim:
        return replace(claim, cursor=Cursor(5, 5, str(claim.topic_id), 0))

    with flow.start(near_the_end):
        for numbers in (range(20, 27), range(27, 40), range(40, 90)):
            _write(us, topic, numbers, size=7)
            flow.until_equal(topic)
    _write(us, topic, range(90, 120))
    flow.copy()
    flow.until_equal(topic, seconds=0)


def test_compaction_between_the_last_witness_and_the_end_misleads_nobody(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Counting is off by what the cleaner took away since."""
    settings = {
        "cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }  # fmt: skip
    us.create_topic(topic, configs=settings)
    flow = mirror(us, eu, topic)
    rounds = [[Record(_NOW + 1000 * turn, b"k%d" % each, b"%d" % turn) for each in range(20)] for turn in range(4)]
    with Wire(us.client_properties()) as wire:
        for records in rounds[:3]:
            wire.produce(topic, 0, batches.encode(records))
    flow.copy()
    time.sleep(0.4)
    with Wire(us.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode(rounds[3][5:]))  # begins a segment; five keys keep their third round
        with odd._cleaner_in_a_hurry(us):
            deadline = time.monotonic() + 30
            while len(_pairs(us, topic)) > 40 and time.monotonic() < deadline:
                time.sleep(0.2)
    assert len(_pairs(us, topic)) <= 40
    with flow.start(_first_cursor) as running:
        running.until(lambda: running[topic].acked == 75, "copied", seconds=20)
    expected = [(record.key, record.value) for turn in (*rounds[:3], rounds[3][5:]) for record in turn]
    assert _pairs(eu, flow.remote(topic)) == expected


def _pairs(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in read(cluster.client_properties(), topic)]


def test_retention_that_took_the_last_witness_misleads_nobody(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Markers take offsets, so the position is not the witness's plus what was written since."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    with Wire(us.client_properties()) as wire:
        producer = Transactions(wire, topic)
        for turn in range(10):
            producer.produce(topic, 0, _records(range(turn * 5, turn * 5 + 5)))
            producer.commit()
        flow.copy()
        with us.admin() as admin:
            admin.delete_records({Place(topic, 0): 13})
        producer.produce(topic, 0, _records(range(50, 55)))
        producer.commit()
    with flow.start(_first_cursor) as running:
        running.until(lambda: running[topic].acked >= 65, "copied", seconds=20)
    assert _values(eu, flow.remote(topic)) == [*range(55)]


def test_a_late_batch_of_ours_is_never_followed_by_a_wrong_one(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Between a look at the target and the first batch, a batch of a killed task arrives: it is seen, not repeated."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    _write(us, topic, range(50, 80))
    (number,) = flow.job().producers
    with flow.start() as running:
        # Whoever gets there first, the numbers are the same.
        with Wire(eu.client_properties()) as wire:
            for first in (50, 60):
                try:
                    batch = batches.encode(_records(range(first, first + 10)), producer=(number, 0, first))
                    wire.produce(flow.remote(topic), 0, batch)
                except Exception as error:  # noqa: BLE001
                    assert "45" in str(error)  # noqa: PT017  # the relay was faster, and is further
        running.until(lambda: running[topic].acked == 80, "copied")
    flow.until_equal(topic, seconds=0)


def test_claims_that_were_made_before_somebody_else_began_repeat_nothing(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """Two runs are planned when nothing is known yet. The second one comes late: its claims know of no position."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    first, second = flow.start(), flow.start()
    _write(us, topic, range(50))
    with first:
        first.until(lambda: first[topic].acked == 50, "copied")
    _write(us, topic, range(50, 80))
    with second:
        second.until(lambda: second[topic].acked == 80, "copied")
        assert second[topic].counters.records == 30
    flow.until_equal(topic, seconds=0)
    assert not flow.events(topic)


def test_two_first_runs_at_once_agree_on_one_producer(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """With a number each, neither would be refused for what the other has written already."""
    flow = mirror(us, eu, topic, alias="agreeing")
    planners = [Planner(flow.config, str(each)) for each in range(3)]
    for planner in planners:
        planner.prepare()
        planner._positions.read()
    job = Job(flow.config.flow, flow.config, (), ())
    used = [planner._producer_ids(3, job.offsets)[-1] for planner in planners]
    used += [planner.plan(1, once=False, claims=[]).producers[-1] for planner in planners]
    used.append(flow.job().producers[-1])
    assert len(set(used)) == 1
    for planner in planners:
        planner.close()


@pytest.mark.parametrize("offset", [1, 55, 130, 300])
def test_copying_can_begin_anywhere_in_odd_batches(us: Cluster, eu: Cluster, mirror: Any, offset: int) -> None:
    """Inside compressed batches, transactions and gaps, where an earlier mirror happened to stop."""
    makers = {
        "codecs": odd.codecs,
        "transactions": odd.transactions,
        "switched": odd.switched_time,
        "late": odd.late_start,
    }
    topics = {f"odd-{name}": maker for name, maker in makers.items()}
    _make_once(us, topics)
    flow = mirror(us, eu, "odd-.*", alias=f"from{offset}")
    with flow.start(lambda claim: replace(claim, mm2_offset=offset - 1), once=True) as running:
        running.wait()
    for name in topics:
        expected = [record for at, record in _with_offsets(us, name) if at >= offset]
        assert [tuple(record)[:4] for record in read(eu.client_properties(), flow.remote(name))] == expected


_made: set[str] = set()


def _make_once(cluster: Cluster, topics: dict[str, Any]) -> None:
    for name, maker in topics.items():
        if name not in _made:
            _made.add(name)
            maker(cluster, name)


def _with_offsets(cluster: Cluster, topic: str) -> Sequence[tuple[int, Any]]:
    found = []
    with Wire(cluster.client_properties()) as wire:
        start, _ = wire.offsets(topic, 0)
        for batch in wire.batches(topic, 0, "read_committed"):
            if not batches.Header.of(batch).control:
                found += [pair for pair in zip(*batches.decode(batch), strict=True) if pair[0] >= start]
    return found


def test_the_first_batch_travels_alone(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    """A producer that it does not know a broker takes at any number. Were the first batch refused, for a leader that
    moves or a follower that is away, and the second taken, the first would be missing.
    """
    us.create_topic(topic)
    with Wire(us.client_properties()) as wire:
        number = producer_id(wire)
        assert wire.produce(topic, 0, batches.encode(_records(range(10)), producer=(*number, 10))) == 0, "any number"
    _write(us, topic, range(10, 50), codec="lz4")  # compressed: each travels as it is
    flow = mirror(us, eu, topic)
    for turn in range(2):
        running = flow.start()
        put, sizes = running.relay.outlet.put, list[int]()

        def counted(partition: Any, pieces: list[Any], put: Any = put, sizes: list[int] = sizes) -> None:
            sizes.append(len(pieces))
            put(partition, pieces)

        running.relay.outlet.put = counted
        with running:
            running.until(lambda running=running: running[topic].acked == running[topic].high_watermark > 0, "copied")
        # In its second life the broker knows it, and there is no need to be careful.
        assert sizes == ([1, 4] if not turn else [5]), turn
        flow.until_equal(topic, seconds=0)
        _write(us, topic, range(100, 150), codec="lz4")


def test_offset_syncs_are_readable_by_kafkas_own_formatter(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    mirror(us, eu, topic).copy()
    said = us.tool(
        "console-consumer", "--topic", "mm2-offset-syncs.eu.internal", "--from-beginning", "--timeout-ms", "4000",
        "--formatter", "org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter",
    )  # fmt: skip
    last = [line for line in said.splitlines() if f"={topic}-0" in line][-1]
    assert "upstreamOffset=49" in last
    assert "downstreamOffset=49" in last


def test_a_stopped_partition_of_a_source_that_lost_its_end_is_not_stuck(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """The target holds more than the source: what the source lost is said at once, and nobody waits for it."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, range(50))
    flow.copy()
    (number,) = flow.job().producers
    with Wire(eu.client_properties()) as wire:
        wire.produce(flow.remote(topic), 0, batches.encode(_records(range(50, 60)), producer=(number, 0, 50)))
    began = time.monotonic()
    with flow.start() as running:
        running.until(lambda: running[topic].state is State.RUNNING, "running", seconds=10)
        assert time.monotonic() - began < 8
        _write(us, topic, range(200, 210))
        running.until(lambda: running[topic].acked == 60, "copied")
    assert _values(eu, flow.remote(topic)) == [*range(60), *range(200, 210)]
    assert [(event["kind"], event["amount"]) for event in flow.events(topic)] == [("truncated", 10)]
