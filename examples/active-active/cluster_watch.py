"""Whether a cluster is gone, and whether it is well again: two questions, so that nobody moves to and fro.

Gone is a cluster whose brokers do not answer us, and whose heartbeats do not arrive at the other cluster either: then
it is not only our own way to it that is broken. Well is one that has answered for a while without a break, while the
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
    """How to come to a cluster: the properties of librdkafka's clients, and of Kafka's Java clients (MirrorClient)."""

    client: Mapping[str, str]
    mirror: Mapping[str, str]

    @classmethod
    def plain(cls, bootstrap: str) -> "Access":
        """Where nobody asks who comes, both are the same."""
        return cls({"bootstrap.servers": bootstrap}, {"bootstrap.servers": bootstrap})


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds. `well_after` is the longer one: to move costs something, to stay where it works costs nothing.

    It should also be longer than the flows' intervals for checkpoints and for new groups, or more is read again.
    """

    gone_after: float = 10.0
    well_after: float = 30.0
    look_every: float = 1.0


@dataclass(slots=True)
class Health:
    """What was seen of one cluster. Time is an argument; nobody is asked here."""

    patience: Patience
    seen_at: float  # when it last answered, or a new heartbeat of it was found
    answering_since: float | None = None  # without a break
    heartbeat: int | None = None  # the newest that was found
    heartbeat_at: float = _NEVER  # when that was

    def see(self, now: float, *, answers: bool | None, heartbeat: int | None) -> None:
        """`heartbeat` is when the newest one at the other cluster was written. None: not known, or not yet."""
        if heartbeat is not None and heartbeat != self.heartbeat:
            self.heartbeat, self.heartbeat_at, self.seen_at = heartbeat, now, now
        if answers:
            self.seen_at = now
            self.answering_since = now if self.answering_since is None else self.answering_since
        elif answers is False:
            self.answering_since = None

    def gone(self, now: float) -> bool:
        return now - self.seen_at >= self.patience.gone_after

    def beats(self, now: float) -> bool:
        """Whether its heartbeats arrive at the other cluster."""
        return now - self.heartbeat_at < self.patience.gone_after

    def steady(self, now: float) -> bool:
        return self.answering_since is not None and now - self.answering_since >= self.patience.well_after


def choose(at: str, home: str, away: str, health: Mapping[str, Health], now: float) -> str:
    """Where to be: where one is, unless that is gone and the other answers; and at home again when home is well."""
    other = away if at == home else home
    if health[at].gone(now) and health[other].answering_since is not None:
        return other
    well = health[home].steady(now) and health[home].beats(now) and health[away].beats(now)
    return home if well else at


class ClusterWatch:
    """Looks at two clusters. A look does not wait for one that hangs: what it asks is heard by the next look."""

    def __init__(self, clusters: Mapping[str, Access], home: str, patience: Patience) -> None:
        (self._away,) = clusters.keys() - {home}
        self._home, self._patience = home, patience
        # That a cluster does not answer is what we want to know: librdkafka need not complain of it.
        self._admins = {alias: AdminClient({**each.client, "log_level": 2}) for alias, each in clusters.items()}
        self._mirrors = {alias: MirrorClient(access.mirror, alias=alias) for alias, access in clusters.items()}
        self._asked: dict[str, Future[Any]] = {}
        self._looked_at = _NEVER
        self.health = {alias: Health(patience, time.monotonic()) for alias in clusters}

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()

    def mirror(self, alias: str) -> MirrorClient:
        return self._mirrors[alias]

    def gone(self, alias: str) -> bool:
        return self.health[alias].gone(time.monotonic())

    def choose(self, at: str) -> str:
        """Where to be, by what is known now; looks again if it is time to."""
        now = time.monotonic()
        if now - self._looked_at >= self._patience.look_every:
            self._looked_at = now
            self._look(at, now)
        return choose(at, self._home, self._away, self.health, now)

    def _look(self, at: str, now: float) -> None:
        answers = {alias: self._heard(alias) for alias in self.health}
        for alias, health in self.health.items():
            other = self._away if alias == self._home else self._home
            # While all is well nobody needs heartbeats; and a cluster that hangs is not asked for the other's.
            wanted = answers[other] and (at != self._home or not answers[alias])
            heartbeat = self._heartbeat(alias, there=other) if wanted else None
            health.see(now, answers=answers[alias], heartbeat=heartbeat)

    def _heard(self, alias: str) -> bool | None:
        """Whether it has answered the last question, and asks the next; None while it may still answer."""
        asked = self._asked.get(alias)
        if asked is not None and not asked.done():
            return None
        self._asked[alias] = self._admins[alias].describe_cluster(request_timeout=self._patience.gone_after)
        return None if asked is None else asked.exception() is None

    def _heartbeat(self, alias: str, *, there: str) -> int | None:
        try:
            found = {each.alias: each.heartbeat_ms for each in self._mirrors[there].upstreams()}
        except KafkaError:
            return None
        return found.get(alias)
