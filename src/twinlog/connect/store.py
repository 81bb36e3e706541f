"""The worker's three topics: configurations, source offsets, states. Belongs to one thread at a time."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from twinlog.config.settings import WorkerSettings
from twinlog.connect.offsets import Offset, stored
from twinlog.connect.topics import Activity, Connectors, Entry
from twinlog.errors import ConfigError, RefusedError, TwinlogError
from twinlog.kafka import codes
from twinlog.kafka.client import Client
from twinlog.kafka.reading import TopicReader
from twinlog.kafka.records import Record
from twinlog.model import TopicPartition
from twinlog.tracking.murmur2 import partition_for
from twinlog.upkeep.internal import COMPACTED, PATIENT, ensure, write

_FAREWELL: Final = 3.0
_APPEARS: Final = 10.0
_AGAIN: Final = 1.0

T = TypeVar("T")


class Store:
    """Configurations are heard in order, from the first record on; others may write them, too."""

    def __init__(self, client: Client, settings: WorkerSettings) -> None:
        self._client = client
        self._settings = settings
        self._configs = TopicReader(client, settings.config_storage_topic)
        self.connectors = Connectors()
        self.activity = Activity()
        self.cluster_id: str | None = None

    def open(self) -> None:
        """Makes the topics that are missing, and reads what is there."""
        settings = self._settings
        self.cluster_id = self._client.metadata([]).cluster_id
        wanted = (
            ("config", settings.config_storage_topic, 1, settings.config_storage_replication_factor),
            (
                "offset",
                settings.offset_storage_topic,
                settings.offset_storage_partitions,
                settings.offset_storage_replication_factor,
            ),
            (
                "status",
                settings.status_storage_topic,
                settings.status_storage_partitions,
                settings.status_storage_replication_factor,
            ),
        )
        for kind, topic, partitions, factor in wanted:
            ensure(self._client, topic, partitions, factor, COMPACTED, f"{kind}.storage.replication.factor")
        topic = settings.config_storage_topic
        if (count := self._partitions(topic)) != 1:
            raise ConfigError(
                f"topic {topic} has {count} partitions, and the order of configurations would be lost: "
                "name another with config.storage.topic"
            )
        _patiently(self.catch_up)
        for record in self._read(settings.status_storage_topic):
            self.activity.hear(record.key, record.value)

    def catch_up(self) -> bool:
        """Whether something was new."""
        new = False
        for record in self._configs.read():
            new = True
            self.connectors.hear(record.key, record.value)
        return new

    def put(self, entries: Sequence[Entry]) -> None:
        """Writes configurations, and hears them as everybody else does."""
        now = int(time.time() * 1000)
        place = TopicPartition(self._settings.config_storage_topic, 0)
        write(self._client, place, [(now, *entry) for entry in entries], PATIENT)
        self.catch_up()

    def offsets(self, connector: str) -> list[Offset]:
        records = self._read(self._settings.offset_storage_topic)
        return stored(((record.key, record.value) for record in records), connector)

    def put_offsets(self, entries: Iterable[Entry]) -> None:
        put_keyed(self._client, self._settings.offset_storage_topic, entries)

    def _read(self, topic: str) -> list[Record]:
        return _patiently(lambda: list(TopicReader(self._client, topic).read()))

    def _partitions(self, topic: str) -> int:
        info = self._client.metadata([topic]).topics.get(topic)
        return len(info.leaders) if info is not None else 0


def _patiently(ask: Callable[[], T]) -> T:
    """A partition may have no leader for a moment, most of all when its topic was made just now."""
    deadline = time.monotonic() + _APPEARS
    while True:
        try:
            return ask()
        except RefusedError as error:
            if error.code not in codes.MOVED or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def put_keyed(client: Client, topic: str, entries: Iterable[Entry]) -> None:
    """Each where Kafka's partitioner would put it: readers know no other place of a key."""
    info = client.metadata([topic]).topics.get(topic)
    if info is None or info.error or not info.leaders:
        raise RefusedError(f"cluster {client.alias}: topic {topic} is not there", codes.UNKNOWN_TOPIC_OR_PARTITION)
    now = int(time.time() * 1000)
    by_place: dict[int, list[Entry]] = {}
    for key, value in entries:
        by_place.setdefault(partition_for(key, len(info.leaders)), []).append((key, value))
    for partition, some in by_place.items():
        write(client, TopicPartition(topic, partition), [(now, *entry) for entry in some], PATIENT)


class StatusWriter:
    """Writes states in a thread of its own: they are for others to look at, and nobody waits for them."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._entries: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="connect status", daemon=True)
        self._thread.start()

    def put(self, entries: list[Entry]) -> None:
        if entries:
            self._entries.put(entries)

    def close(self) -> None:
        self._entries.put(None)
        self._thread.join(_FAREWELL)

    def _work(self) -> None:
        pending: dict[bytes, bytes | None] = {}
        closing = False
        while not closing:
            with contextlib.suppress(queue.Empty):
                # What could not be written is tried again, with whatever is new by then.
                entries = self._entries.get(timeout=_AGAIN if pending else None)
                while entries is not None:
                    pending |= dict(entries)
                    entries = self._entries.get_nowait()
                closing = True
            with contextlib.suppress(TwinlogError, OSError):
                put_keyed(self._client, self._topic, pending.items())
                pending = {}
        self._client.close()
