"""Runs jobs in parallel, with a time limit: a host that drops packets must not block the others."""

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_MAX_THREADS: Final = 32


def run_parallel(work: Mapping[K, Callable[[], T]], seconds: float) -> dict[K, T]:
    """The results of the jobs that end in time. The threads of the others are abandoned: a DNS lookup cannot be
    interrupted, and daemon threads, unlike those of a ThreadPoolExecutor, do not keep the program from exiting.
    """
    futures: dict[K, Future[T]] = {key: Future() for key in work}
    waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
    for key in work:
        waiting.put(key)

    def run_jobs() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                key = waiting.get_nowait()
                try:
                    futures[key].set_result(work[key]())
                except BaseException as error:  # noqa: BLE001  # raised below
                    futures[key].set_exception(error)

    for _ in range(min(_MAX_THREADS, len(work))):
        threading.Thread(target=run_jobs, name="doctor", daemon=True).start()
    rounds = -(-len(work) // _MAX_THREADS)
    wait(futures.values(), seconds * rounds, FIRST_EXCEPTION)
    return {key: future.result() for key, future in futures.items() if future.done()}
