"""Follows the files of a directory as they grow, are rotated and come, and remembers how far each was read."""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 1 << 20  # read from one file before the next has its turn; no line is longer
HEAD_BYTES: Final = 256  # of a file's start, to tell it from a later one with the same inode
FORGET_SECONDS: Final = 600.0  # a file that is gone for so long does not come back
NOT_LOGS: Final = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tmp", ".part", ".swp")


class NoLogError(Exception):
    """A file in the directory has no lines."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far one file has been read. A file is known by its inode, so it may be renamed; and by how it begins, since
    an inode is used again when its file is gone, and a file may be emptied and written anew.
    """

    device: int
    inode: int
    head: str  # hash of the first `head_bytes`
    head_bytes: int
    position: int
    name: str  # for people: what the file was called then

    @property
    def file(self) -> tuple[int, int]:
        return self.device, self.inode


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of one file, and where it stands once they are published."""

    lines: list[bytes]
    place: Place


class Follower:
    """Finds what is new in the files of a directory, without keeping one open.

    Hidden files are left out, and those that by their name are compressed or still being copied. So rotate logs by
    renaming them within the directory, and compress no sooner than with the next rotation (`delaycompress`).
    """

    def __init__(self, folder: Path, places: Sequence[Place] = (), *, unfinished_after: float = 30.0) -> None:
        self._folder, self._unfinished_after = folder, unfinished_after
        self._places = {place.file: place for place in places}
        self._seen = dict.fromkeys(self._places, time.monotonic())

    @property
    def places(self) -> list[Place]:
        return list(self._places.values())

    def chunks(self) -> Iterator[Chunk]:
        """At most one for each file, so that a large one does not keep others waiting; tell `read` of each."""
        for path in sorted(self._folder.iterdir()):
            if path.name.startswith(".") or path.suffix in NOT_LOGS or not path.is_file():
                continue
            try:
                with path.open("rb") as content:
                    chunk = self._next(content, path.name)
            except FileNotFoundError:  # renamed since we looked: next time it is seen under its new name
                continue
            self._seen[chunk.place.file] = time.monotonic()
            known = self._places.get(chunk.place.file)
            if known is None or known.position != chunk.place.position:
                yield chunk
        now = time.monotonic()
        for file in [file for file, at in self._seen.items() if now - at > FORGET_SECONDS]:
            del self._seen[file]
            self._places.pop(file, None)

    def read(self, chunk: Chunk) -> None:
        """The chunk's lines are on their way."""
        self._places[chunk.place.file] = chunk.place

    def _next(self, content: BinaryIO, name: str) -> Chunk:
        place = replace(self._place(content), name=name)
        content.seek(place.position)
        data = content.read(CHUNK_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == CHUNK_BYTES:
            raise NoLogError(f"{name}: no line ends within {CHUNK_BYTES:,} bytes: if it is no log, move it away")
        if not whole and data and time.time() - os.fstat(content.fileno()).st_mtime > self._unfinished_after:
            whole = data  # a last line without an end, and nobody is writing it
        end = place.position + len(whole)
        head_bytes = min(end, HEAD_BYTES)
        lines = [line for raw in whole.split(b"\n") if (line := raw.rstrip(b"\r"))]
        return Chunk(lines, replace(place, head=_hash(content, head_bytes), head_bytes=head_bytes, position=end))

    def _place(self, content: BinaryIO) -> Place:
        """Where to go on: at the known place, if it is still the same file."""
        status = os.fstat(content.fileno())
        known = self._places.get((status.st_dev, status.st_ino))
        if known and known.position <= status.st_size and known.head == _hash(content, known.head_bytes):
            return known
        return Place(status.st_dev, status.st_ino, "", 0, 0, "")


def _hash(content: BinaryIO, length: int) -> str:
    content.seek(0)
    return hashlib.sha256(content.read(length)).hexdigest()


def load(file: Path) -> list[Place]:
    return [Place(**each) for each in json.loads(file.read_text())["files"]] if file.exists() else []


def keep(file: Path, places: Sequence[Place]) -> None:
    """All or nothing: a crash leaves either the old file or the new one."""
    new = file.with_name(f"{file.name}.tmp")
    with new.open("w") as out:
        json.dump({"files": [asdict(place) for place in places]}, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
