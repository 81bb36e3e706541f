"""The dedicated-mode file (mm2.properties): its flows, and the settings of each flow's worker and connectors.

The rules are MM2's, including the surprising ones; tests compare the maps with those of MM2's MirrorMakerConfig.
"""

from collections.abc import Iterator, Mapping

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.layers import Values, stripped
from twinlog.config.problems import Problems
from twinlog.config.providers import Providers, declared_providers
from twinlog.config.setting import rows
from twinlog.config.settings import ALIASES, BYTE_ARRAY, CONNECTORS, MIRROR
from twinlog.config.value_types import split_list
from twinlog.config.values import Value, derived
from twinlog.model import Flow

# Prefixes of top-level keys that reach the worker; they override the cluster's keys.
WORKER_PREFIXES = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter",
    "task", "worker", "replication.policy",
)  # fmt: skip

# Top-level keys that reach the connectors: those that one of the three declares.
CONNECTOR_KEYS = frozenset(
    row.key.name for settings in CONNECTORS.values() for row in rows(settings) if row.key.declared
) | (frozenset(CONNECTION_KEYS) - {"bootstrap.servers"})


class Dedicated:
    """A parsed dedicated-mode file."""

    def __init__(self, values: Values, problems: Problems) -> None:
        self.raw = values
        self.providers: Providers = declared_providers(values, problems)
        # MM2 resolves references before it determines the flows, but passes them unresolved to connectors. Unresolved
        # ones are reported once, when a flow is built and the worker's own providers are known.
        self.resolved = self.providers.resolve_all(values, Problems())
        self.aliases = tuple(dict.fromkeys(split_list(self.resolved["clusters"].text))) if "clusters" in values else ()

    def flows(self) -> Iterator[Flow]:
        """Every ordered pair that is enabled or whose heartbeats are; by default that is every pair."""
        for source in self.aliases:
            for target in self.aliases:
                flow = Flow(source, target)
                if source != target and (self.is_enabled(flow) or self._has_heartbeats(flow)):
                    yield flow

    def is_enabled(self, flow: Flow) -> bool:
        return self._is_true(f"{flow}.enabled")

    def _has_heartbeats(self, flow: Flow) -> bool:
        key = "emit.heartbeats.enabled"
        flow_key = f"{flow}.{key}"
        return self._is_true(flow_key if flow_key in self.resolved else key, default=True)

    def _is_true(self, key: str, *, default: bool = False) -> bool:
        """As Java's Boolean.parseBoolean, without trimming: `true ` with a trailing blank is false."""
        return self.resolved[key].text.lower() == "true" if key in self.resolved else default

    def cluster(self, alias: str) -> dict[str, Value]:
        """`<alias>.*`, with connection keys (also the top level's) copied to producer, consumer and admin."""
        values = stripped(self.raw, f"{alias}.")
        # Two rounds, because the cluster's values have precedence over the top level's.
        for key in CONNECTION_KEYS:
            if (value := values.get(key)) is not None:
                _copy_to_clients(values, key, value)
        for key in CONNECTION_KEYS:
            if (value := self.raw.get(key)) is not None:
                values.setdefault(key, value)
                _copy_to_clients(values, key, value)
        return values

    def worker(self, flow: Flow) -> dict[str, Value]:
        """The Connect worker of a flow. Keys of the form `a->b.` do not reach it."""
        values = self.cluster(flow.target)
        values |= {key: value for key, value in self.raw.items() if key.startswith(WORKER_PREFIXES)}
        values = self.providers.resolve_all(values, Problems())
        values |= {key: value for key, value in self.raw.items() if key.startswith("config.providers")}
        for key, text in worker_defaults(flow).items():
            values.setdefault(key, derived(key, text, f"from {flow}"))
        return values

    def connector(self, flow: Flow, name: str) -> dict[str, Value]:
        """One of the three connectors of a flow, with unresolved references."""
        values = {key: value for key, value in self.raw.items() if key in CONNECTOR_KEYS or key in ALIASES}
        values |= {
            key: value for key, value in self.raw.items() if key.startswith(("config.providers", "replication.policy"))
        }
        for alias, side in ((flow.source, "source"), (flow.target, "target")):
            for key, value in self.cluster(alias).items():
                is_client = key.startswith(("consumer", "producer", "admin"))
                full = f"{side}.{key}" if is_client else f"{side}.cluster.{key}"
                values[full] = value.named(full)
        defaults = {
            "name": name,
            "connector.class": MIRROR + name,
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
        }
        for key, text in defaults.items():
            values.setdefault(key, derived(key, text, f"from {flow}"))
        values |= stripped(self.raw, f"{flow}.")
        values.setdefault("enabled", derived("enabled", "false", "default in dedicated mode"))
        return values

    def connectors(self, flow: Flow) -> dict[str, dict[str, Value]]:
        return {name: self.connector(flow, name) for name in CONNECTORS}


def worker_defaults(flow: Flow) -> Mapping[str, str]:
    return {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": BYTE_ARRAY,
        "value.converter": BYTE_ARRAY,
        "header.converter": BYTE_ARRAY,
    }


def _copy_to_clients(values: dict[str, Value], key: str, value: Value) -> None:
    for client in ("producer", "consumer", "admin"):
        values.setdefault(f"{client}.{key}", value.named(f"{client}.{key}"))
