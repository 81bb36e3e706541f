"""Produces to the source at a low rate and measures when the records arrive on the target.

Both in one process, so that one clock measures the latency. The consumer reads at most 40 partitions: librdkafka sends
all its partitions in every request, so with thousands of them the consumer itself would be slow. End offsets show
whether all records have arrived.
"""

import itertools
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from lab.cluster import Cluster

SIZES = (100, 1024)  # smallest and largest record, in bytes
_CONSUMED_PARTITIONS = 40
_STAMP = struct.Struct(">qq")  # when it was produced (ns, monotonic clock), its number


class TargetOffsets:
    """End offsets of a fixed set of partitions."""

    def __init__(self, cluster: Cluster, topics: Sequence[str], partitions: int) -> None:
        self._partitions = [KafkaPythonPartition(topic, index) for topic in topics for index in range(partitions)]
        self._consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap().split(","))

    def close(self) -> None:
        self._consumer.close()

    def ends(self) -> list[int]:
        return list(self._consumer.end_offsets(self._partitions).values())


class LowRateLoad:
    """Produces to all partitions of `topics` in turn. The remote topics, with `prefix`, must exist."""

    def __init__(
        self, us: Cluster, eu: Cluster, topics: Sequence[str], partitions: int, rate: float, prefix: str
    ) -> None:
        self._partitions = [(topic, partition) for partition in range(partitions) for topic in topics]
        self._rate, self._prefix = rate, prefix
        self._target = TargetOffsets(eu, [f"{prefix}{topic}" for topic in topics], partitions)
        self._producer = Producer({**us.librdkafka_properties(), "linger.ms": 0, "log_level": 0})
        self._consumer = Consumer(
            {
                **eu.librdkafka_properties(),
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
                "fetch.min.bytes": 1,
                "log_level": 0,
            }
        )
        self._closing = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._produce, self._consume)]
        self._latencies: list[tuple[int, int]] = []  # when produced and latency, both in ns
        self.sent = 0

    def __enter__(self) -> Self:
        every = -(-len(self._partitions) // _CONSUMED_PARTITIONS)
        self._consumer.assign(
            [
                TopicPartition(f"{self._prefix}{topic}", partition, OFFSET_BEGINNING)
                for topic, partition in self._partitions[::every]
            ]
        )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()
        self._target.close()

    def stop(self, timeout: float = 15.0) -> int:
        """Stops producing, waits until all records have arrived, and returns how many are missing."""
        self._stopped.set()
        self._threads[0].join()
        deadline = time.monotonic() + timeout
        while (missing := self.sent - self.arrived) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)  # for the consumer
        return missing

    @property
    def arrived(self) -> int:
        return sum(self._target.ends())

    @property
    def active_partitions(self) -> int:
        """How many partitions have received a record."""
        return sum(end > 0 for end in self._target.ends())

    def latencies(self, since: int, until: int) -> list[float]:
        """Sorted latencies (ms) of the consumed records that were produced in that period."""
        with self._lock:
            return sorted(latency / 1e6 for produced, latency in self._latencies if since <= produced < until)

    def _produce(self) -> None:
        small, large = SIZES
        began = time.monotonic()
        for number, (topic, partition) in enumerate(itertools.cycle(self._partitions)):
            ahead = number / self._rate - (time.monotonic() - began)
            if self._stopped.wait(ahead) if ahead > 0 else self._stopped.is_set():
                break
            size = small + (number * 37) % (large - small) - _STAMP.size
            value = _STAMP.pack(time.monotonic_ns(), number) + b"x" * size
            self._producer.produce(topic, value, partition=partition)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush(30)

    def _consume(self) -> None:
        while not self._closing.is_set():
            message = self._consumer.poll(0.2)
            now = time.monotonic_ns()
            value = None if message is None or message.error() else message.value()
            if value is None:  # librdkafka retries after errors
                continue
            produced, _ = _STAMP.unpack_from(value)
            with self._lock:
                self._latencies.append((produced, now - produced))
