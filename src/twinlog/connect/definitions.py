"""How each key of a connector is described to clients: our table of settings, with what forms made of it show.

Importance, group, place and label are Connect's and MM2's own, so that a form looks the same; the sentences are ours.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.kinds import Check, Kind, no_gaps
from twinlog.config.settings import CONNECTORS, CommonSettings
from twinlog.config.table import rows

# Those of Connect itself: importance, group, place in it, width, label.
_CONNECTS = {
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
# Those that Connect adds for connectors that bring records.
_SOURCES = {
    "topic.creation.groups": ("LOW", "Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": ("MEDIUM", "Exactly Once Support", 2, "SHORT", "Exactly once support"),
    "transaction.boundary": ("MEDIUM", "Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    "transaction.boundary.interval.ms": ("LOW", "Exactly Once Support", 4, "SHORT", "Transaction boundary interval"),
    "offsets.storage.topic": ("LOW", "offsets.topic", 1, "LONG", "Offsets topic"),
}
# Of its own keys MM2 says nothing but how important they are: not at all, most of them.
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
    """In Connect's order: its own, MM2's with those of the clients among them, then those of all source connectors."""
    table = {
        row.key.name: _definition(
            row.key.name, row.key.kind, row.key.doc, required=row.required, default=row.default, check=row.key.check
        )
        for row in rows(CONNECTORS[connector])
    }
    table |= {name: _of_clients(name) for name in CONNECTION_KEYS if name != "bootstrap.servers"}
    table["topic.creation.groups"] = _definition(
        "topic.creation.groups", Kind.LIST, "Ignored: remote topics are made as on the source.", default=(),
        check=no_gaps,
    )  # fmt: skip
    common = [row.key.name for row in rows(CommonSettings)]
    rest = [name for name in table if name not in common]
    order = [*_CONNECTS, *common, *(name for name in rest if name in CONNECTION_KEYS), *rest]
    return tuple(table[name] for name in dict.fromkeys([*(n for n in order if n not in _SOURCES), *_SOURCES]))


def of_named_class(family: str, name: str) -> tuple[Definition, Definition]:
    """A transformation or predicate that a configuration names: its class, and the version of it."""
    one = "transformation" if family == "transforms" else "predicate"
    group = f"{family.capitalize()}: {name}"
    return (
        Definition(
            f"{family}.{name}.type", Kind.CLASS, f"The class of the {one} {name}.", required=True, check=_of_java,
            importance="HIGH", group=group, order=0, width="LONG", label=f"{one.capitalize()} type for {name}",
        ),
        Definition(
            f"{family}.{name}.plugin.version", Kind.STRING, "The version of that class.",
            importance="HIGH", group=group, order=1, width="LONG", label=f"{one.capitalize()} version for {name}",
        ),
    )  # fmt: skip


def of_converter(key: str) -> Definition:
    """What the converter that a configuration names can be told."""
    return Definition(f"{key}.converter.type", Kind.STRING, "What is converted.", required=True, label="converter.type")


def text_of(value: Any) -> str | None:
    """A value as Kafka writes it."""
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
    if (place := _CONNECTS.get(name) or _SOURCES.get(name)) is not None:
        importance, group, order, width, label = place
        return replace(plain, importance=importance, group=group, order=order, width=width, label=label)
    return replace(plain, importance="HIGH" if name in _HIGH else "MEDIUM" if name in _MEDIUM else "LOW")


def _of_clients(name: str) -> Definition:
    key = CLIENT_KEYS["A"][name]
    what = "How Kafka's clients log in" if name.startswith("sasl.") else "How Kafka's clients lock a connection"
    meaning = f"{what}: write it as source.cluster.{name} or target.cluster.{name}, as here it reaches neither cluster."
    return _definition(name, key.kind, meaning, default=key.default, check=key.check)


def _of_java(_name: str) -> str:
    return "this Java class cannot be run here: records are copied as they are"
