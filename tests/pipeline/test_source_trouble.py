"""What a source, or a target, can do to a topic: each is told of the partition it concerns, and the others go on."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka import TopicPartition as Place

from twinlog.lab import batches
from twinlog.lab.batches import Record
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import read
from twinlog.lab.lab import Lab
from twinlog.lab.proxy import Proxy
from twinlog.lab.transactions import Transactions
from twinlog.lab.waiting import until
from twinlog.lab.wire import Wire
from twinlog.pipeline.job import Claim
from twinlog.pipeline.ledger import told
from twinlog.pipeline.partition import State

pytestmark = pytest.mark.broker


def _write(cluster: Cluster, topic: str, numbers: range, partition: int = 0, size: int = 10) -> None:
    """One batch of `size` records after the other."""
    now = int(time.time() * 1000)
    with Wire(cluster.client_properties()) as wire:
        for first in range(numbers.start, numbers.stop, size):
            some = range(first, min(first + size, numbers.stop))
            wire.produce(topic, partition, batches.encode([Record(now, b"k", b"%d" % each) for each in some]))


def _values(cluster: Cluster, topic: str, partition: int = 0) -> list[int]:
    return [int(record.value or b"-1") for record in read(cluster.client_properties(), topic, partition)]


def _delete_records(cluster: Cluster, topic: str, before: int) -> None:
    with cluster.admin() as admin:
        admin.delete_records({Place(topic, 0): before})


def _delete_topic(cluster: Cluster, topic: str) -> None:
    with cluster.admin() as admin:
        admin.delete_topics([topic])

    def gone() -> bool:
        with Wire(cluster.client_properties()) as wire:
            return not wire.partitions(topic)

    until(gone, f"deleting {topic}")


def _has_copies(cluster: Cluster, topic: str, brokers: list[int]) -> bool:
    return bool(cluster.partition(topic, 0)["replica_nodes"] == brokers)


def _kinds(flow: Any, topic: str) -> list[str]:
    return [event["kind"] for event in flow.events(topic)]


def test_a_deleted_topic_is_told_of_and_its_namesake_follows_it(
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
            _delete_topic(us, name)
        running.until(lambda: bool(running[fewer].error and running[more].error), "an error on the deleted topics")
        assert "UNKNOWN_TOPIC" in running[fewer].error

        _write(us, other, range(50, 60))
        flow.until_equal(other)
        assert running[other].state is State.RUNNING
        assert not running[other].error

        for name, count in ((fewer, 20), (more, 90)):
            us.create_topic(name)
            _write(us, name, range(1000, 1000 + count))
        for name, count in ((fewer, 20), (more, 90)):
            running.until(lambda name=name, count=count: running[name].acked == count, f"{name} copied")
            assert _values(eu, flow.remote(name)) == [*range(50), *range(1000, 1000 + count)]
            assert not running[name].error
        assert running[other].counters.recoveries == 0
    assert _kinds(flow, fewer) == ["re-created"]
    assert _kinds(flow, other) == []


def test_a_topic_that_is_made_again_while_nobody_looks_is_known_by_its_id(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    flow = mirror(us, eu, topic)
    careful = mirror(us, eu, topic, twinlog__recreated__topics="stop")
    flow.copy()
    _delete_topic(us, topic)
    us.create_topic(topic)
    _write(us, topic, range(1000, 1080))

    # Whoever wants to decide by himself is asked, and asked again after a restart.
    for _ in range(2):
        with careful.start() as running:
            running.until(lambda: running[topic].state is State.STOPPED, "stopped")
            assert "twinlog.recreated.topics" in running[topic].error
    assert _values(eu, flow.remote(topic)) == [*range(50)]

    flow.copy()
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1080)]
    flow.copy()
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1080)]


def test_a_sleeper_that_missed_a_topics_second_life_does_not_begin_it_again(
    us: Cluster, eu: Cluster, topic: str, mirror: Any
) -> None:
    us.create_topic(topic)
    _write(us, topic, range(50))
    flow = mirror(us, eu, topic)
    sleeper = flow.process().start()
    flow.until_equal(topic)
    sleeper.pause()
    _delete_topic(us, topic)
    us.create_topic(topic)
    _write(us, topic, range(1000, 1080))
    flow.copy()
    sleeper.resume()
    time.sleep(1)
    _write(us, topic, range(1080, 1090))
    until(lambda: len(_values(eu, flow.remote(topic))) >= 140, "copied")
    time.sleep(0.5)
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(1000, 1090)]


def test_what_was_deleted_before_it_was_copied_is_counted_and_told(
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
    _delete_records(us, below, 40)  # all of it was copied
    _delete_records(us, above, 85)  # 35 records were not; and the log starts in the middle of a batch

    for _ in range(2):
        with careful.start() as running:
            running.until(lambda: running[above].state is State.STOPPED, "stopped")
            assert "50 to 84" in running[above].error
            assert "twinlog.lost.records" in running[above].error
            running.until(lambda: running[below].acked == running[other].acked == 100, "the others copied")
    assert _values(eu, flow.remote(above)) == [*range(50)]

    with flow.start() as running:
        running.until(lambda: running[above].acked == 100, "copied")
        assert running[above].counters.lost == 35
    assert _values(eu, flow.remote(above)) == [*range(50), *range(85, 100)]
    assert _values(eu, flow.remote(below)) == _values(eu, flow.remote(other)) == [*range(100)]
    told = [event for event in flow.events(above) if event["kind"] == "lost"]
    assert [event["amount"] for event in told] == [35]
    assert not _kinds(flow, below)


def test_retention_that_overtakes_a_running_relay_is_told(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
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
            running.until(lambda: running[topic].acked == 100, "copied")
            assert running[topic].counters.lost == 30
    assert _values(eu, flow.remote(topic)) == [*range(50), *range(80, 100)]


def test_a_position_beyond_the_end_goes_on_at_the_end(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    us.create_topic(topic)
    _write(us, topic, range(100))
    flow = mirror(us, eu, topic)
    flow.copy()

    def ahead(claim: Claim) -> Claim:
        assert claim.cursor is not None
        return replace(claim, sync=None, cursor=replace(claim.cursor, source=150))

    with flow.start(ahead) as running:
        running.until(lambda: running[topic].state is State.RUNNING and running[topic].fetched == 100, "found")
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
        _delete_topic(eu, flow.remote(slow))
        _write(us, slow, range(50, 60))
        running.until(lambda: bool(running[slow].error), "an error on the deleted topic")
        _write(us, other, range(50, 60))
        flow.until_equal(other)
        eu.create_topic(flow.remote(slow))
        flow.until_equal(slow)

        # Made again before anyone could notice: the next batch is taken, by a log that is not the one it was for.
        _delete_topic(eu, flow.remote(quick))
        eu.create_topic(flow.remote(quick))
        _write(us, quick, range(50, 60))
        running.until(lambda: running[quick].acked == 60, "copied again")
        assert running[other].counters.recoveries == 0
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


def test_a_producer_that_the_target_has_forgotten_goes_on(
    us: Cluster, guarded: Cluster, topic: str, mirror: Any
) -> None:
    flow = mirror(us, guarded, topic)
    guarded.grant("ANONYMOUS", "ALL", topic=flow.remote(topic))
    us.create_topic(topic)
    with flow.start() as running:
        for turn in range(2):
            _write(us, topic, range(turn * 50, turn * 50 + 50))
            running.until(lambda turn=turn: running[topic].acked == turn * 50 + 50, "copied")
            time.sleep(1.6)
        assert running[topic].counters.recoveries == 0
    # Somebody else's record is the last one, so the target's log says nothing of our number either.
    _write(guarded, flow.remote(topic), range(1000, 1001))
    time.sleep(1.6)
    _write(us, topic, range(100, 150))
    flow.copy()
    assert _values(guarded, flow.remote(topic)) == [*range(100), 1000, *range(100, 150)]


def test_missing_rights_stop_only_the_partitions_they_are_missing_for(
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
            running.until(lambda running=running: running[denied].error != "", "an error")
            assert "TOPIC_AUTHORIZATION_FAILED" in running[denied].error
            running.until(lambda running=running: running[free].state is State.RUNNING, "running")
            # It stays visible while it lasts, and costs no more than a look now and then.
            began, looks = time.monotonic(), running[denied].counters.recoveries
            seen = []
            while time.monotonic() - began < 3:
                seen.append(bool(running[denied].error))
                time.sleep(0.01)
            assert seen.count(False) < len(seen) * 0.2
            assert running[denied].counters.recoveries - looks < 12
            assert running[free].counters.recoveries == 0, flow
        home.until_equal(free)
        guarded.grant("ANONYMOUS", "ALL", topic=denied)
        guarded.grant("ANONYMOUS", "ALL", topic=home.remote(denied))
        home.until_equal(denied)
        for running in (leaving, arriving):
            running.until(lambda running=running: not running[denied].error, "the error gone")


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
        running.until(lambda: bool(running[alone].error), "an error")
        before = running[others].acked
        running.until(lambda: running[others].acked > before + 200, "the others go on")
        leader.start()
        with writer(trio, alone, rate=200):
            running.until(lambda: running[alone].acked > 50, "it goes on")
        running.until(lambda: not running[alone].error, "the error gone")
        flow.until_equal(alone)
    flow.until_equal(others)


def test_a_log_that_was_cut_off_by_an_unclean_election_is_told_on_either_side(
    us: Cluster, eu: Cluster, trio: Cluster, topic: str, mirror: Any
) -> None:
    """Two copies; the one that is behind becomes the leader, and what the other had is gone."""
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
        home.until_equal(topic)  # the target gets again what it lost
        # The source goes on where its log does; what it lost stays on the target.
        expected = [*range(80), *range(1000, 1040)]
        leaving.until(lambda: leaving[topic].acked == 90, "copied")
        assert _values(eu, out.remote(topic)) == expected
        assert arriving[topic].counters.foreign == 0
        trio.brokers[0].start()
    assert [(event["kind"], event["amount"]) for event in out.events(topic)] == [("truncated", 30)]
    assert [(event["kind"], event["amount"]) for event in home.events(topic)] == [("target lost", 30)]


@pytest.mark.parametrize(("isolation", "waits"), [("read_committed", True), ("read_uncommitted", False)])
def test_who_reads_what_is_not_committed_waits_for_no_transaction(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, isolation: str, waits: bool
) -> None:
    us.create_topic(topic)
    flow = mirror(us, eu, topic, us__consumer__isolation__level=isolation)
    with Wire(us.client_properties()) as wire, flow.start() as running:
        transactions = Transactions(wire, topic)
        transactions.produce(topic, 0, [Record(1, None, b"in doubt")])
        running.until(lambda: running[topic].high_watermark == 1, "seen")
        assert ("stable" in told(running[topic])) is waits
        transactions.commit()
        running.until(lambda: running[topic].acked >= 1, "copied")
