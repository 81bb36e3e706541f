"""A trickle of records, and when they arrive: published to the source and read from the target by one process.

So one clock tells when a record came and went. Few partitions are read, however many there are: librdkafka names all
of its partitions in every request, and with thousands of them it would be the consumer that is late. That all have
arrived is seen by the brokers' own count.
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
from kafka import TopicPartition as Place

from twinlog.lab.cluster import Cluster

SIZES = (100, 1024)  # from, to: bytes of a record
_WATCHED = 40  # partitions, at most
_STAMP = struct.Struct(">qq")  # when it was produced (ns, of this process' clock), its number


class Offsets:
    """The ends of some partitions, by the broker's count."""

    def __init__(self, cluster: Cluster, topics: Sequence[str], partitions: int) -> None:
        self._places = [Place(topic, partition) for topic in topics for partition in range(partitions)]
        self._consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap().split(","))

    def close(self) -> None:
        self._consumer.close()

    def ends(self) -> list[int]:
        return list(self._consumer.end_offsets(self._places).values())


class Trickle:
    """To every partition of `topics` in turn. The remote topics, with `prefix`, must be there."""

    def __init__(
        self, us: Cluster, eu: Cluster, topics: Sequence[str], partitions: int, rate: float, prefix: str
    ) -> None:
        self._places = [(topic, partition) for partition in range(partitions) for topic in topics]
        self._rate, self._prefix = rate, prefix
        self._target = Offsets(eu, [f"{prefix}{topic}" for topic in topics], partitions)
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
        self._quiet = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._publish, self._read)]
        self._late: list[tuple[int, int]] = []  # when produced, how late: both in ns
        self.sent = 0

    def __enter__(self) -> Self:
        every = -(-len(self._places) // _WATCHED)
        self._consumer.assign(
            [
                TopicPartition(f"{self._prefix}{topic}", partition, OFFSET_BEGINNING)
                for topic, partition in self._places[::every]
            ]
        )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._quiet.set()
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._consumer.close()
        self._target.close()

    def hush(self, patience: float = 15.0) -> int:
        """No more records; waits until all that were sent have arrived. How many have not."""
        self._quiet.set()
        self._threads[0].join()
        deadline = time.monotonic() + patience
        while (missing := self.sent - self.arrived) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)  # the consumer needs a moment, too
        return missing

    @property
    def arrived(self) -> int:
        return sum(self._target.ends())

    @property
    def begun(self) -> int:
        """How many partitions have got a record."""
        return sum(end > 0 for end in self._target.ends())

    def late(self, since: int, until: int) -> list[float]:
        """Sorted milliseconds, of the records that were produced then, in the partitions that are read."""
        with self._lock:
            return sorted(late / 1e6 for born, late in self._late if since <= born < until)

    def _publish(self) -> None:
        small, large = SIZES
        began = time.monotonic()
        for number, (topic, partition) in enumerate(itertools.cycle(self._places)):
            ahead = number / self._rate - (time.monotonic() - began)
            if self._quiet.wait(ahead) if ahead > 0 else self._quiet.is_set():
                break
            size = small + (number * 37) % (large - small) - _STAMP.size
            value = _STAMP.pack(time.monotonic_ns(), number) + b"x" * size
            self._producer.produce(topic, value, partition=partition)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush(30)

    def _read(self) -> None:
        while not self._closing.is_set():
            message = self._consumer.poll(0.2)
            now = time.monotonic_ns()
            value = None if message is None or message.error() else message.value()
            if value is None:  # an error passes: librdkafka asks again
                continue
            born, _ = _STAMP.unpack_from(value)
            with self._lock:
                self._late.append((born, now - born))
