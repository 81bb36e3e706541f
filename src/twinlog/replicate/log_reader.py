"""Reads the logs of both clusters for recovery: the source's as it would be copied, the target's as a consumer with
isolation.level = read_committed sees it. Both are read up to a given end; later records are ignored.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple

from twinlog.errors import RefusedError, UnsettledError
from twinlog.kafka import batch as b
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import FetchedPartition
from twinlog.kafka.records import Record, decode
from twinlog.kafka.topic_reader import AbortedTransactions
from twinlog.model import TopicPartition
from twinlog.replicate.convert_batches import ConversionRules, convert_batches
from twinlog.replicate.partition import BatchLimits, OutboundBatch, SourceSide
from twinlog.replicate.resume_decision import Producer, Tail

_CHUNK: Final = 4 << 20
_READ_AHEAD_PARTITION_BYTES: Final = 1 << 20  # of one partition
_READ_AHEAD_BYTES: Final = 32 << 20  # of all of them
_FEW: Final = 1000  # records before a tail in which our last one is searched


class Visibility(Enum):
    """Of a batch on the target, for a read_committed consumer."""

    VISIBLE = "visible"
    HIDDEN = "hidden"  # a transaction marker, or aborted
    UNDECIDED = "undecided"  # of a transaction after the last stable offset


Batch = tuple[memoryview, tuple[int, ...], Visibility]  # with its header


class LoggedRecord(NamedTuple):
    """A record reduced to hashes, so that many fit into memory.

    `create_time`: its timestamp was set by the producer (CreateTime), so it is the same on both sides.
    """

    key: int
    content: int  # key, value and headers
    timestamp: int
    tombstone: bool  # which the log cleaner may remove
    create_time: bool
    keyed: bool  # compaction removes only records with a key

    @classmethod
    def of(cls, record: Record, *, create_time: bool) -> "LoggedRecord":
        content = hash((record.key, record.value, record.headers))
        return cls(
            hash(record.key), content, record.timestamp, record.value is None, create_time, record.key is not None
        )

    def identity(self, create_time: bool) -> Hashable:
        return (self.content, self.timestamp) if create_time else self.content

    def same(self, other: "LoggedRecord") -> bool:
        create_time = self.create_time and other.create_time
        return self.identity(create_time) == other.identity(create_time)


class LogReader:
    """Reads the logs of one cluster. The first reads of many partitions are batched, one request per leader."""

    def __init__(self, client: Client, isolation: int = 0) -> None:
        self.alias = client.alias
        self._client = client
        self._isolation = isolation
        self._ahead: dict[tuple[TopicPartition, int], Any] = {}

    def read_ahead(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces everything that was read ahead before."""
        self._ahead = {}
        left = dict(offsets)
        while left:
            found = self._client.read_many(
                left, each_bytes=_READ_AHEAD_PARTITION_BYTES, max_bytes=_READ_AHEAD_BYTES, isolation=self._isolation
            )
            self._ahead |= {(tp, left[tp]): part for tp, part in found.items()}
            left = {tp: offset for tp, offset in left.items() if tp not in found}
            if not found or sum(len(part.records or b"") for part in self._ahead.values()) >= _READ_AHEAD_BYTES:
                return  # the others are empty there, or are read one by one

    def read(self, tp: TopicPartition, offset: int, *, uncommitted: bool = False) -> Any:
        if (part := self._ahead.pop((tp, offset), None)) is not None and not part.error_code:
            return part
        isolation = 0 if uncommitted else self._isolation
        part = self._client.read(tp, offset, max_bytes=_CHUNK, isolation=isolation)
        if part.error_code:
            raise RefusedError(f"{self.alias}: {tp}: {error_codes.name(part.error_code)}", part.error_code)
        return part


class SourceLog:
    """One partition of the source, up to offset `end`."""

    def __init__(self, reader: LogReader, tp: TopicPartition, rules: ConversionRules, end: int) -> None:
        self._reader = reader
        self._tp = tp
        self._rules = replace(rules, codec=None, level=None)
        self._end = end

    def count(self, start: int, count: int) -> tuple[int, LoggedRecord | None, int]:
        """The position after `count` records from `start`, the last of them, and how many are missing."""
        position = start
        for batch, create_time in self._pieces(start):
            if batch.count < count:
                count -= batch.count
                position = batch.last + 1
                continue
            record = decode(batch.view)[count - 1]
            position = (batch.offsets[count - 1] if batch.offsets else batch.first + count - 1) + 1
            return position, LoggedRecord.of(record, create_time=create_time), 0
        return position, None, count

    def records(self, start: int) -> Iterator[tuple[int, LoggedRecord]]:
        """With their offsets."""
        for batch, create_time in self._pieces(start):
            for at, record in enumerate(decode(batch.view)):
                offset = batch.offsets[at] if batch.offsets else batch.first + at
                if offset < self._end:
                    yield offset, LoggedRecord.of(record, create_time=create_time)

    def _pieces(self, start: int) -> Iterator[tuple[OutboundBatch, bool]]:
        """As they would be copied; and whether they have CreateTime."""
        scan = SourceSide(position=start)
        while scan.position < self._end:
            response = self._reader.read(self._tp, scan.position)
            data = bytearray(response.records or b"")
            aborted = [(a.producer_id, a.first_offset) for a in response.aborted_transactions or ()]
            part = FetchedPartition(self._tp, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
            before = scan.position
            create_time = len(data) > b.MIN_SIZE and data[b.MIN_SIZE - 1] == 2
            for batch in convert_batches(scan, BatchLimits(), part, Buffer(data, len(data), None), self._rules):
                yield batch, create_time
            if scan.position == before:
                return  # compaction removed the last records before the end


class Written(NamedTuple):
    """Records on the target after an offset pair."""

    ours: int
    others: int
    newest: LoggedRecord | None  # our last one; the last of all if none is ours
    trimmed: int  # deleted by retention, so their producer is unknown
    producer: Producer | None  # of our next record; None: none is ours


class TargetLog:
    """One partition of the target, from offset `start` up to `end`. `producers` are ours.

    Transactions are of others, as of an exactly-once MM2; their aborted records are ignored. Our records are recognised
    also after an open transaction, which is waited for only if its records decide the position.
    """

    def __init__(
        self,
        reader: LogReader,
        remote: TopicPartition,
        producers: Sequence[int],
        start: int,
        end: int,
        *,
        waits: bool = True,
    ) -> None:
        """`waits` False: do not wait for open transactions, since other producers are expected to write there."""
        self._reader = reader
        self._remote = remote
        self._producers = producers
        self._start = start
        self._end = end
        self._waits = waits

    def written(self, start: int, since: Producer | None = None, *, ours_known: bool = False) -> Written:
        """From `start` on. Batches of the producer `since` with an earlier epoch arrived late and do not count as ours.
        `ours_known`: sequence numbers prove how many are ours.
        """
        at = max(start, self._start)
        trimmed = at - start
        ours = others = 0
        newest: memoryview | None = None
        newest_other: memoryview | None = None
        producer: Producer | None = None
        undecided: tuple[int, ...] | None = None
        for view, header, visibility in self._batches(at):
            last = min(header[0] + header[6], self._end - 1)
            late = since is not None and header[9] == since.id and header[10] < since.epoch
            if header[9] in self._producers and not late:
                ours, newest, producer = ours + last + 1 - at, view, _after(header, last)
            elif visibility is Visibility.HIDDEN:
                others += max(header[0] - at, 0)  # removed by compaction
            else:
                others, newest_other = others + last + 1 - at, view
                undecided = undecided or (header if visibility is Visibility.UNDECIDED else None)
            at = last + 1
        if undecided is not None and not (ours or ours_known):
            raise self._open(undecided)
        if trimmed and not (ours and others):  # assume the same producer as of those that are left
            ours += trimmed if ours else 0
            others += trimmed if others else 0
        return Written(ours, others, _last_of(newest if ours else newest_other), trimmed, producer)

    def records(self, start: int, *, ours: bool | None) -> Iterator[LoggedRecord]:
        """From `start` on: ours, or those of others, or all."""
        for view, header, visibility in self._batches(max(start, self._start)):
            if visibility is not Visibility.HIDDEN and (ours is None or ours == (header[9] in self._producers)):
                if visibility is Visibility.UNDECIDED:
                    raise self._open(header)
                create_time = not header[5] & b.LOG_APPEND_TIME
                for record in decode(view):
                    if start <= record.offset < self._end:
                        yield LoggedRecord.of(record, create_time=create_time)

    def last(self) -> LoggedRecord | None:
        """The last record; None: removed by compaction or retention, or not visible."""
        for view, header, visibility in self._read(self._end - 1) if self._end > self._start else ():
            if header[0] + header[6] == self._end - 1:
                return _last_of(view) if visibility is Visibility.VISIBLE else None
            if header[0] + header[6] >= self._end:
                raise UnsettledError(f"{self._reader.alias}: {self._remote}: log grew while it was read; retrying")
        return None

    def ends_with(self, tail: Tail) -> bool:
        """Whether our newest record before the tail has the preceding sequence number.

        Also true if unknown: none of ours is left, or many of others follow it.
        """
        if not tail.producer.valid or tail.producer.sequence == 0:  # 0: the epoch starts there
            return True
        start = tail.target - 1
        for back in (1, _FEW):
            if start < self._start:
                return True
            start = max(tail.target - back, self._start)
            for _, header, _ in reversed(list(self._until(start, tail.target))):
                if header[9] in self._producers:
                    last = min(header[0] + header[6], tail.target - 1)
                    return _after(header, last) == tail.producer
        return True

    def _until(self, start: int, end: int) -> Iterator[Batch]:
        at = start
        while at < end:
            found = [batch for batch in self._read(at) if batch[1][0] < end]
            if not found:
                return
            yield from found
            at = found[-1][1][0] + found[-1][1][6] + 1

    def newest_ours(self, few: int, most: int) -> list[LoggedRecord]:
        """Our newest records: at least `few` if the last `most` records of the log have that many."""
        back = max(few, 1)
        while True:
            start = max(self._start, self._end - min(back, most))
            found = list(self.records(start, ours=True))
            if len(found) >= few or start == self._start or back >= most:
                return found
            back *= 4

    def _batches(self, start: int) -> Iterator[Batch]:
        at = start
        while at < self._end:
            before = at
            for view, header, visibility in self._read(at):
                if header[0] + header[6] >= at and header[0] < self._end:
                    yield view, header, visibility
                    at = header[0] + header[6] + 1
            if at == before:
                raise UnsettledError(
                    f"{self._reader.alias}: {self._remote}: no records at offset {at}, although the log ends at "
                    f"{self._end}; retrying"
                )

    def _read(self, offset: int) -> list[Batch]:
        """The complete batches of one response (always magic 2 on a target)."""
        response = self._reader.read(self._remote, offset)
        stable = bool(response.records)
        if not stable:  # there may be records after the last stable offset
            response = self._reader.read(self._remote, offset, uncommitted=True)
        aborted = AbortedTransactions(response.aborted_transactions if stable else None)
        records = memoryview(bytes(response.records or b""))
        found = list[Batch]()
        at = 0
        while len(records) - at >= b.HEADER.size:
            header = b.HEADER.unpack_from(records, at)
            end = at + b.LOG_OVERHEAD + header[1]
            if end > len(records) or header[1] <= 0:
                break
            found.append((records[at:end], header, _visibility(header, aborted, stable=stable or not self._waits)))
            at = end
        return found

    def _open(self, header: tuple[int, ...]) -> UnsettledError:
        return UnsettledError(
            f"{self._reader.alias}: {self._remote}: open transaction of producer {header[9]} at offset {header[0]}; "
            "waiting for it to end (transaction.timeout.ms; kafka-transactions.sh can abort it)"
        )


def _visibility(header: tuple[int, ...], aborted: AbortedTransactions, *, stable: bool) -> Visibility:
    if aborted.is_aborted(header) or header[5] & b.CONTROL:
        return Visibility.HIDDEN
    return Visibility.UNDECIDED if header[5] & b.TRANSACTIONAL and not stable else Visibility.VISIBLE


def _after(header: tuple[int, ...], last: int) -> Producer:
    """The producer after the record at offset `last`. Compaction keeps the sequence numbers of a batch."""
    return Producer(header[9], header[10], b.next_sequence(header[11], last - header[0] + 1))


def _last_of(view: memoryview | None) -> LoggedRecord | None:
    if view is None:
        return None
    records = decode(view)
    header = b.HEADER.unpack_from(view)
    if not records or records[-1].offset != header[0] + header[6]:
        return None  # removed by compaction
    return LoggedRecord.of(records[-1], create_time=not header[5] & b.LOG_APPEND_TIME)
