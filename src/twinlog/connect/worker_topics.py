"""The worker's three topics: configurations, source offsets and statuses. Not thread-safe."""

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final

from twinlog.config.settings import WorkerSettings
from twinlog.connect.offset_requests import Offset, stored_offsets
from twinlog.connect.topic_records import Activity, Connectors, Entry
from twinlog.errors import ConfigError, TwinlogError
from twinlog.kafka.client import Client
from twinlog.kafka.records import Record
from twinlog.kafka.topic_reader import TopicReader
from twinlog.kafka.topic_writer import PATIENT, write, write_keyed
from twinlog.model import TopicPartition
from twinlog.sync.internal_topics import InternalTopic, ensure

_CLOSE_TIMEOUT_S: Final = 3.0
_RETRY_S: Final = 1.0


class WorkerTopics:
    """Reads configurations in order from the first record; other workers may write them, too."""

    def __init__(self, client: Client, settings: WorkerSettings) -> None:
        self._client = client
        self._settings = settings
        self._configs = TopicReader(client, settings.config_storage_topic)
        self.connectors = Connectors()
        self.activity = Activity()
        self.cluster_id: str | None = None

    @property
    def config_topic(self) -> str:
        return self._settings.config_storage_topic

    def open(self) -> None:
        """Creates missing topics, and reads their content."""
        settings = self._settings
        self.cluster_id = self._client.metadata([]).cluster_id
        wanted = {
            "config": (settings.config_storage_topic, 1, settings.config_storage_replication_factor),
            "offset": (
                settings.offset_storage_topic,
                settings.offset_storage_partitions,
                settings.offset_storage_replication_factor,
            ),
            "status": (
                settings.status_storage_topic,
                settings.status_storage_partitions,
                settings.status_storage_replication_factor,
            ),
        }
        for kind, each in wanted.items():
            ensure(self._client, InternalTopic("target", *each, f"{kind}.storage.replication.factor"))
        topic = settings.config_storage_topic
        if (count := self._partitions(topic)) != 1:
            raise ConfigError(
                f"config.storage.topic {topic}: has {count} partitions, but configurations need a single one to keep "
                "their order; set another topic"
            )
        self.catch_up()
        for record in self._read(settings.status_storage_topic):
            self.activity.on_record(record.key, record.value)

    def catch_up(self) -> bool:
        """Reads new records; False if there were none."""
        new = False
        for record in self._configs.read():
            new = True
            self.connectors.on_record(record.key, record.value)
        return new

    def put(self, entries: Sequence[Entry]) -> None:
        """Writes configurations, and reads them back like any other reader."""
        now = int(time.time() * 1000)
        tp = TopicPartition(self._settings.config_storage_topic, 0)
        write(self._client, tp, [(now, *entry) for entry in entries], PATIENT)
        self.catch_up()

    def offsets(self, connector: str) -> list[Offset]:
        records = self._read(self._settings.offset_storage_topic)
        return stored_offsets(((record.key, record.value) for record in records), connector)

    def put_offsets(self, entries: Iterable[Entry], topic: str = "") -> None:
        """`topic`: a connector's own offsets topic, instead of the worker's."""
        write_keyed(self._client, topic or self._settings.offset_storage_topic, entries)

    def _read(self, topic: str) -> list[Record]:
        return list(TopicReader(self._client, topic).read())

    def _partitions(self, topic: str) -> int:
        info = self._client.metadata([topic]).topics.get(topic)
        return len(info.leaders) if info is not None else 0


class KeyedWriter:
    """Writes keyed records to a topic in its own thread, for records that nothing here waits for. Retries until they
    are written; after `request_close`, for a few seconds.
    """

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._entries: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"writer {topic}", daemon=True)
        self._close_by = math.inf
        self._thread.start()

    def put(self, entries: list[Entry]) -> None:
        if entries:
            self._entries.put(entries)

    def request_close(self) -> None:
        """Without waiting."""
        self._close_by = time.monotonic() + _CLOSE_TIMEOUT_S
        self._entries.put(None)

    def close(self) -> None:
        """Waits until all records are written, or the time is over."""
        if self._close_by == math.inf:
            self.request_close()
        self._thread.join(max(self._close_by - time.monotonic(), 0))

    def _work(self) -> None:
        pending: dict[bytes, bytes | None] = {}
        closing = False
        while not closing or (pending and time.monotonic() < self._close_by):
            with contextlib.suppress(queue.Empty):
                # Records that could not be written are retried together with new ones.
                entries = self._entries.get(timeout=_RETRY_S if pending else None)
                while entries is not None:
                    pending |= dict(entries)
                    entries = self._entries.get_nowait()
                closing = True
            if pending:
                with contextlib.suppress(TwinlogError, OSError):
                    write_keyed(self._client, self._topic, pending.items())
                    pending = {}
        self._client.close()
