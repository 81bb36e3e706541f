"""The header of a record batch, and the few fields of it that are rewritten in place.

Records are not decoded here. Layout (magic 2, big-endian):

    0 baseOffset i64 | 8 length i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16 |
    23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43 producerId i64 | 51 producerEpoch i16 |
    53 baseSequence i32 | 57 recordCount i32 | 61 records
"""

import struct
from typing import Final

from crc32c import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
PREFIX: Final = struct.Struct(">qiib")  # at the same place in every magic; the third field is a CRC before magic 2
LOG_OVERHEAD: Final = 12  # baseOffset and length, which `length` does not include
MIN_SIZE: Final = 17  # up to and including the magic byte
# Larger offsets are rejected. An offset plus the records of a batch still fits into 64 bits.
MAX_OFFSET: Final = (1 << 63) - (1 << 32)
# A batch whose header announces more is rejected: decoding needs memory for each record.
MAX_BATCH_RECORDS: Final = 1 << 21

CODEC: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
# The records of a batch with one of these attributes must be rewritten.
NEEDS_REBUILD: Final = LOG_APPEND_TIME | DELETE_HORIZON

_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_LARGEST_SEQUENCE: Final = 2**31 - 1
_U32: Final = struct.Struct(">I")
_ZERO: Final = bytes(8)


def crc_valid(batch: memoryview, crc: int) -> bool:
    """Whether the batch matches its checksum. A damaged batch must not get a new, valid one from `stamp`."""
    return crc32c(batch[21:]) == crc


def stamp(batch: memoryview, attributes: int, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Sets, in place: offset 0 (brokers reject others), our producer, no transaction, new checksum."""
    batch[0:8] = _ZERO
    if attributes & TRANSACTIONAL:
        _ATTRIBUTES.pack_into(batch, 21, attributes & ~TRANSACTIONAL)
    _PRODUCER.pack_into(batch, 43, producer_id, producer_epoch, sequence)
    _U32.pack_into(batch, 17, crc32c(batch[21:]))


def next_sequence(sequence: int, count: int) -> int:
    """Sequences count records and wrap to 0 after the largest int32, as in every Kafka producer."""
    if sequence > _LARGEST_SEQUENCE - count:
        return count - (_LARGEST_SEQUENCE - sequence) - 1
    return sequence + count


def sequence_distance(start: int, end: int) -> int:
    """The number of records from sequence `start` to `end`; negative if `end` is the older one."""
    ahead = (end - start) % (_LARGEST_SEQUENCE + 1)
    return ahead if ahead <= _LARGEST_SEQUENCE // 2 else ahead - _LARGEST_SEQUENCE - 1


def from_offset(records: memoryview, offset: int) -> memoryview:
    """Without the leading batches that end before this offset."""
    at, size = 0, len(records)
    while size - at >= MIN_SIZE:
        base, length, _, magic = PREFIX.unpack_from(records, at)
        end = at + LOG_OVERHEAD + length
        if length <= 0 or end > size:
            break
        last = base + HEADER.unpack_from(records, at)[6] if magic == 2 and end - at >= HEADER.size else base
        if last >= offset:
            break
        at = end
    return records[at:] if size - at >= MIN_SIZE else records[:0]
