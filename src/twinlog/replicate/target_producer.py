"""Produces to the target: one connection per broker, up to five requests in flight, one batch per partition in each.

Brokers that are far away get several connections: see parallel_producer.py.
"""

import time
from collections.abc import Iterable
from typing import Any, Final, Protocol

from twinlog.errors import ProtocolError
from twinlog.kafka import produce
from twinlog.kafka.batch import next_sequence, stamp
from twinlog.kafka.connection import Buffer
from twinlog.kafka.produce import Outcome
from twinlog.replicate.broker_connections import BrokerConnections
from twinlog.replicate.connection_count import MAX_CONNECTIONS
from twinlog.replicate.parallel_producer import ParallelProducer
from twinlog.replicate.partition import OutboundBatch, Partition
from twinlog.replicate.target_connection import Request, TargetConnection, release, request_of

# A broker remembers the last five batches of a producer in a partition, and detects duplicates only among those.
_IN_FLIGHT: Final = 5
_UNSENT_SECONDS: Final = 0.5  # after which a request that the socket does not take is copied out of the fetch buffers


class ProduceHandler(Protocol):
    def acked(self, partition: Partition, batch: OutboundBatch, base: int) -> None: ...
    def refused(self, partition: Partition, batch: OutboundBatch, outcome: Outcome) -> None: ...
    def target_disconnected(self, node: int, partitions: Iterable[Partition], reason: str) -> None: ...


class TargetProducer(BrokerConnections[TargetConnection]):
    connection_class = TargetConnection
    largest_answer = produce.MAX_RESPONSE_BYTES

    def __init__(self, handler: ProduceHandler, *, timeout_ms: int, connections: int, **options: Any) -> None:
        """`connections`: to one far broker, at most; 0: automatic."""
        super().__init__(**options)
        self._handler = handler
        self._timeout_ms = timeout_ms
        self.throttled_ms = 0
        self.network_round_trip = not connections
        self.parallel = ParallelProducer(self, connections or MAX_CONNECTIONS)

    def add(self, partition: Partition) -> None:
        broker = self.broker(partition.target.leader)
        broker.partitions[partition] = None
        self.pump(broker)

    def remove(self, partition: Partition, in_flight: Iterable[OutboundBatch]) -> None:
        """`in_flight`: its batches in flight, which are discarded."""
        for broker in self.connections.values():
            broker.partitions.pop(partition, None)
            broker.ready.pop(partition, None)
        self.parallel.remove(partition, in_flight)

    def is_far(self, partition: Partition) -> bool:
        broker = self.connections.get(partition.target.leader)
        return broker is not None and broker.connection is not None and self.parallel.applies_to(broker)

    def open_requests(self, node: int) -> int:
        return sum(len(each.connection.waiting) for each in self.connections_to(node) if each.connection is not None)

    def put(self, partition: Partition, batches: list[OutboundBatch]) -> None:
        """Queues the batches, with our producer id and sequence numbers in source order."""
        sequence = partition.target.sequence
        for batch in batches:
            stamp(batch.view, batch.attributes, partition.target.producer_id, partition.target.producer_epoch, sequence)
            sequence = next_sequence(sequence, batch.count)
        partition.target.sequence = sequence
        partition.target.queue.extend(batches)
        self.broker(partition.target.leader).ready[partition] = None

    def pump_all(self) -> None:
        for broker in list(self.connections.values()):
            if broker.ready:
                self.pump(broker)

    def pump(self, broker: TargetConnection) -> None:
        now = time.monotonic()
        broker = broker.primary or broker
        if broker.connection is None:
            if broker.partitions:
                self.connect(broker, now)
            return
        if not self.can_send(broker):
            return
        if self.parallel.applies_to(broker):
            self.parallel.pump(broker)
            return
        connection = broker.connection
        while (
            broker.ready
            and len(connection.waiting) < _IN_FLIGHT
            and broker.unsent is None
            and now >= broker.muted_until
        ):
            if not self.send_request(broker, request_of(broker.ready, list(broker.ready))):
                return

    def send_request(self, broker: TargetConnection, request: Request, *, withhold_last_byte: bool = False) -> bool:
        """Whether the connection is still open."""
        connection = broker.connection
        assert connection is not None
        topics: dict[str, list[tuple[int, memoryview]]] = {}
        for (topic, partition), (_, _, batch) in request.items():
            topics.setdefault(topic, []).append((partition, batch.view))
            broker.outstanding_bytes += len(batch.view)
        correlation = connection.next_correlation()
        parts = produce.encode(correlation, self.client_id, -1, self._timeout_ms, topics)
        if not self.send(broker, parts, request, withhold_last_byte=withhold_last_byte):
            return False
        if connection.unsent:
            broker.unsent, broker.unsent_at = dict(request), time.monotonic()
        else:
            release(request)
        return True

    def flushed(self, broker: TargetConnection) -> None:
        """Releases the batches: they are never sent a second time, since recovery fetches them again."""
        if broker.unsent is not None:
            release(broker.unsent)
            broker.unsent = None
            self.pump(broker)

    def check(self, now: float) -> None:
        self.parallel.keep_alive(now)
        super().check(now)
        for broker in list(self.connections.values()):
            if broker.unsent is not None and broker.connection is not None and not broker.connection.unsent:
                self.flushed(broker)
            elif broker.unsent and broker.connection is not None and now - broker.unsent_at > _UNSENT_SECONDS:
                broker.connection.detach()  # a slow broker must not keep fetch responses of other partitions in memory
                release(broker.unsent)
                broker.unsent = {}

    def opened(self, broker: TargetConnection, versions: dict[int, tuple[int, int]]) -> None:
        low, high = versions.get(produce.API_KEY, (0, -1))
        if not low <= produce.VERSION <= high:
            raise ProtocolError(
                f"cluster {self.alias}: brokers do not support Produce v{produce.VERSION}; "
                "supported as a target: Kafka 2.4 to 4.x"
            )
        self.pump(broker)

    def answered(self, broker: TargetConnection, token: Request, buffer: Buffer) -> None:
        primary = broker.primary or broker
        primary.responded_at = time.monotonic()
        size = sum(len(batch.view) for _, _, batch in token.values())
        broker.outstanding_bytes = max(broker.outstanding_bytes - size, 0)  # 0 if the connection has been lost since
        try:
            accepted = produce.decode_success(buffer.view)
            if accepted is None:
                throttle = self._some_refused(token, buffer)
            else:
                base_offsets, throttle = accepted
                for key, base in base_offsets:
                    if key not in token:
                        raise ProtocolError(f"malformed produce response: {key[0]}-{key[1]} was not in the request")
                    partition, generation, batch = token.pop(key)
                    batch.release()
                    if generation == partition.generation:
                        self._acked(partition, batch, base)
            if token:
                raise ProtocolError("malformed produce response: some partitions of the request are missing")
        finally:
            buffer.release()
            release(token)
        if throttle:
            self.throttled_ms += throttle
            for partition in primary.partitions:
                if partition.target.acked_position < partition.source.high_watermark:  # the others have nothing to copy
                    partition.report.counters.target_throttled_ms += throttle
                    partition.report.changed = True
            for each in self.connections_to(broker.node):
                each.muted_until = time.monotonic() + throttle / 1000
        self.pump(broker)

    def _acked(self, partition: Partition, batch: OutboundBatch, base: int) -> None:
        partition.target.in_flight.popleft()
        self._handler.acked(partition, batch, base)
        self.parallel.acknowledged(partition, len(batch.view))

    def _some_refused(self, token: Request, buffer: Buffer) -> int:
        response = produce.decode(buffer.view)
        for outcome in response.outcomes:
            sent = token.pop((outcome.topic, outcome.partition), None)
            if sent is None:
                raise ProtocolError(
                    f"malformed produce response: {outcome.topic}-{outcome.partition} was not in the request"
                )
            partition, generation, batch = sent
            batch.release()
            if generation != partition.generation:
                continue
            if outcome.error:
                self._handler.refused(partition, batch, outcome)
            else:
                self._acked(partition, batch, outcome.base_offset)
        return response.throttle_ms

    def lost(self, broker: TargetConnection, tokens: list[Any], reason: str) -> None:
        self.parallel.lost(broker, had_requests=bool(tokens))
        waiting = [
            partition
            for request in tokens
            for partition, generation, _ in request.values()
            if generation == partition.generation
        ]
        broker.close_requests(tokens)
        affected = list(broker.partitions) if broker.primary is None else list(dict.fromkeys(waiting))
        self._handler.target_disconnected(broker.node, affected, reason)

    def failed(self, broker: TargetConnection, reason: str) -> None:
        if broker.primary is None:
            self._handler.target_disconnected(broker.node, list(broker.partitions), reason)
        else:
            self.parallel.refused(broker)
