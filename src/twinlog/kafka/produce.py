"""Produce v8, which every broker from 2.4 to 4.x takes. The batches are sent from where they lie."""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from twinlog.errors import ProtocolError
from twinlog.kafka.batch import FARTHEST
from twinlog.kafka.connection import throttle_time
from twinlog.security.words import one_line

API_KEY: Final = 0
VERSION: Final = 8
LARGEST_ANSWER: Final = 16 << 20  # bytes: one about 10,000 partitions has less than one MiB
_HEAD: Final = struct.Struct(">hhih")
_AFTER: Final = struct.Struct(">hhii")  # no transactional id, acks, timeout, number of topics
_PARTITION: Final = struct.Struct(">ii")
_OUTCOME: Final = struct.Struct(">ihqqqih")  # ..., number of bad records, length of the message (or of one of theirs)
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")

_UNKNOWN: Final = -1  # Kafka's code for an error that it has no other for

Bytes = bytes | bytearray | memoryview


class Outcome(NamedTuple):
    topic: str
    partition: int
    error: int
    base_offset: int
    log_start: int
    bad_records: tuple[tuple[int, str], ...]  # index in the batch, what is wrong with it
    message: str


class Answer(NamedTuple):
    outcomes: list[Outcome]
    throttle_ms: int


def encode(
    correlation: int, client_id: str, acks: int, timeout_ms: int, topics: Mapping[str, Iterable[tuple[int, Bytes]]]
) -> list[Bytes]:
    """One frame in parts: the batches are the caller's own memory."""
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


def all_well(frame: memoryview) -> tuple[list[tuple[tuple[str, int], int]], int] | None:
    """Of an answer without any error: where each partition's batch landed, and the throttle time; else None.

    Nearly every answer is one, and it is read once per batch: so without an object for each.
    """
    landed = []
    try:
        (topics,) = _INT.unpack_from(frame, 4)
        at = 8
        for _ in range(topics):
            (length,) = _SHORT.unpack_from(frame, at)
            if length < 0:
                return None  # `decode` says what is wrong
            topic = str(frame[at + 2 : at + 2 + length], "utf-8")
            at += 2 + length
            (partitions,) = _INT.unpack_from(frame, at)
            at += 4
            for _ in range(partitions):
                partition, error, base, _, _, errors, message = _OUTCOME.unpack_from(frame, at)
                if error or errors or message >= 0 or base > FARTHEST:
                    return None
                landed.append(((topic, partition), base))
                at += 36
        return landed, throttle_time(_INT.unpack_from(frame, at)[0])
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"an answer to Produce that makes no sense: {error}") from error


def decode(frame: memoryview) -> Answer:
    try:
        return _decode(frame)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"an answer to Produce that makes no sense: {error}") from error


def _decode(frame: memoryview) -> Answer:
    outcomes = []
    (topics,) = _INT.unpack_from(frame, 4)
    at = 8
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(frame, at)
        if length < 0:  # or `at` would go back, before the beginning at last: bytes would be read from the end
            raise ValueError("a topic without a name")
        topic = str(frame[at + 2 : at + 2 + length], "utf-8")
        at += 2 + length
        (partitions,) = _INT.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            partition, error, base, _, log_start, errors, length = _OUTCOME.unpack_from(frame, at)
            said = ""
            if base > FARTHEST:  # which is this partition's trouble, not that of the others in the answer
                error, said, base = error or _UNKNOWN, f"acknowledged at {base}, an offset that no log has", -1
            if not errors and length < 0:  # nothing went wrong, so there is nothing to say
                outcomes.append(Outcome(topic, partition, error, base, log_start, (), said))
                at += 36
                continue
            at += 34
            bad = []
            for _ in range(max(errors, 0)):
                (index,) = _INT.unpack_from(frame, at)
                text, at = _text(frame, at + 4)
                bad.append((index, text))
            message, at = _text(frame, at)
            outcomes.append(Outcome(topic, partition, error, base, log_start, tuple(bad), message or said))
    (throttle,) = _INT.unpack_from(frame, at)
    return Answer(outcomes, throttle_time(throttle))


def _text(frame: memoryview, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(frame, at)
    if length < 0:
        return "", at + 2
    return one_line(str(frame[at + 2 : at + 2 + length], "utf-8")), at + 2 + length
