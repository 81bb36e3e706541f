"""Determines the positions of partitions, at the start of a task and after every fault.

The target's log decides. First its leaders are asked for the state of our producer, then for their log ends; the source
is counted from the newest offset pair. The next batch carries the sequence number that follows the producer state, so a
broker refuses it if another batch of ours has arrived in between: a late request of a killed or suspended task, or of a
second Twinlog. That makes the position a compare-and-set: a wrong guess costs another recovery, never a duplicate.

Requests are batched, one per leader. Logs are read only where records were written after the newest offset pair; the
first read of those partitions is batched, too.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from twinlog.errors import KafkaError, RefusedError, ReplicationError, UnreachableError
from twinlog.kafka import error_codes
from twinlog.kafka.admin import Admin
from twinlog.kafka.admin_queries import broker_settings
from twinlog.kafka.batch import next_sequence
from twinlog.kafka.client import EARLIEST, LATEST, READ_COMMITTED, Client, Metadata, ProducerState
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.convert_batches import ConversionRules
from twinlog.replicate.log_reader import LogReader
from twinlog.replicate.position_search import Logs, LogSearch
from twinlog.replicate.resume_decision import (
    NEW_EPOCH_PROBLEMS,
    CannotResume,
    CountRecords,
    Facts,
    LogProblem,
    Producer,
    StartAt,
    Tail,
    clamp_to_log,
    decide,
    is_past_log_end,
)

_LOT_SIZE: Final = 64  # partitions whose logs are read together
_FOLLOWER_WAIT_SECONDS: Final = 1.0  # for the high watermark to reach the log end
_EXPIRY_KEYS: Final = ("producer.id.expiration.ms", "transactional.id.expiration.ms")  # before Kafka 3.5: the second
_EXPIRY_MS: Final = 86_400_000  # Kafka's default
_CLOCK_SKEW_MS: Final = 900_000  # between our clock and the broker's


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    tp: TopicPartition
    remote: TopicPartition
    offset_pairs: tuple[OffsetPair, ...]
    mm2_position: int | None
    topic_id: uuid.UUID  # when the offset pairs were stored; 0: unknown
    remote_id: uuid.UUID
    tail: Tail | None = None  # where our records ended, one of the offset pairs; None: unknown
    sync: OffsetPair | None = None  # the newest offset sync, one of the offset pairs
    had_position: bool = False  # whether a position was ever stored
    altered_pair: OffsetPair | None = None  # the offset pair written by an operator; a new producer epoch starts there
    new_epoch: bool = False  # start a new producer epoch: the next sequence numbers were used for other records
    former_ids: frozenset[uuid.UUID] = frozenset()  # topic ids before the topic was re-created
    positions_fresh: bool = False  # the offset pairs were just read, so reading them again is useless
    truncated_at: int | None = None
    out_of_range: int | None = None  # the source offset that the leader does not have


@dataclass(slots=True)
class RecoveryResult:
    """Either a position, or an `error`; `final`: retrying does not help."""

    request: RecoveryRequest
    position: int = -1
    target_position: int = -1
    producer: Producer | None = None
    producer_known_until_ms: float = 0.0  # until then the broker keeps its state and refuses a sequence gap
    sequence_confirmed: bool = True  # none of our batches arrived meanwhile: see Partition
    new_epoch: bool = False  # what comes next does not follow our last record
    stored: bool = False  # the position was stored before its use
    topic_id: uuid.UUID = field(default=uuid.UUID(int=0))
    remote_id: uuid.UUID = field(default=uuid.UUID(int=0))
    leader: int = -1
    leader_epoch: int = -1
    target_leader: int = -1
    source_start: int = -1
    source_end: int = -1
    problem: LogProblem | None = None
    amount: int = 0
    foreign: int = 0  # records of other producers in the remote topic, after the offset pair
    duplicates: int = 0  # records that may be on the target already
    error: str = ""
    code: int = 0
    final: bool = False
    stale: bool = False  # the offset pairs do not match the target: another task has copied since they were read

    @property
    def must_be_stored(self) -> bool:
        """Whether to store the position before its use, because it does not follow from a stored one."""
        known = self.request.had_position and self.request.tail is not None
        return not known or self.problem is not None or self.new_epoch


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """Settings that decide positions."""

    reset: str = "earliest"  # auto.offset.reset
    rules: ConversionRules = field(default_factory=ConversionRules)
    expects_foreign: bool = False  # other producers may write to the remote topics
    mm2_read_committed: bool = False  # whether MM2 with these settings copies only committed records
    refill: bool = True  # a re-created remote topic gets all records again


class _LeaderAnswers(NamedTuple):
    """Responses of both leaders for one partition."""

    remembered: ProducerState | None
    source_start: int
    source_end: int
    source_log_end: int
    target_start: int
    target_end: int


class Recovery:
    """Used by one thread, like its clients."""

    def __init__(
        self,
        source: Client,
        target: Client,
        producers: Sequence[int],
        recovery_policy: RecoveryPolicy,
        producer_retention_ms: float = 0.0,
    ) -> None:
        """`producer_retention_ms`: as an earlier recovery has found it."""
        self._source = source
        self._target = target
        self._producers = list(producers)  # ours, newest last
        self._policy = recovery_policy
        self._compacted: dict[str, bool] = {}
        # How long after its newest record's timestamp a broker surely keeps a producer's state; 0: not queried yet.
        self.producer_retention_ms = producer_retention_ms

    def leaders(self, requests: Sequence[RecoveryRequest]) -> tuple[list[RecoveryResult], Metadata, Metadata]:
        """A result for each request, with the leaders or an error. Raises if a whole cluster is unreachable."""
        source_metadata = self._source.metadata(sorted({q.tp.topic for q in requests}))
        target_metadata = self._target.metadata(sorted({q.remote.topic for q in requests}))
        return (
            [self._with_leaders(q, source_metadata, target_metadata) for q in requests],
            source_metadata,
            target_metadata,
        )

    def find(self, results: Sequence[RecoveryResult]) -> Iterator[list[RecoveryResult]]:
        """Completes the results and yields them in lots: first those for which no log must be read."""
        try:
            answers = self._query(results)
        except KafkaError as error:
            for result in results:
                _fail(result, str(error), getattr(error, "code", 0))
            yield list(results)
            return
        later: list[tuple[RecoveryResult, Facts, CountRecords | StartAt]] = []
        for result in results:
            if not result.error:
                with _assign_errors_to(result):
                    self._decide(result, answers[result.request.tp], later)
        waiting = {result.request.tp for result, _, _ in later}
        yield [result for result in results if result.request.tp not in waiting]
        for at in range(0, len(later), _LOT_SIZE):
            lot = later[at : at + _LOT_SIZE]
            self._read(lot)
            yield [result for result, _, _ in lot]

    def _with_leaders(
        self, request: RecoveryRequest, source_metadata: Metadata, target_metadata: Metadata
    ) -> RecoveryResult:
        result = RecoveryResult(request)
        for alias, tp, metadata in (
            (self._source.alias, request.tp, source_metadata),
            (self._target.alias, request.remote, target_metadata),
        ):
            info = metadata.topics.get(tp.topic)
            code = info.error if info else error_codes.UNKNOWN_TOPIC_OR_PARTITION
            leader, epoch = info.leaders.get(tp.partition, (-1, -1)) if info else (-1, -1)
            if code or info is None or tp.partition not in info.leaders:
                code = code or error_codes.UNKNOWN_TOPIC_OR_PARTITION
                _fail(result, f"{alias}: {tp}: {error_codes.name(code)}", code)
            elif info.id in request.former_ids:
                _fail(result, f"{alias}: {tp}: metadata still has the id of the deleted topic; retrying")
            elif leader < 0:
                _fail(result, f"{alias}: {tp}: no leader", error_codes.LEADER_NOT_AVAILABLE)
            elif tp is request.tp:
                result.topic_id, result.leader, result.leader_epoch = info.id, leader, epoch
            else:
                result.remote_id, result.target_leader = info.id, leader
        return result

    # Queries to the leaders

    def _query(self, results: Sequence[RecoveryResult]) -> dict[TopicPartition, _LeaderAnswers]:
        """By partition of the source. Results without an answer get an error."""
        tps = [f.request.tp for f in results]
        remotes = [f.request.remote for f in results]
        self._query_expiry(results)
        # The order matters: producer states before log ends. If a batch arrives in between, the sequence number is too
        # low and the next batch is refused. In the other order that batch would be written twice.
        states, no_state = self._target.producer_states(remotes)
        log_ends, no_log_end = self._target.log_ends(remotes)
        target_starts, no_target_start = self._target.list_offsets(remotes, EARLIEST)
        target_ends, no_target_end = self._readable_ends(log_ends)
        # Again: if none of our batches arrived in between, the sequence number belongs to the log end.
        states_after, _ = self._target.producer_states(remotes)
        # The source comes last: another task may be copying new records right now, and a source log that ends before
        # the target's would seem to have lost records.
        starts, no_start = self._source.list_offsets(tps, EARLIEST)
        ends, no_end = self._source.list_offsets(tps, LATEST, int(self._policy.rules.read_committed))
        source_log_ends, no_source_log_end = self._source.log_ends(tps)
        answers = {}
        for result in results:
            tp, remote = result.request.tp, result.request.remote
            if code := no_start.get(tp) or no_end.get(tp) or no_source_log_end.get(tp):
                _fail(result, f"{self._source.alias}: {tp}: {error_codes.name(code)}", code)
            elif code := next(
                (some[remote] for some in (no_state, no_log_end, no_target_start, no_target_end) if remote in some), 0
            ):
                _fail(result, f"{self._target.alias}: {remote}: {error_codes.name(code)}", code)
            elif target_ends[remote] < log_ends[remote]:
                missing = log_ends[remote] - target_ends[remote]
                _fail(
                    result,
                    f"{self._target.alias}: {remote}: high watermark is {missing} records behind the log end; "
                    "waiting for the followers",
                )
            else:
                state = self._ours(states[remote])
                result.sequence_confirmed = remote in states_after and state == self._ours(states_after[remote])
                result.source_start, result.source_end = starts[tp], ends[tp]
                answers[tp] = _LeaderAnswers(
                    state,
                    starts[tp],
                    ends[tp],
                    source_log_ends[tp],
                    target_starts[remote],
                    target_ends[remote],
                )
        return answers

    def _ours(self, states: Mapping[int, ProducerState]) -> ProducerState | None:
        return next((states[one] for one in reversed(self._producers) if one in states), None)

    def _readable_ends(
        self, log_ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """High watermarks, after waiting for the log ends: a batch of ours between the two would be copied again."""
        ends, failed = self._target.list_offsets(log_ends, LATEST)
        deadline = time.monotonic() + _FOLLOWER_WAIT_SECONDS
        while behind := [tp for tp, end in ends.items() if end < log_ends[tp]]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
            more, failed_now = self._target.list_offsets(behind, LATEST)
            ends |= more
            failed |= failed_now
        return ends, failed

    def _query_expiry(self, results: Sequence[RecoveryResult]) -> None:
        if self.producer_retention_ms or not results:
            return
        found: dict[str, str | None] = {}
        with contextlib.suppress(RefusedError):  # no permission to describe the broker: assume the default
            found = broker_settings(self._target, results[0].target_leader, _EXPIRY_KEYS)
        setting = next((value for key in _EXPIRY_KEYS if (value := found.get(key))), "")
        expiry = float(setting) if setting.isdecimal() else _EXPIRY_MS
        self.producer_retention_ms = max(expiry - min(expiry / 4, _CLOCK_SKEW_MS), 1.0)

    # Decisions

    def _decide(
        self,
        result: RecoveryResult,
        answers: _LeaderAnswers,
        later: list[tuple[RecoveryResult, Facts, CountRecords | StartAt]],
    ) -> None:
        request = result.request
        remembered = answers.remembered
        facts = Facts(
            offset_pairs=request.offset_pairs,
            mm2_position=request.mm2_position,
            source_start=answers.source_start,
            source_end=answers.source_end,
            target_start=answers.target_start,
            target_end=answers.target_end,
            reset=self._policy.reset,
            expects_foreign=self._policy.expects_foreign,
            refill=self._policy.refill,
            recreated=_differs(request.topic_id, result.topic_id),
            remote_recreated=_differs(request.remote_id, result.remote_id),
            truncated_at=request.truncated_at,
            tail=request.tail,
            sync=request.sync,
            remembered=Producer(remembered.id, remembered.epoch, next_sequence(remembered.last_sequence, 1))
            if remembered
            else None,
            source_log_end=answers.source_log_end,
        )
        result.producer_known_until_ms = remembered.last_timestamp + self.producer_retention_ms if remembered else 0.0
        if not request.positions_fresh and (facts.recreated or (not facts.offset_pairs and facts.target_end > 0)):
            # Another task may have noticed this earlier and stored a position; else everything would be copied again.
            _fail(result, f"{request.remote}: may have been written to since its position was read; reading it again")
            result.stale = True
            return
        decision = decide(facts)
        result.target_position = facts.target_end
        if isinstance(decision, CannotResume):
            _fail(result, f"{request.tp}: {decision.reason}", final=True)
            result.stale = not request.positions_fresh
        elif (
            isinstance(decision, CountRecords)
            or is_past_log_end(decision, facts)
            or _was_truncated(request, decision, facts)
        ):
            later.append((result, facts, decision))
        else:
            self._finish(result, facts, decision)

    def _read(self, lot: Sequence[tuple[RecoveryResult, Facts, CountRecords | StartAt]]) -> None:
        rules = self._policy.rules
        logs = Logs(
            LogReader(self._source, int(rules.read_committed)),
            LogReader(self._source),
            LogReader(self._target, READ_COMMITTED),
        )
        try:
            logs.target.read_ahead(
                {
                    result.request.remote: _first_read(decision, facts)
                    for result, facts, decision in lot
                    if facts.target_end
                }
            )
            logs.source.read_ahead(
                {
                    result.request.tp: max(decision.offset_pair.source, facts.source_start)
                    for result, facts, decision in lot
                    if isinstance(decision, CountRecords) and not decision.missing
                }
            )
        except KafkaError as error:
            for result, _, _ in lot:
                _fail(result, str(error), getattr(error, "code", 0))
            return
        unreachable: UnreachableError | None = None
        for result, facts, decision in lot:
            if unreachable is not None:  # all of them have the same leaders
                _fail(result, str(unreachable))
                continue
            try:
                with _assign_errors_to(result):
                    self._search(result, facts, decision, logs)
            except UnreachableError as error:
                _fail(result, str(error))
                unreachable = error

    def _search(self, result: RecoveryResult, facts: Facts, decision: CountRecords | StartAt, logs: Logs) -> None:
        request = result.request
        search = LogSearch(
            request.tp, request.remote, facts, self._policy.rules, logs, self._producers,
            is_compacted=lambda: self._is_compacted(request.tp.topic),
            expects_foreign=self._policy.expects_foreign, mm2_read_committed=self._policy.mm2_read_committed,
        )  # fmt: skip
        start = search.count_records(decision) if isinstance(decision, CountRecords) else decision
        newest = max((offset_pair.target for offset_pair in request.offset_pairs), default=facts.target_end)
        if newest > facts.target_end and start.problem is None:
            start = replace(start, problem=LogProblem.TARGET_LOST, amount=newest - facts.target_end)
        if start.problem not in NEW_EPOCH_PROBLEMS and (
            is_past_log_end(start, facts) or _was_truncated(request, start, facts)
        ):
            start = search.find_truncation(start)
        result.foreign, result.duplicates = search.foreign, search.duplicates
        self._finish(result, facts, start, search.producer)

    def _finish(self, result: RecoveryResult, facts: Facts, start: StartAt, in_log: Producer | None = None) -> None:
        """Determines the producer of the next record. `in_log`: the one after our last record in the log."""
        request = result.request
        start = clamp_to_log(start, facts)
        result.position, result.problem, result.amount = start.source, start.problem, start.amount
        tail = request.tail.producer if request.tail is not None and request.tail.producer.valid else None
        producer = facts.remembered or in_log or tail or Producer(self._producers[-1], 0, 0)
        if tail is not None and tail.id == producer.id and tail.epoch > producer.epoch:
            producer = tail  # its epoch was started, but none of its batches arrived
        altered = request.altered_pair is not None and request.altered_pair == (start.source, facts.target_end)
        refilled = start.problem is LogProblem.TARGET_LOST and (facts.remote_recreated or facts.target_end == 0)
        result.new_epoch = start.problem in NEW_EPOCH_PROBLEMS or altered or refilled or request.new_epoch
        result.producer = producer.with_new_epoch() if result.new_epoch else producer
        # A broker accepts a new epoch at any time, and a stored sequence number must be that of the record at
        # `target_position`, or the next recovery finds records missing. So in both cases no other batch may arrive.
        if not result.sequence_confirmed and (result.new_epoch or result.must_be_stored):
            _fail(result, f"{self._target.alias}: {request.remote}: records of this flow are still arriving; retrying")

    def _is_compacted(self, topic: str) -> bool:
        """False without the permission to describe the topic: then the partition stops where it could continue."""
        if topic not in self._compacted:
            found, _ = Admin(self._source).topic_configs([topic])
            policy = found.get(topic, {}).get("cleanup.policy")
            self._compacted[topic] = policy is not None and "compact" in (policy.value or "")
        return self._compacted[topic]


@contextlib.contextmanager
def _assign_errors_to(result: RecoveryResult) -> Iterator[None]:
    """Assigns an error to one partition, so that the others continue; but an unreachable leader concerns them all."""
    try:
        yield
    except UnreachableError:
        raise
    except KafkaError as error:
        _fail(result, str(error), getattr(error, "code", 0))
    except (ReplicationError, ValueError) as error:
        _fail(result, str(error), final=True)
        result.stale = not result.request.positions_fresh
    except Exception as error:  # noqa: BLE001
        _fail(result, f"{result.request.tp}: {type(error).__name__}: {error}")


def _was_truncated(request: RecoveryRequest, start: StartAt, facts: Facts) -> bool:
    """Whether the position was out of range for the leader, though retention has not reached it."""
    return request.out_of_range is not None and facts.truncated_at is None and start.source >= facts.source_start


def _first_read(decision: CountRecords | StartAt, facts: Facts) -> int:
    """The target offset that is read first."""
    if isinstance(decision, StartAt) or decision.missing or decision.count is not None:
        return facts.target_end - 1
    if decision.check is not None:
        return max(decision.check.target - 1, facts.target_start)
    return max(decision.offset_pair.target, facts.target_start)


def _differs(known: uuid.UUID, found: uuid.UUID) -> bool:
    return bool(known.int and found.int and known != found)


def _fail(result: RecoveryResult, reason: str, code: int = 0, *, final: bool = False) -> None:
    result.error, result.code, result.final = result.error or reason, result.code or code, final
