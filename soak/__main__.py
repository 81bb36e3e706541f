"""`make soak`: random faults of every kind while `twinlog run` replicates between two real clusters of three brokers.

Exit code 0: no findings; 3: findings. See docs/soak.md.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.entrypoint import Interrupts, exit_process, run_program


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration of the faults (default: 10)")
    parser.add_argument("--faults", type=int, help="end after so many faults, if that is earlier")
    parser.add_argument("--seed", type=int, help="repeat the faults of an earlier run (default: random; it is printed)")
    parser.add_argument("--rate", type=float, default=300.0, help="records per second (default: 300)")
    parser.add_argument("--longest", type=float, default=8.0, help="longest fault in seconds (default: 8)")
    parser.add_argument("--report", type=Path, help="write the report to FILE.json and FILE.md")
    parser.add_argument("--logs", type=Path, default=Path("build/soak"), help="folder for the logs of twinlog run")
    given = parser.parse_args(arguments)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)

    def program(interrupts: Interrupts) -> int:
        from soak.disk import separate_mounts  # noqa: PLC0415  (see lab.entrypoint)

        no_disk = separate_mounts()
        from soak.run import Options, Soak  # noqa: PLC0415

        interrupts.imports_done()
        interrupts.defer()
        command = f'make soak ARGS="--seed {seed} --minutes {given.minutes:g}"'
        options = Options(
            seed,
            given.minutes,
            given.faults,
            given.rate,
            given.longest,
            given.report,
            given.logs,
            command,
            no_disk,
        )
        return Soak(options, interrupts.requested.is_set).run()

    return run_program(program)


if __name__ == "__main__":
    exit_process(main(sys.argv[1:]))
