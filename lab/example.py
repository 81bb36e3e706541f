"""Common parts of the worked examples (examples/*/run.py).

    def run(example: Example) -> None:
        us, eu = example.lab.clusters("us", "eu")
        file = example.fill(HERE / "mm2.properties", {"us-1:9092": us.bootstrap(), "eu-1:9092": eu.bootstrap()})
        twinlog = example.twinlog("run", str(file))
        ...
        wait_until_equal(us, eu, {"orders": "us.orders"}, twinlog)
        twinlog.stop()
        verify_equal(us, eu, {"orders": "us.orders"})

    if __name__ == "__main__":
        main(run, about=__doc__, seconds=30)

An example that returns has verified its result: exit code 0. A LabError is printed, with exit code 1.
"""

import argparse
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from lab.cluster import Cluster
from lab.command import Command, TwinlogCommand
from lab.compare_logs import compare
from lab.end_offsets import EndOffsets
from lab.entrypoint import Interrupts, exit_process, run_program
from lab.errors import LabError
from lab.lab import Lab
from lab.waiting import until

DRAIN_SECONDS = 400.0
_ADDRESS = r"[\w.\-]"  # next to a match: the match is only part of a longer address


def echo(text: str = "") -> None:
    print(text, flush=True)


C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Example:
    """`folder` contains the filled files and the commands' logs; it is kept."""

    lab: Lab
    folder: Path
    seconds: float  # duration of the traffic
    stack: ExitStack  # closed before the clusters

    def fill(self, file: Path, addresses: Mapping[str, str]) -> Path:
        """A copy of the file in `folder`, in which only these addresses are replaced."""
        copy = self.folder / file.name
        copy.write_text(filled(file.read_text(), addresses, str(file)))
        return copy

    def twinlog(
        self, *arguments: str | Path, name: str = "twinlog", env: Mapping[str, str] | None = None
    ) -> TwinlogCommand:
        """Starts `twinlog ...`, with its output in NAME.log."""
        return self._started(TwinlogCommand(arguments, self._log(name), self.lab.folder / f"scratch-{name}", env))

    def command(self, name: str, *command: str | Path, env: Mapping[str, str] | None = None) -> Command:
        """Starts another command, with its output in NAME.log."""
        return self._started(Command(name, command, self._log(name), env))

    def python(self, name: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Command:
        """Starts a Python script of the example: its path, then its arguments."""
        return self.command(name, sys.executable, *arguments, env=env)

    def _log(self, name: str) -> Path:
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        return log

    def _started(self, command: C) -> C:
        echo(f"$ {command}")
        self.stack.callback(command.kill)
        command.start()
        return command


def filled(text: str, addresses: Mapping[str, str], name: str = "the file") -> str:
    """Replaces addresses in a file of any format. Each of them must occur in it.

    All are replaced in one pass, so a new address is never replaced again; `kafka1:9092` does not match
    `kafka1:90921` or `my-kafka1:9092`.
    """
    for each in addresses:
        if not re.search(_pattern([each]), text):
            raise LabError(f"{name}: address {each} not found")
    return re.sub(_pattern(addresses), lambda found: addresses[found[0]], text)


def _pattern(addresses: Iterable[str]) -> str:
    longest_first = sorted(addresses, key=len, reverse=True)
    return rf"(?<!{_ADDRESS})(?:{'|'.join(map(re.escape, longest_first))})(?!{_ADDRESS})"


def wait_until_equal(
    source: Cluster,
    target: Cluster,
    topics: Mapping[str, str],
    command: Command | None = None,
    *,
    seconds: float = DRAIN_SECONDS,
) -> None:
    """Waits until each partition of the remote topics has the same end offset as on the source. `topics` maps names on
    the source to names on the target. An error if `command` exits, and on timeout.
    """
    with EndOffsets(source) as ours, EndOffsets(target) as theirs:
        until(
            lambda: all(ours.each(topic) == theirs.each(remote) for topic, remote in topics.items()),
            f"waiting for all records of {source.name} in {', '.join(topics.values())} on {target.name}",
            seconds=seconds,
            failed=command.process.exit_report if command else None,
            logs=command.process.log_excerpt if command else None,
        )


def verify_equal(source: Cluster, target: Cluster, topics: Mapping[str, str], *, codecs: bool = True) -> int:
    """The number of records, if both logs are equal record by record; else a LabError with the first difference."""
    total = 0
    for topic, remote in topics.items():
        found = compare(source.client_properties(), topic, target.client_properties(), remote, codecs=codecs)
        where = f"{topic} on {source.name} and {remote} on {target.name}"
        if found.differences:
            raise LabError(f"{where} differ: {found.differences[0]}")
        echo(f"  {where}: {found.records:,} records, equal")
        total += found.records
    return total


def fetch(url: str, seconds: float = 10) -> str:
    """The response body; a LabError if there is no response, or its status is an error."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:  # noqa: S310  (always our own http address)
            return str(response.read().decode())
    except (urllib.error.URLError, OSError) as error:
        raise LabError(f"{url}: {error}") from error


def main(run: Callable[[Example], None], *, about: str | None, seconds: float) -> NoReturn:
    """Runs an example and exits. Clusters and commands are stopped, also after Ctrl-C."""
    home = Path(sys.argv[0]).resolve().parent
    parser = argparse.ArgumentParser(prog=f"examples/{home.name}/run.py", description=about)
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"duration of the traffic (default: {seconds:g})"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/examples") / home.name, help="folder for filled files and logs"
    )
    options = parser.parse_args()

    def program(interrupts: Interrupts) -> int:
        interrupts.imports_done()
        began = time.monotonic()
        options.folder.mkdir(parents=True, exist_ok=True)
        with Lab() as lab, ExitStack() as stack:
            run(Example(lab, options.folder, options.seconds, stack))
        echo(f"\nverified in {time.monotonic() - began:.0f} s")
        return 0

    exit_process(run_program(program))
    raise AssertionError  # not reached
