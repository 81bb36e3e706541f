"""Topics with corner cases that replication must handle and that Kafka's clients rarely or never produce.

Each function creates a topic on a real cluster and fills it. Retention is disabled: brokers start to delete old records
30 s after their start, and a record from 1970 is old.
"""

import itertools
import random
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from lab import batches, jars
from lab.batches import CODECS, Header, Record
from lab.cluster import Cluster
from lab.raw_protocol import BrokerError, RawProtocol, text_bytes
from lab.transactions import Transactions, producer_id
from lab.waiting import until

TopicFactory = Callable[[Cluster, str], None]

_OLD_PRODUCE = (0, 2)
_CLEANER_BACKOFF = "log.cleaner.backoff.ms"  # default: 15 s
_SEGMENT_MS = 200


def raw_batches(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """All batches as the broker returns them, including control batches."""
    with _connect(cluster) as raw:
        return list(raw.batches(topic, partition))


def create_all(cluster: Cluster, prefix: str) -> dict[str, str]:
    """Creates all of them and returns the topic of each corner case."""
    factories = CORNER_CASES | ({"old-messages": old_messages} if jars.before(cluster.spec.line, "4.0") else {})
    topics = {name: f"{prefix}{name}" for name in factories}
    with ThreadPoolExecutor(8) as pool:  # nearly all of the time is spent waiting for brokers
        for done in [pool.submit(factories[name], cluster, topic) for name, topic in topics.items()]:
            done.result()
    return topics


def codecs(cluster: Cluster, topic: str) -> None:
    """A partition for each codec, and one more with all of them."""
    with _created(cluster, topic, partitions=len(CODECS) + 1) as raw:
        mixed = len(CODECS)
        for partition, codec in enumerate(CODECS):
            for size in (1, 100):
                batch = batches.encode(_plain(size, codec), codec)
                raw.produce(topic, partition, batch)
                raw.produce(topic, mixed, batch)
        # librdkafka writes snappy without the framing of Java's library.
        raw.produce(topic, CODECS.index("snappy"), batches.encode(_plain(100, "bare"), "snappy", xerial=False))
        for number in range(20):
            raw.produce(topic, mixed, batches.encode(_plain(10, f"again {number}"), CODECS[number % len(CODECS)]))


def headers(cluster: Cluster, topic: str) -> None:
    """Duplicate names, nulls, empty names, names of invalid UTF-8, many headers and large ones."""
    now = _now()
    cases: list[batches.Headers] = [
        ((b"a", b"1"),),
        ((b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"a", b"1")),
        ((b"null", None), (b"empty", b"")),
        ((b"", b"no name"), (b"", None)),
        ((b"\xff\xfe", b"no UTF-8"), (b"cut \xe2\x82", b"\xff"), (b"\xed\xa0\x80", b"a surrogate"), (b"\x00", b"\x00")),
        (("größe €".encode(), "größe €".encode()),),
        tuple((b"h%d" % number, b"v" * number) for number in range(200)),
        ((b"n" * 300, b"v" * 70_000),),
    ]
    records = [Record(now + number, b"%d" % number, b"value", each) for number, each in enumerate(cases)]
    with _created(cluster, topic) as raw:
        for codec in CODECS:
            raw.produce(topic, 0, batches.encode(records, codec))
        for record in records:
            raw.produce(topic, 0, batches.encode([record]))


def nulls(cluster: Cluster, topic: str) -> None:
    """Keys and values that are null, empty or not, in every combination."""
    kinds = (None, b"", b"plain", b"\x00\xff")
    pairs = list(itertools.product(kinds, kinds))
    records = [Record(_now() + number, *pair) for number, pair in enumerate(pairs)]
    with _created(cluster, topic) as raw:
        for codec in CODECS:
            raw.produce(topic, 0, batches.encode(records, codec))


def sizes(cluster: Cluster, topic: str) -> None:
    """From empty records to several megabytes, some of which compress to almost nothing."""
    with _created(cluster, topic, {"max.message.bytes": str(8 << 20)}) as raw:
        raw.produce(topic, 0, batches.encode([Record(_now(), None, None)]))
        raw.produce(topic, 0, batches.encode([Record(_now(), b"", b"")] * 1000))
        noise = _noise(5 << 20)
        raw.produce(topic, 0, batches.encode([Record(_now(), b"noise", noise)]))
        raw.produce(topic, 0, batches.encode([Record(_now(), b"noise", noise)], "zstd"))
        for codec in CODECS[1:]:
            raw.produce(topic, 0, batches.encode([Record(_now(), b"zeros", bytes(20 << 20))], codec))
        raw.produce(topic, 0, batches.encode([Record(_now(), _noise(1 << 20), None)]))
        raw.produce(topic, 0, batches.encode([Record(_now(), None, b"end")]))


def timestamps(cluster: Cluster, topic: str) -> None:
    """None (-1), 1970, out of order, far from the batch's first."""
    now = _now()
    times = [[0], [-1], [1], [now, now - 5, now - 1_000_000, now + 5, 0, -1, now], [0, now], [now, now, now], [-1, now]]
    with _created(cluster, topic) as raw:
        for codec, each in itertools.product(CODECS, times):
            records = [Record(at, b"k", b"%d" % number) for number, at in enumerate(each)]
            raw.produce(topic, 0, batches.encode(records, codec))


def negative_timestamps(cluster: Cluster, topic: str) -> None:
    """Below -1: brokers accept them, Kafka's clients do not write them, and Connect (and so MM2) fails on them."""
    with _created(cluster, topic) as raw:
        for codec in CODECS:
            times = (-5, -(1 << 40), _now())
            raw.produce(topic, 0, batches.encode([Record(at, b"k", b"before 1970") for at in times], codec))


def transactions(cluster: Cluster, topic: str) -> None:
    """Interleaved commits and aborts of two producers, and records of a non-transactional one."""
    with _created(cluster, topic, partitions=2) as raw:
        first, second = (Transactions(raw, f"{topic}-{name}") for name in ("first", "second"))
        for number in range(6):
            for step in range(2):
                first.produce(topic, step, _plain(3, f"first {number}.{step}"), CODECS[number % len(CODECS)])
                second.produce(topic, 0, _plain(2, f"second {number}.{step}"))
                raw.produce(topic, 0, batches.encode(_plain(1, f"plain {number}.{step}")))
            ends = [first.abort if number % 2 else first.commit, second.abort if number % 3 else second.commit]
            for end in ends if number < 4 else reversed(ends):
                end()
        raw.produce(topic, 0, batches.encode(_plain(1, "the end")))


def aborted_only(cluster: Cluster, topic: str) -> None:
    """Offsets, but no committed records."""
    with _created(cluster, topic) as raw:
        producer = Transactions(raw, f"{topic}-only")
        for number in range(3):
            producer.produce(topic, 0, _plain(5, f"aborted {number}"))
            producer.abort()


def open_transaction(cluster: Cluster, topic: str) -> None:
    """Committed records, an open transaction, then non-transactional records. See `abort_open_transaction`."""
    with _created(cluster, topic) as raw:
        producer = Transactions(raw, _open_id(topic))
        producer.produce(topic, 0, _plain(5, "committed"))
        producer.commit()
        raw.produce(topic, 0, batches.encode(_plain(5, "before")))
        producer.produce(topic, 0, _plain(5, "open"))
        raw.produce(topic, 0, batches.encode(_plain(5, "behind")))


def abort_open_transaction(cluster: Cluster, topic: str) -> None:
    """Returns when the records after it can be read."""
    with _connect(cluster) as raw:
        Transactions(raw, _open_id(topic))

        def closed() -> bool:
            return raw.offsets(topic, 0, "read_committed") == raw.offsets(topic, 0)

        until(closed, f"aborting {topic}'s open transaction")


def idempotent(cluster: Cluster, topic: str) -> None:
    """Batches of two idempotent producers; the sequence of one wraps around to 0."""
    with _created(cluster, topic) as raw:
        first, second = producer_id(raw), producer_id(raw)
        for number in range(10):
            for codec in ("none", "zstd"):
                producer, start = (first, 0) if codec == "none" else (second, 2**31 - 10)
                sequence = (start + 10 * number) % 2**31
                records = _plain(10, f"{codec} {number}")
                raw.produce(topic, 0, batches.encode(records, codec, producer=(*producer, sequence)))


def compacted(cluster: Cluster, topic: str) -> None:
    """Compacted: gaps inside and between batches, batches without records, tombstones with a delete horizon.

    Keys are then unique, so that the remote topic's cleaner has nothing to remove.
    """
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": str(_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }
    with _created(cluster, topic, settings) as raw:
        # The cleaner keeps a producer's last batch, even without records, to preserve its sequence.
        raw.produce(topic, 0, batches.encode(_keyed(range(60), "first"), producer=(*producer_id(raw), 0)))
        for codec in CODECS:
            dead = [Record(_now(), f"dead {codec} {each}".encode(), None) for each in range(5)]
            raw.produce(topic, 0, batches.encode([*_keyed(range(60), codec), *dead], codec))
        for codec in CODECS:  # gaps in the middle and at the start of the previous batches
            raw.produce(topic, 0, batches.encode(_keyed((0, 1, 2, *range(4, 60, 3)), codec), codec))
        raw.produce(topic, 0, batches.encode(_keyed(range(60), "first")))
        producer = Transactions(raw, f"{topic}-compacted")
        producer.produce(topic, 0, _keyed(range(10), "transaction"))
        producer.abort()
        producer.produce(topic, 0, _keyed(range(10), "transaction"))
        producer.commit()
        time.sleep(1.5 * _SEGMENT_MS / 1000)
        # The active segment is never cleaned: this record starts a new one.
        raw.produce(topic, 0, batches.encode([Record(_now(), b"the end", b"")]))

        def cleaned() -> bool:
            data = [each for each in raw.batches(topic, 0) if not Header.of(each).control]
            keys = [key for each in data for _, key, _, _ in batches.decode(each)[1]]
            return len(keys) == len(set(keys))

        with _fast_cleaner(cluster):
            until(cleaned, f"compacting {topic}")


def log_append_time(cluster: Cluster, topic: str) -> None:
    with _created(cluster, topic, {"message.timestamp.type": "LogAppendTime"}) as raw:
        for codec in CODECS:
            raw.produce(topic, 0, batches.encode(_plain(50, codec), codec))


def switched_time(cluster: Cluster, topic: str) -> None:
    """First half with CreateTime, second half with LogAppendTime."""
    with _created(cluster, topic) as raw:
        for codec in CODECS:
            raw.produce(topic, 0, batches.encode(_plain(20, f"create {codec}"), codec))
        _alter(cluster, ConfigResourceType.TOPIC, [topic], {"message.timestamp.type": "LogAppendTime"})

        def switched() -> bool:
            at = raw.produce(topic, 0, batches.encode(_plain(1, "which?")))
            return Header.of(raw.fetch(topic, 0, at).batches).log_append_time

        until(switched, f"switching {topic} to LogAppendTime")
        for codec in CODECS:
            raw.produce(topic, 0, batches.encode(_plain(20, f"append {codec}"), codec))


def late_start(cluster: Cluster, topic: str) -> None:
    """The log starts inside a batch: brokers return the complete batch, and clients skip the deleted records."""
    with _created(cluster, topic) as raw:
        for number in range(10):
            raw.produce(topic, 0, batches.encode(_plain(10, f"batch {number}"), CODECS[number % len(CODECS)]))
        _delete(cluster, topic, before=34)


def emptied(cluster: Cluster, topic: str) -> None:
    """All records are deleted; start and end offset are above 0."""
    with _created(cluster, topic) as raw:
        raw.produce(topic, 0, batches.encode(_plain(10, "gone")))
        _delete(cluster, topic, before=10)


def empty(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)


def small_batches(cluster: Cluster, topic: str) -> None:
    """One record in each batch."""
    with _created(cluster, topic) as raw:
        for record in _plain(500, "one by one"):
            raw.produce(topic, 0, batches.encode([record]))


def large_batches(cluster: Cluster, topic: str) -> None:
    """About 900 KB each, just below the default max.message.bytes."""
    noise = _noise(900)
    records = [Record(_now(), b"%d" % number, noise[number % 100 :] + _noise(number % 100)) for number in range(980)]
    with _created(cluster, topic) as raw:
        for number in range(3):
            raw.produce(topic, 0, batches.encode(records))
            raw.produce(topic, 0, batches.encode([Record(_now(), b"noise", _noise(900_000))] * (number + 1), "zstd"))


def old_messages(cluster: Cluster, topic: str) -> None:
    """Message format 1 (Kafka 0.10), plain and compressed. Brokers up to 3.9 accept it and convert it."""
    plain = [_message(_now() + number, b"k%d" % number, b"v") for number in range(5)]
    alone = b"".join(struct.pack(">qi", number, len(each)) + each for number, each in enumerate(plain))
    wrapped = _message(_now(), None, batches.compress(alone, "gzip"), attributes=CODECS.index("gzip"))
    with _created(cluster, topic) as raw:
        for messages in (alone, struct.pack(">qi", len(plain) - 1, len(wrapped)) + wrapped):
            body = struct.pack(">hii", -1, 30_000, 1) + text_bytes(topic) + struct.pack(">iii", 1, 0, len(messages))
            response = raw.send_to_leader(topic, 0, _OLD_PRODUCE, body + messages)
            response.skip(4)
            response.text()
            _, _, code = response.unpack(">iih")
            if code:
                raise BrokerError(f"cannot produce old messages to {topic}", code)


CORNER_CASES: dict[str, TopicFactory] = {
    # The slowest first: it waits for the cleaner while the others are created.
    "compacted": compacted,
    "codecs": codecs, "headers": headers, "nulls": nulls, "sizes": sizes, "timestamps": timestamps,
    "negative-timestamps": negative_timestamps, "transactions": transactions, "aborted-only": aborted_only,
    "open-transaction": open_transaction, "idempotent": idempotent, "log-append-time": log_append_time,
    "switched-time": switched_time, "late-start": late_start, "emptied": emptied, "empty": empty,
    "small-batches": small_batches, "large-batches": large_batches,
}  # fmt: skip


@contextmanager
def _created(
    cluster: Cluster, topic: str, settings: Mapping[str, str] | None = None, partitions: int = 1
) -> Iterator[RawProtocol]:
    cluster.create_topic(topic, partitions, configs={"retention.ms": "-1", **(settings or {})})
    with _connect(cluster) as raw:
        yield raw


def _connect(cluster: Cluster) -> RawProtocol:
    return RawProtocol(cluster.client_properties())


@contextmanager
def _fast_cleaner(cluster: Cluster) -> Iterator[None]:
    brokers = [str(broker.id) for broker in cluster.brokers]
    _alter(cluster, ConfigResourceType.BROKER, brokers, {_CLEANER_BACKOFF: "100"})
    try:
        yield
    finally:
        _alter(cluster, ConfigResourceType.BROKER, brokers, {_CLEANER_BACKOFF: ("DELETE", None)})


def _alter(cluster: Cluster, kind: ConfigResourceType, names: list[str], settings: Mapping[str, object]) -> None:
    with cluster.admin() as admin:
        admin.alter_configs([ConfigResource(kind, name, dict(settings)) for name in names])


def _delete(cluster: Cluster, topic: str, *, before: int) -> None:
    with cluster.admin() as admin:
        admin.delete_records({TopicPartition(topic, 0): before})


def _open_id(topic: str) -> str:
    return f"{topic}-open"


def _plain(count: int, text: str) -> list[Record]:
    now = _now()
    return [
        Record(now + each, b"key %d" % (each % 7), f"{text} {each}".encode(), ((b"from", text.encode()),))
        for each in range(count)
    ]


def _keyed(numbers: Iterable[int], prefix: str) -> list[Record]:
    return [Record(_now(), f"{prefix} {each}".encode(), b"%d" % each) for each in numbers]


def _noise(size: int) -> bytes:
    """Deterministic, and incompressible."""
    return random.Random(size).randbytes(size)  # noqa: S311


def _message(timestamp: int, key: bytes | None, value: bytes, attributes: int = 0) -> bytes:
    body = struct.pack(">bbq", 1, attributes, timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">I", zlib.crc32(body)) + body


def _now() -> int:
    return int(time.time() * 1000)
