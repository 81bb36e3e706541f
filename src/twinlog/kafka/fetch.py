"""Fetch sessions (KIP-227): after the first request, both sides send only what changed.

Version 13 identifies topics by id, so a re-created topic is never mistaken for the old one; version 12, for brokers
before 3.1, by name. Both contain the epoch of the last fetched batch, so that the leader can detect diverging logs.
"""

import struct
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twinlog.errors import ProtocolError
from twinlog.kafka.connection import throttle_time
from twinlog.model import TopicPartition

API_KEY: Final = 1
BY_NAME: Final = 12
BY_ID: Final = 13
_HEAD: Final = struct.Struct(">hhih")
_REQUEST: Final = struct.Struct(">iiiibii")  # replica, wait, min bytes, max bytes, isolation, session, its epoch
_PARTITION: Final = struct.Struct(">iiqiqib")  # ..., no tagged fields
_RESPONSE: Final = struct.Struct(">ihi")  # throttle, error, session
_PART: Final = struct.Struct(">ihqqq")  # partition, error, high watermark, last stable offset, log start
_ABORTED: Final = struct.Struct(">qq")
_MOST_TAGS: Final = 16  # tagged fields in one place, which newer brokers may add
_MOST_ABORTED: Final = 1 << 20  # transactions in one response
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class WantedPartition(NamedTuple):
    """A partition in a session."""

    tp: TopicPartition
    topic_id: uuid.UUID
    offset: int
    leader_epoch: int  # by our metadata
    last_epoch: int  # of the last fetched batch
    max_bytes: int


class FetchedPartition(NamedTuple):
    tp: TopicPartition
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: list[tuple[int, int]]  # producer id, first offset
    replica: int  # the preferred read replica; -1: this broker
    records: memoryview
    diverging: tuple[int, int] | None  # where the leader's log diverges from ours: epoch, end offset


class FetchResponse(NamedTuple):
    throttle_ms: int
    error: int
    session: int
    parts: list[FetchedPartition]


@dataclass(slots=True)
class Session:
    """The broker's view of our session. While `fresh`, a request must contain all partitions."""

    version: int
    id: int = 0
    epoch: int = 0
    partitions: dict[TopicPartition, uuid.UUID] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)  # by topic id

    @property
    def fresh(self) -> bool:
        return self.epoch == 0

    def reset(self) -> None:
        self.id, self.epoch = 0, 0
        self.partitions.clear()

    def request(
        self,
        correlation: int,
        client_id: str,
        changed: Iterable[WantedPartition],
        forgotten: Collection[TopicPartition],
        *,
        wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: int,
        rack: str,
    ) -> bytes:
        """`changed`: partitions that are new or whose offset changed; all of them while the session is fresh."""
        changed = list(changed)
        sent = self.partitions
        removed: dict[tuple[str, uuid.UUID], list[int]] = {}
        # Brokers add before they remove: both would remove it.
        wanted = {want.tp for want in changed} if forgotten else ()
        for tp in forgotten:
            if tp not in wanted and (topic_id := sent.pop(tp, None)) is not None:
                removed.setdefault((tp.topic, topic_id), []).append(tp.partition)
        for want in changed:
            # A re-created topic has a new id, so the old id must be removed. By name it is the same for the broker.
            topic_id = sent.get(want.tp)
            if self.version >= BY_ID and topic_id is not None and topic_id != want.topic_id:
                removed.setdefault((want.tp.topic, topic_id), []).append(want.tp.partition)
            sent[want.tp] = want.topic_id
        name = client_id.encode()
        out = bytearray(_HEAD.pack(API_KEY, self.version, correlation, len(name)) + name + b"\0")
        out += _REQUEST.pack(-1, wait_ms, min_bytes, max_bytes, isolation, self.id, self.epoch)
        self._topics(out, changed)
        out += _uvarint(len(removed) + 1)
        for (topic, topic_id), partitions in removed.items():
            out += self._topic(topic, topic_id) + _uvarint(len(partitions) + 1)
            for partition in partitions:
                out += _INT.pack(partition)
            out += b"\0"
        text = rack.encode()
        out += _uvarint(len(text) + 1) + text + b"\0"
        return bytes(out)

    def _topics(self, out: bytearray, wants: list[WantedPartition]) -> None:
        by_topic: dict[tuple[str, uuid.UUID], list[WantedPartition]] = {}
        for want in wants:
            by_topic.setdefault((want.tp.topic, want.topic_id), []).append(want)
        out += _uvarint(len(by_topic) + 1)
        for (topic, topic_id), listed in by_topic.items():
            self.names[topic_id.bytes] = topic
            out += self._topic(topic, topic_id) + _uvarint(len(listed) + 1)
            for want in listed:
                out += _PARTITION.pack(
                    want.tp.partition, want.leader_epoch, want.offset, want.last_epoch, -1, want.max_bytes, 0
                )
            out += b"\0"

    def _topic(self, topic: str, topic_id: uuid.UUID) -> bytes:
        if self.version >= BY_ID:
            return topic_id.bytes
        text = topic.encode()
        return _uvarint(len(text) + 1) + text

    def answered(self, response: FetchResponse) -> None:
        """To be called for each response without an error."""
        if self.epoch == 0:
            self.id = response.session
        # A broker whose session cache is full returns 0: then every request must be a full one.
        self.epoch = (self.epoch + 1 if self.epoch < 0x7FFFFFFF else 1) if self.id else 0

    def decode(self, frame: memoryview) -> FetchResponse:
        try:
            return self._decode(frame)
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise ProtocolError(f"malformed FetchResponse: {error!r}") from error

    def _decode(self, frame: memoryview) -> FetchResponse:
        at = _skip_tags(frame, 4)
        throttle, error, session = _RESPONSE.unpack_from(frame, at)
        topics, at = _read_uvarint(frame, at + 10)
        parts: list[FetchedPartition] = []
        left = len(self.partitions)
        if topics - 1 > left:
            raise ValueError(f"{topics - 1} topics for {left} requested partitions")
        for _ in range(topics - 1):
            if self.version >= BY_ID:
                name = self.names[bytes(frame[at : at + 16])]
                at += 16
            else:
                length, at = _read_uvarint(frame, at)
                if not length:
                    raise ValueError("topic without a name")
                name = str(frame[at : at + length - 1], "utf-8")
                at += length - 1
            count, at = _read_uvarint(frame, at)
            left -= max(count - 1, 0)
            if left < 0:
                raise ValueError("more partitions than requested")
            for _ in range(count - 1):
                part, at = _part(frame, at, name)
                parts.append(part)
            at = _skip_tags(frame, at)
        return FetchResponse(throttle_time(throttle), error, session, parts)


def _part(frame: memoryview, at: int, name: str) -> tuple[FetchedPartition, int]:
    partition, error, high, stable, start = _PART.unpack_from(frame, at)
    count, at = _read_uvarint(frame, at + 30)
    if count > _MOST_ABORTED:
        raise ValueError(f"{count - 1} aborted transactions")
    aborted = []
    for _ in range(max(count - 1, 0)):
        aborted.append(_ABORTED.unpack_from(frame, at))
        at = _skip_tags(frame, at + 16)
    (replica,) = _INT.unpack_from(frame, at)
    size, at = _read_uvarint(frame, at + 4)
    size = max(size - 1, 0)
    records = frame[at : at + size]
    if len(records) != size:
        raise IndexError("truncated records")
    at += size
    diverging = None
    tags, at = (0, at + 1) if not frame[at] else _tags(frame, at)
    for _ in range(tags):
        tag, at = _read_uvarint(frame, at)
        length, at = _read_uvarint(frame, at)
        if tag == 0:
            (epoch,) = _INT.unpack_from(frame, at)
            (end,) = _LONG.unpack_from(frame, at + 4)
            # Brokers send -1, -1 if nothing diverges.
            diverging = (epoch, end) if end >= 0 else None
        at += length
    return FetchedPartition(
        TopicPartition(name, partition), error, high, stable, start, aborted, replica, records, diverging
    ), at


def _uvarint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes()
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_uvarint(frame: memoryview, at: int) -> tuple[int, int]:
    value = frame[at]
    if value < 0x80:  # nearly always
        return value, at + 1
    value = shift = 0
    while True:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 35:
            raise IndexError("malformed varint")


def _tags(frame: memoryview, at: int) -> tuple[int, int]:
    tags, at = _read_uvarint(frame, at)
    if tags > _MOST_TAGS:
        raise ValueError(f"{tags} tagged fields")
    return tags, at


def _skip_tags(frame: memoryview, at: int) -> int:
    if not frame[at]:  # nearly always
        return at + 1
    tags, at = _tags(frame, at)
    for _ in range(tags):
        _, at = _read_uvarint(frame, at)
        length, at = _read_uvarint(frame, at)
        at += length
    return at
