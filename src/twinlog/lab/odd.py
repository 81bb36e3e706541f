"""A zoo of topics that a relay may meet and that Kafka's own clients would never make in one go.

Each maker creates its topic on a real cluster and fills it. None lets time delete what it wrote: brokers look for old
records 30 s after their start, and a record from 1970 is old.
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

from twinlog.lab import batches
from twinlog.lab.batches import CODECS, Header, Record
from twinlog.lab.cluster import Cluster
from twinlog.lab.transactions import Transactions, producer_id
from twinlog.lab.waiting import until
from twinlog.lab.wire import RefusedError, Wire, text_bytes

Maker = Callable[[Cluster, str], None]

_OLD_PRODUCE = (0, 2)
_CLEANER_PAUSE = "log.cleaner.backoff.ms"  # 15 s, if nothing is said
_SEGMENT_MS = 200


def raw_batches(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """Every batch as the broker serves it, markers of transactions too; `batches.Header.of` shows what is in one."""
    with _wire(cluster) as wire:
        return list(wire.batches(topic, partition))


def all_odd(cluster: Cluster, prefix: str) -> dict[str, str]:
    """The whole zoo: which topic has which oddity."""
    makers = ZOO | ({"old-messages": old_messages} if cluster.spec.line.startswith("3.") else {})
    topics = {name: f"{prefix}{name}" for name in makers}
    with ThreadPoolExecutor(8) as pool:  # nearly all of the time is spent waiting for brokers
        for done in [pool.submit(makers[name], cluster, topic) for name, topic in topics.items()]:
            done.result()
    return topics


def codecs(cluster: Cluster, topic: str) -> None:
    """A partition for each codec, and behind them one that mixes them all."""
    with _made(cluster, topic, partitions=len(CODECS) + 1) as wire:
        mixed = len(CODECS)
        for partition, codec in enumerate(CODECS):
            for size in (1, 100):
                batch = batches.encode(_plain(size, codec), codec)
                wire.produce(topic, partition, batch)
                wire.produce(topic, mixed, batch)
        # librdkafka writes snappy without the framing that Java's library puts around it.
        wire.produce(topic, CODECS.index("snappy"), batches.encode(_plain(100, "bare"), "snappy", xerial=False))
        for number in range(20):
            wire.produce(topic, mixed, batches.encode(_plain(10, f"again {number}"), CODECS[number % len(CODECS)]))


def headers(cluster: Cluster, topic: str) -> None:
    """Duplicates, nulls, empty names, names that are no UTF-8, many and large ones."""
    now = _now()
    odd: list[batches.Headers] = [
        ((b"a", b"1"),),
        ((b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"a", b"1")),
        ((b"null", None), (b"empty", b"")),
        ((b"", b"no name"), (b"", None)),
        ((b"\xff\xfe", b"no UTF-8"), (b"cut \xe2\x82", b"\xff"), (b"\xed\xa0\x80", b"a surrogate"), (b"\x00", b"\x00")),
        (("größe €".encode(), "größe €".encode()),),
        tuple((b"h%d" % number, b"v" * number) for number in range(200)),
        ((b"n" * 300, b"v" * 70_000),),
    ]
    records = [Record(now + number, b"%d" % number, b"value", each) for number, each in enumerate(odd)]
    with _made(cluster, topic) as wire:
        for codec in CODECS:
            wire.produce(topic, 0, batches.encode(records, codec))
        for record in records:
            wire.produce(topic, 0, batches.encode([record]))


def nulls(cluster: Cluster, topic: str) -> None:
    """Every pair of null, empty and plain for key and value."""
    kinds = (None, b"", b"plain", b"\x00\xff")
    pairs = list(itertools.product(kinds, kinds))
    records = [Record(_now() + number, *pair) for number, pair in enumerate(pairs)]
    with _made(cluster, topic) as wire:
        for codec in CODECS:
            wire.produce(topic, 0, batches.encode(records, codec))


def sizes(cluster: Cluster, topic: str) -> None:
    """From nothing at all to megabytes, some of which shrink to almost nothing in their batch."""
    with _made(cluster, topic, {"max.message.bytes": str(8 << 20)}) as wire:
        wire.produce(topic, 0, batches.encode([Record(_now(), None, None)]))
        wire.produce(topic, 0, batches.encode([Record(_now(), b"", b"")] * 1000))
        noise = _noise(5 << 20)
        wire.produce(topic, 0, batches.encode([Record(_now(), b"noise", noise)]))
        wire.produce(topic, 0, batches.encode([Record(_now(), b"noise", noise)], "zstd"))
        for codec in CODECS[1:]:
            wire.produce(topic, 0, batches.encode([Record(_now(), b"zeros", bytes(20 << 20))], codec))
        wire.produce(topic, 0, batches.encode([Record(_now(), _noise(1 << 20), None)]))
        wire.produce(topic, 0, batches.encode([Record(_now(), None, b"end")]))


def timestamps(cluster: Cluster, topic: str) -> None:
    """None (-1), 1970, not in order, far from the batch's first."""
    now = _now()
    times = [[0], [-1], [1], [now, now - 5, now - 1_000_000, now + 5, 0, -1, now], [0, now], [now, now, now], [-1, now]]
    with _made(cluster, topic) as wire:
        for codec, each in itertools.product(CODECS, times):
            records = [Record(at, b"k", b"%d" % number) for number, at in enumerate(each)]
            wire.produce(topic, 0, batches.encode(records, codec))


def negative_timestamps(cluster: Cluster, topic: str) -> None:
    """Below -1: brokers take them, no client of Kafka's would write them, and Connect, so MM2, fails on them."""
    with _made(cluster, topic) as wire:
        for codec in CODECS:
            times = (-5, -(1 << 40), _now())
            wire.produce(topic, 0, batches.encode([Record(at, b"k", b"before 1970") for at in times], codec))


def transactions(cluster: Cluster, topic: str) -> None:
    """Two producers' commits and aborts, interleaved, and a third one who knows of no transactions."""
    with _made(cluster, topic, partitions=2) as wire:
        first, second = (Transactions(wire, f"{topic}-{name}") for name in ("first", "second"))
        for number in range(6):
            for step in range(2):
                first.produce(topic, step, _plain(3, f"first {number}.{step}"), CODECS[number % len(CODECS)])
                second.produce(topic, 0, _plain(2, f"second {number}.{step}"))
                wire.produce(topic, 0, batches.encode(_plain(1, f"plain {number}.{step}")))
            ends = [first.abort if number % 2 else first.commit, second.abort if number % 3 else second.commit]
            for end in ends if number < 4 else reversed(ends):
                end()
        wire.produce(topic, 0, batches.encode(_plain(1, "the end")))


def aborted_only(cluster: Cluster, topic: str) -> None:
    """Offsets, but no record that anyone should see."""
    with _made(cluster, topic) as wire:
        producer = Transactions(wire, f"{topic}-only")
        for number in range(3):
            producer.produce(topic, 0, _plain(5, f"aborted {number}"))
            producer.abort()


def open_transaction(cluster: Cluster, topic: str) -> None:
    """Committed records, then a transaction that stays open, then plain records. See `abort_open_transaction`."""
    with _made(cluster, topic) as wire:
        producer = Transactions(wire, _open_id(topic))
        producer.produce(topic, 0, _plain(5, "committed"))
        producer.commit()
        wire.produce(topic, 0, batches.encode(_plain(5, "before")))
        producer.produce(topic, 0, _plain(5, "open"))
        wire.produce(topic, 0, batches.encode(_plain(5, "behind")))


def abort_open_transaction(cluster: Cluster, topic: str) -> None:
    """What stands behind it can then be read; returns when it can."""
    with _wire(cluster) as wire:
        Transactions(wire, _open_id(topic))

        def closed() -> bool:
            return wire.offsets(topic, 0, "read_committed") == wire.offsets(topic, 0)

        until(closed, f"aborting {topic}'s open transaction")


def idempotent(cluster: Cluster, topic: str) -> None:
    """Two producers' batches with ids and sequences; one of them begins at the highest sequence and goes on at 0."""
    with _made(cluster, topic) as wire:
        first, second = producer_id(wire), producer_id(wire)
        for number in range(10):
            for codec in ("none", "zstd"):
                producer, start = (first, 0) if codec == "none" else (second, 2**31 - 10)
                sequence = (start + 10 * number) % 2**31
                records = _plain(10, f"{codec} {number}")
                wire.produce(topic, 0, batches.encode(records, codec, producer=(*producer, sequence)))


def compacted(cluster: Cluster, topic: str) -> None:
    """Cleaned: gaps inside batches and between them, batches without records, tombstones with a delete horizon.

    Keys are unique from then on, so that the copy's own cleaner has nothing to take out.
    """
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": str(_SEGMENT_MS),
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
    }
    with _made(cluster, topic, settings) as wire:
        # A producer's last batch stays, even with no record left: its sequence must not be forgotten.
        wire.produce(topic, 0, batches.encode(_keyed(range(60), "first"), producer=(*producer_id(wire), 0)))
        for codec in CODECS:
            dead = [Record(_now(), f"dead {codec} {each}".encode(), None) for each in range(5)]
            wire.produce(topic, 0, batches.encode([*_keyed(range(60), codec), *dead], codec))
        for codec in CODECS:  # holes in the middle of the others, and at their start
            wire.produce(topic, 0, batches.encode(_keyed((0, 1, 2, *range(4, 60, 3)), codec), codec))
        wire.produce(topic, 0, batches.encode(_keyed(range(60), "first")))
        producer = Transactions(wire, f"{topic}-compacted")
        producer.produce(topic, 0, _keyed(range(10), "transaction"))
        producer.abort()
        producer.produce(topic, 0, _keyed(range(10), "transaction"))
        producer.commit()
        time.sleep(1.5 * _SEGMENT_MS / 1000)
        # The newest segment is never cleaned: this record begins another one.
        wire.produce(topic, 0, batches.encode([Record(_now(), b"the end", b"")]))

        def cleaned() -> bool:
            data = [each for each in wire.batches(topic, 0) if not Header.of(each).control]
            keys = [key for each in data for _, key, _, _ in batches.decode(each)[1]]
            return len(keys) == len(set(keys))

        with _cleaner_in_a_hurry(cluster):
            until(cleaned, f"compacting {topic}")


def log_append_time(cluster: Cluster, topic: str) -> None:
    with _made(cluster, topic, {"message.timestamp.type": "LogAppendTime"}) as wire:
        for codec in CODECS:
            wire.produce(topic, 0, batches.encode(_plain(50, codec), codec))


def switched_time(cluster: Cluster, topic: str) -> None:
    """CreateTime in its first half, LogAppendTime in its second."""
    with _made(cluster, topic) as wire:
        for codec in CODECS:
            wire.produce(topic, 0, batches.encode(_plain(20, f"create {codec}"), codec))
        _alter(cluster, ConfigResourceType.TOPIC, [topic], {"message.timestamp.type": "LogAppendTime"})

        def switched() -> bool:
            at = wire.produce(topic, 0, batches.encode(_plain(1, "which?")))
            return Header.of(wire.fetch(topic, 0, at).batches).log_append_time

        until(switched, f"switching {topic} to LogAppendTime")
        for codec in CODECS:
            wire.produce(topic, 0, batches.encode(_plain(20, f"append {codec}"), codec))


def late_start(cluster: Cluster, topic: str) -> None:
    """The log starts in the middle of a batch: brokers serve that one whole, and clients drop what was deleted."""
    with _made(cluster, topic) as wire:
        for number in range(10):
            wire.produce(topic, 0, batches.encode(_plain(10, f"batch {number}"), CODECS[number % len(CODECS)]))
        _delete(cluster, topic, before=34)


def emptied(cluster: Cluster, topic: str) -> None:
    """Had records once; starts and ends above 0."""
    with _made(cluster, topic) as wire:
        wire.produce(topic, 0, batches.encode(_plain(10, "gone")))
        _delete(cluster, topic, before=10)


def empty(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=3)


def small_batches(cluster: Cluster, topic: str) -> None:
    """One record in each batch."""
    with _made(cluster, topic) as wire:
        for record in _plain(500, "one by one"):
            wire.produce(topic, 0, batches.encode([record]))


def large_batches(cluster: Cluster, topic: str) -> None:
    """Each about 900 KB as it is stored, just below what brokers take unless told otherwise."""
    noise = _noise(900)
    records = [Record(_now(), b"%d" % number, noise[number % 100 :] + _noise(number % 100)) for number in range(980)]
    with _made(cluster, topic) as wire:
        for number in range(3):
            wire.produce(topic, 0, batches.encode(records))
            wire.produce(topic, 0, batches.encode([Record(_now(), b"noise", _noise(900_000))] * (number + 1), "zstd"))


def old_messages(cluster: Cluster, topic: str) -> None:
    """Written in the format of Kafka 0.10, alone and wrapped. The last brokers to take it are 3.9; they convert it."""
    plain = [_message(_now() + number, b"k%d" % number, b"v") for number in range(5)]
    alone = b"".join(struct.pack(">qi", number, len(each)) + each for number, each in enumerate(plain))
    wrapped = _message(_now(), None, batches.compress(alone, "gzip"), attributes=CODECS.index("gzip"))
    with _made(cluster, topic) as wire:
        for messages in (alone, struct.pack(">qi", len(plain) - 1, len(wrapped)) + wrapped):
            body = struct.pack(">hii", -1, 30_000, 1) + text_bytes(topic) + struct.pack(">iii", 1, 0, len(messages))
            answer = wire.ask_leader(topic, 0, _OLD_PRODUCE, body + messages)
            answer.skip(4)
            answer.text()
            _, _, code = answer.unpack(">iih")
            if code:
                raise RefusedError(f"producing old messages to {topic}", code)


ZOO: dict[str, Maker] = {
    # The slow one first: it waits for the cleaner while all others are made.
    "compacted": compacted,
    "codecs": codecs, "headers": headers, "nulls": nulls, "sizes": sizes, "timestamps": timestamps,
    "negative-timestamps": negative_timestamps, "transactions": transactions, "aborted-only": aborted_only,
    "open-transaction": open_transaction, "idempotent": idempotent, "log-append-time": log_append_time,
    "switched-time": switched_time, "late-start": late_start, "emptied": emptied, "empty": empty,
    "small-batches": small_batches, "large-batches": large_batches,
}  # fmt: skip


@contextmanager
def _made(
    cluster: Cluster, topic: str, settings: Mapping[str, str] | None = None, partitions: int = 1
) -> Iterator[Wire]:
    cluster.create_topic(topic, partitions, configs={"retention.ms": "-1", **(settings or {})})
    with _wire(cluster) as wire:
        yield wire


def _wire(cluster: Cluster) -> Wire:
    return Wire(cluster.client_properties())


@contextmanager
def _cleaner_in_a_hurry(cluster: Cluster) -> Iterator[None]:
    everyone = [str(broker.id) for broker in cluster.brokers]
    _alter(cluster, ConfigResourceType.BROKER, everyone, {_CLEANER_PAUSE: "100"})
    try:
        yield
    finally:
        _alter(cluster, ConfigResourceType.BROKER, everyone, {_CLEANER_PAUSE: ("DELETE", None)})


def _alter(cluster: Cluster, kind: ConfigResourceType, names: list[str], settings: Mapping[str, object]) -> None:
    with cluster.admin() as admin:
        admin.alter_configs([ConfigResource(kind, name, dict(settings)) for name in names])


def _delete(cluster: Cluster, topic: str, *, before: int) -> None:
    with cluster.admin() as admin:
        admin.delete_records({TopicPartition(topic, 0): before})


def _open_id(topic: str) -> str:
    return f"{topic}-open"


def _plain(count: int, words: str) -> list[Record]:
    now = _now()
    return [
        Record(now + each, b"key %d" % (each % 7), f"{words} {each}".encode(), ((b"from", words.encode()),))
        for each in range(count)
    ]


def _keyed(numbers: Iterable[int], words: str) -> list[Record]:
    return [Record(_now(), f"{words} {each}".encode(), b"%d" % each) for each in numbers]


def _noise(size: int) -> bytes:
    """The same every time, and nothing that compresses."""
    return random.Random(size).randbytes(size)  # noqa: S311


def _message(timestamp: int, key: bytes | None, value: bytes, attributes: int = 0) -> bytes:
    body = struct.pack(">bbq", 1, attributes, timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">I", zlib.crc32(body)) + body


def _now() -> int:
    return int(time.time() * 1000)
