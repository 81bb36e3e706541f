"""End offsets of a topic's partitions, fetched over one connection."""

from types import TracebackType
from typing import Self

from kafka import KafkaConsumer, TopicPartition

from lab.cluster import Cluster


class EndOffsets:
    def __init__(self, cluster: Cluster) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap().split(","), metadata_max_age_ms=500)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._consumer.close()

    def total(self, topic: str) -> int:
        return sum(self.each(topic))

    def each(self, topic: str) -> list[int]:
        """In partition order; empty if the topic does not exist (yet)."""
        partitions = [TopicPartition(topic, index) for index in self._consumer.partitions_for_topic(topic) or ()]
        ends = self._consumer.end_offsets(partitions) if partitions else {}
        return [int(ends[tp]) for tp in sorted(ends, key=lambda tp: tp.partition)]
