"""Start and exit of `make demo`, `make bench` and the examples: Ctrl-C cleans up at any time, without a stack trace.

Imports nothing slow: Ctrl-C must also work while Kafka's clients are being imported.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from lab.errors import LabError
from twinlog.errors import TwinlogError

INTERRUPTED = 130


class Interrupts:
    """Handles Ctrl-C (SIGINT).

    During imports there is nothing to clean up: the process exits at once. Between `defer` and `raise_again` the first
    Ctrl-C only sets `requested`. Otherwise it raises KeyboardInterrupt, and further ones are ignored during cleanup.
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._deferred = self._imported = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self._imported:
            os.write(2, b"\n")
            os._exit(INTERRUPTED)
        if self._deferred and not self.requested.is_set():
            self.requested.set()
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    def imports_done(self) -> None:
        self._imported = True

    def defer(self) -> None:
        self._deferred = True

    def raise_again(self) -> None:
        self._deferred = False


def run_program(program: Callable[[Interrupts], int]) -> int:
    """The exit code. `program` imports what it needs, then calls `imports_done`."""
    interrupts = Interrupts()
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        return program(interrupts)
    except (LabError, TwinlogError) as error:
        print(f"twinlog: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted; the clusters are removed", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def exit_process(code: int) -> None:
    """Exits; ignores Ctrl-C while Python shuts down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
