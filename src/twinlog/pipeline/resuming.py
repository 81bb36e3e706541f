"""Between a partition and recovery: the question that it asks, and what becomes of it with the answer."""

import contextlib
import time
import uuid

from twinlog.model import Anchor, Flow
from twinlog.pipeline.job import Claim
from twinlog.pipeline.partition import Partition, State
from twinlog.pipeline.positions import Positions
from twinlog.pipeline.recovery import Finding, Producer, Question
from twinlog.tracking.positions import Trouble


def question_of(p: Partition) -> Question:
    known = p.expected >= 0
    trusted = known and p.proven and not p.blame
    return Question(
        place=p.place,
        remote=p.remote,
        # The older ones are for a target that has lost what came after them.
        anchors=(*p.anchors, Anchor(p.acked, p.expected)) if known else p.anchors,
        mm2_offset=p.mm2_offset,
        topic_id=p.topic_id,
        remote_id=p.remote_id,
        producer=Producer(p.producer_id, p.producer_epoch, p.acked_sequence) if trusted else None,
        had_cursor=p.had_cursor or known,
        fresh=p.fresh,
        truncated_at=p.truncated_at,
        out_of_range=p.out_of_range,
    )


def reread(partition: Partition, positions: Positions) -> None:
    """Another task has carried it since our claim was made: what that one wrote down holds."""
    claim = positions.known(Claim(partition.place, partition.remote))
    partition.anchors, partition.mm2_offset = claim.anchors, claim.mm2_offset
    partition.had_cursor = partition.had_cursor or claim.cursor is not None
    if claim.cursor is not None:
        with contextlib.suppress(ValueError):
            partition.topic_id = uuid.UUID(claim.cursor.topic_id)
    partition.acked = partition.expected = -1
    partition.fresh = True


def resume(partition: Partition, finding: Finding) -> None:
    """Its position is known: from now on it runs from there."""
    assert finding.producer is not None
    partition.topic_id, partition.remote_id = finding.topic_id, finding.remote_id
    partition.leader, partition.leader_epoch = finding.leader, finding.leader_epoch
    partition.target_leader = finding.target_leader
    if finding.trouble is not None:
        partition.anchors = ()  # what they say is not so any more
    if finding.trouble is not None or partition.out_of_range is not None:
        partition.last_epoch = -1
        partition.epochs.clear()
    elif partition.last_epoch < 0 and partition.written and partition.written.source == finding.position:
        # A source that was cut off and written anew while nobody looked is known by this.
        partition.last_epoch = partition.written_epoch
    partition.fetched = partition.acked = finding.position
    partition.fetched_at = time.monotonic()
    if partition.until is not None and finding.trouble in {Trouble.RECREATED, Trouble.TRUNCATED}:
        partition.until = min(partition.until, finding.source_end)  # what it was to reach is not there any more
    partition.expected = finding.expected
    partition.producer_id, partition.producer_epoch = finding.producer.id, finding.producer.epoch
    partition.sequence = partition.acked_sequence = finding.producer.sequence
    partition.proven = finding.proven
    partition.fresh = False
    partition.high_watermark, partition.log_start = finding.source_end, finding.source_start
    partition.written = Anchor(finding.position, finding.expected)
    partition.had_cursor = True
    partition.truncated_at = partition.out_of_range = None
    partition.state = State.RUNNING
    if not partition.blame:
        partition.error = ""
    partition.changed = True


def trouble_text(finding: Finding, flow: Flow) -> str:
    """For the operator."""
    place, remote = finding.question.place, finding.question.remote
    at, amount = finding.position, finding.amount
    match finding.trouble:
        case Trouble.LOST:
            return (
                f"{amount} offsets of {place} were gone from {flow.source} before they were copied "
                f"({at - amount} to {at - 1}): its retention is shorter than the delay"
            )
        case Trouble.RECREATED:
            return f"topic {place.topic} was deleted and made again on {flow.source}"
        case Trouble.TRUNCATED:
            return f"{flow.source} lost records of {place} that were copied: its log goes on at {at}"
        case Trouble.TARGET_LOST:
            return (
                f"{flow.target} lost records of {remote} that it had acknowledged: "
                f"they are copied again, from offset {at} of {place} on"
            )
        case _:
            return f"{remote} holds {amount} records that no known mirror wrote; copying begins at {at} of {place}"


def lost_offsets(finding: Finding) -> tuple[int, int] | None:
    """The first and the last source offset that it is about: gone before they were copied, or after that."""
    at, amount = finding.position, finding.amount
    match finding.trouble:
        case Trouble.LOST if amount > 0:
            return at - amount, at - 1
        case Trouble.TRUNCATED if amount > 0:
            return at, at + amount - 1
    return None
