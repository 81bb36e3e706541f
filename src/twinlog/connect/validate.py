"""Whether a connector's configuration would be taken, key by key, as Connect answers it.

A value that MM2 refuses is refused here, in Connect's form of words. Refused beside that is what could not be run
here: classes of Java, and regular expressions that no Java would compile, over which MM2 only fails when it starts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinlog.config import layers
from twinlog.config.kinds import Kind, parse, split_list
from twinlog.config.settings import MIRROR
from twinlog.config.values import DEFAULT, Value, is_secret, only_references
from twinlog.connect import plugins
from twinlog.connect.definitions import Definition, definitions_of, of_converter, of_named_class, text_of
from twinlog.connect.errors import ConnectError

Config = Mapping[str, str | None]

_HIDDEN = "[hidden]"
_NUMBERS = (Kind.SHORT, Kind.INT, Kind.LONG, Kind.DOUBLE)
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_FALSE = "false"  # MM2 compares the text, so `FALSE` slips through


@dataclass(frozen=True, slots=True)
class Entry:
    """One key: what it is (None: nobody knows it), what it would be, what is wrong with it."""

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

    def answer(self) -> dict[str, Any]:
        groups = (entry.definition.group for entry in self.entries if entry.definition)
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": list(dict.fromkeys(filter(None, groups))),
            "configs": [entry.as_json() for entry in self.entries],
        }


def validate(plugin: str, config: Config) -> Validation:
    """`plugin` is the connector's class, or one of its short names."""
    connector = plugins.resolve(plugin)
    if connector is None:
        raise ConnectError(400, plugins.unknown(plugin))
    found = {definition.name: _entry(definition, config) for definition in _defined(connector, config)}
    for entry in _nothings(config, found):
        found[entry.name] = entry
    for name, complaint in _contradictions(connector, config):
        before = found[name]
        found[name] = replace(before, errors=(*before.errors, complaint))
    return Validation(config.get("connector.class") or MIRROR + connector, tuple(found.values()))


def asked(plugin: str, config: Config) -> Validation:
    """`PUT /connector-plugins/{plugin}/config/validate`: the class in the configuration counts, and must agree."""
    kind = config.get("connector.class")
    if kind is not None and not _short(kind).endswith(_short(plugin)):
        raise ConnectError(400, f"Included connector type {kind} does not match request type {plugin}")
    if kind is None:
        raise ConnectError(500, f"Connector config {{{', '.join(sorted(config))}}} contains no connector type")
    if plugins.resolve(kind) is None:
        raise ConnectError(500, plugins.unknown(kind))
    return validate(kind, config)


def _short(name: str) -> str:
    return name.removesuffix("Connector") or name


def _defined(connector: str, config: Config) -> Iterator[Definition]:
    """All keys that this configuration may have: Connect's, those of what it names, and MM2's."""
    own = definitions_of(connector)
    yield from (each for each in own if each.group)
    for family in ("transforms", "predicates"):
        for name in dict.fromkeys(split_list(config.get(family) or "")):
            if name:
                yield from of_named_class(family, name)
    yield from (each for each in own if not each.group)
    yield from (of_converter(key) for key in _CONVERTERS if config.get(key))


def _entry(definition: Definition, config: Config) -> Entry:
    name, text = definition.name, config.get(definition.name)
    visible = not name.endswith("converter.plugin.version") or bool(config.get(name.removesuffix(".plugin.version")))
    if name.endswith(".converter.type"):
        return Entry(name, definition, text or name.partition(".")[0])
    if text is None:
        missing = f'Missing required configuration "{name}" which has no default value.'
        return Entry(name, definition, text_of(definition.default), (missing,) if definition.required else (), visible)
    if only_references(text):
        return Entry(name, definition, text, (), visible)  # what it stands for is not known here
    hidden = definition.kind is Kind.PASSWORD or is_secret(name, text)
    try:
        value = parse(definition.kind, text)
    except ValueError as error:
        unread = [f"Invalid value {_HIDDEN if hidden else text} for configuration {name}: {error}"]
        if definition.check and definition.kind in _NUMBERS:  # Connect goes on to check what it could not read
            unread.append(f"Invalid value null for configuration {name}: Value must be non-null")
        return Entry(name, definition, None, tuple(unread), visible)
    shown = _HIDDEN if hidden else text_of(value)
    complaint = definition.check(value) if definition.check else None
    if complaint is None:
        complaint = _twice(value) if definition.kind is Kind.LIST else _control(value) if name == "name" else None
    errors = (f"Invalid value {shown} for configuration {name}: {complaint}",) if complaint else ()
    return Entry(name, definition, None if errors and definition.kind is Kind.CLASS else shown, errors, visible)


def _twice(values: tuple[str, ...]) -> str | None:
    return "a value stands twice" if len(set(values)) < len(values) else None


def _control(name: str) -> str | None:
    return "control characters in a name" if any(ord(each) < 32 or ord(each) == 127 for each in name) else None


def _nothings(config: Config, found: Mapping[str, Entry]) -> Iterator[Entry]:
    """Keys whose value is null."""
    for name in [name for name, text in config.items() if text is None]:
        known = found.get(name)
        complaint = "Null value can not be supplied as the configuration value."
        if known is None or not known.errors:
            yield Entry(name, known.definition if known else None, None, (complaint,))


def _contradictions(connector: str, config: Config) -> Iterator[tuple[str, str]]:
    """What contradicts what, although each value is fine; key and complaint."""
    exactly = (config.get("exactly.once.support") or "").strip().lower()
    syncs = "emit.offset-syncs.enabled"
    if connector == "MirrorSourceConnector":
        values = {key: Value(key, text, DEFAULT) for key, text in config.items() if text is not None}
        isolation = layers.connector_client(values, "source", "consumer").get("isolation.level")
        if exactly == "required" and (isolation is None or isolation.text != "read_committed"):
            yield "exactly.once.support", "Exactly-once needs consumer.isolation.level = read_committed"
        meant = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in config)
        if config.get(syncs) == _FALSE and meant:
            yield syncs, f"{syncs} = false contradicts the settings offset-syncs.*: remove one of the two"
    elif exactly == "required":
        yield "exactly.once.support", f"{connector} cannot promise exactly-once: use requested"
    if connector == "MirrorCheckpointConnector" and config.get("enabled") != _FALSE:
        for key in ("emit.checkpoints.enabled", syncs):
            if config.get(key) == _FALSE:
                yield key, f"{key} = false: without that there are no checkpoints, so delete the connector instead"
    if (config.get("transaction.boundary") or "").strip().lower() == "connector":
        yield "transaction.boundary", "MM2's connectors define no boundaries: use poll or interval"
