"""A temporary folder for Spark; if a run cannot remove it, the next run does."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from twinlog.errors import SparkError

_PREFIX: Final = "twinlog-run-"
_LOCK: Final = "owned"


@contextlib.contextmanager
def temp_folder() -> Iterator[Path]:
    """A folder for Spark. Kept if Spark failed, for its log; after kill -9 the next run removes it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_abandoned(folder)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with (folder / "new").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(folder / _LOCK)
        try:
            yield folder
        except SparkError:
            (folder / _LOCK).unlink()
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Removes the folder of a run of this user that has ended. Other users can also write to /tmp: entries that are not
    ours, or not regular files, are neither waited for nor removed.
    """
    with contextlib.suppress(OSError):
        if not _is_ours(folder.lstat(), stat.S_ISDIR):
            return
        handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if _is_ours(os.fstat(handle), stat.S_ISREG):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its owner runs
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _is_ours(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return found.st_uid == os.getuid() and is_kind(found.st_mode)
