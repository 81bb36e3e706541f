"""The dedicated-mode file (mm2.properties): its flows, and what MM2 gives to the worker and connectors of each.

Every rule here is MM2's own, the surprising ones too; tests compare the maps with those of MM2's MirrorMakerConfig.
"""

from collections.abc import Iterator, Mapping

from twinlog.config.clients import CONNECTION_KEYS
from twinlog.config.kinds import split_list
from twinlog.config.layers import Values, stripped
from twinlog.config.problems import Problems
from twinlog.config.providers import Providers, declared_providers
from twinlog.config.settings import ALIASES, BYTE_ARRAY, CONNECTORS, MIRROR
from twinlog.config.table import rows
from twinlog.config.values import Value, derived
from twinlog.model import Flow

# Top-level keys that reach the worker, by their first letters; they beat those of the cluster.
WORKER_PREFIXES = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter",
    "task", "worker", "replication.policy",
)  # fmt: skip

# Top-level keys that reach the connectors: those that one of the three declares, by their whole names.
CONNECTOR_KEYS = frozenset(
    row.key.name for settings in CONNECTORS.values() for row in rows(settings) if row.key.declared
) | (frozenset(CONNECTION_KEYS) - {"bootstrap.servers"})


class Dedicated:
    """A dedicated-mode file, read."""

    def __init__(self, values: Values, problems: Problems) -> None:
        self.raw = values
        self.providers: Providers = declared_providers(values, problems)
        # MM2 resolves references before it looks for flows, but keeps them in what it hands to connectors. What cannot
        # be resolved is said once, when a flow is built: there a worker's own providers are known too.
        self.resolved = self.providers.resolve_all(values, Problems())
        self.aliases = tuple(dict.fromkeys(split_list(self.resolved["clusters"].text))) if "clusters" in values else ()

    def flows(self) -> Iterator[Flow]:
        """Every ordered pair that is enabled, or whose heartbeat is: by default that is every pair."""
        for source in self.aliases:
            for target in self.aliases:
                flow = Flow(source, target)
                if source != target and (self.is_enabled(flow) or self._beats(flow)):
                    yield flow

    def is_enabled(self, flow: Flow) -> bool:
        return self._says_true(f"{flow}.enabled")

    def _beats(self, flow: Flow) -> bool:
        key = "emit.heartbeats.enabled"
        own = f"{flow}.{key}"
        return self._says_true(own if own in self.resolved else key, default=True)

    def _says_true(self, key: str, *, default: bool = False) -> bool:
        """As Java's Boolean.parseBoolean: no trimming, so that `true ` with a blank behind it is false."""
        return self.resolved[key].text.lower() == "true" if key in self.resolved else default

    def cluster(self, alias: str) -> dict[str, Value]:
        """`<alias>.*`, with the connection keys (also the top level's) handed down to producer, consumer and admin."""
        made = stripped(self.raw, f"{alias}.")
        # Two rounds, because what the cluster itself says comes before what the top level says.
        for key in CONNECTION_KEYS:
            if (value := made.get(key)) is not None:
                _hand_down(made, key, value)
        for key in CONNECTION_KEYS:
            if (value := self.raw.get(key)) is not None:
                made.setdefault(key, value)
                _hand_down(made, key, value)
        return made

    def worker(self, flow: Flow) -> dict[str, Value]:
        """The Connect worker of a flow. Nothing written as `a->b.` reaches it."""
        made = self.cluster(flow.target)
        made |= {key: value for key, value in self.raw.items() if key.startswith(WORKER_PREFIXES)}
        made = self.providers.resolve_all(made, Problems())
        made |= {key: value for key, value in self.raw.items() if key.startswith("config.providers")}
        for key, text in worker_defaults(flow).items():
            made.setdefault(key, derived(key, text, f"from {flow}"))
        return made

    def connector(self, flow: Flow, name: str) -> dict[str, Value]:
        """One of the three connectors of a flow; references unresolved."""
        made = {key: value for key, value in self.raw.items() if key in CONNECTOR_KEYS or key in ALIASES}
        made |= {
            key: value for key, value in self.raw.items() if key.startswith(("config.providers", "replication.policy"))
        }
        for alias, side in ((flow.source, "source"), (flow.target, "target")):
            for key, value in self.cluster(alias).items():
                own = key.startswith(("consumer", "producer", "admin"))
                full = f"{side}.{key}" if own else f"{side}.cluster.{key}"
                made[full] = value.named(full)
        defaults = {
            "name": name,
            "connector.class": MIRROR + name,
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
        }
        for key, text in defaults.items():
            made.setdefault(key, derived(key, text, f"from {flow}"))
        made |= stripped(self.raw, f"{flow}.")
        made.setdefault("enabled", derived("enabled", "false", "off unless the file says so"))
        return made

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


def _hand_down(made: dict[str, Value], key: str, value: Value) -> None:
    for client in ("producer", "consumer", "admin"):
        made.setdefault(f"{client}.{key}", value.named(f"{client}.{key}"))
