"""Produce version 8, which all brokers from 2.4 to 4.x support. Batches are sent without being copied."""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from twinlog.errors import ProtocolError
from twinlog.kafka.batch import MAX_OFFSET
from twinlog.kafka.connection import throttle_time
from twinlog.text import one_line

API_KEY: Final = 0
VERSION: Final = 8
MAX_RESPONSE_BYTES: Final = 16 << 20  # 10,000 partitions take less than one MiB
_HEAD: Final = struct.Struct(">hhih")
_AFTER: Final = struct.Struct(">hhii")  # no transactional id, acks, timeout, number of topics
_PARTITION: Final = struct.Struct(">ii")
_OUTCOME: Final = struct.Struct(">ihqqqih")  # ..., number of record errors, length of the message (or of a record's)
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")

_UNKNOWN: Final = -1  # UNKNOWN_SERVER_ERROR

Bytes = bytes | bytearray | memoryview


class Outcome(NamedTuple):
    topic: str
    partition: int
    error: int
    base_offset: int
    log_start: int
    bad_records: tuple[tuple[int, str], ...]  # index in the batch, error message
    message: str


class ProduceResponse(NamedTuple):
    outcomes: list[Outcome]
    throttle_ms: int


def encode(
    correlation: int, client_id: str, acks: int, timeout_ms: int, topics: Mapping[str, Iterable[tuple[int, Bytes]]]
) -> list[Bytes]:
    """One frame in parts, which refer to the given batches."""
    name = client_id.encode()
    parts: list[Bytes] = []
    head = bytearray(_HEAD.pack(API_KEY, VERSION, correlation, len(name)) + name)
    head += _AFTER.pack(-1, acks, timeout_ms, len(topics))
    for topic, batches in topics.items():
        text = topic.encode()
        listed = list(batches)
        head += _SHORT.pack(len(text)) + text + _INT.pack(len(listed))
        for partition, batch in listed:
            head += _PARTITION.pack(partition, len(batch))
            parts += (head, batch)
            head = bytearray()
    if head:
        parts.append(head)
    return parts


def decode_success(frame: memoryview) -> tuple[list[tuple[tuple[str, int], int]], int] | None:
    """The base offset of each partition's batch, and the throttle time; None if the response has any error.

    Hot path: nearly every response has no error, so no object is created for each partition.
    """
    offsets = []
    try:
        (topics,) = _INT.unpack_from(frame, 4)
        at = 8
        for _ in range(topics):
            (length,) = _SHORT.unpack_from(frame, at)
            if length < 0:
                return None  # `decode` reports it
            topic = str(frame[at + 2 : at + 2 + length], "utf-8")
            at += 2 + length
            (partitions,) = _INT.unpack_from(frame, at)
            at += 4
            for _ in range(partitions):
                partition, error, base, _, _, errors, message = _OUTCOME.unpack_from(frame, at)
                if error or errors or message >= 0 or base > MAX_OFFSET:
                    return None
                offsets.append(((topic, partition), base))
                at += 36
        return offsets, throttle_time(_INT.unpack_from(frame, at)[0])
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"malformed ProduceResponse: {error}") from error


def decode(frame: memoryview) -> ProduceResponse:
    try:
        return _decode(frame)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"malformed ProduceResponse: {error}") from error


def _decode(frame: memoryview) -> ProduceResponse:
    outcomes = []
    (topics,) = _INT.unpack_from(frame, 4)
    at = 8
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(frame, at)
        if length < 0:  # else `at` would move backwards
            raise ValueError("topic without a name")
        topic = str(frame[at + 2 : at + 2 + length], "utf-8")
        at += 2 + length
        (partitions,) = _INT.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            partition, error, base, _, log_start, errors, length = _OUTCOME.unpack_from(frame, at)
            problem = ""
            if base > MAX_OFFSET:  # an error of this partition only
                error, problem, base = error or _UNKNOWN, f"acknowledged at invalid offset {base}", -1
            if not errors and length < 0:
                outcomes.append(Outcome(topic, partition, error, base, log_start, (), problem))
                at += 36
                continue
            at += 34
            bad = []
            for _ in range(max(errors, 0)):
                (index,) = _INT.unpack_from(frame, at)
                text, at = _text(frame, at + 4)
                bad.append((index, text))
            message, at = _text(frame, at)
            outcomes.append(Outcome(topic, partition, error, base, log_start, tuple(bad), message or problem))
    (throttle,) = _INT.unpack_from(frame, at)
    return ProduceResponse(outcomes, throttle_time(throttle))


def _text(frame: memoryview, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(frame, at)
    if length < 0:
        return "", at + 2
    return one_line(str(frame[at + 2 : at + 2 + length], "utf-8")), at + 2 + length
