"""Decides where a partition resumes. Pure: facts in, a decision out.

An offset pair (S, T) states that source offset S is target offset T. If the target ends at T', the position is T' - T
records after S; if T' = T it is S itself, else the records in between must be counted (CountRecords).

Offsets alone do not prove that the records before T are ours: the target may have lost them, and others may have
written since. So if the sequence number of our next record at T is known (Tail), it is compared with the producer state
of the target's leader (`remembered`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from twinlog.kafka.batch import sequence_distance
from twinlog.model import OffsetPair


class LogProblem(StrEnum):
    """Problems that are reported; each has an event of that kind."""

    LOST = "lost"  # the source deleted records before they were copied
    RECREATED = "re-created"  # the source topic was deleted and created again
    TRUNCATED = "truncated"  # the source lost records that had been copied
    TARGET_LOST = "target lost"  # the target lost records that had been copied
    UNKNOWN_RECORDS = "unknown records"  # the remote topic holds records of unknown source offsets


# After these the next record does not follow our last one on the target, so it needs a new producer epoch.
NEW_EPOCH_PROBLEMS = frozenset(
    {LogProblem.LOST, LogProblem.RECREATED, LogProblem.TRUNCATED, LogProblem.UNKNOWN_RECORDS}
)


class Producer(NamedTuple):
    """Producer id, epoch and sequence number of the next record."""

    id: int
    epoch: int
    sequence: int

    @property
    def valid(self) -> bool:
        return self.id >= 0 and 0 <= self.epoch < 1 << 15 and 0 <= self.sequence < 1 << 31

    def with_new_epoch(self) -> "Producer":
        """The next epoch, so that an earlier batch that arrives late cannot be mistaken for the next one.

        A broker that has stored a batch with the same numbers would acknowledge the next batch without storing it.
        """
        return Producer(self.id, self.epoch + 1, 0) if self.epoch < (1 << 15) - 1 else self


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of our records when the position was stored: offsets and sequence number of the next one."""

    source: int
    target: int
    producer: Producer

    @property
    def offset_pair(self) -> OffsetPair:
        return OffsetPair(self.source, self.target)


@dataclass(frozen=True, slots=True)
class Facts:
    offset_pairs: Sequence[OffsetPair]
    mm2_position: int | None  # after the last record copied by MM2, as it has stored it
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    reset: str  # auto.offset.reset
    expects_foreign: bool = False  # other producers may write to the remote topic
    recreated: bool = False  # the source topic has another id than when the offset pairs were stored
    remote_recreated: bool = False  # so has the remote topic
    truncated_at: int | None = None  # where the log of the source's leader diverges from what was fetched
    tail: Tail | None = None
    sync: OffsetPair | None = None  # the one of the offset pairs that is of an existing record, not of the next one
    remembered: Producer | None = None  # producer state of the target's leader; None: it does not know our producer
    refill: bool = True  # a re-created remote topic gets all records again
    source_log_end: int | None = None  # including uncommitted records; None: unknown


@dataclass(frozen=True, slots=True)
class StartAt:
    """The position is `source`; `problem` concerns `amount` records."""

    source: int
    problem: LogProblem | None = None
    amount: int = 0


@dataclass(frozen=True, slots=True)
class CountRecords:
    """Count records from the offset pair to the target's end.

    `count`: sequence numbers prove that this many records after it are ours, and `others` are not. `check`: read the
    log to see whether our records still end at this tail. `missing`: the target has lost this many of our records; find
    the last one left.
    """

    offset_pair: OffsetPair
    count: int | None = None
    others: int = 0
    check: Tail | None = None
    missing: int = 0


@dataclass(frozen=True, slots=True)
class CannotResume:
    reason: str


def decide(facts: Facts) -> StartAt | CountRecords | CannotResume:
    if facts.recreated:
        return StartAt(facts.source_start, LogProblem.RECREATED)
    if facts.remote_recreated and facts.offset_pairs:
        return _start_over(facts)
    if (
        facts.offset_pairs
        and facts.target_end == 0
        and not any(offset_pair.target == 0 for offset_pair in facts.offset_pairs)
    ):
        return _start_over(facts)
    usable = [offset_pair for offset_pair in facts.offset_pairs if offset_pair.target <= facts.target_end]
    if facts.tail is not None and (found := _by_sequence(facts, facts.tail, usable)) is not None:
        return found
    if usable:
        offset_pair = max(usable, key=lambda each: each.target)
        return StartAt(offset_pair.source) if offset_pair.target == facts.target_end else CountRecords(offset_pair)
    if facts.offset_pairs:
        oldest = min(facts.offset_pairs, key=lambda each: each.target)
        return CountRecords(oldest, missing=oldest.target - facts.target_end)
    if facts.mm2_position:
        return StartAt(facts.mm2_position)
    first = _reset(facts)
    if isinstance(first, StartAt) and facts.target_end > facts.target_start and not facts.expects_foreign:
        return StartAt(first.source, LogProblem.UNKNOWN_RECORDS, facts.target_end - facts.target_start)
    return first


def _by_sequence(
    facts: Facts, tail: Tail, usable: Sequence[OffsetPair]
) -> StartAt | CountRecords | CannotResume | None:
    """None: sequence numbers prove nothing."""
    end, remembered = facts.target_end, facts.remembered
    if remembered is None:
        if tail.target <= end and tail.offset_pair in usable:
            newest = max(usable, key=lambda each: each.target)
            return CountRecords(newest, check=tail)
        return None
    if remembered.id != tail.producer.id or remembered.epoch > tail.producer.epoch:
        return None  # another run has written since
    if remembered.epoch < tail.producer.epoch:
        if tail.producer.sequence or tail.target > end:
            # The records of the newer epoch are gone.
            return CountRecords(tail.offset_pair, missing=max(tail.target - end, 1))
        # None was written in the newer epoch yet; late batches of the older one count as foreign.
        return StartAt(tail.source)
    written = sequence_distance(tail.producer.sequence, remembered.sequence)
    if written < 0:
        return CountRecords(tail.offset_pair, missing=-written)
    if tail.target + written > end:
        return CannotResume(
            f"the target's producer state has {written} records after offset {tail.target}, but the log ends at {end}; "
            "records are missing in between"
        )
    newest = max(
        (each for each in usable if each.target >= tail.target), key=lambda each: each.target, default=tail.offset_pair
    )
    if tail.target + written < end and newest.target > tail.target:
        return CountRecords(newest)  # MM2 may have continued since; then this is its offset sync
    if tail.target + written < end:
        return CountRecords(tail.offset_pair, count=written, others=end - tail.target - written)
    return StartAt(newest.source) if newest.target == end else CountRecords(newest, count=end - newest.target)


def clamp_to_log(start: StartAt, facts: Facts) -> StartAt:
    """The position within the source's log: after records that were deleted before they were copied (LOST), before
    copied records that the source has lost (TRUNCATED).
    """
    if start.source < facts.source_start and start.problem is not LogProblem.RECREATED:
        return StartAt(facts.source_start, LogProblem.LOST, facts.source_start - start.source)
    if facts.truncated_at is not None and start.source > facts.truncated_at and not facts.recreated:
        return StartAt(facts.truncated_at, LogProblem.TRUNCATED, start.source - facts.truncated_at)
    return start


def is_past_log_end(start: StartAt, facts: Facts) -> bool:
    """Whether the source's log ends before the position: it was truncated, or the topic re-created."""
    return facts.source_log_end is not None and start.source > facts.source_log_end


def _start_over(facts: Facts) -> StartAt | CannotResume:
    """The remote topic was re-created: copy everything again; or, with auto.offset.reset = latest or without `refill`
    (MM2's behaviour), only what was not copied yet.
    """
    first = _reset(facts)
    if isinstance(first, CannotResume):
        return first
    newest = max(offset_pair.source for offset_pair in facts.offset_pairs)
    if not facts.refill:
        return StartAt(max(newest, facts.mm2_position or 0), LogProblem.TARGET_LOST)
    return StartAt(min(first.source, newest) if facts.reset == "latest" else first.source, LogProblem.TARGET_LOST)


def _reset(facts: Facts) -> StartAt | CannotResume:
    match facts.reset:
        case "earliest":
            return StartAt(facts.source_start)
        case "latest":
            return StartAt(facts.source_end)
        case _:
            return CannotResume(
                f"no position to start from, and auto.offset.reset is {facts.reset}; set it to earliest or latest"
            )
