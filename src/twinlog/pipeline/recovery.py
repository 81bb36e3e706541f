"""Finds out where partitions go on: at a task's start, and after anything that went wrong with one.

The target is the truth. Its end, and the producer, epoch and sequence in its last batch, are read; the source is walked
from the newest anchor. Because the next batch carries the sequence that follows what was read, a broker refuses it if
anything else of ours got there in between: a late request of a killed task, of a task that slept, of a second Twinlog.
So the position is a compare-and-set, and a wrong guess costs another look, never a duplicate.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from kafka.protocol.admin import DescribeProducersRequest

from twinlog.errors import ProtocolError, RefusedError, RelayError, UnreachableError
from twinlog.kafka import batch as b
from twinlog.kafka import codes
from twinlog.kafka.answers import first
from twinlog.kafka.client import EARLIEST, LATEST, Client, Metadata
from twinlog.model import Anchor, TopicPartition
from twinlog.pipeline.lanes import Rules
from twinlog.pipeline.logs import Seen, SourceLog, TargetLog
from twinlog.tracking.matching import Match, newest_common
from twinlog.tracking.positions import Facts, Start, Stuck, Trouble, Walk, decide, within

_MORE: Final = 1000  # records that are compared beyond those that should be enough


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes the next batch, and as which number of his."""

    id: int
    epoch: int
    sequence: int

    def __post_init__(self) -> None:
        if self.id < -1 or not -1 <= self.epoch < 1 << 15 or not -1 <= self.sequence < 1 << 31:
            raise ValueError(f"a batch of producer {self.id}, epoch {self.epoch}, before number {self.sequence}")


_NOBODY: Final = Producer(-1, -1, -1)


@dataclass(frozen=True, slots=True)
class Question:
    place: TopicPartition
    remote: TopicPartition
    anchors: tuple[Anchor, ...]
    mm2_offset: int | None
    topic_id: uuid.UUID  # that the anchors are about; 0: not known
    remote_id: uuid.UUID
    producer: Producer | None  # what comes after the newest anchor, if it is known
    had_cursor: bool  # whether we ever wrote to it
    fresh: bool = False  # the anchors were read just now, so there is nothing to be had from reading them again
    truncated_at: int | None = None
    out_of_range: int | None = None  # the source offset that the leader does not have


@dataclass(slots=True)
class Finding:
    """Either a position, or why there is none (`error`), and whether time may heal it (`final` False)."""

    question: Question
    position: int = -1
    expected: int = -1
    producer: Producer | None = None
    proven: bool = True  # the broker knows the producer, and so would refuse a number that does not follow
    topic_id: uuid.UUID = field(default=uuid.UUID(int=0))
    remote_id: uuid.UUID = field(default=uuid.UUID(int=0))
    leader: int = -1
    leader_epoch: int = -1
    target_leader: int = -1
    source_start: int = -1
    source_end: int = -1
    trouble: Trouble | None = None
    amount: int = 0
    foreign: int = 0  # records in the remote topic, after the anchor, that we did not write
    duplicates: int = 0  # records that may be there already
    error: str = ""
    code: int = 0
    final: bool = False
    stale: bool = False  # the anchors do not fit what the target holds: somebody else has been at work since


@dataclass(frozen=True, slots=True)
class Manner:
    """How the operator wants positions found."""

    reset: str = "earliest"
    rules: Rules = field(default_factory=Rules)
    merges: bool = False  # others write to the remote topics by right


class Recovery:
    """Belongs to one thread, as its clients do."""

    def __init__(self, source: Client, target: Client, producers: Sequence[int], manner: Manner) -> None:
        self._source = source
        self._target = target
        self._producers = list(producers)  # ours, newest last
        self._manner = manner

    def find(self, questions: Sequence[Question]) -> tuple[list[Finding], Metadata, Metadata]:
        """A finding for each question, and what was learned of the brokers. Raises when a whole cluster is away."""
        upstream = self._source.metadata(sorted({q.place.topic for q in questions}))
        downstream = self._target.metadata(sorted({q.remote.topic for q in questions}))
        findings = [self._leaders(q, upstream, downstream) for q in questions]
        good = [f for f in findings if not f.error]
        places = [f.question.place for f in good]
        remotes = [f.question.remote for f in good]
        starts, no_start = self._source.list_offsets(places, EARLIEST)
        ends, no_end = self._source.list_offsets(places, LATEST, int(self._manner.rules.read_committed))
        begins, no_begin = self._target.list_offsets(remotes, EARLIEST)
        reached, no_reach = self._target.list_offsets(remotes, LATEST)
        for finding in good:
            place, remote = finding.question.place, finding.question.remote
            code = no_start.get(place) or no_end.get(place)
            if code:
                _fail(finding, f"{self._source.alias}: {place}: {codes.name(code)}", code)
                continue
            if code := no_begin.get(remote) or no_reach.get(remote):
                _fail(finding, f"{self._target.alias}: {remote}: {codes.name(code)}", code)
                continue
            finding.source_start, finding.source_end = starts[place], ends[place]
            try:
                self._position(finding, begins[remote], reached[remote])
            except (UnreachableError, RefusedError, ProtocolError) as error:
                _fail(finding, str(error), getattr(error, "code", 0))
            except (RelayError, ValueError) as error:
                _fail(finding, str(error), final=True)
                finding.stale = not finding.question.fresh
            except Exception as error:  # noqa: BLE001  # what an answer for one partition does must not keep the others
                _fail(finding, f"{place}: {type(error).__name__}: {error}")
        return findings, upstream, downstream

    def _leaders(self, question: Question, upstream: Metadata, downstream: Metadata) -> Finding:
        finding = Finding(question)
        for alias, place, metadata in (
            (self._source.alias, question.place, upstream),
            (self._target.alias, question.remote, downstream),
        ):
            info = metadata.topics.get(place.topic)
            code = info.error if info else codes.UNKNOWN_TOPIC_OR_PARTITION
            leader, epoch = info.leaders.get(place.partition, (-1, -1)) if info else (-1, -1)
            if code or info is None or place.partition not in info.leaders:
                code = code or codes.UNKNOWN_TOPIC_OR_PARTITION
                _fail(finding, f"{alias}: {place}: {codes.name(code)}", code)
            elif leader < 0:
                _fail(finding, f"{alias}: {place} has no leader", 5)
            elif place is question.place:
                finding.topic_id, finding.leader, finding.leader_epoch = info.id, leader, epoch
            else:
                finding.remote_id, finding.target_leader = info.id, leader
        return finding

    def _position(self, finding: Finding, target_start: int, target_end: int) -> None:
        question = finding.question
        facts = Facts(
            anchors=question.anchors,
            mm2_offset=question.mm2_offset,
            source_start=finding.source_start,
            source_end=finding.source_end,
            target_start=target_start,
            target_end=target_end,
            reset=self._manner.reset,
            merges=self._manner.merges,
            recreated=_another(question.topic_id, finding.topic_id),
            remote_recreated=_another(question.remote_id, finding.remote_id),
            truncated_at=question.truncated_at,
        )
        if not question.fresh and (facts.recreated or (not facts.anchors and target_end > 0)):
            # Somebody who has seen the same before us has written down from where; we would write everything again.
            _fail(finding, f"{question.remote} may have been written to since its position was read")
            finding.stale = True
            return
        decision = decide(facts)
        finding.expected = target_end
        producer = question.producer
        newest = max((anchor.target for anchor in question.anchors), default=target_end)
        if isinstance(decision, Stuck):
            _fail(finding, f"{question.place}: {decision.reason}", final=True)
            return
        if newest != target_end or facts.remote_recreated:
            producer = None
        if isinstance(decision, Walk):
            decision = (
                self._back(finding, decision, facts) if decision.back else self._walk(finding, decision.anchor, facts)
            )
            if newest > target_end and decision.trouble is None:
                decision = replace(decision, trouble=Trouble.TARGET_LOST, amount=newest - target_end)
        start = within(decision, facts)
        if (
            question.out_of_range is not None
            and start.trouble is None
            and start.source >= question.out_of_range > finding.source_end
        ):
            # The leader does not have our position, and has not lost its beginning: its end is gone.
            start = Start(finding.source_end, Trouble.TRUNCATED, question.out_of_range - finding.source_end)
        finding.position, finding.trouble, finding.amount = start.source, start.trouble, start.amount
        if producer is None:
            producer = self._producer(question, facts)
            finding.proven = producer.id >= 0
            finding.producer = producer if finding.proven else Producer(self._producers[-1], 0, 0)
        else:
            finding.producer, finding.proven = producer, True

    # Counting from an anchor

    def _walk(self, finding: Finding, anchor: Anchor, facts: Facts) -> Start:
        question = finding.question
        ours, others, newest = self._target_log(question, facts).written(anchor.target)
        # Where nothing is ours, an earlier mirror (MM2) wrote it, and its syncs are the anchors: then all of it counts.
        count = ours or others
        ended = False
        if anchor.source >= facts.source_start:
            position, last, left = self._source_log(question, facts).count(anchor.source, count)
            # What others merged into it could by chance end as we would: that is looked at record by record.
            sure = bool(ours) or not self._manner.merges
            if not left and sure and (newest is None or last is None or newest.same(last)):
                finding.foreign = others if ours else 0
                return Start(position)
            ended = bool(left)
        # Something was taken away from the source since, or left out on the way, or is not a mirror's at all.
        return self._compared(finding, anchor, facts, ours=ours, others=others, ended=ended)

    def _compared(
        self, finding: Finding, anchor: Anchor, facts: Facts, *, ours: int, others: int, ended: bool
    ) -> Start:
        """The newest record that both sides have says where to go on. `ended`: the source has fewer than the target."""
        question = finding.question
        count = ours or others
        there = list(self._target_log(question, facts).records(anchor.target, ours=bool(ours)))
        begin = max(anchor.source, facts.source_start)
        here = list(islice(self._source_log(question, facts).records(begin), 2 * count + _MORE))
        match = _newest_common(there, here)
        finding.duplicates = match.likes if match else 0
        position = here[match.at][0] + 1 if match else begin
        behind = len(there) - match.behind if match else 0
        if not ours:
            # What an earlier mirror copied is at the source, what somebody else wrote is not.
            finding.foreign = max(len(there) - (match.at + 1 if match else 0), 0)
            return Start(position if match else anchor.source)
        finding.foreign = others
        later = {record.key for at, record in here if at >= position}
        if all(record.key in later or record.gone for record in there[behind:]):
            return Start(position)  # a later record of the same key is why the cleaner took them
        if anchor.source < facts.source_start and match is None:
            return Start(min(anchor.source + count, facts.source_start))  # all that was copied is gone by now
        if ended or facts.truncated_at is not None:
            return Start(position, Trouble.TRUNCATED, len(there) - behind)
        raise RelayError(
            f"{question.remote} on {self._target.alias} does not end with what {question.place} on "
            f"{self._source.alias} has before offset {position}: somebody else writes to it, or it was changed; "
            "see docs/guarantees.md"
        )

    def _back(self, finding: Finding, walk: Walk, facts: Facts) -> Start:
        """The target lost what it had acknowledged, and no anchor is old enough to count from: compare."""
        question = finding.question
        missing = walk.anchor.target - facts.target_end
        tail = max(facts.target_start, facts.target_end - _MORE)
        there = list(self._target_log(question, facts).records(tail, ours=None))
        begin = max(walk.anchor.source - 2 * (missing + _MORE), facts.source_start)
        upto = replace(facts, source_end=min(walk.anchor.source, facts.source_end))
        here = list(self._source_log(question, upto).records(begin))
        match = _newest_common(there, here)
        if match is None or match.behind:
            raise RelayError(
                f"{question.remote} on {self._target.alias} ends at {facts.target_end}, below {walk.anchor.target}, "
                f"which it had acknowledged, and its last record is not at the source before offset "
                f"{walk.anchor.source}: see docs/guarantees.md"
            )
        finding.duplicates = match.likes
        return Start(here[match.at][0] + 1, Trouble.TARGET_LOST, missing)

    def _source_log(self, question: Question, facts: Facts) -> SourceLog:
        """To the end that the source has now, or to where its log was cut off."""
        end = facts.source_end if facts.truncated_at is None else min(facts.truncated_at, facts.source_end)
        return SourceLog(self._source, question.place, self._manner.rules, end)

    def _target_log(self, question: Question, facts: Facts) -> TargetLog:
        return TargetLog(self._target, question.remote, self._producers, facts.target_start, facts.target_end)

    # Whose batch comes next

    def _producer(self, question: Question, facts: Facts) -> Producer:
        """_NOBODY: we never wrote here, as far as the broker knows."""
        if facts.target_end == 0:
            return _NOBODY
        held = facts.target_end > facts.target_start
        if held and (view := self._target_log(question, facts).tail()) is not None:
            header = b.HEADER.unpack_from(view)
            if header[9] in self._producers:
                return Producer(header[9], header[10], b.next_sequence(header[11], header[6] + 1))
        if not question.had_cursor:
            return _NOBODY
        return self._remembered(question.remote)

    def _remembered(self, remote: TopicPartition) -> Producer:
        """Somebody else wrote last: the broker itself knows our last number."""
        kind = DescribeProducersRequest
        request = kind(topics=[kind.TopicRequest(name=remote.topic, partition_indexes=[remote.partition])])
        answer = self._target.ask(request, self._target.leader(remote))
        part = first(first(answer.topics).partitions)
        if part.error_code:
            raise RefusedError(f"{self._target.alias}: {remote}: {codes.name(part.error_code)}", part.error_code)
        states = {state.producer_id: state for state in part.active_producers}
        for ours in reversed(self._producers):
            if (state := states.get(ours)) is not None:
                return Producer(ours, state.producer_epoch, b.next_sequence(state.last_sequence, 1))
        return _NOBODY


def _another(known: uuid.UUID, found: uuid.UUID) -> bool:
    return bool(known.int and found.int and known != found)


def _newest_common(there: Sequence[Seen], here: Sequence[tuple[int, Seen]]) -> Match | None:
    """Times are compared only where both sides have the producers' own."""
    timed = all(record.timed for record in there) and all(record.timed for _, record in here)
    return newest_common([r.identity(timed) for r in there], [r.identity(timed) for _, r in here])


def _fail(finding: Finding, reason: str, code: int = 0, *, final: bool = False) -> None:
    finding.error, finding.code, finding.final = finding.error or reason, finding.code or code, final
