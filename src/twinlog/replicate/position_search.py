"""Finds a partition's position in the logs of both clusters: by counting from an offset pair, or, where that proves
nothing, by comparing records.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from twinlog.errors import ReplicationError, UnsettledError
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.convert_batches import ConversionRules
from twinlog.replicate.log_matching import Match, newest_common
from twinlog.replicate.log_reader import LoggedRecord, LogReader, SourceLog, TargetLog
from twinlog.replicate.resume_decision import CountRecords, Facts, LogProblem, Producer, StartAt

_MARGIN: Final = 1000  # records compared in addition to the necessary ones
_MAX_COMPARED: Final = 200_000  # records compared at most: each takes a few hundred bytes


class Logs(NamedTuple):
    source: LogReader  # with the isolation level used for copying
    uncommitted: LogReader  # the source with open and aborted transactions
    target: LogReader


class LogSearch:
    """For one partition. `foreign` and `duplicates` are the numbers of such records found."""

    def __init__(
        self,
        tp: TopicPartition,
        remote: TopicPartition,
        facts: Facts,
        rules: ConversionRules,
        logs: Logs,
        producers: Sequence[int],
        *,
        is_compacted: Callable[[], bool],
        expects_foreign: bool,
        mm2_read_committed: bool,
    ) -> None:
        self._tp, self._remote = tp, remote
        self._facts = facts
        self._rules = rules
        self._logs = logs
        self._target = TargetLog(
            logs.target, remote, producers, facts.target_start, facts.target_end, waits=not expects_foreign
        )
        self._is_compacted = is_compacted
        self._expects_foreign = expects_foreign
        self._mm2_read_committed = mm2_read_committed
        self.foreign = 0
        self.duplicates = 0
        self.producer: Producer | None = None  # of our next record, according to the log

    def count_records(self, step: CountRecords) -> StartAt:
        if step.missing:
            return self._after_target_loss(step.offset_pair, step.missing)
        if step.check is not None and not self._target.ends_with(step.check):
            # Others wrote past the end of our records, so the offsets look right; but ours are gone.
            return self._after_target_loss(step.check.offset_pair, 0)
        if step.check is not None and step.offset_pair.target == self._facts.target_end:
            return StartAt(step.offset_pair.source)
        if step.count is not None and not step.others:
            return self._by_count(step.offset_pair, step.count, 0, self._target.last())
        tail = self._facts.tail
        since = tail.producer if tail is not None and tail.offset_pair == step.offset_pair else None
        proven = since is not None and (step.check is not None or step.count == 0)  # our records end at the tail
        ours, others, newest, trimmed, self.producer = self._target.written(
            step.offset_pair.target, since, ours_known=step.count is not None or proven
        )
        if proven and not ours and not trimmed:
            self.foreign = others
            return StartAt(step.offset_pair.source)
        if trimmed and step.count is not None:
            ours, others = step.count, step.others  # retention deleted some, but sequence numbers prove these counts
        if trimmed and not (ours or others):
            # Their producer is unknown. Copying twice is better than not copying.
            self.duplicates = trimmed
            return StartAt(max(step.offset_pair.source, self._facts.mm2_position or 0))
        return self._by_count(step.offset_pair, ours, others, newest)

    def find_truncation(self, start: StartAt) -> StartAt:
        """The source's leader does not have the position: its log was truncated, perhaps rewritten since, or the topic
        re-created. Resumes after the newest record of the target that it still has.
        """
        facts = self._facts
        end = start.source if facts.source_log_end is None else min(facts.source_log_end, start.source)
        few = min(start.source - end + _MARGIN, _MAX_COMPARED)
        ours = self._target.newest_ours(few, _MAX_COMPARED)
        target_records = ours or list(self._target.records(max(facts.target_start, facts.target_end - few), ours=None))
        begin = max(facts.source_start, end - len(target_records) - _MARGIN)
        source_records = list(islice(self._source().records(begin), _MAX_COMPARED))
        match = _newest_common(target_records, source_records)
        if match is None and ours and source_records:
            raise ReplicationError(
                f"{self._logs.source.alias}: {self._tp} ends at {end}, before the copied position {start.source}, and "
                f"its last records are not in {self._remote}; see docs/guarantees.md"
            )
        if match is None:
            return StartAt(facts.source_end if facts.reset == "latest" else facts.source_start, LogProblem.RECREATED)
        position = source_records[match.at][0] + 1
        if position >= start.source and not match.unmatched:
            return start
        self.duplicates = match.ambiguous
        return StartAt(position, LogProblem.TRUNCATED, max(start.source - position, match.unmatched))

    def _by_count(self, offset_pair: OffsetPair, ours: int, others: int, newest: LoggedRecord | None) -> StartAt:
        """`newest`: our last record on the target, or the last of all if none is ours; None: deleted."""
        # If none is ours, MM2 wrote them, and the offset pairs are its syncs: then all of them count.
        count = ours or others
        if not count:
            return StartAt(offset_pair.source)  # only aborted records and transaction markers follow
        ended = False
        if offset_pair.source >= self._facts.source_start:
            position, last, left = self._counting_source(mm2=not ours).count(offset_pair.source, count)
            # Records that others merged into the topic could end with the same record by chance: compare them all.
            sure = bool(ours) or not self._expects_foreign
            if not left and sure and (newest is None or last is None or newest.same(last)):
                self.foreign = others if ours else 0
                return StartAt(position)
            ended = bool(left)
            if ended and ours and (self._facts.source_log_end or 0) > self._facts.source_end:
                # It may just not be readable yet: a new leader does not know its high watermark at first.
                raise UnsettledError(
                    f"{self._logs.source.alias}: {self._tp}: high watermark behind the log end; retrying"
                )
        # Records were deleted at the source since, or skipped, or are not from a mirror at all.
        return self._by_comparison(offset_pair, ours, others, ended=ended)

    def _counting_source(self, *, mm2: bool) -> SourceLog:
        """MM2 copies uncommitted records by default, so it may be past the last stable offset."""
        if mm2 and self._rules.read_committed and not self._mm2_read_committed:
            return self._uncommitted()
        return self._source()

    def _by_comparison(self, offset_pair: OffsetPair, ours: int, others: int, *, ended: bool) -> StartAt:
        """Resumes after the newest record that both have. `ended`: the source has fewer records than the target."""
        facts = self._facts
        count = ours or others
        target_records = list(deque(self._target.records(offset_pair.target, ours=bool(ours)), maxlen=_MAX_COMPARED))
        begin = max(offset_pair.source, facts.source_start)
        window = 2 * max(count, facts.target_end - offset_pair.target) + _MARGIN
        source_records = list(
            deque(islice(self._counting_source(mm2=not ours).records(begin), window), maxlen=2 * _MAX_COMPARED)
        )
        match = _newest_common(target_records, source_records)
        self.duplicates = match.ambiguous if match else 0
        position = source_records[match.at][0] + 1 if match else begin
        matched = len(target_records) - match.unmatched if match else 0
        if not ours:
            if (
                match is None
                and offset_pair == facts.sync
                and target_records
                and source_records
                and source_records[0][0] == offset_pair.source
            ):
                # According to the offset sync the first records of both are the same.
                return self._after_target_loss(offset_pair, 0)
            # Records that MM2 copied are at the source, those of other producers are not.
            self.foreign = max(len(target_records) - (match.at + 1 if match else 0), 0)
            return StartAt(position if match else offset_pair.source)
        self.foreign = others
        if offset_pair.source < facts.source_start and match is None:
            return StartAt(min(offset_pair.source + count, facts.source_start))  # all copied records have been deleted
        if self._compacted_away(target_records[matched:], [record for at, record in source_records if at >= position]):
            return StartAt(position)
        if ended or facts.truncated_at is not None:
            return StartAt(position, LogProblem.TRUNCATED, len(target_records) - matched)
        raise ReplicationError(
            f"{self._logs.target.alias}: {self._remote} does not end with the records of {self._tp} before offset "
            f"{position}: another producer writes to it, or it was changed; see docs/guarantees.md"
        )

    def _compacted_away(self, missing: Sequence[LoggedRecord], later: Sequence[LoggedRecord]) -> bool:
        """Whether compaction removed these from the source: it does if a later record has the same key."""
        if not missing:
            return True
        keys = {record.key for record in later if record.keyed}
        return (
            all(record.keyed and (record.key in keys or record.tombstone) for record in missing)
            and self._is_compacted()
        )

    def _after_target_loss(self, offset_pair: OffsetPair, missing: int) -> StartAt:
        """The target has lost acknowledged records: resumes after the newest of ours that is left.

        `missing` 0: unknown how many.
        """
        facts = self._facts
        target_records = self._target.newest_ours(_MARGIN, _MAX_COMPARED) or list(
            self._target.records(max(facts.target_start, facts.target_end - _MARGIN), ours=None)
        )
        begin = max(
            offset_pair.source - min(2 * missing or _MAX_COMPARED, _MAX_COMPARED) - 2 * _MARGIN, facts.source_start
        )
        end = min(offset_pair.source, facts.source_end)
        source_records = list(SourceLog(self._logs.source, self._tp, self._rules, end).records(begin))
        match = _newest_common(target_records, source_records)
        if match is None or match.unmatched:
            raise ReplicationError(
                f"{self._logs.target.alias}: {self._remote} has lost acknowledged records before offset "
                f"{offset_pair.target}, and its last record is not in {self._tp} before offset {offset_pair.source}; "
                "see docs/guarantees.md"
            )
        self.duplicates = match.ambiguous
        position = source_records[match.at][0] + 1
        return StartAt(position, LogProblem.TARGET_LOST, missing or offset_pair.source - position)

    def _source(self) -> SourceLog:
        """Up to its current end, or to where it was truncated."""
        facts = self._facts
        end = facts.source_end if facts.truncated_at is None else min(facts.truncated_at, facts.source_end)
        return SourceLog(self._logs.source, self._tp, self._rules, end)

    def _uncommitted(self) -> SourceLog:
        facts = self._facts
        end = facts.source_end if facts.source_log_end is None else facts.source_log_end
        end = end if facts.truncated_at is None else min(facts.truncated_at, end)
        return SourceLog(self._logs.uncommitted, self._tp, replace(self._rules, read_committed=False), end)


def _newest_common(
    target_records: Sequence[LoggedRecord], source_records: Sequence[tuple[int, LoggedRecord]]
) -> Match | None:
    """Timestamps are compared only if both logs have CreateTime."""
    create_time = all(record.create_time for record in target_records) and all(
        record.create_time for _, record in source_records
    )
    return newest_common(
        [r.identity(create_time) for r in target_records], [r.identity(create_time) for _, r in source_records]
    )
