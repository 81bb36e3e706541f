"""A record batch as it travels: what its header says, and the few fields that are rewritten in place.

Nothing here opens a batch. Layout (magic 2, big-endian):

    0 baseOffset i64 | 8 length i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16 |
    23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43 producerId i64 | 51 producerEpoch i16 |
    53 baseSequence i32 | 57 recordCount i32 | 61 records
"""

import struct
from typing import Final

from crc32c import crc32c

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
PREFIX: Final = struct.Struct(
    ">qiib"
)  # what every magic has in the same place; the third field is a CRC before magic 2
LOG_OVERHEAD: Final = 12  # baseOffset and length, which `length` does not count
SMALLEST: Final = 17  # up to and including the magic byte
# No log is so long. What is added to an offset below it (a batch's records) still fits into 64 bits.
FARTHEST: Final = (1 << 63) - (1 << 32)
# A batch that is opened takes memory for each of its records: one that claims to have more is not believed.
MOST_RECORDS: Final = 1 << 21

CODEC: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
# A batch with one of these means something that its records must be rewritten for.
NOT_AS_IT_IS: Final = LOG_APPEND_TIME | DELETE_HORIZON

_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_LARGEST_SEQUENCE: Final = 2**31 - 1
_U32: Final = struct.Struct(">I")
_ZERO: Final = bytes(8)


def intact(batch: memoryview, crc: int) -> bool:
    """Whether the source's own checksum holds. Without this look a damaged batch would get a fresh, valid one."""
    return crc32c(batch[21:]) == crc


def stamp(batch: memoryview, attributes: int, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Makes the batch ours, in place: offset 0 (brokers refuse others), our producer, no transaction, new checksum."""
    batch[0:8] = _ZERO
    if attributes & TRANSACTIONAL:
        _ATTRIBUTES.pack_into(batch, 21, attributes & ~TRANSACTIONAL)
    _PRODUCER.pack_into(batch, 43, producer_id, producer_epoch, sequence)
    _U32.pack_into(batch, 17, crc32c(batch[21:]))


def next_sequence(sequence: int, count: int) -> int:
    """Sequences count records and start again at 0 after the largest int32, as every Kafka producer's do."""
    if sequence > _LARGEST_SEQUENCE - count:
        return count - (_LARGEST_SEQUENCE - sequence) - 1
    return sequence + count
