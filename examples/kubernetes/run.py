"""Strimzi's KafkaMirrorMaker2 resource with mutual TLS, and the failover of a consumer group; see README.md."""

import itertools
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from secrets_folder import mount

from lab.broker import ClusterSpec
from lab.cluster import Cluster
from lab.command import Command
from lab.errors import LabError
from lab.example import Example, echo, fetch, main, verify_equal, wait_until_equal
from lab.listeners import MUTUAL_TLS, PLAINTEXT
from lab.ports import HOST, free_port
from lab.resource_usage import pss_bytes
from lab.waiting import until

HERE = Path(__file__).parent
RESOURCE = HERE / "embedded" / "mirrormaker2.yaml"
ROUTES = {"source": "#source route#", "dest": "#Dest service#"}  # placeholders in the resource
TOPICS = {"orders": 6, "payments": 1}
GROUP = "billing"
RATE = 50  # records per second
SYNC_SECONDS = 200.0  # group offsets are synced every minute


def run(example: Example) -> None:
    echo("starting two real Kafka clusters, source and dest, of three brokers each, with mutual TLS")
    listeners = (PLAINTEXT, MUTUAL_TLS)  # PLAINTEXT is only for the comparison at the end
    source, dest = example.lab.clusters(*(ClusterSpec(name=name, brokers=3, listeners=listeners) for name in ROUTES))
    for topic, partitions in TOPICS.items():
        source.create_topic(topic, partitions=partitions)
    secrets = mount_secrets(example, source, dest)
    addresses = {ROUTES[each.name]: each.bootstrap(MUTUAL_TLS) for each in (source, dest)}
    file = example.fill(RESOURCE, addresses)
    port = free_port()
    twinlog = example.twinlog("run", file, "--secrets", secrets, "--port", str(port))
    producer = create_producer(source)
    on_source = start_member(example, source, secrets)
    twinlog.wait_for(f"relaying {len(TOPICS)} topics, {sum(TOPICS.values())} partitions")

    echo(f"\n{example.seconds:g} s of traffic on source; group {GROUP} reads it there")
    numbers = itertools.count()
    produce(producer, numbers, example.seconds, twinlog)
    reading = f"waiting for {GROUP} to read on source"
    until(lambda: len(lines(example, "source")) > RATE, reading, failed=on_source.process.exit_report)
    on_source.stop()
    before = lines(example, "source")
    echo(f"stopped group {GROUP}: it has read {len(before):,} records on source")
    produce(producer, numbers, example.seconds / 5, twinlog)
    everything = {f"{topic} {number}" for number in range(next(numbers)) for topic in [topic_of(number)]}
    wait_until_equal(source, dest, {topic: topic for topic in TOPICS}, twinlog)
    wait_for_group(source, dest, twinlog)
    show_health(port, twinlog)
    echo(f"SIGTERM: twinlog run exited after {twinlog.stop():.1f} s")

    echo("\ncomparing:")
    total = verify_equal(source, dest, {topic: topic for topic in TOPICS})
    echo(
        f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order, under the same names"
    )
    echo("\nkill -9: every broker of source")
    for broker in source.brokers:
        broker.kill()
    move_group(example, dest, secrets, before, everything)


def mount_secrets(example: Example, source: Cluster, dest: Cluster) -> Path:
    """Writes the resource's four secrets to a folder, as they are mounted in a pod."""
    folder = example.folder / "secrets"
    shutil.rmtree(folder, ignore_errors=True)
    for cluster in (source, dest):
        assert cluster.authority is not None
        user = cluster.authority.client(f"{cluster.name}-user")
        mount(folder, f"{cluster.name}-cluster-cluster-ca-cert", {"ca.crt": cluster.authority.ca.read_bytes()})
        keys = {"user.crt": user.certificate.read_bytes(), "user.key": user.key.read_bytes()}
        mount(folder, f"{cluster.name}-user", keys)
    echo(f"secrets, mounted as in Kubernetes: {', '.join(sorted(each.name for each in folder.iterdir()))}")
    return folder


def create_producer(cluster: Cluster) -> Producer:
    user = f"{cluster.name}-user"
    return Producer({**cluster.librdkafka_properties(MUTUAL_TLS, user), "acks": "all", "log_level": 0})


def topic_of(number: int) -> str:
    return "payments" if number % 5 == 0 else "orders"


def produce(producer: Producer, numbers: "itertools.count[int]", seconds: float, twinlog: Command) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number in itertools.islice(numbers, RATE // 10):
            headers: list[tuple[str, str | bytes | None]] = [("trace", f"{number:08x}".encode())]
            producer.produce(topic_of(number), str(number).encode(), str(number % 97).encode(), headers=headers)
        producer.poll(0)
        twinlog.check()
        time.sleep(0.1)
    if left := producer.flush(60):
        raise LabError(f"{left} records were not acknowledged within 60 s")


def start_member(example: Example, cluster: Cluster, secrets: Path) -> Command:
    out = example.folder / f"read-on-{cluster.name}.txt"
    out.unlink(missing_ok=True)
    arguments: list[str | Path] = ["--bootstrap-servers", cluster.bootstrap(MUTUAL_TLS), "--secrets", secrets]
    arguments += ["--user", f"{cluster.name}-user", "--ca", f"{cluster.name}-cluster-cluster-ca-cert"]
    arguments += ["--group", GROUP, "--topics", ",".join(TOPICS), "--out", out]
    return example.python(f"member-{cluster.name}", HERE / "group_member.py", *arguments)


def lines(example: Example, name: str) -> list[str]:
    file = example.folder / f"read-on-{name}.txt"
    return file.read_text().splitlines() if file.exists() else []


def committed(cluster: Cluster) -> dict[tuple[str, int], int]:
    with cluster.admin() as admin:
        found = admin.list_group_offsets([GROUP])[GROUP]
    return {(tp.topic, tp.partition): each.offset for tp, each in found.items() if each.offset >= 0}


def wait_for_group(source: Cluster, dest: Cluster, twinlog: Command) -> None:
    """Returns when the group's offsets are synced. They are the same on both clusters: the remote topics were empty."""
    began = time.monotonic()
    expected = committed(source)
    echo(f"waiting for the offsets of {GROUP} on dest: they are synced every minute")

    def synced() -> bool:
        with suppress(LabError):  # the first request makes a new cluster create __consumer_offsets
            return committed(dest) == expected
        return False

    until(
        synced,
        f"waiting for the offsets of {GROUP} on dest: {expected}",
        seconds=SYNC_SECONDS,
        failed=twinlog.process.exit_report,
        logs=twinlog.process.log_excerpt,
    )
    echo(f"  {len(expected)} partitions, after {time.monotonic() - began:.0f} s: the same as on source")


def show_health(port: int, twinlog: Command) -> None:
    health = json.loads(fetch(f"http://{HOST}:{port}/health"))
    echo(f"/health, for Kubernetes' probes: {health['status']}")
    if (pid := twinlog.process.pid) and (used := pss_bytes(pid)):
        echo(f"memory of all its processes: {used / 2**20:,.0f} MiB")


def move_group(example: Example, dest: Cluster, secrets: Path, before: list[str], everything: set[str]) -> None:
    on_dest = start_member(example, dest, secrets)
    until(
        lambda: len(before) + len(lines(example, "dest")) >= len(everything),
        f"waiting for {GROUP} to read the rest on dest",
        failed=on_dest.process.exit_report,
        logs=on_dest.process.log_excerpt,
    )
    on_dest.stop()
    after = lines(example, "dest")
    if missing := everything - {*before, *after}:
        raise LabError(f"{GROUP} has not read {len(missing)} records, such as {missing.pop()}")
    again = len(before) + len(after) - len(everything)
    echo(f"group {GROUP} resumed on dest: {len(after):,} records there, none was lost, {again} were read again")


if __name__ == "__main__":
    main(run, about=__doc__, seconds=15)
