"""Work that is done side by side, and given up when it takes too long: a host that swallows packets holds up nobody."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_MOST: Final = 32  # threads


def side_by_side(work: Mapping[K, Callable[[], T]], seconds: float) -> dict[K, T]:
    """The results of those that ended within `seconds` of their start. Threads of the others are left to themselves:
    a name server that does not answer cannot be interrupted, and they do not keep the program from ending.
    """
    return _Round(work, seconds).run()


class _Round(Generic[K, T]):
    def __init__(self, work: Mapping[K, Callable[[], T]], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
        for key in work:
            self._waiting.put(key)
        self._ended: queue.SimpleQueue[tuple[K, T | None, BaseException | None]] = queue.SimpleQueue()

    def run(self) -> dict[K, T]:
        for _ in range(min(_MOST, len(self._work))):
            threading.Thread(target=self._labour, name="doctor", daemon=True).start()
        rounds = -(-len(self._work) // _MOST)
        deadline = time.monotonic() + self._seconds * rounds
        found: dict[K, T] = {}
        for _ in self._work:
            try:
                key, result, error = self._ended.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if error is not None:
                raise error
            found[key] = result  # type: ignore[assignment]
        return {key: found[key] for key in self._work if key in found}

    def _labour(self) -> None:
        while True:
            try:
                key = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._ended.put((key, self._work[key](), None))
            except BaseException as error:  # noqa: BLE001  # whoever waits shall have it
                self._ended.put((key, None, error))
