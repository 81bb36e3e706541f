"""Whether an offset was committed by the group itself, or by the opposite flow."""

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from lab.listeners import PLAINTEXT
from twinlog.kafka.client import Client
from twinlog.kafka.topic_writer import write
from twinlog.mm2.checkpoints import Checkpoint, encode_highest
from twinlog.mm2.client_properties import client_of
from twinlog.model import TopicPartition
from twinlog.sync.opposite_flow import OppositeFlow

pytestmark = pytest.mark.broker

TP = TopicPartition("us.orders", 0)


@pytest.fixture
def client(eu: Cluster) -> Iterator[Client]:
    client = Client("eu", client_of("eu", {"bootstrap.servers": eu.bootstrap()}, "consumer"))
    yield client
    client.close()


def put(client: Client, topic: str, offset: int, highest: int | None) -> None:
    checkpoint = Checkpoint("g", *TP, offset, offset)
    headers = () if highest is None else encode_highest(highest)
    client.metadata([topic])
    write(client, TopicPartition(topic, 0), [(1, checkpoint.key(), checkpoint.value(), headers)])


def test_only_offsets_beyond_all_synced_ones_are_own(eu: Cluster, client: Client, topic: str) -> None:
    eu.create_topic(topic)
    flow = OppositeFlow(client, topic, "us", lambda *_: pytest.fail("unexpected warning"))
    assert flow.read()
    assert flow.is_own("g", TP, 0), "the opposite flow knows nothing of the group"
    put(client, topic, 50, 50)
    assert flow.read()
    assert [flow.is_own("g", TP, offset) for offset in (49, 50, 51)] == [False, False, True]
    put(client, topic, 10, 50)
    assert flow.read()
    assert [flow.is_own("g", TP, offset) for offset in (10, 11, 50, 51)] == [False, False, False, True]
    assert flow.is_own("h", TP, 10)
    assert flow.is_own("g", TopicPartition("us.orders", 1), 10)
    put(client, topic, 20, None)  # MM2 does not write the highest offset
    assert flow.read()
    assert not flow.is_own("g", TP, 1000)
    put(client, topic, 20, 60)
    assert flow.read()
    assert flow.is_own("g", TP, 61)
    flow.mark_written("g", TP, 61)
    assert not flow.is_own("g", TP, 61), "written back only once"
    assert flow.is_own("g", TP, 62)


def test_a_missing_topic_is_reported(eu: Cluster, client: Client, topic: str) -> None:
    warnings: list[str] = []
    flow = OppositeFlow(client, topic, "us", lambda _, text: warnings.append(text))
    assert not flow.read()
    assert warnings == [
        f"group offsets not written back to us: needs topic {topic} on eu: it does not exist; run flow us->eu with "
        "emit.checkpoints.enabled = true"
    ]
    eu.create_topic(topic)
    put(client, topic, 50, 50)
    assert flow.read()
    eu.delete_topic(topic)
    assert not flow.read()


def test_an_unreadable_topic_is_reported(secure: Cluster, topic: str) -> None:
    secure.create_topic(topic)
    client = Client("eu", client_of("eu", {"bootstrap.servers": secure.bootstrap(PLAINTEXT)}, "consumer"))
    warnings: list[str] = []
    try:
        assert not OppositeFlow(client, topic, "us", lambda _, text: warnings.append(text)).read()
    finally:
        client.close()
    assert len(warnings) == 1
    assert warnings[0].endswith("TOPIC_AUTHORIZATION_FAILED; grant Describe and Read on it")
