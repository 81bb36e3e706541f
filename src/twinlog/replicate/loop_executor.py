"""Runs blocking work (connecting, metadata, recovery) in threads, and hands the results to the event loop."""

import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

from twinlog.errors import TwinlogError
from twinlog.kafka.blocking_connection import BlockingConnection


class LoopExecutor:
    """`run(work, done)` calls `work()` in a thread, then `done(result, error)` in the loop's thread (by `finish`)."""

    def __init__(self, threads: int) -> None:
        self._todo: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]] | None]
        self._todo = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Callable[[Any, Exception | None], None], Any, Exception | None]]
        self._done = queue.SimpleQueue()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._closed = False
        self._wake_receiver.settimeout(0)
        self._wake_sender.settimeout(0)
        self._threads = [threading.Thread(target=self._work, name="loop-executor", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def fileno(self) -> int:
        return self._wake_receiver.fileno()

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        self._todo.put((work, done))

    def post(self, result: Any, done: Callable[[Any], None]) -> None:
        """From any thread: `done(result)` in the loop's thread. Lets `work` deliver partial results."""
        self._done.put((lambda some, _: done(some), result, None))
        with contextlib.suppress(OSError):
            self.wake()

    def wake(self) -> None:
        """Wakes the loop; from any thread."""
        with contextlib.suppress(BlockingIOError):  # a wake-up is pending already
            self._wake_sender.send(b"!")

    def finish(self) -> None:
        """In the loop's thread, when `fileno` is readable."""
        with contextlib.suppress(BlockingIOError):
            while self._wake_receiver.recv(4096):
                pass
        with contextlib.suppress(queue.Empty):
            while True:
                done, result, error = self._done.get_nowait()
                done(result, error)

    def close(self) -> None:
        for _ in self._threads:  # not joined: they are daemons, and a broker may not respond
            self._todo.put(None)
        self._wake_receiver.close()
        self._wake_sender.close()
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        """Closes connections that were opened too late to be used."""
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(result := self._done.get_nowait()[1], BlockingConnection):
                    result.close()

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            work, done = task
            try:
                self._done.put((done, work(), None))
            except (TwinlogError, OSError) as error:
                self._done.put((done, None, error))
            except Exception as error:  # noqa: BLE001  # a bug must reach the loop, not end the thread silently
                self._done.put((done, None, error))
            with contextlib.suppress(OSError):
                self.wake()
            if self._closed:
                self._drop()
