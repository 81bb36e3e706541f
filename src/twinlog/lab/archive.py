"""A class data archive (AppCDS) per line of Kafka and role: Java's classes, loaded and checked once, then mapped.

It nearly halves the time and the CPU that a broker takes to start. The first broker on a machine runs as usual and
writes the archive when it is stopped; later ones use it. Nothing ever fails for want of an archive: Java ignores one
that does not fit, and we go without one that was not written.
"""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import IO

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.lab import jars


class Archive:
    """`flags()` before each start; `harvest()` after an orderly stop, `abandon()` after any other end."""

    def __init__(self, line: str, role: str) -> None:
        self._file = _place(line, role)
        self._claim: IO[str] | None = None

    def use(self) -> list[str]:
        """The flags to use the archive, if there is one."""
        return [f"-XX:SharedArchiveFile={self._file}"] if self._file and self._file.is_file() else []

    def flags(self) -> list[str]:
        """The flags to use it, or to be the one that writes it."""
        if self._file is None or self.use():
            return self.use()
        return [f"-XX:ArchiveClassesAtExit={self._partial}"] if self._is_first() else []

    @property
    def growing(self) -> bool:
        """Whether the process that runs now will write the archive, if it may end in order."""
        return self._claim is not None

    def harvest(self) -> None:
        if self._claim is not None and self._file is not None:
            with contextlib.suppress(OSError):
                self._partial.replace(self._file)
            self.abandon()

    def abandon(self) -> None:
        if self._claim is not None:
            with contextlib.suppress(OSError):
                self._partial.unlink(missing_ok=True)
            self._claim.close()
            self._claim = None

    def _is_first(self) -> bool:
        """One writer at a time, on the whole machine; the system frees the claim of a process that dies."""
        assert self._file is not None
        try:
            claim = self._file.with_suffix(".lock").open("w")
        except OSError:
            return False
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            claim.close()
            return False
        self._claim = claim
        return True

    @property
    def _partial(self) -> Path:
        assert self._file is not None
        return self._file.with_suffix(f".{os.getpid()}")


def _place(line: str, role: str) -> Path | None:
    """A file named by what Java itself compares: its own modules, and the jars (their folder is named by the lock)."""
    home = java.find().home
    if not (home / "lib" / "server" / "classes.jsa").is_file():
        return None  # a stripped runtime lacks the archive of Java's own classes, on which ours would build
    modules = home / "lib" / "modules"
    try:
        seen = f"{modules} {modules.stat().st_size} {modules.stat().st_mtime_ns} {jars.fetch(line).name}"
    except OSError:
        return None  # not a Java that we understand
    return cache_folder() / f"{role}-{line}-{hashlib.sha256(seen.encode()).hexdigest()[:12]}.jsa"
