"""What arrives is what was there: record by record, on topics that Kafka's own clients would never make."""

from typing import Any

import pytest

from twinlog.lab import odd
from twinlog.lab.batches import CODECS
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import read
from twinlog.lab.lab import Lab

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def zoo(us: Cluster) -> dict[str, str]:
    return odd.all_odd(us, "zoo-")


def _rooms(source: Cluster, target: Cluster, alias: str, topics: dict[str, str]) -> None:
    """Remote topics that take multi-megabyte records and do not delete those of 1970."""
    for topic in topics.values():
        count = len(_partitions(source, topic))
        target.create_topic(f"{alias}.{topic}", count, 1, {"retention.ms": "-1", "max.message.bytes": str(8 << 20)})


def _partitions(cluster: Cluster, topic: str) -> list[Any]:
    with cluster.admin() as admin:
        return list(admin.describe_topics([topic])[0]["partitions"])


def test_a_zoo_of_odd_topics_arrives_record_by_record(
    us: Cluster, eu: Cluster, zoo: dict[str, str], mirror: Any
) -> None:
    flow = mirror(us, eu, "zoo-.*")
    _rooms(us, eu, "us", zoo)
    copied = flow.copy()

    for topic in zoo.values():
        flow.until_equal(topic, seconds=0, codecs=True)
    assert all(p.counters.recoveries == 0 for p in copied.relay.partitions), str(copied)
    assert not any(p.counters.lost or p.counters.foreign for p in copied.relay.partitions), str(copied)
    # The fast lane is not by accident the rebuild lane: batches that can stay as they are, stay.
    assert not copied[zoo["large-batches"]].counters.rebuilt
    for partition, codec in enumerate(CODECS):
        if codec != "none":  # small plain ones are woven
            assert not copied[zoo["codecs"], partition].counters.rebuilt
    assert copied[zoo["small-batches"]].counters.batches < 50

    # A transaction that was open when it was copied is decided now, and what stands behind it follows.
    odd.abort_open_transaction(us, zoo["open-transaction"])
    flow.copy()
    for topic in zoo.values():
        flow.until_equal(topic, seconds=0, codecs=True)


@pytest.mark.parametrize(
    ("alias", "settings", "how"),
    [
        pytest.param(
            "dirty",
            {"dirty__consumer__isolation__level": "read_uncommitted"},
            {"isolation": "read_uncommitted", "codecs": True},
            id="read_uncommitted",
        ),
        pytest.param("squeezed", {"eu__producer__compression__type": "zstd"}, {}, id="compression.type"),
        pytest.param(
            "sipped",
            {"sipped__consumer__max__partition__fetch__bytes": "300", "sipped__consumer__fetch__max__bytes": "2000"},
            {"codecs": True},
            id="small fetches",
        ),
    ],
)
def test_settings_of_the_clients_change_how_it_travels_not_what_arrives(
    us: Cluster,
    eu: Cluster,
    zoo: dict[str, str],
    mirror: Any,
    alias: str,
    settings: dict[str, str],
    how: dict[str, Any],
) -> None:
    flow = mirror(us, eu, "zoo-.*", alias=alias, **settings)
    _rooms(us, eu, alias, zoo)
    flow.copy()
    for topic in zoo.values():
        flow.until_equal(topic, seconds=0, **how)
    if alias == "squeezed":
        seen = [record for topic in zoo.values() for record in read(eu.client_properties(), flow.remote(topic))]
        assert {record.codec for record in seen} == {"zstd"}


def test_a_source_of_an_older_line_is_copied_as_exactly(lab: Lab, eu: Cluster, mirror: Any) -> None:
    old = lab.cluster("old", line="3.9")
    try:
        topics = odd.all_odd(old, "zoo-")
        flow = mirror(old, eu, "zoo-.*")
        _rooms(old, eu, "old", topics)
        flow.copy()
        for topic in topics.values():
            flow.until_equal(topic, seconds=0, codecs=True)
    finally:
        lab.discard(old)
