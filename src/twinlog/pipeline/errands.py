"""What may take long (connecting, metadata, finding a position) is done in threads beside the loop, never in it."""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

from twinlog.errors import TwinlogError
from twinlog.kafka.channel import Channel


class Errands:
    """`run(work, done)`: `work` in a thread, then `done(result, error)` in the loop's thread, by `finish`."""

    def __init__(self, threads: int) -> None:
        self._todo: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]] | None]
        self._todo = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Callable[[Any, Exception | None], None], Any, Exception | None]]
        self._done = queue.SimpleQueue()
        self._bell, self._ringer = socket.socketpair()
        self._closed = False
        self._bell.settimeout(0)
        self._ringer.settimeout(0)
        self._threads = [threading.Thread(target=self._work, name="errands", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def fileno(self) -> int:
        return self._bell.fileno()

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self._todo.put((work, done))

    def ring(self) -> None:
        """Wakes the loop; from any thread."""
        with contextlib.suppress(BlockingIOError):  # it rings already
            self._ringer.send(b"!")

    def finish(self) -> None:
        """In the loop's thread, when the bell rang."""
        with contextlib.suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass
        with contextlib.suppress(queue.Empty):
            while True:
                done, result, error = self._done.get_nowait()
                done(result, error)

    def close(self) -> None:
        for _ in self._threads:  # they are daemons: one that waits for a deaf broker need not be waited for
            self._todo.put(None)
        self._bell.close()
        self._ringer.close()
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        """What came back too late: a connection that nobody wants any more must not stay open."""
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(result := self._done.get_nowait()[1], Channel):
                    result.close()

    def _work(self) -> None:
        while (errand := self._todo.get()) is not None:
            work, done = errand
            try:
                self._done.put((done, work(), None))
            except (TwinlogError, OSError) as error:
                self._done.put((done, None, error))
            except Exception as error:  # noqa: BLE001  # a mistake of ours must reach the loop, not end a thread in silence
                self._done.put((done, None, error))
            with contextlib.suppress(OSError):
                self.ring()
            if self._closed:
                self._drop()
