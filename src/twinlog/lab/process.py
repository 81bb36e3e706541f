"""A child process that never outlives us: not after Ctrl-C, not after kill -9 of this process.

Ordinary endings go through `stop` and `kill`. For all others there is one guardian (guardian.py) per parent, started
with the first child, which kills and sweeps as soon as the parent's end of a pipe closes.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from twinlog.errors import LabError
from twinlog.lab.waiting import until

# The child waits for one line before it becomes the command: by then the guardian knows it. Had the parent died in
# between, the child reads the end of file and goes away, so there is no moment at which it could be orphaned.
_GATE = 'read -r go && exec "$@" <"$0"'


class Guardian:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def hold_process(self, process: int) -> None:
        self._tell(f"+ process {process}")

    def drop_process(self, process: int) -> None:
        self._tell(f"- process {process}")

    def hold_folder(self, folder: Path) -> None:
        self._tell(f"+ folder {folder}")

    def drop_folder(self, folder: Path) -> None:
        self._tell(f"- folder {folder}")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._pipe is None:
                self._start()
            try:
                os.write(self._pipe or 0, f"{line}\n".encode())
            except BrokenPipeError as error:
                if line.startswith("+"):
                    raise LabError("the lab's guardian process was killed: brokers would be orphaned") from error

    def _start(self) -> None:
        theirs, ours = os.pipe()
        script = Path(__file__).with_name("guardian.py")
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(script)],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(theirs)
        self._pipe = ours
        atexit.register(self._finish)
        # A forked worker would keep the pipe open, and the guardian waiting, after we are dead.
        os.register_at_fork(after_in_child=self._forget)

    def _finish(self) -> None:
        """We exit: what is still held goes now, and we see it gone."""
        with self._lock:
            if self._pipe is not None and self._process is not None:
                os.close(self._pipe)
                self._pipe = None
                self._process.wait()

    def _forget(self) -> None:
        self._lock = threading.Lock()  # its holder may not exist in the child
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = self._process = None


guardian = Guardian()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Gone afterwards, also after kill -9."""
    folder = Path(tempfile.mkdtemp(prefix="twinlog-"))
    guardian.hold_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        guardian.drop_folder(folder)


class Process:
    """One command. What it prints goes to `log` (its standard error to `errors`, if named); a restart appends."""

    def __init__(self, name: str, log: Path, errors: Path | None = None) -> None:
        self.name = name
        self.log = log
        self._errors = errors or log
        self._popen: subprocess.Popen[bytes] | None = None
        self._held = False

    def launch(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, stdin: Path = Path(os.devnull)
    ) -> None:
        if self.alive:
            raise LabError(f"{self.name} is already running (pid {self.pid})")
        with self.log.open("ab") as log, self._errors.open("ab") as errors:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, str(stdin), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=errors,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C is ours to handle: it must not reach children first
            )
        gate = self._popen.stdin
        assert gate is not None
        guardian.hold_process(self._popen.pid)
        self._held = True
        gate.write(b"go\n")
        gate.close()

    @property
    def pid(self) -> int | None:
        return self._popen.pid if self._popen else None

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it ever ran."""
        if self._popen is None:
            return None
        code = self._popen.poll()
        if code is not None and self._held:
            self._held = False
            guardian.drop_process(self._popen.pid)  # once: the system may give the number to another process
        return code

    @property
    def alive(self) -> bool:
        return self._popen is not None and self.exit_code is None

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after that time."""
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.exit_code

    def wait_until_up(self, is_up: Callable[[], bool], seconds: float) -> None:
        """Returns once `is_up`; if it ends before, or the time is up, the error has the end of its log."""
        until(is_up, f"starting {self.name}", seconds=seconds, failed=self.last_words, logs=self.quote)

    def stop(self, patience: float = 30) -> None:
        """Asks it to end (SIGTERM); kills it if it does not."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused process would not hear the first
        self.wait(patience)
        self._destroy()

    def kill(self) -> None:
        self._destroy()

    def _destroy(self) -> None:
        self.signal(signal.SIGKILL)
        if self._popen is not None:
            self._popen.wait()
            _ = self.exit_code

    def pause(self) -> None:
        """It keeps its sockets and its memory, and does nothing at all: to others it looks like a dead network."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        if self.alive and self._popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def last_words(self) -> str | None:
        """If it ended: one line that says so, and the end of its log."""
        return None if self.exit_code is None else f"{self.name} ended with exit code {self.exit_code}{self.quote()}"

    def quote(self) -> str:
        """The end of the log, to be put behind the first line of an error."""
        return f"; its log is {self.log} and ends with:\n{self.tail()}"

    def tail(self, lines: int = 25) -> str:
        return tail(self.log, lines)


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log, which may be large."""
    try:
        with log.open("rb") as content:
            content.seek(max(0, log.stat().st_size - 64 * 1024))
            text = content.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
