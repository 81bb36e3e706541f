"""`twinlog run`, from the first line that it prints to its exit code."""

import json
import signal
import time
from collections import defaultdict

import pytest

from lab.cluster import Cluster
from lab.compare_logs import read
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from tests.runtime.conftest import Pair
from twinlog.config.properties import properties_text
from twinlog.journal.messages import REPORTS, Report, journal_topic
from twinlog.mm2 import offset_syncs

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def source_offsets(target: Cluster, source: str, topic: str) -> dict[int, int]:
    """Partition -> offset, as MM2 would find them."""
    found = {}
    name = f"mm2-offsets.{source}.internal"
    with RawProtocol(target.client_properties()) as wire:
        partitions = wire.partitions(name)
    for partition in partitions:
        for record in read(target.client_properties(), name, partition):
            connector, place = json.loads(record.key or b"[0,0]")
            if connector == "MirrorSourceConnector" and place["topic"] == topic:
                found[place["partition"]] = json.loads(record.value or b"{}")["offset"]
    return found


def synced(source: Cluster, target: str, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> the newest offset sync."""
    found = {}
    for record in read(source.client_properties(), f"mm2-offset-syncs.{target}.internal"):
        sync = offset_syncs.decode(record.key, record.value)
        if sync.topic == topic:
            found[sync.partition] = (sync.upstream, sync.downstream)
    return found


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    with RawProtocol(cluster.client_properties()) as wire:
        return {partition: wire.offsets(topic, partition)[1] for partition in wire.partitions(topic)}


def fill(pair: Pair, topic: str, seconds: float = 0.5) -> None:
    feed = pair.feed(topic)
    feed.flow()
    time.sleep(seconds)
    feed.pause()
    feed.close()


def test_once_copies_what_is_there_and_exits(pair: Pair, us: Cluster, eu: Cluster) -> None:
    us.create_topic("once", 3)
    us.create_topic("once-large", 2)
    eu.create_topic("us.once-large", 2, configs={"max.message.bytes": "2000"})
    fill(pair, "once")
    file = pair.file({"topics": "once"})

    # The operator's own Spark, and more than one way to name the flow.
    twin = pair.run(
        file,
        "--once",
        "--flow",
        "us -> eu",
        "--clusters",
        "eu",
        "--master",
        "local[3,4]",
        "--conf",
        "spark.ui.enabled=false",
    )
    assert twin.wait(120) == 0, twin.output
    assert not twin.left_over()
    assert not list(twin.scratch.iterdir()), "its files are gone, too"
    count = sum(ends(us, "once").values())
    assert twin.lines[0] == "us->eu: 2 tasks"
    assert twin.lines[-1].startswith(f"us->eu: {count:,} records, ")
    pair.assert_equal("once")
    assert source_offsets(eu, "us", "once") == {p: end - 1 for p, end in ends(us, "once").items()}
    assert synced(us, "eu", "once") == {p: (end - 1, end - 1) for p, end in ends(us, "once").items()}

    # Once more: only what is new. A record that the target does not take stops its partition, and no other; neither
    # does a topic that cannot be created.
    fill(pair, "once")
    us.create_topic("once-uncreated")
    pair.put("once-uncreated", 0, b"a record")
    for partition, size in ((0, 10), (0, 5000), (0, 10), (1, 10), (1, 10)):
        pair.put("once-large", partition, b"x" * size)
    pair.file({"topics": "once.*", "replication.factor": "3"})
    twin = pair.run(file, "--once")
    assert twin.wait(120) == 1, twin.output
    new = sum(ends(us, "once").values()) - count
    assert f"us->eu: {new + 3:,} records, " in twin.output, twin.output
    refused = "us->eu: record at offset 1 of once-large-0 refused by eu: us.once-large-0: "
    (line,) = [each for each in twin.lines if each.startswith(refused)]
    assert line.endswith(
        "; change max.message.bytes of topic us.once-large on eu, or set errors.tolerance = all to skip such records"
    )
    uncreated = "us->eu: cluster eu: cannot create topic us.once-uncreated: "
    (line,) = [each for each in twin.lines if each.startswith(uncreated)]
    assert line.endswith("; set replication.factor to at most the number of brokers")
    assert twin.lines[-1] == f"twinlog: not everything was copied: {line} (and 1 more, see above)"
    pair.assert_equal("once")
    assert ends(eu, "us.once-large") == {0: 1, 1: 2}


@pytest.mark.slow
def test_two_connectors_between_the_same_clusters(pair: Pair, us: Cluster, eu: Cluster) -> None:
    """They share every topic that Twinlog keeps, and neither takes the other for a second run of itself."""
    folder = pair.folder / "connect"
    folder.mkdir()
    for name in ("first", "second"):
        us.create_topic(f"{name}-connector", 2)
        fill(pair, f"{name}-connector", 0.2)
        connector = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "us",
            "target.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": us.bootstrap(),
            "target.cluster.bootstrap.servers": eu.bootstrap(),
            "topics": f"{name}-connector",
            "tasks.max": "1",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.replication.enabled": "false",
        }
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "config": connector}))
    worker = {"bootstrap.servers": eu.bootstrap(), "group.id": "connect"}
    worker |= {
        f"{kind}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for kind in ("key", "value")
    }
    worker |= {f"{kind}.storage.topic": f"connect-{kind}s" for kind in ("config", "offset", "status")}
    worker |= {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    (folder / "worker.properties").write_text(properties_text(worker))
    twin = pair.run(folder, "--once")
    assert twin.wait(120) == 0, twin.output
    assert [line for line in twin.lines if line.endswith("1 task")] == ["us->eu: 1 task", "us->eu (second): 1 task"]
    pair.assert_equal("first-connector", "second-connector")


def groups(target: Cluster, source: str, run_began: float) -> dict[int, dict[int, set[str]]]:
    """Epoch -> task -> its partitions, from the final reports."""
    found: dict[int, dict[int, set[str]]] = defaultdict(dict)
    for record in read(target.client_properties(), journal_topic(source), REPORTS):
        report = Report.decode(record.value)
        if report is not None and report.final and record.timestamp >= run_began * 1000:
            found[report.epoch][report.task] = {name for name in report.partitions if name}
    return found


def alone(partition: str, by_task: dict[int, set[str]]) -> bool:
    return {partition} in by_task.values() and sum(map(len, by_task.values())) > len(by_task)


def test_two_flows_live(pair: Pair, us: Cluster, eu: Cluster) -> None:
    """Starts without topics; topics and partitions are added while it runs, epochs change, one partition becomes hot."""
    began = time.time()
    settings = {"topics": "live.*", "twinlog.epoch.seconds": "3", "tasks.max": "2"}
    twin = pair.run(pair.file(settings, "live", back=True))
    twin.wait_for("Spark 4", 60)
    time.sleep(4)
    assert twin.lines[:2] == ["us->eu: 2 tasks", "eu->us: 2 tasks"]
    assert len(twin.lines) == 3, "it waits for topics, in silence"

    us.create_topic("live-a", 2)
    eu.create_topic("live-b", 1)
    feed = pair.feed("live-a")
    feed.flow()
    back = pair.feed("live-b", cluster=eu)
    back.flow()
    pair.wait_for_more(twin, "live-a")
    us.create_topic("live-c", 1)
    with us.admin() as admin:
        admin.create_partitions({"live-a": 6})
    # What is written to partition 5 goes nowhere else, so it has joined.
    for _ in range(50):
        pair.put("live-a", 5, b"the new partition")
        pair.put("live-c", 0, b"the new topic")
    pair.wait_for_more(twin, "live-c", records=1)
    until(lambda: ends(eu, "us.live-a").get(5, 0) > 0, "the new partition should join", logs=lambda: twin.output)

    # One partition gets far more than the others: with the next epoch it has a task of its own.
    hot = pair.feed("live-a", per_second=4000, partition=1, size=2000)
    hot.flow()
    until(
        lambda: any(alone("live-a-1", by_task) for by_task in groups(eu, "us", began).values()),
        "the hot partition should be alone in its task",
        logs=lambda: f"{json.dumps(groups(eu, 'us', began), default=sorted)}\n{twin.output}",
    )
    assert max(groups(eu, "us", began)) > 2, "epochs have changed"

    for each in (feed, hot, back):
        each.pause()
    until(lambda: ends(us, "eu.live-b") == ends(eu, "live-b"), "the opposite flow should catch up")
    pair.wait_until_equal("live-a", "live-c")
    assert twin.interrupt() == 0, twin.output
    assert not twin.left_over()
    pair.assert_equal("live-a", "live-c")
    assert source_offsets(eu, "us", "live-a") == {p: end - 1 for p, end in ends(us, "live-a").items() if end}
    assert source_offsets(us, "eu", "live-b") == {0: ends(eu, "live-b")[0] - 1}
    assert synced(us, "eu", "live-a") == {p: (end - 1, end - 1) for p, end in ends(us, "live-a").items() if end}
    with RawProtocol(us.client_properties()) as here, RawProtocol(eu.client_properties()) as there:
        assert not here.partitions("eu.us.live-a"), "no replication cycle"
        assert not there.partitions("us.eu.live-b")


def test_sigterm_while_it_starts(pair: Pair) -> None:
    twin = pair.run(pair.file({"topics": "nothing-of-that-name", "tasks.max": "3"}, "early"), "--master", "local[1,4]")
    until(lambda: "us->eu" in twin.output, "it should begin")
    time.sleep(1)
    twin.signal(signal.SIGTERM)
    assert twin.wait(60) == 0
    # A task without a slot would wait for an epoch.
    assert twin.lines[-2] == "us->eu: 1 of 3 tasks: --master local[1,4] has no more slots"
    assert twin.lines[-1].startswith("us->eu: 0 records, 0 B copied in ")
    assert not twin.left_over()
