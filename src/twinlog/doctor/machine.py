"""What a flow needs of the machine that it runs on: a Java for Spark, and a place for temporary files."""

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.doctor.findings import Finding, Status, halves
from twinlog.errors import JavaError

MACHINE: Final = "this machine"
_CHECK: Final = "machine"
_LITTLE: Final = 256 << 20  # bytes; Spark's own log alone may take 30 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was seen of it."""

    no_java: str = ""  # why there is no Java
    wanted: str = ""  # TMPDIR; this and the next without links, so that they can be compared
    scratch: str = ""  # where temporary files go; "" if they can go nowhere
    free: int = 0  # bytes there
    cache: str = ""
    cache_open: bool = True  # whether something can be written there


def looked_at() -> Machine:
    """Writes nothing that stays: a temporary file, gone at once."""
    no_java = ""
    try:
        java.find()
    except JavaError as error:
        no_java = str(error)
    scratch, free = "", 0
    try:
        scratch = os.path.realpath(tempfile.gettempdir())
        free = shutil.disk_usage(scratch).free
    except OSError:  # there is no folder that could be written to
        pass
    cache = cache_folder()
    return Machine(
        no_java=no_java,
        wanted=os.path.realpath(wanted) if (wanted := os.environ.get("TMPDIR")) else "",
        scratch=scratch,
        free=free,
        cache=str(cache),
        cache_open=_can_be_written_to(cache),
    )


def findings(seen: Machine) -> Iterable[Finding]:
    """MM2 does not start where it cannot make a folder for its logs. Twinlog needs one only for what Spark writes.

    Nothing is said of a machine that has all: what is asked of the doctor is mostly about clusters.
    """
    if seen.no_java:
        yield _finding("error", "Java", *halves(seen.no_java))
    if not seen.scratch:
        what = "no folder for temporary files can be written to: Spark cannot start"
        yield _finding("error", "TMPDIR", what, "set TMPDIR to a folder that this user may write to")
    elif seen.wanted and seen.wanted != seen.scratch:
        what = f"{seen.wanted} cannot be written to: {seen.scratch} is used instead"
        yield _finding("warning", "TMPDIR", what, "set TMPDIR to a folder that this user may write to, or unset it")
    if seen.scratch and seen.free < _LITTLE:
        what = f"only {seen.free >> 20:,} MiB are free in {seen.scratch}: Spark may stop for want of space"
        yield _finding("warning", "TMPDIR", what, "make room there, or set TMPDIR to a folder with more")
    if not seen.cache_open:
        what = f"{seen.cache} cannot be written to: every start is slower by some seconds"
        yield _finding("note", "TWINLOG_CACHE", what, "set TWINLOG_CACHE to a folder that this user may write to")


def _finding(status: Status, where: str, found: str, advice: str = "") -> Finding:
    return Finding(status, _CHECK, MACHINE, where, found, advice)


def _can_be_written_to(folder: Path) -> bool:
    """It, or the nearest above it that is there."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
