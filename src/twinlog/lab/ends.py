"""Where the partitions of a topic end: how many records each has been given. Asked over one open connection."""

from types import TracebackType
from typing import Self

from kafka import KafkaConsumer, TopicPartition

from twinlog.lab.cluster import Cluster


class Ends:
    def __init__(self, cluster: Cluster) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap().split(","), metadata_max_age_ms=500)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._consumer.close()

    def total(self, topic: str) -> int:
        return sum(self.each(topic))

    def each(self, topic: str) -> list[int]:
        """By partition; none where the topic is not there (yet)."""
        partitions = [TopicPartition(topic, index) for index in self._consumer.partitions_for_topic(topic) or ()]
        ends = self._consumer.end_offsets(partitions) if partitions else {}
        return [int(ends[place]) for place in sorted(ends, key=lambda place: place.partition)]
