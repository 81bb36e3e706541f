"""Fetches partitions that are far behind over a long link, in ranges of offsets side by side.

A broker sends about 100 KB per round trip and connection (its socket.send.buffer.bytes), so over a link of 100 ms one
connection carries 1 MB/s, whatever the bandwidth. Such partitions leave the fetch session; several connections fetch
one range of offsets each, and the responses are converted in the order of their offsets.

Only responses that start at or before the fetch position are converted, so no offset can be left out. All ranges are
fetched from one leader in one leader epoch, within which a log never changes. Any error ends this for the partition:
the fetch session meets the same error, and handles it.
"""

import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Protocol

from twinlog.errors import KafkaError
from twinlog.kafka import batch as b
from twinlog.kafka import error_codes
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import BY_ID, FetchedPartition, Session, WantedPartition
from twinlog.replicate.broker_connections import BrokerConnection, BrokerConnections
from twinlog.replicate.connection_count import LONG_ROUND_TRIP, ConnectionCount
from twinlog.replicate.partition import Partition, State

_WORTH_RANGES: Final = 2  # ranges that a partition must be behind
_AVOID_SECONDS: Final = 30.0
_SESSIONLESS: Final = -1  # the epoch of a request outside of any fetch session


class RangeOwner(Protocol):
    """The source fetcher."""

    brokers: dict[int, tuple[str, int]]

    def accept(self, partition: Partition, part: FetchedPartition, buffer: Buffer) -> bool: ...
    def add(self, partition: Partition) -> None: ...
    def may_fetch(self, partition: Partition) -> bool: ...
    def throttled(self, partitions: list[Partition], throttle_ms: int) -> None: ...


@dataclass(slots=True, eq=False)
class Range:
    partition: Partition
    start: int  # the offset requested
    max_bytes: int
    sent: bool = False
    response: tuple[FetchedPartition, Buffer] | None = None
    discarded: bool = False

    def discard(self) -> None:
        self.discarded = True
        if self.response is not None:
            self.response[1].release()
            self.response = None


@dataclass(slots=True, eq=False)
class RangeConnection(BrokerConnection):
    version: int = BY_ID
    session: Session | None = None  # of the open request, which belongs to no session of the broker


class RangeFetcher(BrokerConnections[RangeConnection]):
    connection_class = RangeConnection

    def __init__(
        self,
        owner: RangeOwner,
        *,
        range_bytes: int,
        max_bytes: int,
        max_connections: int,
        read_committed: bool,
        **options: Any,
    ) -> None:
        """`max_bytes`: of all responses that are expected or wait for those before them."""
        super().__init__(**options)
        self._owner = owner
        self._range_bytes, self._max_bytes = range_bytes, max_bytes
        self._max_connections = max_connections  # to one broker
        self._read_committed = read_committed
        self._ranges: dict[Partition, deque[Range]] = {}
        self._counts: dict[int, ConnectionCount] = {}  # by node
        self._outstanding = 0  # ranges
        self._avoid_until: dict[int, float] = {}  # by node: it accepts no more connections
        self._large_batches: set[Partition] = (
            set()
        )  # with batches larger than a range, which would be fetched repeatedly
        self.responses = 0

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._ranges

    def is_worth(self, partition: Partition, round_trip: float) -> bool:
        source = partition.source
        if source.replica >= 0 or partition in self._large_batches:  # a follower's log may change within a leader epoch
            return False
        avoided = time.monotonic() < self._avoid_until.get(source.leader, 0.0)
        if round_trip < LONG_ROUND_TRIP or self._max_connections < 2 or self.stopping or avoided:
            return False
        behind = (self._end(partition) - source.position) * source.bytes_per_offset
        return behind > _WORTH_RANGES * self._range_bytes

    def add(self, partition: Partition, round_trip: float) -> None:
        node = partition.source.leader
        self._ranges[partition] = deque()
        if node not in self._counts:
            self._counts[node] = ConnectionCount(self._max_connections, round_trip)
        self.pump_all()

    def remove(self, partition: Partition) -> bool:
        """Whether it was fetched in ranges."""
        ranges = self._ranges.pop(partition, None)
        if ranges is None:
            return False
        partition.source.paused = False
        for each in ranges:
            self._outstanding -= 1
            each.discard()
        return True

    def _end(self, partition: Partition) -> int:
        source = partition.source
        end = source.last_stable if self._read_committed and source.last_stable >= 0 else source.high_watermark
        return end if partition.until is None else min(end, partition.until)

    # Requests

    def pump_all(self) -> None:
        self.brokers = self._owner.brokers
        now = time.monotonic()
        for node, count in list(self._counts.items()):
            partitions = [each for each in self._ranges if each.source.leader == node]
            opened = self.connections_to(node)
            if not partitions:
                continue
            for _ in range(count.wanted(now) - len(opened)):
                self.connections[len(self.connections)] = broker = RangeConnection(node, is_further=True)
                opened.append(broker)
            for broker in opened[: count.wanted(now)]:
                self.pump(broker)

    def pump(self, broker: RangeConnection) -> None:
        now = time.monotonic()
        if broker.connection is None:
            if self._has_work(broker.node):
                self.connect(broker, now)
            return
        if broker.connection.waiting or now < broker.muted_until or self.stopping or not self.can_send(broker):
            return
        chosen = self._next_range(broker.node)
        if chosen is None:
            return
        chosen.sent = True
        partition, source = chosen.partition, chosen.partition.source
        # At the fetch position the leader also checks whether the logs have diverged.
        last_epoch = source.last_fetched_epoch if chosen.start == source.position else -1
        want = WantedPartition(
            partition.tp, source.topic_id, chosen.start, source.leader_epoch, last_epoch, chosen.max_bytes
        )
        broker.session = Session(broker.version, epoch=_SESSIONLESS)
        request = broker.session.request(
            broker.connection.next_correlation(),
            self.client_id,
            [want],
            (),
            wait_ms=0,
            min_bytes=1,
            max_bytes=chosen.max_bytes,
            isolation=int(self._read_committed),
            rack="",
        )
        self.send(broker, [request], chosen)

    def _has_work(self, node: int) -> bool:
        return any(partition.source.leader == node for partition in self._ranges)

    def _next_range(self, node: int) -> Range | None:
        """One that the others of its partition wait for; else the next of the partition with the fewest."""
        for partition, ranges in self._ranges.items():
            if ranges and not ranges[0].sent and partition.source.leader == node:
                return ranges[0]
        if (self._outstanding + 1) * self._range_bytes > self._max_bytes:
            return None
        candidates = sorted(
            (partition for partition in self._ranges if partition.source.leader == node),
            key=lambda partition: len(self._ranges[partition]),
        )
        for partition in candidates:
            if (found := self._range_of(partition)) is not None:
                return found
        return None

    def _range_of(self, partition: Partition) -> Range | None:
        source, ranges = partition.source, self._ranges[partition]
        if not self._owner.may_fetch(partition):
            return None
        stride = max(int(self._range_bytes / max(source.bytes_per_offset, 0.01)), 1)
        start = max(ranges[-1].start + stride, source.position) if ranges else source.position
        if start >= self._end(partition):
            return None
        # A little more than the stride needs, since records differ in size: a gap would cost another round trip.
        new = Range(partition, start, self._range_bytes * 17 // 16)
        ranges.append(new)
        self._outstanding += 1
        return new

    # Responses

    def opened(self, broker: RangeConnection, versions: dict[int, tuple[int, int]]) -> None:
        broker.version = min(versions.get(1, (0, BY_ID))[1], BY_ID)
        self.pump(broker)

    def answered(self, broker: RangeConnection, token: Range, buffer: Buffer) -> None:
        assert broker.session is not None
        self.responses += 1
        kept = False
        try:
            response = broker.session.decode(buffer.view)
            if response.error:
                raise KafkaError(f"cluster {self.alias}: fetch failed: {error_codes.name(response.error)}")
            if broker.node in self._counts:
                self._counts[broker.node].received(len(buffer.view), time.monotonic())
            if response.throttle_ms:
                self._owner.throttled([token.partition], response.throttle_ms)
                for each in self.connections_to(broker.node):
                    each.muted_until = time.monotonic() + response.throttle_ms / 1000
            part = response.parts[0] if response.parts else None
            if not token.discarded:
                if part is None or part.error or part.diverging is not None or part.replica >= 0:
                    self._give_back(token.partition)
                elif len(part.records) > token.max_bytes:
                    self._large_batches.add(token.partition)
                    self._give_back(token.partition)
                else:
                    token.response, kept = (part, buffer), True
        finally:
            if not kept:
                buffer.release()
        if kept:
            self._convert(token.partition)
        self.pump(broker)

    def _convert(self, partition: Partition) -> None:
        """Converts the responses that are next."""
        ranges = self._ranges[partition]
        while ranges and (response := ranges[0].response) is not None:
            first = ranges[0]
            if first.start > partition.source.position:  # the response before it ended earlier
                gap = first.start - partition.source.position
                size = int(gap * max(partition.source.bytes_per_offset, 0.01) * 1.25) + 4096
                ranges.appendleft(Range(partition, partition.source.position, min(size, self._range_bytes)))
                self._outstanding += 1
                return
            ranges.popleft()
            self._outstanding -= 1
            part, buffer = response
            first.response = None
            position = partition.source.position
            records = b.from_offset(part.records, position) if first.start < position else part.records
            if records and part.aborted:  # the markers before the position end aborted transactions
                records = part.records
            try:
                # Without any, the response before it has reached its end: only the source's end offsets are new.
                advanced = self._owner.accept(partition, part._replace(records=records), buffer)
            finally:
                buffer.release()
            if partition not in self._ranges:  # accept found a fault
                return
            if not advanced and first.start == position:
                self._give_back(partition)
                return
        if not ranges and not (partition.state is State.RUNNING and partition.source.position < self._end(partition)):
            self._give_back(partition)

    def _give_back(self, partition: Partition) -> None:
        """To the fetch session."""
        if self.remove(partition):
            self._owner.add(partition)

    def lost(self, broker: RangeConnection, tokens: list[Any], reason: str) -> None:  # noqa: ARG002
        for token in tokens:
            if not token.discarded:
                self._give_back(token.partition)

    def failed(self, broker: RangeConnection, reason: str) -> None:  # noqa: ARG002  # the session reports it
        if any(each.connection is not None for each in self.connections_to(broker.node)):
            return
        self._avoid_until[broker.node] = time.monotonic() + _AVOID_SECONDS
        for partition in [each for each in self._ranges if each.source.leader == broker.node]:
            self._give_back(partition)
