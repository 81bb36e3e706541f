"""Moving consumers to the other cluster: what a cluster knows of those upstream of it, and of their groups' offsets.

The same answers as those of MM2's Java `MirrorClient` and `RemoteClusterUtils`, from topics that Twinlog or MM2 fills:

    with MirrorClient({"bootstrap.servers": "eu-1:9092"}) as client:  # the cluster to move to, not the one to leave
        client.upstream_clusters()  # {"us"}
        client.remote_consumer_offsets("app-1", "us")  # {us.orders-0: (offset, metadata), ...}

Two things differ, because an operator who moves consumers must not be told half of the truth. Where time runs out Java
returns what it has read so far; here that is an error. Where the checkpoints topic is missing Java finds nothing, or
makes the topic; here that is an error, too, which says what to look at.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self

from twinlog.config.flows import Config
from twinlog.config.javaregex import JavaRegexError, compile_java
from twinlog.errors import ConfigError, KafkaError, RefusedError, UnreachableError
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, Client
from twinlog.kafka.reading import TopicReader, batch_end, records_from
from twinlog.kafka.records import Record
from twinlog.model import TopicPartition
from twinlog.topology.policy import ReplicationPolicy
from twinlog.topology.properties import client_of, client_properties, policy_from
from twinlog.tracking.checkpoints import Checkpoint
from twinlog.tracking.heartbeats import Heartbeat

__all__ = [
    "MirrorClient", "OffsetAndMetadata", "RemoteCheckpoints", "Upstream", "checkpoint_topics", "client_properties",
    "heartbeat_topics", "replication_hops", "translate_offsets", "translate_offsets_by_pattern", "upstream_clusters",
]  # fmt: skip

SECONDS: Final = 30.0
_PAUSE: Final = 0.2
_NONE: Final = -1  # hops to a cluster that is not upstream
# What brokers themselves call internal: an admin client does not list them.
_BROKERS_OWN: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_EMPTY: Final = Checkpoint("", "", 0, 0, 0).value()

Offsets = dict[TopicPartition, "OffsetAndMetadata"]


class OffsetAndMetadata(NamedTuple):
    """Where a group goes on in a partition of the cluster that was asked."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class RemoteCheckpoints:
    """What the checkpoints topic of one upstream cluster holds: for each group and partition its newest checkpoint."""

    topic: str
    groups: dict[str, dict[TopicPartition, Checkpoint]]  # those that were asked for
    written_ms: dict[str, int]  # when the newest checkpoint of each was written
    others: frozenset[str]  # groups that have checkpoints, too, and were not asked for
    skipped: int  # records that are no checkpoints

    def offsets(self, group: str) -> Offsets:
        return {
            place: OffsetAndMetadata(checkpoint.downstream, checkpoint.metadata)
            for place, checkpoint in self.groups.get(group, {}).items()
        }


@dataclass(frozen=True, slots=True)
class Upstream:
    """A cluster whose records arrive, directly or through others."""

    alias: str
    hops: int
    heartbeats_topic: str  # the one that came the shortest way
    heartbeat_ms: int | None  # when the newest heartbeat in it was written; None: there is none that can be read
    remote_topics: tuple[str, ...]  # those that were copied from it directly


class MirrorClient:
    """Asks one cluster, the target of flows, about the clusters upstream. Belongs to one thread.

    `properties` are those of Java's MirrorClientConfig: `bootstrap.servers`, the security settings, each also with
    `admin.` or `consumer.` in front (`producer.` is taken, and not needed); `replication.policy.class`,
    `replication.policy.separator`, `replication.policy.internal.topic.separator.enabled`, as the flows have them; and
    `source.cluster.alias` for the identity policy. `alias` is what messages call the cluster.

    Topics are listed anew for each question. What a cluster does not answer is raised as a KafkaError, a property that
    makes no sense as a ConfigError.
    """

    def __init__(self, properties: Mapping[str, str], *, alias: str = "local") -> None:
        self.replication_policy: ReplicationPolicy = policy_from(properties)
        self.alias = alias
        self._admin = Client(alias, client_of(alias, properties, "admin"), "twinlog-mirror-client")
        self._consumer = Client(alias, client_of(alias, properties, "consumer"), "twinlog-mirror-client")
        self._patience = self._consumer.timeout

    @classmethod
    def for_cluster(cls, config: Config, alias: str, source: str | None = None) -> Self:
        """For a cluster of a configuration; `source` as in `client_properties`."""
        return cls(client_properties(config, alias, source), alias=alias)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()
        self._consumer.close()

    # What names say

    def replication_hops(self, alias: str) -> int:
        """How many flows lie between that cluster and this one, by the shortest way; -1 if there is no way."""
        hops = (_hops(self.replication_policy, topic, alias) for topic in self.heartbeat_topics())
        return min((count for count in hops if count != _NONE), default=_NONE)

    def heartbeat_topics(self) -> set[str]:
        """Those of clusters upstream, and the cluster's own."""
        return {topic for topic in self._topics() if self.replication_policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        return {topic for topic in self._topics() if self.replication_policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        """Every cluster whose heartbeats arrive, directly or through others."""
        return {source for topic in self.heartbeat_topics() for source in _sources(self.replication_policy, topic)}

    def remote_topics(self, alias: str | None = None) -> set[str]:
        """Topics that were replicated from anywhere, or from that cluster directly. Only their names tell: to the
        default policy `orders.v1` came from a cluster `orders`; under the identity policy every topic came from
        `source.cluster.alias`, or none if that is not given.
        """
        return _remote_topics(self.replication_policy, self._topics(), alias)

    def upstreams(self) -> list[Upstream]:
        """What there is to say of each upstream cluster, the nearest first."""
        policy, topics = self.replication_policy, self._topics()
        heartbeats = [topic for topic in topics if policy.is_heartbeats_topic(topic)]
        found = []
        for alias in {source for topic in heartbeats for source in _sources(policy, topic)}:
            hops, topic = _nearest(policy, heartbeats, alias)
            remote = sorted(_remote_topics(policy, topics, alias))
            found.append(Upstream(alias, hops, topic, self._newest_heartbeat(topic), tuple(remote)))
        return sorted(found, key=lambda each: (each.hops, each.alias))

    def _topics(self) -> set[str]:
        return set(self._admin.metadata(None).topics) - _BROKERS_OWN

    # What checkpoints say

    def remote_consumer_offsets(self, group: str, remote_alias: str, timeout: float = SECONDS) -> Offsets:
        """Where a group of `remote_alias` goes on here: its offsets there, translated. Empty: nothing is known of it.

        `timeout` is in seconds.
        """
        return self.checkpoints(remote_alias, timeout, lambda each: each == group).offsets(group)

    def remote_consumer_offsets_by_pattern(
        self, pattern: str, remote_alias: str, timeout: float = SECONDS
    ) -> dict[str, Offsets]:
        """The same for every group whose whole name matches, by group. The pattern is a Java regular expression."""
        matches = group_pattern(pattern)
        found = self.checkpoints(remote_alias, timeout, lambda each: bool(matches.fullmatch(each)))
        return {group: found.offsets(group) for group in found.groups}

    def checkpoints(
        self, remote_alias: str, timeout: float = SECONDS, wanted: Callable[[str], bool] = lambda _: True
    ) -> RemoteCheckpoints:
        """The newest checkpoints of each group that is `wanted`, with all that is known of them."""
        deadline = time.monotonic() + timeout
        topic = self.replication_policy.checkpoints_topic(remote_alias)
        self._check_there(topic, remote_alias)
        while True:
            self._consumer.timeout = min(self._patience, max(deadline - time.monotonic(), _PAUSE))
            reason = ""
            try:
                found = _newest(topic, _until(TopicReader(self._consumer, topic).read(), deadline), wanted)
            except (UnreachableError, RefusedError) as error:
                # A leader that moves: nothing uncommon where consumers must be moved.
                if isinstance(error, RefusedError) and error.code not in codes.MOVED - codes.GONE:
                    raise _granting(error, topic) from error
                reason = f": {error}"
            else:
                if time.monotonic() <= deadline:
                    return found
            finally:
                self._consumer.timeout = self._patience
            if time.monotonic() + _PAUSE > deadline:
                raise UnreachableError(
                    f"cluster {self.alias}: topic {topic} could not be read to its end within {timeout:g} s{reason}: "
                    "allow more time"
                )
            time.sleep(_PAUSE)

    def _check_there(self, topic: str, remote_alias: str) -> None:
        info = self._consumer.metadata([topic]).topics.get(topic)
        if info is None or info.error == codes.UNKNOWN_TOPIC_OR_PARTITION:
            aliases = [_alias_of(self.replication_policy, each) for each in sorted(self.checkpoint_topics())]
            known = ", ".join(filter(None, aliases)) or "no cluster at all"
            raise RefusedError(
                f"cluster {self.alias} has no topic {topic}, so the offsets of {remote_alias}'s groups are not known "
                f"there. Is the flow {remote_alias}->{self.alias} running, with emit.checkpoints.enabled = true? Is "
                f"{remote_alias} the alias that it uses? There are checkpoints from: {known}",
                codes.UNKNOWN_TOPIC_OR_PARTITION,
            )
        if info.error and info.error not in codes.MOVED:
            error = RefusedError(f"cluster {self.alias}: topic {topic}: {codes.name(info.error)}", info.error)
            raise _granting(error, topic)

    # What heartbeats say

    def _newest_heartbeat(self, topic: str) -> int | None:
        """A topic may hold a week of them, so it is read from the end."""
        place = TopicPartition(topic, 0)
        try:
            self._consumer.metadata([topic])
            start = self._consumer.list_offsets([place], EARLIEST)[0].get(place, 0)
            end = self._consumer.list_offsets([place], LATEST)[0].get(place, 0)
            # Compaction, or a transaction's marker, may have left nothing at the very end.
            for width in (1, 100, 10_000, end):
                beats = [_written(record) for record in self._records(place, max(start, end - width), end)]
                if known := [each for each in beats if each is not None]:
                    return known[-1]
        except KafkaError:  # it may not be read, or has no leader: the other answers are worth having all the same
            return None
        return None

    def _records(self, place: TopicPartition, at: int, end: int) -> Iterator[Record]:
        while at < end:
            answer = self._consumer.read(place, at)
            if answer.error_code:
                raise RefusedError(f"cluster {self.alias}: {place}: {codes.name(answer.error_code)}", answer.error_code)
            yield from records_from(answer.records, at)
            at = batch_end(answer.records, at) or end


# As Java's RemoteClusterUtils: a client for one question


def replication_hops(properties: Mapping[str, str], alias: str) -> int:
    with MirrorClient(properties) as client:
        return client.replication_hops(alias)


def heartbeat_topics(properties: Mapping[str, str]) -> set[str]:
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: Mapping[str, str]) -> set[str]:
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: Mapping[str, str]) -> set[str]:
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def translate_offsets(
    properties: Mapping[str, str], remote_alias: str, group: str, timeout: float = SECONDS
) -> Offsets:
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets(group, remote_alias, timeout)


def translate_offsets_by_pattern(
    properties: Mapping[str, str], remote_alias: str, pattern: str, timeout: float = SECONDS
) -> dict[str, Offsets]:
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets_by_pattern(pattern, remote_alias, timeout)


def group_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return compile_java(pattern)
    except JavaRegexError as error:
        raise ConfigError(f"group pattern {pattern!r}: {error}") from error


# Decisions


def _hops(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    for count, source in enumerate(_sources(policy, topic), 1):
        if source == alias:
            return count
    return _NONE


def _sources(policy: ReplicationPolicy, topic: str) -> list[str]:
    """The clusters that a topic came through, the nearest first; up to the first that comes again."""
    found: list[str] = []
    upstream: str | None = topic
    while upstream is not None and (source := policy.topic_source(upstream)) is not None and source not in found:
        found.append(source)
        upstream = policy.upstream_topic(upstream)
    return found


def _nearest(policy: ReplicationPolicy, heartbeats: Iterable[str], alias: str) -> tuple[int, str]:
    """Hops, and the topic with the heartbeats that were written on that very cluster, if there is one."""
    ways = [(_hops(policy, topic, alias), len(_sources(policy, topic)), topic) for topic in heartbeats]
    hops, _, topic = min(way for way in ways if way[0] != _NONE)
    return hops, topic


def _remote_topics(policy: ReplicationPolicy, topics: Iterable[str], alias: str | None) -> set[str]:
    return {
        topic
        for topic in topics
        if not policy.is_internal_topic(topic)
        and (source := policy.topic_source(topic)) is not None
        and alias in {None, source}
    }


def _alias_of(policy: ReplicationPolicy, checkpoints_topic: str) -> str:
    """Empty if the policy does not simply put the alias in front."""
    alias = checkpoints_topic.removesuffix(policy.checkpoints_topic(""))
    return alias if policy.checkpoints_topic(alias) == checkpoints_topic else ""


def _granting(error: RefusedError, topic: str) -> RefusedError:
    """With what to do, where a right is missing."""
    hint = f": grant Describe and Read on topic {topic}" if error.code in codes.DENIED else ""
    return RefusedError(f"{error}{hint}", error.code)


def _until(records: Iterable[Record], deadline: float) -> Iterator[Record]:
    for record in records:
        if time.monotonic() > deadline:
            return
        yield record


def _newest(topic: str, records: Iterable[Record], wanted: Callable[[str], bool]) -> RemoteCheckpoints:
    """The last record of each group and partition wins, a tombstone too: as if the topic had just been compacted."""
    groups: dict[str, dict[TopicPartition, Checkpoint]] = {}
    written: dict[str, int] = {}
    others: set[str] = set()
    skipped = 0
    for record in records:
        try:
            checkpoint = Checkpoint.decode(record.key, _EMPTY if record.value is None else record.value)
        except ValueError:
            skipped += 1
            continue
        group = checkpoint.group
        if checkpoint.downstream < 0:
            skipped += 1
        elif group in others or not (group in groups or wanted(group)):
            others.add(group)
        elif record.value is None:
            groups.get(group, {}).pop(checkpoint.place, None)
        else:
            groups.setdefault(group, {})[checkpoint.place] = checkpoint
            written[group] = max(written.get(group, 0), record.timestamp)
    known = {group: places for group, places in groups.items() if places}
    return RemoteCheckpoints(topic, known, written, frozenset(others), skipped)


def _written(record: Record) -> int | None:
    try:
        return Heartbeat.decode(record.key, record.value).timestamp
    except ValueError:
        return None
