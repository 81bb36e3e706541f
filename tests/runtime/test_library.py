"""The data source in a user's Spark session, as documented."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.process import tail
from lab.raw_protocol import RawProtocol
from tests.runtime.conftest import Pair
from twinlog import java
from twinlog.cache import cache_folder
from twinlog.spark import spark_home

pytestmark = [pytest.mark.broker, pytest.mark.spark]

# A user's program: executes commands from standard input.
PROGRAM = """\
import sys
from pyspark.sql import SparkSession
from twinlog.spark import TwinlogDataSource

config, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[4,4]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(TwinlogDataSource)


def write(name):
    options = {"config": config, "flow": "us->eu"}
    assignments = spark.readStream.format("twinlog").options(**options).load()
    writer = assignments.writeStream.format("twinlog").options(**options)
    return writer.option("checkpointLocation", f"{folder}/{name}").queryName(name)


query = None
for line in sys.stdin:
    match line.split():
        case ["once", name]:
            query = write(name).trigger(availableNow=True).start()
            query.awaitTermination()
        case ["start", name]:
            query = write(name).start()
        case ["stop"]:
            query.stop()
            assert query.exception() is None, query.exception()
    print("done", line.strip(), flush=True)
"""


class Program:
    def __init__(self, folder: Path, file: Path) -> None:
        (folder / "program.py").write_text(PROGRAM)
        self.log = folder / "program.log"
        home = java.home_for_spark(java.find(), folder)  # one that pip brought is not complete
        # Starts in a fraction of the time: links to the installed Spark, and fewer compilers of the JVM.
        spark = spark_home.overlay(cache_folder())
        flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xlog:disable"]
        if (archive := spark_home.archive(spark, java.find())) is not None:
            flags.append(f"-XX:SharedArchiveFile={archive}")
        submitted = f'--driver-java-options "{" ".join(flags)}" pyspark-shell'
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", folder / "program.py", file, folder / "checkpoints"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder,
                env={
                    **os.environ, "JAVA_HOME": str(home), "SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_SUBMIT_ARGS": submitted,
                },
            )  # fmt: skip

    def __call__(self, command: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer == f"done {command}", tail(self.log)

    def close(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture
def program(pair: Pair, topic: str) -> Iterator[Program]:
    program = Program(pair.folder, pair.file({"topics": f"{topic}.*", "tasks.max": "2"}))
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


def test_once_repeatedly_and_continuously(pair: Pair, program: Program, us: Cluster, eu: Cluster, topic: str) -> None:
    us.create_topic(topic, 3)
    feed = pair.feed(topic)
    feed.flow()
    time.sleep(0.5)
    # Periodic runs with one checkpoint.
    for _ in range(2):
        feed.pause()
        program("once nightly")
        pair.assert_equal(topic)
        feed.flow()
        time.sleep(0.5)

    program("start continuous")
    wait_for_records(pair, topic)
    # The running epoch is not committed: the restarted query resumes it.
    program("stop")
    wait_until_idle(pair, topic)
    program("start continuous")
    wait_for_records(pair, topic)
    feed.pause()
    pair.wait_until_equal(topic)
    program("stop")
    pair.assert_equal(topic)
    program.close()
    assert program.process.returncode == 0, tail(program.log)
    with RawProtocol(eu.client_properties()) as wire:
        assert wire.partitions("mm2-offsets.us.internal"), "positions are where MM2 has them"


def wait_for_records(pair: Pair, topic: str) -> None:
    wanted = pair.arrived(topic) + 500
    deadline = time.monotonic() + 60
    while pair.arrived(topic) < wanted:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_until_idle(pair: Pair, topic: str) -> None:
    """Spark kills a worker only after two seconds."""
    deadline = time.monotonic() + 20
    before = -1
    while (now := pair.arrived(topic)) != before:
        assert time.monotonic() < deadline
        before = now
        time.sleep(1)


def test_twinlog_itself_needs_no_spark() -> None:
    code = "import sys, twinlog, twinlog.config, twinlog.cli.main; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
