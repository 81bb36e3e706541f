"""A target without our producer's state accepts any sequence number: that must cause no loss and no duplicates."""

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition as Place
from kafka.admin import NewTopic

from lab import batches
from lab.batches import Record
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.lab import Lab
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from twinlog.kafka.client import Client
from twinlog.model import TopicPartition
from twinlog.replicate.partition import State
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec

pytestmark = pytest.mark.broker

_DAY = 86_400_000


def _records(numbers: range, size: int = 10, age: int = 0) -> list[Record]:
    now = int(time.time() * 1000) - age
    return [Record(now, b"%d" % each, random.Random(each).randbytes(size)) for each in numbers]


def _write(cluster: Cluster, topic: str, *made: list[Record], codec: str = "lz4", **how: Any) -> None:
    """Compressed batches are forwarded one by one, unchanged."""
    with RawProtocol(cluster.client_properties()) as wire:
        for records in made:
            wire.produce(topic, 0, batches.encode(records, codec, **how))


def _keys(cluster: Cluster, topic: str) -> list[int]:
    return [int(record.key or b"-1") for record in read(cluster.client_properties(), topic)]


@pytest.fixture(scope="module")
def forgetful(lab: Lab) -> Iterator[Cluster]:
    """Drops the state of a producer as soon as its newest record is old; by default brokers check every ten minutes."""
    settings = {"producer.id.expiration.check.interval.ms": "20"}
    cluster = lab.clusters(ClusterSpec(name="forgetful", settings=settings))[0]
    yield cluster
    cluster.close()


def _remembered(flow: Any, topic: str) -> bool:
    client = TaskSpec(flow.config.flow, flow.config, (), ()).client("target")
    try:
        tp = TopicPartition(flow.remote(topic), 0)
        client.leader(tp, fresh=True)
        states, _ = client.producer_states([tp])
        return bool(states[tp])
    finally:
        client.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_refused_batch_is_not_overtaken_by_later_ones(
    us: Cluster, forgetful: Cluster, topic: str, mirror: Any, restarted: bool
) -> None:
    """Five batches of a backlog that is two days old: the first is too large, and the others must wait for it."""
    us.create_topic(topic, configs={"retention.ms": "-1"})
    flow = mirror(us, forgetful, topic)
    remote = flow.remote(topic)
    forgetful.create_topic(remote, configs={"retention.ms": "-1", "max.message.bytes": "100000"})
    _write(us, topic, _records(range(10), age=2 * _DAY))

    def write_more() -> None:
        until(lambda: not _remembered(flow, topic), "the producer state has expired")
        large = _records(range(10, 11), size=200_000, age=2 * _DAY)
        _write(us, topic, large, *(_records(range(n, n + 2), age=2 * _DAY) for n in range(11, 19, 2)))

    if restarted:
        flow.copy()
        write_more()
    with flow.start() as running:
        if not restarted:
            running.until(lambda: running[topic].target.acked_position == 10, "the first ten")
            write_more()
        running.until(lambda: running[topic].state is State.STOPPED, "stopped")
        assert "offset 10 " in running[topic].report.error
        assert _keys(forgetful, remote) == [*range(10)]
    forgetful.alter_topic(remote, {"max.message.bytes": "1000000"})
    flow.copy()
    flow.until_equal(topic, seconds=0)


def test_an_old_backlog_is_copied_one_batch_at_a_time_and_a_young_one_is_not(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic, configs={"retention.ms": "-1"})
    flow = mirror(us, eu, topic)
    eu.create_topic(flow.remote(topic), configs={"retention.ms": "-1"})
    _write(us, topic, *(_records(range(n, n + 5), age=2 * _DAY) for n in range(0, 30, 5)))
    running = flow.start()
    put, sizes = running.relay.producer.put, list[int]()

    def counted(partition: Any, outbound: list[Any]) -> None:
        sizes.append(len(outbound))
        put(partition, outbound)

    running.relay.producer.put = counted
    with running:
        running.until(lambda: running[topic].target.acked_position == 30, "the old ones")
        assert sizes == [1] * 6
        _write(us, topic, _records(range(30, 35)))
        running.until(lambda: running[topic].target.acked_position == 35, "a young one")
        sizes.clear()
        with RawProtocol(us.client_properties()) as wire:  # at once, so that they come in one response
            running.relay.fetcher.stopping = True
            for n in range(35, 60, 5):
                wire.produce(topic, 0, batches.encode(_records(range(n, n + 5)), "lz4"))
            running.relay.fetcher.stopping = False
        running.until(lambda: running[topic].target.acked_position == 60, "the young ones")
        assert max(sizes) > 1
    flow.until_equal(topic, seconds=0)


def test_records_that_followers_do_not_have_yet_are_waited_for(
    us: Cluster, trio: Cluster, topic: str, mirror: Any
) -> None:
    """A batch of a killed task is above the high watermark, and a foreign one is the last before it: by the
    number of the one and the position of the other it would be copied twice.
    """
    us.create_topic(topic)
    flow = mirror(us, trio, topic)
    remote = flow.remote(topic)
    with trio.admin() as admin:
        leader, follower = 0, 1
        admin.create_topics(
            [
                NewTopic(
                    remote, -1, -1, {0: [leader, follower]},
                    {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"},
                )
            ]
        )  # fmt: skip
    trio.wait_for_topic(remote)
    until(lambda: trio.leader(remote, 0) == leader, "led")
    _write(us, topic, _records(range(50)))
    flow.copy()
    number = flow.job().producers[-1]
    with RawProtocol(trio.client_properties()) as wire:
        wire.produce(remote, 0, batches.encode([Record(1, b"-1", b"")]))
    made = _records(range(50, 60))
    _write(us, topic, made)
    stalled = next(broker for broker in trio.brokers if broker.id == follower)
    stalled.pause()
    try:

        def killed() -> None:
            with RawProtocol(trio.client_properties()) as wire:
                wire.produce(remote, 0, batches.encode(made, "lz4", producer=(number, 0, 50)))

        late = threading.Thread(target=killed, daemon=True)
        late.start()
        time.sleep(0.5)
        with flow.start() as running:
            time.sleep(1)
            stalled.resume()
            running.until(lambda: running[topic].target.acked_position == 60, "copied")
        late.join(30)
    finally:
        stalled.resume()
    assert [key for key in _keys(trio, remote) if key >= 0] == [*range(60)]


def test_a_late_batch_is_not_taken_for_other_records_of_the_same_number(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """After a gap (retention), a batch arrives late that was sent before it, as large as ours."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    remote = flow.remote(topic)
    _write(us, topic, _records(range(50)))
    flow.copy()
    number = flow.job().producers[-1]
    _write(us, topic, _records(range(50, 60)))
    with us.admin() as admin:
        admin.delete_records({Place(topic, 0): 60})
    _write(us, topic, _records(range(60, 70)))
    running = flow.start()
    put = running.relay.producer.put
    late: list[int] = []

    def after_a_late_one(partition: Any, outbound: list[Any]) -> None:
        if not late:
            late.append(1)
            with RawProtocol(eu.client_properties()) as wire:
                wire.produce(remote, 0, batches.encode(_records(range(50, 60)), "lz4", producer=(number, 0, 50)))
        put(partition, outbound)

    running.relay.producer.put = after_a_late_one
    with running:
        running.until(lambda: running[topic].target.acked_position == 70, "copied")
    assert _keys(eu, remote) == [*range(70)]
    _write(us, topic, _records(range(70, 75)))
    flow.copy()
    assert _keys(eu, remote) == [*range(75)]


def test_a_target_that_lost_our_records_and_was_written_to_by_others_gets_them_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    """By offsets alone nothing is missing: others have written past the end of our records."""
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    remote = flow.remote(topic)
    _write(us, topic, _records(range(60)))
    flow.copy()
    _write(us, topic, _records(range(60, 100)))
    with RawProtocol(eu.client_properties()) as wire:
        wire.produce(remote, 0, batches.encode([Record(1, b"-1", b"")] * 50))

    def lost(assignment: PartitionAssignment) -> PartitionAssignment:
        """As if records 60 to 99 had been there, and were acknowledged."""
        assert assignment.stored_position is not None
        return replace(
            assignment,
            sync=None,
            stored_position=replace(assignment.stored_position, source=100, target=100, sequence=100),
        )

    with flow.start(lost) as running:
        running.until(lambda: running[topic].target.acked_position == 100, "copied")
        running.until(lambda: [key for key in _keys(eu, remote) if key >= 0] == [*range(100)], "all of them, once")
    assert "target lost" in {event["kind"] for event in flow.events(topic)}


def test_a_number_that_is_too_low_is_tried_by_one_batch_alone(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task wrote ten records after we had asked for the number. Our first batch, also of ten, is taken for
    theirs; a second one would have the number that follows, and the first be missing.
    """
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, *(_records(range(n, n + 10)) for n in range(0, 50, 10)))
    flow.copy()
    _write(us, topic, _records(range(50, 60)), _records(range(60, 70)))
    _see_the_number_too_early(monkeypatch, TopicPartition(flow.remote(topic), 0))
    with flow.start(_at_30) as running:
        running.until(lambda: running[topic].target.acked_position == 70, "copied")
    flow.until_equal(topic, seconds=0)


def test_a_number_that_is_too_low_is_not_noted(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a stored position: then one is stored before the first batch. With a number that is lower than that of
    the last record, the next recovery would believe that records are missing, and stop.
    """
    us.create_topic(topic)
    flow = mirror(us, eu, topic)
    _write(us, topic, *(_records(range(n, n + 10)) for n in range(0, 50, 10)))
    flow.copy()
    _see_the_number_too_early(monkeypatch, TopicPartition(flow.remote(topic), 0))
    with flow.start(lambda assignment: replace(assignment, stored_position=None)) as running:
        running.until(lambda: running[topic].target.acked_position == 50, "its position is found")
    _write(us, topic, _records(range(50, 60)))
    flow.copy()
    flow.until_equal(topic, seconds=0)


def _at_30(assignment: PartitionAssignment) -> PartitionAssignment:
    """As if the task had been killed before it stored a newer position."""
    assert assignment.stored_position is not None
    return replace(
        assignment, sync=None, stored_position=replace(assignment.stored_position, source=30, target=30, sequence=30)
    )


def _see_the_number_too_early(monkeypatch: pytest.MonkeyPatch, remote: TopicPartition) -> None:
    """As if ten of the records there had arrived just after the first time that the leader is asked."""
    send, asked = Client.producer_states, list[int]()

    def early(self: Client, tps: Any) -> Any:
        states, failed = send(self, tps)
        if remote in states and not asked:
            asked.append(1)
            known = states[remote].items()
            states[remote] = {one: state._replace(last_sequence=state.last_sequence - 10) for one, state in known}
        return states, failed

    monkeypatch.setattr(Client, "producer_states", early)


@pytest.mark.parametrize("merged", [False, True])
def test_records_of_others_after_ours_are_no_loss_when_the_producer_is_forgotten(
    us: Cluster, forgetful: Cluster, topic: str, mirror: Any, merged: bool
) -> None:
    us.create_topic(topic, configs={"retention.ms": "-1"})
    settings = {"twinlog__foreign__records": "expect"} if merged else {}
    flow = mirror(us, forgetful, topic, **settings)
    remote = flow.remote(topic)
    forgetful.create_topic(remote, configs={"retention.ms": "-1"})
    _write(us, topic, _records(range(10), age=2 * _DAY))
    flow.copy()
    with RawProtocol(forgetful.client_properties()) as wire:
        wire.produce(remote, 0, batches.encode([Record(1, b"-1", b"")] * 5))
    until(lambda: not _remembered(flow, topic), "the producer state has expired")
    flow.copy()  # stores a position after a foreign record
    with us.admin() as admin:
        admin.delete_records({Place(topic, 0): 10})
    _write(us, topic, _records(range(10, 15), age=2 * _DAY))
    until(lambda: not _remembered(flow, topic), "the producer state has expired again")
    flow.copy()
    assert [key for key in _keys(forgetful, remote) if key >= 0] == [*range(15)]
    assert "target lost" not in {event["kind"] for event in flow.events(topic)}


def test_a_forgotten_producer_goes_on_with_the_number_after_its_last_record(
    us: Cluster, forgetful: Cluster, topic: str, mirror: Any
) -> None:
    """A task was killed between two stored positions: what it wrote since counts for the position and the sequence."""
    us.create_topic(topic, configs={"retention.ms": "-1"})
    flow = mirror(us, forgetful, topic)
    forgetful.create_topic(flow.remote(topic), configs={"retention.ms": "-1"})
    _write(us, topic, *(_records(range(n, n + 5), age=2 * _DAY) for n in range(0, 20, 5)))
    flow.copy()
    until(lambda: not _remembered(flow, topic), "the producer state has expired")

    def older(assignment: PartitionAssignment) -> PartitionAssignment:
        assert assignment.stored_position is not None
        return replace(
            assignment, sync=None, stored_position=replace(assignment.stored_position, source=5, target=5, sequence=5)
        )

    with flow.start(older) as running:
        running.until_running()
        assert (running[topic].target.acked_position, running[topic].target.acked_sequence) == (20, 20)
    _write(us, topic, _records(range(20, 25), age=2 * _DAY))
    for _ in range(2):
        flow.copy()
    flow.until_equal(topic, seconds=0)
    assert not flow.events(topic)
