"""Writes the archive of Java classes that lets Spark start in half the CPU: `python -m twinlog.pipeline.archive`.

Once per machine, or in the build of an image; it takes about half a minute and 170 MB of the user's cache folder.
"""

import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.pipeline import session, spark_home

_PATIENCE = 300.0  # seconds for Java to write 170 MB, on a busy machine


def write() -> Path | None:
    """Runs a small stream in a Spark that notes the classes it loads. Returns None where Java cannot have an archive.

    Two that write at once would do the work twice: the second waits for the first.
    """
    home = spark_home.overlay(cache_folder())
    archive = spark_home.archive(home, java.find())
    if archive is None or not os.access(home, os.W_OK):
        return None
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            sys.stderr.write("set-up: an archive of Spark's classes (half a minute, once per machine)\n")
            partial = archive.with_suffix(f".{os.getpid()}")
            try:
                _run(f"-XX:ArchiveClassesAtExit={partial}")
                partial.replace(archive)
            finally:
                partial.unlink(missing_ok=True)
    return archive


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
            session.stop(spark, _PATIENCE)


if __name__ == "__main__":
    write()
