"""Produces to the target: one connection per broker, up to five requests in flight, one batch per partition in each."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from twinlog.errors import ProtocolError
from twinlog.kafka import produce
from twinlog.kafka.batch import next_sequence, stamp
from twinlog.kafka.connection import Buffer
from twinlog.kafka.produce import Outcome
from twinlog.replicate.broker_connections import BrokerConnection, BrokerConnections
from twinlog.replicate.partition import OutboundBatch, Partition

# A broker remembers the last five batches of a producer in a partition, and detects duplicates only among those.
_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 4 << 20
_UNSENT_SECONDS: Final = 0.5  # after which a request that the socket does not take is copied out of the fetch buffers


class ProduceHandler(Protocol):
    def acked(self, partition: Partition, batch: OutboundBatch, base: int) -> None: ...
    def refused(self, partition: Partition, batch: OutboundBatch, outcome: Outcome) -> None: ...
    def target_disconnected(self, node: int, partitions: Iterable[Partition], reason: str) -> None: ...


# A batch in a request, and the generation of its partition: a response of an earlier generation is ignored.
Sent = tuple[Partition, int, OutboundBatch]
Request = dict[tuple[str, int], Sent]


@dataclass(slots=True, eq=False)
class TargetConnection(BrokerConnection):
    partitions: dict[Partition, None] = field(default_factory=dict)
    ready: dict[Partition, None] = field(default_factory=dict)  # with queued batches, in turn
    unsent: Request | None = None  # not yet completely written to the socket
    unsent_at: float = 0.0


class TargetProducer(BrokerConnections[TargetConnection]):
    connection_class = TargetConnection
    largest_answer = produce.MAX_RESPONSE_BYTES

    def __init__(self, handler: ProduceHandler, *, timeout_ms: int, **options: Any) -> None:
        super().__init__(**options)
        self._handler = handler
        self._timeout_ms = timeout_ms
        self.throttled_ms = 0

    def add(self, partition: Partition) -> None:
        broker = self.broker(partition.target.leader)
        broker.partitions[partition] = None
        self.pump(broker)

    def remove(self, partition: Partition) -> None:
        for broker in self.connections.values():
            broker.partitions.pop(partition, None)
            broker.ready.pop(partition, None)

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
        if broker.connection is None:
            if broker.partitions:
                self.connect(broker, now)
            return
        if not self.can_send(broker):
            return
        connection = broker.connection
        while (
            broker.ready
            and len(connection.waiting) < _IN_FLIGHT
            and broker.unsent is None
            and now >= broker.muted_until
        ):
            topics: dict[str, list[tuple[int, memoryview]]] = {}
            request: Request = {}
            size = 0
            for partition in list(broker.ready):
                del broker.ready[partition]
                batch = partition.target.queue.popleft()
                partition.target.in_flight.append(batch)
                if partition.target.queue:
                    broker.ready[partition] = None  # to the end: the other partitions come first
                remote = partition.remote
                topics.setdefault(remote.topic, []).append((remote.partition, batch.view))
                request[remote] = (partition, partition.generation, batch)
                size += len(batch.view)
                if size >= _REQUEST_BYTES:
                    break
            correlation = connection.next_correlation()
            parts = produce.encode(correlation, self.client_id, -1, self._timeout_ms, topics)
            if not self.send(broker, parts, request):
                return
            if connection.unsent:
                broker.unsent, broker.unsent_at = dict(request), now
            else:
                _release(request)

    def flushed(self, broker: TargetConnection) -> None:
        """Releases the batches: they are never sent a second time, since recovery fetches them again."""
        if broker.unsent is not None:
            _release(broker.unsent)
            broker.unsent = None
            self.pump(broker)

    def check(self, now: float) -> None:
        super().check(now)
        for broker in self.connections.values():
            if broker.unsent and broker.connection is not None and now - broker.unsent_at > _UNSENT_SECONDS:
                broker.connection.detach()  # a slow broker must not keep fetch responses of other partitions in memory
                _release(broker.unsent)
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
                        partition.target.in_flight.popleft()
                        self._handler.acked(partition, batch, base)
            if token:
                raise ProtocolError("malformed produce response: some partitions of the request are missing")
        finally:
            buffer.release()
            _release(token)
        if throttle:
            self.throttled_ms += throttle
            for partition in broker.partitions:
                if partition.target.acked_position < partition.source.high_watermark:  # the others have nothing to copy
                    partition.report.counters.target_throttled_ms += throttle
                    partition.report.changed = True
            broker.muted_until = time.monotonic() + throttle / 1000
        self.pump(broker)

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
                partition.target.in_flight.popleft()
                self._handler.acked(partition, batch, outcome.base_offset)
        return response.throttle_ms

    def lost(self, broker: TargetConnection, tokens: list[Any], reason: str) -> None:
        broker.unsent = None
        for request in tokens:
            _release(request)
        self._handler.target_disconnected(broker.node, list(broker.partitions), reason)

    def failed(self, broker: TargetConnection, reason: str) -> None:
        self._handler.target_disconnected(broker.node, list(broker.partitions), reason)


def _release(request: Request) -> None:
    for _, _, batch in request.values():
        batch.release()
