"""A source that returns damaged records for some partitions: those stop, or wait, with a reason."""

import struct
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from lab.cluster import Cluster
from lab.compare_logs import read
from tests.kafka.fake_broker import FETCH, METADATA, OFFSETS, Broker
from tests.replicate.conftest import Running
from tests.replicate.test_convert_damaged_batches import _batch, _bomb
from twinlog.config import load
from twinlog.journal.messages import PARTITIONS, journal_topic
from twinlog.model import TopicPartition
from twinlog.replicate.partition import State
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec

pytestmark = pytest.mark.broker

END = 1000  # reported log end of each partition
GOOD = [_batch(5 * each) for each in range(END // 5)]
DAMAGED = {
    "no-length": [_batch(0), _batch(5, length=0)],
    "far": [_batch((1 << 63) - 3)],
    "back": [_batch(0, delta=-9)],
    "huge": [_batch(0, length=(1 << 31) - 1)],
    "magic": [_batch(0, magic=9)],
    "checksum": [_batch(0)[:70] + b"\xff\xff" + _batch(0)[72:]],
    "negative": [_batch(0, count=-4, delta=-5)],
    "records": [_batch(0, count=1 << 30, delta=9)],
    "nonsense": [b"\xff" * 300],
}
TRUNCATED = {
    "cut-off": [_batch(0)[:-1]],  # the next response might have all of it
    "large": [_batch(0, length=200 << 20)],
}
WAITING: dict[str, list[bytes]] = {
    "nothing": [],
    "error": [],  # always an unknown error code
}
BOMBS = [struct.pack(">q", 101 * each) + _bomb(0, 100, 100_000)[8:] for each in range(9)]
LOGS = {"good": GOOD, "elsewhere": GOOD, "bombs": BOMBS, **DAMAGED, **TRUNCATED, **WAITING}


class Source(Broker):
    """One broker with a topic for each log, and without fetch sessions, so every request names all partitions."""

    def __init__(self, topics: dict[str, list[bytes]]) -> None:
        self.topics = topics
        self.ids = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in topics}
        self.fetched = dict.fromkeys(topics, 0)
        super().__init__({})
        self.handlers |= {METADATA: self._metadata, OFFSETS: self._offsets, FETCH: self._fetch}

    def _metadata(self, version: int, request: bytes) -> Any:
        asked = MetadataRequest.decode(request, version=version, header=True).topics
        names = list(self.topics) if asked is None else [each.name for each in asked]
        kind = MetadataResponse.MetadataResponseTopic
        part = kind.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1],
            offline_replicas=[],
        )  # fmt: skip
        topics = [
            kind(
                error_code=0 if name in self.topics else 3, name=name, topic_id=self.ids.get(name), is_internal=False,
                partitions=[part] if name in self.topics else [],
            )
            for name in names
        ]  # fmt: skip
        return self.metadata(topics=topics)(version)

    def _offsets(self, version: int, request: bytes) -> Any:
        asked = ListOffsetsRequest.decode(request, version=version, header=True).topics
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in asked:
            offset = 0 if topic.partitions[0].timestamp == -2 else END
            part = kind.ListOffsetsPartitionResponse(
                partition_index=0, error_code=0, timestamp=-1, offset=offset, leader_epoch=0
            )
            topics.append(kind(name=topic.name, partitions=[part]))
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics)

    def _fetch(self, version: int, request: bytes) -> Any:
        kind = FetchResponse.FetchableTopicResponse
        topics = []
        for topic in FetchRequest.decode(request, version=version, header=True).topics:
            self.fetched[topic.topic] += 1
            (asked,) = topic.partitions
            records = self.read(topic.topic, asked.fetch_offset)
            part = kind.PartitionData(
                partition_index=0, error_code=-1 if topic.topic == "error" else 0, high_watermark=END,
                last_stable_offset=END, log_start_offset=0, aborted_transactions=None,
                preferred_read_replica=77 if topic.topic == "elsewhere" else -1, records=records,
            )  # fmt: skip
            topics.append(kind(topic=topic.topic, partitions=[part]))
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def read(self, topic: str, offset: int) -> bytes:
        """From the batch with the offset on."""
        step = 101 if topic == "bombs" else 5
        return b"".join(self.topics[topic][max(offset, 0) // step :][:20])


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source(LOGS)
    yield made
    made.close()


def _job(folder: Path, source: Source, target: Cluster, prefix: str) -> TaskSpec:
    file = folder / "mm2.properties"
    file.write_text(
        f"clusters = {prefix}, eu\n{prefix}.bootstrap.servers = 127.0.0.1:{source.port}\n"
        f"eu.bootstrap.servers = {target.bootstrap()}\n{prefix}->eu.enabled = true\n"
        "offset-syncs.topic.location = target\n"
    )
    config = next(flow for flow in load([file]).flows if flow.replicates)
    remotes = {name: f"{prefix}.{name}" for name in source.topics}
    for remote in remotes.values():
        target.create_topic(remote, configs={"retention.ms": "-1"})
    target.create_topic(journal_topic(prefix), PARTITIONS)
    target.create_topic(f"mm2-offsets.{prefix}.internal", 3)
    target.create_topic(f"mm2-offset-syncs.{prefix}.internal")
    job = TaskSpec(config.flow, config, (), (), offsets_partitions=3)
    client = job.client("target")
    producer = client.init_producer()
    client.close()
    assignments = tuple(
        PartitionAssignment(TopicPartition(name, 0), TopicPartition(remote, 0), source.ids[name])
        for name, remote in remotes.items()
    )
    return TaskSpec(config.flow, config, assignments, (producer,), offsets_partitions=3)


def test_damaged_partitions_stop_and_the_others_are_copied(source: Source, eu: Cluster, tmp_path: Path) -> None:
    prefix = "broken-source"
    with Running(_job(tmp_path, source, eu, prefix)) as running:
        running.until(lambda: running["good"].target.acked_position == END, "the good one", seconds=60)
        running.until(
            lambda: running["elsewhere"].target.acked_position == END, "the one with an unknown follower", seconds=60
        )
        running.until(lambda: running["bombs"].target.acked_position == 909, "the compressed ones", seconds=60)
        running.until(
            lambda: all(running[name].state is State.STOPPED for name in DAMAGED), "the damaged ones", seconds=90
        )
        for name in DAMAGED:
            assert "source log damaged" in running[name].report.error, name
            assert running[name].target.acked_position == (5 if name == "no-length" else 0), name
        running.until(
            lambda: all(running[name].state is State.STOPPED for name in TRUNCATED), "the truncated ones", seconds=90
        )
        assert all("truncated batch" in running[name].report.error for name in TRUNCATED)
        assert all(running[name].target.acked_position == 0 for name in WAITING)
        assert "UNKNOWN_SERVER_ERROR (-1)" in running["error"].report.error
        before = source.requests.count(FETCH)
        time.sleep(2)
        assert source.requests.count(FETCH) - before < 200  # no busy loop
        assert running["good"].report.counters.recoveries == 0
    keys = [int(record.key or b"") for record in read(eu.client_properties(), f"{prefix}.good")]
    assert keys == [each % 5 for each in range(END)]
    assert [record.key for record in read(eu.client_properties(), f"{prefix}.no-length")] == [
        b"%d" % n for n in range(5)
    ]
    assert not list(read(eu.client_properties(), f"{prefix}.negative"))
