"""Encodes and decodes Kafka's record batches.

Shares no code with the product, whose output it verifies. It is stricter than Kafka's clients, which repair or hide
what must be compared: invalid UTF-8 in header names, null header values, offset gaps.

     0 base offset 8 | 8 length 4 | 12 leader epoch 4 | 16 magic 1 | 17 crc 4 | 21 attributes 2 | 23 last offset delta 4
    27 base timestamp 8 | 35 max timestamp 8 | 43 producer id 8 | 51 producer epoch 2 | 53 base sequence 4 | 57 count 4
    61 records, compressed as a whole
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cramjam
from crc32c import crc32c

from lab.errors import LabError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # the index is Kafka's number of the codec
NO_PRODUCER = (-1, -1, -1)

_HEADER = struct.Struct(">qiibIhiqqqhii")
_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_LZ4_FRAME = bytes.fromhex("04224d18 60 40 82")  # independent blocks (Kafka requires them) of 64 KB, no checksums
_LZ4_BLOCK = 65536
_TIME_TYPE, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

Headers = tuple[tuple[bytes, bytes | None], ...]
Fields = tuple[int, bytes | None, bytes | None, Headers]


class Record(NamedTuple):
    """A header's name is bytes: producers may write invalid UTF-8."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Header:
    """A batch without its records."""

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
    count: int

    @classmethod
    def of(cls, batch: bytes) -> "Header":
        return cls(*_HEADER.unpack_from(batch))

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & _TIME_TYPE)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon(self) -> bool:
        """Set by the cleaner for a batch with tombstones; the base timestamp is then their delete horizon."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def gaps(self) -> int:
        """How many records compaction has removed from the batch."""
        return self.last_offset_delta + 1 - self.count


def split(raw: bytes) -> Iterator[bytes]:
    """The complete batches of a Fetch response; the last one may be truncated."""
    position = 0
    while position + 17 <= len(raw):
        end = position + 12 + int.from_bytes(raw[position + 8 : position + 12])
        if raw[position + 16] != 2:
            raise LabError(f"batch with magic {raw[position + 16]}: expected magic 2")
        if end > len(raw):
            return
        yield raw[position:end]
        position = end


def encode(
    records: Sequence[Record],
    codec: str = "none",
    *,
    producer: tuple[int, int, int] = NO_PRODUCER,
    base_timestamp: int | None = None,
    deltas: Sequence[int] | None = None,
    attributes: int = 0,
    xerial: bool = True,
) -> bytes:
    """One batch. `producer` is id, epoch and sequence, `deltas` are the records' offset deltas.

    `attributes` are added to the codec bits. Without `xerial`, snappy has no framing, like librdkafka's.
    """
    base = records[0].timestamp if base_timestamp is None else base_timestamp
    numbers = range(len(records)) if deltas is None else deltas
    plain = b"".join(_record(record, delta, base) for record, delta in zip(records, numbers, strict=True))
    latest = max(record.timestamp for record in records)
    tail = struct.pack(
        ">hiqqqhii", CODECS.index(codec) | attributes, numbers[-1], base, latest, *producer, len(records)
    ) + compress(plain, codec, xerial=xerial)
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c(tail)) + tail


def decode(batch: bytes) -> tuple[list[int], list[Fields]]:
    """The records' offsets and the records. Any inconsistency, to the byte, is an error."""
    header = Header.of(batch)
    if crc32c(batch[21:]) != header.crc:
        raise LabError(f"batch at offset {header.base_offset}: wrong checksum")
    plain = decompress(batch[61:], header.codec)
    offsets: list[int] = []
    found: list[Fields] = []
    fixed = header.max_timestamp if header.log_append_time else None
    position = 0
    try:
        for _ in range(header.count):
            size, position = read_varint(plain, position)
            end = position + size
            delta, position = read_varint(plain, position + 1)  # after the attributes, one unused byte
            timestamp = header.base_timestamp + delta if fixed is None else fixed
            delta, position = read_varint(plain, position)
            key, position = _bytes(plain, position)
            value, position = _bytes(plain, position)
            headers: Headers = ()
            if plain[position]:
                headers, position = _headers(plain, position)
            else:
                position += 1
            if position != end:
                raise LabError(f"record at offset {header.base_offset + delta}: wrong length")
            offsets.append(header.base_offset + delta)
            found.append((timestamp, key, value, headers))
    except IndexError:
        position = -1
    if position != len(plain):
        raise LabError(f"batch at offset {header.base_offset}: its content is not exactly {header.count} records")
    return offsets, found


def is_abort(batch: bytes) -> bool:
    """Whether a control batch aborts its transaction; its record's key is (version, type)."""
    records = decode(batch)[1]  # empty if compaction has left only the batch's header
    return bool(records) and (records[0][1] or b"")[2:4] == b"\x00\x00"


def compress(plain: bytes, codec: str, *, xerial: bool = True) -> bytes:
    if codec == "none":
        return plain
    if codec == "gzip":
        packer = zlib.compressobj(wbits=31)
        return packer.compress(plain) + packer.flush()
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(plain))
        return _XERIAL + len(block).to_bytes(4) + block if xerial else block
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(plain))
    blocks = [plain[at : at + _LZ4_BLOCK] for at in range(0, len(plain), _LZ4_BLOCK)]
    return _LZ4_FRAME + b"".join(map(_lz4_block, blocks)) + bytes(4)


def decompress(packed: bytes, codec: str) -> bytes:
    if codec == "none":
        return packed
    if codec == "gzip":
        return zlib.decompress(packed, wbits=31)
    if codec == "lz4":
        return bytes(cramjam.lz4.decompress(packed))
    if codec == "zstd":
        return bytes(cramjam.zstd.decompress(packed))
    if not packed.startswith(_XERIAL[:8]):
        return bytes(cramjam.snappy.decompress_raw(packed))
    blocks = []
    position = len(_XERIAL)
    while position < len(packed):
        size = int.from_bytes(packed[position : position + 4])
        blocks.append(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + size])))
        position += 4 + size
    return b"".join(blocks)


def _lz4_block(plain: bytes) -> bytes:
    packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    if len(packed) < len(plain):
        return len(packed).to_bytes(4, "little") + packed
    return (len(plain) | 1 << 31).to_bytes(4, "little") + plain  # highest bit: uncompressed


def _record(record: Record, delta: int, base_timestamp: int) -> bytes:
    parts = [b"\x00", write_varint(record.timestamp - base_timestamp), write_varint(delta), _field(record.key)]
    parts += [_field(record.value), write_varint(len(record.headers))]
    for name, value in record.headers:
        parts += [_field(name), _field(value)]
    body = b"".join(parts)
    return write_varint(len(body)) + body


def _field(value: bytes | None) -> bytes:
    return b"\x01" if value is None else write_varint(len(value)) + value


def write_varint(number: int) -> bytes:
    """Kafka's signed varint or varlong."""
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number and the position after it."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return number >> 1 ^ -(number & 1), position


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(data):
        raise IndexError
    return data[position:end], end


def _headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    found = []
    for _ in range(count):
        name, position = _bytes(data, position)
        value, position = _bytes(data, position)
        if name is None:
            raise LabError("record header without a name: brokers must reject it")
        found.append((name, value))
    return tuple(found), position
