"""`make bench`: what moving records costs, measured on this machine, in one run, on the same brokers.

The real MM2, as shipped and tuned, and Twinlog. Absolute figures say little on a shared machine; compare within one
run.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from twinlog.lab.demo_door import Interrupts, enter, leave

CASES = ("1kb", "100b", "compressed", "tiny", "tls", "latency", "many")
CONTENDERS = ("shipped", "tuned", "twinlog")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--case", action="append", choices=CASES, help="only this one; may be repeated")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="only this one; may be repeated")
    parser.add_argument("--records", type=int, help="how many each contender copies, per case")
    parser.add_argument("--minutes", type=float, help="how long latency is measured (default: 1)")
    parser.add_argument("--partitions", type=int, help="how many are many (default: 2000)")
    parser.add_argument("--quick", action="store_true", help="so little of everything that the figures mean nothing")
    parser.add_argument("--verify", action="store_true", help="compare all that was copied, record by record (slow)")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    given = parser.parse_args(arguments)

    def program(interrupts: Interrupts) -> int:
        from twinlog.lab.bench_run import Wanted, bench  # noqa: PLC0415  (see demo_door)

        interrupts.loaded()
        return bench(
            Wanted(
                [each for each in CASES if each in (given.case or CASES)],
                [each for each in CONTENDERS if each in (given.contender or CONTENDERS)],
                given.records,
                given.minutes,
                given.partitions or (8 if given.quick else 2000),
                given.quick,
                given.verify or given.quick,
                given.out,
            )
        )

    return enter(program)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
