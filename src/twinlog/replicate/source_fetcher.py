"""Fetches from the source: one connection and one fetch session per broker, with one long poll open in each.

Brokers that are far away get several: see fetch_spread.py and range_fetcher.py.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from twinlog.errors import KafkaError, ReplicationError
from twinlog.kafka import error_codes
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import BY_ID, BY_NAME, FetchedPartition, Session, WantedPartition
from twinlog.replicate.broker_connections import BrokerConnections
from twinlog.replicate.coalesce import Coalescer
from twinlog.replicate.connection_count import MAX_CONNECTIONS
from twinlog.replicate.convert_batches import ConversionRules, convert_batches
from twinlog.replicate.fetch_spread import FetchSpread
from twinlog.replicate.partition import OutboundBatch, Partition, PendingBytes, State
from twinlog.replicate.range_fetcher import RangeFetcher
from twinlog.replicate.source_connection import SourceConnection

FETCH: Final = 1
_EMPTY_RESPONSES: Final = 10  # consecutive, without a wait, after which requests are delayed
_LONGEST_PAUSE: Final = 0.25
_TRUNCATED_RESPONSES: Final = 5  # consecutive, without a complete batch; a broker must return the first one whole


@dataclass(frozen=True, slots=True)
class FetchSizes:
    wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    rack: str
    max_partition_pending: int  # unacknowledged bytes of one partition
    max_pending: int  # of all partitions
    connections: int  # to one far broker, at most; 0: automatic
    max_retained: int  # bytes of responses kept in memory: a pending batch keeps the whole response that it came in


class FetchHandler(Protocol):
    pending: PendingBytes

    def detach_pending(self) -> None: ...
    def fetched(self, partition: Partition, batches: list[OutboundBatch]) -> None: ...
    def source_error(self, partition: Partition, code: int, part: FetchedPartition) -> None: ...
    def damaged(self, partition: Partition, reason: str) -> None: ...
    def source_disconnected(self, partitions: Iterable[Partition], reason: str) -> None: ...


class SourceFetcher(BrokerConnections[SourceConnection]):
    connection_class = SourceConnection

    def __init__(self, handler: FetchHandler, sizes: FetchSizes, rules: ConversionRules, **options: Any) -> None:
        super().__init__(**options)
        self._handler = handler
        self._sizes = sizes
        self._rules = rules
        self._coalescer = Coalescer(self.pool)
        self.throttled_ms = 0
        self.network_round_trip = not sizes.connections
        self.spread = FetchSpread(self, sizes.connections or MAX_CONNECTIONS)
        self.ranges = RangeFetcher(
            self,
            range_bytes=sizes.partition_bytes,
            max_bytes=sizes.max_retained // 2,
            max_connections=sizes.connections or MAX_CONNECTIONS,
            read_committed=rules.read_committed,
            **options,
        )
        self.ranges.pool = self.pool  # one limit for all responses in memory

    def add(self, partition: Partition) -> None:
        """Fetches it from `partition.source.position` on, from its leader or the replica that the leader named."""
        self._add_to(self.spread.choose(partition.source.node), partition)

    def _add_to(self, broker: SourceConnection, partition: Partition) -> None:
        broker.partitions[partition.tp] = partition
        broker.to_request[partition.tp] = None
        broker.forget.pop(partition.tp, None)
        partition.source.requested_position = -1
        self.pump(broker)

    def move(self, partition: Partition, to: SourceConnection) -> None:
        """To another session of the same broker."""
        self._leave_session(partition)
        self._add_to(to, partition)

    def connection_of(self, partition: Partition) -> SourceConnection | None:
        """The one it is fetched by; else the first one to its broker."""
        for broker in self.connections.values():
            if partition.tp in broker.partitions:
                return broker
        return self.connections.get(partition.source.node)

    def has(self, partition: Partition) -> bool:
        return partition in self.ranges or any(
            partition.tp in broker.partitions for broker in self.connections.values()
        )

    def remove(self, partition: Partition) -> None:
        self.ranges.remove(partition)
        self._leave_session(partition)

    def _leave_session(self, partition: Partition) -> None:
        for broker in self.connections.values():
            if broker.partitions.pop(partition.tp, None) is not None:
                broker.to_request.pop(partition.tp, None)
                broker.paused.pop(partition.tp, None)
                partition.source.paused = False
                broker.forget[partition.tp] = None
        partition.source.requested_position = -1

    def leave_replica(self, partition: Partition) -> None:
        """Stops fetching it; when it is added again, it is fetched from its leader."""
        self.remove(partition)
        partition.source.replica = -1

    def has_capacity(self, partition: Partition) -> None:
        """The target has acknowledged some of a paused partition's batches."""
        saturated = partition.target.leader in self._handler.pending.saturated
        if saturated or partition.target.pending_bytes * 2 > self._sizes.max_partition_pending:
            return
        if partition in self.ranges:
            partition.source.paused = False
            self.ranges.pump_all()
        for broker in self.connections.values():
            if partition.tp in broker.paused:
                self._unpause(broker, partition)
                self.pump(broker)

    def broker_has_capacity(self, node: int) -> None:
        """One of the target's brokers has acknowledged some of its batches."""
        for broker in self.connections.values():
            paused = [broker.partitions[tp] for tp in broker.paused if broker.partitions[tp].target.leader == node]
            for partition in paused:
                self._unpause(broker, partition)
            if paused:
                self.pump(broker)
        self.ranges.pump_all()

    def _pause_for_broker(self, node: int) -> None:
        """Pauses every partition that is led by this broker of the target."""
        for broker in self.connections.values():
            for tp, partition in broker.partitions.items():
                if partition.target.leader == node and tp not in broker.paused:
                    broker.paused[tp] = broker.forget[tp] = None
                    broker.to_request.pop(tp, None)
                    partition.source.paused = True

    @staticmethod
    def _unpause(broker: SourceConnection, partition: Partition) -> None:
        partition.source.paused = False
        del broker.paused[partition.tp]
        broker.forget.pop(partition.tp, None)  # which takes precedence in a request
        broker.to_request[partition.tp] = None

    def pump_all(self) -> None:
        for broker in list(self.connections.values()):
            self.pump(broker)
        self.ranges.pump_all()

    def check(self, now: float) -> None:
        super().check(now)
        self.spread.check(now)
        self.ranges.check(now)

    def close(self) -> None:
        super().close()
        self.ranges.close()

    # For the ranges

    def may_fetch(self, partition: Partition) -> bool:
        """Whether there is memory for more of it; else it is paused until the target has acknowledged some."""
        pending = self._handler.pending
        if self.stopping or pending.total > self._sizes.max_pending or pending.is_saturated(partition.target.leader):
            return False
        if partition.target.pending_bytes > self._sizes.max_partition_pending:
            partition.source.paused = True
            return False
        return self.pool.in_use <= self._sizes.max_retained

    def throttled(self, partitions: Iterable[Partition], throttle_ms: int) -> None:
        self.throttled_ms += throttle_ms
        for partition in partitions:
            if partition.target.acked_position < partition.source.high_watermark:  # the others have nothing to copy
                partition.report.counters.source_throttled_ms += throttle_ms
                partition.report.changed = True

    def pump(self, broker: SourceConnection) -> None:
        now = time.monotonic()
        if broker.connection is None:
            if broker.partitions:
                self.connect(broker, now)
            return
        if broker.connection.waiting or now < broker.muted_until or self.stopping or not self.can_send(broker):
            return
        if self._handler.pending.total > self._sizes.max_pending:
            return
        if self.pool.in_use > self._sizes.max_retained:
            self._handler.detach_pending()
            if self.pool.in_use > self._sizes.max_retained:
                return
        if broker.session.fresh:
            broker.to_request = dict.fromkeys(tp for tp in broker.partitions if tp not in broker.paused)
            broker.forget.clear()
        for node in {broker.partitions[tp].target.leader for tp in broker.to_request}:
            if self._handler.pending.is_saturated(node):
                self._pause_for_broker(node)
        wants = []
        for tp in broker.to_request:
            partition = broker.partitions[tp]
            if partition.target.pending_bytes > self._sizes.max_partition_pending:
                broker.paused[tp] = None
                broker.forget[tp] = None
                partition.source.paused = True
                continue
            partition.source.requested_position = partition.source.position
            wants.append(
                WantedPartition(
                    tp,
                    partition.source.topic_id,
                    partition.source.position,
                    partition.source.leader_epoch if partition.source.replica < 0 else -1,
                    partition.source.last_fetched_epoch,
                    self._sizes.partition_bytes,
                )
            )
        if len(broker.paused) == len(broker.partitions):
            return  # all are paused; `forget` is sent with the next request
        # A long poll would delay paused partitions when they are resumed.
        wait_ms = min(self._sizes.wait_ms, 5) if broker.paused else self._sizes.wait_ms
        broker.fetch_sent_at, broker.max_wait = now, wait_ms / 1000
        request = broker.session.request(
            broker.connection.next_correlation(),
            self.client_id,
            wants,
            broker.forget,
            wait_ms=wait_ms,
            min_bytes=self._sizes.min_bytes,
            max_bytes=self._sizes.max_bytes,
            isolation=int(self._rules.read_committed),
            rack=self._sizes.rack,
        )
        broker.to_request = {}
        broker.forget = {}
        self.send(broker, [request], None)

    def opened(self, broker: SourceConnection, versions: dict[int, tuple[int, int]]) -> None:
        highest = versions.get(FETCH, (0, -1))[1]
        if highest < BY_NAME:
            raise KafkaError(
                f"cluster {self.alias}: brokers older than Kafka 2.7 are not supported as a source; upgrade them"
            )
        known = all(partition.source.topic_id.int for partition in broker.partitions.values())
        broker.session = Session(BY_ID if highest >= BY_ID and known else BY_NAME)
        for partition in broker.partitions.values():
            partition.source.requested_position = -1
        self.pump(broker)

    def answered(self, broker: SourceConnection, token: Any, buffer: Buffer) -> None:  # noqa: ARG002
        try:
            response = broker.session.decode(buffer.view)
            if response.error in error_codes.FETCH_SESSION_LOST:
                broker.session.reset()
            elif response.error:
                raise KafkaError(f"cluster {self.alias}: fetch failed: {error_codes.name(response.error)}")
            else:
                broker.session.answered(response)
                advanced = False
                for part in response.parts:
                    partition = broker.partitions.get(part.tp)
                    if partition is not None and self._part(broker, partition, part, buffer):
                        advanced = True
                self._back_off(broker, advanced=advanced)
                self.spread.responded(broker, len(buffer.view), time.monotonic())
            if response.throttle_ms:
                self.throttled(broker.partitions.values(), response.throttle_ms)
                broker.muted_until = time.monotonic() + response.throttle_ms / 1000
        finally:
            buffer.release()
        self.pump(broker)

    def _back_off(self, broker: SourceConnection, *, advanced: bool) -> None:
        """Delays requests to a broker that keeps sending empty responses without waiting (busy loop)."""
        now = time.monotonic()
        if advanced:
            broker.truncated_counts.clear()  # the response was full of other partitions' records
        for tp in [tp for tp, times in broker.truncated_counts.items() if times >= _TRUNCATED_RESPONSES]:
            del broker.truncated_counts[tp]
            if (partition := broker.partitions.get(tp)) is not None:
                self._handler.damaged(
                    partition, f"broker keeps returning a truncated batch at offset {partition.source.position}"
                )
        broker.empty_responses = (
            0 if advanced or now - broker.fetch_sent_at > broker.max_wait / 2 else broker.empty_responses + 1
        )
        if broker.empty_responses > _EMPTY_RESPONSES:
            broker.muted_until = now + min(0.001 * 2 ** (broker.empty_responses - _EMPTY_RESPONSES), _LONGEST_PAUSE)

    def _part(self, broker: SourceConnection, partition: Partition, part: FetchedPartition, buffer: Buffer) -> bool:
        """Whether the fetch position advanced."""
        if partition.source.requested_position != partition.source.position or partition.state is not State.RUNNING:
            broker.to_request[part.tp] = None  # a response to an earlier request
            return False
        if part.error or part.diverging is not None:
            self._handler.source_error(partition, part.error, part)
            return False
        source = partition.source
        if part.replica >= 0 and part.replica != source.replica and part.replica in self.brokers:
            self._note_ends(partition, part)
            self.remove(partition)
            source.replica = part.replica
            self.add(partition)
            return False
        if part.records:
            broker.to_request[part.tp] = None
            broker.loads[part.tp] = broker.loads.get(part.tp, 0) + len(part.records)
        before = source.position
        advanced = self.accept(partition, part, buffer)
        if part.records and source.position == before and partition.tp in broker.partitions:
            broker.truncated_counts[part.tp] = broker.truncated_counts.get(part.tp, 0) + 1
        if advanced and partition.tp in broker.partitions and self.ranges.is_worth(partition, broker.round_trip):
            self._leave_session(partition)
            self.ranges.add(partition, broker.round_trip)
        return advanced

    def _note_ends(self, partition: Partition, part: FetchedPartition) -> None:
        source = partition.source
        if partition.report.error and partition.report.failing_side != "target":
            partition.report.clear_error()
        if part.high_watermark != source.high_watermark:
            source.high_watermark = part.high_watermark
            partition.report.changed = True
        source.log_start = part.log_start
        # With read_uncommitted, open transactions are not waited for.
        source.last_stable = part.last_stable if self._rules.read_committed else part.high_watermark

    def accept(self, partition: Partition, part: FetchedPartition, buffer: Buffer) -> bool:
        """Converts a response without an error that starts at or before the fetch position; whether it advanced."""
        source = partition.source
        self._note_ends(partition, part)
        if not part.records:
            return False
        before = source.position
        try:
            batches = convert_batches(source, partition.target.limits, part, buffer, self._rules, self._coalescer)
        except ReplicationError as error:
            self._handler.damaged(partition, str(error))
            return False
        if source.position == before:
            return False
        source.bytes_per_offset = len(part.records) / (source.position - before)
        if not batches:
            partition.nothing_to_copy_before(source.position)
        self._handler.fetched(partition, batches)
        return True

    def lost(self, broker: SourceConnection, tokens: list[Any], reason: str) -> None:  # noqa: ARG002
        """The partitions stay assigned: metadata will show whether their leader has changed."""
        broker.session = Session(broker.session.version)
        for partition in broker.partitions.values():
            partition.source.requested_position = -1
        self._handler.source_disconnected(list(broker.partitions.values()), reason)

    def failed(self, broker: SourceConnection, reason: str) -> None:
        if broker.primary is not None:
            self.spread.refused(broker)
            return
        self._handler.source_disconnected(list(broker.partitions.values()), reason)
