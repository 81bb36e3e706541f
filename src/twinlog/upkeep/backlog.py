"""How much of each partition is still to be copied: records, and about how many bytes. Reads, and changes nothing."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, NO_ID, READ_COMMITTED, Client, Metadata
from twinlog.kafka.inquiry import partition_sizes
from twinlog.model import TopicPartition
from twinlog.topology.plan import Match
from twinlog.topology.sight import Wait
from twinlog.tracking.known import Known
from twinlog.tracking.positions import Facts, Start, Stuck, Trouble, Walk, decide, within
from twinlog.tracking.source_offsets import Cursor

_SETTLES: Final = 5.0  # seconds for a leader to be found
_TROUBLES: Final = {
    Trouble.LOST: "the source has deleted {amount} records before they were copied",
    Trouble.RECREATED: "the topic was deleted and made again: all of it is copied behind what is there",
    Trouble.TRUNCATED: "the source has lost {amount} records that were copied",
    Trouble.TARGET_LOST: "the remote topic has lost what was copied before: all of it is copied again",
    Trouble.UNKNOWN_RECORDS: (
        "the remote topic holds {amount} records, and nobody knows from where: all of the topic is copied behind them"
    ),
}


def waits(
    flow: FlowConfig, source: Client, target: Client, found: Sequence[Match], metadata: Metadata
) -> dict[TopicPartition, Wait]:
    """Of every partition of these topics that has a leader; `metadata` is the source's."""
    known, failed = standing(flow, source, target, found, metadata)
    sizes = partition_sizes(source, metadata, known)
    waiting = {place: Wait(0, None, f"its end cannot be read: {codes.name(code)}") for place, code in failed.items()}
    return waiting | {place: wait(facts, sizes.get(place)) for place, facts in known.items()}


def standing(
    flow: FlowConfig, source: Client, target: Client, found: Sequence[Match], metadata: Metadata
) -> tuple[dict[TopicPartition, Facts], dict[TopicPartition, int]]:
    """What is known of each, and the error codes of those whose end cannot be read."""
    assert flow.source is not None
    remote = {
        TopicPartition(each.topic, index): TopicPartition(each.remote, index)
        for each in found
        for index in sorted(metadata.topics[each.topic].leaders)
        if metadata.leader(TopicPartition(each.topic, index)) >= 0
    }
    counts = {each.topic: each.there or 0 for each in found}
    there = [remote[place] for place in remote if place.partition < counts[place.topic]]
    consumer = flow.source.clients["source.consumer"]
    # As when it is copied: unless the operator says otherwise, nothing of transactions that are still open.
    committed = "isolation.level" not in consumer.values or consumer["isolation.level"] == "read_committed"
    starts, _ = _offsets(source, remote, EARLIEST)
    ends, failed = _offsets(source, remote, LATEST, READ_COMMITTED if committed else 0)
    target_starts, _ = _offsets(target, there, EARLIEST)
    target_ends, _ = _offsets(target, there, LATEST)
    known = Known(flow, source, target, pass_over_denied=True)
    known.read()
    facts: dict[TopicPartition, Facts] = {}
    for place, end in ends.items():
        cursor = known.cursors.get(place)
        facts[place] = Facts(
            anchors=known.anchors(place),
            mm2_offset=known.mm2.get(place),
            source_start=starts.get(place, 0),
            source_end=end,
            target_start=target_starts.get(remote[place], 0),
            target_end=target_ends.get(remote[place], 0),
            reset=consumer["auto.offset.reset"],
            recreated=_recreated(cursor, str(metadata.topics[place.topic].id)),
        )
    return facts, failed


def wait(facts: Facts, size: int | None) -> Wait:
    """`size` is the whole partition's. Between an anchor and the target's end, records are taken to be offsets."""
    decision = decide(facts)
    if isinstance(decision, Stuck):
        return Wait(0, 0, decision.reason)
    if isinstance(decision, Walk):
        decision = Start(decision.anchor.source + facts.target_end - decision.anchor.target)
    start = within(decision, facts)
    records = facts.source_end - min(max(start.source, facts.source_start), facts.source_end)
    every = facts.source_end - facts.source_start
    share = None if size is None else round(size * records / every) if every > 0 else 0
    trouble = _TROUBLES[start.trouble].format(amount=f"{start.amount:,}") if start.trouble else ""
    return Wait(records, share, trouble)


def _offsets(
    client: Client, places: Iterable[TopicPartition], timestamp: int, isolation: int = 0
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """(offsets, error codes). A leader may be on its way, as in a topic that was just made: it is asked for again."""
    found, failed = client.list_offsets(places, timestamp, isolation)
    deadline = time.monotonic() + _SETTLES
    while moved := [place for place, code in failed.items() if code in codes.MOVED]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
        client.metadata(sorted({place.topic for place in moved}))
        more, again = client.list_offsets(moved, timestamp, isolation)
        found |= more
        failed = {place: code for place, code in failed.items() if place not in more} | again
    return found, failed


def _recreated(cursor: Cursor | None, topic_id: str) -> bool:
    if cursor is None or str(NO_ID) in (cursor.topic_id, topic_id):
        return False
    return bool(cursor.topic_id) and cursor.topic_id != topic_id
