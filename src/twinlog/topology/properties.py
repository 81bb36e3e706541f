"""From a configuration, or plain properties, to one client of one cluster: how it logs in, how topics are named."""

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
from twinlog.topology.policy import Naming, ReplicationPolicy, policy_for

_POLICY: Final = "replication.policy."
_CLIENTS: Final = ("admin", "consumer", "producer")


def client_properties(config: Config, alias: str, source: str | None = None) -> dict[str, str]:
    """What a MirrorClient of the cluster `alias` is given, by MM2's rule: the cluster's own settings before those of
    the whole file. Beyond MM2's rule, what is set for a flow alone (`us->eu.replication.policy.separator`) counts too,
    because it is by the flow that topics are named. `source` says which flow is meant where they differ.

    They hold what is needed to log in, so do not print them.
    """
    if alias not in config.clusters:
        known = ", ".join(sorted(config.clusters)) or "none"
        raise ConfigError(f"cluster {alias}: no such cluster in {', '.join(config.files)}; there is: {known}")
    made = {key: value.text for key, value in config.clusters[alias].values.items()}
    ways = [_flow_properties(flow, alias) for flow in _flows(config, alias, source)]
    if not ways:
        raise ConfigError(
            f"cluster {alias}: no flow of {', '.join(config.files)} has to do with it, so how its topics are named is "
            "not known: give the file of the flow into it"
        )
    if len({_naming(way) for way in ways}) > 1:
        raise ConfigError(
            f"cluster {alias}: flows into it name topics differently: say from which source (--from, source=)"
        )
    made |= ways[0]
    return made | ({"source.cluster.alias": source} if source is not None else {})


def _flows(config: Config, alias: str, source: str | None) -> list[FlowConfig]:
    """Those that name the topics that are asked for: the one from `source`, else those that copy into the cluster."""
    into = [flow for flow in config.flows if flow.flow.target == alias]
    if named := [flow for flow in into if flow.flow.source == source]:
        return named
    working = [flow for flow in into if flow.replicates]
    return working or into or [flow for flow in config.flows if flow.flow.source == alias]


def _flow_properties(flow: FlowConfig, alias: str) -> dict[str, str]:
    """Of one flow: how it names topics, and how its clients get into the cluster, where they differ from others."""
    connector = flow.checkpoint or flow.source or flow.heartbeat
    if connector is None:
        return {}
    values = connector.values
    side = "target" if flow.flow.target == alias else "source"
    made = {key: value for key, value in values.items() if key.startswith(_POLICY)}
    made |= {key: one for key, one in stripped(values, f"{side}.cluster.").items() if key.startswith(_POLICY)}
    for client in _CLIENTS:
        own = stripped(values, f"{side}.{client}.")
        made |= {f"{client}.{key}": value for key, value in own.items() if key in CONNECTION_KEYS}
    return {key: value.text for key, value in made.items()}


def client_of(alias: str, properties: Mapping[str, str], role: str) -> ClientConfig:
    """Java's rule: `admin.x` before `x`, and of either only what is needed to connect."""
    made = {}
    for key in CONNECTION_KEYS:
        text = properties.get(f"{role}.{key}", properties.get(key))
        if text is not None:
            made[key] = derived(key, text, "given to MirrorClient")
    problems = Problems()
    check_bootstrap(alias, made.get("bootstrap.servers"), "", "bootstrap.servers", problems)
    check_client(role, made, problems)
    if problems.found:  # also a placeholder, which may stand in a file but leads nowhere
        raise ConfigError("; ".join(problem.text for problem in problems.found))
    return ClientConfig(role, FrozenMap(made))


def policy_from(properties: Mapping[str, str]) -> ReplicationPolicy:
    return policy_for(_naming(properties), properties.get("source.cluster.alias"), properties)


def _naming(properties: Mapping[str, str]) -> Naming:
    """Java's policies take separator and flag as they are written: a flag `true ` with a blank behind it is false."""
    name = properties.get(f"{_POLICY}class", f"{MIRROR}DefaultReplicationPolicy").strip()
    separator = properties.get(f"{_POLICY}separator", ".")
    flag = properties.get(f"{_POLICY}internal.topic.separator.enabled", "true")
    return Naming(SAME_CLASS.get(name, name), separator, separator if flag.lower() == "true" else ".")
