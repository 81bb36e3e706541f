"""The loops over batches and records that are too slow in Python, compiled by Numba.

Small batches are coalesced into one, as a broker's work is mostly per batch. A record is `length varint |
attributes i8 | timestampDelta varlong | offsetDelta varint | rest`: only the fields before the rest are rewritten.

Indexes are unsigned: else Numba would check at every access whether an index is negative. Nothing here raises, and
nothing reads or writes outside the arrays: malformed batches are left to rebuild.py. Importing this module loads the
compiled code, or compiles it, once per machine (a few seconds).
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from twinlog import cache


def _folder() -> str:
    """Numba needs a writable folder and runs the code in it, so no other user may have write access.

    Child processes inherit the setting, also of a private folder.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(named) if named else cache.cache_folder() / "native"
    return str(folder if cache.usable(folder) else cache.private_copy(folder))


os.environ["NUMBA_CACHE_DIR"] = _folder()

import numpy as np  # noqa: E402  # after NUMBA_CACHE_DIR is set
from numba import njit, u8  # noqa: E402

# The columns of a table of batches: start and end, and fields of the header.
AT, END, CRC, BASE, LAST, COUNT, ATTRIBUTES, EPOCH = range(8)
COLUMNS: Final = 8

_HEADER: Final = 61
_CODEC_OR_HORIZON: Final = 0x47
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _KNOWN = 0x08, 0x10, 0x20, 0x7F
_SMALLEST_REST: Final = 3  # the lengths of key and value, the number of headers
_MAX_OFFSET: Final = (1 << 63) - (1 << 32)  # as in batch.py
GROWTH: Final = 16  # bytes by which a record may grow: its varints may become longer

_F = TypeVar("_F", bound=Callable[..., Any])


def _compiled(signature: str | None = None) -> Callable[[_F], _F]:
    compiler: Any = njit
    made: Callable[[_F], _F] = compiler(signature, cache=True, nogil=True, boundscheck=False)
    return made


@_compiled()
def _uint(memory: Any, at: Any, size: Any) -> Any:
    value = u8(0)
    for each in range(u8(size)):
        value = value << u8(8) | u8(memory[u8(at) + each])
    return value


@_compiled()
def _int32(memory: Any, at: Any) -> Any:
    return np.int64(np.int32(_uint(memory, at, 4)))


@_compiled()
def _varint(memory: Any, at: Any, end: Any) -> Any:
    """The number and its end; an end of 0 if it is truncated by `end` or has more than 64 bits."""
    value = u8(0)
    shift = u8(0)
    while at < end and shift < u8(64):
        byte = u8(memory[at])
        at += u8(1)
        value |= (byte & u8(127)) << shift
        if byte < u8(128):
            return value, at
        shift += u8(7)
    return value, u8(0)


@_compiled()
def _varint_size(value: Any) -> Any:
    size = u8(1)
    while value > u8(127):
        value >>= u8(7)
        size += u8(1)
    return size


@_compiled()
def _put_varint(memory: Any, at: Any, value: Any) -> Any:
    while value > u8(127):
        memory[at] = np.uint8(value & u8(127) | u8(128))
        value >>= u8(7)
        at += u8(1)
    memory[at] = np.uint8(value)
    return at + u8(1)


@_compiled("i8(u1[::1], i8, i8, b1, i8[:, ::1])")
def scan(log: Any, at: int, wanted: int, committed: bool, table: Any) -> Any:
    """Fills the table with the leading batches from `at` on that `coalesce_batches` can take; returns their number.

    These are uncompressed, of magic 2, and consecutive from offset `wanted` on. Transactional batches are included if
    everything in the log is `committed`. Those without records to copy (markers, empty batches) get COUNT 0.
    """
    rows = 0
    size = log.shape[0]
    while rows < table.shape[0] and size - at >= _HEADER:
        length = _int32(log, at + 8)
        end = at + 12 + length
        if length < _HEADER - 12 or end > size or log[u8(at + 16)] != 2:
            break
        base = np.int64(_uint(log, at, 8))
        attributes = np.int64(_uint(log, at + 21, 2))
        last = base + _int32(log, at + 23)
        count = _int32(log, at + 57)
        if attributes & _CODEC_OR_HORIZON or attributes > _KNOWN or base < wanted or base > _MAX_OFFSET:
            break
        if last < base or not 0 <= count <= last - base + 1:
            break
        if attributes & _TRANSACTIONAL and not committed:
            break
        if attributes & _CONTROL:
            count = 0
        table[rows, 0] = at
        table[rows, 1] = end
        table[rows, 2] = np.int64(_uint(log, at + 17, 4))
        table[rows, 3] = base
        table[rows, 4] = last
        table[rows, 5] = count
        table[rows, 6] = attributes
        table[rows, 7] = _int32(log, at + 12)
        rows += 1
        at = end
        wanted = last + 1
    return rows


@_compiled("Tuple((i8, i8, i8, i8, i8))(u1[::1], i8[:, ::1], i8, i8, i8, u1[::1], i8[::1])")
def coalesce_batches(  # noqa: PLR0915  # one loop of 20 ns per record
    log: Any, table: Any, row: int, rows: int, large: int, coalesced: Any, offsets: Any
) -> Any:
    """Copies the records of the batches from `row` on, as many as fit, into `coalesced` after space for a header.

    Stops at a batch of `large` bytes or more. Returns the row after the last batch taken, the size of the new batch,
    its number of records, their first and their largest timestamp. `offsets` is filled with their source offsets.
    """
    size = u8(_HEADER)
    count = np.int64(0)
    first_time = latest = np.int64(0)
    while row < rows:
        records = table[row, 5]
        at, end = u8(table[row, 0]), u8(table[row, 1])
        if records and (end - at >= u8(large) or size + (end - at) + u8(GROWTH * records) > u8(coalesced.shape[0])):
            break
        if count + records > offsets.shape[0]:
            break
        base, last = table[row, 3], table[row, 4]
        append_time = table[row, 6] & _APPEND_TIME
        base_time = np.int64(_uint(log, at + u8(27), 8))
        max_time = np.int64(_uint(log, at + u8(35), 8))
        before = size, count, first_time, latest
        previous = np.int64(-1)
        at += u8(_HEADER)
        valid = True
        for _ in range(records):
            length, at = _varint(log, at, end)
            stop = at + (length >> u8(1))
            if not at or length & u8(1) or length > u8(1 << 32) or stop > end or at == stop:
                valid = False
                break
            attributes = log[at]
            delta, at = _varint(log, at + u8(1), stop)
            if at:
                offset_delta, at = _varint(log, at, stop)
            if not at or offset_delta & u8(1) or stop - at < u8(_SMALLEST_REST):
                valid = False
                break
            step = np.int64(offset_delta >> u8(1))
            if step <= previous or step > last - base:  # not their sum: it may have more than 64 bits
                valid = False
                break
            previous = step
            time = max_time if append_time else base_time + (np.int64(delta >> u8(1)) ^ -np.int64(delta & u8(1)))
            if not count:
                first_time = latest = time
            latest = max(latest, time)
            distance = time - first_time
            if (time < first_time) != (distance < 0):
                valid = False  # more than 64 bits apart
                break
            delta = u8(distance << 1 ^ distance >> 63)
            offset_delta = u8(count) << u8(1)
            rest = stop - at
            length = u8(1) + _varint_size(delta) + _varint_size(offset_delta) + rest
            size = _put_varint(coalesced, size, length << u8(1))
            coalesced[size] = attributes
            size = _put_varint(coalesced, size + u8(1), delta)
            size = _put_varint(coalesced, size, offset_delta)
            for each in range(rest):
                coalesced[size + each] = log[at + each]
            size += rest
            at = stop
            offsets[count] = base + step
            count += 1
        if records and (not valid or at != end):
            size, count, first_time, latest = before
            break
        row += 1
    return row, np.int64(size), count, first_time, latest
