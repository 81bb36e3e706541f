"""Writes what is known beside the records: offset syncs, source offsets, cursors, reports. In a thread of its own.

What cannot be written now is written later; of several values for one key only the newest.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka import codes
from twinlog.kafka.client import Client
from twinlog.kafka.records import Headers, encode
from twinlog.model import TopicPartition

_BATCH_BYTES: Final = 256 * 1024
_MOST_ENTRIES: Final = 4096


@dataclass(frozen=True, slots=True)
class Note:
    """One record to be written."""

    side: str  # source or target
    place: TopicPartition
    key: bytes | None
    value: bytes
    headers: Headers = ()
    replaces: bool = True  # an earlier one of the same key, if that was not written yet


class Clerk:
    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients  # used by this thread only
        self._lock = threading.Condition()
        self._pending: dict[tuple[str, TopicPartition], list[Note]] = {}
        self._busy = False
        self._closing = False
        self._hurry = False
        self.error = ""  # of the last attempt; empty when it succeeded
        self._thread = threading.Thread(target=self._work, name="clerk", daemon=True)
        self._thread.start()

    def put(self, notes: list[Note]) -> None:
        if not notes:
            return
        with self._lock:
            for note in notes:
                self._pending.setdefault((note.side, note.place), []).append(note)
            self._lock.notify_all()

    def flush(self, seconds: float) -> bool:
        """Whether everything was written in time. From now on nothing is put off for long."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._hurry = True
            self._lock.notify_all()
            while (self._pending or self._busy) and (left := deadline - time.monotonic()) > 0:
                self._lock.wait(left)
            return not self._pending and not self._busy

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._thread.join(timeout=2)

    def _work(self) -> None:
        pause = 0.1
        while True:
            with self._lock:
                self._busy = False
                self._lock.notify_all()
                while not self._pending and not self._closing:
                    self._lock.wait()
                if self._closing:
                    break
                pending, self._pending = self._pending, {}
                self._busy = True
            left = {at: notes for at, notes in pending.items() if not self._written(at, notes)}
            if left:
                with self._lock:
                    for at, notes in left.items():
                        self._pending[at] = newest([*notes, *self._pending.get(at, [])])
                    self._busy = False
                    if self._hurry:
                        self._lock.wait(0.1)
                    else:
                        self._lock.wait_for(lambda: self._closing or self._hurry, pause)
                pause = min(pause * 2, 5.0)
            else:
                pause = 0.1
                self.error = ""
        for client in self._clients.values():
            client.close()

    def _written(self, at: tuple[str, TopicPartition], notes: list[Note]) -> bool:
        side, place = at
        now = int(time.time() * 1000)
        rest = newest(notes)
        while rest:
            size = count = 0
            while count < len(rest) and (not count or size < _BATCH_BYTES):
                size += len(rest[count].value) + len(rest[count].key or b"") + 16
                count += 1
            try:
                self._clients[side].append(place, encode([(now, n.key, n.value, n.headers) for n in rest[:count]]))
            except RefusedError as error:
                self.error = str(error)
                # A record that is refused for itself would be refused for ever.
                if error.code not in codes.BAD_RECORDS:
                    return False
            except (TwinlogError, OSError) as error:
                self.error = str(error)
                return False
            rest = rest[count:]
        return True


def newest(notes: list[Note]) -> list[Note]:
    """Without those that a later note of the same key replaces; of the others, the last few thousand."""
    kept: dict[object, Note] = {}
    others = 0
    for number, note in enumerate(notes):
        others += not note.replaces
        key: object = note.key if note.replaces else number
        kept.pop(key, None)
        kept[key] = note
    for key in [key for key, note in kept.items() if not note.replaces][: max(others - _MOST_ENTRIES, 0)]:
        del kept[key]
    return list(kept.values())
