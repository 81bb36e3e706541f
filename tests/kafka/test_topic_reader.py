"""Reading small topics that are re-created or truncated, and during leader elections."""

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from tests.kafka.fake_broker import FETCH, METADATA, OFFSETS, Broker, Responder
from twinlog.errors import RefusedError
from twinlog.kafka.client import Client
from twinlog.kafka.records import encode
from twinlog.kafka.topic_reader import PartitionTail, TopicReader, read_range
from twinlog.mm2.client_properties import client_of
from twinlog.model import TopicPartition

UNAVAILABLE = {
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REPLICA_NOT_AVAILABLE": 9,
    "FENCED_LEADER_EPOCH": 74,
    "OFFSET_NOT_AVAILABLE": 78,
}


@pytest.fixture
def clients() -> Iterator[Callable[[str], Client]]:
    made: list[Client] = []

    def client(servers: str) -> Client:
        made.append(Client("us", client_of("us", {"bootstrap.servers": servers}, "consumer")))
        return made[-1]

    yield client
    for each in made:
        each.close()


def values(reader: TopicReader) -> list[bytes | None]:
    return [record.value for record in reader.read()]


def write(client: Client, topic: str, *contents: bytes, partition: int = 0) -> None:
    client.append(TopicPartition(topic, partition), encode([(1, b"k", each, ()) for each in contents]))


def recreate(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions)


@pytest.mark.broker
class TestARealTopic:
    @pytest.mark.parametrize("later", [1, 3, 5], ids=["shorter", "as long", "longer"])
    def test_recreated_topic(self, us: Cluster, topic: str, clients: Any, later: int) -> None:
        us.create_topic(topic)
        client, restarts = clients(us.bootstrap()), []
        reader = TopicReader(client, topic, lambda: restarts.append(1))
        write(client, topic, b"a", b"b", b"c")
        assert values(reader) == [b"a", b"b", b"c"]
        recreate(us, topic)
        client.metadata([topic])
        expected = [b"new %d" % number for number in range(later)]
        write(client, topic, *expected)
        assert values(reader) == expected
        assert restarts == [1]
        write(client, topic, b"and on")
        assert values(reader) == [b"and on"]
        assert restarts == [1]

    def test_topic_read_while_it_does_not_exist(self, us: Cluster, topic: str, clients: Any) -> None:
        us.create_topic(topic)
        client, restarts = clients(us.bootstrap()), []
        reader = TopicReader(client, topic, lambda: restarts.append(1))
        assert values(reader) == []
        write(client, topic, b"a", b"b")
        assert values(reader) == [b"a", b"b"]
        us.delete_topic(topic)
        assert values(reader) == values(reader) == []
        us.create_topic(topic)
        client.metadata([topic])
        write(client, topic, b"c")
        assert values(reader) == [b"c"]
        assert restarts == [1]

    def test_records_deleted_before_they_were_read(self, us: Cluster, topic: str, clients: Any) -> None:
        from kafka import TopicPartition as KafkaPlace  # noqa: PLC0415

        us.create_topic(topic, 2)
        client, restarts = clients(us.bootstrap()), []
        reader = TopicReader(client, topic, lambda: restarts.append(1))
        write(client, topic, b"a", partition=0)
        write(client, topic, b"x", partition=1)
        assert values(reader) == [b"a", b"x"]
        for content in (b"b", b"c"):
            write(client, topic, content, partition=0)
        with us.admin() as admin:
            admin.delete_records({KafkaPlace(topic, 0): 1})  # read already: nothing is missing
        assert values(reader) == [b"b", b"c"]
        assert not restarts
        for content in (b"d", b"e"):
            write(client, topic, content, partition=0)
        with us.admin() as admin:
            admin.delete_records({KafkaPlace(topic, 0): 4})
        assert values(reader) == [b"e", b"x"]
        assert restarts == [1]


def _offsets(*results: tuple[int, int]) -> Responder:
    """(error code, offset), one after the other; the last one repeatedly."""
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    turn = itertools.chain(results, itertools.repeat(results[-1]))

    def respond(version: int) -> Any:
        code, offset = next(turn)
        part = kind.ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, timestamp=-1, offset=offset, leader_epoch=0
        )
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=[kind(name="t", partitions=[part])])

    return respond


def _fetched(*results: tuple[int, bytes]) -> Responder:
    kind = FetchResponse.FetchableTopicResponse
    turn = itertools.chain(results, itertools.repeat(results[-1]))

    def respond(version: int) -> Any:
        code, records = next(turn)
        part = kind.PartitionData(
            partition_index=0, error_code=code, high_watermark=9, last_stable_offset=9, log_start_offset=0,
            aborted_transactions=None, preferred_read_replica=-1, records=records,
        )  # fmt: skip
        topic = kind(topic="t", partitions=[part])
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])

    return respond


def _log(base: int, count: int) -> bytes:
    made = batches.encode([Record(0, b"k", b"%d" % (base + each)) for each in range(count)])
    return base.to_bytes(8) + made[8:]


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker({})
    yield made
    made.close()


class TestABrokerThatIsToldWhatToSay:
    def test_truncated_topic(self, broker: Broker, clients: Any) -> None:
        """As after an unclean election: what was read is there no longer, and other records are in its place."""
        restarts: list[int] = []
        reader = TopicReader(clients(f"127.0.0.1:{broker.port}"), "t", lambda: restarts.append(1))
        broker.responders |= {OFFSETS: _offsets((0, 0), (0, 5)), FETCH: _fetched((0, _log(0, 5)))}
        assert len(values(reader)) == 5
        broker.responders |= {OFFSETS: _offsets((0, 0), (0, 3)), FETCH: _fetched((0, _log(0, 3)))}
        assert values(reader) == [b"0", b"1", b"2"]
        assert restarts == [1]

    @pytest.mark.parametrize("code", UNAVAILABLE.values(), ids=UNAVAILABLE)
    def test_election_while_offsets_are_listed(self, broker: Broker, clients: Any, code: int) -> None:
        broker.responders |= {OFFSETS: _offsets((0, 0), (code, -1), (0, 0), (0, 5)), FETCH: _fetched((0, _log(0, 5)))}
        assert len(values(TopicReader(clients(f"127.0.0.1:{broker.port}"), "t"))) == 5

    @pytest.mark.parametrize("code", UNAVAILABLE.values(), ids=UNAVAILABLE)
    def test_an_election_between_two_fetches(self, broker: Broker, clients: Any, code: int) -> None:
        """No record is returned twice, and metadata is refreshed."""
        broker.responders |= {
            OFFSETS: _offsets(*[(0, 0), (0, 10)] * 10),
            FETCH: _fetched((0, _log(0, 5)), (code, b""), (0, _log(5, 5))),
        }
        assert values(TopicReader(clients(f"127.0.0.1:{broker.port}"), "t")) == [b"%d" % each for each in range(10)]
        assert broker.requests.count(METADATA) >= 2

    def test_missing_leader_is_an_error_after_the_timeout(self, broker: Broker, clients: Any) -> None:
        client = clients(f"127.0.0.1:{broker.port}")
        client.timeout = 0.5
        broker.responders |= {OFFSETS: _offsets((6, -1))}
        with pytest.raises(RefusedError, match="NOT_LEADER"):
            values(TopicReader(client, "t"))

    def test_other_errors_are_raised_at_once(self, broker: Broker, clients: Any) -> None:
        broker.responders |= {OFFSETS: _offsets((29, -1))}
        with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
            values(TopicReader(clients(f"127.0.0.1:{broker.port}"), "t"))
        assert broker.requests.count(METADATA) == 1


class FakePartition:
    """A client of one partition: batches of three records from offset 10 on, or an error code."""

    alias, timeout = "us", 1.0

    def __init__(self, start: int, end: int, at_once: int = 2) -> None:
        self.start, self.end, self.at_once = start, end, at_once
        self.code = 0
        self.waits: list[int] = []

    def read(self, tp: TopicPartition, offset: int, *, max_bytes: int, wait_ms: int = 0) -> Any:
        assert (tp, max_bytes) == (TopicPartition("t", 0), 1 << 20)
        self.waits.append(wait_ms)
        code = self.code or (0 if self.start <= offset <= self.end else 1)
        first = range(self.start, self.end, 3)
        log = [
            base.to_bytes(8, "big") + batches.encode([Record(1, b"k", b"v") for _ in range(3)])[8:]
            for base in first
            if base + 3 > offset
        ]
        return SimpleNamespace(error_code=code, records=None if code else b"".join(log[: self.at_once]))


class TestRange:
    def test_starts_and_ends_within_batches(self) -> None:
        found = read_range(cast("Any", FakePartition(10, 40)), TopicPartition("t", 0), 14, 32)
        assert [record.offset for record in found] == [*range(14, 32)]

    def test_errors_name_the_partition(self) -> None:
        with pytest.raises(RefusedError, match="cluster us: t-0: OFFSET_OUT_OF_RANGE"):
            list(read_range(cast("Any", FakePartition(10, 40)), TopicPartition("t", 0), 5, 32))


class TestTail:
    def test_continues_where_it_ended(self) -> None:
        partition = FakePartition(10, 22)
        tail = PartitionTail(cast("Any", partition), TopicPartition("t", 0), 11)
        found = [[record.offset for record in tail.poll(50)] for _ in range(3)]
        assert found == [[*range(11, 16)], [*range(16, 22)], []]
        assert (tail.position, partition.waits) == (22, [50] * 3)

    def test_offset_out_of_range_resets_the_position(self) -> None:
        tail = PartitionTail(cast("Any", FakePartition(10, 22)), TopicPartition("t", 0), 5)
        assert (tail.poll(0), tail.position) == ([], None)

    def test_other_errors_keep_it(self) -> None:
        partition = FakePartition(10, 22)
        partition.code = 6
        tail = PartitionTail(cast("Any", partition), TopicPartition("t", 0), 11)
        with pytest.raises(RefusedError, match="cluster us: t-0: "):
            tail.poll(0)
        assert tail.position == 11
