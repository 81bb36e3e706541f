"""What is wrong with settings that are each of the right type: addresses, locks, and what contradicts what."""

import re
from typing import Any

from twinlog.config import layers
from twinlog.config.clients import CLIENT_KEYS, CONNECTION_KEYS
from twinlog.config.flows import Connector
from twinlog.config.kinds import checked, split_list
from twinlog.config.layers import Values
from twinlog.config.problems import Problems
from twinlog.config.settings import BYTE_ARRAY, CommonSettings, WorkerSettings
from twinlog.config.values import DEFAULT, Value

# What stands in guides where an address belongs: `#source route#`, `<broker list>`, `....`, `...`.
_PLACEHOLDER = re.compile(r"#.*#|<.*>|\.{2,}|\$\{.*\}")
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]+)]?:([0-9]{1,5})")  # as Kafka has it
# What chooses among parts of Java's own TLS.
_OF_JAVA = {
    "ssl.engine.factory.class": "a TLS of your own cannot be run; check that the other ssl.* settings suffice",
    "ssl.keymanager.algorithm": "keys are chosen by OpenSSL",
    "ssl.provider": "TLS is OpenSSL's",
    "ssl.secure.random.implementation": "random numbers are OpenSSL's",
    "ssl.trustmanager.algorithm": "certificates are checked by OpenSSL",
}


def check_client(role: str, values: Values, problems: Problems) -> None:
    """Types and limits of the settings that Kafka's clients know; the others are said to be unknown elsewhere."""
    known = CLIENT_KEYS[layers.letter(role)]
    for key, value in values.items():
        if key not in known:
            continue
        try:
            checked(known[key].kind, known[key].check, value.text)
        except ValueError as error:
            problems.value(value, str(error))


def check_bootstrap(alias: str, value: Value | None, where: str, key: str, problems: Problems) -> None:
    """A cluster's addresses: absent or malformed is a mistake; a guide's placeholder is only still to be filled in."""
    if value is None or not value.text.strip():
        problems.error(
            value.origin if value else where,
            f"{key} is missing: give cluster {alias!r} its brokers as host:port,host:port",
        )
        return
    if _PLACEHOLDER.fullmatch(value.text.strip()):
        problems.warn(
            value.origin,
            f"{value.origin.key or key} = {value.shown!r} is a placeholder: put the brokers of {alias!r} there",
        )
        return
    for address in split_list(value.text):
        match = _ADDRESS.fullmatch(address)
        if not match or not 0 < int(match[2]) < 65536:
            problems.value(value, f"{address!r} is not host:port")


def check_security(values: Values, problems: Problems) -> None:
    """Halves of a lock: what MM2 would only show as a failed login, or not at all. `values` are a cluster's."""
    value = values.get("security.protocol")
    protocol = value.text.strip().upper() if value else "PLAINTEXT"
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        return  # said elsewhere
    own = {key: one for key, one in values.items() if key in CONNECTION_KEYS}
    if len({one.text for key, one in values.items() if key.endswith("security.protocol")}) > 1:
        return  # single clients differ: nothing can be said of the whole cluster
    if "SASL" in protocol and not any(key.endswith("sasl.jaas.config") for key in values):
        written = (value.origin.key if value else "").removesuffix("security.protocol").rstrip(".")
        origin = value.origin if value else DEFAULT
        problems.warn(
            origin,
            f"{written or 'cluster'}: security.protocol = {protocol} without sasl.jaas.config: a JAAS file is not read",
        )
    for family in ("sasl", "ssl"):
        used = "SASL" in protocol if family == "sasl" else protocol.endswith("SSL")
        first = next((one for key, one in sorted(own.items()) if key.startswith(f"{family}.")), None)
        if first and not used:
            problems.warn(first.origin, f"{first.origin.key} has no effect: security.protocol is {protocol}")
    if protocol.endswith("SSL"):
        _check_tls(own, problems)


def _check_tls(values: Values, problems: Problems) -> None:
    for key, advice in _OF_JAVA.items():
        if key in values:
            problems.warn(values[key].origin, f"{values[key].origin.key or key} has no effect here: {advice}")
    named = values.get("ssl.endpoint.identification.algorithm")
    if named and named.text.strip().lower() not in ("", "https", "ldaps"):
        problems.value(named, "expected https, or nothing for brokers whose certificates are for other names")
    for old in split_list(values["ssl.enabled.protocols"].text) if "ssl.enabled.protocols" in values else ():
        if old not in ("", "TLSv1.2", "TLSv1.3"):
            problems.warn(
                values["ssl.enabled.protocols"].origin,
                f"ssl.enabled.protocols: {old} is never used: it can be broken, and Java has it switched off as well",
            )


def check_named_classes(values: Values, problems: Problems) -> None:
    for family in ("transforms", "predicates"):
        if (names := values.get(family)) is None:
            continue
        for name in filter(None, split_list(names.text)):
            if f"{family}.{name}.type" not in values:
                problems.value(names, f"{names.origin.key or family}.{name}.type is missing")


def check_connectors(
    made: dict[str, Connector[Any]], worker: WorkerSettings, worker_values: Values, problems: Problems
) -> None:
    source, checkpoint = made.get("MirrorSourceConnector"), made.get("MirrorCheckpointConnector")
    if source and source.settings.enabled:
        _check_promises(source, worker, worker_values, problems)
    for connector in made.values():
        _check_exactly_once(connector, worker, problems)
    # MM2 compares the text, so `FALSE` slips through; we let it.
    if (
        source
        and "emit.offset-syncs.enabled" in source.values
        and source.values["emit.offset-syncs.enabled"].text == "false"
    ):
        for key, value in source.values.items():
            if key.startswith(("offset-syncs-", "offset-syncs.topic.")):
                problems.value(value, "contradicts emit.offset-syncs.enabled = false: remove one of the two")
    if checkpoint and checkpoint.settings.enabled:
        _check_checkpoint(made, checkpoint, problems)
    if source:
        for key in ("key.converter", "value.converter", "header.converter"):
            value = source.values.get(key)
            if value and value.origin.file and value.text.strip() != BYTE_ARRAY:
                problems.note(
                    value.origin, f"{value.origin.key} has no effect: records are copied as bytes, never converted"
                )
    if source and checkpoint:
        _check_agreement(source, checkpoint, problems)


def _check_promises(source: Connector[Any], worker: WorkerSettings, values: Values, problems: Problems) -> None:
    """What MM2 does to records and Twinlog does not must not be passed over: it may be what hides a secret in them."""
    transforms = source.values.get("transforms")
    if transforms is not None and transforms.text.strip():
        problems.value(
            transforms, "records are copied as they are, never transformed: remove it, or leave this flow to MM2"
        )
    if worker.exactly_once_source_support.lower() == "enabled":
        value = values["exactly.once.source.support"]
        key = value.origin.key or value.key
        problems.note(
            value.origin, f"{key} has no effect: no transactions are used, and nothing is doubled without them"
        )


def _check_checkpoint(made: dict[str, Connector[Any]], checkpoint: Connector[Any], problems: Problems) -> None:
    """Where checkpoints are switched off, or what they need, MM2 refuses this connector and runs the others."""
    for key, why in (
        ("emit.checkpoints.enabled", "there is no checkpoint connector, so no group offsets are synced either"),
        ("emit.offset-syncs.enabled", "without offset syncs there are no checkpoints and no group offsets"),
    ):
        if key in checkpoint.values and checkpoint.values[key].text == "false":
            problems.warn(checkpoint.values[key].origin, f"{key} = false: {why}")
            made.pop("MirrorCheckpointConnector", None)


def _check_exactly_once(connector: Connector[Any], worker: WorkerSettings, problems: Problems) -> None:
    settings: CommonSettings = connector.settings
    if settings.exactly_once_support.lower() != "required":
        return
    value = connector.values["exactly.once.support"]
    if connector.kind == "MirrorSourceConnector":
        isolation = connector.clients["source.consumer"]["isolation.level"]
        if isolation != "read_committed":
            problems.value(
                value, f"expected the source consumer's isolation.level to be read_committed, not {isolation}"
            )
        if worker.exactly_once_source_support.lower() != "enabled":
            problems.value(value, "expected exactly.once.source.support = enabled for the worker: <target>.<that key>")
    elif value.origin.key == "exactly.once.support":  # asked of this connector itself, not of the whole flow
        problems.value(value, f"{connector.kind} cannot promise exactly-once: remove it")


def _check_agreement(source: Connector[Any], checkpoint: Connector[Any], problems: Problems) -> None:
    """Where the two differ, checkpoints lead nowhere."""
    lost, other = "the offset-syncs topic is not found", "checkpoints name topics that nobody fills"
    for field, key, effect in (
        ("offset_syncs_topic_location", "offset-syncs.topic.location", lost),
        ("replication_policy_class", "replication.policy.class", other),
        ("replication_policy_separator", "replication.policy.separator", lost),
    ):
        ours, theirs = getattr(source.settings, field), getattr(checkpoint.settings, field)
        if ours != theirs:
            value = source.values.get(key) or checkpoint.values[key]
            problems.warn(value.origin, f"{key} is {ours} for records but {theirs} for checkpoints: {effect}")
