"""Created once per machine so that Spark starts fast: our own SPARK_HOME, and a Java class archive.

Spark's workers import pyspark from `$SPARK_HOME/python/lib/pyspark.zip`. The zip that pip installs holds no bytecode,
so each of the six or so Python processes of a data source compiles its imports (0.8 s of CPU instead of 0.2 s). In our
SPARK_HOME that "zip" is a folder with a link to the installed package, which has its bytecode cached.

The archive (AppCDS) holds the 19,000 classes that Spark loads, parsed and verified. The JVM maps it, which halves the
CPU cost of a start. `python -m twinlog.spark.class_archive` writes it. It is optional: Java ignores an archive that
does not match.
"""

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path

import py4j
import pyspark

from twinlog.cache import make_private, tree_changeable_by_others
from twinlog.java import Java

_LINKED = ("bin", "jars", "sbin")  # what the start scripts and Spark expect in SPARK_HOME


def overlay(*roots: Path) -> Path:
    """The SPARK_HOME for the installed PySpark, under the first of `roots` that only this user can write to.

    Its name identifies the installation, so an existing one is never changed. Processes that create it concurrently
    build their own copy and rename it; the second uses the copy of the first.
    """
    installed, bridge = _folder(pyspark), _folder(py4j)
    key = hashlib.sha256(f"{pyspark.__version__} {installed} {bridge}".encode()).hexdigest()[:12]
    name = f"spark-{pyspark.__version__}-{key}"
    for root in roots:
        home = root / name
        with contextlib.suppress(OSError):
            if not home.is_dir():
                _make(home, installed, bridge)
            if not tree_changeable_by_others(home):  # or another user could have Python run their code
                return home
    return installed  # slower, but complete


def archive(home: Path, java: Java) -> Path | None:
    """Path of the archive, named by what Java itself compares; None if this Java does not support one."""
    modules = java.home / "lib" / "modules"
    if not (java.home / "lib" / "server" / "classes.jsa").is_file():
        return None  # a stripped runtime lacks the archive of the JDK classes, on which ours is based
    try:
        identity = f"{modules} {modules.stat().st_size} {modules.stat().st_mtime_ns}"
    except OSError:
        return None  # unknown Java layout
    return home / f"java-{java.major}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def _make(home: Path, installed: Path, bridge: Path) -> None:
    make_private(home.parent)
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        for name in _LINKED:
            (partial / name).symlink_to(installed / name)
        for zipped in (installed / "python" / "lib").glob("*.zip"):  # Spark refers to them by name
            package = bridge if zipped.name.startswith("py4j") else installed
            replacement = partial / "python" / "lib" / zipped.name
            replacement.mkdir(parents=True)
            (replacement / package.name).symlink_to(package)
        partial.chmod(0o755)  # mkdtemp created it private, but nothing in it is secret
        try:
            partial.rename(home)
        except OSError:
            if not home.is_dir():  # otherwise another process was first
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _folder(package: object) -> Path:
    file = getattr(package, "__file__", None)
    assert isinstance(file, str)
    return Path(file).resolve().parent
