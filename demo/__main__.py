"""`make demo`: `twinlog run` between two real clusters with a stream of access-log lines, live in the terminal.

It ends after a while, or on Ctrl-C, and then compares both logs record by record.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.entrypoint import Interrupts, exit_process, run_program


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if both logs are equal in the end."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=50.0, help="duration of the traffic (default: 50)")
    parser.add_argument("--rate", type=int, default=2000, help="records per second (default: 2000)")
    parser.add_argument("--history", type=int, default=300_000, help="records produced before it (default: 300000)")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="folder for mm2.properties and the log")
    given = parser.parse_args(arguments)

    def program(interrupts: Interrupts) -> int:
        from demo.scenario import Demo, Options  # noqa: PLC0415  (see lab.entrypoint)

        interrupts.imports_done()
        return Demo(Options(given.seconds, given.rate, given.history, given.folder), interrupts).run()

    return run_program(program)


if __name__ == "__main__":
    exit_process(main(sys.argv[1:]))
