"""MM2's testReplication and testSingleNodeCluster, and more clusters than MM2's suite has: all of `twinlog run` at once.

primary <-> backup (active/active), primary -> third and backup -> third (fan-out, fan-in), and so a chain of three:
primary -> backup -> third.
"""

import time
from collections.abc import Iterator

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from lab.cluster import Cluster
from lab.compare_logs import read
from lab.kafka_classes import KafkaJvm
from lab.lab import Lab
from lab.mirrormaker import mirror_properties
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from tests.runtime.conftest import Twin
from tests.sync.conftest import consumed, fill
from twinlog.config.properties import properties_text
from twinlog.failover import MirrorClient
from twinlog.model import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]

TOPIC = "test-topic-1"
GROUP = "consumer-group-testReplication"
PARTITIONS, RECORDS = 3, 10
SETTINGS = {
    "topics": "test-topic-.*",
    "groups": "consumer-group-.*",
    "config.properties.exclude": r"delete\.retention\..*",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "twinlog.sync.group.offsets.home": "true",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "tasks.max": "1",
}


@pytest.fixture(scope="module")
def clusters(lab: Lab) -> Iterator[tuple[Cluster, Cluster, Cluster]]:
    made = lab.clusters("primary", "backup", "third")
    configs = {"cleanup.policy": "compact", "retention.bytes": "100000000", "delete.retention.ms": "1000"}
    for cluster in made[:2]:
        cluster.create_topic(TOPIC, PARTITIONS, configs=configs)
    try:
        yield made[0], made[1], made[2]
    finally:
        for cluster in made:
            lab.discard(cluster)


@pytest.fixture(scope="module")
def twin(clusters: tuple[Cluster, Cluster, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    primary, backup, third = clusters
    flows = [(primary, backup), (backup, primary), (primary, third), (backup, third)]
    folder = tmp_path_factory.mktemp("suite")
    file = folder / "mm2.properties"
    file.write_text(properties_text(mirror_properties(clusters, flows, SETTINGS)))
    twin = Twin(folder, "suite", [file])
    try:
        for source, target in flows:
            twin.wait_for(f"{source.name}->{target.name}: relaying", 120)
        yield twin
    finally:
        twin.end()


def _values(cluster: Cluster, topic: str) -> list[int]:
    properties = cluster.client_properties()
    with RawProtocol(properties) as wire:
        partitions = wire.partitions(topic)
    return sorted(int(record.value or b"-1") for each in partitions for record in read(properties, topic, each))


def _topics(cluster: Cluster) -> set[str]:
    with cluster.admin() as asked:
        return {name for name in asked.list_topics() if not name.startswith(("__", "mm2"))}


def _arrive(cluster: Cluster, topic: str, values: list[int]) -> None:
    until(lambda: topic in _topics(cluster), f"{topic} on {cluster.name}", seconds=60)
    until(lambda: len(_values(cluster, topic)) >= len(values), f"records of {topic} on {cluster.name}", seconds=60)
    assert _values(cluster, topic) == values


def test_replication(  # noqa: PLR0915  # one story
    clusters: tuple[Cluster, Cluster, Cluster], twin: Twin, kafka_jvm: KafkaJvm
) -> None:
    primary, backup, third = clusters
    count = PARTITIONS * RECORDS
    for number, cluster in enumerate((primary, backup)):
        for partition in range(PARTITIONS):
            first = 1000 * number + RECORDS * partition
            fill(cluster, TOPIC, range(first, first + RECORDS), partition)
    ours, theirs = list(range(count)), list(range(1000, 1000 + count))
    _arrive(backup, f"primary.{TOPIC}", ours)
    _arrive(primary, f"backup.{TOPIC}", theirs)
    _arrive(third, f"primary.{TOPIC}", ours)
    _arrive(third, f"backup.{TOPIC}", theirs)

    # Failover: the group reads no record twice, and all new ones.
    both = [TOPIC, f"backup.{TOPIC}"]
    assert sorted(consumed(primary, GROUP, both, 2 * count)) == ours + theirs
    with MirrorClient({"bootstrap.servers": backup.bootstrap()}) as client:
        # MM2 translates the first half only: the other came from here, and is translated back.
        remote = {
            TopicPartition(name, partition): RECORDS
            for name in (f"primary.{TOPIC}", TOPIC)
            for partition in range(PARTITIONS)
        }

        def translated() -> dict[TopicPartition, int]:
            found = client.remote_consumer_offsets(GROUP, "primary", 10)
            return {place: each.offset for place, each in found.items()}

        until(
            lambda: translated() == remote,
            "checkpoints of all partitions",
            seconds=30,
            logs=lambda: f"; {translated()} {twin.output}",
        )
        until(lambda: client.upstream_clusters() == {"primary"}, "heartbeats of primary", seconds=30)
        assert client.replication_hops("primary") == 1
        assert {f"primary.{TOPIC}", "primary.heartbeats"} <= set(client.remote_topics("primary"))
    time.sleep(3)  # until group offsets are synced, in both kinds of topics
    assert not consumed(backup, GROUP, [f"primary.{TOPIC}", TOPIC], 0), "it has read all of this"

    # Kafka's own client returns the same.
    utils = kafka_jvm.jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils
    properties = kafka_jvm.jvm.java.util.HashMap()
    properties.put("bootstrap.servers", third.bootstrap())
    until(lambda: {"primary", "backup"} == set(utils.upstreamClusters(properties)), "both are upstream", seconds=30)
    assert utils.replicationHops(properties, "primary") == 1
    assert utils.replicationHops(properties, "backup") == 1
    properties.put("bootstrap.servers", backup.bootstrap())
    timeout = kafka_jvm.jvm.java.time.Duration.ofSeconds(20)
    java = utils.translateOffsets(properties, "primary", GROUP, timeout)
    assert {TopicPartition(place.topic(), place.partition()): java[place].offset() for place in java} == remote
    for topic, kind, word in [
        ("heartbeats", "Heartbeat", "sourceClusterAlias=primary"),
        ("primary.checkpoints.internal", "Checkpoint", f"consumerGroupId={GROUP}"),
    ]:
        output = backup.tool(
            "console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "9000",
            "--formatter", f"org.apache.kafka.connect.mirror.formatters.{kind}Formatter",
        )  # fmt: skip
        assert word in output

    # Configs: synced, but for the excluded ones.
    with backup.admin() as asked:
        found = asked.describe_configs([ConfigResource(ConfigResourceType.TOPIC, f"primary.{TOPIC}")])
    (changed,) = next(iter(found.values())).values()
    values = {name: entry["value"] for name, entry in changed.items()}
    assert values["cleanup.policy"] == "compact"
    assert values["retention.bytes"] == "100000000"
    assert "delete.retention.ms" not in values

    # New topics on either side, and failback.
    for number, (cluster, other) in enumerate([(primary, backup), (backup, primary)], 2):
        later = f"test-topic-{number}"
        cluster.create_topic(later)
        fill(cluster, later, range(RECORDS))
        _arrive(other, f"{cluster.name}.{later}", list(range(RECORDS)))
    fill(primary, TOPIC, range(500, 500 + RECORDS), partition=1)
    assert sorted(consumed(backup, GROUP, [f"primary.{TOPIC}", TOPIC], RECORDS)) == list(range(500, 500 + RECORDS))
    fill(backup, TOPIC, range(2000, 2000 + RECORDS))
    _arrive(primary, f"backup.{TOPIC}", sorted([*theirs, *range(2000, 2000 + RECORDS)]))

    # No replication cycles.
    heartbeats = {"heartbeats", "primary.heartbeats", "backup.heartbeats"}
    names = {TOPIC, "test-topic-2", "test-topic-3"}
    with_remote = {f"{alias}.{name}" for alias, name in (("primary", "test-topic-2"), ("backup", "test-topic-3"))}
    on_backup = {name for name in _topics(backup) if not name.endswith(".internal")}
    assert on_backup <= {*names, f"primary.{TOPIC}", *with_remote, *heartbeats}
    on_primary = {name for name in _topics(primary) if not name.endswith(".internal")}
    assert on_primary <= {*names, f"backup.{TOPIC}", *with_remote, *heartbeats}
    deep = [name for name in _topics(third) if name.count("primary.") > 1 or name.count("backup.") > 1]
    assert not deep
    assert twin.terminate() == 0
