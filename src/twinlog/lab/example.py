"""What the worked examples (examples/*/run.py) have in common: how they are entered and left, files that get the
addresses of clusters which exist, commands as processes of their own, and the proof that two logs are equal.

    def play(stage: Stage) -> None:
        us, eu = stage.lab.clusters("us", "eu")
        file = stage.fill(HERE / "mm2.properties", {"us-1:9092": us.bootstrap(), "eu-1:9092": eu.bootstrap()})
        twinlog = stage.twinlog("run", str(file))
        ...
        wait_until_equal(us, eu, {"orders": "us.orders"}, twinlog)
        twinlog.stop()
        prove(us, eu, {"orders": "us.orders"})

    if __name__ == "__main__":
        main(play, about=__doc__, seconds=30)

A play that returns has proven what it shows: exit code 0. What is wrong is a LabError, one line and exit code 1.
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

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command, TwinlogCommand
from twinlog.lab.compare import compare
from twinlog.lab.demo_door import Interrupts, enter, leave
from twinlog.lab.ends import Ends
from twinlog.lab.lab import Lab
from twinlog.lab.waiting import until

DRAIN_SECONDS = 400.0  # more than this, and something is broken
_ADDRESS = r"[\w.\-]"  # what may stand right before or behind an address that is part of a longer one


def say(text: str = "") -> None:
    print(text, flush=True)


C = TypeVar("C", bound=Command)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a play has. `folder` keeps the filled files and what commands said, for who wants to look afterwards."""

    lab: Lab
    folder: Path
    seconds: float  # how long there shall be traffic
    stack: ExitStack  # closed before the clusters go

    def fill(self, file: Path, addresses: Mapping[str, str]) -> Path:
        """A copy of the file in our folder, with these addresses in place of its own, and nothing else changed."""
        made = self.folder / file.name
        made.write_text(filled(file.read_text(), addresses, str(file)))
        return made

    def twinlog(
        self, *arguments: str | Path, name: str = "twinlog", env: Mapping[str, str] | None = None
    ) -> TwinlogCommand:
        """`twinlog ...`, started. Its log is NAME.log in our folder."""
        return self._started(TwinlogCommand(arguments, self._log(name), self.lab.folder / f"scratch-{name}", env))

    def command(self, name: str, *words: str | Path, env: Mapping[str, str] | None = None) -> Command:
        """Any other program, started. Its log is NAME.log in our folder."""
        return self._started(Command(name, words, self._log(name), env))

    def python(self, name: str, *words: str | Path, env: Mapping[str, str] | None = None) -> Command:
        """A Python program of the example, started: the script first, then its arguments."""
        return self.command(name, sys.executable, *words, env=env)

    def _log(self, name: str) -> Path:
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        return log

    def _started(self, command: C) -> C:
        say(f"$ {command}")
        self.stack.callback(command.kill)
        command.start()
        return command


def filled(text: str, addresses: Mapping[str, str], name: str = "the file") -> str:
    """The text with other addresses, whatever its format. Each must stand in it, or file and play have drifted apart.

    All are replaced at once, so a new address is never taken for an old one; `kafka1:9092` is not found in
    `kafka1:90921` or in `my-kafka1:9092`.
    """
    for each in addresses:
        if not re.search(_pattern([each]), text):
            raise LabError(f"{name} does not name {each}")
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
    """Until each remote topic (`topics` maps names on the source to names on the target) has as many records as its
    source, partition by partition, by the brokers' own count. An error if `command` ends, or the time is up.
    """
    with Ends(source) as ours, Ends(target) as theirs:
        until(
            lambda: all(ours.each(topic) == theirs.each(remote) for topic, remote in topics.items()),
            f"{', '.join(topics.values())} on {target.name} should have all records of {source.name}",
            seconds=seconds,
            failed=command.process.last_words if command else None,
            logs=command.process.quote if command else None,
        )


def prove(source: Cluster, target: Cluster, topics: Mapping[str, str], *, codecs: bool = True) -> int:
    """How many records both logs have, record by record the same; a LabError says where they differ."""
    total = 0
    for topic, remote in topics.items():
        found = compare(source.client_properties(), topic, target.client_properties(), remote, codecs=codecs)
        where = f"{topic} on {source.name} and {remote} on {target.name}"
        if found.differences:
            raise LabError(f"{where} differ: {found.differences[0]}")
        say(f"  {where}: {found.records:,} records, equal")
        total += found.records
    return total


def fetch(url: str, seconds: float = 10) -> str:
    """What a page of our own says; a LabError where it does not answer, or not with 200."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310  (always our own http address)
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError) as error:
        raise LabError(f"{url}: {error}") from error


def main(play: Callable[[Stage], None], *, about: str | None, seconds: float) -> NoReturn:
    """Plays, and ends the process. Clusters and commands are gone then, also after Ctrl-C."""
    home = Path(sys.argv[0]).resolve().parent
    parser = argparse.ArgumentParser(prog=f"examples/{home.name}/run.py", description=about)
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"how long there is traffic (default: {seconds:g})"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/examples") / home.name, help="for filled files and logs"
    )
    given = parser.parse_args()

    def program(interrupts: Interrupts) -> int:
        interrupts.loaded()
        began = time.monotonic()
        given.folder.mkdir(parents=True, exist_ok=True)
        with Lab() as lab, ExitStack() as stack:
            play(Stage(lab, given.folder, given.seconds, stack))
        say(f"\nproven in {time.monotonic() - began:.0f} s")
        return 0

    leave(enter(program))
    raise AssertionError  # it has left
