"""Checks beyond the type of each setting: addresses, security settings, contradictions."""

import re
from collections.abc import Sequence
from typing import Any

from twinlog.config import layers
from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS, NO_NOTE_FOR, ClientKey
from twinlog.config.flows import Connector
from twinlog.config.layers import Values
from twinlog.config.problems import Problems
from twinlog.config.settings import (
    NO_WORKER,
    SERVE_READS,
    WORKER_CLIENT_KEYS,
    WORKER_WITHOUT_EFFECT,
    CommonSettings,
    WorkerSettings,
)
from twinlog.config.value_types import Expected, InvalidValueError, checked, split_list
from twinlog.config.values import DEFAULT, Value

# Placeholders for addresses in guides: `#source route#`, `<broker list>`, `....`, `...`.
_PLACEHOLDER = re.compile(r"#.*#|<.*>|\.{2,}|\$\{.*\}")
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]+)]?:([0-9]{1,5})")  # Kafka's pattern
# Settings of Java's own TLS implementation: a file that has them may rely on them.
_JAVA_TLS_KEYS = (
    "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider", "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)  # fmt: skip


def check_client(role: str, values: Values, problems: Problems) -> None:
    """Checks the settings that Kafka's clients have; unknown_keys.py reports the others."""
    check_client_types(role, values, problems)
    known = CLIENT_KEYS[layers.letter(role)]
    for key, value in values.items():
        if key in known:
            _note_no_effect(known[key], value, problems)


def check_client_types(role: str, values: Values, problems: Problems) -> None:
    known = CLIENT_KEYS[layers.letter(role)]
    for key, value in values.items():
        if key not in known:
            continue
        try:
            checked(known[key].kind, known[key].check, value.text)
        except InvalidValueError as error:
            problems.value(value, error.complaint)


def _note_no_effect(key: ClientKey, value: Value, problems: Problems) -> None:
    if not key.no_effect or key.name in _JAVA_TLS_KEYS or value.origin.kind != "file":
        return
    if value.text.strip().lower() in NO_NOTE_FOR.get(key.name, ()):
        return
    text = f"{value.origin.key or key.name} has no effect: {key.no_effect}"
    if key.name == "interceptor.classes":  # an interceptor may mask secrets in records
        problems.warn(value.origin, text)
    else:
        problems.note(value.origin, text)


def check_worker(values: Values, problems: Problems) -> None:
    """Notes the settings of Connect's own runtime."""
    for key, value in values.items():
        if key in (WORKER_WITHOUT_EFFECT | WORKER_CLIENT_KEYS) - SERVE_READS and value.origin.kind == "file":
            problems.note(value.origin, f"{value.origin.key or key} has no effect: {NO_WORKER}")


def check_bootstrap(alias: str, value: Value | None, where: str, key: str, problems: Problems) -> None:
    """A cluster's addresses: missing or malformed ones are errors, a guide's placeholder is a warning."""
    if value is None or not value.text.strip():
        problems.error(
            value.origin if value else where,
            f"{key} is missing; set it to the brokers of cluster {alias!r} as host:port,host:port",
        )
        return
    if _PLACEHOLDER.fullmatch(value.text.strip()):
        problems.warn(
            value.origin,
            f"{value.origin.key or key} = {value.shown!r}: placeholder; replace it with the brokers of {alias!r}",
        )
        return
    for address in split_list(value.text):
        match = _ADDRESS.fullmatch(address)
        if not match or not 0 < int(match[2]) < 65536:
            problems.value(value, f"{address!r} is not host:port")


def check_one_cluster(side: str, alias: str, named: Sequence[tuple[str, Value | None]], problems: Problems) -> None:
    """Connectors with the same aliases share topics, positions and offset syncs, so an alias must be one cluster.

    Only the addresses identify a cluster. `named`: a connector's name, and its brokers on that side.
    """
    known: dict[str, str] = {}  # address -> connector
    for name, value in named:
        addresses = set() if value is None else {each.lower() for each in split_list(value.text) if each}
        if value is None or not addresses or _PLACEHOLDER.fullmatch(value.text.strip()):
            continue
        if known and not known.keys() & addresses:
            key = f"{side}.cluster.alias"
            problems.error(
                value.origin,
                f"connectors {next(iter(known.values()))!r} and {name!r} have the same {key} ({alias}) but no "
                f"{side}.cluster.bootstrap.servers in common; give each cluster its own alias, or, if it is one "
                "cluster, both connectors the same brokers",
            )
        known |= dict.fromkeys(addresses, name)


def check_security(values: Values, problems: Problems) -> None:
    """Incomplete security settings of a cluster, which in MM2 only show as a failed login, or not at all."""
    value = values.get("security.protocol")
    protocol = value.text.strip().upper() if value else "PLAINTEXT"
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        return  # reported by check_client_types
    own = {key: one for key, one in values.items() if key in CONNECTION_KEYS}
    if len({one.text for key, one in values.items() if key.endswith("security.protocol")}) > 1:
        return  # clients differ: there is no protocol of the cluster
    if "SASL" in protocol and not any(key.endswith("sasl.jaas.config") for key in values):
        written = (value.origin.key if value else "").removesuffix("security.protocol").rstrip(".")
        origin = value.origin if value else DEFAULT
        problems.warn(
            origin,
            f"{written or 'cluster'}: security.protocol = {protocol} without sasl.jaas.config; set it (JAAS files are "
            "not read)",
        )
    for family in ("sasl", "ssl"):
        used = "SASL" in protocol if family == "sasl" else protocol.endswith("SSL")
        first = next((one for key, one in sorted(own.items()) if key.startswith(f"{family}.")), None)
        if first and not used:
            problems.warn(first.origin, f"{first.origin.key} has no effect: security.protocol is {protocol}")
    if protocol.endswith("SSL"):
        _check_tls(own, problems)


def _check_tls(values: Values, problems: Problems) -> None:
    for key in _JAVA_TLS_KEYS:
        if key in values:
            advice = CLIENT_KEYS["A"][key].no_effect
            problems.warn(values[key].origin, f"{values[key].origin.key or key} has no effect: {advice}")
    named = values.get("ssl.endpoint.identification.algorithm")
    if named and named.text.strip().lower() not in ("", "https", "ldaps"):
        problems.value(named, Expected("expected https, or empty to accept certificates for other names"))
    for old in split_list(values["ssl.enabled.protocols"].text) if "ssl.enabled.protocols" in values else ():
        if old not in ("", "TLSv1.2", "TLSv1.3"):
            problems.warn(
                values["ssl.enabled.protocols"].origin,
                f"ssl.enabled.protocols: {old} is ignored: it is insecure, and disabled in Java too; remove it",
            )


def check_named_classes(values: Values, problems: Problems) -> None:
    for family in ("transforms", "predicates"):
        if (names := values.get(family)) is None:
            continue
        for name in filter(None, split_list(names.text)):
            if f"{family}.{name}.type" not in values:
                problems.value(names, f"{names.origin.key or family}.{name}.type is missing; set it")


def check_connectors(
    connectors: dict[str, Connector[Any]], worker: WorkerSettings, worker_values: Values, problems: Problems
) -> None:
    source, checkpoint = connectors.get("MirrorSourceConnector"), connectors.get("MirrorCheckpointConnector")
    if source and source.settings.enabled:
        _check_unsupported(source, worker, worker_values, problems)
    for connector in connectors.values():
        _check_exactly_once(connector, worker, problems)
    # As in MM2, which compares the text, `FALSE` is not detected.
    if (
        source
        and "emit.offset-syncs.enabled" in source.values
        and source.values["emit.offset-syncs.enabled"].text == "false"
    ):
        for key, value in source.values.items():
            if key.startswith(("offset-syncs-", "offset-syncs.topic.")):
                problems.value(value, "contradicts emit.offset-syncs.enabled = false; remove one of the two")
    if checkpoint and checkpoint.settings.enabled:
        _check_checkpoint(connectors, checkpoint, problems)
    if source and checkpoint:
        _check_agreement(source, checkpoint, problems)


def _check_unsupported(source: Connector[Any], worker: WorkerSettings, values: Values, problems: Problems) -> None:
    """Transforms are an error rather than ignored: one may mask secrets in records."""
    transforms = source.values.get("transforms")
    if transforms is not None and transforms.text.strip():
        problems.value(transforms, "transforms are not supported; remove it, or keep this flow on MM2")
    if worker.exactly_once_source_support.lower() == "enabled":
        value = values["exactly.once.source.support"]
        key = value.origin.key or value.key
        problems.note(value.origin, f"{key} has no effect: records are not duplicated, without transactions")


def _check_checkpoint(connectors: dict[str, Connector[Any]], checkpoint: Connector[Any], problems: Problems) -> None:
    """If checkpoints or offset syncs are disabled, MM2 rejects this connector and runs the others."""
    for key, effect in (
        ("emit.checkpoints.enabled", "the checkpoint connector does not run, so group offsets are not synced either"),
        ("emit.offset-syncs.enabled", "without offset syncs there are no checkpoints and no group offsets"),
    ):
        if key in checkpoint.values and checkpoint.values[key].text == "false":
            problems.warn(checkpoint.values[key].origin, f"{key} = false: {effect}")
            connectors.pop("MirrorCheckpointConnector", None)


def _check_exactly_once(connector: Connector[Any], worker: WorkerSettings, problems: Problems) -> None:
    settings: CommonSettings = connector.settings
    if settings.exactly_once_support.lower() != "required":
        return
    value = connector.values["exactly.once.support"]
    if connector.kind == "MirrorSourceConnector":
        isolation = connector.clients["source.consumer"]["isolation.level"]
        if isolation != "read_committed":
            problems.value(
                value,
                Expected(f"expected the source consumer's isolation.level to be read_committed, not {isolation}"),
            )
        if worker.exactly_once_source_support.lower() != "enabled":
            problems.value(value, Expected("expected <target>.exactly.once.source.support = enabled for the worker"))
    elif value.origin.key == "exactly.once.support":  # set for this connector, not for the whole flow
        problems.value(value, f"{connector.kind} does not support exactly-once; remove it")


def _check_agreement(source: Connector[Any], checkpoint: Connector[Any], problems: Problems) -> None:
    """If the two connectors differ, checkpoints are useless."""
    no_syncs, no_topics = "the offset-syncs topic is not found", "checkpoints name topics that are not replicated"
    for field, key, effect in (
        ("offset_syncs_topic_location", "offset-syncs.topic.location", no_syncs),
        ("replication_policy_class", "replication.policy.class", no_topics),
        ("replication_policy_separator", "replication.policy.separator", no_syncs),
    ):
        records, checkpoints = getattr(source.settings, field), getattr(checkpoint.settings, field)
        if records != checkpoints:
            value = source.values.get(key) or checkpoint.values[key]
            problems.warn(
                value.origin,
                f"{key} is {records} for records but {checkpoints} for checkpoints: {effect}; set the same value",
            )
