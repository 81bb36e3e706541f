"""The backlog of each partition: records to be copied, and their estimated size. Read-only."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from twinlog.config.flows import FlowConfig
from twinlog.inspect.plan import Match
from twinlog.inspect.snapshot import Backlog
from twinlog.kafka import error_codes
from twinlog.kafka.admin_queries import partition_sizes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, READ_COMMITTED, Client, Metadata
from twinlog.mm2.source_offsets import StoredPosition
from twinlog.model import TopicPartition
from twinlog.replicate.position_reader import PositionReader
from twinlog.replicate.resume_decision import (
    CannotResume,
    CountRecords,
    Facts,
    LogProblem,
    StartAt,
    clamp_to_log,
    decide,
)

_ELECTION: Final = 5.0  # seconds to wait for a leader
_PROBLEMS: Final = {
    LogProblem.LOST: "the source deleted {amount} records before they were copied",
    LogProblem.RECREATED: "the topic was deleted and re-created: all of it is appended to the remote topic",
    LogProblem.TRUNCATED: "the source lost {amount} records that were copied",
    LogProblem.TARGET_LOST: "the remote topic lost records that were copied: see twinlog.deleted.remote.topics",
    LogProblem.UNKNOWN_RECORDS: (
        "the remote topic has {amount} records of unknown origin: the whole topic is appended to them"
    ),
}


class PartitionBacklog(NamedTuple):
    """The offsets of a flow's partitions, as far as their leaders respond."""

    facts: dict[TopicPartition, Facts]
    failed: dict[TopicPartition, int]  # error codes of those whose end offset is not readable
    blocked: dict[TopicPartition, int]  # offsets behind an open transaction, if any


def backlogs(
    flow: FlowConfig, source: Client, target: Client, found: Sequence[Match], metadata: Metadata
) -> dict[TopicPartition, Backlog]:
    """Of every partition of these topics with a leader; `metadata` is the source's."""
    known, failed, blocked = partition_backlog(flow, source, target, found, metadata)
    sizes = partition_sizes(source, metadata, known)
    result = {tp: Backlog(0, None, f"end offset not readable: {error_codes.name(code)}") for tp, code in failed.items()}
    for tp, facts in known.items():
        result[tp] = replace(backlog_of(facts, sizes.get(tp)), blocked=blocked.get(tp, 0))
    return result


def partition_backlog(
    flow: FlowConfig, source: Client, target: Client, found: Sequence[Match], metadata: Metadata
) -> PartitionBacklog:
    assert flow.source is not None
    remote = {
        TopicPartition(each.topic, index): TopicPartition(each.remote, index)
        for each in found
        for index in sorted(metadata.topics[each.topic].leaders)
        if metadata.leader(TopicPartition(each.topic, index)) >= 0
    }
    counts = {each.topic: each.remote_partitions or 0 for each in found}
    existing = [remote[tp] for tp in remote if tp.partition < counts[tp.topic]]
    consumer = flow.source.clients["source.consumer"]
    # As for copying: records of open transactions do not count, unless isolation.level is read_uncommitted.
    committed = "isolation.level" not in consumer.values or consumer["isolation.level"] == "read_committed"
    starts, _ = _offsets(source, remote, EARLIEST)
    # Queried first, or records written in between would seem to be behind an open transaction.
    every, _ = _offsets(source, remote, LATEST) if committed else ({}, {})
    ends, failed = _offsets(source, remote, LATEST, READ_COMMITTED if committed else 0)
    target_starts, _ = _offsets(target, existing, EARLIEST)
    target_ends, _ = _offsets(target, existing, LATEST)
    known = PositionReader(flow, source, target, ignore_unauthorized=True)
    known.read()
    facts: dict[TopicPartition, Facts] = {}
    for tp, end in ends.items():
        stored = known.stored_positions.get(tp)
        facts[tp] = Facts(
            offset_pairs=known.offset_pairs(tp),
            mm2_position=known.mm2_positions.get(tp),
            source_start=starts.get(tp, 0),
            source_end=end,
            target_start=target_starts.get(remote[tp], 0),
            target_end=target_ends.get(remote[tp], 0),
            reset=consumer["auto.offset.reset"],
            refill=flow.source.settings.twinlog_deleted_remote_topics == "refill",
            recreated=_recreated(stored, str(metadata.topics[tp.topic].id)),
        )
    blocked = {tp: end - ends[tp] for tp, end in every.items() if end > ends.get(tp, end)}
    return PartitionBacklog(facts, failed, blocked)


def backlog_of(facts: Facts, size: int | None) -> Backlog:
    """`size`: of the whole partition. From an offset pair to the target's end, offsets are counted as records."""
    decision = decide(facts)
    if isinstance(decision, CannotResume):
        return Backlog(0, 0, decision.reason)
    if isinstance(decision, CountRecords):
        decision = StartAt(decision.offset_pair.source + facts.target_end - decision.offset_pair.target)
    start = clamp_to_log(decision, facts)
    records = facts.source_end - min(max(start.source, facts.source_start), facts.source_end)
    every = facts.source_end - facts.source_start
    share = None if size is None else round(size * records / every) if every > 0 else 0
    problem = _PROBLEMS[start.problem].format(amount=f"{start.amount:,}") if start.problem else ""
    return Backlog(records, share, problem)


def _offsets(
    client: Client, tps: Iterable[TopicPartition], timestamp: int, isolation: int = 0
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """(offsets, error codes). Retries while a leader is being elected, as for a topic that was just created."""
    found, failed = client.list_offsets(tps, timestamp, isolation)
    deadline = time.monotonic() + _ELECTION
    while moved := [tp for tp, code in failed.items() if code in error_codes.LEADER_CHANGED]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
        client.metadata(sorted({tp.topic for tp in moved}))
        more, again = client.list_offsets(moved, timestamp, isolation)
        found |= more
        failed = {tp: code for tp, code in failed.items() if tp not in more} | again
    return found, failed


def _recreated(stored: StoredPosition | None, topic_id: str) -> bool:
    if stored is None or str(NO_ID) in (stored.topic_id, topic_id):
        return False
    return bool(stored.topic_id) and stored.topic_id != topic_id
