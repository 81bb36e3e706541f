"""Messages of Kafka before version 0.11: magic 0 (no timestamps) and magic 1.

An entry of such a log is one message, or a wrapper: a message whose value is a compressed sequence of messages.

    0 offset i64 | 8 size i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8 | [18 timestamp i64, magic 1] |
    key (i32 length, -1 for null; bytes) | value (the same)
"""

import struct
import zlib
from typing import NamedTuple

from twinlog.kafka.batch import CODEC, LOG_APPEND_TIME, LOG_OVERHEAD, MAX_BATCH_RECORDS
from twinlog.kafka.codecs import decompress

NO_TIMESTAMP = -1

_HEAD = struct.Struct(">qiIbB")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")


class Message(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read(entry: memoryview) -> tuple[int, list[Message]]:
    """The codec of an entry, and its messages with the offsets and timestamps that a consumer gets.

    Raises ValueError if it is malformed, or does not match its checksum.
    """
    try:
        return _read(entry)
    except struct.error as error:
        raise ValueError("truncated message") from error


def _read(entry: memoryview) -> tuple[int, list[Message]]:
    message, magic, attributes, end = _message(entry, 0)
    if end != len(entry):
        raise ValueError(f"message of {end} bytes in an entry of {len(entry)}")
    # A wrapper's checksum covers its messages, so theirs are not checked.
    if zlib.crc32(entry[16:]) != int.from_bytes(entry[12:16], "big"):
        raise ValueError("wrong checksum")
    codec = attributes & CODEC
    if not codec:
        return codec, [message]
    if message.value is None:
        raise ValueError("compressed message without a value")

    section = memoryview(decompress(codec, message.value, magic))
    inner: list[Message] = []
    at = 0
    while at < len(section):
        each, its_magic, its_attributes, at = _message(section, at)
        if its_magic != magic or its_attributes & CODEC:
            raise ValueError("message inside a compressed one has another magic, or is compressed")
        inner.append(each)
        if len(inner) > MAX_BATCH_RECORDS:
            raise ValueError(f"compressed message with more than {MAX_BATCH_RECORDS} messages")
    if not inner:
        raise ValueError("compressed message without messages")
    if magic == 0:  # absolute offsets, no timestamps
        return codec, inner

    # Magic 1 has relative offsets, and the wrapper that of the last message. Old versions of librdkafka write 0 there;
    # then Java takes the offsets as absolute.
    base = message.offset - inner[-1].offset if message.offset else 0
    if base < 0:
        raise ValueError("offset of a compressed message is smaller than those inside")
    append_time = message.timestamp if attributes & LOG_APPEND_TIME else None
    return codec, [
        Message(base + offset, timestamp if append_time is None else append_time, key, value)
        for offset, timestamp, key, value in inner
    ]


def _message(data: memoryview, at: int) -> tuple[Message, int, int, int]:
    """The message at `at`, its magic, its attributes, and the end of it."""
    offset, size, _, magic, attributes = _HEAD.unpack_from(data, at)
    end = at + LOG_OVERHEAD + size
    at += _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = _LONG.unpack_from(data, at)
        at += _LONG.size
    elif magic != 0:
        raise ValueError(f"unknown magic: {magic}")
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    if at != end:
        raise ValueError("message size does not match its key and value")
    return Message(offset, timestamp, key, value), magic, attributes, end


def _bytes(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _INT.unpack_from(data, at)
    at += _INT.size
    if size == -1:
        return None, at
    if size < 0 or at + size > len(data):
        raise ValueError("key or value exceeds its message")
    return bytes(data[at : at + size]), at + size
