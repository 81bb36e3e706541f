"""Neighbouring batches become few large ones, without a step in Python for any record.

A broker's work, and ours, is mostly per batch: 110 us there and 25 us here for one of 16 KB, against 3 us to weave it
into a larger one. Only what needs no closer look is done here: uncompressed batches of magic 2. The rebuild lane has
the rest.
"""

from array import array
from typing import Any, Final

from twinlog.kafka import batch as b
from twinlog.kafka.connection import Buffer, Pool
from twinlog.pipeline.partition import Partition, Piece

WOVEN_BYTES: Final = 512 * 1024  # well under the usual max.message.bytes of 1 MiB
LARGE: Final = 64 * 1024  # from here on a batch travels as it is: the work per byte outweighs that per batch
_ROWS: Final = 4096
_RECORDS: Final = 100_000
_MAX_TIMESTAMP: Final = slice(35, 43)  # of a batch
_MOST_EPOCHS: Final = 1000  # of a partition that are remembered


def remember_epoch(partition: Partition, epoch: int, base: int) -> None:
    """A batch of another leader begins at `base`. Of very many leaders only the newest are remembered."""
    partition.last_epoch = epoch
    partition.epochs.append((epoch, base))
    if len(partition.epochs) > 2 * _MOST_EPOCHS:
        del partition.epochs[:-_MOST_EPOCHS]


class Loom:
    """Holds the tables that the compiled code fills."""

    def __init__(self, pool: Pool) -> None:
        # Half a second, and memory, for those only who copy records.
        import numpy as np  # noqa: PLC0415

        from twinlog.kafka import native  # noqa: PLC0415

        self._native: Any = native
        self._as_array: Any = np.frombuffer
        self._pool = pool
        self._table = np.empty((_ROWS, native.COLUMNS), np.int64)
        self._offsets = np.empty(_RECORDS, np.int64)

    def weave(
        self, partition: Partition, records: memoryview, buffer: Buffer, *, committed: bool, check_crcs: bool
    ) -> tuple[list[Piece], int]:
        """Pieces for the batches at the beginning, and where those begin that are left to others.

        `partition.fetched` and its epochs move behind the former.
        """
        log = self._as_array(records, "u1")
        pieces: list[Piece] = []
        at = 0
        while True:
            rows = scanned = self._native.scan(log, at, partition.fetched, committed, self._table)
            if check_crcs:
                rows = self._intact(records, rows)
            rows = self._pieces(log, records, buffer, rows, pieces)
            if rows:
                self._moved(partition, rows)
                at = int(self._table[rows - 1, self._native.END])
            if not rows or rows < scanned or scanned < _ROWS:
                return pieces, at

    def _intact(self, records: memoryview, rows: int) -> int:
        """How many rows there are before the first whose checksum does not hold."""
        for row, (at, end, crc) in enumerate(self._table[:rows, :3].tolist()):
            if not b.intact(records[at:end], crc):
                return row
        return rows

    def _pieces(self, log: Any, records: memoryview, buffer: Buffer, rows: int, pieces: list[Piece]) -> int:
        """Appends what the rows hold to the pieces; how many rows that were."""
        row = 0
        while row < rows:
            end, piece = self._woven(log, row, rows) if rows - row > 1 else (row, None)
            if end - row < 2 and (alone := self._as_it_is(records, buffer, row)):
                if piece:
                    piece.release()
                end, piece = row + 1, alone
            if end == row:
                break
            row = end
            if piece:
                pieces.append(piece)
            if pieces:  # it stands for what was not to be copied after it, too
                pieces[-1].next = int(self._table[row - 1, self._native.LAST]) + 1
        return row

    def _woven(self, log: Any, row: int, rows: int) -> tuple[int, Piece | None]:
        """The row after the last that was taken, and what became of them."""
        native, table = self._native, self._table
        room = int(table[rows - 1, native.END] - table[row, native.AT])
        if room < WOVEN_BYTES:
            room += b.HEADER.size + native.GROWTH * int(table[row:rows, native.COUNT].sum())
        buffer = self._pool.take(min(room, WOVEN_BYTES))
        end, size, count, first_time, latest = native.weave(
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
        return end, Piece(view, buffer, first, last, count, latest, 0, rebuilt=True, offsets=gaps)

    def _as_it_is(self, records: memoryview, buffer: Buffer, row: int) -> Piece | None:
        at, end, _, base, last, count, attributes, _ = self._table[row].tolist()
        if not count or count != last - base + 1 or attributes & b.LOG_APPEND_TIME:
            return None
        buffer.hold()
        view = records[at:end]
        return Piece(view, buffer, base, last, count, int.from_bytes(view[_MAX_TIMESTAMP], signed=True), attributes)

    def _moved(self, partition: Partition, rows: int) -> None:
        table, native = self._table[:rows], self._native
        first, last = int(table[0, native.EPOCH]), int(table[-1, native.EPOCH])
        if not first == last == partition.last_epoch:  # epochs never go back in a log
            for epoch, base in table[:, (native.EPOCH, native.BASE)].tolist():
                if epoch != partition.last_epoch:
                    remember_epoch(partition, epoch, base)
        partition.fetched = int(table[-1, native.LAST]) + 1
