"""The status of a flow that is not running, from both clusters. Read-only."""

import contextlib
from collections.abc import Iterator
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RefusedError
from twinlog.inspect.backlog import backlog_of, partition_backlog
from twinlog.inspect.plan import Match
from twinlog.kafka import error_codes
from twinlog.kafka.client import EARLIEST, LATEST, Client, Metadata
from twinlog.kafka.records import Record
from twinlog.kafka.topic_reader import read_range
from twinlog.mm2.heartbeats import Heartbeat
from twinlog.mm2.replication_policy import policy_of
from twinlog.mm2.selection import selection_of
from twinlog.model import TopicPartition
from twinlog.replicate.resume_decision import Facts
from twinlog.status.partition import PartitionStatus
from twinlog.sync.flow_clients import FlowClients

_WIDTHS: Final = (10, 1000, 100_000)  # how many records of the heartbeats topic are read, from its end


def partitions_of(flow: FlowConfig) -> list[PartitionStatus]:
    """Every partition that would be copied, with its backlog. Raises UnreachableError if a cluster is down."""
    with FlowClients(flow) as clients:
        source, target = clients.client("source.admin"), clients.client("target.admin")
        upstream = source.metadata(None)
        selection = selection_of(flow)
        remote = {
            name: selection.remote_name(name)
            for name, info in sorted(upstream.topics.items())
            if selection.selects(name) and not info.error
        }
        downstream = target.metadata(sorted(set(remote.values()))) if remote else Metadata(None, -1, {}, {})
        found = [
            Match(name, remote[name], len(upstream.topics[name].leaders), _count(downstream, remote[name]))
            for name in remote
        ]
        known, failed, blocked = partition_backlog(flow, source, target, found, upstream)
    unread = [
        PartitionStatus(*tp, remote[tp.topic], error=f"end offset not readable: {error_codes.name(code)}")
        for tp, code in failed.items()
    ]
    return [partition_status(tp, remote[tp.topic], facts, blocked.get(tp, 0)) for tp, facts in known.items()] + unread


def partition_status(tp: TopicPartition, remote: str, facts: Facts, blocked: int = 0) -> PartitionStatus:
    """Where it would resume; `blocked` source offsets are behind an open transaction. Pure."""
    backlog = backlog_of(facts, None)
    return PartitionStatus(
        *tp,
        remote,
        position=facts.source_end - backlog.records,
        end=facts.source_end + blocked,
        stable=facts.source_end if blocked else -1,
        start=facts.source_start,
        target=facts.target_end,
        error=backlog.problem,
    )


def newest_heartbeat(flow: FlowConfig) -> int | None:
    """The time of the flow's newest heartbeat; None: there is none, or it may not be read."""
    if flow.heartbeat is None:
        return None
    settings = flow.heartbeat.settings
    tp = TopicPartition(policy_of(flow.heartbeat).heartbeats_topic(), 0)
    with FlowClients(flow) as clients, contextlib.suppress(KafkaError):
        client = clients.client("target.admin")
        client.metadata([tp.topic])
        start = client.list_offsets([tp], EARLIEST)[0].get(tp, 0)
        end = client.list_offsets([tp], LATEST)[0].get(tp, 0)
        for width in _WIDTHS:  # the topic may hold a week of heartbeats, so it is read from the end
            aliases = settings.source_cluster_alias, settings.target_cluster_alias
            heartbeats = map(_heartbeat, _records(client, tp, max(start, end - width), end))
            ours = [each.timestamp for each in heartbeats if each and (each.source, each.target) == aliases]
            if ours or end - width <= start:
                return max(ours, default=None)
    return None


def _count(metadata: Metadata, topic: str) -> int | None:
    info = metadata.topics.get(topic)
    return None if info is None or info.error else len(info.leaders)


def _records(client: Client, tp: TopicPartition, at: int, end: int) -> Iterator[Record]:
    with contextlib.suppress(RefusedError):  # the records before the error count
        yield from read_range(client, tp, at, end)


def _heartbeat(record: Record) -> Heartbeat | None:
    try:
        return Heartbeat.decode(record.key, record.value)
    except ValueError:
        return None
