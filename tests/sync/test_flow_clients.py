"""Which Kafka clients a flow has: per role and login, with MM2's client ids or Twinlog's."""

from collections.abc import Callable

import pytest

from twinlog.config import FlowConfig
from twinlog.kafka.client import Client
from twinlog.sync.flow_clients import FlowClients

ReadFlow = Callable[..., FlowConfig]
ROLES = ("source.admin", "source.consumer", "target.admin", "data.producer")
LOGIN = ("B.producer.security.protocol = SASL_PLAINTEXT", "B.producer.sasl.mechanism = PLAIN")
JAAS = 'B.producer.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def _ids(clients: FlowClients, *roles: str) -> list[tuple[str, str]]:
    made = [clients.client(role) for role in roles]
    return [(client.alias, client._client_id) for client in made]


def test_a_connectors_clients_are_those_of_mm2(read_flow: ReadFlow) -> None:
    flow = read_flow("A.consumer.client.id = mine")
    assert _ids(FlowClients(flow, "source", 2), *ROLES) == [
        ("A", "A->B|MirrorSourceConnector|replication-source-admin"),
        ("A", "mine|A->B|MirrorSourceConnector-2|replication-consumer"),
        ("B", "A->B|MirrorSourceConnector|replication-target-admin"),
        ("B", "connector-producer-MirrorSourceConnector-2"),
    ]
    assert _ids(
        FlowClients(flow, "checkpoint"), "source.admin", "target.admin", "target.consumer", "data.producer"
    ) == [
        ("A", "A->B|MirrorCheckpointConnector|checkpoint-source-admin"),
        ("B", "A->B|MirrorCheckpointConnector|checkpoint-target-admin"),
        ("B", "A->B|MirrorCheckpointConnector-0|offset-syncs-target-consumer"),
        ("B", "connector-producer-MirrorCheckpointConnector-0"),
    ]
    assert _ids(FlowClients(flow, "heartbeat"), "target.admin", "data.producer") == [
        ("B", "A->B|MirrorHeartbeatConnector|heartbeats-target-admin"),
        ("B", "connector-producer-MirrorHeartbeatConnector-0"),
    ]


def test_twinlogs_own_share_a_client_per_cluster_and_settings(read_flow: ReadFlow) -> None:
    clients = FlowClients(read_flow())
    assert _ids(clients, *ROLES) == [("A", "twinlog-A->B")] * 2 + [("B", "twinlog-A->B")] * 2
    assert clients.client("target.admin") is clients.client("data.producer")
    assert clients.client("source.admin") is not clients.client("target.admin")


@pytest.mark.parametrize("lines", [(*LOGIN, JAAS), ("B.producer.request.timeout.ms = 7000",)])
def test_other_settings_have_another_client(read_flow: ReadFlow, lines: tuple[str, ...]) -> None:
    clients = FlowClients(read_flow(*lines))
    assert clients.client("target.admin") is not clients.client("data.producer")


def test_a_flow_without_a_source_connector_writes_with_the_connectors_producer(read_flow: ReadFlow) -> None:
    both = read_flow("B.producer.request.timeout.ms = 7000")
    flow = FlowConfig(both.flow, both.worker, heartbeat=both.heartbeat)
    assert both.heartbeat is not None
    for clients in (FlowClients(flow), FlowClients(flow, "heartbeat")):
        assert clients.client("data.producer").config == both.heartbeat.clients["target.producer"]


def test_all_are_closed_together(read_flow: ReadFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Client] = []
    monkeypatch.setattr(Client, "close", lambda client: closed.extend([client]))
    with FlowClients(read_flow(), "source") as clients:
        made = [clients.client(role) for role in ROLES]
        assert [clients.client(role) for role in ROLES] == made
    assert closed == made
