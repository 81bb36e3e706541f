"""Writes the Java class archive that halves the CPU cost of starting Spark: `python -m twinlog.spark.class_archive`.

Run it once per machine or in an image build; it takes about 30 s and 170 MB in the user's cache folder.
`--check` fails if Java rejects the existing archive, which it otherwise ignores silently.
"""

import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.errors import SparkError
from twinlog.spark import session, spark_home

_STOP_TIMEOUT = 300.0  # seconds for Java to write 170 MB on a busy machine


def write() -> Path | None:
    """Runs a small stream and has Java archive the loaded classes. None if this Java does not support an archive.

    Concurrent writers are serialized, so that the work is done once.
    """
    home = spark_home.overlay(cache_folder())
    archive = spark_home.archive(home, java.find())
    if archive is None or not os.access(home, os.W_OK):
        return None
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            sys.stderr.write("set-up: writing the Java class archive for Spark (30 s, once per machine)\n")
            partial = archive.with_suffix(f".{os.getpid()}")
            try:
                _run(f"-XX:ArchiveClassesAtExit={partial}")
                partial.replace(archive)
            finally:
                partial.unlink(missing_ok=True)
    return archive


def check() -> None:
    """Starts Spark with the archive; raises SparkError if Java rejects it."""
    archive = spark_home.archive(spark_home.overlay(cache_folder()), java.find())
    if archive is None or not archive.is_file():
        raise SparkError("Java class archive: not found; create it with python -m twinlog.spark.class_archive")
    _run("-Xshare:on")


def _run(flag: str) -> None:
    with tempfile.TemporaryDirectory(prefix="twinlog-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = session.start(None, 1, folder, {"spark.driver.extraJavaOptions": flag})
        try:
            rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
            query = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
            while query.isActive and (query.lastProgress is None or query.lastProgress.batchId < 2):
                time.sleep(0.1)
            query.stop()
        finally:
            session.stop(spark, _STOP_TIMEOUT)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        try:
            check()
        except SparkError as error:
            sys.exit(f"twinlog: {error}")
    else:
        write()
