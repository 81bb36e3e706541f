"""The properties of a MirrorClient: connection settings and replication policy of one cluster."""

from collections.abc import Mapping
from typing import Final

from twinlog.config.checks import check_bootstrap, check_client
from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import Config, FlowConfig
from twinlog.config.layers import stripped
from twinlog.config.problems import Problems
from twinlog.config.settings import MIRROR, SAME_CLASS
from twinlog.config.values import FrozenMap, derived
from twinlog.errors import ConfigError
from twinlog.mm2.replication_policy import Naming, ReplicationPolicy, policy_for

_POLICY: Final = "replication.policy."
_CLIENTS: Final = ("admin", "consumer", "producer")


def client_properties(config: Config, alias: str, source: str | None = None) -> dict[str, str]:
    """The properties of a MirrorClient for the cluster `alias`, by MM2's rule: the cluster's own settings before those
    of the whole file. In addition, settings of a flow (`us->eu.replication.policy.separator`) apply, because the flow
    names the topics. `source` selects the flow if they differ.

    They contain credentials: do not print them.
    """
    if alias not in config.clusters:
        known = ", ".join(sorted(config.clusters)) or "none"
        raise ConfigError(f"cluster {alias}: no such cluster in {', '.join(config.files)}; configured: {known}")
    properties = {key: value.text for key, value in config.clusters[alias].values.items()}
    of_flows = [_flow_properties(flow, alias) for flow in _flows(config, alias, source)]
    if not of_flows:
        raise ConfigError(
            f"cluster {alias}: no flow in {', '.join(config.files)} uses it, so its replication policy is unknown; "
            "pass the configuration of the flow into it"
        )
    if len({_naming(each) for each in of_flows}) > 1:
        raise ConfigError(
            f"cluster {alias}: flows into it have different replication policies; select the source (--from, source=)"
        )
    properties |= of_flows[0]
    return properties | ({"source.cluster.alias": source} if source is not None else {})


def _flows(config: Config, alias: str, source: str | None) -> list[FlowConfig]:
    """The flows that name the topics: the one from `source`, otherwise those that copy into the cluster."""
    into = [flow for flow in config.flows if flow.flow.target == alias]
    if named := [flow for flow in into if flow.flow.source == source]:
        return named
    replicating = [flow for flow in into if flow.replicates]
    return replicating or into or [flow for flow in config.flows if flow.flow.source == alias]


def _flow_properties(flow: FlowConfig, alias: str) -> dict[str, str]:
    """Of one flow: its replication policy, and connection settings of its own clients."""
    connector = flow.checkpoint or flow.source or flow.heartbeat
    if connector is None:
        return {}
    values = connector.values
    side = "target" if flow.flow.target == alias else "source"
    found = {key: value for key, value in values.items() if key.startswith(_POLICY)}
    found |= {key: one for key, one in stripped(values, f"{side}.cluster.").items() if key.startswith(_POLICY)}
    for client in _CLIENTS:
        own = stripped(values, f"{side}.{client}.")
        found |= {f"{client}.{key}": value for key, value in own.items() if key in CONNECTION_KEYS}
    return {key: value.text for key, value in found.items()}


def client_of(alias: str, properties: Mapping[str, str], role: str) -> ClientConfig:
    """Java's rule: `admin.x` before `x`, and only connection settings."""
    found = {}
    for key in CONNECTION_KEYS:
        text = properties.get(f"{role}.{key}", properties.get(key))
        if text is not None:
            found[key] = derived(key, text, "given to MirrorClient")
    problems = Problems()
    check_bootstrap(alias, found.get("bootstrap.servers"), "", "bootstrap.servers", problems)
    check_client(role, found, problems)
    if problems.found:  # also a placeholder, which is valid in a file but cannot be used
        raise ConfigError("; ".join(problem.text for problem in problems.found))
    return ClientConfig(role, FrozenMap(found))


def policy_from(properties: Mapping[str, str]) -> ReplicationPolicy:
    return policy_for(_naming(properties), properties.get("source.cluster.alias"), properties)


def _naming(properties: Mapping[str, str]) -> Naming:
    """Java's policies do not trim the separator and the flag: `true ` with a trailing blank is false."""
    name = properties.get(f"{_POLICY}class", f"{MIRROR}DefaultReplicationPolicy").strip()
    separator = properties.get(f"{_POLICY}separator", ".")
    flag = properties.get(f"{_POLICY}internal.topic.separator.enabled", "true")
    return Naming(SAME_CLASS.get(name, name), separator, separator if flag.lower() == "true" else ".")
