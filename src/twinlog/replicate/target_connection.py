"""A connection to a broker of the target, and the produce requests on it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Optional

from twinlog.replicate.broker_connections import BrokerConnection
from twinlog.replicate.partition import OutboundBatch, Partition

_REQUEST_BYTES: Final = 4 << 20

# A batch in a request, and the generation of its partition: a response of an earlier generation is ignored.
Sent = tuple[Partition, int, OutboundBatch]
Request = dict[tuple[str, int], Sent]


@dataclass(slots=True, eq=False)
class TargetConnection(BrokerConnection):
    partitions: dict[Partition, None] = field(default_factory=dict)
    ready: dict[Partition, None] = field(default_factory=dict)  # with queued batches, in turn
    unsent: Request | None = None  # not yet completely written to the socket
    unsent_at: float = 0.0
    primary: Optional["TargetConnection"] = None  # to the same broker; it has the partitions. None: this is the primary
    responded_at: float = 0.0  # of the primary: when any connection to the broker got a response
    outstanding_bytes: int = 0  # of requests without a response
    withheld: bool = False  # the last byte of its request has not been sent

    @property
    def is_idle(self) -> bool:
        return self.connection is not None and not self.connection.waiting

    def has_capacity(self, window: int, in_flight: int) -> bool:
        """For a request that the broker handles as soon as it has arrived."""
        return (
            self.connection is not None
            and not self.withheld
            and self.unsent is None
            and self.outstanding_bytes < window
            and len(self.connection.waiting) < in_flight
        )

    def close_requests(self, requests: Iterable[Request]) -> None:
        """The connection was closed with these requests open."""
        self.unsent = None
        self.withheld = False
        self.outstanding_bytes = 0
        for request in requests:
            release(request)


def request_of(
    ready: dict[Partition, None], partitions: Iterable[Partition], max_bytes: int = _REQUEST_BYTES
) -> Request:
    """Takes one queued batch of each partition, in turn, up to the size of a request."""
    request: Request = {}
    size = 0
    for partition in partitions:
        del ready[partition]
        batch = partition.target.queue.popleft()
        partition.target.in_flight.append(batch)
        if partition.target.queue:
            ready[partition] = None  # to the end: the other partitions come first
        request[partition.remote] = (partition, partition.generation, batch)
        size += len(batch.view)
        if size >= max_bytes:
            break
    return request


def release(request: Request) -> None:
    for _, _, batch in request.values():
        batch.release()
