"""How a flow stands that nobody runs: by a look at both clusters. Reads, and changes nothing."""

from collections.abc import Iterator
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, Client, Metadata
from twinlog.kafka.reading import batch_end, records_from
from twinlog.kafka.records import Record
from twinlog.model import TopicPartition
from twinlog.status.partition import PartitionStatus
from twinlog.topology.plan import Match
from twinlog.topology.policy import policy_of
from twinlog.topology.selection import selection_of
from twinlog.tracking.heartbeats import Heartbeat
from twinlog.tracking.positions import Facts
from twinlog.upkeep.backlog import standing, wait
from twinlog.upkeep.look import Eyes

_WIDTHS: Final = (10, 1000, 100_000)  # records of the heartbeats topic that are looked at, from its end


def partitions_of(flow: FlowConfig) -> list[PartitionStatus]:
    """Every partition that would be copied, with what waits in it. Raises UnreachableError when a cluster is down."""
    eyes = Eyes(flow)
    try:
        source, target = eyes.client("source", "source.admin"), eyes.client("target", "target.admin")
        seen = source.metadata(None)
        selection = selection_of(flow)
        remote = {
            name: selection.remote_name(name)
            for name, info in sorted(seen.topics.items())
            if selection.selects(name) and not info.error
        }
        there = target.metadata(sorted(set(remote.values()))) if remote else Metadata(None, -1, {}, {})
        found = [
            Match(name, remote[name], len(seen.topics[name].leaders), _count(there, remote[name])) for name in remote
        ]
        known, failed = standing(flow, source, target, found, seen)
    finally:
        eyes.close()
    unread = [
        PartitionStatus(*place, remote[place.topic], error=f"its end cannot be read: {codes.name(code)}")
        for place, code in failed.items()
    ]
    return [stand(place, remote[place.topic], facts) for place, facts in known.items()] + unread


def stand(place: TopicPartition, remote: str, facts: Facts) -> PartitionStatus:
    """Where it would go on. Pure."""
    waits = wait(facts, None)
    return PartitionStatus(
        *place,
        remote,
        position=facts.source_end - waits.records,
        end=facts.source_end,
        start=facts.source_start,
        target=facts.target_end,
        error=waits.trouble,
    )


def newest_heartbeat(flow: FlowConfig) -> int | None:
    """When the newest heartbeat of this flow was written; None: there is none, or it may not be read."""
    if flow.heartbeat is None:
        return None
    settings = flow.heartbeat.settings
    place = TopicPartition(policy_of(flow.heartbeat).heartbeats_topic(), 0)
    eyes = Eyes(flow)
    try:
        client = eyes.client("target", "target.admin")
        client.metadata([place.topic])
        start = client.list_offsets([place], EARLIEST)[0].get(place, 0)
        end = client.list_offsets([place], LATEST)[0].get(place, 0)
        for width in _WIDTHS:  # it may hold a week of them, so it is read from the end
            beats = [_beat(each) for each in _records(client, place, max(start, end - width), end)]
            ours = [
                beat.timestamp
                for beat in beats
                if beat and (beat.source, beat.target) == (settings.source_cluster_alias, settings.target_cluster_alias)
            ]
            if ours or end - width <= start:
                return max(ours, default=None)
    except KafkaError:
        return None
    finally:
        eyes.close()
    return None


def _count(metadata: Metadata, topic: str) -> int | None:
    info = metadata.topics.get(topic)
    return None if info is None or info.error else len(info.leaders)


def _records(client: Client, place: TopicPartition, at: int, end: int) -> Iterator[Record]:
    while at < end:
        answer = client.read(place, at)
        if answer.error_code:
            return
        yield from records_from(answer.records, at)
        at = batch_end(answer.records, at) or end


def _beat(record: Record) -> Heartbeat | None:
    try:
        return Heartbeat.decode(record.key, record.value)
    except ValueError:
        return None
