"""The endpoints to probe: clients of all flows, grouped by cluster and connection settings. Pure."""

from collections.abc import Collection, Iterable, Mapping

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client, Config, FlowConfig
from twinlog.inspect.doctor.facts import Endpoint
from twinlog.mm2.selection import offset_syncs_location


def endpoints(config: Config, flows: Iterable[FlowConfig], clusters: Collection[str]) -> list[Endpoint]:
    """Of these clusters; a cluster that no flow uses has one for the admin client."""
    roles: dict[tuple[str, tuple[str | None, ...]], list[str]] = {}
    clients: dict[tuple[str, tuple[str | None, ...]], Client] = {}
    used = [each for flow in flows for each in clients_of(flow)]
    idle = [(alias, "admin", config.clusters[alias]) for alias in config.clusters]
    idle = [each for each in idle if each[0] not in {alias for alias, *_ in used}]
    for alias, role, client in [*used, *idle]:
        if alias in clusters:
            key = (alias, login(client))
            clients.setdefault(key, client)
            named = roles.setdefault(key, [])
            if role not in named:
                named.append(role)
    return [Endpoint(alias, client, tuple(roles[alias, key])) for (alias, key), client in clients.items()]


def login(client: Client) -> tuple[str | None, ...]:
    return tuple(client.values[key].text if key in client.values else None for key in CONNECTION_KEYS)


def clients_of(flow: FlowConfig) -> list[tuple[str, str, Client]]:
    """(cluster, role, client) of those that the flow uses."""
    found: list[tuple[str, str, Client]] = []

    def add(clients: Mapping[str, Client], *roles: str) -> None:
        for role in roles:
            alias = flow.flow.source if role.startswith("source.") else flow.flow.target
            found.append((alias, role, clients[role]))

    if flow.source is not None and flow.replicates:
        add(flow.source.clients, "source.admin", "source.consumer", "target.admin", "data.producer")
        if flow.source.settings.emit_offset_syncs_enabled and offset_syncs_location(flow)[0] == "source":
            add(flow.source.clients, "source.producer")
    if flow.checkpoint is not None and flow.emits_checkpoints:
        add(flow.checkpoint.clients, "source.admin", "target.admin", f"{offset_syncs_location(flow)[0]}.consumer")
    if flow.heartbeat is not None and flow.emits_heartbeats:
        add(flow.heartbeat.clients, "target.admin")
        if flow.source is None:
            add(flow.heartbeat.clients, "target.producer")
        elif not flow.replicates:
            add(flow.source.clients, "data.producer")
    return found
