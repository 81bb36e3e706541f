"""Re-created topics and end offsets on the target."""

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.listeners import PLAINTEXT
from tests.sync.conftest import fill
from twinlog.kafka.client import Client
from twinlog.mm2.client_properties import client_of
from twinlog.model import TopicPartition
from twinlog.sync.remote_topic_changes import Ends, RemoteTopicChanges

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_limits() -> None:
    ends = Ends({A: 10}, frozenset({B}))
    assert [ends.limit(A, limit) for limit in (None, 5, 50)] == [10, 5, 10]
    assert [ends.limit(B, limit) for limit in (None, 5)] == [None, 5]
    assert ends.covers(A)
    assert ends.covers(B)
    assert not ends.covers(TopicPartition("a", 1))


@pytest.mark.broker
class TestARealCluster:
    @pytest.fixture
    def client(self, eu: Cluster) -> Iterator[Client]:
        client = Client("eu", client_of("eu", {"bootstrap.servers": eu.bootstrap()}, "admin"))
        yield client
        client.close()

    def test_a_recreated_topic(self, eu: Cluster, client: Client, topic: str) -> None:
        tp, topics = TopicPartition(topic, 0), RemoteTopicChanges(client)
        assert topics.replaced([topic]) == set()
        assert not topics.ends([tp]).covers(tp)
        eu.create_topic(topic)
        fill(eu, topic, range(7))
        for _ in range(2):
            assert topics.replaced([topic]) == set()
            assert topics.ends([tp]) == Ends({tp: 7})
        eu.delete_topic(topic)
        assert topics.replaced([topic]) == set(), "not re-created yet"
        assert not topics.ends([tp]).covers(tp)
        eu.create_topic(topic)
        assert not topics.ends([tp]).covers(tp), "re-created, but not reported yet"
        assert topics.replaced([topic]) == {topic}
        assert topics.ends([tp]) == Ends({tp: 0})
        assert topics.starts([tp]) == {tp: 0}

    def test_a_topic_without_describe_permission(self, secure: Cluster, topic: str) -> None:
        """MM2 does not need it for checkpoints: without it they are written as by MM2."""
        secure.create_topic(topic)
        tp = TopicPartition(topic, 0)
        client = Client("eu", client_of("eu", {"bootstrap.servers": secure.bootstrap(PLAINTEXT)}, "admin"))
        try:
            topics = RemoteTopicChanges(client)
            assert topics.replaced([topic]) == set()
            assert topics.ends([tp]) == Ends({}, frozenset({tp}))
        finally:
            client.close()
