"""Seed two: ProductA both ways between source and target; consumers move when a cluster dies, and back when it returns.

See README.md beside this file.
"""

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from twinlog.errors import KafkaError, LabError
from twinlog.failover import MirrorClient
from twinlog.lab.cluster import Cluster
from twinlog.lab.command import START_SECONDS, Command
from twinlog.lab.ends import Ends
from twinlog.lab.example import Stage, main, prove, say, wait_until_equal
from twinlog.lab.waiting import until

HERE = Path(__file__).parent
TOPIC = "ProductA"
PARTITIONS = {"source": 3, "target": 2}
HOMES = {"billing": "source", "shipping": "target"}  # groups, and where they read while they can
MEMBERS, RATE = 2, 50
GONE_AFTER, WELL_AFTER = 4, 6  # seconds; short, because here nothing but a kill makes a cluster silent
OTHER = {"source": "target", "target": "source"}


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    home: str
    members: list[Command]
    files: list[Path]  # what each has worked off

    def wait_for_move(self, there: str, to: str) -> None:
        """Until every member has left one cluster, and reads on the other."""
        for member in self.members:
            until(
                partial(has_moved, member, there, to),
                f"{member.name} should move from {there} to {to}",
                seconds=START_SECONDS,
                failed=member.process.last_words,
                logs=member.process.quote,
            )
            say(f"  {member.name} has moved to {to}")

    def read(self) -> Counter[str]:
        return Counter(line for file in self.files if file.exists() for line in file.read_text().splitlines())


def has_moved(member: Command, there: str, to: str) -> bool:
    _, moved, after = member.said.rpartition(f"moves from {there} to {to}")
    return bool(moved) and f"reads on {to}:" in after


def play(stage: Stage) -> None:
    say("starting two real Kafka clusters, source and target")
    clusters = dict(zip(PARTITIONS, stage.lab.clusters(*PARTITIONS), strict=True))
    source, target = clusters["source"], clusters["target"]
    for name, partitions in PARTITIONS.items():
        clusters[name].create_topic(TOPIC, partitions=partitions)
        say(f"  {name}: {TOPIC} with {partitions} partitions")
    addresses = {"localhost:9093": source.bootstrap(), "localhost:9095": target.bootstrap()}
    twinlog = stage.twinlog("run", stage.fill(HERE / "active-to-active-mm2.properties", addresses))
    producers = {name: produce(stage, cluster) for name, cluster in clusters.items()}
    groups = {name: consume(stage, name, home, clusters) for name, home in HOMES.items()}
    for group in groups.values():
        wait_for_checkpoints(clusters[OTHER[group.home]], group, twinlog)
    say("records go both ways, and both groups have checkpoints on the other side\n")

    for group in groups.values():
        time.sleep(stage.seconds / 4)
        fail_over(stage, clusters, group)
        twinlog.check()

    for producer in producers.values():
        producer.stop()
    published = {name: acknowledged(stage, name) for name in clusters}
    say(f"no more traffic: {', '.join(f'{len(lines):,} records on {name}' for name, lines in published.items())}")
    everything = set().union(*published.values())
    for group in groups.values():
        wait_until_read(group, everything)
    wait_until_equal(source, target, {TOPIC: f"source.{TOPIC}"}, twinlog)
    wait_until_equal(target, source, {TOPIC: f"target.{TOPIC}"}, twinlog)
    for group in groups.values():
        for member in group.members:
            member.stop()
    say(f"SIGTERM: twinlog run has ended after {twinlog.stop():.1f} s\n\ncomparing:")
    prove(source, target, {TOPIC: f"source.{TOPIC}"})
    prove(target, source, {TOPIC: f"target.{TOPIC}"})
    for group in groups.values():
        count(group, everything)


def produce(stage: Stage, cluster: Cluster) -> Command:
    out = published_file(stage, cluster.name)
    out.unlink(missing_ok=True)
    words: list[str | Path] = [
        "--bootstrap-servers",
        cluster.bootstrap(),
        "--name",
        cluster.name,
        "--rate",
        str(RATE),
        "--out",
        out,
    ]
    return stage.python(f"producer-{cluster.name}", HERE / "producer.py", *words)


def published_file(stage: Stage, name: str) -> Path:
    return stage.folder / f"published-{name}.txt"


def acknowledged(stage: Stage, name: str) -> set[str]:
    return set(published_file(stage, name).read_text().splitlines())


def consume(stage: Stage, name: str, home: str, clusters: dict[str, Cluster]) -> Group:
    group = Group(name, home, [], [])
    for number in range(1, MEMBERS + 1):
        out = stage.folder / f"read-{name}-{number}.txt"
        out.unlink(missing_ok=True)
        words: list[str | Path] = ["--home", home, "--group", name, "--out", out]
        words += ["--gone-after", str(GONE_AFTER), "--well-after", str(WELL_AFTER)]
        for alias, cluster in clusters.items():
            words += [f"--{alias}", cluster.bootstrap()]
        group.members.append(stage.python(f"{name}-{number}", HERE / "consumer.py", *words))
        group.files.append(out)
    return group


def wait_for_checkpoints(cluster: Cluster, group: Group, twinlog: Command) -> None:
    def known() -> bool:
        with MirrorClient(cluster.client_properties(), alias=cluster.name) as client:
            try:
                return bool(client.remote_consumer_offsets(group.name, group.home, 5))
            except KafkaError:
                return False

    what = f"{cluster.name} should have checkpoints of {group.name}"
    until(known, what, seconds=START_SECONDS, failed=twinlog.process.last_words, logs=twinlog.process.quote)


def fail_over(stage: Stage, clusters: dict[str, Cluster], group: Group) -> None:
    """Kills the group's home, sees its members move and go on, brings home back, and sees them return."""
    home, away = group.home, OTHER[group.home]
    say(f"kill -9: every broker of {home}")
    for broker in clusters[home].brokers:
        broker.kill()
    with Ends(clusters[away]) as ends:
        left = len(acknowledged(stage, home)) - ends.total(f"{home}.{TOPIC}")
    say(f"  {max(left, 0)} of its records were not copied yet: they can be read when {home} is back")
    group.wait_for_move(home, away)
    time.sleep(stage.seconds / 4)
    wait_until_read(group, acknowledged(stage, away))
    say(f"  {group.name} has read all that {away} has been given meanwhile; {home} is started again")
    for broker in clusters[home].brokers:
        broker.start()
    group.wait_for_move(away, home)


def wait_until_read(group: Group, records: set[str]) -> None:
    def failed() -> str | None:
        return next(filter(None, (member.process.last_words() for member in group.members)), None)

    what = f"{group.name} should read {len(records):,} records"
    until(lambda: records <= group.read().keys(), what, seconds=START_SECONDS, failed=failed)


def count(group: Group, everything: set[str]) -> None:
    found = group.read()
    if strange := found.keys() - everything:
        raise LabError(f"{group.name} has read {len(strange)} records that nobody published, such as {strange.pop()!r}")
    if missing := everything - found.keys():
        raise LabError(f"{group.name} has not read {len(missing)} records, such as {missing.pop()!r}")
    twice = found.total() - len(found)
    text = f"has read all {len(everything):,} records of both sides; none is lost, {twice:,} were read again"
    say(f"  {group.name} {text}")


if __name__ == "__main__":
    main(play, about=__doc__, seconds=20)
