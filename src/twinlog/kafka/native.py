"""The few loops over batches and records that Python is too slow for, compiled by Numba.

Many batches that wait in line become one, because a broker's work is mostly per batch. A record is `length varint |
attributes i8 | timestampDelta varlong | offsetDelta varint | rest`: only what stands before the rest is written anew.

Places in memory are unsigned: Numba would else look at every step whether an index is negative. Nothing here raises,
and nothing reads or writes outside the arrays: what cannot be understood is left to others. Importing this module loads
the compiled code, or compiles it, once per machine (a few seconds).
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twinlog.cache import cache_folder


def _folder() -> str:
    folder = cache_folder() / "native"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return str(folder)
    return tempfile.gettempdir()  # Numba insists on a place that it can write to


os.environ.setdefault("NUMBA_CACHE_DIR", _folder())

import numpy as np  # noqa: E402  # after the folder is named
from numba import njit, u8  # noqa: E402

# The columns of a table of batches: where each lies, and what its header says.
AT, END, CRC, BASE, LAST, COUNT, ATTRIBUTES, EPOCH = range(8)
COLUMNS: Final = 8

_HEADER: Final = 61
_CODEC_OR_HORIZON: Final = 0x47
_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _KNOWN = 0x08, 0x10, 0x20, 0x7F
_SMALLEST_REST: Final = 3  # the lengths of key and value, the number of headers
_FARTHEST: Final = (1 << 63) - (1 << 32)  # batch.FARTHEST: no offset is larger, and sums do not overflow
GROWTH: Final = 16  # bytes that a record may take more than before: each of its numbers may become longer

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
    """The number, and where it ends: 0 where it does not end before `end`, or has more than 64 bits."""
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
    """Fills the table with the batches that need no closer look, from `at` on; how many.

    Those are uncompressed, of magic 2, and from offset `wanted` on, one after the other. Transactional ones are among
    them if all that the log holds is `committed`. What is not copied (transaction markers, empty batches) has COUNT 0.
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
        if attributes & _CODEC_OR_HORIZON or attributes > _KNOWN or base < wanted or base > _FARTHEST:
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
def weave(  # noqa: PLR0915  # one loop: a record passes through it in 20 ns
    log: Any, table: Any, row: int, rows: int, large: int, woven: Any, offsets: Any
) -> Any:
    """The records of the batches from `row` on, as many as fit, in `woven` after room for a header.

    A batch of `large` bytes or more is not opened. Returns the row after the last that was taken, the size of what is
    woven, how many records that are, their first and their largest timestamp. `offsets` gets their source offsets.
    """
    size = u8(_HEADER)
    count = np.int64(0)
    first_time = latest = np.int64(0)
    while row < rows:
        records = table[row, 5]
        at, end = u8(table[row, 0]), u8(table[row, 1])
        if records and (end - at >= u8(large) or size + (end - at) + u8(GROWTH * records) > u8(woven.shape[0])):
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
        understood = True
        for _ in range(records):
            length, at = _varint(log, at, end)
            stop = at + (length >> u8(1))
            if not at or length & u8(1) or length > u8(1 << 32) or stop > end or at == stop:
                understood = False
                break
            attributes = log[at]
            delta, at = _varint(log, at + u8(1), stop)
            if at:
                place, at = _varint(log, at, stop)
            if not at or place & u8(1) or stop - at < u8(_SMALLEST_REST):
                understood = False
                break
            step = np.int64(place >> u8(1))
            if step <= previous or step > last - base:  # not their sum: it may have more than 64 bits
                understood = False
                break
            previous = step
            time = max_time if append_time else base_time + (np.int64(delta >> u8(1)) ^ -np.int64(delta & u8(1)))
            if not count:
                first_time = latest = time
            latest = max(latest, time)
            distance = time - first_time
            if (time < first_time) != (distance < 0):
                understood = False  # more than 64 bits apart
                break
            delta = u8(distance << 1 ^ distance >> 63)
            place = u8(count) << u8(1)
            rest = stop - at
            length = u8(1) + _varint_size(delta) + _varint_size(place) + rest
            size = _put_varint(woven, size, length << u8(1))
            woven[size] = attributes
            size = _put_varint(woven, size + u8(1), delta)
            size = _put_varint(woven, size, place)
            for each in range(rest):
                woven[size + each] = log[at + each]
            size += rest
            at = stop
            offsets[count] = base + step
            count += 1
        if records and (not understood or at != end):
            size, count, first_time, latest = before
            break
        row += 1
    return row, np.int64(size), count, first_time, latest
