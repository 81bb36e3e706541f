"""How `make demo` and `make bench` are entered and left: Ctrl-C at any moment ends in order, without a stack trace.

Nothing heavy is imported here: a person may change their mind while Kafka's clients are still being loaded.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from twinlog.errors import TwinlogError

INTERRUPTED = 130


class Interrupts:
    """What Ctrl-C means now.

    While things are imported there is nothing to clean up: out at once. Between `soft` and `hard`, the first Ctrl-C
    only sets `asked`. Any other ends the program; while it cleans up it is not disturbed again.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._soft = self._loaded = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self._loaded:
            os.write(2, b"\n")
            os._exit(INTERRUPTED)
        if self._soft and not self.asked.is_set():
            self.asked.set()
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    def loaded(self) -> None:
        self._loaded = True

    def soft(self) -> None:
        self._soft = True

    def hard(self) -> None:
        self._soft = False


def enter(program: Callable[[Interrupts], int]) -> int:
    """The exit code. `program` imports what it needs, then says `loaded`."""
    interrupts = Interrupts()
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        return program(interrupts)
    except TwinlogError as error:
        print(f"twinlog: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; the clusters are gone", file=sys.stderr)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def leave(code: int) -> None:
    """Ends the process; Python's own last steps are not interrupted either."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
