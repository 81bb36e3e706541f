"""Source offsets as Connect's API shows and alters them. Pure: checks, keys, and what a request comes down to.

Connect finds an offset by the bytes of its key, in which the members stand in the order of Java's HashMap.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinlog.connect.errors import ConnectError
from twinlog.tracking import source_offsets

_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1

# What the key of each connector's offsets must have
_TEXTS: Final = {
    "MirrorSourceConnector": ("cluster", "topic"),
    "MirrorCheckpointConnector": ("group", "topic"),
    "MirrorHeartbeatConnector": ("sourceClusterAlias", "targetClusterAlias"),
}
_NUMBERED: Final = ("MirrorSourceConnector", "MirrorCheckpointConnector")


@dataclass(frozen=True, slots=True)
class Offset:
    """One entry: of which source partition, and how far; None takes it back."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


def stored(records: Iterable[tuple[bytes | None, bytes | None]], connector: str) -> list[Offset]:
    """Those of a connector, by name, in the order in which they were first written; the last of each key counts."""
    found: dict[bytes, Offset] = {}
    for key, value in records:
        match _loaded(key):
            case [str(name), dict(partition)] if name == connector and key is not None:
                offset = _loaded(value)
                if isinstance(offset, dict):
                    found[key] = Offset(partition, offset)
                elif value is None:
                    found.pop(key, None)
    return list(found.values())


def asked(kind: str, entries: Sequence[Mapping[str, Any]] | None) -> list[Offset]:
    """What a request is about; refused as Connect and MM2 refuse it."""
    if not entries:
        raise ConnectError(400, "Partitions / offsets need to be provided for an alter offsets request")
    found: dict[bytes, Offset] = {}
    for entry in entries:
        partition, offset = entry.get("partition"), entry.get("offset")
        if offset is not None:
            _check(kind, partition, offset)
        entry_of = Offset(partition or {}, offset)
        found[key_of("", entry_of.partition)] = entry_of
    return list(found.values())


def key_of(connector: str, partition: Mapping[str, Any]) -> bytes:
    ordered = {name: partition[name] for name in java_order(partition)}
    match list(ordered), list(ordered.values()):
        case ["cluster", "partition", "topic"], [str(cluster), int(number), str(topic)]:
            return source_offsets.key(connector, cluster, topic, number)
        case _:
            return json.dumps([connector, ordered], separators=(",", ":"), ensure_ascii=False).encode()


def value_of(offset: Mapping[str, Any] | None) -> bytes | None:
    if offset is None:
        return None
    ordered = {name: offset[name] for name in java_order(offset)}
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False).encode()


def java_order(names: Iterable[str]) -> list[str]:
    """As a Java HashMap goes through them that was filled in this order."""
    given = list(names)
    buckets = 16
    while len(given) > buckets * 3 // 4:
        buckets *= 2
    return sorted(given, key=lambda name: _spread(name) & (buckets - 1))  # of equal ones the first stays first


def offsets_json(offsets: Iterable[Offset]) -> dict[str, Any]:
    return {"offsets": [{"partition": dict(each.partition), "offset": dict(each.offset or {})} for each in offsets]}


def _check(kind: str, partition: object, offset: object) -> None:
    if not isinstance(partition, Mapping):
        raise ConnectError(500, "Source partition may not be null")
    shown = java_text(partition)
    for name in _TEXTS[kind]:
        if name not in partition:
            raise ConnectError(500, f"Source partition {shown} is missing the '{name}' key, which is required")
        if not isinstance(partition[name], str):
            _refuse(f"Source partition {shown}", partition[name], name, "which must be a string")
    if kind in _NUMBERED:
        if "partition" not in partition:
            raise ConnectError(500, f"Source partition {shown} is missing the 'partition' key, which is required")
        number = partition["partition"]
        if not _is_whole(number, _INT32):
            _refuse(f"Source partition {shown}", number, "partition", "which must be an integer")
        if number < 0:
            _refuse(f"Source partition {shown}", number, "partition", "which cannot be negative")
    where = f"Source offset {java_text(offset)} for source partition {shown}"
    if not isinstance(offset, Mapping) or "offset" not in offset:
        raise ConnectError(500, f"{where} is missing the 'offset' key, which is required")
    at = offset["offset"]
    if not _is_whole(at, _INT64):
        _refuse(where, at, "offset", "which must be an integer")
    if kind != "MirrorSourceConnector" and at != 0:
        raise ConnectError(500, f"{where} has an invalid value {at} for the 'offset' key; the only accepted value is 0")
    if at < 0:
        _refuse(where, at, "offset", "which cannot be negative")


def _refuse(where: str, value: object, name: str, why: str) -> None:
    raise ConnectError(500, f"{where} has an invalid value {java_text(value)} for the '{name}' key, {why}")


def java_text(content: object) -> str:
    """As Java prints maps and the like, in messages."""
    match content:
        case None:
            return "null"
        case bool():
            return str(content).lower()
        case Mapping():
            names = java_order(content)
            return "{" + ", ".join(f"{name}={java_text(content[name])}" for name in names) + "}"
        case list():
            return "[" + ", ".join(map(java_text, content)) + "]"
        case _:
            return str(content)


def _spread(name: str) -> int:
    """The hash of a String, as a HashMap uses it."""
    found = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return found ^ (found >> 16)


def _is_whole(content: object, most: int) -> bool:
    return isinstance(content, int) and not isinstance(content, bool) and -most - 1 <= content <= most


def _loaded(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content.decode())
    except (ValueError, RecursionError):
        return None
