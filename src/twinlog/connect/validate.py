"""Validates a connector's configuration key by key, in Connect's format.

Values that MM2 rejects are rejected here, with Connect's messages. Also rejected is what cannot run here: Java classes,
and invalid regular expressions, over which MM2 only fails when it starts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinlog.config import layers
from twinlog.config.settings import MIRROR
from twinlog.config.value_types import Kind, parse, split_list
from twinlog.config.values import DEFAULT, Value, is_secret, only_references
from twinlog.connect import connector_plugins
from twinlog.connect.definitions import (
    Definition,
    class_definitions,
    converter_definition,
    definitions_of,
    text_of,
    undeclared,
)
from twinlog.connect.errors import ConnectError

Config = Mapping[str, str | None]

_HIDDEN = "[hidden]"
_NUMBERS = (Kind.SHORT, Kind.INT, Kind.LONG, Kind.DOUBLE)
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_ADDED_GROUPS = ("Topic Creation", "Exactly Once Support", "offsets.topic")  # added by Connect to source connectors
_FALSE = "false"  # MM2 compares the text, so `FALSE` does not count


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its definition (None: unknown key), parsed value and errors."""

    name: str
    definition: Definition | None
    value: str | None
    errors: tuple[str, ...] = ()
    visible: bool = True

    def as_json(self) -> dict[str, Any]:
        value = {
            "name": self.name,
            "value": self.value,
            "recommended_values": [],
            "errors": list(self.errors),
            "visible": self.visible,
        }
        return {"definition": self.definition.as_json() if self.definition else None, "value": value}


@dataclass(frozen=True, slots=True)
class Validation:
    name: str  # the class, as the configuration has it
    entries: tuple[Entry, ...]

    @property
    def errors(self) -> list[str]:
        return [error for entry in self.entries for error in entry.errors]

    def as_json(self) -> dict[str, Any]:
        groups = (entry.definition.group for entry in self.entries if entry.definition)
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": list(dict.fromkeys(filter(None, groups))),
            "configs": [entry.as_json() for entry in self.entries],
        }


def validate(plugin: str, config: Config) -> Validation:
    """`plugin`: the connector's class, or one of its short names."""
    connector = connector_plugins.resolve(plugin)
    if connector is None:
        raise ConnectError(400, connector_plugins.unknown(plugin))
    found = {definition.name: _entry(definition, config) for definition in _defined(connector, config)}
    for entry in _null_entries(connector, config, found):
        found[entry.name] = entry
    for name, error in _contradictions(connector, config):
        found[name] = replace(found[name], errors=(*found[name].errors, error))
    return Validation(config.get("connector.class") or MIRROR + connector, tuple(found.values()))


def validate_request(plugin: str, config: Config) -> Validation:
    """`PUT /connector-plugins/{plugin}/config/validate`: the class in the configuration is used and must match."""
    kind = config.get("connector.class")
    if kind is not None and not _short(kind).endswith(_short(plugin)):
        raise ConnectError(400, f"Included connector type {kind} does not match request type {plugin}")
    if kind is None:
        raise ConnectError(500, f"Connector config {{{', '.join(sorted(config))}}} contains no connector type")
    if connector_plugins.resolve(kind) is None:
        raise ConnectError(500, connector_plugins.unknown(kind))
    return validate(kind, config)


def _short(name: str) -> str:
    return name.removesuffix("Connector") or name


def _defined(connector: str, config: Config) -> Iterator[Definition]:
    """All keys of this configuration: Connect's, those of its transformations and converters, and MM2's."""
    own = definitions_of(connector)
    yield from (each for each in own if each.group)
    for family in ("transforms", "predicates"):
        for name in dict.fromkeys(split_list(config.get(family) or "")):
            if name:
                yield from class_definitions(family, name)
    yield from (each for each in own if not each.group)
    yield from (converter_definition(key) for key in _CONVERTERS if config.get(key))


def _entry(definition: Definition, config: Config) -> Entry:
    name, text = definition.name, config.get(definition.name)
    visible = not name.endswith("converter.plugin.version") or bool(config.get(name.removesuffix(".plugin.version")))
    if name.endswith(".converter.type"):
        return Entry(name, definition, text or name.partition(".")[0])
    if text is None and name in config and not _may_be_null(definition):
        unset = f"Invalid value null for configuration {name}: Value must be non-null"
        return Entry(name, definition, None, (unset,), visible)
    if text is None and name in config and (name == "name" or not definition.required):
        return Entry(name, definition, None, (), visible)
    if text is None:
        missing = f'Missing required configuration "{name}" which has no default value.'
        return Entry(name, definition, text_of(definition.default), (missing,) if definition.required else (), visible)
    if only_references(text):
        return Entry(name, definition, text, (), visible)  # its value is not known here
    hidden = definition.kind is Kind.PASSWORD or is_secret(name, text)
    try:
        value = parse(definition.kind, text)
    except ValueError as error:
        errors_of_parsing = [f"Invalid value {_HIDDEN if hidden else text} for configuration {name}: {error}"]
        if _is_checked(definition) and definition.kind in _NUMBERS:  # Connect also checks what it could not parse
            errors_of_parsing.append(f"Invalid value null for configuration {name}: Value must be non-null")
        return Entry(name, definition, None, tuple(errors_of_parsing), visible)
    shown = _HIDDEN if hidden else text_of(value)
    problem = definition.check(value) if definition.check else None
    if problem is None and definition.kind is Kind.LIST:
        problem = _duplicates(value)
    elif problem is None and name == "name":
        problem = _control_characters(value)
    errors = (f"Invalid value {shown} for configuration {name}: {problem}",) if problem else ()
    return Entry(name, definition, None if errors and definition.kind is Kind.CLASS else shown, errors, visible)


def _duplicates(values: tuple[str, ...]) -> str | None:
    return "duplicate value" if len(set(values)) < len(values) else None


def _control_characters(name: str) -> str | None:
    return "control characters are not allowed" if any(ord(each) < 32 or ord(each) == 127 for each in name) else None


def _may_be_null(definition: Definition) -> bool:
    """Connect passes null to a key's validator, if any, and all of them but those for classes reject it."""
    return not _is_checked(definition) or definition.kind is Kind.CLASS or definition.name == "name"


def _is_checked(definition: Definition) -> bool:
    """Whether Connect has a validator for it; the maximum of intervals is checked only here (MM2 fails at start)."""
    return definition.check is not None and not definition.name.endswith(".interval.seconds")


def _null_entries(connector: str, config: Config, found: Mapping[str, Entry]) -> Iterator[Entry]:
    """Keys with a null value that the connector does not declare: null is an error for them."""
    for name in [name for name, text in config.items() if text is None]:
        known = found.get(name)
        error = "Null value can not be supplied as the configuration value."
        if known is None or known.definition is None:
            yield Entry(name, None, None, (error,))
        elif undeclared(connector, name):
            yield replace(known, errors=(error,))
        elif known.definition.group in _ADDED_GROUPS:
            both = known.definition.kind is not Kind.LONG
            yield replace(known, errors=(*known.errors, error) if both else (error,))


def _contradictions(connector: str, config: Config) -> Iterator[tuple[str, str]]:
    """Valid values that contradict each other: key and error."""
    exactly = (config.get("exactly.once.support") or "").strip().lower()
    syncs = "emit.offset-syncs.enabled"
    if connector == "MirrorSourceConnector":
        values = {key: Value(key, text, DEFAULT) for key, text in config.items() if text is not None}
        isolation = layers.connector_client(values, "source", "consumer").get("isolation.level")
        if exactly == "required" and (isolation is None or isolation.text != "read_committed"):
            yield "exactly.once.support", "exactly-once requires consumer.isolation.level = read_committed"
        configured = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in config)
        if config.get(syncs) == _FALSE and configured:
            yield syncs, f"{syncs} = false contradicts the settings offset-syncs.*; remove one of the two"
    elif exactly == "required":
        yield "exactly.once.support", f"{connector} does not support exactly-once; use requested"
    if connector == "MirrorCheckpointConnector" and config.get("enabled") != _FALSE:
        for key in ("emit.checkpoints.enabled", syncs):
            if config.get(key) == _FALSE:
                yield key, f"{key} = false: no checkpoints would be written; delete the connector instead"
    if (config.get("transaction.boundary") or "").strip().lower() == "connector":
        yield "transaction.boundary", "MM2's connectors define no transaction boundaries; use poll or interval"
