"""Checks of this machine: Java for Spark, and directories for temporary files and the cache."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog import java
from twinlog.cache import cache_folder, changeable_by_others
from twinlog.errors import JavaError
from twinlog.inspect.doctor.findings import Finding, Status

MACHINE: Final = "this machine"
_CHECK: Final = "machine"
_LITTLE: Final = 256 << 20  # bytes; Spark's own log alone may take 30 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    no_java: str = ""  # why there is no Java
    java_advice: str = ""
    wanted: str = ""  # TMPDIR; this and the next with links resolved, so that they can be compared
    scratch: str = ""  # the directory for temporary files; empty: none is writable
    free: int = 0  # bytes there
    cache: str = ""
    cache_writable: bool = True
    cache_shared: str = ""  # why other users could change it


def inspect() -> Machine:
    """Writes nothing but a temporary file, deleted at once."""
    no_java, java_advice = "", ""
    try:
        java.find()
    except JavaError as error:
        no_java, java_advice = error.problem, error.advice
    scratch, free = "", 0
    try:
        scratch = os.path.realpath(tempfile.gettempdir())
        free = shutil.disk_usage(scratch).free
    except OSError:  # no writable directory
        pass
    cache = cache_folder()
    return Machine(
        no_java=no_java,
        java_advice=java_advice,
        wanted=os.path.realpath(wanted) if (wanted := os.environ.get("TMPDIR")) else "",
        scratch=scratch,
        free=free,
        cache=str(cache),
        cache_writable=_is_writable(cache),
        cache_shared=changeable_by_others(cache) if cache.exists() else "",
    )


def findings(seen: Machine) -> Iterable[Finding]:
    """MM2 does not start if it cannot create its log directory. Twinlog needs one only for what Spark writes.

    Without a problem there is no finding: the doctor is mostly about clusters.
    """
    if seen.no_java:
        yield _finding("error", "Java", seen.no_java, seen.java_advice)
    if not seen.scratch:
        what = "no writable directory for temporary files: Spark cannot start"
        yield _finding("error", "TMPDIR", what, "set TMPDIR to a directory that this user can write to")
    elif seen.wanted and seen.wanted != seen.scratch:
        what = f"{seen.wanted} is not writable: using {seen.scratch}"
        yield _finding("warning", "TMPDIR", what, "set TMPDIR to a directory that this user can write to, or unset it")
    if seen.scratch and seen.free < _LITTLE:
        what = f"only {seen.free >> 20:,} MiB free in {seen.scratch}: Spark may run out of disk space"
        yield _finding("warning", "TMPDIR", what, "free some space, or set TMPDIR to a directory with more")
    if seen.cache_shared:
        what = f"{seen.cache_shared}: the cache is not used, and every start takes some seconds longer"
        yield _finding(
            "warning", "TWINLOG_CACHE", what, "remove the cache and set TWINLOG_CACHE to a private directory"
        )
    elif not seen.cache_writable:
        what = f"{seen.cache} is not writable: every start takes some seconds longer"
        yield _finding("note", "TWINLOG_CACHE", what, "set TWINLOG_CACHE to a directory that this user can write to")


def _finding(status: Status, where: str, found: str, advice: str = "") -> Finding:
    return Finding(status, _CHECK, MACHINE, where, found, advice)


def _is_writable(folder: Path) -> bool:
    """The directory, or its nearest existing parent."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
