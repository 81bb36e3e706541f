"""Read-only admin queries: dry runs of topic creation, partition sizes, broker settings, clocks, replicas."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka import error_codes
from twinlog.kafka.blocking_connection import BlockingConnection
from twinlog.kafka.client import NO_ID, Client, Metadata
from twinlog.kafka.client_requests import creatable
from twinlog.model import TopicPartition
from twinlog.text import one_line

_BROKER: Final = 4  # the resource type in DescribeConfigs
_METADATA_LOG: Final = "__cluster_metadata"
_COMMITS: Final = "__consumer_offsets"
MAX_TIMESTAMP_VERSION: Final = 7  # of ListOffsets: the first that returns the largest timestamp
_CREATED_AT_ONCE: Final = 100  # topics in one request: the controller blocks while it validates them
_DESCRIBED_AT_ONCE: Final = 500  # topics in one request


@dataclass(frozen=True, slots=True)
class WantedTopic:
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brokers:
    cluster_id: str | None
    controller: int
    addresses: Mapping[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Replicas:
    """Of one partition."""

    partition: int
    leader: int
    count: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far a cluster's clock is ahead of ours, in seconds: `exact`, plus or minus `within`, or at least so far."""

    ahead: float
    within: float
    exact: bool


# Topics


def refused_topics(client: Client, wanted: Sequence[WantedTopic]) -> dict[str, RefusedError]:
    """The topics that the cluster would not create, each with the reason. Validates only, creates nothing."""
    refused: dict[str, RefusedError] = {}
    for at in range(0, len(wanted), _CREATED_AT_ONCE):
        topics = [
            creatable(each.name, each.partitions, each.replication_factor, each.configs)
            for each in wanted[at : at + _CREATED_AT_ONCE]
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=int(client.timeout * 1000), validate_only=True)
        for result in client.send(request, client.controller()).topics:
            if result.error_code:
                reason = one_line(getattr(result, "error_message", None) or error_codes.name(result.error_code))
                refused[result.name] = RefusedError(reason, result.error_code)
    return refused


def partition_sizes(client: Client, metadata: Metadata, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of each partition's log on its leader; empty without Describe on the cluster."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for tp in tps:
        by_leader.setdefault(metadata.leader(tp), {}).setdefault(tp.topic, []).append(tp.partition)
    sizes: dict[TopicPartition, int] = {}
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    for node, topics in by_leader.items():
        wanted = [kind(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
        try:
            response = client.send(DescribeLogDirsRequest(topics=wanted), node)
        except (RefusedError, UnreachableError):  # the broker is too old, or has just stopped
            continue
        sizes |= dict(_sizes_in(response))
    return sizes


def _sizes_in(response: Any) -> Iterable[tuple[TopicPartition, int]]:
    for folder in response.results:
        for topic in folder.topics if not folder.error_code else ():
            for part in topic.partitions:
                if not part.is_future_key:  # a replica that is being moved to another log directory
                    yield TopicPartition(topic.name, part.partition_index), part.partition_size


def replicas(client: Client, names: Iterable[str]) -> dict[str, tuple[Replicas, ...]]:
    """By topic, without missing topics and those that may not be described."""
    every = list(names)
    found: dict[str, tuple[Replicas, ...]] = {}
    for at in range(0, len(every), _DESCRIBED_AT_ONCE):
        topics = [
            MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID)
            for name in every[at : at + _DESCRIBED_AT_ONCE]
        ]
        response = client.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False, min_version=4))
        for topic in response.topics:
            if not topic.error_code:
                found[topic.name] = tuple(
                    Replicas(p.partition_index, p.leader_id, len(p.replica_nodes), len(p.isr_nodes))
                    for p in topic.partitions
                )
    return found


# Brokers


def kafka_version(versions: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """The newest Kafka release that these API versions prove; later ones may have the same."""
    found = infer_broker_version_from_api_versions(dict(versions))
    return int(found[0]), int(found[1])


def brokers(connection: BlockingConnection, timeout: float) -> Brokers:
    """The cluster's brokers: the first request that needs authentication."""
    response = connection.send(MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=4), timeout)
    addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
    return Brokers(response.cluster_id, response.controller_id, addresses)


def sasl_mechanisms(connection: BlockingConnection, timeout: float) -> tuple[str, ...]:
    """The mechanisms that the listener offers; empty if it does not use SASL."""
    response = connection.send(SaslHandshakeRequest(version=1, mechanism="PLAIN"), timeout)
    return () if response.error_code == error_codes.ILLEGAL_SASL_STATE else tuple(response.mechanisms)


def broker_settings(client: Client, node: int, names: Iterable[str]) -> dict[str, str | None]:
    """The settings in effect on this broker; RefusedError without DescribeConfigs on the cluster."""
    kind = DescribeConfigsRequest.DescribeConfigsResource
    wanted = kind(resource_type=_BROKER, resource_name=str(node), configuration_keys=list(names))
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    (found,) = client.send(request, node).results
    if found.error_code:
        message = found.error_message or error_codes.name(found.error_code)
        raise RefusedError(f"cluster {client.alias}: settings of broker {node}: {message}", found.error_code)
    return {each.name: each.value for each in found.configs}


# Clocks


def controller_clock(client: Client) -> ClockReading | None:
    """The active controller's clock, from DescribeQuorum. None: not available (before Kafka 3.3, or ZooKeeper).

    RefusedError without Describe on the cluster.
    """
    kind = DescribeQuorumRequest.TopicData
    partition = kind.PartitionData(partition_index=0)
    before = time.time()
    try:
        response = client.send(DescribeQuorumRequest(topics=[kind(topic_name=_METADATA_LOG, partitions=[partition])]))
    except RefusedError as error:
        if error.code == error_codes.UNSUPPORTED_VERSION:
            return None
        raise
    after = time.time()
    if response.error_code:
        raise RefusedError(
            f"cluster {client.alias}: DescribeQuorum: {error_codes.name(response.error_code)}", response.error_code
        )
    for topic in response.topics:
        for part in topic.partitions:
            for voter in part.current_voters:
                caught_up = getattr(voter, "last_caught_up_timestamp", -1) / 1000  # since version 1
                if voter.replica_id == part.leader_id and caught_up > 0:
                    return ClockReading(caught_up - (before + after) / 2, (after - before) / 2 + 0.001, exact=True)
    return None


def newest_commit(client: Client) -> ClockReading | None:
    """A lower bound of the cluster's clock: the broker's timestamp of the newest commit of any consumer group.

    None: there is no commit, or it may not be read. Needs MAX_TIMESTAMP_VERSION (Kafka 3.0).
    """
    info = client.metadata([_COMMITS]).topics.get(_COMMITS)
    if info is None or info.error:
        return None
    newest = max(
        client.newest_timestamps(TopicPartition(_COMMITS, index) for index in info.leaders).values(), default=-1
    )
    return ClockReading(newest / 1000 - time.time(), 0.0, exact=False) if newest > 0 else None
