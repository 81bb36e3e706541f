"""Client ids are MM2's, so quotas that were set for it hold: by the rules, then by Kafka's own classes."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.kafka_classes import KafkaJvm
from twinlog.config import FlowConfig
from twinlog.kafka.client import Client, request_timeout
from twinlog.mm2.client_ids import client_id, data_producer_id, producer_id
from twinlog.replicate.task_spec import TaskSpec

ReadFlow = Callable[..., FlowConfig]
MIRROR = "org.apache.kafka.connect.mirror."


def _job(flow: FlowConfig, task: int = 0) -> TaskSpec:
    return TaskSpec(flow.flow, flow, (), (), task=task)


def test_without_a_client_id(read_flow: ReadFlow) -> None:
    job = _job(read_flow(), 3)
    assert job.source_client_id == "A->B|MirrorSourceConnector-3|replication-consumer"
    assert job.target_client_id == "connector-producer-MirrorSourceConnector-3"


def test_with_one(read_flow: ReadFlow) -> None:
    """In front of MM2's own; the records' producer is Connect's, and has it as it is."""
    flow = read_flow("A.consumer.client.id = reader", "B.producer.client.id = writer", "A->B.admin.client.id = admin")
    job = _job(flow, 3)
    assert job.source_client_id == "reader|A->B|MirrorSourceConnector-3|replication-consumer"
    assert job.target_client_id == "writer"
    assert flow.source is not None
    assert flow.heartbeat is not None
    name = client_id(flow.source, "target.admin", "replication-target-admin")
    assert name == "admin|A->B|MirrorSourceConnector|replication-target-admin"
    assert producer_id(flow, flow.heartbeat) == "writer"


def test_a_producer_of_one_connector(read_flow: ReadFlow) -> None:
    flow = read_flow("A->B.producer.override.client.id = mine")
    assert data_producer_id(flow) == "mine"


def test_checkpoints_and_heartbeats_are_written_under_their_own_names(read_flow: ReadFlow) -> None:
    flow = read_flow()
    assert flow.heartbeat is not None
    assert producer_id(flow, flow.heartbeat) == "connector-producer-MirrorHeartbeatConnector-0"


@pytest.mark.java
@pytest.mark.parametrize(
    "lines", [[], ["consumer.client.id = c", "A.consumer.client.id = x", "A->B.admin.client.id = a"]]
)
def test_mm2_has_the_same(kafka_jvm: KafkaJvm, read_flow: ReadFlow, lines: list[str]) -> None:
    flow = read_flow(*lines)
    connector = flow.source
    assert connector is not None
    texts = {key: value.text for key, value in connector.values.items()}
    mirror = kafka_jvm.jvm.org.apache.kafka.connect.mirror
    of_connector = mirror.MirrorSourceConfig(kafka_jvm.map(texts))
    of_task = mirror.MirrorSourceTaskConfig(
        kafka_jvm.map({**texts, "task.index": "7", "task.assigned.partitions": "t-0"})
    )
    for config, task, method, client, role in (
        (of_task, 7, "sourceConsumerConfig", "source.consumer", "replication-consumer"),
        (of_task, 7, "sourceProducerConfig", "source.producer", "offset-syncs-source-producer"),
        (of_connector, None, "sourceAdminConfig", "source.admin", "replication-source-admin"),
        (of_connector, None, "targetAdminConfig", "target.admin", "replication-target-admin"),
    ):
        theirs = _asked(kafka_jvm, config, method, role)["client.id"]
        assert client_id(connector, client, role, task) == theirs


def _asked(kafka_jvm: KafkaJvm, config: Any, method: str, role: str) -> dict[str, str]:
    types = kafka_jvm._gateway.new_array(kafka_jvm.jvm.java.lang.Class, 1)
    types[0] = kafka_jvm._class("java.lang.String")
    found = kafka_jvm._class(f"{MIRROR}MirrorConnectorConfig").getDeclaredMethod(method, types)
    found.setAccessible(True)
    arguments = kafka_jvm._gateway.new_array(kafka_jvm.jvm.java.lang.Object, 1)
    arguments[0] = role
    return kafka_jvm.strings(found.invoke(config, arguments))


@pytest.mark.parametrize(
    ("text", "requests", "records"), [("", 15, 30), ("120000", 120, 120), ("2000", 2, 2), ("0", 1, 1)]
)
def test_request_timeouts(read_flow: ReadFlow, text: str, requests: float, records: float) -> None:
    """As they are set, however long; and each side has its own."""
    line = f"B.producer.request.timeout.ms = {text}" if text else ""
    job = _job(read_flow(line))
    assert Client("B", job.target).timeout == requests
    assert (job.target_request_timeout, job.source_request_timeout) == (records, 30)
    assert request_timeout(job.source, 15) == 15


def test_a_fetch_may_wait_longer_than_a_request(read_flow: ReadFlow) -> None:
    """Or every long poll of an idle topic would look like a broker that hangs."""
    job = _job(read_flow("A.consumer.request.timeout.ms = 500", "A.consumer.fetch.max.wait.ms = 2000"))
    assert job.source_request_timeout == 3


@pytest.mark.parametrize(("text", "seconds"), [("", 1.2), ("60000", 60), ("0", 0.1)])
def test_how_long_a_task_may_take_to_write_its_positions(read_flow: ReadFlow, text: str, seconds: float) -> None:
    line = f"task.shutdown.graceful.timeout.ms = {text}" if text else ""
    assert _job(read_flow(line)).graceful_seconds == seconds
