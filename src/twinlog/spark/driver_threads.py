"""Runs in threads of this process, the driver, what Spark would run in Python processes beside it.

For each query Spark starts a process for its reader, 50 MB for a flow that may be idle, and for each kind of planning a
daemon that forks workers. Embedded, all of them are a shell script instead (python_script.py): it writes a line into a
named pipe, and then waits until Spark ends it. For a reader the line says how to connect to Spark, and a thread here
connects in its place. For planning, the script tells Spark the path of a socket here, to which Spark connects for each
worker; a thread runs what the worker would have run. If the script of a reader ends, so does its thread.
"""

import contextlib
import functools
import importlib
import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.serializers import write_int
from pyspark.util import local_connect_and_auth

PLANNING: Final = (
    "create_data_source", "plan_data_source_read", "write_into_data_source", "python_streaming_sink_runner",
)  # fmt: skip
_MODULES: Final = "pyspark.sql.worker."
_READER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_CHECK: Final = 1000  # ms between checks that the scripts of readers still run
_LONGEST_LINE: Final = select.PIPE_BUF  # a pipe does not interleave shorter ones

_this_thread = threading.local()
_planning = threading.Lock()  # PySpark's planning uses globals: one at a time


class ReaderEndedError(Exception):
    """Spark has ended the reader of this thread."""


def wait(seconds: float) -> None:
    """Sleeps; raises ReaderEndedError if this is the thread of a reader that has ended."""
    ended: threading.Event = getattr(_this_thread, "ended", None) or threading.Event()
    if ended.wait(seconds):
        raise ReaderEndedError


def log(text: str) -> None:
    """Writes a line into Spark's log of errors, in whatever process the reader runs."""
    print(text, file=getattr(_this_thread, "errors", None), flush=True)


def pipe(folder: Path) -> Path:
    """Into which scripts write."""
    return folder / "threads"


def sockets(folder: Path) -> dict[str, Path]:
    """By module; with short names, as the length of the path is limited."""
    return {module: folder / f"{module[:5]}.sock" for module in PLANNING}


class DriverThreads:
    """Raises OSError if the folder cannot hold named pipes, or its path is too long for a socket."""

    def __init__(self, folder: Path, errors: Path) -> None:
        """`errors` is the file for what readers log."""
        self._pipe, self._sockets, self._errors = pipe(folder), sockets(folder), errors
        self._ends = contextlib.ExitStack()
        try:
            self._open()
        except OSError:
            self._ends.close()
            raise
        self._readers: dict[int, _Reader] = {}  # by the process id of its script
        self._daemons: dict[str, int] = {}  # process ids of the scripts, by module
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="driver threads", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe, 0o600)
        self._ends.callback(self._pipe.unlink, missing_ok=True)
        self._lines = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)  # else the first script would end it
        self._ends.callback(os.close, self._lines)
        self._listeners: dict[int, tuple[str, socket.socket]] = {}
        for module, path in self._sockets.items():
            path.unlink(missing_ok=True)
            listener = self._ends.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(path))
            self._ends.callback(path.unlink, missing_ok=True)
            listener.listen(128)
            self._listeners[listener.fileno()] = module, listener

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            os.write(self._lines, b"\n")
        self._thread.join()
        self._ends.close()
        for reader in self._readers.values():
            reader.end()

    def _listen(self) -> None:
        poll, text = select.poll(), b""
        for fd in (self._lines, *self._listeners):
            poll.register(fd, select.POLLIN)
        while not self._closing:
            ready = {fd for fd, _ in poll.poll(_CHECK)}
            if self._lines in ready:  # first: the script of a daemon writes its line before Spark knows the socket
                *lines, text = (text + os.read(self._lines, _LONGEST_LINE)).split(b"\n")
                for line in lines:
                    self._on_line(line.decode())
            for fd in ready & self._listeners.keys():
                module, listener = self._listeners[fd]
                connection, _ = listener.accept()
                _start(f"planning {module}", functools.partial(_plan, module, self._daemons.get(module, 0), connection))
            for pid in [pid for pid in self._readers if not _runs(pid)]:
                self._readers.pop(pid).end()

    def _on_line(self, line: str) -> None:
        match line.split("\t"):
            case [pid, "daemon", module]:
                self._daemons[module.removeprefix(_MODULES)] = int(pid)
            case [pid, "reader", address, secret]:
                self._readers[int(pid)] = _Reader(int(pid), address, secret, self._errors)


class _Reader:
    def __init__(self, pid: int, address: str, secret: str, errors: Path) -> None:
        """`address` is a port, if there is a `secret`, else the path of a Unix socket."""
        self._pid, self._errors = pid, errors
        self._address: str | int = int(address) if secret else address
        self._secret = secret or None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        _start(f"reader {pid}", self._run)

    def end(self) -> None:
        """Its thread ends soon: it waits for Spark, or it waits with `wait`."""
        with self._lock:
            self._ended.set()
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with self._errors.open("a") as errors:
            _this_thread.ended, _this_thread.errors = self._ended, errors
            try:
                self._serve()
            except OSError:  # Spark has closed the connection
                return
            except Exception as error:  # noqa: BLE001  # Spark has it too, unless it has ended the reader
                if not self._ended.is_set():
                    log(f"twinlog: reader: {type(error).__name__}: {error}")

    def _serve(self) -> None:
        file, connection = local_connect_and_auth(self._address, self._secret)
        try:
            with self._lock:
                self._socket = connection
            if self._ended.is_set():
                return
            connection.settimeout(None)
            write_int(self._pid, file)  # type: ignore[no-untyped-call]
            file.flush()
            importlib.import_module(_READER).main(file, file)
        finally:
            with self._lock:
                self._socket = None
            with contextlib.suppress(OSError):
                file.close()
            connection.close()


def _plan(module: str, pid: int, connection: socket.socket) -> None:
    """As a forked worker: Spark uses it again and again, until it closes the connection."""
    main: Callable[[Any, Any], None] = importlib.import_module(_MODULES + module).main
    with contextlib.suppress(OSError), connection, connection.makefile("rwb") as file:
        write_int(pid, file)  # type: ignore[no-untyped-call]
        file.flush()
        while file.peek(1):  # waits without the lock for the next request
            with _planning:
                main(file, file)
            file.flush()


def _start(name: str, run: Callable[[], None]) -> None:
    def quietly() -> None:
        with contextlib.suppress(SystemExit):  # how PySpark ends a worker
            run()

    threading.Thread(target=quietly, name=name, daemon=True).start()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
