"""Questions about the health of a cluster: its brokers' settings, its clock, its replicas. Nothing is changed."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeConfigsRequest, DescribeQuorumRequest
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.channel import Channel
from twinlog.kafka.client import NO_ID, Client
from twinlog.model import TopicPartition

_BROKER: Final = 4  # as a resource of configs
_METADATA_LOG: Final = "__cluster_metadata"
_COMMITS: Final = "__consumer_offsets"
TELLS_NEWEST: Final = 7  # the version of ListOffsets that does
_BATCH: Final = 500  # topics in one request


@dataclass(frozen=True, slots=True)
class Brokers:
    """What any broker answers before anything else is asked."""

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
    """How far a cluster's clock is ahead of ours, in seconds. `exact`: within `within`; else it is at least so far."""

    ahead: float
    within: float
    exact: bool


def release(versions: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """The newest Kafka whose requests a broker understands: newer ones look the same."""
    found = infer_broker_version_from_api_versions(dict(versions))
    return int(found[0]), int(found[1])


def hello(channel: Channel, timeout: float) -> Brokers:
    """The first question that only somebody who is logged in gets an answer to."""
    answer = channel.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False, min_version=4), timeout)
    addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    return Brokers(answer.cluster_id, answer.controller_id, addresses)


def mechanisms(channel: Channel, timeout: float) -> tuple[str, ...]:
    """How one may log in at this listener; empty: it wants no login."""
    answer = channel.ask(SaslHandshakeRequest(version=1, mechanism="PLAIN"), timeout)
    return () if answer.error_code == codes.ILLEGAL_SASL_STATE else tuple(answer.mechanisms)


def broker_settings(client: Client, node: int, names: Iterable[str]) -> dict[str, str | None]:
    """Those in effect on this broker; RefusedError without DescribeConfigs on the cluster."""
    kind = DescribeConfigsRequest.DescribeConfigsResource
    wanted = kind(resource_type=_BROKER, resource_name=str(node), configuration_keys=list(names))
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    (found,) = client.ask(request, node).results
    if found.error_code:
        message = found.error_message or codes.name(found.error_code)
        raise RefusedError(f"cluster {client.alias}: settings of broker {node}: {message}", found.error_code)
    return {each.name: each.value for each in found.configs}


def replicas(client: Client, names: Iterable[str]) -> dict[str, tuple[Replicas, ...]]:
    """By topic; without those that cannot be seen."""
    every = list(names)
    found: dict[str, tuple[Replicas, ...]] = {}
    for at in range(0, len(every), _BATCH):
        topics = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_ID) for name in every[at : at + _BATCH]]
        answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False, min_version=4))
        for topic in answer.topics:
            if not topic.error_code:
                found[topic.name] = tuple(
                    Replicas(p.partition_index, p.leader_id, len(p.replica_nodes), len(p.isr_nodes))
                    for p in topic.partitions
                )
    return found


def controller_clock(client: Client) -> ClockReading | None:
    """The active controller tells its time beside its place in the quorum. None: it does not (before Kafka 3.3, or
    with ZooKeeper). RefusedError without Describe on the cluster.
    """
    kind = DescribeQuorumRequest.TopicData
    partition = kind.PartitionData(partition_index=0)
    before = time.time()
    try:
        answer = client.ask(DescribeQuorumRequest(topics=[kind(topic_name=_METADATA_LOG, partitions=[partition])]))
    except RefusedError as error:
        if error.code == codes.UNSUPPORTED_VERSION:
            return None
        raise
    after = time.time()
    if answer.error_code:
        raise RefusedError(f"cluster {client.alias}: its quorum: {codes.name(answer.error_code)}", answer.error_code)
    for topic in answer.topics:
        for part in topic.partitions:
            for voter in part.current_voters:
                told = getattr(voter, "last_caught_up_timestamp", -1) / 1000  # from version 1 on
                if voter.replica_id == part.leader_id and told > 0:
                    return ClockReading(told - (before + after) / 2, (after - before) / 2 + 0.001, exact=True)
    return None


def newest_commit(client: Client) -> ClockReading | None:
    """By the newest commit of any consumer group, which its broker stamps: the cluster is at least that far.

    None: there is none, or it may not be seen. Asks for what Kafka 3.0 and later know (TELLS_NEWEST).
    """
    info = client.metadata([_COMMITS]).topics.get(_COMMITS)
    if info is None or info.error:
        return None
    newest = max(
        client.newest_timestamps(TopicPartition(_COMMITS, index) for index in info.leaders).values(), default=-1
    )
    return ClockReading(newest / 1000 - time.time(), 0.0, exact=False) if newest > 0 else None
