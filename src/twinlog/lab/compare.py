"""Proves that two logs are equal, record by record: key, value, headers, timestamp, order, partition.

Counting proves nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from twinlog.errors import LabError


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two partitions differ; None stands for a record that is not there."""

    partition: int
    position: int  # how many records from the partition's start
    left: Any
    right: Any

    def __str__(self) -> str:
        where = f"partition {self.partition}, record {self.position}"
        if self.left is None or self.right is None:
            return f"{where}: only on the {'right' if self.left is None else 'left'}: {self.right or self.left}"
        return f"{where}: {self.left} on the left, {self.right} on the right"


@dataclass(frozen=True, slots=True)
class Comparison:
    records: int  # equal ones
    differences: tuple[Difference, ...]


def compare(left: Mapping[str, str], left_topic: str, right: Mapping[str, str], right_topic: str) -> Comparison:
    """`left` and `right` are a client's properties of either cluster, as `Cluster.client_properties` gives them."""
    equal = 0
    differences = []
    with _consumer(left) as ours, _consumer(right) as theirs:
        partitions = sorted(
            (ours.partitions_for_topic(left_topic) or set()) | (theirs.partitions_for_topic(right_topic) or set())
        )
        if not partitions:
            raise LabError(f"neither {left_topic} nor {right_topic} is there")
        for partition in partitions:
            pairs = zip_longest(_records(ours, left_topic, partition), _records(theirs, right_topic, partition))
            for position, (a, b) in enumerate(pairs):
                if a != b:
                    differences.append(Difference(partition, position, a, b))
                    break
                equal += 1
    return Comparison(equal, tuple(differences))


def _consumer(properties: Mapping[str, str]) -> Any:
    if properties.get("security.protocol", "PLAINTEXT") != "PLAINTEXT":
        raise LabError("logs are compared through a plaintext listener: give the cluster one")
    return KafkaConsumer(
        bootstrap_servers=properties["bootstrap.servers"].split(","),
        enable_auto_commit=False,
        isolation_level="read_committed",
    )


def _records(consumer: Any, topic: str, partition: int) -> Iterator[tuple[Any, ...]]:
    place = TopicPartition(topic, partition)
    if partition not in (consumer.partitions_for_topic(topic) or set()):
        return
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    while consumer.position(place) < end:
        for batch in consumer.poll(timeout_ms=1000).values():
            for record in batch:
                yield record.timestamp, record.key, record.value, tuple(record.headers)
