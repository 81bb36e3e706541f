"""Commands as a user runs them: each in its own process, with its output in a log, stopped by SIGTERM."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.process import Process
from lab.waiting import until

START_SECONDS = 400.0
STOP_SECONDS = 90.0  # far more than a command takes to stop


class Command:
    """A command in its own process; `log` contains its output."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.process = Process(name, log)
        self._command, self._env = [str(word) for word in command], dict(env or {})

    def __str__(self) -> str:
        """The command line, with paths relative to the working directory."""
        return " ".join([Path(self._command[0]).name, *map(_relative, self._command[1:])])

    def start(self) -> None:
        self.process.log.parent.mkdir(parents=True, exist_ok=True)
        self.process.launch(self._command, env=self._env)

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def output(self) -> str:
        return self.process.log.read_text(errors="replace") if self.process.log.exists() else ""

    def check(self) -> None:
        """Raises an error with the end of its log if it has exited."""
        if reason := self.process.exit_report():
            raise LabError(reason)

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Returns once its output contains the text."""
        until(
            lambda: text in self.output,
            f"waiting for {text!r} in the output of {self.name}",
            seconds=seconds,
            failed=self.process.exit_report,
            logs=self.process.log_excerpt,
        )

    def finish(self, seconds: float = START_SECONDS) -> str:
        """Waits until it exits, which must be with code 0, and returns its output."""
        code = self.process.wait(seconds)
        if code is None:
            raise LabError(f"{self.name} is still running after {seconds:.0f} s{self.process.log_excerpt()}")
        if code:
            raise LabError(f"{self.name} exited with code {code}{self.process.log_excerpt()}")
        return self.output

    def stop(self) -> float:
        """Stops it by SIGTERM and returns how many seconds that took; an error if the exit code is not 0."""
        self.check()
        began = time.monotonic()
        self.process.stop(STOP_SECONDS)
        if self.process.exit_code:
            raise LabError(
                f"{self.name} exited with code {self.process.exit_code} after SIGTERM{self.process.log_excerpt()}"
            )
        return time.monotonic() - began

    def kill(self) -> None:
        self.process.kill()


class TwinlogCommand(Command):
    """`twinlog ...` as a user runs it. `scratch` is its folder for temporary files: inside a lab's folder, which is
    removed even after kill -9.
    """

    def __init__(
        self, arguments: Sequence[str | Path], log: Path, scratch: Path, env: Mapping[str, str] | None = None
    ) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        command = [Path(sys.executable).with_name("twinlog"), *arguments]
        super().__init__(f"twinlog {arguments[0]}", command, log, {"TMPDIR": str(scratch), **(env or {})})


def _relative(word: str) -> str:
    path = Path(word)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else word
