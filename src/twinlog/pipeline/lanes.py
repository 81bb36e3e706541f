"""From a fetched stretch of log to the batches for the target. Pure: memory in, pieces out.

The fast lane takes a batch as it is. The rebuild lane takes those that cannot be stored as they are (gaps,
LogAppendTime, old formats, a start in the middle), those that the target refuses as they are, and many tiny ones,
which are merged.
"""

import time
from dataclasses import dataclass
from typing import Final

from twinlog.errors import RelayError
from twinlog.kafka import batch as b
from twinlog.kafka import rebuild
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import Part
from twinlog.pipeline.loom import WOVEN_BYTES, Loom
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
    aborted = sorted(aborted, key=lambda pair: pair[1]) if rules.read_committed else []
    active: set[int] = set()
    forced = partition.largest or partition.alone_until >= wanted or partition.skip
    unpack, header_size, check = b.HEADER.unpack_from, b.HEADER.size, rules.check_crcs
    at = total = copied = counted = 0
    while size - at >= b.SMALLEST:
        base, length, _, magic = b.PREFIX.unpack_from(records, at)
        if length <= 0:
            raise RelayError(f"the source's log is damaged: a batch of {length} bytes at offset {base}")
        end = at + b.LOG_OVERHEAD + length
        if end > size:
            break  # the answer ends in the middle of it: it comes again, whole
        view = records[at:end]
        at = end
        if magic < 2:
            if base >= wanted:
                position = base + 1
                if run is None or not run.open:
                    runs.append(run := _Run(opened=True))
                run.views.append(view)
            continue
        if len(view) < header_size:
            raise RelayError(f"the source's log is damaged: a batch of {length} bytes at offset {base}")
        header = unpack(view)
        attributes, producer, count = header[5], header[9], header[12]
        last = base + header[6]
        if last < wanted:
            continue
        if check and not b.intact(view, header[4]):
            if position != wanted:
                break  # what stands before it is whole, and the next answer begins with it
            raise RelayError(f"the source's log is damaged: the checksum of the batch at offset {base} does not fit")
        if header[2] != partition.last_epoch:
            partition.last_epoch = header[2]
            partition.epochs.append((header[2], base))
        position = last + 1
        while aborted and aborted[0][1] <= last:
            active.add(aborted.pop(0)[0])
        if attributes & b.CONTROL:
            active.discard(producer)
            continue
        if not count or (attributes & b.TRANSACTIONAL and producer in active):
            continue
        opened = bool(
            count != header[6] + 1
            or base < wanted
            or attributes & b.NOT_AS_IT_IS
            or (forced and _must_open(partition, len(view), base, last))
        )
        if run is None or run.open != opened:
            runs.append(run := _Run(opened=opened))
        run.views.append(view)
        run.headers.append(header)
        total += len(view)
        copied += 1
        counted += count
    tiny = copied >= MERGE_FROM and total < copied * MERGE_BELOW and counted < copied * MERGE_RECORDS
    pieces: list[Piece] = []
    for each in runs:
        if each.open or tiny:
            pieces += _opened(partition, each.views, wanted, rules)
        else:
            pieces += [
                _as_it_is(view, header, buffer)
                if rules.codec is None or header[5] & b.CODEC == rules.codec
                else _recompressed(view, header, rules)
                for view, header in zip(each.views, each.headers, strict=True)
            ]
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


def _must_open(partition: Partition, size: int, base: int, last: int) -> bool:
    return (
        0 < partition.largest < size
        or base <= partition.alone_until
        or any(base <= offset <= last for offset in partition.skip)
    )


def _as_it_is(view: memoryview, header: tuple[int, ...], buffer: Buffer) -> Piece:
    buffer.hold()
    base, attributes, delta, newest, count = header[0], header[5], header[6], header[8], header[12]
    return Piece(view, buffer, base, base + delta, count, newest, attributes)


def _recompressed(view: memoryview, header: tuple[int, ...], rules: Rules) -> Piece:
    base, delta, newest, count = header[0], header[6], header[8], header[12]
    try:
        data = rebuild.recompress(view, rules.codec or 0, rules.level)
    except ValueError as error:
        raise RelayError(f"the source's log is damaged: the batch at offset {base}: {error}") from error
    attributes = int.from_bytes(data[21:23], "big")
    return Piece(memoryview(data), None, base, base + delta, count, newest, attributes, rebuilt=True)


def _opened(partition: Partition, views: list[memoryview], start: int, rules: Rules) -> list[Piece]:
    alone = partition.alone_until >= start
    try:
        rebuilt = rebuild.rebuild(
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
    return [
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
