"""The offsets topic on the target (`mm2-offsets.<source>.internal`): Connect's source offsets, Twinlog's positions.

Connect finds a stored offset by the exact bytes of its key, so keys are encoded as by Jackson, escape by escape, with
the members in the order of Java's HashMap. Twinlog's entries have the form of Connect's, under a connector name that no
connector has: Connect ignores them.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from twinlog.config.flows import FlowConfig
from twinlog.kafka.batch import MAX_OFFSET
from twinlog.model import Flow

__all__ = [
    "Entry",
    "OffsetsTopic",
    "PositionEntry",
    "Producers",
    "ProducersEntry",
    "SourceOffset",
    "StoredPosition",
    "connector_name",
    "connector_offsets_topic",
    "key",
    "offsets_topic",
    "parse",
    "position_key",
    "producer_key",
    "value",
]  # fmt: skip

TWINLOG = "twinlog"
_MAX_PRODUCERS = 64
_INT16, _INT32 = (1 << 15) - 1, (1 << 31) - 1

_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT = {'"': r"\"", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """Where a partition resumes: the next source offset, and the target offset that this record will get."""

    source: int
    target: int
    topic_id: str  # of the source's topic: a re-created topic has another id
    leader_epoch: int  # of the last batch copied
    # The producer of the record before `target`, and the sequence number of its next one: -1 if unknown.
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    remote_id: str = ""  # of the remote topic

    def encode(self) -> bytes:
        return _json(asdict(self))

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        found = _object(_loaded(content))
        producer, its_epoch, sequence = (found.get(name, -1) for name in ("producer_id", "producer_epoch", "sequence"))
        match found:
            case {"source": source, "target": target, "topic_id": str(topic_id), "leader_epoch": epoch}:
                known = all(map(_is_offset, (source, target, producer)))
                known = (
                    known
                    and _is_offset(its_epoch, _INT16)
                    and all(_is_offset(one, _INT32) for one in (epoch, sequence))
                )
                remote_id = found.get("remote_id", "")
                known = known and isinstance(remote_id, str)
                return cls(source, target, topic_id, epoch, producer, its_epoch, sequence, remote_id) if known else None
        return None


@dataclass(frozen=True, slots=True)
class Producers:
    """The producer ids that a flow has used on the target, newest last, to recognize records of other producers."""

    ids: tuple[int, ...] = ()

    def adding(self, producer_id: int) -> "Producers":
        others = tuple(one for one in self.ids if one != producer_id)
        return Producers((*others, producer_id)[-_MAX_PRODUCERS:])

    def encode(self) -> bytes:
        return _json({"ids": list(self.ids[-_MAX_PRODUCERS:])})

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        ids = _object(_loaded(content)).get("ids")
        if not isinstance(ids, list) or not all(map(_is_offset, ids)):
            return None
        return cls(tuple(ids[-_MAX_PRODUCERS:]))


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Connect's entry for a source partition."""

    connector: str
    cluster: str
    topic: str
    partition: int
    offset: int | None  # of the last record written, so replication resumes after it; None: reset


@dataclass(frozen=True, slots=True)
class PositionEntry:
    flow: Flow
    topic: str
    partition: int
    stored_position: StoredPosition | None
    remote: str | None = None  # the remote topic; None: written by an older Twinlog


@dataclass(frozen=True, slots=True)
class ProducersEntry:
    flow: Flow
    producers: Producers | None


Entry = SourceOffset | PositionEntry | ProducersEntry


class OffsetsTopic(NamedTuple):
    name: str
    partitions: int  # -1: the broker's default
    replication_factor: int


def key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    return _json([connector, {"cluster": cluster, "partition": partition, "topic": topic}])


def value(offset: int) -> bytes:
    return _json({"offset": offset})


def position_key(source: str, target: str, topic: str, partition: int, remote: str | None) -> bytes:
    """`remote`: flows between the same clusters may copy a topic under different names."""
    members = {"cluster": source, "partition": partition, "topic": topic, "target": target}
    return _json([TWINLOG, members if remote is None else {**members, "remote": remote}])


def producer_key(source: str, target: str) -> bytes:
    return _json([TWINLOG, {"cluster": source, "target": target}])


def parse(key_bytes: bytes | None, value_bytes: bytes | None) -> Entry | None:
    """None for entries of other connectors, malformed ones, and keys that are not encoded as by Connect, which would
    not find them either. A tombstone is an entry without content.
    """
    match _loaded(key_bytes):
        case [str(name), dict(members)] if _json_or_none([name, members]) == key_bytes:
            pass
        case _:
            return None
    tombstone = value_bytes is None
    match name, list(members), list(members.values()):
        case (
            "twinlog",
            ["cluster", "partition", "topic", "target"] | ["cluster", "partition", "topic", "target", "remote"],
            [str(source), partition, str(topic), str(target), *rest],
        ) if all(isinstance(name, str) for name in rest):
            stored_position = None if value_bytes is None else StoredPosition.decode(value_bytes)
            known = _is_offset(partition, _INT32) and (tombstone or stored_position)
            return PositionEntry(Flow(source, target), topic, partition, stored_position, *rest) if known else None
        case "twinlog", ["cluster", "target"], [str(source), str(target)]:
            producers = None if value_bytes is None else Producers.decode(value_bytes)
            return ProducersEntry(Flow(source, target), producers) if tombstone or producers else None
        case _, ["cluster", "partition", "topic"], [str(cluster), partition, str(topic)]:
            offset = _object(_loaded(value_bytes)).get("offset")
            known = _is_offset(partition, _INT32) and (tombstone or _is_offset(offset))
            return SourceOffset(name, cluster, topic, partition, offset) if known else None
        case _:
            return None


def connector_name(flow: FlowConfig) -> str:
    """The first element of MM2's keys.

    A dedicated MM2 names its connectors by their classes, whatever `name` is in its file, and Connect stores offsets
    under that name. Only there the connector's aliases come from the flow.
    """
    if flow.source is None:
        raise ValueError(f"{flow} has no source connector, so it stores no source offsets")
    dedicated = flow.source.values["source.cluster.alias"].origin.kind == "derived"
    return flow.source.kind if dedicated else flow.source.settings.name


def offsets_topic(flow: FlowConfig) -> OffsetsTopic:
    """The worker's, which also has Twinlog's entries."""
    worker = flow.worker.settings
    return OffsetsTopic(
        worker.offset_storage_topic, worker.offset_storage_partitions, worker.offset_storage_replication_factor
    )


def connector_offsets_topic(flow: FlowConfig) -> OffsetsTopic | None:
    """The connector's own (`offsets.storage.topic`), if it has one. Connect writes offsets to it and then to the
    worker's, and reads both: an offset in the connector's own topic takes precedence. It is created like the worker's.
    """
    own = flow.source.settings.offsets_storage_topic if flow.source is not None else None
    if not own or own == flow.worker.settings.offset_storage_topic:
        return None
    return offsets_topic(flow)._replace(name=own)


def _json(content: Any) -> bytes:
    """As encoded by Jackson: Python escapes control characters, and characters beyond U+FFFF, differently."""
    match content:
        case str():
            return f'"{_ESCAPED.sub(_escape, content)}"'.encode()
        case list():
            return b"[" + b",".join(map(_json, content)) + b"]"
        case dict():
            return b"{" + b",".join(_json(name) + b":" + _json(one) for name, one in content.items()) + b"}"
        case _:
            return json.dumps(content).encode()


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    units = char.encode("utf-16-be").hex().upper()
    return "".join(rf"\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _json_or_none(content: Any) -> bytes | None:
    try:
        return _json(content)
    except (ValueError, RecursionError):  # a lone surrogate
        return None


def _loaded(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content.decode())
    except (ValueError, RecursionError):
        return None


def _object(content: Any) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}


def _is_offset(content: object, most: int = MAX_OFFSET) -> bool:
    """An integer that fits Kafka's protocol, even if something is added to it. -1: unknown."""
    return isinstance(content, int) and not isinstance(content, bool) and -1 <= content <= most
