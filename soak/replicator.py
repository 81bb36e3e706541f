"""`twinlog run` as a service manager runs it: started again whenever it has ended, with what it was expected to do."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import resource_usage
from lab.command import TwinlogCommand
from lab.errors import LabError
from lab.waiting import until
from soak.plan import SOURCE, TARGET

RELAYING = f"{SOURCE}->{TARGET}: relaying"
START_SECONDS = 240.0  # Spark's start alone takes 10 s of CPU time
_RESTART_SECONDS = 1.0
_LEFT_OVER_SECONDS = 40.0
_CHECK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Exit:
    """An instance that ended; `expected` is the fault that explains it."""

    instance: int
    code: int
    expected: str
    last_line: str


class Instance(TwinlogCommand):
    def __init__(self, number: int, file: Path, folder: Path, env: Mapping[str, str]) -> None:
        super().__init__(["run", file], folder / f"twinlog-{number}.log", folder / f"scratch-{number}", env)
        self.number = number
        self._relays = False

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    @property
    def relaying(self) -> bool:
        self._relays = self._relays or RELAYING in self.output
        return self._relays

    def processes(self) -> list[int]:
        return list(resource_usage.tree(self.pid)) if self.process.alive else []

    def jvm(self) -> int:
        """0 if it has none (yet)."""
        return next((pid for pid in self.processes() if name(pid).startswith("java")), 0)

    def workers(self) -> list[int]:
        """Spark's Python processes."""
        return [pid for pid in self.processes() if pid != self.pid and name(pid).startswith("python")]


class Replicator:
    """The service. A thread starts the next instance when one has ended, unless it is `held`."""

    def __init__(self, file: Path, folder: Path, env: Callable[[], Mapping[str, str]]) -> None:
        self._file, self._folder, self._env = file, folder, env
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._expected = ""
        self._count = 0
        self.exits: list[Exit] = []
        self.left_over: list[str] = []
        self._watched: list[tuple[float, dict[int, str]]] = []
        self.current = self._launch()
        self._thread = threading.Thread(target=self._watch, name="replicator", daemon=True)
        self._thread.start()

    def expect_exit(self, reason: str) -> None:
        """Until the next instance is relaying, an exit is due to this."""
        self._expected = reason

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is restarted meanwhile."""
        with self._lock:
            yield

    def launch_second(self) -> Instance:
        return self._launch()

    def replace(self, instance: Instance) -> None:
        """The given instance is the service's from now on; call it while held."""
        self._note_exit(self.current)
        self.current = instance

    def restart(self) -> float:
        """By SIGTERM. How many seconds the stop took; an error if the exit code is not 0."""
        with self.held():
            seconds = self.current.stop()
            self.current = self._launch()
        return seconds

    def wait_until_relaying(self, seconds: float = START_SECONDS) -> None:
        """Of the current instance, whichever it is then."""
        until(lambda: self.current.relaying, "twinlog run should relay", seconds=seconds, logs=self._logs)
        self._expected = ""

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self.current.kill()

    def watch_left_over(self, pids: list[int]) -> None:
        """Processes that must end by themselves, as their driver was killed."""
        names = {pid: name(pid) for pid in pids}
        self._watched.append((time.monotonic() + _LEFT_OVER_SECONDS, {p: text for p, text in names.items() if text}))

    def _launch(self) -> Instance:
        self._count += 1
        instance = Instance(self._count, self._file, self._folder, self._env())
        instance.start()
        return instance

    def _watch(self) -> None:
        while not self._closing.wait(_CHECK_SECONDS):
            with self._lock:
                if not self.current.process.alive:
                    self._note_exit(self.current)
                    self._closing.wait(_RESTART_SECONDS)
                    self.current = self._launch()
            self._check_left_over()

    def _note_exit(self, instance: Instance) -> None:
        code = instance.process.exit_code
        if code is None:
            raise LabError(f"{instance.name} (instance {instance.number}) is still running")
        last_line = next((line for line in reversed(instance.output.splitlines()) if "twinlog: " in line), "")
        self.exits.append(Exit(instance.number, code, self._expected, last_line))

    def _check_left_over(self) -> None:
        now = time.monotonic()
        for deadline, names in [*self._watched]:
            alive = {pid: text for pid, text in names.items() if name(pid) == text}
            if alive and now < deadline:
                continue
            self._watched.remove((deadline, names))
            for pid, text in alive.items():
                self.left_over.append(f"{text} still runs {_LEFT_OVER_SECONDS:.0f} s after its driver was killed")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _logs(self) -> str:
        return self.current.process.log_excerpt()


def name(pid: int) -> str:
    """Program and arguments; empty if it has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return "" if state == "Z" else " ".join([Path(words[0]).name, *words[1:]]).strip()


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
