"""Class data archives (AppCDS) for Kafka's JVMs, per release line and role.

They nearly halve the time and CPU that a broker needs to start. The first broker on a machine writes the archive when
it is stopped; later ones use it. They are optional: Java ignores an archive that does not match.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import IO

from lab import jars
from twinlog import java
from twinlog.cache import cache_folder


class Archive:
    """Call `flags` before each start, and `commit` after a graceful stop or `discard` after any other exit."""

    def __init__(self, line: str, role: str) -> None:
        self._file = _archive_file(line, role)
        self._lock: IO[str] | None = None

    def use(self) -> list[str]:
        """The flags to use the archive, if there is one."""
        return [f"-XX:SharedArchiveFile={self._file}"] if self._file and self._file.is_file() else []

    def flags(self) -> list[str]:
        """The flags to use the archive, or to write it."""
        if self._file is None or self.use():
            return self.use()
        return [f"-XX:ArchiveClassesAtExit={self._partial}"] if self._acquire_lock() else []

    @property
    def recording(self) -> bool:
        """Whether the running process writes the archive if it is stopped gracefully."""
        return self._lock is not None

    def commit(self) -> None:
        if self._lock is not None and self._file is not None:
            with contextlib.suppress(OSError):
                self._partial.replace(self._file)
            self.discard()

    def discard(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._partial.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _acquire_lock(self) -> bool:
        """Allows one writer per machine; the system releases the lock of a process that dies."""
        assert self._file is not None
        try:
            lock = self._file.with_suffix(".lock").open("w")
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    @property
    def _partial(self) -> Path:
        assert self._file is not None
        return self._file.with_suffix(f".{os.getpid()}")


def _archive_file(line: str, role: str) -> Path | None:
    """The name depends on what Java compares: its modules and the jars (whose folder is named by the lock file)."""
    home = java.find().home
    if not (home / "lib" / "server" / "classes.jsa").is_file():
        return None  # a stripped runtime lacks the JDK's own class archive, which is the base of this one
    modules = home / "lib" / "modules"
    try:
        identity = f"{modules} {modules.stat().st_size} {modules.stat().st_mtime_ns} {jars.fetch(line).name}"
    except OSError:
        return None  # an unknown layout of the Java runtime
    return cache_folder() / f"{role}-{line}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"
