"""Converts fetched records to batches for the target. No I/O.

Batches are forwarded as they are where possible. Rebuilt are those that cannot be stored as they are (offset gaps,
LogAppendTime, old formats, a start in the middle), those that the target refused, and many tiny ones, which are merged.
"""

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from twinlog.errors import ReplicationError
from twinlog.kafka import batch as b
from twinlog.kafka import rebuild
from twinlog.kafka.connection import MAX_FRAME_BYTES, Buffer
from twinlog.kafka.fetch import FetchedPartition
from twinlog.replicate.coalesce import COALESCED_BYTES, Coalescer, remember_epoch
from twinlog.replicate.partition import BatchLimits, OutboundBatch, SourceSide

# A produce request holds one batch per partition. From this many batches with this few records on, rebuilding (1 us per
# record) is cheaper than sending each one separately (15 us per batch here, and more on the broker).
MERGE_FROM: Final = 8
MERGE_BELOW: Final = 4096  # bytes
MERGE_RECORDS: Final = 16


@dataclass(frozen=True, slots=True)
class ConversionRules:
    read_committed: bool = True
    check_crcs: bool = True
    codec: int | None = None  # compression.type of the producer, if set; None: keep the source's
    level: int | None = None  # of compression; None: the codec's default


class _Run:
    """Adjacent batches that are all rebuilt, or all forwarded."""

    __slots__ = ("headers", "rebuild", "views")

    def __init__(self, *, rebuild: bool) -> None:
        self.rebuild = rebuild
        self.views: list[memoryview] = []
        self.headers: list[tuple[int, ...]] = []


def convert_batches(
    source: SourceSide,
    limits: BatchLimits,
    part: FetchedPartition,
    buffer: Buffer,
    rules: ConversionRules,
    coalescer: Coalescer | None = None,
) -> list[OutboundBatch]:
    """The outbound batches of one fetch response; advances `source.position` and `last_fetched_epoch`.

    What is not copied (transaction markers, aborted records, empty batches) only advances positions: the batch before
    it covers it. Without a batch, that is left to the caller.
    """
    records = part.records
    wanted = source.position
    batches: list[OutboundBatch] = []
    at = 0
    if coalescer and not rules.codec and _several_batches(records) and not limits.apply_from(wanted):
        committed = not (rules.read_committed and part.aborted)
        batches, at = coalescer.coalesce(source, records, buffer, committed=committed, check_crcs=rules.check_crcs)
    coalesced = source.position
    if at < len(records):
        try:
            batches += _one_by_one(source, limits, records[at:], part.aborted, buffer, rules)
        except ReplicationError:
            if coalesced == wanted:
                raise
            source.position = coalesced  # the next response starts with the damaged batch
    if batches:
        batches[-1].next_offset = source.position
    return batches


def _several_batches(records: memoryview) -> bool:
    """False for a single batch, as at a low rate: it is forwarded faster without compiled code."""
    return len(records) < b.MIN_SIZE or b.LOG_OVERHEAD + b.PREFIX.unpack_from(records)[1] < len(records)


def _one_by_one(  # noqa: PLR0915  # hot: a call per step would cost more than the step
    source: SourceSide,
    limits: BatchLimits,
    records: memoryview,
    aborted: list[tuple[int, int]],
    buffer: Buffer,
    rules: ConversionRules,
) -> list[OutboundBatch]:
    size = len(records)
    wanted = position = source.position
    runs: list[_Run] = []
    run: _Run | None = None
    # In reverse, since popping the first element of a long list is slow.
    aborted = sorted(aborted, key=lambda pair: pair[1], reverse=True) if rules.read_committed else []
    active: set[int] = set()
    forced = limits.apply_from(wanted)
    skipped = sorted(limits.skip_offsets)
    unpack, header_size, check, farthest = b.HEADER.unpack_from, b.HEADER.size, rules.check_crcs, b.MAX_OFFSET
    at = total = copied = counted = 0
    damage = ""
    while size - at >= b.MIN_SIZE:
        base, length, _, magic = b.PREFIX.unpack_from(records, at)
        if not 0 < length < MAX_FRAME_BYTES:
            damage = f"batch of {length} bytes at offset {base}"
            break
        end = at + b.LOG_OVERHEAD + length
        if end > size:
            break  # truncated at the end of the response: the next response has it whole
        view = records[at:end]
        at = end
        if magic != 2:
            if magic > 2 or base > farthest:
                damage = f"batch with magic {magic} at offset {base}"
                break
            if base >= position:
                position = base + 1
                if run is None or not run.rebuild:
                    runs.append(run := _Run(rebuild=True))
                run.views.append(view)
            continue
        if len(view) < header_size:
            damage = f"batch of {length} bytes at offset {base}"
            break
        header = unpack(view)
        attributes, producer, count = header[5], header[9], header[12]
        last = base + header[6]
        if not position <= base <= farthest:
            if last < position:
                while aborted and aborted[-1][1] <= last:
                    active.add(aborted.pop()[0])
                if attributes & b.CONTROL:
                    active.discard(producer)
                continue
            if position != wanted or base > farthest:
                damage = f"batch at offset {base} after offset {position - 1}"
                break
        if check and not b.crc_valid(view, header[4]):
            damage = f"wrong checksum of the batch at offset {base}"
            break
        empty = count < 1 or attributes & b.CONTROL  # nothing to copy
        if empty and (count < 0 or last < base):
            damage = f"batch of {count} records from offset {base} to {last}"
            break
        if header[2] != source.last_fetched_epoch:
            remember_epoch(source, header[2], base)
        position = last + 1
        while aborted and aborted[-1][1] <= last:
            active.add(aborted.pop()[0])
        if empty:
            if attributes & b.CONTROL:
                active.discard(producer)
            continue
        if attributes & b.TRANSACTIONAL and producer in active:
            continue
        rebuilds = bool(
            count != header[6] + 1
            or base < wanted
            or attributes & b.NEEDS_REBUILD
            or (forced and _must_rebuild(limits, skipped, len(view), base, last))
        )
        if run is None or run.rebuild != rebuilds:
            runs.append(run := _Run(rebuild=rebuilds))
        run.views.append(view)
        run.headers.append(header)
        total += len(view)
        copied += 1
        counted += count
    if position == wanted and at:
        damage = damage or f"response for offset {wanted} has only earlier records"
    if damage and position == wanted:  # else the batches before it are copied, and the next response starts with it
        raise ReplicationError(f"source log damaged: {damage}")
    tiny = copied >= MERGE_FROM and total < copied * MERGE_BELOW and counted < copied * MERGE_RECORDS
    batches: list[OutboundBatch] = []
    for each in runs:
        try:
            if each.rebuild or tiny:
                made, left = _rebuilt(limits, each.views, wanted, rules)
            elif rules.codec is None:
                made, left = list(map(_as_it_is, each.views, each.headers, repeat(buffer))), None
            else:
                made, left = _recompressed(each, buffer, rules)
        except ReplicationError:
            if not batches:
                raise
            made, left = [], batches[-1].last + 1
        batches += made
        if left is not None:
            position = left
            break
    source.position = position
    return batches


def _must_rebuild(limits: BatchLimits, skipped: Sequence[int], size: int, base: int, last: int) -> bool:
    """`skipped` are the offsets in `limits.skip_offsets`, sorted."""
    at = bisect_left(skipped, base)
    return (
        0 < limits.max_batch_bytes < size
        or base <= limits.single_records_until
        or (at < len(skipped) and skipped[at] <= last)
    )


def _as_it_is(view: memoryview, header: tuple[int, ...], buffer: Buffer) -> OutboundBatch:
    buffer.hold()
    base, attributes, delta, newest, count = header[0], header[5], header[6], header[8], header[12]
    return OutboundBatch(view, buffer, base, base + delta, count, newest, attributes)


def _recompressed(run: _Run, buffer: Buffer, rules: ConversionRules) -> tuple[list[OutboundBatch], int | None]:
    """As `_rebuilt`."""
    batches = []
    made = 0
    for number, (view, header) in enumerate(zip(run.views, run.headers, strict=True), 1):
        if header[5] & b.CODEC == rules.codec:
            batches.append(_as_it_is(view, header, buffer))
            continue
        try:
            batch, size = _in_other_codec(view, header, rules)
        except ReplicationError:
            for each in batches:  # else they would keep the response in memory
                each.release()
            raise
        batches.append(batch)
        made += size
        if made >= rebuild.AT_ONCE and number < len(run.views):
            return batches, batch.last + 1
    return batches, None


def _in_other_codec(view: memoryview, header: tuple[int, ...], rules: ConversionRules) -> tuple[OutboundBatch, int]:
    """The batch, and its decompressed size."""
    base, delta, newest, count = header[0], header[6], header[8], header[12]
    try:
        data, size = rebuild.recompress(view, rules.codec or 0, rules.level)
    except ValueError as error:
        raise ReplicationError(f"source log damaged: batch at offset {base}: {error}") from error
    attributes = int.from_bytes(data[21:23], "big")
    return OutboundBatch(memoryview(data), None, base, base + delta, count, newest, attributes, rebuilt=True), size


def _rebuilt(
    limits: BatchLimits, views: list[memoryview], start: int, rules: ConversionRules
) -> tuple[list[OutboundBatch], int | None]:
    """The batches, and the offset of the first record left for the next response if it is too much at once."""
    single = limits.single_records_until >= start
    try:
        rebuilt, left = rebuild.rebuild_some(
            views,
            start=start,
            codec=rules.codec,
            max_bytes=limits.max_batch_bytes or COALESCED_BYTES,
            max_records=1 if single else rebuild.MAX_RECORDS,
            now_ms=int(time.time() * 1000),
            level=rules.level,
            skip=limits.skip_offsets,
        )
    except ValueError as error:
        raise ReplicationError(f"source log damaged: {error}") from error
    batches = [
        OutboundBatch(
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
    return batches, left
