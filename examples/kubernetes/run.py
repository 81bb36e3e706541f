"""Seed four: Strimzi's KafkaMirrorMaker2 as it is, by mutual TLS, and a consumer group that moves; see README.md."""

import itertools
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from secrets_folder import mount

from twinlog.errors import LabError
from twinlog.lab.broker import ClusterSpec
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import Command
from twinlog.lab.example import Stage, fetch, main, prove, say, wait_until_equal
from twinlog.lab.listeners import MUTUAL_TLS, PLAINTEXT
from twinlog.lab.ports import HOST, free_port
from twinlog.lab.usage import pss_bytes
from twinlog.lab.waiting import until

HERE = Path(__file__).parent
RESOURCE = HERE / "embedded" / "mirrormaker2.yaml"
ROUTES = {"source": "#source route#", "dest": "#Dest service#"}  # what the seed leaves open
TOPICS = {"orders": 6, "payments": 1}
GROUP = "billing"
RATE = 50  # records a second
SYNC_SECONDS = 200.0  # offsets of groups come every minute; more than this, and something is broken


def play(stage: Stage) -> None:
    say("starting two real Kafka clusters, source and dest, of three brokers each, with mutual TLS")
    doors = (PLAINTEXT, MUTUAL_TLS)  # plain is for our own eyes; everything else comes by TLS, with a certificate
    source, dest = stage.lab.clusters(*(ClusterSpec(name=name, brokers=3, listeners=doors) for name in ROUTES))
    for topic, partitions in TOPICS.items():
        source.create_topic(topic, partitions=partitions)
    secrets = mounted(stage, source, dest)
    addresses = {ROUTES[each.name]: each.bootstrap(MUTUAL_TLS) for each in (source, dest)}
    file = stage.fill(RESOURCE, addresses)
    port = free_port()
    twinlog = stage.twinlog("run", file, "--secrets", secrets, "--port", str(port))
    producing = producer(source)
    there = member(stage, source, secrets)
    twinlog.wait_for(f"relaying {len(TOPICS)} topics, {sum(TOPICS.values())} partitions")

    say(f"\n{stage.seconds:g} s of traffic on source; group {GROUP} reads it there")
    numbers = itertools.count()
    publish(producing, numbers, stage.seconds, twinlog)
    until(lambda: len(lines(stage, "source")) > RATE, f"{GROUP} should read on source", failed=there.process.last_words)
    there.stop()
    before = lines(stage, "source")
    say(f"group {GROUP} has stopped: it has read {len(before):,} records on source")
    publish(producing, numbers, stage.seconds / 5, twinlog)
    everything = {f"{topic} {number}" for number in range(next(numbers)) for topic in [topic_of(number)]}
    wait_until_equal(source, dest, {topic: topic for topic in TOPICS}, twinlog)
    wait_for_group(source, dest, twinlog)
    show_health(port, twinlog)
    say(f"SIGTERM: twinlog run has ended after {twinlog.stop():.1f} s")

    say("\ncomparing:")
    total = prove(source, dest, {topic: topic for topic in TOPICS})
    say(f"{total:,} records: equal in key, value, headers, timestamp, codec, partition and order, under the same names")
    say("\nkill -9: every broker of source")
    for broker in source.brokers:
        broker.kill()
    move_group(stage, dest, secrets, before, everything)


def mounted(stage: Stage, source: Cluster, dest: Cluster) -> Path:
    """The four secrets that the resource names, in a folder, as a pod sees them."""
    folder = stage.folder / "secrets"
    shutil.rmtree(folder, ignore_errors=True)
    for cluster in (source, dest):
        assert cluster.authority is not None
        user = cluster.authority.client(f"{cluster.name}-user")
        mount(folder, f"{cluster.name}-cluster-cluster-ca-cert", {"ca.crt": cluster.authority.ca.read_bytes()})
        keys = {"user.crt": user.certificate.read_bytes(), "user.key": user.key.read_bytes()}
        mount(folder, f"{cluster.name}-user", keys)
    say(f"secrets as Kubernetes would mount them: {', '.join(sorted(each.name for each in folder.iterdir()))}")
    return folder


def producer(cluster: Cluster) -> Producer:
    user = f"{cluster.name}-user"
    return Producer({**cluster.librdkafka_properties(MUTUAL_TLS, user), "acks": "all", "log_level": 0})


def topic_of(number: int) -> str:
    return "payments" if number % 5 == 0 else "orders"


def publish(producing: Producer, numbers: "itertools.count[int]", seconds: float, twinlog: Command) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for number in itertools.islice(numbers, RATE // 10):
            headers: list[tuple[str, str | bytes | None]] = [("trace", f"{number:08x}".encode())]
            producing.produce(topic_of(number), str(number).encode(), str(number % 97).encode(), headers=headers)
        producing.poll(0)
        twinlog.check()
        time.sleep(0.1)
    if left := producing.flush(60):
        raise LabError(f"{left} records could not be published")


def member(stage: Stage, cluster: Cluster, secrets: Path) -> Command:
    out = stage.folder / f"read-on-{cluster.name}.txt"
    out.unlink(missing_ok=True)
    words: list[str | Path] = ["--bootstrap-servers", cluster.bootstrap(MUTUAL_TLS), "--secrets", secrets]
    words += ["--user", f"{cluster.name}-user", "--ca", f"{cluster.name}-cluster-cluster-ca-cert"]
    words += ["--group", GROUP, "--topics", ",".join(TOPICS), "--out", out]
    return stage.python(f"member-{cluster.name}", HERE / "group_member.py", *words)


def lines(stage: Stage, name: str) -> list[str]:
    file = stage.folder / f"read-on-{name}.txt"
    return file.read_text().splitlines() if file.exists() else []


def committed(cluster: Cluster) -> dict[tuple[str, int], int]:
    with cluster.admin() as admin:
        found = admin.list_group_offsets([GROUP])[GROUP]
    return {(place.topic, place.partition): each.offset for place, each in found.items() if each.offset >= 0}


def wait_for_group(source: Cluster, dest: Cluster, twinlog: Command) -> None:
    """Names are the same on both sides, and so are offsets here: the remote topics began empty."""
    began = time.monotonic()
    wanted = committed(source)
    say(f"waiting for the offsets of {GROUP} on dest: they are written every minute")

    def stands() -> bool:
        with suppress(LabError):  # a cluster that never had a group makes a place for their offsets when first asked
            return committed(dest) == wanted
        return False

    until(
        stands,
        f"{GROUP} should stand on dest where it stands on source: {wanted}",
        seconds=SYNC_SECONDS,
        failed=twinlog.process.last_words,
        logs=twinlog.process.quote,
    )
    say(f"  {len(wanted)} partitions, after {time.monotonic() - began:.0f} s: the same as on source")


def show_health(port: int, twinlog: Command) -> None:
    health = json.loads(fetch(f"http://{HOST}:{port}/health"))
    say(f"/health, for Kubernetes' probes: {health['status']}")
    if (pid := twinlog.process.pid) and (used := pss_bytes(pid)):
        say(f"memory of all its processes: {used / 2**20:,.0f} MiB")


def move_group(stage: Stage, dest: Cluster, secrets: Path, before: list[str], everything: set[str]) -> None:
    here = member(stage, dest, secrets)
    until(
        lambda: len(before) + len(lines(stage, "dest")) >= len(everything),
        f"{GROUP} should read the rest on dest",
        failed=here.process.last_words,
        logs=here.process.quote,
    )
    here.stop()
    after = lines(stage, "dest")
    if missing := everything - {*before, *after}:
        raise LabError(f"{GROUP} has not read {len(missing)} records, such as {missing.pop()}")
    again = len(before) + len(after) - len(everything)
    say(f"group {GROUP} went on on dest: {len(after):,} records there, none was lost, {again} were read again")


if __name__ == "__main__":
    main(play, about=__doc__, seconds=15)
