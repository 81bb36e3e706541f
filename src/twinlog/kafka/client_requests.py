"""Builds requests of the blocking client. kafka-python encodes them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest, DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from twinlog.model import TopicPartition

# ListOffsets returns the end of the log to a replica, and the high watermark to a consumer (-1).
_CONSUMER: Final = -1
REPLICA: Final = (1 << 31) - 1


def creatable(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> Any:
    kind = CreateTopicsRequest.CreatableTopic
    return kind(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def offsets_request(
    topics: Mapping[str, Sequence[int]], timestamp: int, isolation: int, replica: int = _CONSUMER
) -> Any:
    kind = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=replica,
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


def producers_request(topics: Mapping[str, Sequence[int]]) -> Any:
    kind = DescribeProducersRequest
    return kind(topics=[kind.TopicRequest(name=name, partition_indexes=list(some)) for name, some in topics.items()])


def fetch_request(
    offsets: Mapping[TopicPartition, int], each_bytes: int, max_bytes: int, wait_ms: int, isolation: int
) -> Any:
    kind = FetchRequest.FetchTopic
    topics: dict[str, list[Any]] = {}
    for tp, offset in offsets.items():
        topics.setdefault(tp.topic, []).append(
            kind.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=each_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, isolation_level=isolation,
        session_id=0, session_epoch=-1, topics=[kind(topic=name, partitions=some) for name, some in topics.items()],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
