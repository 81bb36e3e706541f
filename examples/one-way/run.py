"""Seed one: access logs on rdc, three brokers, and their twin on ord, three brokers; see README.md beside this file."""

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

from twinlog.errors import LabError
from twinlog.lab import jars, java_process
from twinlog.lab.archive import Archive
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command
from twinlog.lab.compare import read
from twinlog.lab.ends import Ends
from twinlog.lab.example import Stage, fetch, main, prove, say, wait_until_equal
from twinlog.lab.ports import HOST, chosen_port
from twinlog.lab.tools import CLASSES
from twinlog.lab.traffic import HEADER, access_log
from twinlog.lab.waiting import until

HERE = Path(__file__).parent
RDC = ",".join(f"node00{n}.dev.dpl.kafka.cnvr.net:9092" for n in (1, 2, 3))
ORD = ",".join(f"node00{n}.dev.dpl.kafka.cnvr.net:9092" for n in (4, 5, 6))
REMOTE = {"apache-logs": "rdc.apache-logs", "DmmAccess": "rdc.DmmAccess"}
METRICS_PORT = 8095  # where the seed's exporter listened
KILL, ROTATE = "kill -9: the producer", "access.csv is rotated"
HISTORY, RATE = 20_000, 500  # lines of the sample day; lines a second after it


def play(stage: Stage) -> None:
    say("starting two real Kafka clusters, rdc and ord, of three brokers each")
    rdc, ord_ = stage.lab.clusters(ClusterSpec(name="rdc", brokers=3), ClusterSpec(name="ord", brokers=3))
    addresses = {RDC: rdc.bootstrap(), ORD: ord_.bootstrap()}

    topics = stage.fill(HERE / "topics.sh", {RDC: rdc.bootstrap()})
    say(stage.command("topics", "sh", topics, env={"KAFKA_TOPICS": kafka_topics()}).finish())

    file = stage.fill(HERE / "mm2-data-replication.properties", addresses)
    port = chosen_port(METRICS_PORT)
    twinlog = stage.twinlog("run", file, "--port", str(port))
    logs = stage.lab.folder / "input_logs"
    say(f"a sample day of {HISTORY:,} lines: {write_day(logs, dt.date(2017, 6, 30), HISTORY).name}")
    producer = follow(stage, rdc, logs)
    twinlog.wait_for("relaying 3 topics, 22 partitions")  # heartbeats are copied, too

    say(f"\n{stage.seconds:g} s of traffic: a log that grows and is rotated; the producer is killed, and goes on")
    for moment in traffic(stage.seconds, logs, rdc):
        twinlog.check()
        say(f"  {moment}")
        if moment == KILL:
            producer.kill()
            producer = follow(stage, rdc, logs)
    written = lines_of(logs)
    published = wait_for_lines(rdc, written, producer)
    wait_until_equal(rdc, ord_, REMOTE, twinlog)
    show_metrics(f"http://{HOST}:{port}/metrics", rdc, twinlog)
    producer.stop()
    say(f"SIGTERM: twinlog run has ended after {twinlog.stop():.1f} s")

    say("\ncomparing:")
    again = sum(published.values()) - len(written)
    say(f"  {len(written):,} lines in files: all are on rdc, {again:,} of them were published again after the kill")
    total = prove(rdc, ord_, REMOTE)
    say(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order")


def follow(stage: Stage, rdc: Cluster, logs: Path) -> Command:
    """The producer, with the variables of the seed's docker-compose file."""
    environment = {
        "BOOTSTRAP_SERVERS": ",".join(rf"PLAINTEXT:\/\/{each}" for each in rdc.bootstrap().split(",")),
        "ACKS": "all",
        "LINGER_MS": "1",
        "OUTPUT_FORMAT": "csv",
        "TOPIC_NAME": "apache-logs",
        "INPUT_LOGS_DIR": str(logs).replace("/", r"\/"),
    }
    return stage.command("edgar-producer", sys.executable, HERE / "edgar_producer.py", env=environment)


def traffic(seconds: float, logs: Path, rdc: Cluster) -> Iterator[str]:
    """Writes lines to a log, as a web server would, and a few records to DmmAccess. Yields what it does beside."""
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
        raise LabError(f"{left} records could not be published to DmmAccess")


def lines_of(logs: Path) -> set[bytes]:
    files = [file for file in logs.iterdir() if not file.name.startswith(".")]
    return {line for file in files for line in file.read_bytes().splitlines()} - {HEADER.encode()}


def wait_for_lines(rdc: Cluster, written: set[bytes], producer: Command) -> Counter[bytes]:
    """How often each line is on rdc, once all are."""
    found: Counter[bytes] = Counter()

    def all_there() -> bool:
        found.clear()
        for partition in range(15):
            found.update(record.value or b"" for record in read(rdc.client_properties(), "apache-logs", partition))
        return written <= found.keys()

    until(all_there, "every line should be on rdc", failed=producer.process.last_words, logs=producer.process.quote)
    if strange := found.keys() - written:
        raise LabError(f"{len(strange)} lines on rdc stand in no file, such as {strange.pop()!r}")
    return found


def show_metrics(url: str, rdc: Cluster, twinlog: Command) -> None:
    """What Prometheus scrapes: as many records as rdc has."""
    with Ends(rdc) as ends:
        wanted = {
            f'twinlog_topic_records_total{{flow="rdc->ord",topic="{topic}"}} {ends.total(topic)}' for topic in REMOTE
        }
    until(
        lambda: wanted <= set(fetch(url).splitlines()),
        f"{url} should say {', '.join(sorted(wanted))}",
        failed=twinlog.process.last_words,
        logs=twinlog.process.quote,
    )
    say(f"\n{url}:")
    for line in sorted(wanted):
        say(f"  {line}")


def kafka_topics() -> str:
    """Kafka's own tool, which is no script here: a command line."""
    flags = [*java_process.SMALL, *Archive(jars.NEWEST, "broker").use()]
    return shlex.join(java_process.command(jars.NEWEST, CLASSES["topics"], [], flags=flags, level="WARN"))


if __name__ == "__main__":
    main(play, about=__doc__, seconds=20)
