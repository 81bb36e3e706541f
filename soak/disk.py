"""The disk of one broker: a small file system that can be full or read-only. Needs root on Linux.

Its mount is in a mount namespace of this process and its children, so it disappears with them, however they end.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.broker import Broker
from lab.errors import LabError

_NEW_NAMESPACE = 0x00020000  # CLONE_NEWNS
_SIZE = "4g"  # takes memory only for what is stored
_SPARE = 64 * 1024  # bytes that a full disk still has: the next segment of a log does not fit


def separate_mounts() -> str | None:
    """The reason why not. Must be called before any thread or child process is started."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a file system can be mounted only by root on Linux"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE):
        return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
    try:
        _run("mount", "--make-rprivate", "/")
    except LabError as error:
        return str(error)
    return None


class Disk:
    """Moves the broker's data to a file system of its own; the broker is restarted for it."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self._folder = broker, broker.data
        moved = self._folder.with_name("moved")
        broker.stop()
        self._folder.rename(moved)
        self._folder.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(self._folder))
        shutil.copytree(moved, self._folder, dirs_exist_ok=True)
        shutil.rmtree(moved)
        broker.start()

    def fill(self) -> None:
        """By making the disk as small as its content."""
        used = shutil.disk_usage(self._folder).used
        self._remount(f"size={used + _SPARE}")

    def empty(self) -> None:
        self._remount(f"size={_SIZE}")

    def set_read_only(self, read_only: bool) -> None:
        """Only while the broker is not running: open files keep a file system writable."""
        self._remount("ro" if read_only else "rw")

    def close(self) -> None:
        """The broker must have ended."""
        if Path(self._folder).is_mount():
            _run("umount", "--lazy", str(self._folder))

    def _remount(self, options: str) -> None:
        _run("mount", "-o", f"remount,{options}", str(self._folder))


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise LabError(f"no command `{command[0]}`") from error
    except subprocess.CalledProcessError as error:
        raise LabError(f"{' '.join(command)}: {error.stderr.strip()}") from error
