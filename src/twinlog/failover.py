"""Failover of consumers: upstream clusters of a cluster, and translated offsets of their groups.

The same results as MM2's Java `MirrorClient` and `RemoteClusterUtils`, from topics written by Twinlog or MM2:

    with MirrorClient({"bootstrap.servers": "eu-1:9092"}) as client:  # the cluster to move to, not the one to leave
        client.upstream_clusters()  # {"us"}
        client.remote_consumer_offsets("app-1", "us")  # {us.orders-0: (offset, metadata), ...}

Two things differ, because incomplete results are dangerous when consumers are moved. On a timeout Java returns what it
has read so far; here that is an error. If the checkpoints topic is missing, Java finds nothing, or creates the topic;
here that is an error, too, with the settings to check.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self

from twinlog.config.flows import Config
from twinlog.config.java_regex import JavaRegexError, compile_java
from twinlog.errors import ConfigError, KafkaError, RefusedError, UnreachableError
from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST, Client
from twinlog.kafka.records import Record
from twinlog.kafka.topic_reader import TopicReader, check_partition, is_election, read_range
from twinlog.mm2.checkpoints import Checkpoint
from twinlog.mm2.client_properties import client_of, client_properties, policy_from
from twinlog.mm2.heartbeats import Heartbeat
from twinlog.mm2.replication_policy import ReplicationPolicy
from twinlog.model import TopicPartition

__all__ = [
    "MirrorClient", "OffsetAndMetadata", "RemoteCheckpoints", "Upstream", "checkpoint_topics", "client_properties",
    "heartbeat_topics", "replication_hops", "translate_offsets", "translate_offsets_by_pattern", "upstream_clusters",
]  # fmt: skip

SECONDS: Final = 30.0
_PAUSE: Final = 0.2
_NOT_UPSTREAM: Final = -1  # hops
# Internal to brokers: Java's admin client does not list them.
_BROKER_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_EMPTY: Final = Checkpoint("", "", 0, 0, 0).value()

Offsets = dict[TopicPartition, "OffsetAndMetadata"]


class OffsetAndMetadata(NamedTuple):
    """Where a group continues in a partition of the queried cluster."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class RemoteCheckpoints:
    """The checkpoints of one upstream cluster: the newest of each group and partition."""

    topic: str
    groups: dict[str, dict[TopicPartition, Checkpoint]]  # the wanted ones
    written_ms: dict[str, int]  # the time of the newest checkpoint of each group
    others: frozenset[str]  # other groups with checkpoints
    skipped: int  # malformed records

    def offsets(self, group: str) -> Offsets:
        return {
            tp: OffsetAndMetadata(checkpoint.downstream, checkpoint.metadata)
            for tp, checkpoint in self.groups.get(group, {}).items()
        }


@dataclass(frozen=True, slots=True)
class Upstream:
    """A cluster whose records arrive directly or through others."""

    alias: str
    hops: int
    heartbeats_topic: str  # the one over the fewest hops
    heartbeat_ms: int | None  # the newest heartbeat in it; None: none is readable
    remote_topics: tuple[str, ...]  # copied from it directly


class MirrorClient:
    """Queries one cluster, the target of flows, about the clusters upstream. Belongs to one thread.

    `properties` are those of Java's MirrorClientConfig: `bootstrap.servers` and the security settings, each optionally
    with the prefix `admin.` or `consumer.` (`producer.` is accepted, but not used); `replication.policy.class`,
    `replication.policy.separator` and `replication.policy.internal.topic.separator.enabled`, as in the flows; and
    `source.cluster.alias` for the identity policy. `alias` is the cluster's name in messages.

    Every call lists the topics again. Raises KafkaError if the cluster does not respond or refuses, ConfigError for an
    invalid property.
    """

    def __init__(self, properties: Mapping[str, str], *, alias: str = "local") -> None:
        self.replication_policy: ReplicationPolicy = policy_from(properties)
        self.alias = alias
        self._admin = Client(alias, client_of(alias, properties, "admin"), "twinlog-mirror-client")
        self._consumer = Client(alias, client_of(alias, properties, "consumer"), "twinlog-mirror-client")
        self._timeout = self._consumer.timeout

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

    # Topic names

    def replication_hops(self, alias: str) -> int:
        """The smallest number of flows between that cluster and this one; -1 if it is not upstream."""
        hops = (_hops(self.replication_policy, topic, alias) for topic in self.heartbeat_topics())
        return min((count for count in hops if count != _NOT_UPSTREAM), default=_NOT_UPSTREAM)

    def heartbeat_topics(self) -> set[str]:
        """Those of upstream clusters, and the cluster's own."""
        return {topic for topic in self._topics() if self.replication_policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        return {topic for topic in self._topics() if self.replication_policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        """Every cluster whose heartbeats arrive, directly or through others."""
        return {source for topic in self.heartbeat_topics() for source in _sources(self.replication_policy, topic)}

    def remote_topics(self, alias: str | None = None) -> set[str]:
        """Topics that were replicated from any cluster, or from that one directly. Only names count: for the default
        policy `orders.v1` came from a cluster `orders`; with the identity policy every topic came from
        `source.cluster.alias`, or none if that is not set.
        """
        return _remote_topics(self.replication_policy, self._topics(), alias)

    def upstreams(self) -> list[Upstream]:
        """All upstream clusters, the nearest first."""
        policy, topics = self.replication_policy, self._topics()
        heartbeats = [topic for topic in topics if policy.is_heartbeats_topic(topic)]
        found = []
        deadline = time.monotonic() + self._timeout
        for alias in {source for topic in heartbeats for source in _sources(policy, topic)}:
            hops, topic = _nearest(policy, heartbeats, alias)
            remote = sorted(_remote_topics(policy, topics, alias))
            found.append(Upstream(alias, hops, topic, self._newest_heartbeat(topic, deadline), tuple(remote)))
        return sorted(found, key=lambda each: (each.hops, each.alias))

    def _topics(self) -> set[str]:
        return set(self._admin.metadata(None).topics) - _BROKER_TOPICS

    # Checkpoints

    def remote_consumer_offsets(self, group: str, remote_alias: str, timeout: float = SECONDS) -> Offsets:
        """The offsets of a group of `remote_alias`, translated to this cluster. Empty: it has no checkpoints.

        `timeout` is in seconds.
        """
        return self.checkpoints(remote_alias, timeout, lambda each: each == group).offsets(group)

    def remote_consumer_offsets_by_pattern(
        self, pattern: str, remote_alias: str, timeout: float = SECONDS
    ) -> dict[str, Offsets]:
        """The same for every group whose full name matches, by group. The pattern is a Java regular expression."""
        matches = group_pattern(pattern)
        found = self.checkpoints(remote_alias, timeout, lambda each: bool(matches.fullmatch(each)))
        return {group: found.offsets(group) for group in found.groups}

    def checkpoints(
        self, remote_alias: str, timeout: float = SECONDS, wanted: Callable[[str], bool] = lambda _: True
    ) -> RemoteCheckpoints:
        """The newest checkpoints of each `wanted` group."""
        deadline = time.monotonic() + timeout
        topic = self.replication_policy.checkpoints_topic(remote_alias)
        self._consumer.metadata([])  # fails at once if the cluster is unreachable
        while True:
            self._consumer.timeout = min(self._timeout, max(deadline - time.monotonic(), _PAUSE))
            reason = ""
            try:
                self._check_there(topic, remote_alias)
                found = _newest(topic, _until(TopicReader(self._consumer, topic).read(), deadline), wanted)
            except (UnreachableError, RefusedError) as error:
                # A leader election, which is likely during a failover.
                if not _is_retriable(error):
                    raise _with_remedy(error, topic) from error
                reason = f": {error}"
            else:
                if time.monotonic() <= deadline:
                    return found
            finally:
                self._consumer.timeout = self._timeout
            if time.monotonic() + _PAUSE > deadline:
                raise UnreachableError(
                    f"cluster {self.alias}: topic {topic} not read to its end within {timeout:g} s{reason}; "
                    "increase the timeout"
                )
            time.sleep(_PAUSE)

    def _check_there(self, topic: str, remote_alias: str) -> None:
        info = self._consumer.metadata([topic]).topics.get(topic)
        if info is None or info.error == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            aliases = [_alias_of(self.replication_policy, each) for each in sorted(self.checkpoint_topics())]
            known = ", ".join(filter(None, aliases)) or "no cluster"
            raise _NoCheckpointsError(
                f"cluster {self.alias} has no topic {topic}, so it has no checkpoints of {remote_alias}'s groups; "
                f"check that the flow {remote_alias}->{self.alias} runs with emit.checkpoints.enabled = true, and that "
                f"{remote_alias} is its source alias (there are checkpoints from: {known})",
                error_codes.UNKNOWN_TOPIC_OR_PARTITION,
            )
        if info.error:
            raise RefusedError(f"cluster {self.alias}: topic {topic}: {error_codes.name(info.error)}", info.error)

    # Heartbeats

    def _newest_heartbeat(self, topic: str, deadline: float = 0.0) -> int | None:
        """Retries during a leader election. None if it may not be read, or still has no leader at the deadline: the
        other results are useful without it.
        """
        while True:
            try:
                return self._last_heartbeat(TopicPartition(topic, 0))
            except KafkaError as error:
                if not _is_retriable(error) or time.monotonic() > deadline:
                    return None
            time.sleep(_PAUSE)

    def _last_heartbeat(self, tp: TopicPartition) -> int | None:
        """Reads from the end, because the topic may hold a week of heartbeats."""
        self._consumer.metadata([tp.topic])
        start, end = self._offset(tp, EARLIEST), self._offset(tp, LATEST)
        # After compaction, or with a transaction marker, there may be no record at the very end.
        for width in (1, 100, 10_000, end):
            times = [_heartbeat_time(record) for record in read_range(self._consumer, tp, max(start, end - width), end)]
            if known := [each for each in times if each is not None]:
                return known[-1]
        return None

    def _offset(self, tp: TopicPartition, timestamp: int) -> int:
        found, failed = self._consumer.list_offsets([tp], timestamp)
        if failed:
            check_partition(self._consumer, tp, failed[tp])
        return found[tp]


# As Java's RemoteClusterUtils: a client for one query


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


# Helpers


def _hops(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    for count, source in enumerate(_sources(policy, topic), 1):
        if source == alias:
            return count
    return _NOT_UPSTREAM


def _sources(policy: ReplicationPolicy, topic: str) -> list[str]:
    """The clusters that a topic came through, the nearest first, up to the first repetition."""
    found: list[str] = []
    upstream: str | None = topic
    while upstream is not None and (source := policy.topic_source(upstream)) is not None and source not in found:
        found.append(source)
        upstream = policy.upstream_topic(upstream)
    return found


def _nearest(policy: ReplicationPolicy, heartbeats: Iterable[str], alias: str) -> tuple[int, str]:
    """The hops, and the topic with the heartbeats written on that very cluster, if there is one."""
    candidates = [(_hops(policy, topic, alias), len(_sources(policy, topic)), topic) for topic in heartbeats]
    hops, _, topic = min(each for each in candidates if each[0] != _NOT_UPSTREAM)
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
    """Empty if the policy does not simply prepend the alias."""
    alias = checkpoints_topic.removesuffix(policy.checkpoints_topic(""))
    return alias if policy.checkpoints_topic(alias) == checkpoints_topic else ""


class _NoCheckpointsError(RefusedError):
    """The checkpoints topic does not exist: not a transient error."""


def _is_retriable(error: KafkaError) -> bool:
    """Whether a retry may succeed, for example with a new leader."""
    return isinstance(error, UnreachableError) or (not isinstance(error, _NoCheckpointsError) and is_election(error))


def _with_remedy(error: KafkaError, topic: str) -> KafkaError:
    """Adds the remedy if a permission is missing."""
    if isinstance(error, RefusedError) and error.code in error_codes.UNAUTHORIZED:
        return RefusedError(f"{error}; grant Describe and Read on topic {topic}", error.code)
    return error


def _until(records: Iterable[Record], deadline: float) -> Iterator[Record]:
    for record in records:
        if time.monotonic() > deadline:
            return
        yield record


def _newest(topic: str, records: Iterable[Record], wanted: Callable[[str], bool]) -> RemoteCheckpoints:
    """The last record of each group and partition counts, tombstones included: as if the topic was compacted."""
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
            groups.get(group, {}).pop(checkpoint.tp, None)
        else:
            groups.setdefault(group, {})[checkpoint.tp] = checkpoint
            written[group] = max(written.get(group, 0), record.timestamp)
    known = {group: tps for group, tps in groups.items() if tps}
    return RemoteCheckpoints(topic, known, written, frozenset(others), skipped)


def _heartbeat_time(record: Record) -> int | None:
    try:
        return Heartbeat.decode(record.key, record.value).timestamp
    except ValueError:
        return None
