"""Whether every partition makes progress again: new records on the target, soon after the source has new ones."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, admin
from confluent_kafka import TopicPartition as Name

from lab.cluster import Cluster
from soak.plan import SOURCE
from soak.traffic import SILENT, TopicPartition

SECONDS = 60.0
_REQUEST_SECONDS = 10.0
_ANY: Any = admin  # it does not declare what it exports


def remote(tp: TopicPartition) -> TopicPartition:
    return f"{SOURCE}.{tp[0]}", tp[1]


class Ends:
    """End offsets by librdkafka; without those that are unknown at the moment."""

    def __init__(self, cluster: Cluster) -> None:
        config: dict[str, Any] = {
            **cluster.librdkafka_properties(),
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,
            "topic.metadata.refresh.interval.ms": 1000,
            "logger": SILENT,
        }
        self._admin: Any = admin.AdminClient(config)
        self._latest: Any = _ANY.OffsetSpec.latest()

    def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = {Name(*tp): self._latest for tp in partitions}
        found = {}
        for name, future in self._admin.list_offsets(wanted, request_timeout=_REQUEST_SECONDS).items():
            try:
                found[name.topic, name.partition] = int(future.result().offset)
            except KafkaException:
                continue
        return found


@dataclass(slots=True)
class Recovery:
    """Since the end of a fault. Pure: it is fed with what is seen, and the time."""

    began: float
    acknowledged: dict[TopicPartition, int]  # records at the end of the fault
    arrived: dict[TopicPartition, int]  # end offsets on the target then
    seconds: float = SECONDS
    new_since: dict[TopicPartition, float] = field(default_factory=dict)  # the source has a new record
    recovered: dict[TopicPartition, float] = field(default_factory=dict)  # seconds that it took

    def see(
        self, now: float, acknowledged: dict[TopicPartition, int], arrived: dict[TopicPartition, int], ready: bool
    ) -> None:
        """`ready`: Twinlog has started. Its start is waited for separately, and does not count."""
        if not ready:
            self.new_since.clear()
        for tp, count in acknowledged.items():
            if ready and count > self.acknowledged.get(tp, 0):
                self.new_since.setdefault(tp, now)
            if arrived.get(tp, 0) > self.arrived.get(tp, 0):
                self.recovered.setdefault(tp, now - self.began)

    def pending(self) -> list[TopicPartition]:
        return [tp for tp in self.acknowledged if tp not in self.recovered]

    def silent(self, now: float) -> list[TopicPartition]:
        """New records on the source for a minute, and none on the target."""
        return [tp for tp in self.pending() if now - self.new_since.get(tp, now) > self.seconds]

    @property
    def took(self) -> float:
        return max(self.recovered.values(), default=0.0)
