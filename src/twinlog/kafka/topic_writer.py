"""Writes to small topics, such as MM2's internal ones, with retries."""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Final

from kafka.partitioner.default import murmur2

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client
from twinlog.kafka.records import Headers, encode
from twinlog.model import TopicPartition

# Seconds between attempts: for records that are written periodically, and for those a flow cannot run without.
BRIEF: Final = (0.1, 0.2, 0.4, 0.8)
PATIENT: Final = tuple(0.2 * attempt for attempt in range(1, 10))
_BATCH_BYTES: Final = 256 * 1024

Entry = tuple[int, bytes | None, bytes | None]  # timestamp, key, value
EntryWithHeaders = tuple[int, bytes | None, bytes | None, Headers]


def append(
    client: Client,
    tp: TopicPartition,
    batch: bytes | bytearray,
    pauses: Iterable[float] = BRIEF,
    seconds: float = math.inf,
) -> int:
    """Appends a batch and returns its offset. After an error the batch may be in the log twice.

    Retries after each of the `pauses`, but not later than `seconds` after the call; then raises the last error.
    """
    deadline = time.monotonic() + seconds
    for pause in pauses:
        try:
            return client.append(tp, batch)
        except TwinlogError:  # also a ConfigError: a keystore may be in the middle of a replacement
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
    return client.append(tp, batch)


def write(
    client: Client, tp: TopicPartition, entries: Sequence[Entry | EntryWithHeaders], pauses: Sequence[float] = BRIEF
) -> None:
    """Appends records. After an error some may be in the log twice, so readers must use the last one of each key."""
    at = 0
    while at < len(entries):
        end, size = at, 0
        while end < len(entries) and (end == at or size < _BATCH_BYTES):
            size += len(entries[end][1] or b"") + len(entries[end][2] or b"") + 32
            end += 1
        append(client, tp, encode([_with_headers(each) for each in entries[at:end]]), pauses)
        at = end


def write_keyed(client: Client, topic: str, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Appends each key and value to the partition that Kafka's default partitioner assigns to the key."""
    info = client.metadata([topic]).topics.get(topic)
    if info is None or info.error or not info.leaders:
        raise RefusedError(
            f"cluster {client.alias}: topic {topic} is not available", error_codes.UNKNOWN_TOPIC_OR_PARTITION
        )
    now = int(time.time() * 1000)
    by_partition: dict[int, list[Entry]] = {}
    for key, value in entries:
        by_partition.setdefault(partition_for(key, len(info.leaders)), []).append((now, key, value))
    for partition, some in by_partition.items():
        write(client, TopicPartition(topic, partition), some, PATIENT)


def partition_for(key: bytes, count: int) -> int:
    """The partition that Kafka's default partitioner chooses among `count`, so that records replace those of MM2."""
    return int((murmur2(key) & 0x7FFFFFFF) % count)


def _with_headers(entry: Entry | EntryWithHeaders) -> EntryWithHeaders:
    return entry if len(entry) == 4 else (*entry, ())
