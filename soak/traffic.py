"""The records of a soak: continuous, numbered per partition, and with what the source has acknowledged of them.

Every producer of librdkafka is idempotent with acks=all, so the numbers of a partition are in order on the source. The
number is in a header: records of the compacted topic have few keys, and some have no value.
"""

import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from lab.cluster import Cluster
from lab.errors import LabError

HEADER = "n"
KEYS = 50  # of each partition of the compacted topic
_TICK_SECONDS = 0.1
_MAX_QUEUED = 3000
_BURST = 15  # records per partition and tick
_FLUSH_SECONDS = 120.0
_WORDS = b"replication is exact or it is not replication; "
SILENT = logging.getLogger("soak.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    codec: str
    compacted: bool = False
    transactional: bool = False
    grows: bool = False

    @property
    def configs(self) -> dict[str, str]:
        configs = {"min.insync.replicas": "2"}
        if self.compacted:
            configs |= {"cleanup.policy": "compact", "segment.ms": "10000", "min.cleanable.dirty.ratio": "0.01"}
        return configs


TOPICS = (
    Topic("soak-none", 3, "none", grows=True),
    Topic("soak-gzip", 1, "gzip"),
    Topic("soak-snappy", 1, "snappy"),
    Topic("soak-lz4", 2, "lz4", grows=True),
    Topic("soak-zstd", 1, "zstd"),
    Topic("soak-compacted", 2, "lz4", compacted=True),
    Topic("soak-transactions", 2, "zstd", transactional=True),
)


@dataclass(slots=True)
class Sent:
    """Of one partition, by number. What is in none of the three is in doubt: its producer failed."""

    next: int = 0
    acknowledged: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by error


def key_of(topic: Topic, number: int) -> bytes:
    return b"key %d" % (number * 7919 % KEYS) if topic.compacted else b"%d" % number


class Traffic:
    """All topics. `clock` is added to the timestamps of records, in seconds; `burst`: many and large ones."""

    def __init__(self, cluster: Cluster, topics: Iterable[Topic], per_second: float, seed: int) -> None:
        self._cluster, self.topics = cluster, tuple(topics)
        self.partitions = {topic.name: topic.partitions for topic in self.topics}
        self.sent: dict[TopicPartition, Sent] = defaultdict(Sent)
        self.clock = 0.0
        self.burst = False
        self.failures = 0  # producers that had to be replaced
        total = sum(self.partitions.values())
        self._per_tick = per_second * _TICK_SECONDS / total  # of one partition
        self._stop = threading.Event()
        self._dice = random.Random(seed)  # noqa: S311  (repeatable, not secret)
        plain = [topic for topic in self.topics if not topic.transactional]
        self._threads = [
            threading.Thread(target=self._send_all, args=(plain,), name="producers", daemon=True),
            *(
                threading.Thread(target=self._send_transactions, args=(topic,), name="transactions", daemon=True)
                for topic in self.topics
                if topic.transactional
            ),
        ]
        for topic in self.topics:
            for partition in range(topic.partitions):
                self.sent[topic.name, partition] = Sent()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raises an error if a producer's thread has ended: its traceback is on the screen."""
        if ended := [thread.name for thread in self._threads if not thread.is_alive()]:
            raise LabError(f"no more traffic: {', '.join(ended)} ended")

    def finish(self) -> None:
        """Ends with one more record in each partition; returns when the source has acknowledged everything."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def add_partition(self, topic: Topic) -> None:
        """The source has it already."""
        partition = self.partitions[topic.name]
        self.sent[topic.name, partition] = Sent()
        self.partitions[topic.name] = partition + 1

    def acknowledged(self) -> dict[TopicPartition, int]:
        """How many records of each partition."""
        return {tp: len(sent.acknowledged) for tp, sent in [*self.sent.items()]}

    def _send_all(self, topics: list[Topic]) -> None:
        producers = {topic: _Client(self._cluster, topic, self._failed) for topic in topics}
        due = 0.0
        while not self._stop.wait(_TICK_SECONDS):
            due += self._per_tick
            count, due = int(due), due % 1
            for topic, client in producers.items():
                client.replace_if_fatal()
                if len(client.producer) < _MAX_QUEUED:
                    for partition in range(self.partitions[topic.name]):
                        for _ in range(_BURST if self.burst else self._dice.randint(0, 2 * count)):
                            self._try_to_produce(client, topic, partition)
                client.producer.poll(0)
        for topic, client in producers.items():
            client.replace_if_fatal()
            for partition in range(self.partitions[topic.name]):
                self._try_to_produce(client, topic, partition)
        for client in producers.values():
            client.producer.flush(_FLUSH_SECONDS)

    def _send_transactions(self, topic: Topic) -> None:
        """Three of ten are aborted."""
        client = _Client(self._cluster, topic, self._failed, transactional_id="soak")
        client.begin_transactions()
        pause = 1.5 / max(self._per_tick / _TICK_SECONDS * topic.partitions, 0.1)  # three records each, on average
        last = False
        while not last:
            last = self._stop.wait(min(pause, 1.0))
            parts = range(self.partitions[topic.name])
            chosen = [*parts] if last else [self._dice.choice(parts) for _ in range(self._dice.randint(1, 5))]
            commit = last or self._dice.random() > 0.3
            numbers: list[tuple[int, int]] = []

            def work(chosen: list[int] = chosen, numbers: list[tuple[int, int]] = numbers) -> None:
                numbers.clear()
                numbers += [(p, self._produce(client, topic, p, _ignore)) for p in chosen]

            outcome = client.transaction(work, commit=commit)
            for partition, number in numbers:
                sent = self.sent[topic.name, partition]
                if outcome == "committed":
                    sent.acknowledged.add(number)
                elif outcome == "aborted":
                    sent.aborted.add(number)
            last = last and (outcome == "committed" or not commit)

    def _try_to_produce(self, client: "_Client", topic: Topic, partition: int) -> None:
        """A producer learns of a new partition later than we do, and then refuses."""
        try:
            self._produce(client, topic, partition, self._acknowledge)
        except (KafkaException, BufferError) as error:
            self.sent[topic.name, partition].refused[str(error.args[0])] += 1

    def _produce(
        self, client: "_Client", topic: Topic, partition: int, acknowledge: Callable[[Sent, int, Any, Any], None]
    ) -> int:
        sent = self.sent[topic.name, partition]
        number = sent.next
        sent.next += 1
        size = self._dice.randint(0, 8000 if self.burst else 400)
        tombstone = topic.compacted and self._dice.random() < 0.05
        client.producer.produce(
            topic.name,
            key=key_of(topic, number),
            value=None if tombstone else (b"%d " % number + _WORDS * (size // len(_WORDS) + 1))[:size],
            partition=partition,
            timestamp=int((time.time() + self.clock) * 1000),
            headers=[(HEADER, b"%d" % number)],
            on_delivery=partial(acknowledge, sent, number),
        )
        return number

    def _acknowledge(self, sent: Sent, number: int, error: Any, message: Any) -> None:
        del message
        if error is None:
            sent.acknowledged.add(number)
        else:
            sent.refused[error.name()] += 1

    def _failed(self) -> None:
        self.failures += 1


def _ignore(sent: Sent, number: int, error: Any, message: Any) -> None:
    """The end of the transaction decides."""


class _Client:
    """A producer of librdkafka that is replaced after a fatal error."""

    def __init__(
        self, cluster: Cluster, topic: Topic, failed: Callable[[], None], transactional_id: str | None = None
    ) -> None:
        self._failed, self._fatal = failed, threading.Event()
        self._config = {
            **cluster.librdkafka_properties(),
            "enable.idempotence": True,
            "compression.codec": topic.codec,
            "linger.ms": 0 if topic.codec == "none" else 30,
            "message.timeout.ms": 0,  # none: after an outage of any length the order is kept
            "topic.metadata.refresh.interval.ms": 2000,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,
            "error_cb": self._on_error,
            "logger": SILENT,
        }
        if transactional_id:
            # An open transaction holds up consumers for that long.
            self._config |= {"transactional.id": transactional_id, "transaction.timeout.ms": 15_000}
        self.producer = Producer(self._config)

    def replace_if_fatal(self) -> None:
        if self._fatal.is_set():
            self._failed()
            self._fatal.clear()
            self.producer = Producer(self._config)

    def begin_transactions(self) -> None:
        while True:
            try:
                self.producer.init_transactions(30)
            except KafkaException as error:
                if not error.args[0].retriable():
                    self.producer = Producer(self._config)
                time.sleep(0.5)
            else:
                return

    def transaction(self, work: Callable[[], None], *, commit: bool) -> str:
        """`committed`, `aborted`, or `in doubt`."""
        try:
            self.producer.begin_transaction()
            work()
            self._retried(self.producer.commit_transaction if commit else self.producer.abort_transaction)
        except (KafkaException, BufferError) as error:
            reason = error.args[0] if isinstance(error, KafkaException) else None
            if reason is None or reason.txn_requires_abort():
                try:
                    self._retried(self.producer.abort_transaction)
                except KafkaException:
                    pass
                else:
                    return "aborted"
            self._failed()
            self.producer = Producer(self._config)
            self.begin_transactions()
            return "in doubt"
        return "committed" if commit else "aborted"

    def _retried(self, end: Callable[[float], None]) -> None:
        while True:
            try:
                end(30)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._fatal.set()
