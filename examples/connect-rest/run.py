"""Seed three: connectors by REST, two sources merged into one topic of one target; see README.md beside this file."""

import itertools
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from twinlog.errors import LabError
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command
from twinlog.lab.compare import Seen, read
from twinlog.lab.ends import Ends
from twinlog.lab.example import Stage, fetch, main, say
from twinlog.lab.ports import HOST, chosen_port
from twinlog.lab.traffic import access_log
from twinlog.lab.waiting import until

HERE = Path(__file__).parent
TOPIC, PARTITIONS, RATE = "test", 5, 200
SOURCES = {"source-0": (0, 1), "source-1": (2, 3)}  # by the numbers of their brokers
RUNNING = [f'{each} connector: "RUNNING"' for each in ("Checkpoint", "Heartbeat", "Source")]


def play(stage: Stage) -> None:
    if missing := [each for each in ("bash", "curl", "jq") if shutil.which(each) is None]:
        raise LabError(f"mm2.sh needs {', '.join(missing)}, which this machine does not have: install it and try again")
    say("starting three real Kafka clusters of two brokers each: source-0, source-1, target-0")
    *sources, target = stage.lab.clusters(*(ClusterSpec(name=name, brokers=2) for name in (*SOURCES, "target-0")))
    for source in sources:
        source.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)
    for source in sources:
        fill(stage, source, target)

    port = chosen_port(8083)  # the script's; curl is told if it is in use here
    (stage.folder / ".curlrc").write_text(f'connect-to = "localhost:8083:{HOST}:{port}"\n')
    worker = serve(stage, target, port)
    for name in SOURCES:
        script(stage, "deploy", name)
    for name in SOURCES:
        wait_until_running(stage, worker, name)
        say("\n".join(script(stage, "status", name)))

    say(f"\n{stage.seconds:g} s of traffic on both sources")
    with traffic(sources):
        time.sleep(stage.seconds / 2)
        say("kill -9: the worker; the next one finds the connectors in the target's topic connect-configs")
        worker.kill()
        worker = serve(stage, target, port)
        for name in SOURCES:
            wait_until_running(stage, worker, name)
        script(stage, "redeploy", "source-0")
        wait_until_running(stage, worker, "source-0")
        time.sleep(stage.seconds / 2)
    wait_until_merged(sources, target, worker)
    show_metrics(f"http://{HOST}:{port}/metrics", worker)
    for name in SOURCES:
        script(stage, "undeploy", name)
    say(f"SIGTERM: twinlog serve has ended after {worker.stop():.1f} s")

    say("\ncomparing:")
    total = sum(prove(source, target) for source in sources)
    say(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order, once each")


def fill(stage: Stage, source: Cluster, target: Cluster) -> None:
    """mm2/*.json of a source, with the addresses of clusters that exist."""
    folder = stage.folder / "mm2"
    folder.mkdir(exist_ok=True)
    addresses = {
        _addresses("source", *SOURCES[source.name]): source.bootstrap(),
        _addresses("target", 0, 1): target.bootstrap(),
    }
    for file in sorted((HERE / "mm2").glob(f"mm2-*-{source.name}.json")):
        stage.fill(file, addresses).replace(folder / file.name)


def serve(stage: Stage, target: Cluster, port: int) -> Command:
    file = stage.fill(HERE / "connect-distributed.properties", {_addresses("target", 0, 1): target.bootstrap()})
    worker = stage.twinlog("serve", file, "--port", str(port))
    until(
        lambda: _answers(f"http://{HOST}:{port}/connectors"),
        "the worker should answer",
        failed=worker.process.last_words,
        logs=worker.process.quote,
    )
    return worker


def script(stage: Stage, *words: str) -> list[str]:
    """The seed's script, unchanged, in the folder where mm2/ is. What it says; an ERROR of its own is one here."""
    home = {"CURL_HOME": str(stage.folder.resolve())}
    run = Command(
        "mm2.sh", ["env", f"--chdir={stage.folder}", "bash", HERE / "mm2.sh", *words], stage.folder / "mm2.log", home
    )
    run.process.log.unlink(missing_ok=True)
    if words[0] != "status":
        say(f"$ ./mm2.sh {' '.join(words)}")
    run.start()
    said = [line.rstrip() for line in run.finish().splitlines()]
    if wrong := [line for line in said if line.startswith("ERROR")]:
        raise LabError(f"mm2.sh {' '.join(words)}: {wrong[0]}")
    return said


def wait_until_running(stage: Stage, worker: Command, name: str) -> None:
    until(
        lambda: script(stage, "status", name) == RUNNING,
        f"the connectors of {name} should be RUNNING",
        seconds=200,
        failed=worker.process.last_words,
        logs=worker.process.quote,
    )


@contextmanager
def traffic(sources: list[Cluster]) -> Iterator[None]:
    """Lines of an access log to every source, until it is left. Keys begin with the name of the source."""
    enough = threading.Event()
    threads = [threading.Thread(target=publish, args=(source, enough), daemon=True) for source in sources]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def publish(source: Cluster, enough: threading.Event) -> None:
    producer = Producer({**source.librdkafka_properties(), "acks": "all", "compression.type": "zstd", "log_level": 0})
    for visitor, line in itertools.islice(access_log(rate=RATE), 1_000_000):
        producer.produce(TOPIC, line.encode(), f"{source.name} {visitor}".encode(), headers={"site": source.name})
        producer.poll(0)
        if enough.wait(1 / RATE):
            break
    producer.flush(60)


def wait_until_merged(sources: list[Cluster], target: Cluster, worker: Command) -> None:
    with Ends(target) as theirs, Ends(sources[0]) as first, Ends(sources[1]) as second:
        until(
            lambda: theirs.total(TOPIC) == first.total(TOPIC) + second.total(TOPIC),
            f"{TOPIC} on {target.name} should have all records of both sources",
            seconds=400,
            failed=worker.process.last_words,
            logs=worker.process.quote,
        )


def prove(source: Cluster, target: Cluster) -> int:
    """What came from this source is on the target as it is there; the other's records stand between."""
    total = 0
    for partition in range(PARTITIONS):
        here = read(source.client_properties(), TOPIC, partition)
        there = [each for each in read(target.client_properties(), TOPIC, partition) if _is_of(source, each)]
        if here != there:
            raise LabError(
                f"{TOPIC}-{partition}: {len(here)} records on {source.name}, others or {len(there)} on {target.name}"
            )
        total += len(here)
    say(f"  {TOPIC} on {source.name}: {total:,} records, all in {TOPIC} on {target.name}")
    return total


def show_metrics(url: str, worker: Command) -> None:
    """What Prometheus scrapes: nothing waits any more."""
    wanted = [
        f'twinlog_lag_records{{flow="{name}->target-0",topic="{TOPIC}",partition="{partition}"}} 0'
        for name in SOURCES
        for partition in range(PARTITIONS)
    ]
    until(
        lambda: set(wanted) <= set(fetch(url).splitlines()),
        f"{url} should say {wanted[0]}, and so on",
        failed=worker.process.last_words,
        logs=worker.process.quote,
    )
    say(f"\n{url}:")
    for line in wanted:
        say(f"  {line}")


def _addresses(role: str, *numbers: int) -> str:
    return ",".join(f"kafka-{role}-{number}:9092" for number in numbers)


def _is_of(source: Cluster, record: Seen) -> bool:
    return (record.key or b"").startswith(source.name.encode())


def _answers(url: str) -> bool:
    try:
        fetch(url)
    except LabError:
        return False
    return True


if __name__ == "__main__":
    main(play, about=__doc__, seconds=10)
