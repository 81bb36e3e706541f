"""Coalesces adjacent small batches into larger ones, in compiled code.

Most of the cost is per batch: 110 us on a broker and 25 us here for a batch of 16 KB, against 3 us to coalesce it. Only
uncompressed batches of magic 2 are handled here; convert_batches.py handles the rest.
"""

from array import array
from typing import Any, Final

from twinlog.kafka import batch as b
from twinlog.kafka.connection import Buffer, Pool
from twinlog.replicate.partition import OutboundBatch, SourceSide

COALESCED_BYTES: Final = 512 * 1024  # well under the usual max.message.bytes of 1 MiB
LARGE: Final = 64 * 1024  # batches of this size are forwarded as they are: their cost is per byte
_ROWS: Final = 4096
_RECORDS: Final = 100_000
_MAX_TIMESTAMP: Final = slice(35, 43)  # in a batch header
_MAX_EPOCHS: Final = 1000  # kept per partition


def remember_epoch(source: SourceSide, epoch: int, base: int) -> None:
    """A batch with another leader epoch starts at `base`. Only the newest epochs are kept."""
    source.last_fetched_epoch = epoch
    source.epoch_starts.append((epoch, base))
    if len(source.epoch_starts) > 2 * _MAX_EPOCHS:
        del source.epoch_starts[:-_MAX_EPOCHS]


class Coalescer:
    """Owns the tables that the compiled code fills."""

    def __init__(self, pool: Pool) -> None:
        # Imported here: they take half a second and memory that only tasks need.
        import numpy as np  # noqa: PLC0415

        from twinlog.kafka import native  # noqa: PLC0415

        self._native: Any = native
        self._as_array: Any = np.frombuffer
        self._pool = pool
        self._table = np.empty((_ROWS, native.COLUMNS), np.int64)
        self._offsets = np.empty(_RECORDS, np.int64)

    def coalesce(
        self, source: SourceSide, records: memoryview, buffer: Buffer, *, committed: bool, check_crcs: bool
    ) -> tuple[list[OutboundBatch], int]:
        """The outbound batches for as many leading batches as possible, and where the remaining ones start.

        Advances `source.position` and `epoch_starts` past the former.
        """
        log = self._as_array(records, "u1")
        batches: list[OutboundBatch] = []
        at = 0
        while True:
            rows = scanned = self._native.scan(log, at, source.position, committed, self._table)
            if check_crcs:
                rows = self._intact(records, rows)
            rows = self._convert(log, records, buffer, rows, batches)
            if rows:
                self._advance(source, rows)
                at = int(self._table[rows - 1, self._native.END])
            if not rows or rows < scanned or scanned < _ROWS:
                return batches, at

    def _intact(self, records: memoryview, rows: int) -> int:
        """The number of rows before the first with a wrong checksum."""
        for row, (at, end, crc) in enumerate(self._table[:rows, :3].tolist()):
            if not b.crc_valid(records[at:end], crc):
                return row
        return rows

    def _convert(self, log: Any, records: memoryview, buffer: Buffer, rows: int, batches: list[OutboundBatch]) -> int:
        """Appends batches for the rows; returns the number of rows converted."""
        row = 0
        while row < rows:
            end, batch = self._coalesced(log, row, rows) if rows - row > 1 else (row, None)
            if end - row < 2 and (single := self._as_it_is(records, buffer, row)):
                if batch:
                    batch.release()
                end, batch = row + 1, single
            if end == row:
                break
            row = end
            if batch:
                batches.append(batch)
            if batches:  # also covers the offsets after it that are not copied
                batches[-1].next_offset = int(self._table[row - 1, self._native.LAST]) + 1
        return row

    def _coalesced(self, log: Any, row: int, rows: int) -> tuple[int, OutboundBatch | None]:
        """The row after the last coalesced one, and the batch."""
        native, table = self._native, self._table
        size_needed = int(table[rows - 1, native.END] - table[row, native.AT])
        if size_needed < COALESCED_BYTES:
            size_needed += b.HEADER.size + native.GROWTH * int(table[row:rows, native.COUNT].sum())
        buffer = self._pool.take(min(size_needed, COALESCED_BYTES))
        end, size, count, first_time, latest = native.coalesce_batches(
            log, table, row, rows, LARGE, self._as_array(buffer.view, "u1"), self._offsets
        )
        if not count:
            buffer.release()
            return end, None
        view = buffer.view[:size]
        b.HEADER.pack_into(
            view, 0, 0, size - b.LOG_OVERHEAD, -1, 2, 0, 0, count - 1, first_time, latest, -1, -1, -1, count
        )
        first, last = int(self._offsets[0]), int(self._offsets[count - 1])
        gaps = array("q", self._offsets[:count].tobytes()) if last - first != count - 1 else None
        return end, OutboundBatch(view, buffer, first, last, count, latest, 0, rebuilt=True, offsets=gaps)

    def _as_it_is(self, records: memoryview, buffer: Buffer, row: int) -> OutboundBatch | None:
        at, end, _, base, last, count, attributes, _ = self._table[row].tolist()
        if not count or count != last - base + 1 or attributes & b.LOG_APPEND_TIME:
            return None
        buffer.hold()
        view = records[at:end]
        return OutboundBatch(
            view, buffer, base, last, count, int.from_bytes(view[_MAX_TIMESTAMP], signed=True), attributes
        )

    def _advance(self, source: SourceSide, rows: int) -> None:
        table, native = self._table[:rows], self._native
        first, last = int(table[0, native.EPOCH]), int(table[-1, native.EPOCH])
        if not first == last == source.last_fetched_epoch:  # epochs never decrease in a log
            for epoch, base in table[:, (native.EPOCH, native.BASE)].tolist():
                if epoch != source.last_fetched_epoch:
                    remember_epoch(source, epoch, base)
        source.position = int(table[-1, native.LAST]) + 1
