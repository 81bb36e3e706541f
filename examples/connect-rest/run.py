"""Connectors by REST: two sources are merged into one topic of one target; see README.md in this folder."""

import itertools
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from lab.access_logs import access_log
from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.command import Command
from lab.compare_logs import StoredRecord, read
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.example import Example, echo, fetch, main
from lab.ports import HOST, preferred_port
from lab.waiting import until

HERE = Path(__file__).parent
TOPIC, PARTITIONS, RATE = "test", 5, 200
SOURCES = {"source-0": (0, 1), "source-1": (2, 3)}  # by the numbers of their brokers
RUNNING = [f'{each} connector: "RUNNING"' for each in ("Checkpoint", "Heartbeat", "Source")]


def run(example: Example) -> None:
    if missing := [each for each in ("bash", "curl", "jq") if shutil.which(each) is None]:
        raise LabError(f"mm2.sh needs {', '.join(missing)}: install it and try again")
    echo("starting three real Kafka clusters of two brokers each: source-0, source-1, target-0")
    *sources, target = example.lab.clusters(*(ClusterSpec(name=name, brokers=2) for name in (*SOURCES, "target-0")))
    for source in sources:
        source.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
    for source in sources:
        fill(example, source, target)

    port = preferred_port(8083)  # the script's; .curlrc redirects it if it is in use
    (example.folder / ".curlrc").write_text(f'connect-to = "localhost:8083:{HOST}:{port}"\n')
    worker = serve(example, target, port)
    for name in SOURCES:
        script(example, "deploy", name)
    for name in SOURCES:
        wait_until_running(example, worker, name)
        echo("\n".join(script(example, "status", name)))

    echo(f"\n{example.seconds:g} s of traffic on both sources")
    with traffic(sources):
        time.sleep(example.seconds / 2)
        echo("kill -9: the worker; the next one reads the connectors from the target's topic connect-configs")
        worker.kill()
        worker = serve(example, target, port)
        for name in SOURCES:
            wait_until_running(example, worker, name)
        script(example, "redeploy", "source-0")
        wait_until_running(example, worker, "source-0")
        time.sleep(example.seconds / 2)
    wait_until_merged(sources, target, worker)
    show_metrics(f"http://{HOST}:{port}/metrics", worker)
    for name in SOURCES:
        script(example, "undeploy", name)
    echo(f"SIGTERM: twinlog serve exited after {worker.stop():.1f} s")

    echo("\ncomparing:")
    total = sum(verify_merged(source, target) for source in sources)
    echo(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order, once each")


def fill(example: Example, source: Cluster, target: Cluster) -> None:
    """Fills the addresses into mm2/*.json of a source."""
    folder = example.folder / "mm2"
    folder.mkdir(exist_ok=True)
    addresses = {
        _addresses("source", *SOURCES[source.name]): source.bootstrap(),
        _addresses("target", 0, 1): target.bootstrap(),
    }
    for file in sorted((HERE / "mm2").glob(f"mm2-*-{source.name}.json")):
        example.fill(file, addresses).replace(folder / file.name)


def serve(example: Example, target: Cluster, port: int) -> Command:
    file = example.fill(HERE / "connect-distributed.properties", {_addresses("target", 0, 1): target.bootstrap()})
    worker = example.twinlog("serve", file, "--port", str(port))
    until(
        lambda: _is_up(f"http://{HOST}:{port}/connectors"),
        "starting the worker",
        failed=worker.process.exit_report,
        logs=worker.process.log_excerpt,
    )
    return worker


def script(example: Example, *arguments: str) -> list[str]:
    """Runs mm2.sh in the folder of mm2/ and returns its output; raises its errors."""
    words: list[str | Path] = ["env", f"--chdir={example.folder}", "bash", HERE / "mm2.sh", *arguments]
    command = Command("mm2.sh", words, example.folder / "mm2.log", {"CURL_HOME": str(example.folder.resolve())})
    command.process.log.unlink(missing_ok=True)
    if arguments[0] != "status":
        echo(f"$ ./mm2.sh {' '.join(arguments)}")
    command.start()
    output = [line.rstrip() for line in command.finish().splitlines()]
    if errors := [line for line in output if line.startswith("ERROR")]:
        raise LabError(f"mm2.sh {' '.join(arguments)}: {errors[0]}")
    return output


def wait_until_running(example: Example, worker: Command, name: str) -> None:
    until(
        lambda: script(example, "status", name) == RUNNING,
        f"waiting for the connectors of {name} to be RUNNING",
        seconds=200,
        failed=worker.process.exit_report,
        logs=worker.process.log_excerpt,
    )


@contextmanager
def traffic(sources: list[Cluster]) -> Iterator[None]:
    """Produces lines of an access log to every source. Keys begin with the source's name."""
    stopped = threading.Event()
    threads = [threading.Thread(target=produce, args=(source, stopped), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def produce(source: Cluster, stopped: threading.Event) -> None:
    producer = Producer({**source.librdkafka_properties(), "acks": "all", "compression.type": "zstd", "log_level": 0})
    for visitor, line in itertools.islice(access_log(rate=RATE), 1_000_000):
        producer.produce(TOPIC, line.encode(), f"{source.name} {visitor}".encode(), headers={"site": source.name})
        producer.poll(0)
        if stopped.wait(1 / RATE):
            break
    producer.flush(60)


def wait_until_merged(sources: list[Cluster], target: Cluster, worker: Command) -> None:
    with EndOffsets(target) as theirs, EndOffsets(sources[0]) as first, EndOffsets(sources[1]) as second:
        until(
            lambda: theirs.total(TOPIC) == first.total(TOPIC) + second.total(TOPIC),
            f"waiting for all records of both sources in {TOPIC} on {target.name}",
            seconds=400,
            failed=worker.process.exit_report,
            logs=worker.process.log_excerpt,
        )


def verify_merged(source: Cluster, target: Cluster) -> int:
    """Compares the source's records with those on the target, where the other source's are in between."""
    total = 0
    for partition in range(PARTITIONS):
        here = read(source.client_properties(), TOPIC, partition)
        there = [each for each in read(target.client_properties(), TOPIC, partition) if _is_from(source, each)]
        if here != there:
            raise LabError(
                f"{TOPIC}-{partition} differs: {len(here)} records on {source.name}, {len(there)} on {target.name}"
            )
        total += len(here)
    echo(f"  {TOPIC} on {source.name}: {total:,} records, all in {TOPIC} on {target.name}")
    return total


def show_metrics(url: str, worker: Command) -> None:
    """Prints the metrics that Prometheus scrapes, once the lag is 0."""
    expected = [
        f'twinlog_lag_records{{flow="{name}->target-0",topic="{TOPIC}",partition="{partition}"}} 0'
        for name in SOURCES
        for partition in range(PARTITIONS)
    ]
    until(
        lambda: set(expected) <= set(fetch(url).splitlines()),
        f"waiting for {expected[0]} and {len(expected) - 1} more metrics at {url}",
        failed=worker.process.exit_report,
        logs=worker.process.log_excerpt,
    )
    echo(f"\n{url}:")
    for line in expected:
        echo(f"  {line}")


def _addresses(role: str, *numbers: int) -> str:
    return ",".join(f"kafka-{role}-{number}:9092" for number in numbers)


def _is_from(source: Cluster, record: StoredRecord) -> bool:
    return (record.key or b"").startswith(source.name.encode())


def _is_up(url: str) -> bool:
    try:
        fetch(url)
    except LabError:
        return False
    return True


if __name__ == "__main__":
    main(run, about=__doc__, seconds=10)
