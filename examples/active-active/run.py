"""Active-active: ProductA in both directions between source and target, with failover and failback of consumers.

See README.md in this folder.
"""

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.cluster import Cluster
from lab.command import START_SECONDS, Command
from lab.end_offsets import EndOffsets
from lab.errors import LabError
from lab.example import Example, echo, main, verify_equal, wait_until_equal
from lab.waiting import until
from twinlog.errors import KafkaError
from twinlog.failover import MirrorClient

HERE = Path(__file__).parent
TOPIC = "ProductA"
PARTITIONS = {"source": 3, "target": 2}
HOMES = {"billing": "source", "shipping": "target"}  # groups and their home clusters
MEMBERS, RATE = 2, 50
GONE_AFTER, WELL_AFTER = 4, 6  # seconds; short, because here only a kill makes a cluster unresponsive
OTHER = {"source": "target", "target": "source"}


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    home: str
    members: list[Command]
    files: list[Path]  # the processed records of each member

    def wait_for_move(self, source: str, target: str) -> None:
        """Returns when all members have moved and are reading on the other cluster."""
        for member in self.members:
            until(
                partial(has_moved, member, source, target),
                f"waiting for {member.name} to move from {source} to {target}",
                seconds=START_SECONDS,
                failed=member.process.exit_report,
                logs=member.process.log_excerpt,
            )
            echo(f"  {member.name} has moved to {target}")

    def read(self) -> Counter[str]:
        return Counter(line for file in self.files if file.exists() for line in file.read_text().splitlines())


def has_moved(member: Command, source: str, target: str) -> bool:
    _, moved, after = member.output.rpartition(f"moving from {source} to {target}")
    return bool(moved) and f"reading on {target}:" in after


def run(example: Example) -> None:
    echo("starting two real Kafka clusters, source and target")
    clusters = dict(zip(PARTITIONS, example.lab.clusters(*PARTITIONS), strict=True))
    source, target = clusters["source"], clusters["target"]
    for name, partitions in PARTITIONS.items():
        clusters[name].create_topic(TOPIC, partitions=partitions)
        echo(f"  {name}: {TOPIC} with {partitions} partitions")
    addresses = {"localhost:9093": source.bootstrap(), "localhost:9095": target.bootstrap()}
    twinlog = example.twinlog("run", example.fill(HERE / "active-to-active-mm2.properties", addresses))
    producers = {name: produce(example, cluster) for name, cluster in clusters.items()}
    groups = {name: consume(example, name, home, clusters) for name, home in HOMES.items()}
    for group in groups.values():
        wait_for_checkpoints(clusters[OTHER[group.home]], group, twinlog)
    echo("replicating in both directions; both groups have checkpoints on the other cluster\n")

    for group in groups.values():
        time.sleep(example.seconds / 4)
        fail_over(example, clusters, group)
        twinlog.check()

    for producer in producers.values():
        producer.stop()
    published = {name: acknowledged(example, name) for name in clusters}
    echo(
        f"stopped the producers: {', '.join(f'{len(lines):,} records on {name}' for name, lines in published.items())}"
    )
    everything = set().union(*published.values())
    for group in groups.values():
        wait_until_read(group, everything)
    wait_until_equal(source, target, {TOPIC: f"source.{TOPIC}"}, twinlog)
    wait_until_equal(target, source, {TOPIC: f"target.{TOPIC}"}, twinlog)
    for group in groups.values():
        for member in group.members:
            member.stop()
    echo(f"SIGTERM: twinlog run exited after {twinlog.stop():.1f} s\n\ncomparing:")
    verify_equal(source, target, {TOPIC: f"source.{TOPIC}"})
    verify_equal(target, source, {TOPIC: f"target.{TOPIC}"})
    for group in groups.values():
        count(group, everything)


def produce(example: Example, cluster: Cluster) -> Command:
    out = published_file(example, cluster.name)
    out.unlink(missing_ok=True)
    arguments: list[str | Path] = [
        "--bootstrap-servers",
        cluster.bootstrap(),
        "--name",
        cluster.name,
        "--rate",
        str(RATE),
        "--out",
        out,
    ]
    return example.python(f"producer-{cluster.name}", HERE / "producer.py", *arguments)


def published_file(example: Example, name: str) -> Path:
    return example.folder / f"published-{name}.txt"


def acknowledged(example: Example, name: str) -> set[str]:
    return set(published_file(example, name).read_text().splitlines())


def consume(example: Example, name: str, home: str, clusters: dict[str, Cluster]) -> Group:
    group = Group(name, home, [], [])
    for number in range(1, MEMBERS + 1):
        out = example.folder / f"read-{name}-{number}.txt"
        out.unlink(missing_ok=True)
        arguments: list[str | Path] = ["--home", home, "--group", name, "--out", out]
        arguments += ["--gone-after", str(GONE_AFTER), "--well-after", str(WELL_AFTER)]
        for alias, cluster in clusters.items():
            arguments += [f"--{alias}", cluster.bootstrap()]
        group.members.append(example.python(f"{name}-{number}", HERE / "consumer.py", *arguments))
        group.files.append(out)
    return group


def wait_for_checkpoints(cluster: Cluster, group: Group, twinlog: Command) -> None:
    def known() -> bool:
        with MirrorClient(cluster.client_properties(), alias=cluster.name) as client:
            try:
                return bool(client.remote_consumer_offsets(group.name, group.home, 5))
            except KafkaError:
                return False

    what = f"waiting for checkpoints of {group.name} on {cluster.name}"
    until(known, what, seconds=START_SECONDS, failed=twinlog.process.exit_report, logs=twinlog.process.log_excerpt)


def fail_over(example: Example, clusters: dict[str, Cluster], group: Group) -> None:
    """Kills the group's home cluster, waits for the failover, restarts it, and waits for the failback."""
    home, away = group.home, OTHER[group.home]
    echo(f"kill -9: every broker of {home}")
    for broker in clusters[home].brokers:
        broker.kill()
    with EndOffsets(clusters[away]) as ends:
        left = len(acknowledged(example, home)) - ends.total(f"{home}.{TOPIC}")
    echo(f"  {max(left, 0)} of its records were not replicated yet: they can be read when {home} is back")
    group.wait_for_move(home, away)
    time.sleep(example.seconds / 4)
    wait_until_read(group, acknowledged(example, away))
    echo(f"  {group.name} has read all records that {away} received since; restarting {home}")
    for broker in clusters[home].brokers:
        broker.start()
    group.wait_for_move(away, home)


def wait_until_read(group: Group, records: set[str]) -> None:
    def failed() -> str | None:
        return next(filter(None, (member.process.exit_report() for member in group.members)), None)

    what = f"waiting for {group.name} to read {len(records):,} records"
    until(lambda: records <= group.read().keys(), what, seconds=START_SECONDS, failed=failed)


def count(group: Group, everything: set[str]) -> None:
    found = group.read()
    if unknown := found.keys() - everything:
        raise LabError(f"{group.name} read {len(unknown)} records that were not produced, such as {unknown.pop()!r}")
    if missing := everything - found.keys():
        raise LabError(f"{group.name} has not read {len(missing)} records, such as {missing.pop()!r}")
    again = found.total() - len(found)
    text = f"has read all {len(everything):,} records of both clusters; none is lost, {again:,} were read again"
    echo(f"  {group.name} {text}")


if __name__ == "__main__":
    main(run, about=__doc__, seconds=20)
