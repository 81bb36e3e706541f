"""Twinlog on a Spark cluster: a worker is killed without loss; then Twinlog is submitted with a packed environment."""

import itertools
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from lab.access_logs import access_log
from lab.cluster import Cluster
from lab.command import Command
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.example import Example, echo, main, verify_equal, wait_until_equal
from lab.ports import HOST
from lab.spark_cluster import SparkCluster
from lab.waiting import until

HERE = Path(__file__).parent
LIVE, PAST = "orders", "orders-of-last-year"
RATE = 1000  # records per second
QUIET = ("--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.host={HOST}")


def run(example: Example) -> None:
    echo("starting two Kafka clusters, us and eu, and a Spark cluster: a master and two workers with two slots each")
    us, eu = example.lab.clusters("us", "eu")
    spark = example.stack.enter_context(SparkCluster(example.lab.folder / "spark", workers=2, cores=2))
    us.create_topic(LIVE, partitions=4)
    file = example.fill(HERE / "mm2.properties", {"us-1:9092": us.bootstrap(), "eu-1:9092": eu.bootstrap()})

    traffic = Traffic(us)
    traffic.start()
    example.stack.callback(traffic.stop)
    twinlog = example.twinlog("run", file, "--master", spark.url, *QUIET)
    twinlog.wait_for("relaying")
    time.sleep(example.seconds / 2)
    kill_a_worker(spark, eu, twinlog)
    time.sleep(example.seconds / 2)
    traffic.stop()
    wait_until_equal(us, eu, {LIVE: f"us.{LIVE}"}, twinlog)
    echo(f"SIGTERM: twinlog run exited after {twinlog.stop():.1f} s\n")

    us.create_topic(PAST, partitions=2)
    traffic.produce(PAST, 20_000)
    submit(example, spark, file)

    echo("\ncomparing both clusters record by record:")
    total = verify_equal(us, eu, {topic: f"us.{topic}" for topic in (LIVE, PAST)})
    echo(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def kill_a_worker(spark: SparkCluster, eu: Cluster, twinlog: Command) -> None:
    """Kills a worker with an executor and returns when all partitions make progress again."""
    until(lambda: all(worker.executors() for worker in spark.workers), "waiting for an executor on each worker")
    with EndOffsets(eu) as ends:
        before = ends.each(f"us.{LIVE}")
        echo(f"kill -9 {spark.workers[0].process.pid}   (a worker, with its executor and tasks)")
        spark.workers[0].kill()
        killed = time.monotonic()
        until(
            lambda: all(now > then + RATE // 2 for now, then in zip(ends.each(f"us.{LIVE}"), before, strict=True)),
            "waiting for progress on all partitions",
            failed=twinlog.process.exit_report,
            logs=twinlog.process.log_excerpt,
        )
        echo(f"  all partitions continue on the other worker after {time.monotonic() - killed:.1f} s")


def submit(example: Example, spark: SparkCluster, file: Path) -> None:
    """Replicates the existing records once, as from a machine with only the archive and Spark."""
    folder = example.lab.folder / "submit"
    folder.mkdir()
    archive = folder / "twinlog-env.tar.gz"
    echo("$ scripts/pack twinlog-env.tar.gz   (here without compression)")
    example.command("pack", sys.executable, "-m", "twinlog.spark.pack", archive, "0").finish(300)
    options = [*QUIET, "--conf", "spark.log.level=WARN", "--conf", "spark.cores.max=2"]
    environment = {
        "SPARK_HOME": str(spark.home),
        "SPARK_OPTIONS": " ".join(options),
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),
    }
    script = f'cd {folder} && exec {HERE.resolve() / "submit.sh"} "$@"'
    submitted = example.command(
        "submit", "sh", "-c", script, "submit", spark.url, archive, "run", file.resolve(), "--once", env=environment
    )
    for line in submitted.finish(300).splitlines():
        if "us->eu" in line:
            echo(f"  {line}")


class Traffic(threading.Thread):
    """Produces lines to the live topic until it is stopped."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="traffic", daemon=True)
        self._lines = access_log(rate=RATE)
        self._producer = Producer({**cluster.librdkafka_properties(), "linger.ms": 10, "acks": "all"})
        self._done = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        for count in itertools.count(1):
            self._send(LIVE)
            ahead = count / RATE - (time.monotonic() - began)
            if self._done.wait(ahead) if ahead > 0.01 else self._done.is_set():
                break
        self._flush()

    def stop(self) -> None:
        self._done.set()
        if self.is_alive():
            self.join()

    def produce(self, topic: str, records: int) -> None:
        for _ in range(records):
            self._send(topic)
        self._flush()

    def _send(self, topic: str) -> None:
        visitor, line = next(self._lines)
        self._producer.produce(topic, line.encode(), visitor.encode())
        self._producer.poll(0)

    def _flush(self) -> None:
        if left := self._producer.flush(60):
            raise LabError(f"{left} records were not acknowledged within 60 s")


if __name__ == "__main__":
    main(run, about=__doc__, seconds=20)
