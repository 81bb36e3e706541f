"""Spreads the partitions of a far source broker over several fetch sessions, by load.

One connection carries about 100 KB per round trip (see range_fetcher.py). A session whose responses take longer than
their round trip has reached that limit, so half of its partitions, by bytes, get a connection and a session of their
own. A single partition that is too fast for its connection falls behind and is fetched in ranges instead.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol

from twinlog.model import TopicPartition
from twinlog.replicate.connection_count import LONG_ROUND_TRIP
from twinlog.replicate.partition import Partition
from twinlog.replicate.source_connection import SourceConnection

_FULL_RESPONSE: Final = 64 << 10  # smaller ones arrive in one round trip
_SLOWER: Final = 1.7  # times the round trip
_SATURATED: Final = 3  # consecutive slow responses after which partitions are moved
_MERGE_SECONDS: Final = 60.0  # without a saturated session, after which a session is merged again
_AVOID_SECONDS: Final = 30.0


class SessionOwner(Protocol):
    """The source fetcher."""

    connections: dict[int | tuple[int, int], SourceConnection]

    def broker(self, node: int) -> SourceConnection: ...
    def move(self, partition: Partition, to: SourceConnection) -> None: ...
    def disconnect(self, broker: SourceConnection) -> list[None]: ...


class FetchSpread:
    def __init__(self, owner: SessionOwner, max_connections: int) -> None:
        self._owner = owner
        self._max_connections = max_connections  # to one broker
        self._saturated_at: dict[int, float] = {}  # by node: when a session was last saturated
        self._avoid_until: dict[int, float] = {}  # by node: it accepts no more connections

    def choose(self, node: int) -> SourceConnection:
        """The session for a new partition: the one with the fewest."""
        return min(self._sessions(node), key=lambda each: len(each.partitions))

    def _sessions(self, node: int) -> list[SourceConnection]:
        primary = self._owner.broker(node)
        return [primary, *(each for each in self._owner.connections.values() if each.primary is primary)]

    def responded(self, session: SourceConnection, size: int, now: float) -> None:
        """After each response, which has been counted in `loads`."""
        slow = now - session.fetch_sent_at > session.round_trip * _SLOWER
        if size < _FULL_RESPONSE or not slow or session.round_trip < LONG_ROUND_TRIP:
            session.slow_responses = 0
            return
        session.slow_responses += 1
        if session.slow_responses < _SATURATED:
            return
        session.slow_responses = 0
        self._saturated_at[session.node] = now
        self._split(session, now)
        session.loads.clear()

    def _split(self, session: SourceConnection, now: float) -> None:
        node = session.node
        sessions = self._sessions(node)
        numbers = [
            number for number in range(1, self._max_connections) if (node, number) not in self._owner.connections
        ]
        moved = to_move(session.loads)
        if not moved or not numbers or now < self._avoid_until.get(node, 0.0):
            return
        new = SourceConnection(node, is_further=True, primary=sessions[0], round_trip=session.round_trip)
        self._owner.connections[node, numbers[0]] = new
        for tp in moved:
            if (partition := session.partitions.get(tp)) is not None:
                self._owner.move(partition, new)

    def check(self, now: float) -> None:
        """Merges the last session of a broker into its first one, if none was saturated for some time."""
        for node, at in list(self._saturated_at.items()):
            if now - at < _MERGE_SECONDS:
                continue
            sessions = self._sessions(node)
            if len(sessions) == 1:
                del self._saturated_at[node]
            else:
                self._saturated_at[node] = now
                self._merge(sessions[-1], sessions[0])

    def _merge(self, session: SourceConnection, into: SourceConnection) -> None:
        for partition in list(session.partitions.values()):
            self._owner.move(partition, into)
        if session.connection is not None:
            self._owner.disconnect(session)
        for key in [key for key, each in self._owner.connections.items() if each is session]:
            del self._owner.connections[key]

    def refused(self, session: SourceConnection) -> None:
        """A further connection could not be opened."""
        assert session.primary is not None
        self._avoid_until[session.node] = time.monotonic() + _AVOID_SECONDS
        self._merge(session, session.primary)


def to_move(loads: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Every second partition, by bytes received: about half of the load."""
    return sorted(loads, key=lambda tp: loads[tp], reverse=True)[1::2]
