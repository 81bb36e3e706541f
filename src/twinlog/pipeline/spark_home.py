"""What is made once per machine so that Spark starts fast: a SPARK_HOME of our own, and an archive of Java classes.

Spark's workers import pyspark from `$SPARK_HOME/python/lib/pyspark.zip`, and the zip that pip installs holds no
bytecode: each of the half dozen Python processes that a data source needs compiles its imports anew (0.8 s of CPU
instead of 0.2 s). In our SPARK_HOME that "zip" is a folder with a link to the installed package, whose bytecode lies
beside it.

The archive (AppCDS) holds the 19,000 classes that Spark loads, parsed and checked; the JVM maps it, which halves the
CPU of a start. `python -m twinlog.pipeline.archive` writes it. Nothing fails for want of it: Java ignores an archive
that does not fit.
"""

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path

import py4j
import pyspark

from twinlog.java import Java

_LINKED = ("bin", "jars", "sbin")  # what the start scripts and Spark itself look for under SPARK_HOME


def overlay(*roots: Path) -> Path:
    """The SPARK_HOME for the installed PySpark, under the first of `roots` that can be written to.

    Its name says which installation it serves, so it is never changed once it stands, and two processes that make it
    at once make the same: each builds its own aside and renames it; the one that comes second uses the first's.
    """
    installed, bridge = _folder(pyspark), _folder(py4j)
    key = hashlib.sha256(f"{pyspark.__version__} {installed} {bridge}".encode()).hexdigest()[:12]
    name = f"spark-{pyspark.__version__}-{key}"
    for root in roots:
        home = root / name
        with contextlib.suppress(OSError):
            if not home.is_dir():
                _make(home, installed, bridge)
            return home
    return installed  # slower, but all there


def archive(home: Path, java: Java) -> Path | None:
    """The place of the archive, named by what Java itself compares; None if this Java cannot have one."""
    modules = java.home / "lib" / "modules"
    if not (java.home / "lib" / "server" / "classes.jsa").is_file():
        return None  # a stripped runtime lacks the archive of Java's own classes, on which ours would build
    try:
        seen = f"{modules} {modules.stat().st_size} {modules.stat().st_mtime_ns}"
    except OSError:
        return None  # not a Java that we understand
    return home / f"java-{java.major}-{hashlib.sha256(seen.encode()).hexdigest()[:12]}.jsa"


def _make(home: Path, installed: Path, bridge: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        for name in _LINKED:
            (partial / name).symlink_to(installed / name)
        for zipped in (installed / "python" / "lib").glob("*.zip"):  # Spark asks for them by their names
            package = bridge if zipped.name.startswith("py4j") else installed
            stand_in = partial / "python" / "lib" / zipped.name
            stand_in.mkdir(parents=True)
            (stand_in / package.name).symlink_to(package)
        partial.chmod(0o755)  # mkdtemp makes it private; there is nothing to hide
        try:
            partial.rename(home)
        except OSError:
            if not home.is_dir():  # if it is there, another process was first
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _folder(package: object) -> Path:
    file = getattr(package, "__file__", None)
    assert isinstance(file, str)
    return Path(file).resolve().parent
