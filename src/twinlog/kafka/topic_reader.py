"""Reads small topics record by record: a whole topic, a range of offsets, or the records that are appended to it."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

from twinlog.errors import KafkaError, RefusedError, UnreachableError, UnsettledError
from twinlog.kafka import batch as b
from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, READ_COMMITTED, Client
from twinlog.kafka.records import Record, decode
from twinlog.model import TopicPartition

_LEADER_PAUSE: Final = 0.1  # seconds before a partition without a leader is read again
_UNREADABLE_PAUSE: Final = 0.5  # seconds before a batch that cannot be read is fetched again
_MAX_BYTES: Final = 1 << 20


class AbortedTransactions:
    """Which batches of one Fetch response belong to aborted transactions. Pass every batch, in order."""

    def __init__(self, listed: Sequence[Any] | None) -> None:
        """`listed`: `aborted_transactions` of the response."""
        # Sorted in reverse: popping the first of a long list would move all others.
        self._listed = sorted(((each.first_offset, each.producer_id) for each in listed or ()), reverse=True)
        self._active: set[int] = set()

    def is_aborted(self, header: tuple[int, ...]) -> bool:
        base, attributes, last_delta, producer = header[0], header[5], header[6], header[9]
        while self._listed and self._listed[-1][0] <= base + last_delta:
            self._active.add(self._listed.pop()[1])
        if attributes & b.CONTROL:
            self._active.discard(producer)
            return False
        return bool(attributes & b.TRANSACTIONAL) and producer in self._active


def records_from(
    records: bytes | memoryview | None,
    start: int,
    aborted: Sequence[Any] | None = None,
    *,
    transactional: bool = True,
) -> Iterator[Record]:
    """The records of a Fetch response from offset `start` on, without control batches and `aborted` transactions.

    With `transactional` False, without any transaction. Malformed batches are skipped: a broken producer must not
    block the records that follow.
    """
    aborted_transactions = AbortedTransactions(aborted)
    for batch, _, magic in _batches(records):
        if magic >= 2:
            header = b.HEADER.unpack_from(batch)
            if aborted_transactions.is_aborted(header) or header[5] & b.CONTROL:
                continue
            if not transactional and header[5] & b.TRANSACTIONAL:
                continue
        try:
            decoded = decode(batch)
        except ValueError:
            continue
        for record in decoded:
            if record.offset >= start:
                yield record


def batch_end(records: bytes | memoryview | None, start: int = -1) -> int | None:
    """The offset after the last complete batch, readable or not; None if that is not after `start`."""
    found = start
    for batch, base, magic in _batches(records):
        found = max(found, base + (b.HEADER.unpack_from(batch)[6] if magic >= 2 else 0) + 1)
    return found if start < found <= b.MAX_OFFSET else None


def _batches(records: bytes | memoryview | None) -> Iterator[tuple[memoryview, int, int]]:
    """The complete batches, each with its base offset and magic. One of magic 2 has at least a header."""
    view = memoryview(records or b"")
    at = 0
    while len(view) - at >= b.MIN_SIZE:
        base, length, _, magic = b.PREFIX.unpack_from(view, at)
        end = at + b.LOG_OVERHEAD + length
        smallest = b.HEADER.size if magic >= 2 else b.MIN_SIZE
        if end > len(view) or end - at < smallest:
            return
        yield view[at:end], base, magic
        at = end


def read_range(
    client: Client, tp: TopicPartition, start: int, end: int, *, max_bytes: int = _MAX_BYTES
) -> Iterator[Record]:
    """The records of a partition from `start` up to, not including, `end`, those of aborted transactions too."""
    at = start
    while at < end:
        response = client.read(tp, at, max_bytes=max_bytes)
        check_partition(client, tp, response.error_code)
        for record in records_from(response.records, at):
            if record.offset < end:
                yield record
        at = batch_end(response.records, at) or end


class PartitionTail:
    """Reads the records that are appended to a partition, by long polls. Belongs to one thread."""

    def __init__(self, client: Client, tp: TopicPartition, position: int | None = None) -> None:
        self._client = client
        self.tp = tp
        self.position = position  # the next offset; None: not known, or no longer in the log

    def poll(self, wait_ms: int, *, max_bytes: int = _MAX_BYTES) -> list[Record]:
        """Waits for records up to `wait_ms`. The position must be known; OFFSET_OUT_OF_RANGE resets it to None."""
        assert self.position is not None
        start = self.position
        response = self._client.read(self.tp, start, max_bytes=max_bytes, wait_ms=wait_ms)
        if response.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self.position = None
            return []
        check_partition(self._client, self.tp, response.error_code)
        self.position = batch_end(response.records, start) or start
        if response.records and self.position == start:  # the broker would answer at once every time
            time.sleep(_UNREADABLE_PAUSE)
        return list(records_from(response.records, start))


def check_partition(client: Client, tp: TopicPartition, code: int) -> None:
    if code:
        raise RefusedError(f"cluster {client.alias}: {tp}: {error_codes.name(code)}", code)


class TopicReader:
    """Reads a topic from its beginning, then what was appended since. Records of aborted transactions are skipped;
    those after an open transaction are read when it has ended.

    If the topic was re-created, or lost records (unread or read), it is read from its beginning again, after a call of
    `restarted`. A caller that only keeps the last value of each key does not need that call. While a partition has no
    leader the reader waits for one, up to the client's timeout.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        restarted: Callable[[], None] = lambda: None,
        *,
        partitions: Collection[int] | None = None,
        past_open: bool = False,
    ) -> None:
        """`partitions`: read only these. `past_open`: records after an open transaction are read at once if they are
        not transactional; and again when it has ended, so that the last value of each key is right.
        """
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._restarted = restarted
        self._past_open = past_open
        self._id = NO_ID
        self.next: dict[int, int] = {}

    def read(self) -> Iterator[Record]:
        """The unread records up to the topic's current end; none if the topic does not exist."""
        deadline = time.monotonic() + self._client.timeout
        while True:
            try:
                yield from self._unread()
            except _LeaderChangedError as changed:
                if time.monotonic() > deadline:
                    raise changed.error from None
                time.sleep(_LEADER_PAUSE)
            else:
                return

    def _unread(self) -> Iterator[Record]:
        info = self._client.metadata([self._topic]).topics.get(self._topic)
        if info is None or info.error == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._restart()
            return
        self._check(f"topic {self._topic}", info.error)
        if NO_ID not in {self._id, info.id} and info.id != self._id:  # brokers before 2.8 have no topic ids
            self._restart()
        self._id = info.id
        wanted = info.leaders if self._partitions is None else info.leaders.keys() & self._partitions
        tps = [TopicPartition(self._topic, index) for index in sorted(wanted)]
        starts, no_start = self._client.list_offsets(tps, EARLIEST)
        ends, no_end = self._client.list_offsets(tps, LATEST, READ_COMMITTED)
        for tp, code in (no_start | no_end).items():
            self._check(str(tp), code)
        if any(not starts[each] <= self.next.get(each.partition, starts[each]) <= ends[each] for each in tps):
            self._restart()
        for tp in tps:
            at = self.next.get(tp.partition, starts[tp])
            while at < ends[tp]:
                response = self._fetch(tp, at, ends[tp])
                yield from records_from(response.records, at, response.aborted_transactions)
                at = batch_end(response.records, at) or ends[tp]
                self.next[tp.partition] = at
            self.next[tp.partition] = at
        if self._past_open:
            yield from self._after_open_transactions(tps)

    def _after_open_transactions(self, tps: Collection[TopicPartition]) -> Iterator[Record]:
        """From the last stable offset to the end. The position is kept, so all of it is read again later."""
        ends, failed = self._client.list_offsets(tps, LATEST)
        for tp, code in failed.items():
            self._check(str(tp), code)
        for tp, end in ends.items():
            at = self.next[tp.partition]
            while at < end:
                records = self._fetch(tp, at, end, isolation=0).records
                yield from records_from(records, at, transactional=False)
                at = batch_end(records, at) or end

    def _fetch(self, tp: TopicPartition, at: int, end: int, isolation: int = READ_COMMITTED) -> Any:
        try:
            response = self._client.read(tp, at, isolation=isolation)
        except (UnreachableError, RefusedError) as error:
            if isinstance(error, UnreachableError) or is_election(error):
                raise _LeaderChangedError(error) from error
            raise
        self._check(str(tp), response.error_code)
        if not response.records and response.high_watermark < end:
            # A new leader's high watermark may be behind until its followers have fetched.
            raise _LeaderChangedError(
                UnsettledError(f"cluster {self._client.alias}: {tp}: not readable up to offset {end} yet")
            )
        return response

    def _restart(self) -> None:
        if self.next:
            self.next.clear()
            self._restarted()

    def _check(self, what: str, code: int) -> None:
        if code:
            error = RefusedError(f"cluster {self._client.alias}: {what}: {error_codes.name(code)}", code)
            raise _LeaderChangedError(error) if is_election(error) else error


def is_election(error: KafkaError) -> bool:
    """Whether the error passes when the partition has a new leader that all brokers know."""
    return isinstance(error, RefusedError) and error.code in error_codes.LEADER_CHANGED


class _LeaderChangedError(Exception):
    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error
