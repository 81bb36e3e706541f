"""Runs the stream readers of all queries in threads of this process, the driver.

Spark starts a Python process per query for its reader: 50 MB each, for a flow that may be idle. Embedded, the process
that Spark starts is a shell script instead (session.py): it writes how to connect to Spark into a named pipe, then
waits until Spark ends it. For each such line a thread here connects in its place, and runs what the process would have
run. When the script ends, for whatever reason, the thread's connection is closed.
"""

import contextlib
import os
import select
import socket
import threading
from pathlib import Path
from typing import Final, TextIO

from pyspark.serializers import write_int
from pyspark.util import local_connect_and_auth

PIPE: Final = "readers"  # in Spark's folder
_CHECK: Final = 1000  # ms between checks that the scripts still run
_LONGEST_LINE: Final = select.PIPE_BUF  # a pipe does not interleave shorter ones

_this_thread = threading.local()


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


class ReaderThreads:
    """`errors` is the file for what readers print."""

    def __init__(self, folder: Path, errors: Path) -> None:
        self._path, self._errors = folder / PIPE, errors
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path, 0o600)
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)  # also for writing, or each script would end it
        self._readers: dict[int, _Reader] = {}  # by the process id of its script
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="readers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            os.write(self._pipe, b"\n")
        self._thread.join()
        os.close(self._pipe)
        for reader in self._readers.values():
            reader.end()

    def _listen(self) -> None:
        poll, text = select.poll(), b""
        poll.register(self._pipe, select.POLLIN)
        while not self._closing:
            if poll.poll(_CHECK):
                *lines, text = (text + os.read(self._pipe, _LONGEST_LINE)).split(b"\n")
                for line in lines:
                    self._start(line.decode())
            for pid in [pid for pid in self._readers if not _runs(pid)]:
                self._readers.pop(pid).end()

    def _start(self, line: str) -> None:
        fields = line.split("\t")
        if len(fields) == 3:
            pid, address, secret = fields
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
        threading.Thread(target=self._run, name=f"reader {pid}", daemon=True).start()

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
            except (Exception, SystemExit) as error:  # noqa: BLE001  # Spark has it, unless it has ended the reader
                if not self._ended.is_set() and not isinstance(error, SystemExit):
                    _print_to(errors, error)

    def _serve(self) -> None:
        from pyspark.sql.streaming import python_streaming_source_runner as runner  # noqa: PLC0415  # loads pyarrow

        file, connection = local_connect_and_auth(self._address, self._secret)
        try:
            with self._lock:
                self._socket = connection
            if self._ended.is_set():
                return
            connection.settimeout(None)
            write_int(self._pid, file)  # type: ignore[no-untyped-call]
            file.flush()
            runner.main(file, file)
        finally:
            with self._lock:
                self._socket = None
            with contextlib.suppress(OSError):
                file.close()
            connection.close()


def _print_to(errors: TextIO, error: BaseException) -> None:
    print(f"twinlog: reader: {type(error).__name__}: {error}", file=errors, flush=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
