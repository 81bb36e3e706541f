"""Writes offset syncs, source offsets, positions and reports in background threads.

A record that cannot be written now is retried; of several pending values for one key only the newest is written.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client
from twinlog.kafka.records import Headers, encode
from twinlog.model import TopicPartition

_BATCH_BYTES: Final = 256 * 1024
_OVERHEAD: Final = 16  # bytes of a record besides its content
_COMPACT_ABOVE: Final = 20_000  # pending records of a partition, above which superseded ones are dropped
_MAX_BYTES: Final = 8 << 20  # pending for one partition, besides the newest record of each key


@dataclass(frozen=True, slots=True)
class PendingRecord:
    side: str  # source or target
    tp: TopicPartition
    key: bytes | None
    value: bytes
    headers: Headers = ()
    replaces: bool = True  # drop pending records of the same key

    @property
    def size(self) -> int:
        return len(self.value) + len(self.key or b"") + _OVERHEAD + sum(len(n) + len(v or b"") for n, v in self.headers)


class BackgroundWriter:
    """One thread per cluster: an unreachable cluster does not block writes to the other."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._writers = {side: _Writer(client) for side, client in clients.items()}

    @property
    def error(self) -> str:
        """Of the last attempt; empty if it succeeded."""
        return next((writer.error for writer in self._writers.values() if writer.error), "")

    def put(self, records: Iterable[PendingRecord]) -> None:
        by_side: dict[str, list[PendingRecord]] = {}
        for record in records:
            by_side.setdefault(record.side, []).append(record)
        for side, some in by_side.items():
            self._writers[side].put(some)

    def supersede(self, records: Iterable[PendingRecord], seconds: float) -> bool:
        """Drops pending records (to the target) with the keys of `records`, which the caller writes itself.

        False: a write to the same partition is in progress and did not end in time.
        """
        return self._writers["target"].supersede({(record.tp, record.key) for record in records}, seconds)

    def is_waiting(self, tp: TopicPartition) -> bool:
        """Whether records for this partition of the target are still pending."""
        return self._writers["target"].is_waiting(tp)

    def flush(self, seconds: float) -> bool:
        """Whether everything was written in time. From now on retries are not delayed for long."""
        for writer in self._writers.values():
            writer.hurry()
        deadline = time.monotonic() + seconds
        flushed = [writer.flushed(deadline) for writer in self._writers.values()]
        return all(flushed)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class _Writer:
    """Writes to one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client  # used by this thread only
        self._lock = threading.Condition()
        self._pending: dict[TopicPartition, list[PendingRecord]] = {}
        self._writing: frozenset[TopicPartition] = frozenset()
        self._closing = False
        self._hurry = False
        self.error = ""
        threading.Thread(target=self._work, name="background-writer", daemon=True).start()

    def put(self, records: list[PendingRecord]) -> None:
        with self._lock:
            for record in records:
                self._pending.setdefault(record.tp, []).append(record)
            for tp in {record.tp for record in records}:
                if len(self._pending[tp]) > _COMPACT_ABOVE:
                    self._pending[tp] = newest(self._pending[tp])
            self._lock.notify_all()

    def supersede(self, keys: set[tuple[TopicPartition, bytes | None]], seconds: float) -> bool:
        tps = {tp for tp, _ in keys}
        with self._lock:
            if not self._lock.wait_for(lambda: not tps & self._writing, seconds):
                return False
            for tp in tps & self._pending.keys():
                kept = [record for record in self._pending.pop(tp) if (tp, record.key) not in keys]
                if kept:
                    self._pending[tp] = kept
        return True

    def is_waiting(self, tp: TopicPartition) -> bool:
        return tp in self._pending or tp in self._writing

    def hurry(self) -> None:
        with self._lock:
            self._hurry = True
            self._lock.notify_all()

    def flushed(self, deadline: float) -> bool:
        with self._lock:
            left = max(deadline - time.monotonic(), 0)
            return self._lock.wait_for(lambda: not self._pending and not self._writing, left)

    def close(self) -> None:
        with self._lock:
            self._closing = True  # not joined: the thread is a daemon, and its broker may not respond
            self._lock.notify_all()

    def _work(self) -> None:
        pause = 0.1
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pending or self._closing)
                if self._closing:
                    break
                pending, self._pending = self._pending, {}
                self._writing = frozenset(pending)
            left = {tp: records for tp, records in pending.items() if not self._write(tp, records)}
            with self._lock:
                for tp, records in left.items():
                    self._pending[tp] = newest([*records, *self._pending.get(tp, [])])
                self._writing = frozenset()
                self._lock.notify_all()
                if not left:
                    pause, self.error = 0.1, ""
                elif self._hurry:
                    self._lock.wait(0.1)
                else:
                    self._lock.wait_for(lambda: self._closing or self._hurry, pause)
                    pause = min(pause * 2, 5.0)
        self._client.close()

    def _write(self, tp: TopicPartition, records: list[PendingRecord]) -> bool:
        now = int(time.time() * 1000)
        rest = newest(records)
        while rest:
            size = count = 0
            while count < len(rest) and (not count or size < _BATCH_BYTES):
                size += rest[count].size
                count += 1
            try:
                self._client.append(tp, encode([(now, n.key, n.value, n.headers) for n in rest[:count]]))
            except RefusedError as error:
                self.error = str(error)
                # An invalid record would be refused on every retry, so it is dropped.
                if error.code not in error_codes.BAD_RECORDS:
                    return False
            except (TwinlogError, OSError) as error:
                self.error = str(error)
                return False
            rest = rest[count:]
        return True


def newest(records: list[PendingRecord], max_bytes: int = _MAX_BYTES) -> list[PendingRecord]:
    """Without records that a later one of the same key replaces. Of the others the newest, up to `max_bytes`; the
    newest of each key in any case.
    """
    kept: list[PendingRecord] = []
    seen: set[bytes | None] = set()
    size = 0
    for record in reversed(records):
        if record.key in seen and (record.replaces or size + record.size > max_bytes):
            continue
        seen.add(record.key)
        size += record.size
        kept.append(record)
    kept.reverse()
    return kept
