"""The real MM2 runs here, both ways: what Twinlog will be compared with."""

from collections.abc import Callable

import pytest

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.lab import Lab
from twinlog.lab.peer import CONNECTORS, mirror_properties

pytestmark = pytest.mark.broker

Produce = Callable[..., int]
Consume = Callable[..., list[str]]


def test_dedicated_mirror_maker_replicates_a_topic_and_goes_on_after_a_kill(
    lab: Lab, us: Cluster, eu: Cluster, topic: str, produce: Produce, consume: Consume
) -> None:
    us.create_topic(topic)
    produce(us.librdkafka_properties(), topic, "before")
    mirror = lab.mirror_maker(mirror_properties([us, eu], [(us, eu)], {"topics": topic}), name=f"mm2-{topic}")
    mirror.wait_until_running()
    eu_client = eu.librdkafka_properties()
    assert consume(eu_client, f"us.{topic}", 1) == ["before"]
    mirror.kill()
    produce(us.librdkafka_properties(), topic, "meanwhile")
    mirror.start()
    mirror.wait_until_running()
    # MM2 promises each record at least once, and after a kill it does send some again.
    assert consume(eu_client, f"us.{topic}", last="meanwhile")[-1] == "meanwhile"
    mirror.stop()
    assert not mirror.process.alive


def test_a_connect_worker_runs_the_three_connectors(
    lab: Lab, us: Cluster, eu: Cluster, topic: str, produce: Produce, consume: Consume
) -> None:
    us.create_topic(topic)
    produce(us.librdkafka_properties(), topic, "hello")
    worker = lab.connect_worker(eu.client_properties(), name=f"connect-{topic}")
    for connector in CONNECTORS:
        worker.put(
            connector,
            {
                "connector.class": f"org.apache.kafka.connect.mirror.{connector}",
                "source.cluster.alias": "us",
                "target.cluster.alias": "eu",
                "source.cluster.bootstrap.servers": us.bootstrap(),
                "target.cluster.bootstrap.servers": eu.bootstrap(),
                "topics": topic,
                "groups": ".*",
                "tasks.max": "1",
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "checkpoints.topic.replication.factor": "1",
                "heartbeats.topic.replication.factor": "1",
            },
        )
    worker.wait_until_running("MirrorSourceConnector", "MirrorHeartbeatConnector")
    assert consume(eu.librdkafka_properties(), f"us.{topic}", 1) == ["hello"]
    assert sorted(worker.connectors()) == sorted(CONNECTORS)
    assert worker.status("MirrorCheckpointConnector")["connector"]["state"] == "RUNNING"
    assert worker.get("MirrorSourceConnector")["topics"] == topic
    worker.delete("MirrorHeartbeatConnector")
    with pytest.raises(LabError, match="MirrorHeartbeatConnector"):
        worker.get("MirrorHeartbeatConnector")
    worker.stop()
