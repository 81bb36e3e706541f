"""A program as a user runs it: a process of its own, with all that it says in a log, ended with SIGTERM."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlog.errors import LabError
from twinlog.lab.process import Process
from twinlog.lab.waiting import until

START_SECONDS = 400.0  # more than this, and something is broken
STOP_SECONDS = 90.0  # far more than a command takes to end; then it is killed, and that is an error


class Command:
    """A program in a process of its own; `log` has all that it says. It never outlives us."""

    def __init__(self, name: str, words: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = Process(name, log)
        self._words, self._env = [str(word) for word in words], dict(env or {})

    def __str__(self) -> str:
        """As one would type it, here."""
        return " ".join([Path(self._words[0]).name, *map(_shown, self._words[1:])])

    def start(self) -> None:
        self.process.log.parent.mkdir(parents=True, exist_ok=True)
        self.process.launch(self._words, env=self._env)

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def said(self) -> str:
        return self.process.log.read_text(errors="replace") if self.process.log.exists() else ""

    def check(self) -> None:
        """Raises what it said if it has ended by itself."""
        if reason := self.process.last_words():
            raise LabError(reason)

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Until it has said so."""
        until(
            lambda: text in self.said,
            f"{self.name} should say {text!r}",
            seconds=seconds,
            failed=self.process.last_words,
            logs=self.process.quote,
        )

    def finish(self, seconds: float = START_SECONDS) -> str:
        """What it said, once it has ended by itself, which must be with exit code 0."""
        code = self.process.wait(seconds)
        if code is None:
            raise LabError(f"{self.name} still runs after {seconds:.0f} s{self.process.quote()}")
        if code:
            raise LabError(f"{self.name} ended with exit code {code}{self.process.quote()}")
        return self.said

    def stop(self) -> float:
        """Seconds that it took to end after SIGTERM; an error if it had to be killed or did not end well."""
        self.check()
        began = time.monotonic()
        self.process.stop(STOP_SECONDS)
        if self.process.exit_code:
            raise LabError(
                f"{self.name} did not end well: exit code {self.process.exit_code}, after SIGTERM{self.process.quote()}"
            )
        return time.monotonic() - began

    def kill(self) -> None:
        self.process.kill()


class TwinlogCommand(Command):
    """`twinlog ...` as a user runs it. `scratch` is where it keeps what it needs while it runs: in a lab's folder,
    which is swept even after kill -9.
    """

    def __init__(
        self, arguments: Sequence[str | Path], log: Path, scratch: Path, env: Mapping[str, str] | None = None
    ) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        words = [Path(sys.executable).with_name("twinlog"), *arguments]
        super().__init__(f"twinlog {arguments[0]}", words, log, {"TMPDIR": str(scratch), **(env or {})})


def _shown(word: str) -> str:
    path = Path(word)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else word
