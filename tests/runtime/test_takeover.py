"""Twinlog replaces MM2 in place, while a group consumes, and the reverse."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab.cluster import Cluster
from lab.compare_logs import Tally, read, tally
from lab.kafka_classes import KafkaJvm
from lab.lab import Lab
from lab.mirrormaker import MirrorMaker, mirror_properties
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from tests.runtime.conftest import Pair

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java]

TOPIC = "handed-over"
# Several partitions of the offsets topic, to detect an entry in the wrong one.
GROUP = "billing"
SETTINGS = {
    "topics": TOPIC,
    "groups": GROUP,
    "sync.group.offsets.enabled": "true",
    "offset.storage.partitions": "5",
    "tasks.max": "2",
}


class Member:
    """A consumer that reads and commits until it leaves the group."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.read: list[bytes] = []
        self._left = False
        self._consumer = _consumer(cluster)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._work, name="member", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._left:
            some = [each for each in self._consumer.consume(500, 0.5) if not each.error()]
            self.read += [each.key() or b"" for each in some]
            if some:
                self._consumer.commit(asynchronous=False)
        self._consumer.close()

    def leave(self) -> None:
        self._left = True
        self._thread.join()


class SyncedGroup:
    """Offsets of the group on the target, which never go back."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._last = [-1] * 4

    def __call__(self) -> list[int]:
        consumer = _consumer(self._cluster)
        try:
            asked = [TopicPartition(self._topic, partition) for partition in range(4)]
            found = [max(each.offset, -1) for each in consumer.committed(asked, timeout=10)]
        finally:
            consumer.close()
        assert all(now >= before for now, before in zip(found, self._last, strict=True)), (found, self._last)
        self._last = found
        return found

    def advances(self, whose: str) -> None:
        before = self()
        until(
            lambda: all(now > then for now, then in zip(self(), before, strict=True)),
            f"{whose} should sync the group",
            seconds=90,
            logs=lambda: f"; it is at {self._last}, was at {before}",
        )

    def reaches(self, ends: list[int]) -> None:
        until(
            lambda: self() == ends, f"the group should get to {ends}", seconds=60, logs=lambda: f"; it is at {self()}"
        )


def _consumer(cluster: Cluster) -> Consumer:
    return Consumer(
        {
            **cluster.librdkafka_properties(),
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )


@pytest.fixture(scope="module")
def pair(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """New clusters."""
    west, east = lab.clusters("west", "east")
    pair = Pair(west, east, tmp_path_factory.mktemp("takeover"))
    try:
        yield pair
    finally:
        pair.close()
        for cluster in (west, east):
            lab.discard(cluster)


def test_from_mm2_and_back(lab: Lab, pair: Pair, kafka_jvm: KafkaJvm) -> None:  # noqa: PLR0915  # one story
    west, east = pair.source, pair.target
    west.create_topic(TOPIC, 4)
    feed = pair.feed(TOPIC)
    feed.flow()
    member, group = Member(west, TOPIC), SyncedGroup(east, f"west.{TOPIC}")
    mirror = lab.mirror_maker(mirror_properties([west, east], [(west, east)], SETTINGS), name="mm2-takeover")
    mirror.wait_until_running()
    moving(pair, mirror)
    group.advances("MM2")
    mirror.stop()

    # Twinlog resumes where MM2 stopped.
    file = pair.file(SETTINGS)
    twin = pair.run(file)
    twin.wait_for("west->east: relaying", 120)
    pair.wait_for_more(twin, TOPIC)
    group.advances("Twinlog")
    feed.pause()
    pair.wait_until_equal(TOPIC)
    group.reaches(pair.ends(TOPIC))
    feed.flow()
    pair.wait_for_more(twin, TOPIC)
    assert twin.terminate() == 0
    written_alike(east, west.name)
    understood_by_mm2(west, east.name, kafka_jvm)

    # MM2 resumes where Twinlog stopped, and copies nothing again.
    mirror.start()
    mirror.wait_until_running()
    moving(pair, mirror)
    group.advances("MM2, again,")
    feed.pause()
    pair.wait_until_equal(TOPIC)

    # MM2 is killed: Twinlog resumes with the first record that it has not written.
    feed.flow()
    moving(pair, mirror)
    mirror.kill()
    before = counted(pair)
    twin = pair.run(file)
    twin.wait_for("west->east: relaying", 120)
    pair.wait_for_more(twin, TOPIC)
    feed.pause()
    after = complete(pair)
    assert (after.unknown, after.moved, after.reordered) == (0, 0, 0), f"{after}\n{twin.output}"
    assert after.duplicates == before.duplicates, f"before: {before}\nafter: {after}\n{twin.output}"

    # The group fails over: on the target it reads exactly the new records.
    group.reaches(pair.ends(TOPIC))
    member.leave()
    assert sorted(map(int, member.read)) == list(range(feed.count))
    feed.flow()
    pair.wait_for_more(twin, TOPIC)
    feed.pause()
    moved = Member(east, f"west.{TOPIC}")
    until(lambda: len(moved.read) >= feed.count - len(member.read), "the group reads on", seconds=60)
    moved.leave()
    assert sorted(map(int, moved.read)) == list(range(len(member.read), feed.count))
    assert twin.terminate() == 0


@pytest.mark.slow
def test_from_an_mm2_that_duplicated_records(lab: Lab, pair: Pair) -> None:
    """A killed MM2 duplicates records when it is restarted; then it is killed again."""
    topic = "duplicated"
    pair.source.create_topic(topic, 4)
    feed = pair.feed(topic)
    feed.flow()
    settings = SETTINGS | {"topics": topic}
    properties = mirror_properties([pair.source, pair.target], [(pair.source, pair.target)], settings)
    mirror = lab.mirror_maker(properties, name="mm2-duplicates")
    mirror.wait_until_running()
    moving(pair, mirror, topic)
    mirror.kill()
    mirror.start()
    mirror.wait_until_running()
    feed.pause()
    assert complete(pair, topic).duplicates
    feed.flow()
    moving(pair, mirror, topic)
    mirror.kill()
    before = counted(pair, topic)

    twin = pair.run(pair.file(settings, "duplicates"))
    twin.wait_for("west->east: relaying", 120)
    pair.wait_for_more(twin, topic)
    feed.pause()
    after = complete(pair, topic)
    assert (after.unknown, after.moved, after.reordered) == (0, 0, 0), f"{after}\n{twin.output}"
    assert after.duplicates == before.duplicates, f"before: {before}\nafter: {after}\n{twin.output}"
    assert twin.terminate() == 0


def complete(pair: Pair, topic: str = TOPIC) -> Tally:
    """When every record of the source is on the target."""
    deadline = time.monotonic() + 60
    while (found := counted(pair, topic)).missing:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


def moving(pair: Pair, mirror: MirrorMaker, topic: str = TOPIC) -> None:
    wanted = pair.arrived(topic) + 1000
    deadline = time.monotonic() + 60
    while pair.arrived(topic) < wanted:
        assert time.monotonic() < deadline, mirror.process.log_excerpt()
        time.sleep(0.1)


def counted(pair: Pair, topic: str = TOPIC) -> Tally:
    remote = f"{pair.source.name}.{topic}"
    return tally(pair.source.client_properties(), topic, pair.target.client_properties(), remote)


def written_alike(target: Cluster, source: str) -> None:
    """MM2's and our entries have the same keys, byte by byte, and are in the same partitions: one replaces the other."""
    keys: dict[int, set[tuple[int, bytes]]] = defaultdict(set)
    offsets = defaultdict(list)
    topic = f"mm2-offsets.{source}.internal"
    with RawProtocol(target.client_properties()) as wire:
        partitions = wire.partitions(topic)
    assert len(partitions) == 5
    for partition in partitions:
        for record in read(target.client_properties(), topic, partition):
            connector, place = json.loads(record.key or b"")
            if connector == "MirrorSourceConnector" and place["topic"] == TOPIC:
                keys[place["partition"]].add((partition, record.key or b""))
                offsets[place["partition"]].append(json.loads(record.value or b"")["offset"])
    assert sorted(keys) == [0, 1, 2, 3]
    assert all(len(found) == 1 for found in keys.values()), keys
    assert all(found == sorted(found) for found in offsets.values()), "offsets never decrease"


def understood_by_mm2(source: Cluster, target: str, kafka_jvm: KafkaJvm) -> None:
    """MM2's own class reads every sync, and each is true: in this topic every record is where it was at the source."""
    java = kafka_jvm.jvm.org.apache.kafka
    records = read(source.client_properties(), f"mm2-offset-syncs.{target}.internal")
    ours = [record for record in records if record.headers]
    assert ours
    assert len(ours) < len(records)
    for record in records:
        given = java.clients.consumer.ConsumerRecord("syncs", 0, 0, record.key, record.value)
        sync = java.connect.mirror.OffsetSync.deserializeRecord(given)
        assert sync.upstreamOffset() == sync.downstreamOffset()
