"""Decides when a cluster is down and when it is healthy again, with different criteria, so that consumers do not flap.

A cluster is down if its brokers do not respond and its heartbeats do not arrive at the other cluster either: so it is
not just our own connection that fails. It is healthy if it has responded for a while without interruption, and the
flows work in both directions: heartbeats of each cluster arrive at the other.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient

from twinlog.errors import KafkaError
from twinlog.failover import MirrorClient

if TYPE_CHECKING:
    from concurrent.futures import Future

_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to a cluster: properties of librdkafka's clients, and of Kafka's Java clients (MirrorClient)."""

    client: Mapping[str, str]
    mirror: Mapping[str, str]

    @classmethod
    def plain(cls, bootstrap: str) -> "Access":
        """Without security, both are the same."""
        return cls({"bootstrap.servers": bootstrap}, {"bootstrap.servers": bootstrap})


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. `well_after` is the longer one: moving back has a cost, staying has none.

    It should also exceed the flows' intervals for checkpoints and for new groups, or more records are read again.
    """

    gone_after: float = 10.0
    well_after: float = 30.0
    probe_every: float = 1.0


@dataclass(slots=True)
class Health:
    """What is known of one cluster. Does no I/O; the current time is an argument."""

    timeouts: Timeouts
    seen_at: float  # when it last responded, or a new heartbeat of it arrived
    responding_since: float | None = None  # without interruption
    heartbeat: int | None = None  # timestamp of the newest one
    heartbeat_at: float = _NEVER  # when that one was found

    def update(self, now: float, *, responds: bool | None, heartbeat: int | None) -> None:
        """`heartbeat` is the timestamp of its newest heartbeat at the other cluster. None: not known (yet)."""
        if heartbeat is not None and heartbeat != self.heartbeat:
            self.heartbeat, self.heartbeat_at, self.seen_at = heartbeat, now, now
        if responds:
            self.seen_at = now
            self.responding_since = now if self.responding_since is None else self.responding_since
        elif responds is False:
            self.responding_since = None

    def is_down(self, now: float) -> bool:
        return now - self.seen_at >= self.timeouts.gone_after

    def has_heartbeats(self, now: float) -> bool:
        """Whether its heartbeats arrive at the other cluster."""
        return now - self.heartbeat_at < self.timeouts.gone_after

    def is_stable(self, now: float) -> bool:
        return self.responding_since is not None and now - self.responding_since >= self.timeouts.well_after


def choose(current: str, home: str, away: str, health: Mapping[str, Health], now: float) -> str:
    """The other cluster if the current one is down and the other responds; home once it is healthy; else current."""
    other = away if current == home else home
    if health[current].is_down(now) and health[other].responding_since is not None:
        return other
    home_is_healthy = (
        health[home].is_stable(now) and health[home].has_heartbeats(now) and health[away].has_heartbeats(now)
    )
    return home if home_is_healthy else current


class ClusterWatch:
    """Probes two clusters. A probe never waits for a cluster that hangs: the next one reads its response."""

    def __init__(self, clusters: Mapping[str, Access], home: str, timeouts: Timeouts) -> None:
        (self._away,) = clusters.keys() - {home}
        self._home, self._timeouts = home, timeouts
        # librdkafka need not log connection errors: that a cluster does not respond is a normal result here.
        self._admins = {alias: AdminClient({**each.client, "log_level": 2}) for alias, each in clusters.items()}
        self._mirrors = {alias: MirrorClient(access.mirror, alias=alias) for alias, access in clusters.items()}
        self._requests: dict[str, Future[Any]] = {}
        self._probed_at = _NEVER
        self.health = {alias: Health(timeouts, time.monotonic()) for alias in clusters}

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()

    def mirror(self, alias: str) -> MirrorClient:
        return self._mirrors[alias]

    def is_down(self, alias: str) -> bool:
        return self.health[alias].is_down(time.monotonic())

    def choose(self, current: str) -> str:
        """The cluster to use now; probes both again if it is time to."""
        now = time.monotonic()
        if now - self._probed_at >= self._timeouts.probe_every:
            self._probed_at = now
            self._probe(current, now)
        return choose(current, self._home, self._away, self.health, now)

    def _probe(self, current: str, now: float) -> None:
        responds = {alias: self._responds(alias) for alias in self.health}
        for alias, health in self.health.items():
            other = self._away if alias == self._home else self._home
            # Heartbeats are only needed in a failure, and only a cluster that responds can be asked for them.
            needed = responds[other] and (current != self._home or not responds[alias])
            heartbeat = self._heartbeat(alias, read_from=other) if needed else None
            health.update(now, responds=responds[alias], heartbeat=heartbeat)

    def _responds(self, alias: str) -> bool | None:
        """Whether the last request succeeded, and sends the next; None while there is no response yet."""
        request = self._requests.get(alias)
        if request is not None and not request.done():
            return None
        self._requests[alias] = self._admins[alias].describe_cluster(request_timeout=self._timeouts.gone_after)
        return None if request is None else request.exception() is None

    def _heartbeat(self, alias: str, *, read_from: str) -> int | None:
        try:
            found = {each.alias: each.heartbeat_ms for each in self._mirrors[read_from].upstreams()}
        except KafkaError:
            return None
        return found.get(alias)
