"""MM2's small topics: made if they are missing, and written to."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from twinlog.errors import KafkaError, RefusedError
from twinlog.kafka import codes
from twinlog.kafka.client import Client, Metadata
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition

COMPACTED: Final = {"cleanup.policy": "compact"}
_APPEARS: Final = 10.0  # how long a new topic may take until every broker knows it
_BATCH_BYTES: Final = 256 * 1024
# Seconds between attempts to write: for what comes round again, and for what a run cannot do without.
BRIEF: Final = (0.1, 0.2, 0.4, 0.8)
PATIENT: Final = tuple(0.2 * attempt for attempt in range(1, 10))

Entry = tuple[int, bytes | None, bytes | None]  # timestamp, key, value


def ensure(client: Client, name: str, partitions: int, factor: int, configs: dict[str, str], key: str) -> None:
    """`key` is the setting that says how many replicas the topic gets."""
    info = client.metadata([name]).topics.get(name)
    if info is not None and not info.error:
        return
    try:
        client.create_topic(name, partitions, factor, configs)
    except RefusedError as error:
        if error.code == codes.INVALID_REPLICATION_FACTOR:
            raise RefusedError(f"{error}: set {key} to at most the number of brokers", error.code) from error
        raise
    appear(client, {name: partitions})


def appear(client: Client, partitions: Mapping[str, int]) -> Metadata:
    """Until each of the topics has so many partitions, all with leaders: what was made is not everywhere at once."""
    deadline = time.monotonic() + _APPEARS
    while True:
        metadata = client.metadata(sorted(partitions))
        ready = all(
            (info := metadata.topics.get(name)) is not None
            and not info.error
            and len(info.leaders) >= count
            and all(leader >= 0 for leader, _ in info.leaders.values())
            for name, count in partitions.items()
        )
        if ready or time.monotonic() > deadline:
            return metadata
        time.sleep(0.05)


def write(client: Client, place: TopicPartition, entries: Sequence[Entry], pauses: Sequence[float] = BRIEF) -> None:
    """Some may be there twice after an error: readers take the last one."""
    at = 0
    while at < len(entries):
        end, size = at, 0
        while end < len(entries) and (end == at or size < _BATCH_BYTES):
            size += len(entries[end][1] or b"") + len(entries[end][2] or b"") + 32
            end += 1
        _append(client, place, encode([(stamp, key, value, ()) for stamp, key, value in entries[at:end]]), pauses)
        at = end


def _append(client: Client, place: TopicPartition, batch: bytearray, pauses: Sequence[float]) -> None:
    for pause in pauses:
        try:
            client.append(place, batch)
        except KafkaError:
            time.sleep(pause)
        else:
            return
    client.append(place, batch)
