"""`twinlog run --once` without some permissions: copies what it can, then ends with an error that names the rest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.broker import ClusterSpec
from lab.lab import Lab
from tests.runtime.conftest import Pair

pytestmark = [pytest.mark.broker, pytest.mark.spark]

_ME = "ANONYMOUS"  # the user without authentication


@pytest.fixture(scope="module")
def closed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two clusters with authorizers that allow all but what a test denies."""
    inner, outer = lab.clusters(*(ClusterSpec(name=name, authorizer=True) for name in ("inner", "outer")))
    for cluster in (inner, outer):
        cluster.grant(_ME, "ALL", topic="*")
        cluster.grant(_ME, "DESCRIBE", "IDEMPOTENT_WRITE", "DESCRIBE_CONFIGS", cluster="kafka-cluster")
    pair = Pair(inner, outer, tmp_path_factory.mktemp("denied"))
    try:
        yield pair
    finally:
        pair.close()
        lab.discard(inner)
        lab.discard(outer)


def _filled(pair: Pair, *topics: str) -> None:
    for topic in topics:
        pair.source.create_topic(topic, 2)
        for partition in (0, 0, 1):
            pair.put(topic, partition, b"a record")


def _run(pair: Pair, file: Path) -> list[str]:
    twin = pair.run(file, "--once")
    assert twin.wait(120) == 1, twin.output
    return twin.lines


def test_what_is_denied_is_named_and_the_rest_is_copied(closed: Pair) -> None:
    inner, outer = closed.source, closed.target
    _filled(closed, "good", "unread", "unwritten", "uncreated", "hidden", "concealed")
    outer.create_topic("inner.concealed", 2)
    inner.deny(_ME, "READ", topic="unread")
    outer.deny(_ME, "WRITE", topic="inner.unwritten")
    outer.deny(_ME, "CREATE", topic="inner.uncreated")
    outer.deny(_ME, "DESCRIBE", topic="inner.concealed")
    inner.deny(_ME, "DESCRIBE", topic="hidden")
    topics = "good, unread, unwritten, uncreated, hidden, concealed"
    file = closed.file({"topics": topics, "sync.topic.acls.enabled": "false"})
    lines = _run(closed, file)
    closed.assert_equal("good")
    output = "\n".join(lines)
    assert "inner: unread-0: TOPIC_AUTHORIZATION_FAILED; permission missing, listed by twinlog plan" in output
    assert "all partitions recovered" not in output
    assert "outer: inner.unwritten-1: TOPIC_AUTHORIZATION_FAILED" in output
    assert "cluster outer: cannot create topic inner.uncreated: " in output
    assert "topic inner.concealed of outer: TOPIC_AUTHORIZATION_FAILED" in output
    assert "topic hidden of inner is not replicated: TOPIC_AUTHORIZATION_FAILED" in output
    assert lines[-1].startswith("twinlog: not everything was copied: inner->outer: ")
    assert lines[-1].endswith(" more, see above)")


@pytest.mark.slow
def test_an_unreadable_internal_topic_ends_it(closed: Pair) -> None:
    _filled(closed, "late")
    closed.target.deny(_ME, "READ", topic="mm2-offsets.inner.internal")
    lines = _run(closed, closed.file({"topics": "late"}))
    assert lines[-1].startswith("twinlog: ")
    assert "mm2-offsets.inner.internal" in lines[-1]
    assert "TOPIC_AUTHORIZATION_FAILED" in lines[-1]
