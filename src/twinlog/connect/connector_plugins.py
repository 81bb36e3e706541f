"""The connector plugins: MM2's three connectors, under every name that Connect accepts."""

from typing import Any

from twinlog.config.settings import BYTE_ARRAY, CONNECTORS, MIRROR
from twinlog.connect.definitions import definitions_of
from twinlog.connect.errors import ConnectError

VERSION = "4.3.1"  # of the MM2 whose settings these are
_CONVERTER = {
    "name": "converter.type", "type": "STRING", "required": True, "default_value": None, "importance": "LOW",
    "documentation": "Whether keys, values or headers are converted.", "group": None, "order_in_group": -1,
    "width": "NONE", "display_name": "converter.type", "dependents": [],
}  # fmt: skip


def resolve(name: str) -> str | None:
    """The class name without package, from the full, short or shortest (`MirrorSource`) name; None if unsupported."""
    short = name.removeprefix(MIRROR)
    return next((each for each in CONNECTORS if short in (each, each.removesuffix("Connector"))), None)


def listed(*, connectors_only: bool = True) -> list[dict[str, Any]]:
    """ByteArrayConverter is the only converter; transformations and predicates are Java and unsupported."""
    found = [{"class": MIRROR + name, "type": "source", "version": VERSION} for name in sorted(CONNECTORS)]
    if not connectors_only:
        kinds = ("converter", "header_converter")
        found += [{"class": BYTE_ARRAY, "type": kind, "version": VERSION} for kind in kinds]
    return found


def unknown(name: str) -> str:
    known = ", ".join(each["class"] for each in listed())
    return (
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors are: "
        f"{known}"
    )


def definitions(plugin: str, version: str | None = None) -> list[dict[str, Any]]:
    """`GET /connector-plugins/{plugin}/config`."""
    connector = resolve(plugin)
    if connector is None and plugin not in (BYTE_ARRAY, "ByteArrayConverter", "ByteArray"):
        raise ConnectError(404, f"Unknown plugin {plugin}.")
    if version not in (None, "", VERSION, "latest"):
        raise ConnectError(400, f"Plugin {plugin}: version {version} is not available; use {VERSION}")
    return [dict(_CONVERTER)] if connector is None else [each.as_json() for each in definitions_of(connector)]
