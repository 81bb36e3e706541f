"""Config definitions of the connectors, as Connect's API describes them to user interfaces.

Importance, group, order and label are those of Connect and MM2, so that forms look the same; the descriptions are ours.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.setting import rows
from twinlog.config.settings import CONNECTORS, CommonSettings
from twinlog.config.value_types import Check, Kind, no_empty

# Connect's own keys: importance, group, order in the group, width, label.
_CONNECT_KEYS = {
    "name": ("HIGH", "Common", 1, "MEDIUM", "Connector name"),
    "connector.class": ("HIGH", "Common", 2, "LONG", "Connector class"),
    "connector.plugin.version": ("MEDIUM", "Common", 3, "MEDIUM", "Connector version"),
    "tasks.max": ("HIGH", "Common", 4, "SHORT", "Tasks max"),
    "tasks.max.enforce": ("LOW", "Common", 5, "SHORT", "Enforce tasks max"),
    "key.converter": ("LOW", "Common", 6, "SHORT", "Key converter class"),
    "key.converter.plugin.version": ("LOW", "Common", 7, "SHORT", "Key converter version"),
    "value.converter": ("LOW", "Common", 8, "SHORT", "Value converter class"),
    "value.converter.plugin.version": ("LOW", "Common", 9, "SHORT", "Value converter version"),
    "header.converter": ("LOW", "Common", 10, "SHORT", "Header converter class"),
    "header.converter.plugin.version": ("LOW", "Common", 11, "SHORT", "Header converter version"),
    "transforms": ("LOW", "Transforms", 12, "LONG", "Transforms"),
    "predicates": ("LOW", "Predicates", 13, "LONG", "Predicates"),
    "config.action.reload": ("LOW", "Common", 14, "MEDIUM", "Reload Action"),
    "errors.retry.timeout": ("MEDIUM", "Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"),
    "errors.retry.delay.max.ms": ("MEDIUM", "Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"),
    "errors.tolerance": ("MEDIUM", "Error Handling", 3, "SHORT", "Error Tolerance"),
    "errors.log.enable": ("MEDIUM", "Error Handling", 4, "SHORT", "Log Errors"),
    "errors.log.include.messages": ("MEDIUM", "Error Handling", 5, "SHORT", "Log Error Details"),
}
# Keys that Connect adds to source connectors.
_SOURCE_KEYS = {
    "topic.creation.groups": ("LOW", "Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": ("MEDIUM", "Exactly Once Support", 2, "SHORT", "Exactly once support"),
    "transaction.boundary": ("MEDIUM", "Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    "transaction.boundary.interval.ms": ("LOW", "Exactly Once Support", 4, "SHORT", "Transaction boundary interval"),
    "offsets.storage.topic": ("LOW", "offsets.topic", 1, "LONG", "Offsets topic"),
}
# MM2's own keys have only an importance, LOW for most of them.
_HIGH = frozenset({
    "source.cluster.alias", "target.cluster.alias", "topics", "topics.exclude", "config.properties.exclude", "groups",
    "groups.exclude", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "ssl.truststore.location",
    "ssl.truststore.password", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
})  # fmt: skip
_MEDIUM = frozenset({
    "security.protocol", "ssl.protocol", "ssl.provider", "ssl.enabled.protocols", "ssl.keystore.type",
    "ssl.truststore.type", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.jaas.config",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.url",
})  # fmt: skip
_FILTER_KEYS = frozenset({"topics", "topics.exclude", "emit.offset-syncs.enabled"})


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    kind: Kind
    documentation: str
    required: bool = False
    default: Any = None
    check: Check | None = None
    importance: str = "LOW"
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    label: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.kind.name,
            "required": self.required,
            "default_value": text_of(self.default),
            "importance": self.importance,
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.label or self.name,
            "dependents": [],
        }


@cache
def definitions_of(connector: str) -> tuple[Definition, ...]:
    """In Connect's order: its own keys, those of MM2 and of the clients, then those of all source connectors."""
    table = {
        row.key.name: _definition(
            row.key.name, row.key.kind, row.key.doc, required=row.required, default=row.default, check=row.key.check
        )
        for row in rows(CONNECTORS[connector])
    }
    table |= {name: _client_definition(name) for name in CONNECTION_KEYS if name != "bootstrap.servers"}
    table["topic.creation.groups"] = _definition(
        "topic.creation.groups", Kind.LIST, "Ignored: remote topics are created like the source topics.", default=(),
        check=no_empty,
    )  # fmt: skip
    common = [row.key.name for row in rows(CommonSettings)]
    rest = [name for name in table if name not in common]
    order = [*_CONNECT_KEYS, *common, *(name for name in rest if name in CONNECTION_KEYS), *rest]
    return tuple(table[name] for name in dict.fromkeys([*(n for n in order if n not in _SOURCE_KEYS), *_SOURCE_KEYS]))


def undeclared(connector: str, name: str) -> bool:
    """Whether the key is read here, or by MM2's filters, but not declared by the connector, so unknown to Connect."""
    if name.startswith("twinlog.") or name == "use.defaults.from":
        return True
    return connector == "MirrorCheckpointConnector" and name in _FILTER_KEYS


def class_definitions(family: str, name: str) -> tuple[Definition, Definition]:
    """Class and version of a transformation or predicate in a configuration."""
    one = "transformation" if family == "transforms" else "predicate"
    group = f"{family.capitalize()}: {name}"
    return (
        Definition(
            f"{family}.{name}.type", Kind.CLASS, f"The class of the {one} {name}.", required=True,
            check=_refuse_java_class, importance="HIGH", group=group, order=0, width="LONG",
            label=f"{one.capitalize()} type for {name}",
        ),
        Definition(
            f"{family}.{name}.plugin.version", Kind.STRING, "The version of that class.",
            importance="HIGH", group=group, order=1, width="LONG", label=f"{one.capitalize()} version for {name}",
        ),
    )  # fmt: skip


def converter_definition(key: str) -> Definition:
    """The setting of a converter in a configuration."""
    doc = "Whether keys, values or headers are converted."
    return Definition(f"{key}.converter.type", Kind.STRING, doc, required=True, label="converter.type")


def text_of(value: Any) -> str | None:
    """A value in Kafka's notation."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _definition(
    name: str,
    kind: Kind,
    documentation: str,
    *,
    required: bool = False,
    default: Any = None,
    check: Check | None = None,
) -> Definition:
    plain = Definition(name, kind, documentation, required, default, check)
    if (layout := _CONNECT_KEYS.get(name) or _SOURCE_KEYS.get(name)) is not None:
        importance, group, order, width, label = layout
        return replace(plain, importance=importance, group=group, order=order, width=width, label=label)
    return replace(plain, importance="HIGH" if name in _HIGH else "MEDIUM" if name in _MEDIUM else "LOW")


def _client_definition(name: str) -> Definition:
    key = CLIENT_KEYS["A"][name]
    subject = "Authentication" if name.startswith("sasl.") else "Security"
    doc = (
        f"{subject} setting of Kafka clients; set it as source.cluster.{name} or target.cluster.{name}: without a "
        "prefix it applies to neither cluster."
    )
    return _definition(name, key.kind, doc, default=key.default, check=key.check)


def _refuse_java_class(_name: str) -> str:
    return "Java classes cannot run here, and records are replicated unchanged; remove it"
