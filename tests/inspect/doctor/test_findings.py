"""Findings about versions, clocks and cluster ids; endpoints; parallel work."""

import threading
from functools import partial
from typing import Any

import pytest

from twinlog.config import load
from twinlog.inspect.doctor import cluster_health, versions
from twinlog.inspect.doctor.endpoints import endpoints
from twinlog.inspect.doctor.facts import ClusterFacts
from twinlog.inspect.doctor.parallel import run_parallel
from twinlog.kafka.admin_queries import ClockReading
from twinlog.model import Flow

# Kafka 2.3's, as far as they matter.
OLD = {
    0: (0, 7), 1: (0, 11), 2: (0, 5), 3: (0, 8), 9: (0, 5), 19: (0, 3), 22: (0, 1), 32: (0, 2), 37: (0, 1), 44: (0, 0),
}  # fmt: skip
NEW = OLD | {0: (3, 13), 1: (4, 17), 61: (0, 0)}


def facts(alias: str = "us", **known: Any) -> ClusterFacts:
    usual: dict[str, Any] = {"id": "one", "controller": 0, "brokers": {0: ("a", 1)}, "versions": NEW}
    return ClusterFacts(alias=alias, **usual | known)


def test_brokers_that_are_too_old() -> None:
    assert [need.name for need in versions.gaps(OLD, ["source"])] == ["Fetch"]
    assert [need.name for need in versions.gaps(OLD, ["target"])] == ["Produce", "DescribeProducers"]
    produce, producers = versions.findings("eu", OLD, ["target"])
    assert (produce.status, produce.advice) == ("error", "upgrade them to Kafka 2.4 or later")
    assert (producers.status, producers.advice) == ("error", "upgrade them to Kafka 2.8 or later")
    assert producers.found.endswith("do not support DescribeProducers 0: replication is not possible")
    assert [each.status for each in versions.findings("eu", NEW, ["source", "target"])] == ["ok"]


def test_brokers_that_are_too_new() -> None:
    (later,) = versions.findings("eu", NEW | {0: (9, 20)}, ["target"])
    assert (later.status, later.advice) == ("error", "upgrade Twinlog")


def test_what_all_brokers_have_in_common() -> None:
    assert versions.common([{1: (0, 9), 2: (1, 3)}, {1: (4, 17)}]) == {1: (4, 9)}
    assert versions.common([]) == {}


@pytest.mark.parametrize(
    ("reading", "status", "words"),
    [
        (ClockReading(0.2, 0.1, exact=True), "ok", "0.2 s ahead of"),
        (ClockReading(-37.0, 0.1, exact=True), "warning", "37.0 s behind"),
        (ClockReading(7.0, 3.0, exact=True), "ok", "± 3.0 s"),  # a slow answer proves nothing
        (ClockReading(90.0, 0.0, exact=False), "warning", "90 s ahead"),
        (ClockReading(-900.0, 0.0, exact=False), "note", "cannot be read exactly: why"),
        (None, "note", "cannot be read: why"),
    ],
)
def test_clocks(reading: ClockReading | None, status: str, words: str) -> None:
    found = cluster_health.clock(facts(clock=reading, no_clock="why"))
    assert (found.status, words in found.found) == (status, True)


def test_a_cluster_without_a_controller() -> None:
    found = cluster_health.findings(facts(controller=-1, unread="not granted"))
    assert [each.status for each in found] == ["ok", "note", "error", "note"]


def test_one_cluster_under_two_aliases() -> None:
    three = [facts("us"), facts("eu"), facts("asia", id="two")]
    assert cluster_health.same_cluster(three, [Flow("us", "asia")])[0].status == "warning"
    (wrong,) = cluster_health.same_cluster(three, [Flow("us", "eu")])
    assert (wrong.status, "us->eu would copy it into itself" in wrong.found) == ("error", True)
    assert cluster_health.same_cluster([facts("us", id=None), facts("eu", id=None)], []) == []


def test_endpoints_differ_by_their_connection_settings(tmp_path: Any) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        "A->B.enabled = true\nB.producer.client.id = same-endpoint\n"
        "A.admin.security.protocol = SSL\nemit.heartbeats.enabled = false\n"
    )
    config = load([file])
    found = {(endpoint.alias, endpoint.roles) for endpoint in endpoints(config, config.flows, config.clusters)}
    assert found == {
        ("A", ("source.admin",)),
        ("A", ("source.consumer", "source.producer")),
        ("B", ("target.admin", "data.producer")),
    }
    assert {endpoint.alias for endpoint in endpoints(config, config.flows, ["B"])} == {"B"}
    idle = endpoints(config, [], config.clusters)  # a cluster that no flow uses has the admin client's
    assert {(endpoint.alias, endpoint.roles) for endpoint in idle} == {("A", ("admin",)), ("B", ("admin",))}


def test_work_that_takes_too_long_is_abandoned() -> None:
    forever = threading.Event()
    work = {"quick": lambda: 1, "slow": forever.wait, "none": lambda: None}
    assert run_parallel(work, 0.5) == {"quick": 1, "none": None}
    forever.set()
    assert run_parallel({n: partial(abs, -n) for n in range(100)}, 30.0) == {n: n for n in range(100)}
    with pytest.raises(ZeroDivisionError):
        run_parallel({1: lambda: 1 / 0}, 30.0)
