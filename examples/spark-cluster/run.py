"""Twinlog on a Spark cluster: a worker is killed and nothing is lost; then submitted with a packed environment."""

import itertools
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command
from twinlog.lab.ends import Ends
from twinlog.lab.example import Stage, main, prove, say, wait_until_equal
from twinlog.lab.ports import HOST
from twinlog.lab.spark_cluster import SparkCluster
from twinlog.lab.traffic import access_log
from twinlog.lab.waiting import until

HERE = Path(__file__).parent
LIVE, PAST = "orders", "orders-of-last-year"
RATE = 1000  # records a second
QUIET = ("--conf", "spark.ui.enabled=false", "--conf", f"spark.driver.host={HOST}")


def play(stage: Stage) -> None:
    say("starting two Kafka clusters, us and eu, and a Spark cluster: a master and two workers with two slots each")
    us, eu = stage.lab.clusters("us", "eu")
    spark = stage.stack.enter_context(SparkCluster(stage.lab.folder / "spark", workers=2, cores=2))
    us.create_topic(LIVE, partitions=4)
    file = stage.fill(HERE / "mm2.properties", {"us-1:9092": us.bootstrap(), "eu-1:9092": eu.bootstrap()})

    traffic = Traffic(us)
    traffic.start()
    stage.stack.callback(traffic.stop)
    twinlog = stage.twinlog("run", file, "--master", spark.url, *QUIET)
    twinlog.wait_for("relaying")
    time.sleep(stage.seconds / 2)
    kill_a_worker(spark, eu, twinlog)
    time.sleep(stage.seconds / 2)
    traffic.stop()
    wait_until_equal(us, eu, {LIVE: f"us.{LIVE}"}, twinlog)
    say(f"SIGTERM: twinlog run has ended after {twinlog.stop():.1f} s\n")

    us.create_topic(PAST, partitions=2)
    traffic.publish(PAST, 20_000)
    submit(stage, spark, file)

    say("\ncomparing both clusters record by record:")
    total = prove(us, eu, {topic: f"us.{topic}" for topic in (LIVE, PAST)})
    say(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def kill_a_worker(spark: SparkCluster, eu: Cluster, twinlog: Command) -> None:
    """One that has work; it ends when every partition has moved on."""
    until(lambda: all(worker.executors() for worker in spark.workers), "each worker should have an executor")
    with Ends(eu) as ends:
        before = ends.each(f"us.{LIVE}")
        say(f"kill -9 {spark.workers[0].process.pid}   (a worker; its executor and their tasks go with it)")
        spark.workers[0].kill()
        killed = time.monotonic()
        until(
            lambda: all(now > then + RATE // 2 for now, then in zip(ends.each(f"us.{LIVE}"), before, strict=True)),
            "every partition should go on",
            failed=twinlog.process.last_words,
            logs=twinlog.process.quote,
        )
        say(f"  {time.monotonic() - killed:.1f} s later every partition has gone on, in the other worker")


def submit(stage: Stage, spark: SparkCluster, file: Path) -> None:
    """As from a machine that has nothing but the archive and Spark: once over what there is."""
    folder = stage.lab.folder / "submit"
    folder.mkdir()
    archive = folder / "twinlog-env.tar.gz"
    say("$ scripts/pack twinlog-env.tar.gz   (here without compression)")
    stage.command("pack", sys.executable, "-m", "twinlog.pipeline.pack", archive, "0").finish(300)
    options = [*QUIET, "--conf", "spark.log.level=WARN", "--conf", "spark.cores.max=2"]
    environment = {
        "SPARK_HOME": str(spark.home),
        "SPARK_OPTIONS": " ".join(options),
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),
    }
    script = f'cd {folder} && exec {HERE.resolve() / "submit.sh"} "$@"'
    submitted = stage.command(
        "submit", "sh", "-c", script, "submit", spark.url, archive, "run", file.resolve(), "--once", env=environment
    )
    for line in submitted.finish(300).splitlines():
        if "us->eu" in line:
            say(f"  {line}")


class Traffic(threading.Thread):
    """Publishes lines to the live topic until it is stopped."""

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

    def publish(self, topic: str, records: int) -> None:
        for _ in range(records):
            self._send(topic)
        self._flush()

    def _send(self, topic: str) -> None:
        visitor, line = next(self._lines)
        self._producer.produce(topic, line.encode(), visitor.encode())
        self._producer.poll(0)

    def _flush(self) -> None:
        if left := self._producer.flush(60):
            raise LabError(f"{left} records could not be published")


if __name__ == "__main__":
    main(play, about=__doc__, seconds=20)
