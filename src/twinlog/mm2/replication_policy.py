"""MM2's replication policies: names of remote topics, and the origin of a topic by its name.

A policy only knows names, so it can be wrong: for the default policy `orders.v1` came from a cluster `orders`. The
rules are those of Kafka 4.0 and newer; before, every topic whose name ended in `.internal` or `-internal` was internal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from twinlog.config.flows import Connector, S
from twinlog.config.settings import MIRROR
from twinlog.errors import ConfigError
from twinlog.mm2 import plugins

HEARTBEATS = "heartbeats"
_KEY: Final = "replication.policy.class"


class ReplicationPolicy(Protocol):
    def format_remote_topic(self, alias: str, topic: str) -> str: ...

    def topic_source(self, topic: str) -> str | None:
        """The cluster that a topic was replicated from; None for a local topic."""

    def upstream_topic(self, topic: str) -> str | None:
        """Its name on the cluster that it came from."""

    def original_topic(self, topic: str) -> str:
        """Its name on the cluster where it was created."""

    def heartbeats_topic(self) -> str: ...

    def offset_syncs_topic(self, alias: str) -> str:
        """Named after the cluster that does not have it."""

    def checkpoints_topic(self, alias: str) -> str: ...

    def is_heartbeats_topic(self, topic: str) -> bool: ...

    def is_checkpoints_topic(self, topic: str) -> bool: ...

    def is_mm2_internal_topic(self, topic: str) -> bool: ...

    def is_internal_topic(self, topic: str) -> bool: ...


_METHODS = tuple(name for name in vars(ReplicationPolicy) if not name.startswith("_"))


@dataclass(frozen=True, kw_only=True)
class DefaultReplicationPolicy:
    """`us.orders`."""

    separator: str = "."
    internal_separator: str = "."

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return alias + self.separator + topic

    def topic_source(self, topic: str) -> str | None:
        parts = _java_split(topic, self.separator)
        return parts[0] if len(parts) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        return HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self.internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        return alias + self._checkpoints_suffix

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self._checkpoints_suffix)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        connects_own = topic.startswith("mm2") and topic.endswith(self._internal_suffix)
        return connects_own or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)

    @property
    def _internal_suffix(self) -> str:
        return f"{self.internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self.internal_separator}checkpoints{self._internal_suffix}"


@dataclass(frozen=True, kw_only=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Topics keep their names, so cycles cannot be detected by name. Heartbeats are renamed, or hops could not be
    counted; every name that ends in `heartbeats` counts as one.
    """

    source_alias: str | None = None

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return super().format_remote_topic(alias, topic) if _looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if _looks_like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if _looks_like_heartbeats(topic) else topic


@dataclass(frozen=True, slots=True)
class Naming:
    policy: str  # a class: one of MM2's, or package.module:Class
    separator: str
    internal_separator: str


def policy_of(connector: Connector[S]) -> ReplicationPolicy:
    settings = connector.settings
    separator = settings.replication_policy_separator
    internal = separator if _separates_internal_topics(connector) else "."
    naming = Naming(settings.replication_policy_class, separator, internal)
    return policy_for(naming, settings.source_cluster_alias, texts_of(connector))


def policy_for(naming: Naming, source_alias: str | None, texts: Mapping[str, str]) -> ReplicationPolicy:
    """`texts`: the settings that a custom class gets."""
    known = {"separator": naming.separator, "internal_separator": naming.internal_separator}
    if plugins.is_python(naming.policy):
        keywords = {**known, "source_alias": source_alias}
        policy: ReplicationPolicy = plugins.instance(
            _KEY, naming.policy, texts, _METHODS, (DefaultReplicationPolicy, ReplicationPolicy), keywords
        )
        return policy
    match naming.policy.removeprefix(MIRROR):
        case "DefaultReplicationPolicy":
            return DefaultReplicationPolicy(**known)
        case "IdentityReplicationPolicy":
            return IdentityReplicationPolicy(source_alias=source_alias, **known)
    raise ConfigError(
        f"{_KEY} = {naming.policy!r}: unsupported Java class",
        f"use {MIRROR}DefaultReplicationPolicy, {MIRROR}IdentityReplicationPolicy or a Python class "
        "(package.module:Class)",
    )


def texts_of(connector: Connector[S]) -> dict[str, str]:
    """What MM2 passes to `configure` of a policy or filter."""
    return {key: value.text for key, value in connector.values.items()}


def _separates_internal_topics(connector: Connector[S]) -> bool:
    """MM2's policy does not trim the value, so `true ` is false here although it is true as a setting; and it reads it
    only if a separator is set. Both are kept, because other names would mean other topics than MM2's.
    """
    flag = connector.values.get("replication.policy.internal.topic.separator.enabled")
    if flag is None or "replication.policy.separator" not in connector.values:
        return True
    return bool(flag.text.lower() == "true")


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


def _java_split(text: str, separator: str) -> list[str]:
    """Java's String.split: trailing empty parts are dropped, and an empty separator splits every character."""
    parts = text.split(separator) if separator else list(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts
