"""One-way: access logs are replicated from rdc to ord, with three brokers each; see README.md in this folder."""

import datetime as dt
import itertools
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from sample_day import write_day

from lab import jars, java_process
from lab.access_logs import HEADER, access_log
from lab.broker import ClusterSpec
from lab.class_archive import Archive
from lab.cluster import Cluster
from lab.command import Command
from lab.compare_logs import read
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.example import Example, echo, fetch, main, verify_equal, wait_until_equal
from lab.kafka_tools import CLASSES
from lab.ports import HOST, preferred_port
from lab.waiting import until

HERE = Path(__file__).parent
RDC = ",".join(f"node00{n}.dev.dpl.kafka.cnvr.net:9092" for n in (1, 2, 3))
ORD = ",".join(f"node00{n}.dev.dpl.kafka.cnvr.net:9092" for n in (4, 5, 6))
REMOTE = {"apache-logs": "rdc.apache-logs", "DmmAccess": "rdc.DmmAccess"}
METRICS_PORT = 8095
KILL, ROTATE = "kill -9: the producer", "rotated access.csv"
HISTORY, RATE = 20_000, 500  # lines of the sample day; lines per second after it


def run(example: Example) -> None:
    echo("starting two real Kafka clusters, rdc and ord, of three brokers each")
    rdc, ord_ = example.lab.clusters(ClusterSpec(name="rdc", brokers=3), ClusterSpec(name="ord", brokers=3))
    addresses = {RDC: rdc.bootstrap(), ORD: ord_.bootstrap()}

    topics = example.fill(HERE / "topics.sh", {RDC: rdc.bootstrap()})
    echo(example.command("topics", "sh", topics, env={"KAFKA_TOPICS": kafka_topics()}).finish())

    file = example.fill(HERE / "mm2-data-replication.properties", addresses)
    port = preferred_port(METRICS_PORT)
    twinlog = example.twinlog("run", file, "--port", str(port))
    logs = example.lab.folder / "input_logs"
    echo(f"a sample day of {HISTORY:,} lines: {write_day(logs, dt.date(2017, 6, 30), HISTORY).name}")
    producer = follow(example, rdc, logs)
    twinlog.wait_for("relaying 3 topics, 22 partitions")  # including heartbeats

    echo(f"\n{example.seconds:g} s of traffic: a log grows and is rotated, the producer is killed and restarted")
    for moment in traffic(example.seconds, logs, rdc):
        twinlog.check()
        echo(f"  {moment}")
        if moment == KILL:
            producer.kill()
            producer = follow(example, rdc, logs)
    written = lines_of(logs)
    published = wait_for_lines(rdc, written, producer)
    wait_until_equal(rdc, ord_, REMOTE, twinlog)
    show_metrics(f"http://{HOST}:{port}/metrics", rdc, twinlog)
    producer.stop()
    echo(f"SIGTERM: twinlog run exited after {twinlog.stop():.1f} s")

    echo("\ncomparing:")
    again = sum(published.values()) - len(written)
    echo(f"  {len(written):,} lines in files: all are on rdc, {again:,} were produced again after the kill")
    total = verify_equal(rdc, ord_, REMOTE)
    echo(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def follow(example: Example, rdc: Cluster, logs: Path) -> Command:
    """Starts the producer, with environment variables as in a docker-compose file."""
    environment = {
        "BOOTSTRAP_SERVERS": ",".join(rf"PLAINTEXT:\/\/{each}" for each in rdc.bootstrap().split(",")),
        "ACKS": "all",
        "LINGER_MS": "1",
        "OUTPUT_FORMAT": "csv",
        "TOPIC_NAME": "apache-logs",
        "INPUT_LOGS_DIR": str(logs).replace("/", r"\/"),
    }
    return example.command("edgar-producer", sys.executable, HERE / "edgar_producer.py", env=environment)


def traffic(seconds: float, logs: Path, rdc: Cluster) -> Iterator[str]:
    """Writes lines to a log, like a web server, and a few records to DmmAccess. Yields the faults it injects."""
    lines = (line for _, line in access_log(seed=1, rate=RATE))
    flume = Producer({**rdc.librdkafka_properties(), "acks": "all", "log_level": 0})
    current = logs / "access.csv"
    plan = iter([(KILL, 0.3), (ROTATE, 0.5), (KILL, 0.7), (ROTATE, 0.8)])
    moment, due = next(plan)
    began = time.monotonic()
    current.write_text(f"{HEADER}\n")
    for tick in itertools.count():
        with current.open("a") as out:
            out.writelines(f"{next(lines)}\n" for _ in range(RATE // 10))
        flume.produce("DmmAccess", f"dmm event {tick}".encode(), str(tick % 100).encode())
        flume.poll(0)
        elapsed = time.monotonic() - began
        if elapsed > due * seconds:
            if moment == ROTATE:
                current.rename(logs / f"access.csv.{tick}")
            yield moment
            moment, due = next(plan, ("", float("inf")))
        if elapsed > seconds:
            break
        time.sleep(0.1)
    if left := flume.flush(60):
        raise LabError(f"DmmAccess: {left} records were not acknowledged within 60 s")


def lines_of(logs: Path) -> set[bytes]:
    files = [file for file in logs.iterdir() if not file.name.startswith(".")]
    return {line for file in files for line in file.read_bytes().splitlines()} - {HEADER.encode()}


def wait_for_lines(rdc: Cluster, written: set[bytes], producer: Command) -> Counter[bytes]:
    """Waits until all lines are on rdc, and returns how often each of them is."""
    found: Counter[bytes] = Counter()

    def all_arrived() -> bool:
        found.clear()
        for partition in range(15):
            found.update(record.value or b"" for record in read(rdc.client_properties(), "apache-logs", partition))
        return written <= found.keys()

    waiting = "waiting for all lines on rdc"
    until(all_arrived, waiting, failed=producer.process.exit_report, logs=producer.process.log_excerpt)
    if unknown := found.keys() - written:
        raise LabError(f"{len(unknown)} lines on rdc are in no file, such as {unknown.pop()!r}")
    return found


def show_metrics(url: str, rdc: Cluster, twinlog: Command) -> None:
    """Prints the metrics that Prometheus scrapes, once they count all records of rdc."""
    with EndOffsets(rdc) as ends:
        expected = {
            f'twinlog_topic_records_total{{flow="rdc->ord",topic="{topic}"}} {ends.total(topic)}' for topic in REMOTE
        }
    until(
        lambda: expected <= set(fetch(url).splitlines()),
        f"waiting for {', '.join(sorted(expected))} at {url}",
        failed=twinlog.process.exit_report,
        logs=twinlog.process.log_excerpt,
    )
    echo(f"\n{url}:")
    for line in sorted(expected):
        echo(f"  {line}")


def kafka_topics() -> str:
    """The command line of Kafka's own tool: there is no kafka-topics.sh here."""
    flags = [*java_process.SMALL, *Archive(jars.NEWEST, "broker").use()]
    return shlex.join(java_process.command(jars.NEWEST, CLASSES["topics"], [], flags=flags, level="WARN"))


if __name__ == "__main__":
    main(run, about=__doc__, seconds=20)
