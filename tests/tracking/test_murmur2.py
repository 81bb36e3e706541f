"""Kafka's murmur2: the check values of appendix C, then Kafka's own method."""

import random

import pytest

from twinlog.lab.jvm import KafkaJvm
from twinlog.tracking.murmur2 import murmur2, partition_for


@pytest.mark.parametrize(("text", "expected"), [("21", -973932308), ("foobar", -790332482), ("abc", 479470107)])
def test_check_values(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected


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
    assert murmur2(key.encode()) == expected
    assert partition_for(key.encode(), 25) == partition


@pytest.mark.java
def test_it_is_kafkas(kafka_jvm: KafkaJvm) -> None:
    rng = random.Random(1)
    utils = kafka_jvm.jvm.org.apache.kafka.common.utils.Utils
    for length in range(100):
        data = rng.randbytes(length)
        assert murmur2(data) == utils.murmur2(data)
        assert partition_for(data, 7) == utils.toPositive(murmur2(data)) % 7
