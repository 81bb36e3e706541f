"""From a fetched stretch of log to the batches for the target. Pure: memory in, pieces out.

The fast lane takes a batch as it is. The rebuild lane takes those that cannot be stored as they are (gaps,
LogAppendTime, old formats, a start in the middle), those that the target refuses as they are, and many tiny ones,
which are merged.
"""

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from twinlog.errors import RelayError
from twinlog.kafka import batch as b
from twinlog.kafka import rebuild
from twinlog.kafka.connection import LARGEST_FRAME, Buffer
from twinlog.kafka.fetch import Part
from twinlog.pipeline.loom import WOVEN_BYTES, Loom, remember_epoch
from twinlog.pipeline.partition import Partition, Piece

# A batch per partition and request is all that a broker takes. With so many waiting, and so few records in each,
# opening them (1 us a record) is cheaper than sending each by itself (15 us a batch here, and more on the broker).
MERGE_FROM: Final = 8
MERGE_BELOW: Final = 4096  # bytes
MERGE_RECORDS: Final = 16


@dataclass(frozen=True, slots=True)
class Rules:
    read_committed: bool = True
    check_crcs: bool = True
    codec: int | None = None  # that the operator wants on the target; None: the source's
    level: int | None = None  # of compression; None: the codec's usual one


class _Run:
    """Neighbouring batches that share a lane."""

    __slots__ = ("headers", "open", "views")

    def __init__(self, *, opened: bool) -> None:
        self.open = opened
        self.views: list[memoryview] = []
        self.headers: list[tuple[int, ...]] = []


def cut(partition: Partition, part: Part, buffer: Buffer, rules: Rules, loom: Loom | None = None) -> list[Piece]:
    """The pieces in one answer; `partition.fetched` and `last_epoch` move behind them.

    What is not copied (transaction markers, aborted records, empty batches) only moves positions. Without a loom every
    batch is a piece by itself.
    """
    records = part.records
    wanted = partition.fetched
    pieces: list[Piece] = []
    at = 0
    if loom and not (rules.codec or partition.largest or partition.skip or partition.alone_until >= wanted):
        committed = not (rules.read_committed and part.aborted)
        pieces, at = loom.weave(partition, records, buffer, committed=committed, check_crcs=rules.check_crcs)
    woven = partition.fetched
    if at < len(records):
        try:
            pieces += _one_by_one(partition, records[at:], part.aborted, buffer, rules)
        except RelayError:
            if woven == wanted:
                raise
            partition.fetched = woven  # what stands before it is whole, and the next answer begins with it
    if partition.fetched != wanted and not (pieces and pieces[-1].next == partition.fetched):
        _move(partition, pieces, partition.fetched)
    return pieces


def _one_by_one(  # noqa: PLR0915  # a call for each step would cost more than the step
    partition: Partition, records: memoryview, aborted: list[tuple[int, int]], buffer: Buffer, rules: Rules
) -> list[Piece]:
    size = len(records)
    wanted = position = partition.fetched
    runs: list[_Run] = []
    run: _Run | None = None
    # The next one last: to take the first out of a long list would move all the others.
    aborted = sorted(aborted, key=lambda pair: pair[1], reverse=True) if rules.read_committed else []
    active: set[int] = set()
    forced = partition.largest or partition.alone_until >= wanted or partition.skip
    skipped = sorted(partition.skip)
    unpack, header_size, check, farthest = b.HEADER.unpack_from, b.HEADER.size, rules.check_crcs, b.FARTHEST
    at = total = copied = counted = 0
    damage = ""
    while size - at >= b.SMALLEST:
        base, length, _, magic = b.PREFIX.unpack_from(records, at)
        if not 0 < length < LARGEST_FRAME:
            damage = f"a batch of {length} bytes at offset {base}"
            break
        end = at + b.LOG_OVERHEAD + length
        if end > size:
            break  # the answer ends in the middle of it: it comes again, whole
        view = records[at:end]
        at = end
        if magic != 2:
            if magic > 2 or base > farthest:
                damage = f"a batch of magic {magic} at offset {base}"
                break
            if base >= position:
                position = base + 1
                if run is None or not run.open:
                    runs.append(run := _Run(opened=True))
                run.views.append(view)
            continue
        if len(view) < header_size:
            damage = f"a batch of {length} bytes at offset {base}"
            break
        header = unpack(view)
        attributes, producer, count = header[5], header[9], header[12]
        last = base + header[6]
        if not position <= base <= farthest:
            if last < position:
                continue
            if position != wanted or base > farthest:
                damage = f"a batch at offset {base} after {position - 1}"
                break
        if check and not b.intact(view, header[4]):
            damage = f"the checksum of the batch at offset {base} does not fit"
            break
        empty = count < 1 or attributes & b.CONTROL  # of records that are copied
        if empty and (count < 0 or last < base):
            damage = f"a batch of {count} records from offset {base} to {last}"
            break
        if header[2] != partition.last_epoch:
            remember_epoch(partition, header[2], base)
        position = last + 1
        while aborted and aborted[-1][1] <= last:
            active.add(aborted.pop()[0])
        if empty:
            if attributes & b.CONTROL:
                active.discard(producer)
            continue
        if attributes & b.TRANSACTIONAL and producer in active:
            continue
        opened = bool(
            count != header[6] + 1
            or base < wanted
            or attributes & b.NOT_AS_IT_IS
            or (forced and _must_open(partition, skipped, len(view), base, last))
        )
        if run is None or run.open != opened:
            runs.append(run := _Run(opened=opened))
        run.views.append(view)
        run.headers.append(header)
        total += len(view)
        copied += 1
        counted += count
    if position == wanted and at:  # what stands before something damaged is whole, and the next answer begins with it
        damage = damage or f"asked for offset {wanted}, it gives only what is before"
    if damage and position == wanted:
        raise RelayError(f"the source's log is damaged: {damage}")
    tiny = copied >= MERGE_FROM and total < copied * MERGE_BELOW and counted < copied * MERGE_RECORDS
    pieces: list[Piece] = []
    for each in runs:
        try:
            if each.open or tiny:
                made, left = _opened(partition, each.views, wanted, rules)
            elif rules.codec is None:
                made, left = list(map(_as_it_is, each.views, each.headers, repeat(buffer))), None
            else:
                made, left = _recompressed(each, buffer, rules)
        except RelayError:
            if not pieces:
                raise
            made, left = [], pieces[-1].last + 1
        pieces += made
        if left is not None:
            position = left
            break
    partition.fetched = position
    return pieces


def _move(partition: Partition, pieces: list[Piece], position: int) -> None:
    """Nothing was to be copied up to `position`: whoever is the last before it stands for that, too."""
    for waiting in (pieces, partition.held, partition.queue, partition.flight):
        if waiting:
            waiting[-1].next = position
            return
    partition.acked = position
    partition.changed = True


def _must_open(partition: Partition, skipped: Sequence[int], size: int, base: int, last: int) -> bool:
    """`skipped` are the offsets in `partition.skip`, in order."""
    at = bisect_left(skipped, base)
    return 0 < partition.largest < size or base <= partition.alone_until or (at < len(skipped) and skipped[at] <= last)


def _as_it_is(view: memoryview, header: tuple[int, ...], buffer: Buffer) -> Piece:
    buffer.hold()
    base, attributes, delta, newest, count = header[0], header[5], header[6], header[8], header[12]
    return Piece(view, buffer, base, base + delta, count, newest, attributes)


def _recompressed(run: _Run, buffer: Buffer, rules: Rules) -> tuple[list[Piece], int | None]:
    """As `_opened`."""
    pieces = []
    made = 0
    for number, (view, header) in enumerate(zip(run.views, run.headers, strict=True), 1):
        if header[5] & b.CODEC == rules.codec:
            pieces.append(_as_it_is(view, header, buffer))
            continue
        piece, size = _in_other_codec(view, header, rules)
        pieces.append(piece)
        made += size
        if made >= rebuild.AT_ONCE and number < len(run.views):
            return pieces, piece.last + 1
    return pieces, None


def _in_other_codec(view: memoryview, header: tuple[int, ...], rules: Rules) -> tuple[Piece, int]:
    """And its size when decompressed."""
    base, delta, newest, count = header[0], header[6], header[8], header[12]
    try:
        data, size = rebuild.recompress_sized(view, rules.codec or 0, rules.level)
    except ValueError as error:
        raise RelayError(f"the source's log is damaged: the batch at offset {base}: {error}") from error
    attributes = int.from_bytes(data[21:23], "big")
    return Piece(memoryview(data), None, base, base + delta, count, newest, attributes, rebuilt=True), size


def _opened(partition: Partition, views: list[memoryview], start: int, rules: Rules) -> tuple[list[Piece], int | None]:
    """The pieces, and the offset from which the rest is left for the next answer, if it is too much for one go."""
    alone = partition.alone_until >= start
    try:
        rebuilt, left = rebuild.rebuild_some(
            views,
            start=start,
            codec=rules.codec,
            max_bytes=partition.largest or WOVEN_BYTES,
            max_records=1 if alone else rebuild.MAX_RECORDS,
            now_ms=int(time.time() * 1000),
            level=rules.level,
            skip=partition.skip,
        )
    except ValueError as error:
        raise RelayError(f"the source's log is damaged: {error}") from error
    pieces = [
        Piece(
            memoryview(new.data),
            None,
            new.first,
            new.last,
            new.count,
            new.max_timestamp,
            int.from_bytes(new.data[21:23], "big"),
            rebuilt=True,
            offsets=new.offsets,
        )
        for new in rebuilt
    ]
    return pieces, left
