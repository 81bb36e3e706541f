"""Questions that change nothing: whether topics could be created, and how large partitions are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest, DescribeLogDirsRequest

from twinlog.errors import RefusedError, UnreachableError
from twinlog.kafka import codes
from twinlog.kafka.client import Client, Metadata, creatable
from twinlog.model import TopicPartition
from twinlog.security.words import one_line

_BATCH: Final = 100  # topics in one request: a controller does nothing else while it looks at them


@dataclass(frozen=True, slots=True)
class WantedTopic:
    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


def refused_topics(client: Client, wanted: Sequence[WantedTopic]) -> dict[str, RefusedError]:
    """Those that the cluster would not create, with its reason. Nothing is created."""
    refused: dict[str, RefusedError] = {}
    for at in range(0, len(wanted), _BATCH):
        topics = [
            creatable(each.name, each.partitions, each.replication_factor, each.configs)
            for each in wanted[at : at + _BATCH]
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=int(client.timeout * 1000), validate_only=True)
        for result in client.ask(request, client.controller()).topics:
            if result.error_code:
                reason = one_line(getattr(result, "error_message", None) or codes.name(result.error_code))
                refused[result.name] = RefusedError(reason, result.error_code)
    return refused


def partition_sizes(client: Client, metadata: Metadata, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of each partition's log, by its leader; without those that may not be told (Describe on the cluster)."""
    led: dict[int, dict[str, list[int]]] = {}
    for place in places:
        led.setdefault(metadata.leader(place), {}).setdefault(place.topic, []).append(place.partition)
    sizes: dict[TopicPartition, int] = {}
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    for node, topics in led.items():
        wanted = [kind(topic=topic, partitions=partitions) for topic, partitions in topics.items()]
        try:
            answer = client.ask(DescribeLogDirsRequest(topics=wanted), node)
        except (RefusedError, UnreachableError):  # an older broker, or one that just went: its sizes are not known
            continue
        sizes |= dict(_sizes_in(answer))
    return sizes


def _sizes_in(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for folder in answer.results:
        for topic in folder.topics if not folder.error_code else ():
            for part in topic.partitions:
                if not part.is_future_key:  # a copy on its way to another disk
                    yield TopicPartition(topic.name, part.partition_index), part.partition_size
