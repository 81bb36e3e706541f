"""The logs of both sides, as recovery counts and compares them: the source's as it would be copied, the target's as is.

Both go up to the ends that are given with them: what is written meanwhile is not looked at.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka import batch as b
from twinlog.kafka import codes
from twinlog.kafka.client import Client
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import Part
from twinlog.kafka.records import Record, decode
from twinlog.model import TopicPartition
from twinlog.pipeline.lanes import Rules, cut
from twinlog.pipeline.partition import Partition, Piece

_CHUNK: Final = 4 << 20

Batch = tuple[memoryview, tuple[int, ...]]  # with its header


class Seen(NamedTuple):
    """A record as it is compared: by hashes, so that a second of a fast partition fits into memory.

    `timed`: its time is the producer's, so both sides must have the same.
    """

    key: int
    content: int  # key, value and headers
    timestamp: int
    gone: bool  # a tombstone, which the cleaner may take away at last
    timed: bool

    @classmethod
    def of(cls, record: Record, *, timed: bool) -> "Seen":
        content = hash((record.key, record.value, record.headers))
        return cls(hash(record.key), content, record.timestamp, record.value is None, timed)

    def identity(self, timed: bool) -> Hashable:
        return (self.content, self.timestamp) if timed else self.content

    def same(self, other: "Seen") -> bool:
        timed = self.timed and other.timed
        return self.identity(timed) == other.identity(timed)


class SourceLog:
    """One partition of the source, up to offset `end`."""

    def __init__(self, client: Client, place: TopicPartition, rules: Rules, end: int) -> None:
        self._client = client
        self._place = place
        self._rules = replace(rules, codec=None, level=None)
        self._end = end

    def count(self, start: int, count: int) -> tuple[int, Seen | None, int]:
        """The source offset after `count` records from `start`, the last of them, and how many there are not."""
        position = start
        for piece, timed in self._pieces(start):
            if piece.count < count:
                count -= piece.count
                position = piece.last + 1
                continue
            record = decode(piece.view)[count - 1]
            position = (piece.offsets[count - 1] if piece.offsets else piece.first + count - 1) + 1
            return position, Seen.of(record, timed=timed), 0
        return position, None, count

    def records(self, start: int) -> Iterator[tuple[int, Seen]]:
        """With their offsets."""
        for piece, timed in self._pieces(start):
            for at, record in enumerate(decode(piece.view)):
                offset = piece.offsets[at] if piece.offsets else piece.first + at
                if offset < self._end:
                    yield offset, Seen.of(record, timed=timed)

    def _pieces(self, start: int) -> Iterator[tuple[Piece, bool]]:
        """As they would be copied; and whether their records have times of their own."""
        scout = Partition(self._place, self._place, fetched=start, acked=start)
        while scout.fetched < self._end:
            answer = self._client.read(
                self._place, scout.fetched, max_bytes=_CHUNK, isolation=int(self._rules.read_committed)
            )
            if answer.error_code:
                raise RefusedError(f"{self._place}: {codes.name(answer.error_code)}", answer.error_code)
            data = bytearray(answer.records or b"")
            aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
            part = Part(self._place, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
            before = scout.fetched
            timed = len(data) > b.SMALLEST and data[b.SMALLEST - 1] == 2
            for piece in cut(scout, part, Buffer(data, len(data), None), self._rules):
                yield piece, timed
            if scout.fetched == before:
                return  # compaction took what stood before the end


class TargetLog:
    """One partition of the target, from offset `start` up to `end`. `producers` are ours."""

    def __init__(self, client: Client, remote: TopicPartition, producers: Sequence[int], start: int, end: int) -> None:
        self._client = client
        self._remote = remote
        self._producers = producers
        self._start = start
        self._end = end

    def written(self, start: int) -> tuple[int, int, Seen | None]:
        """From `start` on: how many records of ours, of others, and the last of ours (or of all)."""
        at = max(start, self._start)
        ours = at - start if at > start else 0  # what retention took from the target was ours, as far as anyone knows
        others = 0
        newest: memoryview | None = None
        newest_other: memoryview | None = None
        for view, header in self._batches(at):
            last = min(header[0] + header[6], self._end - 1)
            if header[9] in self._producers:
                ours, newest = ours + last + 1 - at, view
            else:
                others, newest_other = others + last + 1 - at, view
            at = last + 1
        return ours, others, _last_of(newest if ours else newest_other)

    def records(self, start: int, *, ours: bool | None) -> Iterator[Seen]:
        """From `start` on: ours, or those of others, or all."""
        for view, header in self._batches(max(start, self._start)):
            if ours is None or ours == (header[9] in self._producers):
                timed = not header[5] & b.LOG_APPEND_TIME
                for record in decode(view):
                    if start <= record.offset < self._end:
                        yield Seen.of(record, timed=timed)

    def tail(self) -> memoryview | None:
        """The batch that holds the last record."""
        for view, header in self._read(self._end - 1):
            last = header[0] + header[6]
            if last == self._end - 1:
                return view
            if last >= self._end:  # it grew since its end was asked for; what is beyond must not be taken for known
                raise UnreachableError(f"{self._client.alias}: {self._remote} is being written to by somebody else")
        return None

    def _batches(self, start: int) -> Iterator[Batch]:
        at = start
        while at < self._end:
            before = at
            for view, header in self._read(at):
                if header[0] + header[6] >= at and header[0] < self._end:
                    yield view, header
                    at = header[0] + header[6] + 1
            if at == before:
                raise UnreachableError(
                    f"{self._client.alias}: {self._remote}: nothing to read at {at}, though it ends at {self._end}"
                )

    def _read(self, offset: int) -> list[Batch]:
        """The whole batches of one answer (magic 2: a target stores no other)."""
        answer = self._client.read(self._remote, offset, max_bytes=_CHUNK)
        if answer.error_code:
            raise RefusedError(
                f"{self._client.alias}: {self._remote}: {codes.name(answer.error_code)}", answer.error_code
            )
        records = memoryview(bytes(answer.records or b""))
        found = []
        at = 0
        while len(records) - at >= b.HEADER.size:
            header = b.HEADER.unpack_from(records, at)
            end = at + b.LOG_OVERHEAD + header[1]
            if end > len(records) or header[1] <= 0:
                break
            found.append((records[at:end], header))
            at = end
        return found


def _last_of(view: memoryview | None) -> Seen | None:
    if view is None:
        return None
    records = decode(view)
    header = b.HEADER.unpack_from(view)
    if not records or records[-1].offset != header[0] + header[6]:
        return None  # compaction took it
    return Seen.of(records[-1], timed=not header[5] & b.LOG_APPEND_TIME)
