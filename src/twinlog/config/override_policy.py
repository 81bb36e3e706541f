"""`connector.client.config.override.policy`: which client settings a connector may override.

Only Kafka's four policies are supported. Custom classes are rejected: they are Java code, and ignoring them would
allow what they forbid.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from twinlog.config.layers import Values
from twinlog.config.problems import Problems
from twinlog.config.settings import WorkerSettings, override_policy

_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


def refused(config: Iterable[str], policy: str, allowlist: Iterable[str], *, exactly_once: bool) -> Iterator[str]:
    """Keys of a connector that the policy forbids. Only overrides of clients that Connect creates are checked."""
    name = override_policy(policy)
    if name == "All":
        return
    allowed = _PRINCIPAL if name == "Principal" else frozenset(allowlist) if name == "Allowlist" else frozenset()
    keys = sorted(config)
    own_offsets = exactly_once or "offsets.storage.topic" in keys
    creates = {
        "producer": True,
        "admin": own_offsets or any(key.startswith("topic.creation.") for key in keys),
        "consumer": own_offsets,
    }
    for client in (client for client, created in creates.items() if created):
        prefix = f"{client}.override."
        yield from (key for key in keys if key.startswith(prefix) and key.removeprefix(prefix) not in allowed)


def complaint(key: str, policy: str) -> str:
    """Connect's message."""
    name, setting = override_policy(policy), key.partition(".override.")[2]
    return f"The '{name}' policy does not allow '{setting}' to be overridden in the connector configuration."


def check_overrides(connectors: Mapping[str, Values], settings: WorkerSettings, problems: Problems) -> None:
    """`settings`: of a Connect worker, from its file or a Strimzi resource. MM2's dedicated mode has no policy."""
    policy = settings.connector_client_config_override_policy
    listed = settings.connector_client_config_override_allowlist
    exactly_once = settings.exactly_once_source_support.lower() == "enabled"
    for values in connectors.values():
        for key in refused(values, policy, listed, exactly_once=exactly_once):
            problems.error(values[key].origin, complaint(key, policy))
