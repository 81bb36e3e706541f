"""Follows the files of a directory that grow, rotate or are added, and stores the position in each."""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 1 << 20  # read from a file before the next file's turn; the maximum length of a line
HEAD_BYTES: Final = 256  # of a file's start, to distinguish it from a later file with the same inode
FORGET_SECONDS: Final = 600.0  # positions of missing files are dropped after this time
NOT_LOGS: Final = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tmp", ".part", ".swp")


class NoLogError(Exception):
    """A file in the directory is not a log."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position in a file. A file is identified by its inode, so it may be renamed; and by its first bytes, since
    inodes are reused, and a file may be truncated and rewritten.
    """

    device: int
    inode: int
    head: str  # hash of the first `head_bytes`
    head_bytes: int
    position: int
    name: str  # the file's last known name, for information only

    @property
    def file(self) -> tuple[int, int]:
        return self.device, self.inode


@dataclass(frozen=True, slots=True)
class Chunk:
    """Complete lines of a file, and the position after them."""

    lines: list[bytes]
    position: Position


class Follower:
    """Reads new lines from the files of a directory, without keeping files open.

    Hidden files are ignored, and files whose name marks them as compressed or incomplete. So rotate logs by renaming
    them within the directory, and compress them no sooner than with the next rotation (`delaycompress`).
    """

    def __init__(self, folder: Path, positions: Sequence[Position] = (), *, unfinished_after: float = 30.0) -> None:
        self._folder, self._unfinished_after = folder, unfinished_after
        self._positions = {position.file: position for position in positions}
        self._seen = dict.fromkeys(self._positions, time.monotonic())

    @property
    def positions(self) -> list[Position]:
        return list(self._positions.values())

    def chunks(self) -> Iterator[Chunk]:
        """At most one per file, so that a large file does not delay the others; call `advance` with each."""
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith(".") or path.suffix in NOT_LOGS or not path.is_file():
                continue
            try:
                with path.open("rb") as content:
                    chunk = self._next(content, path.name)
            except FileNotFoundError:  # just renamed: the next call finds it under its new name
                continue
            self._seen[chunk.position.file] = time.monotonic()
            known = self._positions.get(chunk.position.file)
            if known is None or known.position != chunk.position.position:
                yield chunk
        now = time.monotonic()
        for file in [file for file, at in self._seen.items() if now - at > FORGET_SECONDS]:
            del self._seen[file]
            self._positions.pop(file, None)

    def advance(self, chunk: Chunk) -> None:
        """Moves the file's position behind the chunk."""
        self._positions[chunk.position.file] = chunk.position

    def _next(self, content: BinaryIO, name: str) -> Chunk:
        start = replace(self._position(content), name=name)
        content.seek(start.position)
        data = content.read(CHUNK_BYTES)
        complete = data[: data.rfind(b"\n") + 1]
        if not complete and len(data) == CHUNK_BYTES:
            raise NoLogError(f"{name}: no line end within {CHUNK_BYTES:,} bytes; if it is not a log, move it elsewhere")
        if not complete and data and time.time() - os.fstat(content.fileno()).st_mtime > self._unfinished_after:
            complete = data  # a last line without a line end that is no longer being written
        end = start.position + len(complete)
        head_bytes = min(end, HEAD_BYTES)
        lines = [line for raw in complete.split(b"\n") if (line := raw.rstrip(b"\r"))]
        return Chunk(lines, replace(start, head=_hash(content, head_bytes), head_bytes=head_bytes, position=end))

    def _position(self, content: BinaryIO) -> Position:
        """The known position, if it is still the same file; else the file's start."""
        status = os.fstat(content.fileno())
        known = self._positions.get((status.st_dev, status.st_ino))
        if known and known.position <= status.st_size and known.head == _hash(content, known.head_bytes):
            return known
        return Position(status.st_dev, status.st_ino, "", 0, 0, "")


def _hash(content: BinaryIO, length: int) -> str:
    content.seek(0)
    return hashlib.sha256(content.read(length)).hexdigest()


def load(file: Path) -> list[Position]:
    return [Position(**each) for each in json.loads(file.read_text())["files"]] if file.exists() else []


def store(file: Path, positions: Sequence[Position]) -> None:
    """Atomic: a crash leaves either the old file or the new one."""
    new = file.with_name(f"{file.name}.tmp")
    with new.open("w") as out:
        json.dump({"files": [asdict(position) for position in positions]}, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
