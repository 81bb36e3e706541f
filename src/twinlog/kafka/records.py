"""Encodes and decodes batches record by record: for comparing logs, and for small topics.

The hot paths use native.py and rebuild.py instead.
"""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from twinlog.kafka import legacy_messages
from twinlog.kafka.batch import CODEC, HEADER, LOG_APPEND_TIME, LOG_OVERHEAD, MAX_BATCH_RECORDS, MIN_SIZE
from twinlog.kafka.codecs import decompress

# Precomputed varints of one and two bytes: index n is the unsigned number n.
UNSIGNED: list[bytes] = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14)]
_CONTINUED: list[bytes] = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14)]

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def decode(batch: memoryview) -> list[Record]:
    """The records of a complete batch of any magic, as a consumer gets them. Magic 2's checksum is not checked."""
    if len(batch) < MIN_SIZE:
        raise ValueError("truncated batch")
    if batch[16] < 2:
        return [Record(*message) for message in legacy_messages.read(batch)[1]]
    header = read_header(batch)
    section = ByteReader(decompress(header.attributes & CODEC, batch[HEADER.size :]))
    if not 0 <= header.records <= min(len(section.data), MAX_BATCH_RECORDS):
        raise ValueError(f"{header.records} records in {len(section.data)} bytes")
    records = [_record(section, header) for _ in range(header.records)]
    if section.at != len(section.data):
        raise ValueError("extra bytes after the last record")
    return records


def encode(records: Sequence[tuple[int, bytes | None, bytes | None, Headers]]) -> bytearray:
    """An uncompressed batch of (timestamp, key, value, headers) with its checksum, without a producer id."""
    if not records:
        raise ValueError("batch without records")
    base = records[0][0]
    section = bytearray()
    for delta, (timestamp, key, value, headers) in enumerate(records):
        fields = [b"\0", signed(timestamp - base), signed(delta), nullable(key), nullable(value), signed(len(headers))]
        for name, content in headers:
            fields += (nullable(name), nullable(content))
        body = b"".join(fields)
        section += signed(len(body)) + body
    batch = bytearray(HEADER.size) + section
    size, count = len(batch) - LOG_OVERHEAD, len(records)
    largest = max(record[0] for record in records)
    HEADER.pack_into(batch, 0, 0, size, -1, 2, 0, 0, count - 1, base, largest, -1, -1, -1, count)
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


class Header(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


def read_header(batch: memoryview) -> Header:
    """The header of a batch. Raises ValueError if the batch is incomplete or not of magic 2."""
    if len(batch) < HEADER.size:
        raise ValueError("truncated batch")
    header = Header(*HEADER.unpack_from(batch))
    if header.magic != 2:
        raise ValueError(f"unknown magic: {header.magic}")
    if header.length + LOG_OVERHEAD != len(batch):
        raise ValueError(f"batch of {header.length + LOG_OVERHEAD} bytes in {len(batch)}")
    return header


def unsigned(number: int) -> bytes:
    """An unsigned varint of any size."""
    if number < 1 << 14:
        return UNSIGNED[number]
    if number < 1 << 28:
        return _CONTINUED[number & 0x3FFF] + UNSIGNED[number >> 14]
    return _CONTINUED[number & 0x3FFF] + unsigned(number >> 14)


def signed(number: int) -> bytes:
    """Kafka's varint and varlong (zigzag): 0, -1, 1, -2 ... are the unsigned 0, 1, 2, 3 ..."""
    return unsigned(number << 1 if number >= 0 else ~(number << 1))


def nullable(data: bytes | None) -> bytes:
    """The length and the bytes; null is the length -1."""
    return b"\1" if data is None else unsigned(len(data) << 1) + data


def read_unsigned(data: bytes | memoryview, at: int, bits: int) -> tuple[int, int]:
    """The varint at `at`, before zigzag decoding, and the end of it. IndexError if it is truncated."""
    number = shift = 0
    while shift < bits:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >> bits:
                break
            return number, at
        shift += 7
    raise ValueError(f"varint of more than {bits} bits")


class ByteReader:
    """Reads the fields of a record section."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def signed(self, bits: int = 32) -> int:
        try:
            number, self.at = read_unsigned(self.data, self.at, bits)
        except IndexError as error:
            raise ValueError("truncated records") from error
        return number >> 1 ^ -(number & 1)

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise ValueError("field exceeds the records")
        found = self.data[self.at : end]
        self.at = end
        return found

    def nullable(self) -> bytes | None:
        size = self.signed()
        return None if size == -1 else self.take(size)


def _record(section: ByteReader, header: Header) -> Record:
    size = section.signed()
    end = section.at + size
    section.take(1)  # attributes, unused in magic 2
    timestamp = header.base_timestamp + section.signed(64)
    if header.attributes & LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    offset = header.base_offset + section.signed()
    key, value = section.nullable(), section.nullable()
    count = section.signed()
    if not 0 <= count <= len(section.data):
        raise ValueError(f"{count} headers in a record")
    headers = tuple((section.take(section.signed()), section.nullable()) for _ in range(count))
    if section.at != end:
        raise ValueError("record size does not match its fields")
    return Record(offset, timestamp, key, value, headers)
