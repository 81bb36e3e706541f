"""`make bench`: throughput, latency, CPU and memory of Twinlog and of the real MM2 (default and tuned settings).

All are measured in one run on the same brokers. Absolute figures mean little on a shared machine; compare within a run.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.entrypoint import Interrupts, exit_process, run_program

CASES = ("1kb", "100b", "compressed", "tiny", "tls", "latency", "many")
# Over an emulated long link; run only if they are named. `far` is all of them.
FAR_CASES = ("far-source", "far-one-partition", "far-lossy", "far-target")
KNOWN_CASES = (*CASES, *FAR_CASES, "far")
REPLICATORS = ("shipped", "tuned", "twinlog")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    named = f"default: {', '.join(CASES)}; `far`: {', '.join(FAR_CASES)}"
    parser.add_argument("cases", nargs="*", type=case, metavar="case", help=f"run only these cases ({named})")
    parser.add_argument("--case", action="append", choices=KNOWN_CASES, help="the same; repeatable")
    parser.add_argument(
        "--replicator", "--contender", action="append", choices=REPLICATORS, help="measure only this one; repeatable"
    )
    parser.add_argument("--records", type=int, help="records to replicate, per case and replicator")
    parser.add_argument("--minutes", type=float, help="duration of the latency measurement (default: 1)")
    parser.add_argument("--partitions", type=int, help="partitions in the case `many` (default: 2000)")
    parser.add_argument("--tasks", type=int, default=2, help="tasks of each replicator in the far cases (default: 2)")
    parser.add_argument("--quick", action="store_true", help="check that the bench works; the figures mean nothing")
    parser.add_argument("--verify", action="store_true", help="compare both logs record by record afterwards (slow)")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="file for the results (JSON)")
    given = parser.parse_args(arguments)

    def program(interrupts: Interrupts) -> int:
        from bench.run import Bench, Options  # noqa: PLC0415  (see lab.entrypoint)

        interrupts.imports_done()
        options = Options(
            selected([*given.cases, *(given.case or ())]),
            [each for each in REPLICATORS if each in (given.replicator or REPLICATORS)],
            given.records,
            given.minutes,
            given.partitions or (8 if given.quick else 2000),
            given.tasks,
            given.quick,
            given.verify or given.quick,
            given.out,
        )
        return Bench(options).run()

    return run_program(program)


def case(name: str) -> str:
    """A type, not `choices`: some versions of argparse compare those with the empty list when no case is given."""
    if name not in KNOWN_CASES:
        raise argparse.ArgumentTypeError(f"invalid choice: {name!r} (choose from {', '.join(KNOWN_CASES)})")
    return name


def selected(named: Sequence[str]) -> list[str]:
    """The cases to run, in their order: those that are named, else all but the far ones."""
    chosen = {*(named or CASES), *(FAR_CASES if "far" in named else ())}
    return [each for each in (*FAR_CASES, *CASES) if each in chosen]


if __name__ == "__main__":
    exit_process(main(sys.argv[1:]))
