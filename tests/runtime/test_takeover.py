"""MM2 is replaced by Twinlog, in place and while records flow, and the reverse."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator

import pytest
from tests.runtime.conftest import Pair

from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import Tally, read, tally
from twinlog.lab.jvm import KafkaJvm
from twinlog.lab.lab import Lab
from twinlog.lab.peer import MirrorMaker, mirror_properties
from twinlog.lab.wire import Wire

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java]

TOPIC = "handed-over"
# Of offsets.storage there must be several partitions, or nobody would see that an entry is in the wrong one.
SETTINGS = {"topics": TOPIC, "offset.storage.partitions": "5", "tasks.max": "2"}


@pytest.fixture(scope="module")
def pair(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Clusters without a past."""
    west, east = lab.clusters("west", "east")
    pair = Pair(west, east, tmp_path_factory.mktemp("takeover"))
    try:
        yield pair
    finally:
        pair.close()
        for cluster in (west, east):
            lab.discard(cluster)


def test_from_mm2_and_back(lab: Lab, pair: Pair, kafka_jvm: KafkaJvm) -> None:
    west, east = pair.source, pair.target
    west.create_topic(TOPIC, 4)
    feed = pair.feed(TOPIC)
    feed.flow()
    mirror = lab.mirror_maker(mirror_properties([west, east], [(west, east)], SETTINGS), name="mm2-takeover")
    mirror.wait_until_running()
    moving(pair, mirror)
    mirror.stop()

    # Twinlog goes on where MM2 stopped.
    file = pair.file(SETTINGS)
    twin = pair.run(file)
    twin.wait_for("west->east: relaying", 120)
    pair.wait_for_more(twin, TOPIC)
    feed.pause()
    pair.wait_until_equal(TOPIC)
    feed.flow()
    pair.wait_for_more(twin, TOPIC)
    assert twin.terminate() == 0
    written_alike(east, west.name)
    understood_by_mm2(west, east.name, kafka_jvm)

    # MM2 goes on where Twinlog stopped, and copies nothing again.
    mirror.start()
    mirror.wait_until_running()
    moving(pair, mirror)
    feed.pause()
    pair.wait_until_equal(TOPIC)

    # MM2 is killed, and doubles what it had not noted; when it is through with that it is killed again. Now what it
    # doubled stays, and no more comes to it.
    feed.flow()
    moving(pair, mirror)
    mirror.kill()
    mirror.start()
    mirror.wait_until_running()
    feed.pause()
    assert complete(pair).duplicates
    feed.flow()
    moving(pair, mirror)
    mirror.kill()
    before = counted(pair)
    twin = pair.run(file)
    twin.wait_for("west->east: relaying", 120)
    pair.wait_for_more(twin, TOPIC)
    feed.pause()
    after = complete(pair)
    assert twin.terminate() == 0
    assert (after.unknown, after.moved, after.reordered) == (0, 0, 0), f"{after}\n{twin.said}"
    assert after.duplicates == before.duplicates, f"before: {before}\nafter: {after}\n{twin.said}"


def complete(pair: Pair) -> Tally:
    """Once every record of the source is there."""
    deadline = time.monotonic() + 60
    while (found := counted(pair)).missing:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    return found


def moving(pair: Pair, mirror: MirrorMaker) -> None:
    wanted = pair.arrived(TOPIC) + 1000
    deadline = time.monotonic() + 60
    while pair.arrived(TOPIC) < wanted:
        assert time.monotonic() < deadline, mirror.process.quote()
        time.sleep(0.1)


def counted(pair: Pair) -> Tally:
    return tally(pair.source.client_properties(), TOPIC, pair.target.client_properties(), f"{pair.source.name}.{TOPIC}")


def written_alike(target: Cluster, source: str) -> None:
    """MM2's and our entries have the same keys, byte by byte, and are in the same partitions: one replaces the other."""
    keys: dict[int, set[tuple[int, bytes]]] = defaultdict(set)
    offsets = defaultdict(list)
    topic = f"mm2-offsets.{source}.internal"
    with Wire(target.client_properties()) as wire:
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
    assert all(found == sorted(found) for found in offsets.values()), "nobody went back"


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
