"""The target's side: a connection per broker, several requests on their way, a batch of each partition in a request."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from twinlog.errors import ProtocolError
from twinlog.kafka import produce
from twinlog.kafka.batch import next_sequence, stamp
from twinlog.kafka.connection import Buffer
from twinlog.kafka.produce import Outcome
from twinlog.pipeline.links import Link, Links
from twinlog.pipeline.partition import Partition, Piece

# A broker remembers the last five batches of a producer in a partition: so many may be unanswered, or a repetition
# would not be recognised as one.
_IN_FLIGHT: Final = 5
_REQUEST_BYTES: Final = 4 << 20


class Handler(Protocol):
    def acked(self, partition: Partition, piece: Piece, base: int) -> None: ...
    def refused(self, partition: Partition, piece: Piece, outcome: Outcome) -> None: ...
    def target_lost(self, node: int, partitions: Iterable[Partition], reason: str) -> None: ...


# A piece in a request, and the generation of its partition: it tells whether the answer still matters.
Sent = tuple[Partition, int, Piece]
Request = dict[tuple[str, int], Sent]


@dataclass(slots=True, eq=False)
class TargetLink(Link):
    partitions: dict[Partition, None] = field(default_factory=dict)
    ready: dict[Partition, None] = field(default_factory=dict)  # with something to send, in turn


class Outlet(Links[TargetLink]):
    link_class = TargetLink
    largest_answer = produce.LARGEST_ANSWER

    def __init__(self, handler: Handler, *, timeout_ms: int, **links: Any) -> None:
        super().__init__(**links)
        self._handler = handler
        self._timeout_ms = timeout_ms
        self.throttled_ms = 0

    def add(self, partition: Partition) -> None:
        link = self.link(partition.target_leader)
        link.partitions[partition] = None
        self.pump(link)

    def remove(self, partition: Partition) -> None:
        for link in self.links.values():
            link.partitions.pop(partition, None)
            link.ready.pop(partition, None)

    def put(self, partition: Partition, pieces: list[Piece]) -> None:
        """Each becomes ours here: its place in the producer's sequence is fixed, in the order of the source."""
        sequence = partition.sequence
        for piece in pieces:
            stamp(piece.view, piece.attributes, partition.producer_id, partition.producer_epoch, sequence)
            sequence = next_sequence(sequence, piece.count)
        partition.sequence = sequence
        partition.queue.extend(pieces)
        self.link(partition.target_leader).ready[partition] = None

    def pump_all(self) -> None:
        for link in list(self.links.values()):
            if link.ready:
                self.pump(link)

    def pump(self, link: TargetLink) -> None:
        now = time.monotonic()
        if link.connection is None:
            if link.partitions:
                self.connect(link, now)
            return
        if not self.free(link):
            return
        while link.ready and len(link.connection.waiting) < _IN_FLIGHT and now >= link.quiet_until:
            topics: dict[str, list[tuple[int, memoryview]]] = {}
            request: Request = {}
            size = 0
            for partition in list(link.ready):
                del link.ready[partition]
                piece = partition.queue.popleft()
                partition.flight.append(piece)
                if partition.queue:
                    link.ready[partition] = None  # to the end: its turn comes again after the others'
                remote = partition.remote
                topics.setdefault(remote.topic, []).append((remote.partition, piece.view))
                request[remote] = (partition, partition.generation, piece)
                size += len(piece.view)
                if size >= _REQUEST_BYTES:
                    break
            correlation = link.connection.next_correlation()
            parts = produce.encode(correlation, self.client_id, -1, self._timeout_ms, topics)
            if not self.send(link, parts, request):
                return

    def opened(self, link: TargetLink, versions: dict[int, tuple[int, int]]) -> None:
        low, high = versions.get(produce.API_KEY, (0, -1))
        if not low <= produce.VERSION <= high:
            raise ProtocolError(
                f"cluster {self.alias}: its brokers do not take Produce {produce.VERSION} (Kafka 2.4 to 4.x do)"
            )
        self.pump(link)

    def answered(self, link: TargetLink, token: Request, buffer: Buffer) -> None:
        try:
            well = produce.all_well(buffer.view)
            if well is None:
                throttle = self._not_all_well(token, buffer)
            else:
                landed, throttle = well
                for key, base in landed:
                    if key not in token:
                        raise ProtocolError(f"an answer about {key[0]}-{key[1]}, which was not asked")
                    partition, generation, piece = token.pop(key)
                    piece.release()
                    if generation == partition.generation:
                        partition.flight.popleft()
                        self._handler.acked(partition, piece, base)
            if token:
                raise ProtocolError("an answer that says nothing about some of the partitions")
        finally:
            buffer.release()
            for _, _, piece in token.values():
                piece.release()
        if throttle:
            self.throttled_ms += throttle
            link.quiet_until = time.monotonic() + throttle / 1000
        self.pump(link)

    def _not_all_well(self, token: Request, buffer: Buffer) -> int:
        answer = produce.decode(buffer.view)
        for outcome in answer.outcomes:
            sent = token.pop((outcome.topic, outcome.partition), None)
            if sent is None:
                raise ProtocolError(f"an answer about {outcome.topic}-{outcome.partition}, which was not asked")
            partition, generation, piece = sent
            piece.release()
            if generation != partition.generation:
                continue
            if outcome.error:
                self._handler.refused(partition, piece, outcome)
            else:
                partition.flight.popleft()
                self._handler.acked(partition, piece, outcome.base_offset)
        return answer.throttle_ms

    def lost(self, link: TargetLink, tokens: list[Any], reason: str) -> None:
        for request in tokens:
            for _, _, piece in request.values():
                piece.release()
        self._handler.target_lost(link.node, list(link.partitions), reason)

    def failed(self, link: TargetLink, reason: str) -> None:
        self._handler.target_lost(link.node, list(link.partitions), reason)
