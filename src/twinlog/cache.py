"""The per-machine cache folder: jars, Java class archives, Spark's overlay, compiled Numba functions.

Cached files are executed by the process that loads them (Numba's cache holds pickles, a class archive is bytecode), so
they are only read from folders that no user but this one and root can change. Otherwise they are re-created in a
private folder that is removed when the process ends.
"""

import atexit
import contextlib
import grp
import os
import pwd
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PRIVATE_PREFIX: Final = "twinlog-cache-"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """TWINLOG_CACHE, or the platform's cache folder; shared by all runs of this user."""
    if own := os.environ.get("TWINLOG_CACHE"):
        return Path(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "twinlog"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twinlog"


def changeable_by_others(path: Path) -> str:
    """Why other users could change or replace what is at `path`; empty if they cannot. The path must exist.

    Symbolic links are checked too: their owner decides where they point.
    """
    try:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow the links to be checked)
        for each in (absolute, *absolute.parents):
            status = each.lstat()
            if stat.S_ISLNK(status.st_mode) and not _owner_trusted(status):
                return f"{each} is a link of another user"
        leaf = absolute.resolve(strict=True)
        temporary = Path(tempfile.gettempdir()).resolve()
        for each in (leaf, *leaf.parents):
            # The temporary folder is not sticky in every pod; a user who can rename there controls all temporary files.
            if reason := _writable_by_others(each, each.stat(), is_leaf=each == leaf, sticky=each == temporary):
                return reason
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def tree_changeable_by_others(folder: Path) -> str:
    """The same for a small folder and everything in it: its files may predate the folder's permissions."""
    if reason := changeable_by_others(folder):
        return reason
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            try:
                status = path.lstat()
            except OSError:
                continue  # a temporary file that another Twinlog process has just removed
            if not _owner_trusted(status) or (
                not stat.S_ISLNK(status.st_mode) and _writable_by_others(path, status, is_leaf=True, sticky=False)
            ):
                return f"{path} belongs to another user or is writable by others"
    return ""


def make_private(folder: Path) -> None:
    """Creates the folder and its missing parents, accessible to this user only."""
    if not folder.parent.is_dir():
        make_private(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def usable(folder: Path) -> bool:
    """Whether the folder can hold a cache: writable, and safe from other users. Created if missing."""
    with contextlib.suppress(OSError):
        make_private(folder)
        return os.access(folder, os.W_OK | os.X_OK) and not tree_changeable_by_others(folder)
    return False


def private_copy(folder: Path) -> Path:
    """A new private folder with a copy of `folder` if that can be trusted; removed when this process ends.

    Compiled code from a read-only image is used this way, and newly compiled code can be written.
    """
    _remove_abandoned()
    private = Path(tempfile.mkdtemp(prefix=f"{_PRIVATE_PREFIX}{os.getpid()}-"))
    if folder.is_dir() and not tree_changeable_by_others(folder):
        with contextlib.suppress(OSError, shutil.Error):
            shutil.copytree(folder, private, dirs_exist_ok=True)
    private.chmod(0o700)  # copytree copies the permissions of the original
    atexit.register(_remove, private, os.getpid())
    return private


def _remove(folder: Path, creator: int) -> None:
    if os.getpid() == creator:  # not in a process forked from it
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Removes the private folders of this user's killed processes."""
    for folder in _abandoned():
        shutil.rmtree(folder, ignore_errors=True)


def _abandoned() -> Iterator[Path]:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PRIVATE_PREFIX}*"):
        creator = re.match(rf"{_PRIVATE_PREFIX}(\d{{1,9}})-", folder.name)
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if creator and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                try:
                    os.kill(int(creator[1]), 0)
                except ProcessLookupError:
                    yield folder


def _owner_trusted(status: os.stat_result) -> bool:
    return status.st_uid in {0, os.geteuid()}


def _writable_by_others(path: Path, status: os.stat_result, *, is_leaf: bool, sticky: bool) -> str:
    """Why others can change one file or folder. In a sticky folder users can add files, but not replace another's."""
    if not _owner_trusted(status):
        return f"{path} belongs to another user"
    others = status.st_mode & _OTHERS_WRITE
    if others == stat.S_IWGRP and _is_own_group(status.st_gid):
        others = 0
    if others and (is_leaf or not (sticky or status.st_mode & stat.S_ISVTX)):
        return f"{path} is writable by other users"
    return ""


def _is_own_group(gid: int) -> bool:
    """Many systems give each user a private group of the same name, and a umask that lets the group write."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
