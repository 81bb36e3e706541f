"""Child processes that never outlive this process, not even after Ctrl-C or kill -9.

Normally `stop` and `kill` end them. In all other cases a cleanup process (cleanup_process.py), started with the first
child, kills them and removes temporary folders as soon as this process's end of a pipe closes.
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

from lab.errors import LabError
from lab.waiting import until

# The child waits for one line before it executes the command: by then the cleanup process knows its pid. If the parent
# dies before that, the child reads end of file and exits, so it can never be orphaned.
_GATE = 'read -r go && exec "$@" <"$0"'


class CleanupProcess:
    """Starts the cleanup process, and keeps it up to date with the child processes and folders to clean up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def add_process(self, process: int) -> None:
        self._send(f"+ process {process}")

    def remove_process(self, process: int) -> None:
        self._send(f"- process {process}")

    def add_folder(self, folder: Path) -> None:
        self._send(f"+ folder {folder}")

    def remove_folder(self, folder: Path) -> None:
        self._send(f"- folder {folder}")

    def _send(self, line: str) -> None:
        with self._lock:
            if self._pipe is None:
                self._start()
            try:
                os.write(self._pipe or 0, f"{line}\n".encode())
            except BrokenPipeError as error:
                if line.startswith("+"):
                    raise LabError("the lab's cleanup process was killed: cannot start processes without it") from error

    def _start(self) -> None:
        read_end, write_end = os.pipe()
        script = Path(__file__).with_name("cleanup_process.py")
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(script)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(read_end)
        self._pipe = write_end
        atexit.register(self._finish)
        # A forked worker would keep the pipe open after this process is dead, and the cleanup would never start.
        os.register_at_fork(after_in_child=self._reset)

    def _finish(self) -> None:
        """On exit: returns when everything that is still registered has been cleaned up."""
        with self._lock:
            if self._pipe is not None and self._process is not None:
                os.close(self._pipe)
                self._pipe = None
                self._process.wait()

    def _reset(self) -> None:
        self._lock = threading.Lock()  # the thread that holds it may not exist in the child
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = self._process = None


cleanup = CleanupProcess()


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Removed afterwards, even after kill -9."""
    folder = Path(tempfile.mkdtemp(prefix="twinlog-"))
    cleanup.add_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        cleanup.remove_folder(folder)


class Process:
    """One command. Its output goes to `log` (standard error to `errors`, if given); a restart appends."""

    def __init__(self, name: str, log: Path, errors: Path | None = None) -> None:
        self.name = name
        self.log = log
        self._errors = errors or log
        self._popen: subprocess.Popen[bytes] | None = None
        self._registered = False

    def launch(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        stdin: Path = Path(os.devnull),
        pass_fds: Sequence[int] = (),
    ) -> None:
        if self.alive:
            raise LabError(f"{self.name} is already running (pid {self.pid}); stop it first")
        with self.log.open("ab") as log, self._errors.open("ab") as errors:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, str(stdin), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=errors,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C must reach this process only
                pass_fds=pass_fds,
            )
        gate = self._popen.stdin
        assert gate is not None
        cleanup.add_process(self._popen.pid)
        self._registered = True
        gate.write(b"go\n")
        gate.close()

    @property
    def pid(self) -> int | None:
        return self._popen.pid if self._popen else None

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before the first launch."""
        if self._popen is None:
            return None
        code = self._popen.poll()
        if code is not None and self._registered:
            self._registered = False
            cleanup.remove_process(self._popen.pid)  # once: the system may reuse the pid
        return code

    @property
    def alive(self) -> bool:
        return self._popen is not None and self.exit_code is None

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it is still running after that time."""
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.exit_code

    def wait_until_up(self, is_up: Callable[[], bool], seconds: float) -> None:
        """Returns once `is_up`. If it exits before, or on timeout, the error contains the end of its log."""
        until(is_up, f"starting {self.name}", seconds=seconds, failed=self.exit_report, logs=self.log_excerpt)

    def stop(self, timeout: float = 30) -> None:
        """SIGTERM; SIGKILL if it has not exited by the timeout."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused process would not receive SIGTERM
        self.wait(timeout)
        self._destroy()

    def kill(self) -> None:
        self._destroy()

    def _destroy(self) -> None:
        self.signal(signal.SIGKILL)
        if self._popen is not None:
            self._popen.wait()
            _ = self.exit_code

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nothing is read from them or written to them."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        if self.alive and self._popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def exit_report(self) -> str | None:
        """If it has exited: the exit code and the end of its log."""
        code = self.exit_code
        return None if code is None else f"{self.name} exited with code {code}{self.log_excerpt()}"

    def log_excerpt(self) -> str:
        """The log's path and last lines, to be appended to an error."""
        return f"; log {self.log} ends with:\n{self.tail()}"

    def tail(self, lines: int = 25) -> str:
        return tail(self.log, lines)


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log of any size."""
    try:
        with log.open("rb") as content:
            content.seek(max(0, log.stat().st_size - 64 * 1024))
            text = content.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
