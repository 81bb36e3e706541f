"""Produces to a far broker over several connections.

A broker reads about 100 KB per round trip and connection (its socket.receive.buffer.bytes), so over a link of 100 ms
one connection carries 1 MB/s, whatever the bandwidth. Therefore partitions are spread over several connections, and the
large batches of one partition are transferred side by side.

The batches of a partition must be stored in order, and a broker handles its connections independently of each other. So
a batch that follows one in flight on another connection is sent except for its last byte, without which the broker
does not handle the request. The byte is sent once all earlier batches of the partition are acknowledged.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from twinlog.replicate.connection_count import LONG_ROUND_TRIP, ConnectionCount
from twinlog.replicate.partition import OutboundBatch, Partition
from twinlog.replicate.target_connection import Request, TargetConnection, request_of

_WINDOW: Final = 256 << 10  # unacknowledged bytes after which a connection gets no further request
_IN_FLIGHT: Final = 64  # requests of one connection
_AVOID_SECONDS: Final = 30.0
# Unacknowledged bytes of one broker: what it acknowledges in this time. More would only be queued on a slow link, until
# requests time out.
_OUTSTANDING_SECONDS: Final = 4.0
_MIN_OUTSTANDING: Final = 2 << 20


class ConnectionOwner(Protocol):
    """The target producer."""

    connections: dict[int | tuple[int, int], TargetConnection]

    def can_send(self, broker: TargetConnection) -> bool: ...
    def complete(self, broker: TargetConnection) -> bool: ...
    def connect(self, broker: TargetConnection, now: float) -> None: ...
    def disconnect(self, broker: TargetConnection) -> list[Request]: ...
    def send_request(self, broker: TargetConnection, request: Request, *, withhold_last_byte: bool) -> bool: ...


class ParallelProducer:
    def __init__(self, owner: ConnectionOwner, max_connections: int) -> None:
        self._owner = owner
        self._max_connections = max_connections  # to one broker
        self._counts: dict[int, ConnectionCount] = {}  # by node
        self._further: dict[tuple[int, int], TargetConnection] = {}  # by node and number
        self._routes: dict[Partition, TargetConnection] = {}  # the connection of its last batch in flight
        self._withheld: dict[OutboundBatch, TargetConnection] = {}
        self._far: set[int] = set()  # nodes
        self._avoid_until: dict[int, float] = {}  # by node: it accepts no more connections
        self._withhold_after: dict[int, float] = {}  # by node: a connection with requests before withheld ones was lost
        self.withheld_requests = 0  # since the start

    def applies_to(self, primary: TargetConnection) -> bool:
        """Once true for a broker, it remains so: the order of batches in flight depends on it."""
        if self._max_connections > 1 and primary.round_trip >= LONG_ROUND_TRIP:
            self._far.add(primary.node)
        return primary.node in self._far

    def pump(self, primary: TargetConnection) -> None:
        """Sends the batches of partitions in `primary.ready`, as far as there are connections for them."""
        now = time.monotonic()
        node = primary.node
        all_connections = [primary, *(each for (number, _), each in self._further.items() if number == node)]
        usable = [each for each in all_connections if self._is_usable(each, now)]
        rate = self._counts[node].rate if node in self._counts else 0.0
        limit = max(_MIN_OUTSTANDING, int(rate * _OUTSTANDING_SECONDS))
        while (
            primary.ready
            and sum(each.outstanding_bytes for each in all_connections) < limit
            and self._send_one_batch_each(primary, usable, now)
        ):
            pass
        if primary.ready and now >= self._avoid_until.get(node, 0.0):
            self._connect_further(primary, now)

    def _send_one_batch_each(
        self, primary: TargetConnection, connections: Sequence[TargetConnection], now: float
    ) -> bool:
        """At most one batch of each partition. Whether any was sent."""
        sent = False
        together: dict[TargetConnection, list[Partition]] = {}
        for partition in list(primary.ready):
            if partition not in primary.ready:  # a connection was lost, so it is being recovered
                continue
            route = self._route(partition, connections, together, now)
            if route is None:
                continue
            connection, withhold = route
            if withhold:
                sent = self._send(primary, connection, [partition], withhold_last_byte=True) or sent
            else:
                together.setdefault(connection, []).append(partition)
        for connection, partitions in together.items():
            sent = self._send(primary, connection, partitions, withhold_last_byte=False) or sent
        return sent

    def _connect_further(self, primary: TargetConnection, now: float) -> None:
        """All are busy: opens more of them, as long as that increases the throughput."""
        node = primary.node
        if node not in self._counts:
            self._counts[node] = ConnectionCount(self._max_connections, primary.round_trip)
        for number in range(1, self._counts[node].wanted(now)):
            if (node, number) not in self._further:
                connection = TargetConnection(node, is_further=True, primary=primary)
                self._further[node, number] = self._owner.connections[node, number] = connection
            if self._further[node, number].connection is None:
                self._owner.connect(self._further[node, number], now)

    def _is_usable(self, connection: TargetConnection, now: float) -> bool:
        return connection.connection is not None and now >= connection.muted_until and self._owner.can_send(connection)

    def _route(
        self,
        partition: Partition,
        connections: Sequence[TargetConnection],
        together: dict[TargetConnection, list[Partition]],
        now: float,
    ) -> tuple[TargetConnection, bool] | None:
        """The connection for the next batch of a partition, and whether to withhold the last byte."""
        if not partition.target.in_flight:
            free = [each for each in connections if each.has_capacity(_WINDOW, _IN_FLIGHT)]
            best = min(free, key=lambda each: (each.outstanding_bytes, len(together.get(each, ()))), default=None)
            return None if best is None else (best, False)
        route = self._routes.get(partition)
        if (
            route is not None
            and route in connections
            and route.has_capacity(_WINDOW, _IN_FLIGHT)
            and not partition.target.one_at_a_time
        ):
            return route, False  # after the one in flight, on the same connection
        # Half of the connections are left for requests that are handled as soon as they arrive.
        withheld = sum(each.withheld for each in connections)
        if withheld < len(connections) // 2 and now >= self._withhold_after.get(partition.target.leader, 0.0):
            for each in connections:
                if each.is_idle and each not in together:
                    return each, True
        return None

    def _send(
        self,
        primary: TargetConnection,
        connection: TargetConnection,
        partitions: list[Partition],
        *,
        withhold_last_byte: bool,
    ) -> bool:
        still_ready = [each for each in partitions if each in primary.ready]
        if connection.connection is None or not still_ready:  # a connection was lost while this was being prepared
            return False
        request = request_of(primary.ready, still_ready, _WINDOW)
        for partition, _, _ in request.values():
            self._routes[partition] = connection
        if not self._owner.send_request(connection, request, withhold_last_byte=withhold_last_byte):
            return False
        if withhold_last_byte:
            self.withheld_requests += 1
            ((_, _, batch),) = request.values()
            self._withheld[batch] = connection
            connection.withheld = True
        return True

    def acknowledged(self, partition: Partition, size: int) -> None:
        """The first batch in flight of a partition was: the next one may follow."""
        leader = partition.target.leader
        if leader in self._counts:
            self._counts[leader].received(size, time.monotonic())
        if not self._withheld or not partition.target.in_flight:
            return
        connection = self._withheld.pop(partition.target.in_flight[0], None)
        if connection is not None:
            connection.withheld = False
            self._owner.complete(connection)

    def remove(self, partition: Partition, batches: Iterable[OutboundBatch]) -> None:
        """Its pending `batches` are discarded: incomplete requests must never be completed."""
        self._routes.pop(partition, None)
        for batch in batches:
            connection = self._withheld.pop(batch, None)
            if connection is not None:
                connection.close_requests(self._owner.disconnect(connection))

    def keep_alive(self, now: float) -> None:
        """A request without its last byte gets no response: only the one before it can time out."""
        for connection in self._withheld.values():
            connection.last_activity_at = now

    def lost(self, connection: TargetConnection, *, had_requests: bool) -> None:
        if had_requests and any(each.node == connection.node for each in self._withheld.values()):
            # The broker may have run out of memory for requests (queued.max.request.bytes) because of them.
            self._withhold_after[connection.node] = time.monotonic() + _AVOID_SECONDS
        for batch in [batch for batch, each in self._withheld.items() if each is connection]:
            del self._withheld[batch]

    def refused(self, connection: TargetConnection) -> None:
        """A further connection could not be opened."""
        self._avoid_until[connection.node] = time.monotonic() + _AVOID_SECONDS
