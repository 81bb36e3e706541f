"""The client ids of MM2, so that quotas, ACL tools and broker dashboards apply unchanged.

| job                      | id                                                                |
|--------------------------|-------------------------------------------------------------------|
| reads records            | `us->eu|MirrorSourceConnector-0|replication-consumer`             |
| writes records           | `connector-producer-MirrorSourceConnector-0`                      |
| writes offset syncs      | `us->eu|MirrorSourceConnector-0|offset-syncs-source-producer`     |
| lists and creates topics | `us->eu|MirrorSourceConnector|replication-target-admin`, ...      |

A configured `client.id` is put in front of MM2's (`mine|us->eu|...`). In MM2, the producer of the records belongs to
the Connect worker, which uses a `client.id` as it is. Kafka compares full ids, so a quota for `mine` applies to the
producers of all tasks together, on each broker.
"""

from typing import Any, Final, Literal

from twinlog.config.flows import Connector, FlowConfig
from twinlog.mm2.source_offsets import connector_name

Side = Literal["source", "target"]
SIDES: Final[tuple[Side, Side]] = ("source", "target")
# MM2's names for the purposes of a connector's own clients
_PURPOSES: Final = {
    ("source", "source.admin"): "replication-source-admin",
    ("source", "target.admin"): "replication-target-admin",
    ("source", "source.consumer"): "replication-consumer",
    ("checkpoint", "source.admin"): "checkpoint-source-admin",
    ("checkpoint", "target.admin"): "checkpoint-target-admin",
    ("checkpoint", "source.consumer"): "offset-syncs-source-consumer",
    ("checkpoint", "target.consumer"): "offset-syncs-target-consumer",
    ("heartbeat", "target.admin"): "heartbeats-target-admin",
}


def id_of_role(flow: FlowConfig, connector: str, role: str, task: int = 0) -> str:
    """Of a client of the flow's source, checkpoint or heartbeat connector; admin clients do not belong to a task."""
    owner = flow.connectors[connector]
    if role == "data.producer":
        return data_producer_id(flow, task) if connector == "source" else producer_id(flow, owner)
    return client_id(owner, role, _PURPOSES[connector, role], None if role.endswith(".admin") else task)


def client_id(connector: Connector[Any], client: str, role: str, task: int | None = None) -> str:
    """Of one of a connector's own clients. `client`: the client whose settings apply (`source.consumer`,
    `target.admin` ...); `role`: MM2's name for its purpose.
    """
    settings = connector.settings
    own = _configured_id(connector, client)
    flow = f"{settings.source_cluster_alias}->{settings.target_cluster_alias}"
    entity = settings.name if task is None else f"{settings.name}-{task}"
    return f"{own}|{flow}|{entity}|{role}" if own else f"{flow}|{entity}|{role}"


def data_producer_id(flow: FlowConfig, task: int = 0) -> str:
    """Of the producer that writes records."""
    assert flow.source is not None
    return _configured_id(flow.source, "data.producer") or f"connector-producer-{connector_name(flow)}-{task}"


def producer_id(flow: FlowConfig, connector: Connector[Any]) -> str:
    """Of the producer of checkpoints or heartbeats: also the worker's, so data.producer's settings apply to it."""
    own = _configured_id(flow.source, "data.producer") if flow.source is not None else ""
    return own or f"connector-producer-{connector.settings.name}-0"


def _configured_id(connector: Connector[Any], client: str) -> str:
    values = connector.clients[client].values
    return str(values["client.id"].text).strip() if "client.id" in values else ""
