"""Internal topics of a flow: which it has, and their creation. Waits until every broker knows new topics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.journal.messages import PARTITIONS, journal_topic
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client, Metadata
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import Side, offset_syncs_location
from twinlog.mm2.source_offsets import connector_offsets_topic, offsets_topic
from twinlog.sync.forwarding_admin import APPEARS, appears_within

_COMPACTED: Final = (("cleanup.policy", "compact"),)
_JOURNAL: Final = (("cleanup.policy", "delete"), ("retention.ms", "3600000"), ("segment.bytes", "16777216"))


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic: MM2's, Connect's, and Twinlog's journal."""

    side: Side
    name: str
    partitions: int  # -1: the broker's default
    replication_factor: int
    key: str  # the setting for its replication factor
    configs: tuple[tuple[str, str], ...] = _COMPACTED


def internal_topics(flow: FlowConfig) -> list[InternalTopic]:
    """The internal topics of the flow."""
    found = source_topics(flow) if flow.replicates else []
    found += [checkpoints_topic(flow)] if flow.emits_checkpoints else []
    return found + ([heartbeats_topic(flow)] if flow.emits_heartbeats else [])


def source_topics(flow: FlowConfig) -> list[InternalTopic]:
    """Those of the source connector and its tasks."""
    assert flow.source is not None
    own = connector_offsets_topic(flow)
    every = (offsets_topic(flow), *([own] if own else []))
    found = [InternalTopic("target", *each, "offset.storage.replication.factor") for each in every]
    name, factor = journal_topic(flow.flow.source), flow.worker.settings.status_storage_replication_factor
    found.append(InternalTopic("target", name, PARTITIONS, factor, "status.storage.replication.factor", _JOURNAL))
    return found + ([offset_syncs_topic(flow)] if flow.source.settings.emit_offset_syncs_enabled else [])


def offset_syncs_topic(flow: FlowConfig) -> InternalTopic:
    assert flow.source is not None
    factor = flow.source.settings.offset_syncs_topic_replication_factor
    return InternalTopic(*offset_syncs_location(flow), 1, factor, "offset-syncs.topic.replication.factor")


def checkpoints_topic(flow: FlowConfig) -> InternalTopic:
    assert flow.checkpoint is not None
    settings = flow.checkpoint.settings
    name = policy_of(flow.checkpoint).checkpoints_topic(settings.source_cluster_alias)
    factor = settings.checkpoints_topic_replication_factor
    return InternalTopic("target", name, 1, factor, "checkpoints.topic.replication.factor")


def heartbeats_topic(flow: FlowConfig) -> InternalTopic:
    assert flow.heartbeat is not None
    factor = flow.heartbeat.settings.heartbeats_topic_replication_factor
    name = policy_of(flow.heartbeat).heartbeats_topic()
    return InternalTopic("target", name, 1, factor, "heartbeats.topic.replication.factor")


def ensure(client: Client, topic: InternalTopic) -> None:
    """Creates the topic if it does not exist."""
    info = client.metadata([topic.name]).topics.get(topic.name)
    if info is not None and not info.error:
        return
    try:
        client.create_topic(topic.name, topic.partitions, topic.replication_factor, dict(topic.configs))
    except RefusedError as error:
        if error.code == error_codes.INVALID_REPLICATION_FACTOR:
            raise RefusedError(f"{error}; set {topic.key} to at most the number of brokers", error.code) from error
        raise
    wait_for_topics(client, {topic.name: topic.partitions}, appears_within(client))


def wait_for_topics(client: Client, partitions: Mapping[str, int], seconds: float = APPEARS) -> Metadata:
    """Waits until each topic has that many partitions, all with leaders, or until the timeout."""
    deadline, pause = time.monotonic() + seconds, 0.05
    while True:
        metadata = client.metadata(sorted(partitions))
        ready = all(
            (info := metadata.topics.get(name)) is not None
            and not info.error
            and len(info.leaders) >= count
            and all(leader >= 0 for leader, _ in info.leaders.values())
            for name, count in partitions.items()
        )
        if ready or time.monotonic() > deadline:
            return metadata
        time.sleep(pause)
        pause = min(pause * 2, 1.0)  # with thousands of topics the metadata itself takes a second of CPU time
