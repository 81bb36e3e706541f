"""Changes of topics on the source or target: reported for their partitions, while the others continue."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka import TopicPartition as Place

from lab import batches
from lab.batches import Record
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.lab import Lab
from lab.proxy import Proxy
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from lab.waiting import until
from twinlog.replicate.partition import State
from twinlog.replicate.progress import report_of
from twinlog.replicate.task_spec import PartitionAssignment

pytestmark = pytest.mark.broker


def _write(cluster: Cluster, topic: str, numbers: range, partition: int = 0, size: int = 10) -> None:
    """One batch of `size` records after the other."""
    now = int(time.time() * 1000)
    with RawProtocol(cluster.client_properties()) as wire:
        for first in range(numbers.start, numbers.stop, size):
            some = range(first, min(first + size, numbers.stop))
            wire.produce(topic, partition, batches.encode([Record(now, b"k", b"%d" % each) for each in some]))


def _values(cluster: Cluster, topic: str, partition: int = 0) -> list[int]:
    return [int(record.value or b"-1") for record in read(cluster.client_properties(), topic, partition)]


def _delete_records(cluster: Cluster, topic: str, before: int) -> None:
    with cluster.admin() as admin:
        admin.delete_records({Place(topic, 0): before})


def _has_copies(cluster: Cluster, topic: str, brokers: list[int]) -> bool:
    return bool(cluster.partition(topic, 0)["replica_nodes"] == brokers)


def _kinds(flow: Any, topic: str) -> list[str]:
    return [event["kind"] for event in flow.events(topic)]


def test_a_deleted_topic_is_reported_and_its_successor_is_copied(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    fewer, more, other = f"{topic}-fewer", f"{topic}-more", f"{topic}-other"
    for name in (fewer, more, other):
        us.create_topic(name)
        _write(us, name, range(50))
    flow = mirror(us, eu, f"{topic}-.*")
    with flow.start() as running:
        flow.until_equal(fewer, more, other)
        for name in (fewer, more):
            us.delete_topic(name)
        running.until(
            lambda: bool(running[fewer].report.error and running[more].report.error), "an error on the deleted topics"
        )
        assert "UNKNOWN_TOPIC" in running[fewer].report.error

        _write(us, other, range(50, 60))
        flow.until_equal(other)
        assert running[other].state is State.RUNNING
        assert not running[other].report.error

        for name, count in ((fewer, 20), (more, 90)):
            us.create_topic(name)
            _write(us, name, range(1000, 1000 + count))
        for name, count in ((fewer, 20), (more, 90)):
            running.until(lambda name=name, count=count: running[name].target.acked_position == count, f"{name} copied")
            assert _values(eu, flow.remote(name)) == [*range(50), *range(1000, 1000 + count)]
            assert not running[name].report.error
        assert running[other].report.counters.recoveries == 0
    assert _kinds(flow, fewer) == ["re-created"]
    assert _kinds(flow, other) == []


def test_a_topic_that_is_recreated_between_runs_is_detected_by_its_id(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    flow = mirror(us, eu, topic)
    careful = mirror(us, eu, topic, twinlog__recreated__topics="stop")
    flow.copy()
    us.delete_topic(topic)
    us.create_topic(topic)
    _write(us, topic, range(1000, 1080))

    # With `stop` the partition stops, also after a restart.
    for _ in range(2):
        with careful.start() as running:
            running.until(lambda: running[topic].state is State.STOPPED, "stopped")
            assert "twinlog.recreated.topics" in running[topic].report.error
    assert _values(eu, flow.remote(topic)) == [*range(50)]

    flow.copy()
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1080)]
    flow.copy()
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1080)]


def test_a_suspended_task_does_not_copy_a_recreated_topic_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    flow = mirror(us, eu, topic)
    suspended = flow.process().start()
    flow.until_equal(topic)
    suspended.pause()
    us.delete_topic(topic)
    us.create_topic(topic)
    _write(us, topic, range(1000, 1080))
    flow.copy()
    suspended.resume()
    time.sleep(1)
    _write(us, topic, range(1080, 1090))
    until(lambda: len(_values(eu, flow.remote(topic))) >= 140, "copied")
    time.sleep(0.5)
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1090)]


def test_records_deleted_before_they_were_copied_are_counted_and_reported(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    below, above, other = f"{topic}-below", f"{topic}-above", f"{topic}-other"
    flow = mirror(us, eu, f"{topic}-.*")
    careful = mirror(us, eu, f"{topic}-.*", twinlog__lost__records="stop")
    for name in (below, above, other):
        us.create_topic(name)
        _write(us, name, range(50))
    flow.copy()
    for name in (below, above, other):
        _write(us, name, range(50, 100))
    _delete_records(us, below, 40)  # all copied
    _delete_records(us, above, 85)  # 35 records were not copied; and the log starts in the middle of a batch

    for _ in range(2):
        with careful.start() as running:
            running.until(lambda: running[above].state is State.STOPPED, "stopped")
            assert "50 to 84" in running[above].report.error
            assert "twinlog.lost.records" in running[above].report.error
            running.until(
                lambda: running[below].target.acked_position == running[other].target.acked_position == 100,
                "the others copied",
            )
    assert _values(eu, flow.remote(above)) == [*range(50)]

    with flow.start() as running:
        running.until(lambda: running[above].target.acked_position == 100, "copied")
        assert running[above].report.counters.lost == 35
    assert _values(eu, flow.remote(above)) == [*range(50), *range(85, 100)]
    assert _values(eu, flow.remote(below)) == _values(eu, flow.remote(other)) == [*range(100)]
    report_of = [event for event in flow.events(above) if event["kind"] == "lost"]
    assert [event["amount"] for event in report_of] == [35]
    assert not _kinds(flow, below)


def test_retention_that_overtakes_a_running_task_is_reported(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    with Proxy(us) as near:
        flow = mirror(us, eu, topic, us__bootstrap__servers=near.bootstrap)
        with flow.start() as running:
            _write(us, topic, range(50))
            flow.until_equal(topic)
            near.stall()
            _write(us, topic, range(50, 100))
            _delete_records(us, topic, 80)
            near.cut()
            near.resume()
            running.until(lambda: running[topic].target.acked_position == 100, "copied")
            assert running[topic].report.counters.lost == 30
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(80, 100)]


def test_a_position_past_the_log_end_resumes_at_the_end(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _write(us, topic, range(100))
    flow = mirror(us, eu, topic)
    flow.copy()

    def ahead(assignment: PartitionAssignment) -> PartitionAssignment:
        assert assignment.stored_position is not None
        return replace(assignment, sync=None, stored_position=replace(assignment.stored_position, source=150))

    with flow.start(ahead) as running:
        running.until(lambda: running[topic].state is State.RUNNING and running[topic].source.position == 100, "found")
        _write(us, topic, range(100, 120))
        flow.until_equal(topic)
    assert [(event["kind"], event["amount"]) for event in flow.events(topic)] == [("truncated", 50)]


def test_a_remote_topic_that_is_deleted_gets_everything_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    slow, quick, other = f"{topic}-slow", f"{topic}-quick", f"{topic}-other"
    for name in (slow, quick, other):
        us.create_topic(name)
        _write(us, name, range(50))
    flow = mirror(us, eu, f"{topic}-.*")
    with flow.start() as running:
        flow.until_equal(slow, quick, other)
        eu.delete_topic(flow.remote(slow))
        _write(us, slow, range(50, 60))
        running.until(lambda: bool(running[slow].report.error), "an error on the deleted topic")
        _write(us, other, range(50, 60))
        flow.until_equal(other)
        eu.create_topic(flow.remote(slow))
        flow.until_equal(slow)

        # Re-created before it could be noticed: the new log accepts the next batch.
        eu.delete_topic(flow.remote(quick))
        eu.create_topic(flow.remote(quick))
        _write(us, quick, range(50, 60))
        running.until(lambda: running[quick].target.acked_position == 60, "copied again")
        assert running[other].report.counters.recoveries == 0
    found = _values(eu, flow.remote(quick))
    assert found[-60:] == [*range(60)]
    assert set(_kinds(flow, slow)) == set(_kinds(flow, quick)) == {"target lost"}


@pytest.fixture(scope="module")
def guarded(lab: Lab) -> Iterator[Cluster]:
    """Asks for rights, and gives nobody any: whoever comes in plain text is called ANONYMOUS. And it forgets producers
    after a second.
    """
    forgetful = {"producer.id.expiration.ms": "1000", "producer.id.expiration.check.interval.ms": "200"}
    cluster = lab.clusters(ClusterSpec(name="guarded", authorizer=True, settings=forgetful))[0]
    cluster.grant("ANONYMOUS", "ALL", topic="mm2-*")
    cluster.grant("ANONYMOUS", "ALL", cluster="kafka-cluster")
    yield cluster
    lab.discard(cluster)


def test_a_producer_whose_state_expired_on_the_target_resumes(
    us: Cluster, guarded: Cluster, topic: str, mirror: Any
) -> None:
    flow = mirror(us, guarded, topic)
    guarded.grant("ANONYMOUS", "ALL", topic=flow.remote(topic))
    us.create_topic(topic)
    with flow.start() as running:
        for turn in range(2):
            _write(us, topic, range(turn * 50, turn * 50 + 50))
            running.until(lambda turn=turn: running[topic].target.acked_position == turn * 50 + 50, "copied")
            time.sleep(1.6)
        assert running[topic].report.counters.recoveries == 0
    # A foreign record is the last one, so the target's log does not show our sequence number either.
    _write(guarded, flow.remote(topic), range(1000, 1001))
    time.sleep(1.6)
    _write(us, topic, range(100, 150))
    flow.copy()
    assert _values(guarded, flow.remote(topic)) == [*range(100), 1000, *range(100, 150)]


def test_missing_permissions_affect_only_their_partitions(
    us: Cluster, eu: Cluster, guarded: Cluster, topic: str, mirror: Any
) -> None:
    free, denied = f"{topic}-free", f"{topic}-denied"
    out, home = mirror(guarded, eu, f"{topic}-.*"), mirror(us, guarded, f"{topic}-.*")
    guarded.grant("ANONYMOUS", "ALL", topic=free)
    guarded.grant("ANONYMOUS", "DESCRIBE", topic=denied)
    guarded.grant("ANONYMOUS", "ALL", topic=home.remote(free))
    guarded.grant("ANONYMOUS", "DESCRIBE", "READ", "CREATE", topic=home.remote(denied))
    for name in (free, denied):
        guarded.create_topic(name)
        us.create_topic(name)
        with guarded.admin() as admin:
            admin.create_topics({home.remote(name): {"num_partitions": 1, "replication_factor": 1}})
    with out.start() as leaving, home.start() as arriving:
        for name in (free, denied):
            _write(us, name, range(50))
        for running, flow in ((leaving, out), (arriving, home)):
            running.until(lambda running=running: running[denied].report.error != "", "an error")
            assert "TOPIC_AUTHORIZATION_FAILED" in running[denied].report.error
            running.until(lambda running=running: running[free].state is State.RUNNING, "running")
            # The error stays visible, and retries are rare.
            began, looks = time.monotonic(), running[denied].report.counters.recoveries
            seen = []
            while time.monotonic() - began < 3:
                seen.append(bool(running[denied].report.error))
                time.sleep(0.01)
            assert seen.count(False) < len(seen) * 0.2
            assert running[denied].report.counters.recoveries - looks < 12
            assert running[free].report.counters.recoveries == 0, flow
        home.until_equal(free)
        guarded.grant("ANONYMOUS", "ALL", topic=denied)
        guarded.grant("ANONYMOUS", "ALL", topic=home.remote(denied))
        home.until_equal(denied)
        for running in (leaving, arriving):
            running.until(lambda running=running: not running[denied].report.error, "no error")


def test_a_partition_without_a_leader_waits_alone(
    eu: Cluster, trio: Cluster, topic: str, mirror: Any, writer: Any
) -> None:
    alone, others = f"{topic}-alone", f"{topic}-others"
    trio.create_topic(alone, 1, 1, {"min.insync.replicas": "1"})
    trio.create_topic(others, 1, 3)
    flow = mirror(trio, eu, f"{topic}-.*")
    leader = trio.brokers[trio.leader(alone, 0)]
    trio.move_leader(others, 0, to=(leader.id + 1) % 3)
    with flow.start() as running, writer(trio, others, rate=200):
        running.until_running()
        leader.kill()
        running.until(lambda: bool(running[alone].report.error), "an error")
        before = running[others].target.acked_position
        running.until(lambda: running[others].target.acked_position > before + 200, "the others continue")
        leader.start()
        with writer(trio, alone, rate=200):
            running.until(lambda: running[alone].target.acked_position > 50, "it continues")
        running.until(lambda: not running[alone].report.error, "no error")
        flow.until_equal(alone)
    flow.until_equal(others)


def test_truncation_by_an_unclean_election_is_reported_on_both_clusters(
    us: Cluster, eu: Cluster, trio: Cluster, topic: str, mirror: Any
) -> None:
    """Of two replicas the one that is behind becomes the leader, so records are lost."""
    out, home = mirror(trio, eu, topic), mirror(us, trio, topic)
    us.create_topic(topic)
    names = (topic, home.remote(topic))
    for name in names:
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        trio.create_topic(name, 1, 2, settings)
        with trio.admin() as admin:
            admin.alter_partition_reassignments({Place(name, 0): [0, 1]})
        until(partial(_has_copies, trio, name, [0, 1]), "moving")
        trio.move_leader(name, 0, to=0)
    with out.start() as leaving, home.start() as arriving:
        _write(trio, topic, range(50))
        _write(us, topic, range(50))
        out.until_equal(topic)
        home.until_equal(topic)
        trio.brokers[1].kill()
        until(lambda: all(trio.partition(name, 0)["isr_nodes"] == [0] for name in names), "alone")
        _write(trio, topic, range(50, 80))
        _write(us, topic, range(50, 80))
        out.until_equal(topic)
        home.until_equal(topic)
        trio.brokers[0].kill()
        trio.brokers[1].start()
        until(lambda: all(trio.leader(name, 0) == 1 for name in names), "the unclean election")
        _write(trio, topic, range(1000, 1040))
        _write(us, topic, range(80, 90))
        home.until_equal(topic)  # the records lost on the target are copied again
        # Copying resumes at the end of the source's log; the lost records stay on the target.
        expected = [*range(80), *range(1000, 1040)]
        leaving.until(lambda: leaving[topic].target.acked_position == 90, "copied")
        assert _values(eu, out.remote(topic)) == expected
        assert arriving[topic].report.counters.foreign == 0
        trio.brokers[0].start()
    assert [(event["kind"], event["amount"]) for event in out.events(topic)] == [("truncated", 30)]
    assert [(event["kind"], event["amount"]) for event in home.events(topic)] == [("target lost", 30)]


@pytest.mark.parametrize(("isolation", "waits"), [("read_committed", True), ("read_uncommitted", False)])
def test_read_uncommitted_does_not_wait_for_transactions(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, isolation: str, waits: bool
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic, us__consumer__isolation__level=isolation)
    with RawProtocol(us.client_properties()) as wire, flow.start() as running:
        transactions = Transactions(wire, topic)
        transactions.produce(topic, 0, [Record(1, None, b"in doubt")])
        running.until(lambda: running[topic].source.high_watermark == 1, "seen")
        assert ("stable" in report_of(running[topic])) is waits
        transactions.commit()
        running.until(lambda: running[topic].target.acked_position >= 1, "copied")
