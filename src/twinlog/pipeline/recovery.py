"""Finds out where partitions go on: at a task's start, and after anything that went wrong with one.

The target is the truth. Its end, and the producer, epoch and sequence in its last batch, are read; the source is walked
from the newest anchor. Because the next batch carries the sequence that follows what was read, a broker refuses it if
anything else of ours got there in between: a late request of a killed task, of a task that slept, of a second Twinlog.
So the position is a compare-and-set, and a wrong guess costs another look, never a duplicate.
"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka.protocol.admin import DescribeProducersRequest

from twinlog.errors import ProtocolError, RefusedError, RelayError, UnreachableError
from twinlog.kafka import batch as b
from twinlog.kafka import codes
from twinlog.kafka.client import EARLIEST, LATEST, Client, Metadata
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import Part
from twinlog.kafka.records import decode
from twinlog.model import Anchor, TopicPartition
from twinlog.pipeline.lanes import Rules, cut
from twinlog.pipeline.partition import Partition
from twinlog.tracking.positions import Facts, Start, Stuck, Trouble, Walk, decide, within

_CHUNK: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes the next batch, and as which number of his."""

    id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Question:
    place: TopicPartition
    remote: TopicPartition
    anchors: tuple[Anchor, ...]
    mm2_offset: int | None
    topic_id: uuid.UUID  # that the anchors are about; 0: not known
    producer: Producer | None  # what comes after the newest anchor, if it is known
    had_cursor: bool  # whether we ever wrote to it
    truncated_at: int | None = None
    out_of_range: int | None = None  # the source offset that the leader does not have


@dataclass(slots=True)
class Finding:
    """Either a position, or why there is none (`error`), and whether time may heal it (`final` False)."""

    question: Question
    position: int = -1
    expected: int = -1
    producer: Producer | None = None
    topic_id: uuid.UUID = field(default=uuid.UUID(int=0))
    leader: int = -1
    leader_epoch: int = -1
    target_leader: int = -1
    source_start: int = -1
    source_end: int = -1
    trouble: Trouble | None = None
    amount: int = 0
    foreign: int = 0  # records in the remote topic, after the anchor, that we did not write
    error: str = ""
    code: int = 0
    final: bool = False


@dataclass(frozen=True, slots=True)
class Manner:
    """How the operator wants positions found."""

    reset: str = "earliest"
    rules: Rules = field(default_factory=Rules)


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
                finding.target_leader = leader
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
            recreated=bool(question.topic_id.int and finding.topic_id.int and question.topic_id != finding.topic_id),
            truncated_at=question.truncated_at,
        )
        decision = decide(facts)
        finding.expected = target_end
        producer = question.producer
        if isinstance(decision, Stuck):
            _fail(finding, f"{question.place}: {decision.reason}", final=True)
            return
        if isinstance(decision, Walk):
            producer = None
            decision = (
                self._back(finding, decision, facts) if decision.back else self._walk(finding, decision.anchor, facts)
            )
        elif question.anchors and max(question.anchors, key=lambda a: a.target).target != target_end:
            producer = None
        start = within(decision, facts)
        if (
            question.out_of_range is not None
            and start.trouble is None
            and start.source >= question.out_of_range > finding.source_end
        ):
            # The leader does not have our position, and has not lost its beginning: its end is gone.
            start = Start(finding.source_end, Trouble.TRUNCATED, question.out_of_range - finding.source_end)
        finding.position, finding.trouble, finding.amount = start.source, start.trouble, start.amount
        finding.producer = producer or self._producer(question, target_start, target_end)

    # Counting from an anchor

    def _walk(self, finding: Finding, anchor: Anchor, facts: Facts) -> Start:
        question = finding.question
        ours, others, newest = self._written(question.remote, anchor.target, facts)
        # Where nothing is ours, an earlier mirror (MM2) wrote it, and its syncs are the anchors: then all of it counts.
        count = ours or others
        finding.foreign = others if ours else 0
        if anchor.source < facts.source_start:
            return Start(anchor.source + count)  # it cannot be counted any more; `within` says what is lost
        position, last = self._count(question, anchor.source, count, finding.leader_epoch)
        if newest is not None and last is not None and newest != last:
            raise RelayError(
                f"{question.remote} on {self._target.alias} does not end with what {question.place} on "
                f"{self._source.alias} has before offset {position}: somebody else writes to it, or it was changed; "
                "see docs/guarantees.md"
            )
        return Start(position)

    def _back(self, finding: Finding, walk: Walk, facts: Facts) -> Start:
        """The target lost what it had acknowledged. Where nothing was left out, going back is counting back."""
        question = finding.question
        missing = walk.anchor.target - facts.target_end
        position = walk.anchor.source - missing
        if position < facts.source_start:
            return Start(position, None, 0)
        newest = self._last_record(question.remote, facts.target_end)
        _, last = (
            self._count(question, position - 1, 1, finding.leader_epoch) if position > facts.source_start else (0, None)
        )
        if newest is None or last is None or newest != last:
            raise RelayError(
                f"{question.remote} on {self._target.alias} ends at {facts.target_end}, below {walk.anchor.target}, "
                f"which it had acknowledged, and does not end with what the source has before offset {position}: "
                "see docs/guarantees.md"
            )
        return Start(position, Trouble.TARGET_LOST, missing)

    def _count(
        self, question: Question, start: int, count: int, epoch: int
    ) -> tuple[int, tuple[bytes | None, ...] | None]:
        """The source offset after `count` records from `start`, and the last of them."""
        scout = Partition(question.place, question.remote, leader_epoch=epoch, fetched=start, acked=start)
        deadline = time.monotonic() + 30
        while True:
            answer = self._source.read(
                question.place,
                scout.fetched,
                max_bytes=_CHUNK,
                wait_ms=100,
                isolation=int(self._manner.rules.read_committed),
            )
            if answer.error_code:
                raise RefusedError(f"{question.place}: {codes.name(answer.error_code)}", answer.error_code)
            data = bytearray(answer.records or b"")
            aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
            part = Part(question.place, 0, 0, 0, 0, aborted, -1, memoryview(data), None)
            for piece in cut(scout, part, Buffer(data, len(data), None), self._manner.rules):
                if piece.count < count:
                    count -= piece.count
                    continue
                records = decode(piece.view) if piece.count else []
                offset = piece.offsets[count - 1] if piece.offsets else piece.first + count - 1
                record = records[count - 1]
                return offset + 1, (record.key, record.value, repr(record.headers).encode())
            if not data and time.monotonic() > deadline:
                raise RelayError(
                    f"{question.remote} on {self._target.alias} holds {count} records more than {question.place} on "
                    f"{self._source.alias} has: see docs/guarantees.md"
                )

    def _written(
        self, remote: TopicPartition, start: int, facts: Facts
    ) -> tuple[int, int, tuple[bytes | None, ...] | None]:
        """From `start` to the remote partition's end: records of ours, of others, and the last of ours (or of all)."""
        at = max(start, facts.target_start)
        ours = at - start if at > start else 0  # what retention took from the target was ours, as far as anyone knows
        others = 0
        newest: memoryview | None = None
        newest_other: memoryview | None = None
        while at < facts.target_end:
            answer = self._target.read(remote, at, max_bytes=_CHUNK)
            if answer.error_code:
                raise RefusedError(
                    f"{self._target.alias}: {remote}: {codes.name(answer.error_code)}", answer.error_code
                )
            before = at
            for view, header in _batches(memoryview(bytes(answer.records or b""))):
                last = min(header[0] + header[6], facts.target_end - 1)
                if last < at:
                    continue
                if header[9] in self._producers:
                    ours, newest = ours + last + 1 - at, view
                else:
                    others, newest_other = others + last + 1 - at, view
                at = last + 1
            if at == before:
                raise UnreachableError(
                    f"{self._target.alias}: {remote}: nothing to read at {at}, though it ends at {facts.target_end}"
                )
        view_of_last = newest if ours else newest_other
        return ours, others, _key_value(view_of_last)

    def _last_record(self, remote: TopicPartition, end: int) -> tuple[bytes | None, ...] | None:
        view = self._tail(remote, end)
        return _key_value(view)

    def _tail(self, remote: TopicPartition, end: int) -> memoryview | None:
        """The batch that holds the last record."""
        answer = self._target.read(remote, end - 1, max_bytes=_CHUNK)
        if answer.error_code:
            raise RefusedError(f"{self._target.alias}: {remote}: {codes.name(answer.error_code)}", answer.error_code)
        for view, header in _batches(memoryview(bytes(answer.records or b""))):
            last = header[0] + header[6]
            if last == end - 1:
                return view
            if last >= end:  # it grew since its end was asked for; what is beyond must not be taken for known
                raise UnreachableError(f"{self._target.alias}: {remote} is being written to by somebody else")
        return None

    # Whose batch comes next

    def _producer(self, question: Question, target_start: int, target_end: int) -> Producer:
        mine = self._producers[-1]
        if target_end == 0 or (not question.had_cursor and not question.anchors):
            return Producer(mine, 0, 0)
        if target_end > target_start and (view := self._tail(question.remote, target_end)) is not None:
            header = b.HEADER.unpack_from(view)
            if header[9] in self._producers:
                return Producer(header[9], header[10], b.next_sequence(header[11], header[6] + 1))
        if not question.had_cursor:
            return Producer(mine, 0, 0)  # never used here
        return self._remembered(question.remote)

    def _remembered(self, remote: TopicPartition) -> Producer:
        """Somebody else wrote last: the broker itself knows our last number."""
        kind = DescribeProducersRequest
        request = kind(topics=[kind.TopicRequest(name=remote.topic, partition_indexes=[remote.partition])])
        answer = self._target.ask(request, self._target.leader(remote))
        part = answer.topics[0].partitions[0]
        if part.error_code:
            raise RefusedError(f"{self._target.alias}: {remote}: {codes.name(part.error_code)}", part.error_code)
        for state in part.active_producers:
            if state.producer_id in self._producers:
                return Producer(state.producer_id, state.producer_epoch, b.next_sequence(state.last_sequence, 1))
        return Producer(self._producers[-1], 0, 0)


def _fail(finding: Finding, reason: str, code: int = 0, *, final: bool = False) -> None:
    finding.error, finding.code, finding.final = finding.error or reason, finding.code or code, final


def _batches(records: memoryview) -> list[tuple[memoryview, tuple[int, ...]]]:
    """The whole batches (magic 2: a target stores no other)."""
    found = []
    at = 0
    while len(records) - at >= b.HEADER.size:
        header = b.HEADER.unpack_from(records, at)
        end = at + b.LOG_OVERHEAD + header[1]
        if end > len(records) or header[1] <= 0:
            break
        found.append((records[at:end], header))
        at = end
    return found


def _key_value(view: memoryview | None) -> tuple[bytes | None, ...] | None:
    """The last record, without its time: the target may have put its own."""
    if view is None:
        return None
    records = decode(view)
    header = b.HEADER.unpack_from(view)
    if not records or records[-1].offset != header[0] + header[6]:
        return None  # compaction took it
    return records[-1].key, records[-1].value, repr(records[-1].headers).encode()
