"""Fetches Apache Kafka's jars (brokers, tools, Connect, MM2) into the user's cache folder, once.

PySpark's Ivy does the work, so only Java is needed, and an operator's `ivysettings.xml` (for a company's own
repository) applies. Versions are locked: `<line>.lock` lists every jar with its SHA-256.

`python -m lab.jars 4.3 3.9` fetches; `python -m lab.jars --lock 4.3` resolves again and rewrites the lock file.
"""

import fcntl
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import ivy
from lab.errors import LabError
from lab.progress import Progress
from twinlog.cache import cache_folder
from twinlog.errors import TwinlogError

# By release line; the lock files add the transitive dependencies.
ROOTS = {
    "4.3": (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-mirror:4.3.1",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
    ),
    "4.0": (
        "org.apache.kafka:kafka_2.13:4.0.2",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        "org.apache.logging.log4j:log4j-core:2.25.4",
    ),
    "3.9": (
        "org.apache.kafka:kafka_2.13:3.9.2",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    "3.6": (
        "org.apache.kafka:kafka_2.13:3.6.2",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    "3.3": (
        "org.apache.kafka:kafka_2.13:3.3.2",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
    "2.8": (
        "org.apache.kafka:kafka_2.13:2.8.2",
        "org.slf4j:slf4j-log4j12:1.7.30",
    ),
    # An independent client of Connect's REST API.
    "connect-client": ("org.sourcelab:kafka-connect-client:4.0.5",),
}
NEWEST = "4.3"

_LOCKS = Path(__file__).parent / "locks"


@dataclass(frozen=True, slots=True)
class Jar:
    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"


def before(line: str, other: str) -> bool:
    """Whether a release line is older than another."""
    return [int(number) for number in line.split(".")] < [int(number) for number in other.split(".")]


def class_path(line: str = NEWEST) -> str:
    """The class path of a Kafka release line; the jars are fetched on first use."""
    return os.pathsep.join(str(jar) for jar in sorted(fetch(line).glob("*.jar")))


def fetch(line: str) -> Path:
    """The folder with exactly the locked jars. If it exists it is not checked again."""
    if line not in ROOTS:
        raise LabError(f"unknown Kafka release line {line}: use one of {', '.join(ROOTS)}")
    lock = (_LOCKS / f"{line}.lock").read_text()
    folder = cache_folder() / f"kafka-{line}-{hashlib.sha256(lock.encode()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    with _exclusive_lock(cache_folder() / "lock"):
        if not folder.is_dir():  # another process may have fetched them in the meantime
            _fetch_locked(line, _read_lock(lock), folder)
    return folder


def _fetch_locked(line: str, jars: list[Jar], folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with Progress(f"fetching Apache Kafka {line} (jars)", len(jars)) as progress:
        for number, name in enumerate(
            ivy.retrieve([(j.organisation, j.name, j.version) for j in jars], partial, cache_folder()), 1
        ):
            progress.update(min(number, len(jars)), name)
        progress.update(len(jars))
    for jar in jars:
        file = partial / f"{jar.organisation}+{jar.file_name}"
        if not file.is_file():
            raise LabError(f"Kafka {line}: {jar.organisation}:{jar.name}:{jar.version} is missing: run again")
        if _digest(file) != jar.sha256:
            raise LabError(
                f"Kafka {line}: {jar.file_name} differs from the lock file (SHA-256): "
                f"remove {cache_folder() / 'ivy'} and check your Maven repository"
            )
        file.rename(partial / jar.file_name)
    partial.rename(folder)


def _read_lock(text: str) -> list[Jar]:
    rows = (line.replace(" ", ":").split(":") for line in text.splitlines())
    return [Jar(organisation, name, version, digest) for organisation, name, version, digest in rows]


def _write_lock(line: str) -> None:
    into = cache_folder() / "locking"
    shutil.rmtree(into, ignore_errors=True)
    with _exclusive_lock(cache_folder() / "lock"), Progress(f"resolving Kafka {line}") as progress:
        for number, name in enumerate(
            ivy.retrieve([tuple(r.split(":")) for r in ROOTS[line]], into, cache_folder(), deep=True)
        ):
            progress.update(number, name)
    rows = []
    for file in sorted(into.glob("*.jar")):
        organisation, name, version = re.fullmatch(r"(.+?)\+(.+?)-(\d.*)\.jar", file.name).groups()  # type: ignore[union-attr]
        rows.append(f"{organisation}:{name}:{version} {_digest(file)}\n")
    _LOCKS.mkdir(exist_ok=True)
    (_LOCKS / f"{line}.lock").write_text("".join(rows))
    shutil.rmtree(into)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _exclusive_lock(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    locking = "--lock" in arguments
    try:
        for line in [a for a in arguments if a != "--lock"] or [NEWEST]:
            if locking:
                _write_lock(line)
            else:
                fetch(line)
    except (LabError, TwinlogError) as error:
        print(f"twinlog: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
