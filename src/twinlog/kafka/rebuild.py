"""Rebuilds batches: packs the records of batches that cannot be forwarded unchanged into new ones.

A record is `length varint | attributes i8 | timestampDelta varlong | offsetDelta varint | rest`. Only the fields before
the rest are rewritten; the rest (key, value, headers) is never decoded, so it cannot change.

Records are kept in three parallel lists (timestamps, offsets, rests): no object is created per record. This is the hot
path for batches that native.py does not handle, hence the lookup tables and the long function bodies.
"""

from array import array
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twinlog.kafka import legacy_messages
from twinlog.kafka.batch import (
    CODEC,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAX_BATCH_RECORDS,
    MAX_OFFSET,
    MIN_SIZE,
)
from twinlog.kafka.codecs import NONE, compress, decompress
from twinlog.kafka.records import UNSIGNED, nullable, read_header, read_unsigned
from twinlog.kafka.records import signed as signed_varint

MAX_RECORDS: Final = 100_000
# A kilobyte may expand to megabytes, and one batch to thousands, so the work of one call is limited.
AT_ONCE: Final = 64 << 20  # decompressed bytes
BATCHES_AT_ONCE: Final = 10_000
_PER_RECORD: Final = 128  # bytes of overhead

_SMALLEST_REST: Final = 3  # the lengths of key and value, the number of headers
_INT64: Final = range(-(1 << 63), 1 << 63)
# Above this size a view of a record's bytes is cheaper than a copy: Python's small-object allocator ends at 512 bytes.
_COPIED: Final = 450

_NEAR: Final = 1 << 13  # the varints of one and two bytes: -_NEAR up to, not including, _NEAR
# Index n, also negative: the signed varint n.
_SIGNED: Final = UNSIGNED[0::2] + UNSIGNED[:0:-2]
# Index n: the length n as a varint, and attributes 0.
_HEADS: Final = [UNSIGNED[n << 1] + b"\0" for n in range(_NEAR)]
_UNLIMITED: Final = 1 << 62


@dataclass(slots=True)
class Rebuilt:
    """A new batch, and which source records it holds.

    `data` is complete except for the producer's fields and the checksum, which `stamp` sets before it is sent.
    """

    data: bytearray
    first: int  # source offsets of its first and last record
    last: int
    count: int
    max_timestamp: int
    offsets: "array[int] | None"  # source offset of every record; None without gaps


def rebuild(
    batches: Sequence[memoryview],
    *,
    start: int,
    codec: int | None,
    max_bytes: int,
    max_records: int = MAX_RECORDS,
    now_ms: int = legacy_messages.NO_TIMESTAMP,
    level: int | None = None,
    skip: AbstractSet[int] = frozenset(),
) -> list[Rebuilt]:
    """Packs the records from offset `start` on, except those in `skip`, into new batches.

    A batch has at most `max_bytes` before and after compression; a larger record gets its own batch. `batches` are
    consecutive complete batches of one partition, of any magic, without control batches; the checksums of magic 2 must
    have been checked. With `codec` None the source's codec is kept, and batches of different codecs are not merged.
    Messages without timestamps (magic 0) get `now_ms`, as from MM2's producer. Raises ValueError if any batch is
    malformed; then nothing is rebuilt.
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
    now_ms: int = legacy_messages.NO_TIMESTAMP,
    level: int | None = None,
    skip: AbstractSet[int] = frozenset(),
    at_once: int = AT_ONCE,
    batches_at_once: int = BATCHES_AT_ONCE,
) -> tuple[list[Rebuilt], int | None]:
    """As `rebuild`, but limited; also returns the offset of the first remaining record, if any remains."""
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


def split(batch: memoryview, max_bytes: int, *, now_ms: int = legacy_messages.NO_TIMESTAMP) -> list[Rebuilt]:
    """The same records in batches of at most `max_bytes`; a larger record gets its own batch."""
    return rebuild((batch,), start=0, codec=None, max_bytes=max_bytes, now_ms=now_ms)


def recompress(batch: memoryview, codec: int, level: int | None = None) -> tuple[bytearray, int]:
    """The same batch (magic 2) with another codec, without decoding its records, and their decompressed size.

    The checksum is left 0.
    """
    header = read_header(batch)
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
    """The fields of records, in parallel lists."""

    stamps: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    rests: list[bytes | memoryview] = field(default_factory=list)
    attributes: dict[int, int] = field(default_factory=dict)  # by index, without zeros
    cost: int = 0  # in bytes, of all records ever added

    def clear(self) -> None:
        self.stamps.clear()
        self.offsets.clear()
        self.rests.clear()
        self.attributes.clear()

    def drop(self, skip: AbstractSet[int]) -> None:
        remaining = [index for index, offset in enumerate(self.offsets) if offset not in skip]
        self.stamps[:] = [self.stamps[index] for index in remaining]
        self.offsets[:] = [self.offsets[index] for index in remaining]
        self.rests[:] = [self.rests[index] for index in remaining]
        self.attributes = {new: self.attributes[old] for new, old in enumerate(remaining) if old in self.attributes}

    def add(self, view: memoryview, start: int, last: int, now_ms: int) -> int:
        """Appends a batch's records from `start` on. Returns the offset of the last one, or `last` if it is empty."""
        if len(view) < MIN_SIZE:
            raise ValueError("truncated batch")
        if view[16] < 2:
            return self._add_legacy(view, start, last, now_ms)
        header = read_header(view)
        if header.attributes & CONTROL:
            raise ValueError("control batches cannot be rebuilt")
        codec = header.attributes & CODEC
        base, count = header.base_offset, header.records
        if not 0 <= count <= MAX_BATCH_RECORDS:
            raise ValueError(f"batch of {count} records (limit: {MAX_BATCH_RECORDS})")
        if base > MAX_OFFSET:
            raise ValueError(f"invalid offset {base}")
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
            raise ValueError(f"record at {delta} in a batch that ends at {header.last_offset_delta}")
        if header.attributes & LOG_APPEND_TIME:
            self.stamps[before:] = [header.max_timestamp] * (len(self.offsets) - before)
        return base + delta if count else last

    def _add_records(
        self, section: bytes | memoryview, at: int, count: int, base: int, base_timestamp: int, start: int
    ) -> int:
        """Appends the records from offset `start` on. Returns the offsetDelta of the last one, or -1."""
        stamp, offset, rest = self.stamps.append, self.offsets.append, self.rests.append
        least = (start - base) << 1
        previous = -1
        try:
            for _ in range(count):
                # Varints of one and two bytes are read inline: a call would cost more than everything else.
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
                offset_delta = section[at]
                at += 1
                if offset_delta > 127:
                    if (byte := section[at]) < 128:
                        offset_delta = offset_delta & 127 | byte << 7
                        at += 1
                    else:
                        offset_delta, at = read_unsigned(section, at - 1, 32)
                # In zigzag coding odd numbers are negative, and even ones compare like their halves.
                if (size | offset_delta) & 1 or offset_delta <= previous or end - at < _SMALLEST_REST:
                    raise ValueError("wrong length or offset of a record")
                previous = offset_delta
                if offset_delta >= least:
                    if attributes:
                        self.attributes[len(self.rests)] = attributes
                    stamp(base_timestamp + (time >> 1 ^ -(time & 1)))
                    offset(base + (offset_delta >> 1))
                    rest(section[at:end])
                at = end
        except IndexError as error:
            raise ValueError("truncated records") from error
        if at != len(section):
            raise ValueError("records do not end at the end of the batch")
        return previous >> 1

    def _add_legacy(self, view: memoryview, start: int, last: int, now_ms: int) -> int:
        for offset, timestamp, key, value in legacy_messages.read(view)[1]:
            if offset <= last or offset > MAX_OFFSET:
                raise ValueError(f"offset {offset} after {last}")
            last = offset
            self.cost += _PER_RECORD + len(key or b"") + len(value or b"")
            if offset >= start:
                self.stamps.append(now_ms if timestamp == legacy_messages.NO_TIMESTAMP else timestamp)
                self.offsets.append(offset)
                self.rests.append(nullable(key) + nullable(value) + b"\0")
        return last


def _codec(view: memoryview) -> int:
    if len(view) <= 22:
        raise ValueError("truncated batch")
    return view[22 if view[16] >= 2 else 17] & CODEC


def _pack(columns: _Columns, codec: int, limits: _Limits, rebuilt: list[Rebuilt]) -> int | None:
    """Adds new batches to `rebuilt`. Returns the offset of the first remaining record, if any remains."""
    if limits.skip:
        columns.drop(limits.skip)
    at, end = 0, len(columns.stamps)
    while at < end:
        if len(rebuilt) >= limits.batches_at_once:
            return columns.offsets[at]
        data, next_at = _join(columns, at, min(end, at + limits.max_records), limits.max_bytes)
        rebuilt += _finish(columns, at, next_at, data, codec, limits)
        at = next_at
    return None


def _join(columns: _Columns, at: int, end: int, max_bytes: int) -> tuple[bytearray, int]:
    """Space for a header, and as many of the records from `at` to `end` as fit; and the index of the next record."""
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
            break  # too far from the first timestamp
        offset_delta = signed[count] if count < near else signed_varint(count)
        length = 1 + len(time) + len(offset_delta) + len(rest)
        head = heads[length] if length < near else signed_varint(length) + b"\0"
        total += len(head) - 1 + length
        if total > max_bytes and count:
            break
        parts += (head, time, offset_delta, rest)
        count += 1
    for index, attributes in columns.attributes.items():
        if at <= index < at + count:
            part = 1 + 4 * (index - at)
            parts[part] = bytes(parts[part])[:-1] + bytes((attributes,))
    return bytearray().join(parts), at + count


def _finish(columns: _Columns, at: int, end: int, data: bytearray, codec: int, limits: _Limits) -> list[Rebuilt]:
    """The batch of the records from `at` to `end`; or two, four ... if compression has made it too large."""
    if codec != NONE:
        data[HEADER.size :] = compress(codec, memoryview(data)[HEADER.size :], limits.level)
        if len(data) > limits.max_bytes and end - at > 1:
            middle = (at + end) // 2
            left, _ = _join(columns, at, middle, _UNLIMITED)
            right, _ = _join(columns, middle, end, _UNLIMITED)
            return [
                *_finish(columns, at, middle, left, codec, limits),
                *_finish(columns, middle, end, right, codec, limits),
            ]
    stamps, offsets = columns.stamps[at:end], columns.offsets
    count, first, last = end - at, offsets[at], offsets[end - 1]
    latest = max(stamps)
    if stamps[0] not in _INT64 or latest not in _INT64:
        raise ValueError("timestamp of more than 64 bits")
    size = len(data) - LOG_OVERHEAD
    HEADER.pack_into(data, 0, 0, size, -1, 2, 0, codec, count - 1, stamps[0], latest, -1, -1, -1, count)
    gaps = array("q", offsets[at:end]) if last - first != count - 1 else None
    return [Rebuilt(data, first, last, count, latest, gaps)]
