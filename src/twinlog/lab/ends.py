"""How many records a topic has been given: the sum of its partitions' end offsets, asked over one open connection."""

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
        """0 where the topic is not there (yet)."""
        partitions = self._consumer.partitions_for_topic(topic)
        if not partitions:
            return 0
        ends = self._consumer.end_offsets([TopicPartition(topic, partition) for partition in partitions])
        return int(sum(ends.values()))
