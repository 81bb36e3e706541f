"""Retries of the topic writer, and Kafka's default partitioner: known hashes, then Kafka's own method."""

import itertools
import random
from typing import Any, cast

import pytest
from kafka.partitioner.default import murmur2

from lab.kafka_classes import KafkaJvm
from twinlog.errors import ConfigError, KafkaError, UnreachableError
from twinlog.kafka.client import Client
from twinlog.kafka.records import decode
from twinlog.kafka.topic_writer import append, partition_for, write
from twinlog.model import TopicPartition

TP = TopicPartition("t", 0)


class FailingClient:
    """Raises the given errors, then stores what is appended."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = 0
        self.batches: list[bytes] = []

    def append(self, tp: TopicPartition, batch: bytes) -> int:
        assert tp == TP
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.batches.append(bytes(batch))
        return len(self.batches) - 1

    @property
    def client(self) -> Client:
        return cast("Any", self)  # type: ignore[no-any-return]


def failures(count: int) -> list[KafkaError]:
    return [UnreachableError(f"attempt {number}") for number in range(1, count + 1)]


class TestRetries:
    def test_until_it_succeeds(self) -> None:
        cluster = FailingClient(*failures(2))
        assert append(cluster.client, TP, b"batch", pauses=(0, 0, 0)) == 0
        assert (cluster.attempts, cluster.batches) == (3, [b"batch"])

    def test_the_last_error_is_raised(self) -> None:
        cluster = FailingClient(*failures(3))
        with pytest.raises(UnreachableError, match="attempt 3"):
            append(cluster.client, TP, b"batch", pauses=(0, 0))

    def test_not_after_the_deadline(self) -> None:
        cluster = FailingClient(*failures(100))
        with pytest.raises(UnreachableError):
            append(cluster.client, TP, b"batch", itertools.repeat(0.02), seconds=0.05)
        assert 2 <= cluster.attempts < 10

    def test_a_keystore_that_is_being_replaced_is_read_again(self) -> None:
        cluster = FailingClient(ConfigError("no such file"))
        append(cluster.client, TP, b"batch", pauses=(0, 0))
        assert cluster.attempts == 2


def test_many_records_are_written_in_several_batches() -> None:
    cluster = FailingClient()
    entries = [(1, b"key-%d" % number, bytes(100_000)) for number in range(7)]
    write(cluster.client, TP, entries)
    keys = [record.key for batch in cluster.batches for record in decode(memoryview(batch))]
    assert keys == [entry[1] for entry in entries]
    assert [len(decode(memoryview(batch))) for batch in cluster.batches] == [3, 3, 1]


@pytest.mark.parametrize(("text", "expected"), [("21", -973932308), ("foobar", -790332482), ("abc", 479470107)])
def test_known_hashes(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "expected", "partition"),
    [
        ('["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]', -2079807616, 7),
        ('["MirrorSourceConnector",{"cluster":"A","partition":1,"topic":"t"}]', -1881024472, 1),
        ('["A->B.MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]', 1320381468, 18),
        ('["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]', -449127652, 21),
        ('["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', 1162868500, 0),
    ],
)
def test_keys_of_connect_among_25_partitions(key: str, expected: int, partition: int) -> None:
    assert murmur2(key.encode()) == expected & 0xFFFFFFFF
    assert partition_for(key.encode(), 25) == partition


@pytest.mark.java
def test_against_kafkas_partitioner(kafka_jvm: KafkaJvm) -> None:
    rng = random.Random(1)
    utils = kafka_jvm.jvm.org.apache.kafka.common.utils.Utils
    for length in range(100):
        data = rng.randbytes(length)
        assert murmur2(data) == utils.murmur2(data) & 0xFFFFFFFF
        assert partition_for(data, 7) == utils.toPositive(utils.murmur2(data)) % 7
