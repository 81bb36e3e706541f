"""Writes a generated day of EDGAR access logs, in the format of the SEC's log files: log20170630.csv with its header.

python sample_day.py --date 2017-06-30 --lines 100000 --folder input_logs
"""

import argparse
import calendar
import datetime as dt
from itertools import islice
from pathlib import Path

from lab.access_logs import HEADER, access_log

DAY_SECONDS = 86_400


def write_day(folder: Path, date: dt.date, lines: int, seed: int = 0) -> Path:
    """The file; the same date, number of lines and seed give the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"log{date:%Y%m%d}.csv"
    midnight = calendar.timegm(date.timetuple())
    # The times are random: the rate is high enough for the last line to be of the same day.
    entries = access_log(seed, midnight, rate=(1.02 * lines + 4 * lines**0.5 + 1) / DAY_SECONDS)
    with file.open("w") as out:
        out.write(f"{HEADER}\n")
        out.writelines(f"{line}\n" for _, line in islice(entries, lines))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--date", type=dt.date.fromisoformat, default=dt.date(2017, 6, 30))
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path("input_logs"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(write_day(given.folder, given.date, given.lines, given.seed))


if __name__ == "__main__":
    main()
