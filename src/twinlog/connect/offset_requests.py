"""Source offsets in Connect's API: parses and checks requests, encodes keys and values. Pure.

Connect looks up an offset by the bytes of its key, in which the members are in the order of Java's HashMap.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twinlog.connect.errors import ConnectError
from twinlog.mm2 import source_offsets

_INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1

# Required strings in the key of each connector's offsets
_STRING_KEYS: Final = {
    "MirrorSourceConnector": ("cluster", "topic"),
    "MirrorCheckpointConnector": ("group", "topic"),
    "MirrorHeartbeatConnector": ("sourceClusterAlias", "targetClusterAlias"),
}
_WITH_PARTITION: Final = ("MirrorSourceConnector", "MirrorCheckpointConnector")


@dataclass(frozen=True, slots=True)
class Offset:
    """A source partition and its offset; None deletes it."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


def stored_offsets(records: Iterable[tuple[bytes | None, bytes | None]], connector: str) -> list[Offset]:
    """The offsets of a connector, in the order of their first records; the last record of each key counts."""
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


def require_entries(entries: Sequence[Mapping[str, Any]] | None) -> None:
    if not entries:
        raise ConnectError(400, "Partitions / offsets need to be provided for an alter offsets request")


def parse_entries(kind: str, entries: Sequence[Mapping[str, Any]] | None) -> list[Offset]:
    """The offsets in a request; invalid ones are rejected as by Connect and MM2."""
    require_entries(entries)
    found: dict[bytes, Offset] = {}
    for entry in entries or ():
        partition, offset = entry.get("partition"), entry.get("offset")
        if offset is not None:
            _check(kind, partition, offset)
        parsed = Offset(partition or {}, offset)
        found[key_of("", parsed.partition)] = parsed
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
    """The iteration order of a Java HashMap that was filled in this order."""
    given = list(names)
    buckets = 16
    while len(given) > buckets * 3 // 4:
        buckets *= 2
    return sorted(given, key=lambda name: _spread(name) & (buckets - 1))  # stable: in a bucket, insertion order


def offsets_json(offsets: Iterable[Offset]) -> dict[str, Any]:
    return {"offsets": [{"partition": dict(each.partition), "offset": dict(each.offset or {})} for each in offsets]}


def _check(kind: str, partition: object, offset: object) -> None:
    if not isinstance(partition, Mapping):
        raise ConnectError(500, "Source partition may not be null")
    shown = java_text(partition)
    for name in _STRING_KEYS[kind]:
        if name not in partition:
            raise ConnectError(500, f"Source partition {shown} is missing the '{name}' key, which is required")
        if not isinstance(partition[name], str):
            _refuse(f"Source partition {shown}", partition[name], name, "which must be a string")
    if kind in _WITH_PARTITION:
        if "partition" not in partition:
            raise ConnectError(500, f"Source partition {shown} is missing the 'partition' key, which is required")
        number = partition["partition"]
        if not _is_integer(number, _INT32):
            _refuse(f"Source partition {shown}", number, "partition", "which must be an integer")
        if number < 0:
            _refuse(f"Source partition {shown}", number, "partition", "which cannot be negative")
    where = f"Source offset {java_text(offset)} for source partition {shown}"
    if not isinstance(offset, Mapping) or "offset" not in offset:
        raise ConnectError(500, f"{where} is missing the 'offset' key, which is required")
    at = offset["offset"]
    if not _is_integer(at, _INT64):
        _refuse(where, at, "offset", "which must be an integer")
    if kind != "MirrorSourceConnector" and at != 0:
        raise ConnectError(500, f"{where} has an invalid value {at} for the 'offset' key; the only accepted value is 0")
    if at < 0:
        _refuse(where, at, "offset", "which cannot be negative")


def _refuse(where: str, value: object, name: str, reason: str) -> None:
    raise ConnectError(500, f"{where} has an invalid value {java_text(value)} for the '{name}' key, {reason}")


def java_text(content: object) -> str:
    """Java's string representation, for messages."""
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
    """The hash of a Java String as used by HashMap."""
    found = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return found ^ (found >> 16)


def _is_integer(content: object, most: int) -> bool:
    return isinstance(content, int) and not isinstance(content, bool) and -most - 1 <= content <= most


def _loaded(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content.decode())
    except (ValueError, RecursionError):
        return None
