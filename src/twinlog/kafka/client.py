"""A blocking client of one cluster, for requests that are not on the hot path. Belongs to one thread."""

import contextlib
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from twinlog.config.flows import Client as ClientConfig
from twinlog.errors import AuthenticationError, ConfigError, ProtocolError, RefusedError, UnreachableError
from twinlog.kafka import error_codes, produce
from twinlog.kafka.batch import MAX_OFFSET
from twinlog.kafka.blocking_connection import CONNECT_TIMEOUT, BlockingConnection, connect
from twinlog.kafka.client_requests import REPLICA, creatable, fetch_request, offsets_request, producers_request
from twinlog.kafka.connect import addresses, uses_sasl
from twinlog.kafka.connection import throttle_time
from twinlog.kafka.response_decoder import first, is_address
from twinlog.model import TopicPartition
from twinlog.text import one_line

_SIZE: Final = struct.Struct(">i")
LATEST: Final = -1
EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1  # UNKNOWN_SERVER_ERROR
_LONGEST_THROTTLE: Final = 120.0  # seconds that a quota may delay one response
_MOST_TRIED: Final = 10  # brokers besides those in bootstrap.servers: metadata may list thousands that are down
_CREATED: Final = {error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS}
_ATTEMPTS: Final = 3  # for requests that any broker can serve
NO_ID: Final = uuid.UUID(int=0)
_TIMEOUT: Final = 15.0  # seconds, if request.timeout.ms is not set: half of Kafka's default, as callers retry

T = TypeVar("T")


def request_timeout(config: ClientConfig, default: float) -> float:
    """In seconds: `request.timeout.ms` if it is set, but at least a second, without which no request would succeed."""
    return max(config["request.timeout.ms"] / 1000, 1.0) if "request.timeout.ms" in config.values else default


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: uuid.UUID
    error: int
    leaders: dict[int, tuple[int, int]]  # partition -> (leader, leader epoch); -1: none


@dataclass(frozen=True, slots=True)
class Metadata:
    cluster_id: str | None
    controller: int
    brokers: dict[int, tuple[str, int]]
    topics: dict[str, TopicInfo]

    def leader(self, tp: TopicPartition) -> int:
        info = self.topics.get(tp.topic)
        return info.leaders.get(tp.partition, (-1, -1))[0] if info else -1


class NewTopic(NamedTuple):
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ProducerState(NamedTuple):
    """The state that a partition's leader keeps of an idempotent producer."""

    id: int
    epoch: int
    last_sequence: int
    last_timestamp: int  # of its newest batch: decides when the state expires


class Client:
    """The messages of UnreachableError, RefusedError and ProtocolError begin with the cluster's alias."""

    def __init__(self, alias: str, config: ClientConfig, client_id: str = "twinlog") -> None:
        self.alias = alias
        self.config = config
        self._client_id = client_id
        self._connections: dict[int | None, BlockingConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.timeout = request_timeout(config, _TIMEOUT)

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    def send(self, request: Any, node: int | None = None, timeout: float | None = None) -> Any:
        """`node` None: any broker, preferably one with an open connection."""
        if node is None and None not in self._connections and self._connections:
            node = next(reversed(self._connections))
        connection = self._connection(node)
        try:
            return connection.send(request, timeout or self.timeout)
        except OSError as error:
            self._lost(node)
            what = "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
            advice = ""
            if isinstance(error, ConnectionError) and connection.responses == 1 and not uses_sasl(self.config):
                what += " at the first request"
                advice = "check whether the listener needs SASL (security.protocol = SASL_...)"
            raise UnreachableError(f"cluster {self.alias}: {self._name(node)}: {what}", advice) from error
        except ProtocolError as error:
            self._lost(node)
            raise ProtocolError(f"cluster {self.alias}: {self._name(node)}: {error.problem}", error.advice) from error
        except RefusedError as error:
            raise RefusedError(f"cluster {self.alias}: {error}", error.code) from error

    def send_any(self, request: Any) -> Any:
        """Sends a request that any broker can serve; if one has just failed, to a few others."""
        for _ in range(_ATTEMPTS - 1):
            if not self._connections:  # connecting tries all addresses
                break
            with contextlib.suppress(UnreachableError):
                return self.send(request)
        return self.send(request)

    def _drop(self, node: int | None) -> None:
        connection = self._connections.pop(node, None)
        if connection is not None:
            connection.close()

    def _lost(self, node: int | None) -> None:
        """Also forgets what the broker led: its partitions may have new leaders."""
        self._drop(node)
        for tp in [tp for tp, leader in self._leaders.items() if leader == node]:
            del self._leaders[tp]

    def _name(self, node: int | None) -> str:
        host, port = self._brokers.get(node, ("?", 0)) if node is not None else addresses(self.config)[0]
        return f"{host}:{port}"

    def _connection(self, node: int | None) -> BlockingConnection:
        known = self._connections.get(node)
        # Brokers close idle connections (connections.max.idle.ms, ten minutes): reconnect without an error.
        if known is not None and time.monotonic() < known.renew_at and not known.closed:
            return known
        self._drop(node)
        if node is not None and node not in self._brokers:
            self.metadata([])
        candidates = [self._brokers[node]] if node is not None and node in self._brokers else addresses(self.config)
        if node is None:  # another broker may be up when all of bootstrap.servers are down
            candidates += [address for address in self._brokers.values() if address not in candidates][:_MOST_TRIED]
        reasons: list[str] = []
        rejections: list[AuthenticationError] = []
        for host, port in candidates:
            try:
                connection = connect(self.config, host, port, self._client_id, min(self.timeout, CONNECT_TIMEOUT))
            except (UnreachableError, ProtocolError) as error:
                reasons.append(str(error))
            except AuthenticationError as error:
                rejections.append(error)
            except ConfigError as error:
                raise ConfigError(f"cluster {self.alias}: {error.problem}", error.advice) from error
            else:
                self._connections[node] = connection
                return connection
        self._lost(node)
        if rejections:
            raise AuthenticationError(
                f"cluster {self.alias}: {rejections[0].problem}",
                rejections[0].advice,
                retriable=any(each.retriable for each in rejections),
            )
        raise UnreachableError(
            f"cluster {self.alias} cannot be reached: {', '.join(reasons)}",
            f"check {self.alias}.bootstrap.servers and that the brokers are running",
        )

    # Requests

    def metadata(self, topics: Iterable[str] | None) -> Metadata:
        """`None`: all topics that we may describe. An empty list: only the brokers."""
        wanted = None
        if topics is not None:
            topics = set(topics)
            wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in sorted(topics)]
        response = self.send_any(MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4))
        brokers = {
            each.node_id: (each.host, each.port) for each in response.brokers if is_address(each.host, each.port)
        }
        if brokers:
            for node in [
                known
                for known in self._connections
                if known is not None and brokers.get(known) != self._brokers.get(known)
            ]:
                self._drop(node)
            self._brokers = brokers
        found = {}
        for topic in response.topics:
            if topic.name is None or (topics is not None and topic.name not in topics):
                continue  # not requested
            leaders = {p.partition_index: (p.leader_id, getattr(p, "leader_epoch", -1)) for p in topic.partitions}
            found[topic.name] = TopicInfo(
                topic.name, getattr(topic, "topic_id", NO_ID) or NO_ID, topic.error_code, leaders
            )
            for partition, (leader, _) in leaders.items():
                self._leaders[TopicPartition(topic.name, partition)] = leader
        return Metadata(response.cluster_id, response.controller_id, brokers, found)

    def leader(self, tp: TopicPartition, *, fresh: bool = False) -> int:
        if fresh or self._leaders.get(tp, -1) < 0:
            info = self.metadata([tp.topic]).topics.get(tp.topic)
            if info is not None and info.error:
                raise RefusedError(
                    f"cluster {self.alias}: topic {tp.topic}: {error_codes.name(info.error)}", info.error
                )
        leader = self._leaders.get(tp, -1)
        if leader < 0:
            raise UnreachableError(f"cluster {self.alias}: {tp} has no leader")
        return leader

    def list_offsets(
        self, tps: Iterable[TopicPartition], timestamp: int, isolation: int = 0
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """(offsets, error codes) by partition; one request per leader."""
        return self._by_leader(
            tps, lambda topics: offsets_request(topics, timestamp, isolation), lambda part: _offset(part.offset)
        )

    def log_ends(self, tps: Iterable[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """As `list_offsets`: the ends of the leaders' logs, beyond the high watermark."""
        return self._by_leader(
            tps, lambda topics: offsets_request(topics, LATEST, 0, REPLICA), lambda part: _offset(part.offset)
        )

    def producer_states(
        self, tps: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, dict[int, ProducerState]], dict[TopicPartition, int]]:
        """(states by producer id, error codes) by partition, from the leaders."""
        return self._by_leader(tps, producers_request, _states)

    def newest_timestamps(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Without partitions that failed; -1: the partition is empty. Needs Kafka 3.0."""
        found, _ = self._by_leader(
            tps, lambda topics: offsets_request(topics, _MAX_TIMESTAMP, 0), lambda part: _offset(part.timestamp)
        )
        return found

    def _by_leader(
        self, tps: Iterable[TopicPartition], request: Any, value: Callable[[Any], T | None]
    ) -> tuple[dict[TopicPartition, T], dict[TopicPartition, int]]:
        """`value` returns None if the response has no valid value for the partition."""
        found: dict[TopicPartition, T] = {}
        failed: dict[TopicPartition, int] = {}
        by_leader: dict[int, dict[str, list[int]]] = {}
        tps = list(tps)
        if leaderless := {tp.topic for tp in tps if self._leaders.get(tp, -1) < 0}:
            with contextlib.suppress(UnreachableError):
                self.metadata(leaderless)
        for tp in tps:
            leader = self._leaders.get(tp, -1)
            if leader < 0:
                failed[tp] = error_codes.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, {}).setdefault(tp.topic, []).append(tp.partition)
        for leader, topics in by_leader.items():
            try:
                response = self.send(request(topics), leader)
            except UnreachableError:
                code = error_codes.LEADER_NOT_AVAILABLE
                failed |= {TopicPartition(topic, index): code for topic, parts in topics.items() for index in parts}
                continue
            for topic in response.topics:
                name = topic.name if hasattr(topic, "name") else topic.topic
                for part in topic.partitions:
                    index = part.partition_index if hasattr(part, "partition_index") else part.partition
                    if part.error_code:
                        failed[TopicPartition(name, index)] = part.error_code
                        if part.error_code in error_codes.LEADER_CHANGED:
                            self._leaders.pop(TopicPartition(name, index), None)
                    elif (known := value(part)) is not None:
                        found[TopicPartition(name, index)] = known
        failed |= {tp: _UNKNOWN for tp in tps if tp not in found and tp not in failed}
        return found, failed

    def read(
        self, tp: TopicPartition, offset: int, *, max_bytes: int = 1 << 20, wait_ms: int = 0, isolation: int = 0
    ) -> Any:
        """The partition's part of the response: records, high_watermark, aborted_transactions, error_code ..."""
        request = fetch_request({tp: offset}, max_bytes, max_bytes, wait_ms, isolation)
        response = self._fetch(request, self.leader(tp), self.timeout + wait_ms / 1000)
        return first([part for found, part in self._fetched(response) if found == tp])

    def read_many(
        self, offsets: Mapping[TopicPartition, int], *, each_bytes: int, max_bytes: int, isolation: int = 0
    ) -> dict[TopicPartition, Any]:
        """As `read`, of several partitions, one request per leader; without those that did not fit into a response."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for tp, offset in offsets.items():
            by_leader.setdefault(self.leader(tp), {})[tp] = offset
        found: dict[TopicPartition, Any] = {}
        for leader, wanted in by_leader.items():
            response = self._fetch(fetch_request(wanted, each_bytes, max_bytes, 0, isolation), leader, self.timeout)
            found |= {tp: part for tp, part in self._fetched(response) if part.records or part.error_code}
        return found

    def _fetch(self, request: Any, node: int, timeout: float) -> Any:
        """A throttling broker responds at once, without partitions: the request is repeated after the throttle time."""
        deadline = time.monotonic() + _LONGEST_THROTTLE
        while True:
            response = self.send(request, node, timeout)
            pause = throttle_time(response.throttle_time_ms) / 1000
            if response.responses or response.error_code or not pause or time.monotonic() + pause > deadline:
                return response
            time.sleep(pause)

    def _fetched(self, response: Any) -> Iterator[tuple[TopicPartition, Any]]:
        if response.error_code:
            raise RefusedError(
                f"cluster {self.alias}: Fetch failed: {error_codes.name(response.error_code)}", response.error_code
            )
        for topic in response.responses:
            for part in topic.partitions:
                tp = TopicPartition(topic.topic, part.partition_index)
                if part.error_code in error_codes.LEADER_CHANGED:
                    self._leaders.pop(tp, None)
                yield tp, part

    def append(self, tp: TopicPartition, batch: bytes | bytearray | memoryview) -> int:
        """Writes a batch with acks=all and returns its offset. Not idempotent: a retry may duplicate the batch."""
        node = self.leader(tp)
        connection = self._connection(node)
        parts = produce.encode(0, self._client_id, -1, int(self.timeout * 1000), {tp.topic: [(tp.partition, batch)]})
        frame = b"".join([_SIZE.pack(sum(len(part) for part in parts)), *parts])
        try:
            response = produce.decode(memoryview(connection.exchange(frame, self.timeout)))
        except (OSError, ProtocolError) as error:  # the connection is out of sync after either
            self._lost(node)
            raise UnreachableError(f"cluster {self.alias}: {self._name(node)}: {error}") from error
        outcome = first([each for each in response.outcomes if (each.topic, each.partition) == tp])
        if outcome.error:
            self._leaders.pop(tp, None)
            raise RefusedError(
                f"cluster {self.alias}: {tp}: record rejected: {outcome.message or error_codes.name(outcome.error)}",
                outcome.error,
            )
        return int(outcome.base_offset)

    def init_producer(self) -> int:
        """A new producer id, unique in the cluster."""
        deadline = time.monotonic() + self.timeout
        while True:
            response = self.send(
                InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=60000, producer_id=-1, producer_epoch=-1
                )
            )
            if not response.error_code:
                return int(response.producer_id)
            if response.error_code not in error_codes.COORDINATOR or time.monotonic() > deadline:
                raise RefusedError(
                    f"cluster {self.alias}: InitProducerId failed: {error_codes.name(response.error_code)}",
                    response.error_code,
                )
            time.sleep(0.2)

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> int:
        """NONE, or TOPIC_ALREADY_EXISTS; raises RefusedError for other codes."""
        topic = creatable(name, partitions, replication_factor, configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self.timeout * 1000), validate_only=False)
        result = first(self.send(request, self.controller()).topics)
        if result.error_code not in _CREATED:
            reason = one_line(getattr(result, "error_message", None) or error_codes.name(result.error_code))
            raise RefusedError(f"cluster {self.alias}: cannot create topic {name}: {reason}", result.error_code)
        return int(result.error_code)

    def create_topics(self, topics: Sequence[NewTopic]) -> set[str]:
        """Creates them in one request. Returns those that exist now; for the others `create_topic` tells why not."""
        request = CreateTopicsRequest(
            topics=[creatable(*each) for each in topics], timeout_ms=int(self.timeout * 500), validate_only=False
        )
        results = self.send(request, self.controller()).topics
        return {each.name for each in results if each.error_code in _CREATED}

    def grow_topic(self, name: str, partitions: int) -> None:
        kind = CreatePartitionsRequest
        request = kind(
            topics=[kind.CreatePartitionsTopic(name=name, count=partitions, assignments=None)],
            timeout_ms=int(self.timeout * 1000),
            validate_only=False,
        )
        result = first(self.send(request, self.controller()).results)
        if result.error_code:
            reason = one_line(getattr(result, "error_message", None) or error_codes.name(result.error_code))
            raise RefusedError(
                f"cluster {self.alias}: cannot increase topic {name} to {partitions} partitions: {reason}",
                result.error_code,
            )

    def controller(self) -> int | None:
        """The controller's broker id, if its address is known."""
        controller = self.metadata([]).controller
        return controller if controller in self._brokers else None


def _offset(offset: int) -> int | None:
    return offset if 0 <= offset <= MAX_OFFSET else None


def _states(part: Any) -> dict[int, ProducerState]:
    return {
        each.producer_id: ProducerState(each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in part.active_producers
    }
