"""Flows that keep topic names: a topic that both directions would replicate is skipped by both."""

from pathlib import Path

import pytest

from lab.cluster import Cluster
from twinlog.config import FlowConfig, load
from twinlog.errors import UnreachableError
from twinlog.kafka.client import Client
from twinlog.spark.planner import Planner
from twinlog.sync.cycle_guard import CycleGuard

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def _flows(folder: Path, clusters: dict[str, Cluster], *lines: str) -> list[FlowConfig]:
    return _read(folder, {alias: cluster.bootstrap() for alias, cluster in clusters.items()}, *lines)


def _read(folder: Path, clusters: dict[str, str], *lines: str) -> list[FlowConfig]:
    file = folder / "mm2.properties"
    addresses = [f"{alias}.bootstrap.servers = {servers}" for alias, servers in clusters.items()]
    common = [f"clusters = {', '.join(clusters)}", f"replication.policy.class = {IDENTITY}", "replication.factor = 1"]
    file.write_text("\n".join([*common, *addresses, *lines]))
    return [flow for flow in load([file]).flows if flow.replicates]


def _discovered(flow: FlowConfig, flows: list[FlowConfig]) -> tuple[set[str], list[str]]:
    planner = Planner(flow, "run", flows)
    try:
        return {assignment.tp.topic for assignment in planner.discover()}, [each.text for each in planner.warnings]
    finally:
        planner.close()


@pytest.mark.broker
def test_a_topic_of_both_directions_is_skipped(us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
    both, there, back = f"{topic}-both", f"{topic}-there", f"{topic}-back"
    for cluster, names in ((us, (both, there)), (eu, (both, back))):
        for name in names:
            cluster.create_topic(name)
    flows = _flows(
        tmp_path,
        {"west": us, "east": eu},
        f"west->east.enabled = true\nwest->east.topics = {both}, {there}",
        f"east->west.enabled = true\neast->west.topics = {both}, {back}",
        "heartbeats.replication.enabled = false",
    )
    for flow, alone in zip(flows, (there, back), strict=True):
        found, warnings = _discovered(flow, flows)
        assert found == {alone}
        (warning,) = warnings
        assert f"topic {both}: replication cycle: " in warning
        assert "topics.exclude" in warning


@pytest.mark.broker
def test_one_cluster_with_two_aliases(us: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic)
    (flow,) = _flows(
        tmp_path,
        {"here": us, "there": us},
        f"here->there.enabled = true\ntopics = {topic}\nheartbeats.replication.enabled = false",
    )
    found, (warning,) = _discovered(flow, [flow])
    assert not found
    assert "here and there are the same cluster (id " in warning


def test_an_unreachable_cluster_is_asked_once_per_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flows = _read(
        tmp_path, {"west": "127.0.0.1:1", "east": "127.0.0.1:2"}, "west->east.enabled = true\neast->west.enabled = true"
    )
    asked: list[str] = []

    def unreachable(client: Client, _topics: object) -> None:
        asked.append(client.alias)
        raise UnreachableError("down")

    monkeypatch.setattr(Client, "metadata", unreachable)
    guard = CycleGuard(flows[0], flows)
    assert set(guard.reasons_to_skip(["a", "b", "c"])) == {"a", "b", "c"}, "identified by their aliases"
    assert sorted(asked) == ["east", "west"]
    guard.reasons_to_skip(["a"])
    assert len(asked) == 4
    assert not guard.reasons_to_skip([])
    assert len(asked) == 4
