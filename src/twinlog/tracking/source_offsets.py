"""The topic of source offsets on the target (`mm2-offsets.<source>.internal`): Connect's records, and Twinlog's own.

Connect finds a stored offset by the exact bytes of its key, so ours are Jackson's, escape by escape, with the members
in the order of Java's HashMap. Twinlog's entries have the form of Connect's, under a connector's name that none has:
Connect reads over them.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from twinlog.config.flows import FlowConfig
from twinlog.kafka.batch import FARTHEST
from twinlog.model import Flow
from twinlog.tracking.murmur2 import partition_for

__all__ = [
    "Cursor", "CursorEntry", "Entry", "OffsetsTopic", "Producers", "ProducersEntry", "SourceOffset", "connector_name",
    "cursor_key", "key", "offsets_topic", "parse", "partition_for", "producer_key", "value",
]  # fmt: skip

TWINLOG = "twinlog"
_MOST_PRODUCERS = 64
_INT16, _INT32 = (1 << 15) - 1, (1 << 31) - 1

_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT = {'"': r"\"", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a partition goes on: the next source offset, and the target offset at which that record will land."""

    source: int
    target: int
    topic_id: str  # of the source's topic: one that was deleted and made again has another
    leader_epoch: int
    # Who wrote the record before `target`, and the number that his next one has: -1 where it is not known.
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1

    def encode(self) -> bytes:
        return _json(asdict(self))

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        found = _object(_loaded(content))
        producer, its_epoch, sequence = (found.get(name, -1) for name in ("producer_id", "producer_epoch", "sequence"))
        match found:
            case {"source": source, "target": target, "topic_id": str(topic_id), "leader_epoch": epoch}:
                known = all(map(_is_whole, (source, target, producer)))
                known = (
                    known and _is_whole(its_epoch, _INT16) and all(_is_whole(one, _INT32) for one in (epoch, sequence))
                )
                return cls(source, target, topic_id, epoch, producer, its_epoch, sequence) if known else None
        return None


@dataclass(frozen=True, slots=True)
class Producers:
    """The producer ids that a flow has used on the target, newest last: what others wrote is told by theirs."""

    ids: tuple[int, ...] = ()

    def adding(self, producer_id: int) -> "Producers":
        others = tuple(one for one in self.ids if one != producer_id)
        return Producers((*others, producer_id)[-_MOST_PRODUCERS:])

    def encode(self) -> bytes:
        return _json({"ids": list(self.ids[-_MOST_PRODUCERS:])})

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        ids = _object(_loaded(content)).get("ids")
        if not isinstance(ids, list) or not all(map(_is_whole, ids)):
            return None
        return cls(tuple(ids[-_MOST_PRODUCERS:]))


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Connect's entry of one source partition."""

    connector: str
    cluster: str
    topic: str
    partition: int
    offset: int | None  # of the last record written, so replication resumes behind it; None: taken back


@dataclass(frozen=True, slots=True)
class CursorEntry:
    flow: Flow
    topic: str
    partition: int
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class ProducersEntry:
    flow: Flow
    producers: Producers | None


Entry = SourceOffset | CursorEntry | ProducersEntry


class OffsetsTopic(NamedTuple):
    name: str
    partitions: int  # -1: the broker's default, as is
    replication_factor: int


def key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    return _json([connector, {"cluster": cluster, "partition": partition, "topic": topic}])


def value(offset: int) -> bytes:
    return _json({"offset": offset})


def cursor_key(source: str, target: str, topic: str, partition: int) -> bytes:
    return _json([TWINLOG, {"cluster": source, "partition": partition, "topic": topic, "target": target}])


def producer_key(source: str, target: str) -> bytes:
    return _json([TWINLOG, {"cluster": source, "target": target}])


def parse(key_bytes: bytes | None, value_bytes: bytes | None) -> Entry | None:
    """None for the entries of other connectors, for what is malformed, and for a key that is not spelled as Connect
    spells it: Connect would not find it either. A tombstone is an entry without content.
    """
    match _loaded(key_bytes):
        case [str(name), dict(members)] if _json_or_none([name, members]) == key_bytes:
            pass
        case _:
            return None
    gone = value_bytes is None
    match name, list(members), list(members.values()):
        case "twinlog", ["cluster", "partition", "topic", "target"], [str(source), partition, str(topic), str(target)]:
            cursor = None if value_bytes is None else Cursor.decode(value_bytes)
            known = _is_whole(partition, _INT32) and (gone or cursor)
            return CursorEntry(Flow(source, target), topic, partition, cursor) if known else None
        case "twinlog", ["cluster", "target"], [str(source), str(target)]:
            producers = None if value_bytes is None else Producers.decode(value_bytes)
            return ProducersEntry(Flow(source, target), producers) if gone or producers else None
        case _, ["cluster", "partition", "topic"], [str(cluster), partition, str(topic)]:
            offset = _object(_loaded(value_bytes)).get("offset")
            known = _is_whole(partition, _INT32) and (gone or _is_whole(offset))
            return SourceOffset(name, cluster, topic, partition, offset) if known else None
        case _:
            return None


def connector_name(flow: FlowConfig) -> str:
    """The first element of MM2's keys.

    A dedicated MM2 calls its connectors by their classes, whatever `name` in its file says: it is that name under
    which Connect stores offsets. There, and only there, the connector's aliases come from the flow.
    """
    if flow.source is None:
        raise ValueError(f"{flow} has no source connector, so it stores no source offsets")
    dedicated = flow.source.values["source.cluster.alias"].origin.kind == "derived"
    return flow.source.kind if dedicated else flow.source.settings.name


def offsets_topic(flow: FlowConfig) -> OffsetsTopic:
    """The worker's. A connector with `offsets.storage.topic` has one of its own besides, which Connect reads first."""
    worker = flow.worker.settings
    return OffsetsTopic(
        worker.offset_storage_topic, worker.offset_storage_partitions, worker.offset_storage_replication_factor
    )


def _json(content: Any) -> bytes:
    """As Jackson writes it: Python's own spelling of control characters, and of what lies beyond U+FFFF, differs."""
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
    except (ValueError, RecursionError):  # half a surrogate pair
        return None


def _loaded(content: bytes | None) -> Any:
    try:
        return None if content is None else json.loads(content.decode())
    except (ValueError, RecursionError):
        return None


def _object(content: Any) -> dict[str, Any]:
    return content if isinstance(content, dict) else {}


def _is_whole(content: object, most: int = FARTHEST) -> bool:
    """A number that has room in Kafka's protocol, also when more is added to it. -1 is one that is not known."""
    return isinstance(content, int) and not isinstance(content, bool) and -1 <= content <= most
