"""The rebuild lane: new batches out of the records of those that cannot travel as they are.

A record is `length varint | attributes i8 | timestampDelta varlong | offsetDelta varint | rest`. Only what stands
before the rest is written anew; the rest (key, value, headers) is never looked at, so it cannot change.

Records pass through three lists side by side (timestamps, offsets, rests): no object is made per record. This is the
hot path of a partition full of batches that the loom leaves, hence the tables and the long function bodies.
"""

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twinlog.kafka import legacy
from twinlog.kafka.batch import (
    CODEC,
    CONTROL,
    FARTHEST,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MOST_RECORDS,
    SMALLEST,
)
from twinlog.kafka.codecs import NONE, compress, decompress
from twinlog.kafka.records import UNSIGNED, nullable, opened, read_unsigned
from twinlog.kafka.records import signed as signed_varint

MAX_RECORDS: Final = 100_000
# A kilobyte may expand to megabytes, and one batch may become thousands: so not all of an answer is opened in one go.
AT_ONCE: Final = 64 << 20  # bytes, as they are when decompressed
BATCHES_AT_ONCE: Final = 10_000
_PER_RECORD: Final = 128  # that each record takes besides its bytes

_SMALLEST_REST: Final = 3  # the lengths of key and value, the number of headers
_INT64: Final = range(-(1 << 63), 1 << 63)
# Above this, a view of a record's bytes is cheaper than a copy: Python's own allocator serves up to 512 bytes.
_COPIED: Final = 450

_NEAR: Final = 1 << 13  # the varints of one and two bytes: -_NEAR up to, not including, _NEAR
# Index n, which may be negative: the signed varint n.
_SIGNED: Final = UNSIGNED[0::2] + UNSIGNED[:0:-2]
# Index n: the length n as a varint, and attributes 0.
_HEADS: Final = [UNSIGNED[n << 1] + b"\0" for n in range(_NEAR)]
_UNLIMITED: Final = 1 << 62


@dataclass(slots=True)
class Rebuilt:
    """One new batch, and what became of whose records.

    `data` is whole but for what every batch gets before it is sent: our producer's fields and the checksum, which is 0.
    """

    data: bytearray
    first: int  # source offsets of its first and last record
    last: int
    count: int
    max_timestamp: int
    offsets: "array[int] | None"  # every record's source offset; None where there is no gap between first and last


def rebuild(
    batches: Sequence[memoryview],
    *,
    start: int,
    codec: int | None,
    max_bytes: int,
    max_records: int = MAX_RECORDS,
    now_ms: int = legacy.NO_TIMESTAMP,
    level: int | None = None,
    skip: AbstractSet[int] = frozenset(),
) -> list[Rebuilt]:
    """The records from offset `start` on but for those in `skip`, in new batches.

    A batch has at most `max_bytes` before and after compression; a record that is larger gets one of its own.
    `batches` are consecutive whole batches of one partition, of any magic, without control batches; the checksums of
    magic 2 were looked at. With `codec` None the source's is kept, and batches of different codecs are not merged.
    Messages from a time without timestamps get `now_ms`, as MM2's producer gives them. Raises ValueError for what is
    malformed: then nothing was rebuilt.
    """
    limits = _Limits(max_bytes, max_records, level, skip, _UNLIMITED, _UNLIMITED)
    return _rebuild(batches, start, codec, now_ms, limits)[0]


def rebuild_some(
    batches: Sequence[memoryview],
    *,
    start: int,
    codec: int | None,
    max_bytes: int,
    max_records: int = MAX_RECORDS,
    now_ms: int = legacy.NO_TIMESTAMP,
    level: int | None = None,
    skip: AbstractSet[int] = frozenset(),
    at_once: int = AT_ONCE,
    batches_at_once: int = BATCHES_AT_ONCE,
) -> tuple[list[Rebuilt], int | None]:
    """As `rebuild`, but no more than is good in one go; and the offset from which the rest is left, if one is."""
    limits = _Limits(max_bytes, max_records, level, skip, at_once, batches_at_once)
    return _rebuild(batches, start, codec, now_ms, limits)


def _rebuild(
    batches: Sequence[memoryview], start: int, codec: int | None, now_ms: int, limits: "_Limits"
) -> tuple[list[Rebuilt], int | None]:
    rebuilt: list[Rebuilt] = []
    columns = _Columns()
    target = NONE if codec is None else codec
    last = -1  # the largest source offset so far
    for number, view in enumerate(batches, 1):
        if codec is None and (source := _codec(view)) != target:
            if (left := _pack(columns, target, limits, rebuilt)) is not None:
                return rebuilt, left
            columns.clear()
            target = source
        last = columns.add(view, start, last, now_ms)
        if columns.cost >= limits.at_once and number < len(batches) and last >= start:
            left = _pack(columns, target, limits, rebuilt)
            return rebuilt, last + 1 if left is None else left
    return rebuilt, _pack(columns, target, limits, rebuilt)


def split(batch: memoryview, max_bytes: int, *, now_ms: int = legacy.NO_TIMESTAMP) -> list[Rebuilt]:
    """The same records in batches of at most `max_bytes`, where one record alone is not larger."""
    return rebuild((batch,), start=0, codec=None, max_bytes=max_bytes, now_ms=now_ms)


def recompress(batch: memoryview, codec: int, level: int | None = None) -> bytearray:
    """The same batch (magic 2) with another codec, its records unopened. The checksum is 0: it is stamped later."""
    return recompress_sized(batch, codec, level)[0]


def recompress_sized(batch: memoryview, codec: int, level: int | None = None) -> tuple[bytearray, int]:
    """And the size of its records when decompressed."""
    header = opened(batch)
    if header.attributes & CODEC == codec or header.records == 0:
        return bytearray(batch), len(batch)
    plain = decompress(header.attributes & CODEC, batch[HEADER.size :])
    section = compress(codec, plain, level)
    data = bytearray(HEADER.size) + section
    attributes = header.attributes & ~CODEC | codec
    HEADER.pack_into(data, 0, *header._replace(length=len(data) - LOG_OVERHEAD, crc=0, attributes=attributes))
    return data, len(plain)


class _Limits(NamedTuple):
    max_bytes: int
    max_records: int
    level: int | None
    skip: AbstractSet[int]
    at_once: int
    batches_at_once: int


@dataclass(slots=True)
class _Columns:
    """Records that will share batches, side by side."""

    stamps: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    rests: list[bytes | memoryview] = field(default_factory=list)
    attributes: dict[int, int] = field(default_factory=dict)  # by index, those few that are not 0
    cost: int = 0  # of all that was ever added

    def clear(self) -> None:
        self.stamps.clear()
        self.offsets.clear()
        self.rests.clear()
        self.attributes.clear()

    def drop(self, skip: AbstractSet[int]) -> None:
        kept = [index for index, offset in enumerate(self.offsets) if offset not in skip]
        self.stamps[:] = [self.stamps[index] for index in kept]
        self.offsets[:] = [self.offsets[index] for index in kept]
        self.rests[:] = [self.rests[index] for index in kept]
        self.attributes = {new: self.attributes[old] for new, old in enumerate(kept) if old in self.attributes}

    def add(self, view: memoryview, start: int, last: int, now_ms: int) -> int:
        """Appends a batch's records from `start` on, and returns the last one's offset, or `last` if it has none."""
        if len(view) < SMALLEST:
            raise ValueError("the batch is cut off")
        if view[16] < 2:
            return self._add_legacy(view, start, last, now_ms)
        header = opened(view)
        if header.attributes & CONTROL:
            raise ValueError("a control batch has no records")
        codec = header.attributes & CODEC
        base, count = header.base_offset, header.records
        if not 0 <= count <= MOST_RECORDS:
            raise ValueError(f"a batch of {count} records (the most are {MOST_RECORDS})")
        if base > FARTHEST:
            raise ValueError(f"no log has an offset {base}")
        if count and base <= last:
            raise ValueError(f"offset {base} after {last}")
        section: bytes | memoryview = view
        at = HEADER.size
        if codec != NONE:
            section, at = decompress(codec, view[at:]), 0
        section = memoryview(section) if len(section) > _COPIED * count else bytes(section)
        self.cost += len(section) + _PER_RECORD * count

        before = len(self.offsets)
        delta = self._add_records(section, at, count, base, header.base_timestamp, start)
        if delta > header.last_offset_delta:
            raise ValueError(f"a record at {delta} in a batch that ends at {header.last_offset_delta}")
        if header.attributes & LOG_APPEND_TIME:
            self.stamps[before:] = [header.max_timestamp] * (len(self.offsets) - before)
        return base + delta if count else last

    def _add_records(
        self, section: bytes | memoryview, at: int, count: int, base: int, base_timestamp: int, start: int
    ) -> int:
        """Appends the records from offset `start` on, and returns the last one's offsetDelta, or -1."""
        stamp, offset, rest = self.stamps.append, self.offsets.append, self.rests.append
        least = (start - base) << 1
        previous = -1
        try:
            for _ in range(count):
                # Numbers of one and two bytes are read in place: a call costs more than all else here.
                size = section[at]
                at += 1
                if size > 127:
                    if (byte := section[at]) < 128:
                        size = size & 127 | byte << 7
                        at += 1
                    else:
                        size, at = read_unsigned(section, at - 1, 32)
                end = at + (size >> 1)
                attributes = section[at]
                time = section[at + 1]
                at += 2
                if time > 127:
                    if (byte := section[at]) < 128:
                        time = time & 127 | byte << 7
                        at += 1
                    else:
                        time, at = read_unsigned(section, at - 1, 64)
                place = section[at]
                at += 1
                if place > 127:
                    if (byte := section[at]) < 128:
                        place = place & 127 | byte << 7
                        at += 1
                    else:
                        place, at = read_unsigned(section, at - 1, 32)
                # Odd numbers are negative ones, and two even ones compare as their halves do.
                if (size | place) & 1 or place <= previous or end - at < _SMALLEST_REST:
                    raise ValueError("a record's length or offset is wrong")
                previous = place
                if place >= least:
                    if attributes:
                        self.attributes[len(self.rests)] = attributes
                    stamp(base_timestamp + (time >> 1 ^ -(time & 1)))
                    offset(base + (place >> 1))
                    rest(section[at:end])
                at = end
        except IndexError as error:
            raise ValueError("the records are cut off") from error
        if at != len(section):
            raise ValueError("the records do not end where the batch ends")
        return previous >> 1

    def _add_legacy(self, view: memoryview, start: int, last: int, now_ms: int) -> int:
        for offset, timestamp, key, value in legacy.read(view)[1]:
            if offset <= last or offset > FARTHEST:
                raise ValueError(f"offset {offset} after {last}")
            last = offset
            self.cost += _PER_RECORD + len(key or b"") + len(value or b"")
            if offset >= start:
                self.stamps.append(now_ms if timestamp == legacy.NO_TIMESTAMP else timestamp)
                self.offsets.append(offset)
                self.rests.append(nullable(key) + nullable(value) + b"\0")
        return last


def _codec(view: memoryview) -> int:
    if len(view) <= 22:
        raise ValueError("the batch is cut off")
    return view[22 if view[16] >= 2 else 17] & CODEC


def _pack(columns: _Columns, codec: int, limits: _Limits, rebuilt: list[Rebuilt]) -> int | None:
    """Adds new batches of the columns' records to `rebuilt`; the offset of the first record that is left, if any is."""
    if limits.skip:
        columns.drop(limits.skip)
    at, end = 0, len(columns.stamps)
    while at < end:
        if len(rebuilt) >= limits.batches_at_once:
            return columns.offsets[at]
        data, next_at = _joined(columns, at, min(end, at + limits.max_records), limits.max_bytes)
        rebuilt += _closed(columns, at, next_at, data, codec, limits)
        at = next_at
    return None


def _joined(columns: _Columns, at: int, end: int, max_bytes: int) -> tuple[bytearray, int]:
    """Room for a header and as many of the records from `at` to `end` as one batch holds; and the next one's index."""
    stamps, rests = columns.stamps, columns.rests
    signed, heads, near = _SIGNED, _HEADS, _NEAR
    base = stamps[at]
    parts: list[bytes | memoryview] = [bytes(HEADER.size)]
    total = HEADER.size
    count = 0
    for index in range(at, end):
        rest = rests[index]
        delta = stamps[index] - base
        if -near <= delta < near:
            time = signed[delta]
        elif delta in _INT64:
            time = signed_varint(delta)
        else:
            break  # too far from the first one's time
        place = signed[count] if count < near else signed_varint(count)
        length = 1 + len(time) + len(place) + len(rest)
        head = heads[length] if length < near else signed_varint(length) + b"\0"
        total += len(head) - 1 + length
        if total > max_bytes and count:
            break
        parts += (head, time, place, rest)
        count += 1
    for index, attributes in columns.attributes.items():
        if at <= index < at + count:
            part = 1 + 4 * (index - at)
            parts[part] = bytes(parts[part])[:-1] + bytes((attributes,))
    return bytearray().join(parts), at + count


def _closed(columns: _Columns, at: int, end: int, data: bytearray, codec: int, limits: _Limits) -> list[Rebuilt]:
    """The batch of the records from `at` to `end`; or two, four ... where compression has made it too large."""
    if codec != NONE:
        data[HEADER.size :] = compress(codec, memoryview(data)[HEADER.size :], limits.level)
        if len(data) > limits.max_bytes and end - at > 1:
            middle = (at + end) // 2
            left, _ = _joined(columns, at, middle, _UNLIMITED)
            right, _ = _joined(columns, middle, end, _UNLIMITED)
            return [
                *_closed(columns, at, middle, left, codec, limits),
                *_closed(columns, middle, end, right, codec, limits),
            ]
    stamps, offsets = columns.stamps[at:end], columns.offsets
    count, first, last = end - at, offsets[at], offsets[end - 1]
    latest = max(stamps)
    if stamps[0] not in _INT64 or latest not in _INT64:
        raise ValueError("a timestamp of more than 64 bits")
    size = len(data) - LOG_OVERHEAD
    HEADER.pack_into(data, 0, 0, size, -1, 2, 0, codec, count - 1, stamps[0], latest, -1, -1, -1, count)
    gaps = array("q", offsets[at:end]) if last - first != count - 1 else None
    return [Rebuilt(data, first, last, count, latest, gaps)]
