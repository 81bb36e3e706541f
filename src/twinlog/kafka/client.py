"""A cluster, asked one question at a time: for all that is not on the hot path. A Client belongs to one thread."""

import contextlib
import struct
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import ConfigError, LockedError, ProtocolError, RefusedError, UnreachableError
from twinlog.kafka import codes, produce
from twinlog.kafka.answers import first, is_address
from twinlog.kafka.batch import FARTHEST
from twinlog.kafka.channel import HELLO, Channel, connect
from twinlog.kafka.dial import addresses, uses_sasl
from twinlog.model import TopicPartition
from twinlog.security.words import one_line

_SIZE: Final = struct.Struct(">i")
LATEST: Final = -1
EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1  # Kafka's code for an error that has none
_MOST_TRIED: Final = 10  # brokers besides those in bootstrap.servers: an answer may name thousands that are not there
NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: uuid.UUID
    error: int
    leaders: dict[int, tuple[int, int]]  # partition -> (leader, its epoch); -1 where there is none


@dataclass(frozen=True, slots=True)
class Metadata:
    cluster_id: str | None
    controller: int
    brokers: dict[int, tuple[str, int]]
    topics: dict[str, TopicInfo]

    def leader(self, place: TopicPartition) -> int:
        info = self.topics.get(place.topic)
        return info.leaders.get(place.partition, (-1, -1))[0] if info else -1


class Client:
    """What a cluster answers; raises UnreachableError and RefusedError with the cluster's alias in front."""

    def __init__(self, alias: str, config: ClientConfig, client_id: str = "twinlog") -> None:
        self.alias = alias
        self.config = config
        self._client_id = client_id
        self._channels: dict[int | None, Channel] = {}
        self._known: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.timeout = min(config["request.timeout.ms"] / 1000, 15.0)

    def close(self) -> None:
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()

    def ask(self, request: Any, node: int | None = None, timeout: float | None = None) -> Any:
        """`node` None: any broker will do, best one that answered before."""
        if node is None and None not in self._channels and self._channels:
            node = next(reversed(self._channels))
        channel = self._channel(node)
        try:
            return channel.ask(request, timeout or self.timeout)
        except OSError as error:
            self._lost(node)
            what = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            if isinstance(error, ConnectionError) and channel.answers == 1 and not uses_sasl(self.config):
                what += " at the first question: does the listener ask for a login (security.protocol = SASL_...)?"
            raise UnreachableError(f"cluster {self.alias}: {self._name(node)}: {what}") from error
        except ProtocolError as error:
            self._lost(node)
            raise ProtocolError(f"cluster {self.alias}: {self._name(node)}: {error}") from error
        except RefusedError as error:
            raise RefusedError(f"cluster {self.alias}: {error}", error.code) from error

    def _drop(self, node: int | None) -> None:
        channel = self._channels.pop(node, None)
        if channel is not None:
            channel.close()

    def _lost(self, node: int | None) -> None:
        """Whoever is not there may lead nothing any more, whatever was said before."""
        self._drop(node)
        for place in [place for place, leader in self._leaders.items() if leader == node]:
            del self._leaders[place]

    def _name(self, node: int | None) -> str:
        host, port = self._known.get(node, ("?", 0)) if node is not None else addresses(self.config)[0]
        return f"{host}:{port}"

    def _channel(self, node: int | None) -> Channel:
        known = self._channels.get(node)
        if known is not None and time.monotonic() < known.renew_at:
            return known
        self._drop(node)
        if node is not None and node not in self._known:
            self.metadata([])
        places = [self._known[node]] if node is not None and node in self._known else addresses(self.config)
        if node is None:  # a broker that we know may be up when all of bootstrap.servers are down
            places += [place for place in self._known.values() if place not in places][:_MOST_TRIED]
        reasons: list[str] = []
        locked: list[LockedError] = []
        for host, port in places:
            try:
                channel = connect(self.config, host, port, self._client_id, min(self.timeout, HELLO))
            except (UnreachableError, ProtocolError) as error:
                reasons.append(str(error))
            except LockedError as error:
                locked.append(error)
            except ConfigError as error:
                raise ConfigError(f"cluster {self.alias}: {error}") from error
            else:
                self._channels[node] = channel
                return channel
        self._lost(node)
        if locked:
            raise LockedError(f"cluster {self.alias}: {locked[0]}", heals=any(each.heals for each in locked))
        raise UnreachableError(
            f"cluster {self.alias} cannot be reached ({'; '.join(reasons)}): "
            f"check {self.alias}.bootstrap.servers, and that the brokers run"
        )

    # What is asked

    def metadata(self, topics: Iterable[str] | None) -> Metadata:
        """`None`: every topic that we may see. An empty list: only the brokers."""
        wanted = None
        if topics is not None:
            topics = set(topics)
            wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in sorted(topics)]
        answer = self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4),
        )
        brokers = {each.node_id: (each.host, each.port) for each in answer.brokers if is_address(each.host, each.port)}
        if brokers:
            for node in [
                known for known in self._channels if known is not None and brokers.get(known) != self._known.get(known)
            ]:
                self._drop(node)
            self._known = brokers
        found = {}
        for topic in answer.topics:
            if topic.name is None or (topics is not None and topic.name not in topics):
                continue  # nobody asked
            leaders = {p.partition_index: (p.leader_id, getattr(p, "leader_epoch", -1)) for p in topic.partitions}
            found[topic.name] = TopicInfo(
                topic.name, getattr(topic, "topic_id", NO_ID) or NO_ID, topic.error_code, leaders
            )
            for partition, (leader, _) in leaders.items():
                self._leaders[TopicPartition(topic.name, partition)] = leader
        return Metadata(answer.cluster_id, answer.controller_id, brokers, found)

    def leader(self, place: TopicPartition, *, fresh: bool = False) -> int:
        if fresh or self._leaders.get(place, -1) < 0:
            info = self.metadata([place.topic]).topics.get(place.topic)
            if info is not None and info.error:
                raise RefusedError(f"cluster {self.alias}: topic {place.topic}: {codes.name(info.error)}", info.error)
        leader = self._leaders.get(place, -1)
        if leader < 0:
            raise UnreachableError(f"cluster {self.alias}: {place} has no leader")
        return leader

    def list_offsets(
        self, places: Iterable[TopicPartition], timestamp: int, isolation: int = 0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """(offsets, error codes) of the places, one request per leader."""
        return self._by_leader(
            places, lambda topics: _offsets_request(topics, timestamp, isolation), lambda part: part.offset
        )

    def newest_timestamps(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of the places that answer; -1 where there is no record. Kafka 3.0 and later know it."""
        found, _ = self._by_leader(
            places, lambda topics: _offsets_request(topics, _MAX_TIMESTAMP, 0), lambda part: part.timestamp
        )
        return found

    def _by_leader(
        self, places: Iterable[TopicPartition], request: Any, value: Any
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        found: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, int] = {}
        by_leader: dict[int, dict[str, list[int]]] = {}
        places = list(places)
        if unled := {place.topic for place in places if self._leaders.get(place, -1) < 0}:
            with contextlib.suppress(UnreachableError):
                self.metadata(unled)
        for place in places:
            leader = self._leaders.get(place, -1)
            if leader < 0:
                failed[place] = 5  # LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, {}).setdefault(place.topic, []).append(place.partition)
        for leader, topics in by_leader.items():
            try:
                answer = self.ask(request(topics), leader)
            except UnreachableError:
                failed |= {TopicPartition(topic, index): 5 for topic, parts in topics.items() for index in parts}
                continue
            for topic in answer.topics:
                name = topic.name if hasattr(topic, "name") else topic.topic
                for part in topic.partitions:
                    index = part.partition_index if hasattr(part, "partition_index") else part.partition
                    if part.error_code:
                        failed[TopicPartition(name, index)] = part.error_code
                    elif 0 <= value(part) <= FARTHEST:
                        found[TopicPartition(name, index)] = value(part)
        failed |= {place: _UNKNOWN for place in places if place not in found and place not in failed}
        return found, failed

    def read(
        self, place: TopicPartition, offset: int, *, max_bytes: int = 1 << 20, wait_ms: int = 0, isolation: int = 0
    ) -> Any:
        """The raw answer for one partition: records, high_watermark, aborted_transactions, error_code ..."""
        topic = FetchRequest.FetchTopic(
            topic=place.topic,
            partitions=[
                FetchRequest.FetchTopic.FetchPartition(
                    partition=place.partition,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=max_bytes,
                )
            ],
        )
        request = FetchRequest(
            replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=isolation,
            session_id=0, session_epoch=-1, topics=[topic], forgotten_topics_data=[], rack_id="",
        )  # fmt: skip
        answer = self.ask(request, self.leader(place), self.timeout + wait_ms / 1000)
        if answer.error_code:
            raise RefusedError(f"cluster {self.alias}: {place}: {codes.name(answer.error_code)}", answer.error_code)
        part = first([p for t in answer.responses for p in t.partitions if (t.topic, p.partition_index) == place])
        if part.error_code in codes.MOVED:
            self._leaders.pop(place, None)
        return part

    def append(self, place: TopicPartition, batch: bytes | bytearray | memoryview) -> int:
        """Writes one batch with acks=all and says where it landed. Not idempotent: for records that may come twice."""
        node = self.leader(place)
        channel = self._channel(node)
        parts = produce.encode(
            0, self._client_id, -1, int(self.timeout * 1000), {place.topic: [(place.partition, batch)]}
        )
        frame = b"".join([_SIZE.pack(sum(len(part) for part in parts)), *parts])
        try:
            answer = produce.decode(memoryview(channel.exchange(frame, self.timeout)))
        except (OSError, ProtocolError) as error:  # after either, what comes next on this connection cannot be trusted
            self._lost(node)
            raise UnreachableError(f"cluster {self.alias}: {self._name(node)}: {error}") from error
        outcome = first([each for each in answer.outcomes if (each.topic, each.partition) == place])
        if outcome.error:
            self._leaders.pop(place, None)
            raise RefusedError(
                f"cluster {self.alias}: {place} refuses a record: {outcome.message or codes.name(outcome.error)}",
                outcome.error,
            )
        return int(outcome.base_offset)

    def init_producer(self) -> int:
        """A producer id that nobody else has, and nobody ever will."""
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self.ask(
                InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=60000, producer_id=-1, producer_epoch=-1
                )
            )
            if not answer.error_code:
                return int(answer.producer_id)
            if answer.error_code not in codes.COORDINATOR or time.monotonic() > deadline:
                raise RefusedError(
                    f"cluster {self.alias}: no producer id: {codes.name(answer.error_code)}", answer.error_code
                )
            time.sleep(0.2)

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> int:
        """The error code; one that exists already is none."""
        topic = creatable(name, partitions, replication_factor, configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self.timeout * 1000), validate_only=False)
        result = first(self.ask(request, self.controller()).topics)
        if result.error_code not in {codes.NONE, codes.TOPIC_ALREADY_EXISTS}:
            reason = one_line(getattr(result, "error_message", None) or codes.name(result.error_code))
            raise RefusedError(f"cluster {self.alias} does not create topic {name}: {reason}", result.error_code)
        return int(result.error_code)

    def grow_topic(self, name: str, partitions: int) -> None:
        kind = CreatePartitionsRequest
        request = kind(
            topics=[kind.CreatePartitionsTopic(name=name, count=partitions, assignments=None)],
            timeout_ms=int(self.timeout * 1000),
            validate_only=False,
        )
        result = first(self.ask(request, self.controller()).results)
        if result.error_code:
            reason = one_line(getattr(result, "error_message", None) or codes.name(result.error_code))
            raise RefusedError(
                f"cluster {self.alias} does not give topic {name} {partitions} partitions: {reason}", result.error_code
            )

    def controller(self) -> int | None:
        """Who makes topics, if it can be reached by its name."""
        controller = self.metadata([]).controller
        return controller if controller in self._known else None


def creatable(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> Any:
    kind = CreateTopicsRequest.CreatableTopic
    return kind(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def _offsets_request(topics: Mapping[str, Sequence[int]], timestamp: int, isolation: int) -> Any:
    kind = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
                    for index in partitions
                ],
            )
            for topic, partitions in topics.items()
        ],
    )
