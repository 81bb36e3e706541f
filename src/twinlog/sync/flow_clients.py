"""The Kafka clients of a flow: created on first use, and closed together."""

from types import TracebackType
from typing import Any, Final, Self

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import Connector, FlowConfig
from twinlog.kafka.client import Client
from twinlog.mm2.client_ids import id_of_role
from twinlog.sync.forwarding_admin import admin_client

_CLIENT_KEYS: Final = (*CONNECTION_KEYS, "request.timeout.ms")


class FlowClients:
    """Belongs to one thread, as its clients do.

    Of a `connector` (source, checkpoint or heartbeat): one client per role, with MM2's client id; topics are created
    and altered by `forwarding.admin.class`. Without one, they are Twinlog's own: with its client id, and the same
    client for all roles of a cluster that have the same settings.
    """

    def __init__(self, flow: FlowConfig, connector: str = "", task: int = 0) -> None:
        self._flow = flow
        self._connector = connector
        self._task = task
        self._clients: dict[tuple[str | None, ...], Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def client(self, role: str) -> Client:
        """`role`: source.admin, target.admin, source.consumer, data.producer ..."""
        flow, config = self._flow.flow, self._config(role)
        alias = flow.source if role.startswith("source.") else flow.target
        name = id_of_role(self._flow, self._connector, role, self._task) if self._connector else f"twinlog-{flow}"
        key = alias, name, *(config.values[each].text if each in config.values else None for each in _CLIENT_KEYS)
        if key not in self._clients:
            if self._connector and role.endswith(".admin"):
                self._clients[key] = admin_client(self._flow.connectors[self._connector], role, alias, name)
            else:
                self._clients[key] = Client(alias, config, name)
        return self._clients[key]

    def _config(self, role: str) -> ClientConfig:
        """Of the connector, else of the first one that has such a client."""
        connectors = self._flow.connectors
        owners: list[Connector[Any]] = [connectors[self._connector]] if self._connector else []
        owners += connectors.values()
        for name in (role, "target.producer"):  # only a source connector has a data.producer
            for owner in owners:
                if name in owner.clients:
                    config: ClientConfig = owner.clients[name]
                    return config
        raise ValueError(f"{self._flow} has no client {role}")
