"""Failover queries during leader elections."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from lab.broker import ClusterSpec
from lab.lab import Lab
from tests.failover.conftest import checkpoint, heartbeat, write
from tests.kafka.fake_broker import FETCH, METADATA, OFFSETS, Broker, Responder
from twinlog.failover import MirrorClient, OffsetAndMetadata
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition

CHECKPOINTS, HEARTBEATS = "us.checkpoints.internal", "us.heartbeats"
ELECTION = {
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "OFFSET_NOT_AVAILABLE": 78,
}
RECORDS = {
    CHECKPOINTS: bytes(encode([(1, *checkpoint("app", "us.orders", 0, 30, 20), ())])),
    HEARTBEATS: bytes(encode([(1, *heartbeat("eu", "us", 77), ())])),
}


class Electing(Broker):
    """Has a record in each of two topics. The first answers about a partition are `codes`."""

    def __init__(self, offsets: list[int], fetches: list[int], metadata: list[int]) -> None:
        super().__init__({})
        self._offsets, self._fetches = [itertools.chain(some, itertools.repeat(0)) for some in (offsets, fetches)]
        self._metadata = itertools.chain(metadata, itertools.repeat(0))
        self.handlers = {OFFSETS: self._answer_offsets, FETCH: self._answer_fetch}
        self.responders[METADATA] = self._topics()

    def _topics(self) -> Responder:
        kind = MetadataResponse.MetadataResponseTopic

        def say(version: int) -> Any:
            code = next(self._metadata)
            part = kind.MetadataResponsePartition(
                error_code=code, partition_index=0, leader_id=-1 if code else 1, leader_epoch=0, replica_nodes=[1],
                isr_nodes=[1], offline_replicas=[],
            )  # fmt: skip
            topics = [
                kind(error_code=0, name=name, topic_id=None, is_internal=False, partitions=[part]) for name in RECORDS
            ]
            return self.metadata(topics=topics)(version)

        return say

    def _answer_offsets(self, version: int, request: bytes) -> Any:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        code = next(self._offsets)
        latest = b"\xff" * 12 in request  # the epoch -1, then the time -1: -2 is the beginning
        part = kind.ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, timestamp=-1, offset=-1 if code else int(latest), leader_epoch=0
        )
        return ListOffsetsResponse(
            version=version, throttle_time_ms=0, topics=[kind(name=_topic(request), partitions=[part])]
        )

    def _answer_fetch(self, version: int, request: bytes) -> Any:
        kind = FetchResponse.FetchableTopicResponse
        code, name = next(self._fetches), _topic(request)
        part = kind.PartitionData(
            partition_index=0, error_code=code, high_watermark=1, last_stable_offset=1, log_start_offset=0,
            aborted_transactions=None, preferred_read_replica=-1, records=b"" if code else RECORDS[name],
        )  # fmt: skip
        topic = kind(topic=name, partitions=[part])
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])


def _topic(request: bytes) -> str:
    return next(name for name in RECORDS if name.encode() in request)


@pytest.fixture(params=["offsets", "fetch", "metadata"])
def electing(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Electing] = []

    def start(code: int) -> Electing:
        first = {"offsets": ([code] * 3, [], []), "fetch": ([], [code] * 2, []), "metadata": ([], [], [5] * 2)}
        made.append(Electing(*first[request.param]))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.mark.parametrize("code", ELECTION.values(), ids=ELECTION)
class TestAnElection:
    def test_offsets_are_translated(self, electing: Any, code: int) -> None:
        broker = electing(code)
        with MirrorClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"}) as client:
            found = client.remote_consumer_offsets("app", "us")
        assert found == {TopicPartition("us.orders", 0): OffsetAndMetadata(20, "")}

    def test_the_newest_heartbeat_is_found(self, electing: Any, code: int) -> None:
        broker = electing(code)
        with MirrorClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"}) as client:
            (found,) = client.upstreams()
        assert (found.alias, found.heartbeat_ms) == ("us", 77)


@pytest.mark.broker
def test_a_client_that_is_kept_outlives_the_broker_it_talked_to() -> None:
    with Lab() as lab:
        (cluster,) = lab.clusters(ClusterSpec(name="electing", brokers=3))
        for name in (CHECKPOINTS, HEARTBEATS):
            cluster.create_topic(name, 1, replication_factor=3)
        write(cluster.bootstrap(), CHECKPOINTS, checkpoint("app", "us.orders", 0, 30, 20))
        write(cluster.bootstrap(), HEARTBEATS, heartbeat("eu", "us", 77))
        with MirrorClient({"bootstrap.servers": cluster.bootstrap()}) as client:
            for _ in range(2):
                (found,) = client.upstreams()
                assert found.heartbeat_ms == 77
                assert client.remote_consumer_offsets("app", "us")
                leader = cluster.leader(CHECKPOINTS, 0)
                cluster.brokers[leader].kill()
                try:
                    assert client.remote_consumer_offsets("app", "us")
                    (found,) = client.upstreams()
                    assert found.heartbeat_ms == 77
                finally:
                    cluster.brokers[leader].start()
                    cluster.prepare()
