"""Flows that keep names: a topic that both directions would copy is left out by both, told apart by clusters' ids."""

from pathlib import Path

import pytest

from twinlog.config import FlowConfig, load
from twinlog.lab.cluster import Cluster
from twinlog.pipeline.planner import Planner

pytestmark = pytest.mark.broker

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def _flows(folder: Path, clusters: dict[str, Cluster], *lines: str) -> list[FlowConfig]:
    file = folder / "mm2.properties"
    addresses = [f"{alias}.bootstrap.servers = {cluster.bootstrap()}" for alias, cluster in clusters.items()]
    common = [f"clusters = {', '.join(clusters)}", f"replication.policy.class = {IDENTITY}", "replication.factor = 1"]
    file.write_text("\n".join([*common, *addresses, *lines]))
    return [flow for flow in load([file]).flows if flow.replicates]


def _taken(flow: FlowConfig, flows: list[FlowConfig]) -> tuple[set[str], list[str]]:
    planner = Planner(flow, "run", flows)
    try:
        return {claim.place.topic for claim in planner.discover()}, planner.warnings
    finally:
        planner.close()


def test_what_both_directions_would_copy_is_left_out(us: Cluster, eu: Cluster, topic: str, tmp_path: Path) -> None:
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
        taken, said = _taken(flow, flows)
        assert taken == {alone}
        (warning,) = said
        assert f"topic {both} keeps its name on " in warning
        assert "topics.exclude" in warning


def test_one_cluster_under_two_names(us: Cluster, topic: str, tmp_path: Path) -> None:
    us.create_topic(topic)
    (flow,) = _flows(
        tmp_path,
        {"here": us, "there": us},
        f"here->there.enabled = true\ntopics = {topic}\nheartbeats.replication.enabled = false",
    )
    taken, (warning,) = _taken(flow, [flow])
    assert not taken
    assert "here and there are one cluster (id " in warning
