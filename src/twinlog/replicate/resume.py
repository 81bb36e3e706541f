"""Between a partition and recovery: builds the request, and applies the result."""

import contextlib
import uuid

from twinlog.model import Flow, OffsetPair
from twinlog.replicate.known_positions import AssignmentPositions
from twinlog.replicate.partition import NO_ID, Partition, State, TargetSide
from twinlog.replicate.recovery import RecoveryRequest, RecoveryResult
from twinlog.replicate.resume_decision import LogProblem, Producer, Tail
from twinlog.replicate.task_spec import PartitionAssignment


def take_positions(partition: Partition, assignment: PartitionAssignment) -> None:
    """Copies the stored positions to the partition."""
    state, stored, position = partition.resume, partition.stored, assignment.stored_position
    state.offset_pairs, state.sync = assignment.offset_pairs, assignment.sync
    state.mm2_position = stored.mm2_position = assignment.mm2_position
    state.tail = state.altered_pair = stored.pair = None
    state.had_position = state.had_position or position is not None
    if position is None:
        return
    stored.pair, stored.leader_epoch = OffsetPair(position.source, position.target), position.leader_epoch
    with contextlib.suppress(ValueError):
        partition.target.topic_id = uuid.UUID(position.remote_id)
    producer = Producer(position.producer_id, position.producer_epoch, position.sequence)
    if producer.valid:
        state.tail = Tail(*stored.pair, producer)
    else:  # written by an operator, without a sequence number
        state.altered_pair = stored.pair


def recovery_request(partition: Partition) -> RecoveryRequest:
    state, target = partition.resume, partition.target
    tail, offset_pairs = state.tail, state.offset_pairs
    known = target.position >= 0
    if known:
        offset_pairs = (*offset_pairs, target.offset_pair)  # the older ones: if the target has lost the newer records
    if known and target.sequence_confirmed:
        tail = Tail(*target.offset_pair, Producer(target.producer_id, target.producer_epoch, target.acked_sequence))
    return RecoveryRequest(
        tp=partition.tp,
        remote=partition.remote,
        offset_pairs=offset_pairs,
        mm2_position=state.mm2_position,
        topic_id=partition.source.topic_id,
        remote_id=target.topic_id,
        tail=tail,
        sync=state.sync,
        had_position=state.had_position or known,
        altered_pair=None if known else state.altered_pair,
        new_epoch=state.new_epoch,
        former_ids=frozenset(state.former_ids),
        positions_fresh=state.positions_fresh,
        truncated_at=state.truncated_at,
        out_of_range=state.out_of_range,
    )


def reread(partition: Partition, positions: AssignmentPositions) -> None:
    """Another task has copied the partition since it was assigned to us: its stored position is the right one."""
    assignment = positions.known(PartitionAssignment(partition.tp, partition.remote))
    take_positions(partition, assignment)
    if assignment.stored_position is not None:
        with contextlib.suppress(ValueError):
            partition.source.topic_id = uuid.UUID(assignment.stored_position.topic_id)
    partition.target.acked_position = partition.target.position = -1
    partition.resume.positions_fresh = True


def resume(partition: Partition, result: RecoveryResult) -> None:
    """Sets the partition running from the position found."""
    state = partition.resume
    if result.problem is LogProblem.RECREATED and partition.source.topic_id not in {NO_ID, result.topic_id}:
        state.former_ids.add(partition.source.topic_id)
    if partition.target.topic_id not in {NO_ID, result.remote_id}:
        state.former_ids.add(partition.target.topic_id)
    if result.problem is not None:
        state.offset_pairs, state.sync, state.tail = (), None, None  # no longer valid
    truncated = result.problem in {LogProblem.RECREATED, LogProblem.TRUNCATED} or state.truncated_at is not None
    if partition.until is not None and truncated:
        partition.until = min(partition.until, result.source_end)
    _resume_source(partition, result)
    _resume_target(partition.target, result)
    if result.stored:
        partition.stored.pair, partition.stored.leader_epoch = partition.target.offset_pair, -1
    state.positions_fresh = state.new_epoch = False
    state.had_position = True
    state.truncated_at = state.out_of_range = None
    partition.state = State.RUNNING
    if not partition.report.failing_side:
        partition.report.error = ""
    partition.report.changed = True


def _resume_source(partition: Partition, result: RecoveryResult) -> None:
    source, state, stored = partition.source, partition.resume, partition.stored
    source.topic_id, source.leader, source.leader_epoch = result.topic_id, result.leader, result.leader_epoch
    if result.problem is not None or state.out_of_range is not None or state.truncated_at is not None:
        # The leader would report the divergence again.
        source.last_fetched_epoch = -1
        source.epoch_starts.clear()
    elif source.last_fetched_epoch < 0 and stored.pair and stored.pair.source == result.position:
        # With it the leader detects that its log was truncated and rewritten while no task was running.
        source.last_fetched_epoch = stored.leader_epoch
    source.position = result.position
    source.high_watermark, source.log_start = result.source_end, result.source_start


def _resume_target(target: TargetSide, result: RecoveryResult) -> None:
    assert result.producer is not None
    target.topic_id, target.leader = result.remote_id, result.target_leader
    target.acked_position, target.position = result.position, result.target_position
    target.producer_id, target.producer_epoch, target.acked_sequence = result.producer
    target.sequence = target.acked_sequence
    # If batches of ours are still arriving, the sequence number is too low and the first batch is refused. A second one
    # in flight could happen to have the right number: it would be accepted, and the first be missing. So one at a time.
    target.producer_known_until_ms = result.producer_known_until_ms if result.sequence_confirmed else 0.0
    target.sequence_confirmed = result.sequence_confirmed or result.new_epoch  # a new epoch is always accepted


def problem_text(result: RecoveryResult, flow: Flow) -> str:
    """The event text."""
    tp, remote = result.request.tp, result.request.remote
    at, amount = result.position, result.amount
    match result.problem:
        case LogProblem.LOST:
            return (
                f"{flow.source}: {tp}: {amount} offsets ({at - amount} to {at - 1}) were deleted before they were "
                "copied; the topic's retention is shorter than the replication delay"
            )
        case LogProblem.RECREATED:
            return f"{flow.source}: topic {tp.topic} was deleted and re-created"
        case LogProblem.TRUNCATED:
            return f"{flow.source}: {tp} was truncated at offset {at} and has lost copied records"
        case LogProblem.TARGET_LOST:
            return f"{flow.target}: {remote} has lost acknowledged records; copying continues at offset {at} of {tp}"
        case _:
            return (
                f"{flow.target}: {remote} holds {amount} records of unknown origin; "
                f"copying starts at offset {at} of {tp}"
            )


def lost_offsets(result: RecoveryResult) -> tuple[int, int] | None:
    """The first and last source offset lost, before or after they were copied."""
    at, amount = result.position, result.amount
    match result.problem:
        case LogProblem.LOST if amount > 0:
            return at - amount, at - 1
        case LogProblem.TRUNCATED if amount > 0:
            return at, at + amount - 1
    return None
