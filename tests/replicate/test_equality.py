"""Copied topics are equal record by record, including corner cases that Kafka's own clients never write."""

from typing import Any

import pytest

from lab import corner_case_topics
from lab.batches import CODECS
from lab.cluster import Cluster
from lab.compare_logs import read
from lab.lab import Lab

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def corner_cases(us: Cluster) -> dict[str, str]:
    return corner_case_topics.create_all(us, "corner-")


def _create_remote_topics(source: Cluster, target: Cluster, alias: str, topics: dict[str, str]) -> None:
    """Creates remote topics that accept multi-megabyte records and do not delete those of 1970."""
    for topic in topics.values():
        count = len(_partitions(source, topic))
        target.create_topic(f"{alias}.{topic}", count, 1, {"retention.ms": "-1", "max.message.bytes": str(8 << 20)})


def _partitions(cluster: Cluster, topic: str) -> list[Any]:
    with cluster.admin() as admin:
        return list(admin.describe_topics([topic])[0]["partitions"])


def test_corner_case_topics_are_equal_record_by_record(
    us: Cluster, eu: Cluster, corner_cases: dict[str, str], mirror: Any
) -> None:
    flow = mirror(us, eu, "corner-.*")
    _create_remote_topics(us, eu, "us", corner_cases)
    copied = flow.copy()

    for topic in corner_cases.values():
        flow.until_equal(topic, seconds=0, codecs=True)
    assert all(p.report.counters.recoveries == 0 for p in copied.relay.partitions), str(copied)
    assert not any(p.report.counters.lost or p.report.counters.foreign for p in copied.relay.partitions), str(copied)
    # Batches that can be forwarded unchanged are not rebuilt.
    assert not copied[corner_cases["large-batches"]].report.counters.rebuilt
    for partition, codec in enumerate(CODECS):
        if codec != "none":  # small uncompressed ones are coalesced
            assert not copied[corner_cases["codecs"], partition].report.counters.rebuilt
    assert copied[corner_cases["small-batches"]].report.counters.batches < 50

    # The open transaction ends, and the records after it are copied.
    corner_case_topics.abort_open_transaction(us, corner_cases["open-transaction"])
    flow.copy()
    for topic in corner_cases.values():
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
def test_client_settings_do_not_change_the_copied_records(
    us: Cluster,
    eu: Cluster,
    corner_cases: dict[str, str],
    mirror: Any,
    alias: str,
    settings: dict[str, str],
    how: dict[str, Any],
) -> None:
    flow = mirror(us, eu, "corner-.*", alias=alias, **settings)
    _create_remote_topics(us, eu, alias, corner_cases)
    flow.copy()
    for topic in corner_cases.values():
        flow.until_equal(topic, seconds=0, **how)
    if alias == "squeezed":
        seen = [
            record for topic in corner_cases.values() for record in read(eu.client_properties(), flow.remote(topic))
        ]
        assert {record.codec for record in seen} == {"zstd"}


def test_an_older_source_is_copied_exactly(lab: Lab, eu: Cluster, mirror: Any) -> None:
    old = lab.cluster("old", line="3.9")
    try:
        topics = corner_case_topics.create_all(old, "corner-")
        flow = mirror(old, eu, "corner-.*")
        _create_remote_topics(old, eu, "old", topics)
        flow.copy()
        for topic in topics.values():
            flow.until_equal(topic, seconds=0, codecs=True)
    finally:
        lab.discard(old)
