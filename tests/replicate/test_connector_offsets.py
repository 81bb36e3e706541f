"""A connector with `offsets.storage.topic`: it takes precedence for MM2, so Twinlog must write its offsets there."""

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.raw_protocol import RawProtocol
from tests.replicate.conftest import MakeMirror, Mirror
from twinlog.kafka.records import encode
from twinlog.kafka.topic_reader import TopicReader
from twinlog.kafka.topic_writer import partition_for
from twinlog.mm2 import source_offsets
from twinlog.mm2.source_offsets import SourceOffset
from twinlog.model import TopicPartition
from twinlog.replicate.position_reader import PositionReader
from twinlog.replicate.task_spec import TaskSpec

pytestmark = pytest.mark.broker


def _offsets(mirror: Mirror, storage: str, topic: str) -> dict[int, int | None]:
    """By source partition: the last offset that MM2 would read."""
    client = TaskSpec(mirror.config.flow, mirror.config, (), ()).client("target")
    try:
        count = len(client.metadata([storage]).topics[storage].leaders)
        found: dict[int, int | None] = {}
        for record in TopicReader(client, storage).read():
            entry = source_offsets.parse(record.key, record.value)
            if isinstance(entry, SourceOffset) and entry.topic == topic and entry.connector == "MirrorSourceConnector":
                assert record.key is not None
                assert partition_for(record.key, count) < count
                found[entry.partition] = entry.offset
        return found
    finally:
        client.close()


def test_both_topics_are_written(us: Cluster, eu: Cluster, topic: str, mirror: MakeMirror) -> None:
    us.create_topic(topic, partitions=2)
    own = f"{topic}-own-offsets"
    flow = mirror(us, eu, topic, **{"us->eu.offsets.storage.topic": own})
    with RawProtocol(us.client_properties()) as wire:
        wire.produce(topic, 0, batches.encode([Record(0, b"k", b"v")] * 3))
        wire.produce(topic, 1, batches.encode([Record(0, b"k", b"v")]))
    flow.copy()
    expected = {0: 2, 1: 0}
    worker = source_offsets.offsets_topic(flow.config).name
    assert _offsets(flow, worker, topic) == expected
    assert _offsets(flow, own, topic) == expected


def test_the_connectors_topic_counts(us: Cluster, eu: Cluster, topic: str, mirror: MakeMirror) -> None:
    """As Connect reads them: an offset in the connector's own topic takes precedence over one in the worker's."""
    us.create_topic(topic, partitions=2)
    own = f"{topic}-own-offsets"
    flow = mirror(us, eu, topic, **{"us->eu.offsets.storage.topic": own})
    flow.job()  # creates both topics
    worker = source_offsets.offsets_topic(flow.config).name
    job = TaskSpec(flow.config.flow, flow.config, (), ())
    source, target = job.client("source"), job.client("target")
    try:

        def write(storage: str, partition: int, offset: int | None) -> None:
            key = source_offsets.key("MirrorSourceConnector", "us", topic, partition)
            value = None if offset is None else source_offsets.value(offset)
            count = len(target.metadata([storage]).topics[storage].leaders)  # another test may have created it
            tp = TopicPartition(storage, partition_for(key, count))
            target.append(tp, encode([(1, key, value, ())]))

        def read() -> dict[int, int]:
            known = PositionReader(flow.config, source, target)
            known.read()
            return {tp.partition: position for tp, position in known.mm2_positions.items() if tp.topic == topic}

        write(worker, 0, 5)
        write(worker, 1, 6)
        write(own, 0, 9)
        assert read() == {0: 10, 1: 7}
        write(own, 0, None)
        assert read() == {0: 6, 1: 7}
    finally:
        source.close()
        target.close()
