"""Old Kafka releases as source and as target: what is copied, what follows, and what doctor says of them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from lab import corner_case_topics
from lab.acls import EVERY
from lab.batches import CODECS
from lab.cluster import Cluster
from lab.compare_logs import compare, read
from lab.end_offsets import EndOffsets
from lab.jars import NEWEST
from lab.waiting import until
from tests.cli.conftest import twinlog
from tests.replicate.conftest import MakeMirror, Mirror, Writer
from tests.runtime import conftest as runtime
from tests.sync.conftest import checkpoint_sync, consumed, fill, offsets
from tests.versions.conftest import MIXED, PAIRS, Releases
from twinlog.model import TopicPartition
from twinlog.sync.configs_and_acls import ConfigAndAclSync

pytestmark = pytest.mark.broker


class Pair(NamedTuple):
    source_line: str
    target_line: str
    source: Cluster
    target: Cluster


@pytest.fixture(scope="module", params=PAIRS, ids="->".join)
def pair(request: pytest.FixtureRequest, releases: Releases) -> Pair:
    source, target = request.param
    return Pair(source, target, releases.cluster(source), releases.cluster(target))


def test_every_kind_of_record_is_copied_exactly(pair: Pair, releases: Releases, mirror: MakeMirror) -> None:
    topics = releases.corner_cases(pair.source_line)
    flow: Mirror = mirror(pair.source, pair.target, "corner-.*")
    copied = flow.copy()
    counters = {str(each.tp): each.report.counters for each in copied.relay.partitions}
    assert not [each for each, has in counters.items() if has.lost or has.foreign or has.recoveries], str(copied)
    for topic in topics.values():
        flow.until_equal(topic, seconds=0, codecs=True)
    seen = read(pair.target.client_properties(), flow.remote(topics["codecs"]), len(CODECS))
    assert {record.codec for record in seen} == set(CODECS)
    # What follows a transaction is copied once it has ended.
    corner_case_topics.abort_open_transaction(pair.source, topics["open-transaction"])
    flow.copy()
    flow.until_equal(topics["open-transaction"], topics["transactions"], seconds=0, codecs=True)


def test_a_crash_in_the_middle_neither_loses_nor_doubles(pair: Pair, topic: str, mirror: MakeMirror) -> None:
    """Of Twinlog and of the target's broker, which must know Twinlog's producer afterwards."""
    plain, transactional = f"{topic}-plain", f"{topic}-transactional"
    for name in (plain, transactional):
        pair.source.create_topic(name, 2)
    flow: Mirror = mirror(pair.source, pair.target, f"{topic}-.*")
    with (
        Writer(pair.source, plain, 2, rate=300, **{"compression.type": "zstd"}),
        Writer(pair.source, transactional, 2, rate=300, transactional=topic),
        EndOffsets(pair.target) as ends,
    ):
        _crash(flow, ends, plain, transactional)
        pair.target.brokers[0].kill()
        pair.target.brokers[0].start()
        _crash(flow, ends, plain, transactional)
    with flow.start():
        flow.until_equal(plain, transactional)


def _crash(flow: Mirror, ends: EndOffsets, *topics: str) -> None:
    """Runs a relay until records of each topic have arrived, then kills it."""
    before = {topic: ends.total(flow.remote(topic)) for topic in topics}
    relay = flow.process().start()
    relay.wait_until_up(lambda: all(ends.total(flow.remote(topic)) > before[topic] for topic in topics), 90)
    relay.kill()


def test_a_group_goes_on_where_it_was(pair: Pair, topic: str, mirror: MakeMirror) -> None:
    pair.source.create_topic(topic)
    fill(pair.source, topic, range(50))
    group = f"group-{topic}"
    flow: Mirror = mirror(pair.source, pair.target, topic, groups=group)
    flow.copy()
    assert consumed(pair.source, group, [topic], 50) == list(range(50))
    fill(pair.source, topic, range(50, 80))
    flow.copy()
    with checkpoint_sync(flow.config) as sync:
        assert sync.emit() == 1
        assert sync.sync_groups() == 1
    assert offsets(flow.config, "target", group) == {TopicPartition(flow.remote(topic), 0): 50}
    assert consumed(pair.target, group, [flow.remote(topic)], 30) == list(range(50, 80))


def test_configs_and_acls_follow(pair: Pair, topic: str, mirror: MakeMirror) -> None:
    pair.source.create_topic(topic, 2, configs={"cleanup.policy": "compact", "retention.ms": "5000000"})
    flow: Mirror = mirror(pair.source, pair.target, topic)
    remote = flow.remote(topic)
    flow.copy()
    pair.source.alter_topic(topic, {"retention.ms": "6000000"})
    pair.source.grant("alice", "READ", topic=topic)
    warnings: list[str] = []
    sync = ConfigAndAclSync(flow.config, lambda _, text: warnings.append(text))
    try:
        assert sync.sync_configs() == 1
        assert sync.sync_acls() == 1
    finally:
        sync.close()
    assert not warnings

    def followed() -> bool:
        with pair.target.admin() as admin:
            (described,) = admin.describe_topics([remote])
            configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, remote)])["topic"][remote]
            acls = [each for each in admin.describe_acls(EVERY)[0] if each.resource_pattern.resource_name == remote]
        found = {name: configs[name]["value"] for name in ("cleanup.policy", "retention.ms")}
        assert len(described["partitions"]) == 2
        return found == {"cleanup.policy": "compact", "retention.ms": "6000000"} and [
            (each.principal, each.operation.name) for each in acls
        ] == [("User:alice", "READ")]

    until(followed, f"{remote} should have the configs and ACLs of {topic}")


@pytest.mark.spark
def test_run_once_between_old_releases(releases: Releases, topic: str, tmp_path: Path) -> None:
    """In both directions at the same time: as an operator runs it, with Spark and all periodic jobs."""
    first, second = (releases.cluster(line) for line in MIXED[0])
    run = runtime.Pair(first, second, tmp_path)
    try:
        for cluster in (first, second):
            cluster.create_topic(topic, 2)
            fill(cluster, topic, range(300))
            assert consumed(cluster, f"group-{topic}", [topic], 300) == list(range(300))
            fill(cluster, topic, range(300, 400), partition=1)
        settings = {"topics": topic, "groups": f"group-{topic}", "sync.group.offsets.enabled": "true"}
        twin = run.run(run.file(settings, back=True), "--once")
        assert twin.wait(300) == 0, twin.output
        for source, target in ((first, second), (second, first)):
            remote = f"{source.name}.{topic}"
            found = compare(source.client_properties(), topic, target.client_properties(), remote, codecs=True)
            assert (found.records, found.differences) == (400, ())
            assert consumed(target, f"group-{topic}", [remote], 100) == list(range(300, 400))
    finally:
        run.close()


def test_doctor_knows_the_release(pair: Pair, topic: str, mirror: MakeMirror) -> None:
    pair.source.create_topic(topic)
    flow: Mirror = mirror(pair.source, pair.target, topic)
    run = twinlog("doctor", flow.file, "--json")
    findings: list[dict[str, Any]] = json.loads(run.stdout)["findings"]
    assert run.returncode == 0, run.stdout
    versions = {each["scope"]: each["found"] for each in findings if each["check"] == "versions"}
    assert versions == {
        cluster.name: f"broker API versions of Kafka {line}" + " or newer" * (line == NEWEST)
        for cluster, line in ((pair.source, pair.source_line), (pair.target, pair.target_line))
    }
