"""`make demo`: two real clusters, a stream of access-log lines, and `twinlog run` between them, live in the terminal.

It ends by itself after a while, or on Ctrl-C, and then proves that both logs are equal, record by record.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from twinlog.lab.demo_door import Interrupts, enter, leave


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if both logs are equal in the end."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=50.0, help="how long there is traffic (default: 50)")
    parser.add_argument("--rate", type=int, default=2000, help="records a second (default: 2000)")
    parser.add_argument("--history", type=int, default=300_000, help="records before that (default: 300000)")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="for mm2.properties and the log")
    given = parser.parse_args(arguments)

    def program(interrupts: Interrupts) -> int:
        from twinlog.lab.demo_stage import Play, perform  # noqa: PLC0415  (see demo_door)

        interrupts.loaded()
        return perform(Play(given.seconds, given.rate, given.history, given.folder), interrupts)

    return enter(program)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
