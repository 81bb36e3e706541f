"""State of one replicated partition: its positions on the source and the target, and the batches in between."""

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from twinlog.kafka.batch import next_sequence
from twinlog.kafka.connection import Buffer
from twinlog.mm2.offset_syncs import SyncGate
from twinlog.model import OffsetPair, TopicPartition
from twinlog.replicate.resume_decision import Tail

NO_ID: Final = uuid.UUID(int=0)


class State(StrEnum):
    RECOVERING = "recovering"  # its position is being determined, or a broker is unavailable
    RUNNING = "running"
    STOPPED = "stopped"  # needs the operator; `error` gives the reason and the remedy
    DONE = "done"  # --once: everything requested has been copied


class OutboundBatch:
    """One batch for the target, with the source offsets that it covers."""

    __slots__ = (
        "attributes",
        "buffer",
        "count",
        "first",
        "last",
        "max_timestamp",
        "next_offset",
        "offsets",
        "rebuilt",
        "view",
    )

    def __init__(
        self,
        view: memoryview,
        buffer: Buffer | None,
        first: int,
        last: int,
        count: int,
        max_timestamp: int,
        attributes: int,
        *,
        rebuilt: bool = False,
        offsets: Sequence[int] | None = None,
    ) -> None:
        self.view = view
        self.buffer = buffer  # which holds `view`; None: the batch owns its memory
        self.first = first
        self.last = last
        self.next_offset = last + 1  # source position after it; larger if the offsets after `last` are not copied
        self.count = count
        self.max_timestamp = max_timestamp
        self.attributes = attributes
        self.rebuilt = rebuilt
        self.offsets = offsets  # of its records, where they have gaps

    def release(self) -> None:
        if self.buffer is not None:
            self.buffer.release()
            self.buffer = None

    def detach(self) -> None:
        """Copies the batch out of a buffer that is at least twice as large, so that the buffer can be reused."""
        if self.buffer is not None and len(self.view) * 2 <= len(self.buffer.memory):
            self.view = memoryview(bytearray(self.view))
            self.release()


@dataclass(slots=True)
class Counters:
    """Since the task started. `lost` to `skipped` should stay 0; each increase is reported in an event."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    rebuilt: int = 0  # batches that could not be forwarded as they were
    lost: int = 0  # source offsets deleted before they were copied
    foreign: int = 0  # records in the remote topic written by other producers
    duplicates: int = 0  # records that may have been copied twice
    skipped: int = 0  # records refused by the target (errors.tolerance = all)
    recoveries: int = 0
    stalls: int = 0  # times without progress for no known reason
    source_throttled_ms: int = 0  # by a quota while there were records to copy; likewise on the target
    target_throttled_ms: int = 0


class PendingBytes:
    """Bytes fetched and not yet acknowledged, by target broker.

    Each broker may use as much as is left of `limit`: a single slow one gets half of it, two get a third each, so there
    is always memory for those that are not slow.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.saturated: set[int] = set()  # brokers for which nothing more is fetched
        self._by_broker: dict[int, int] = {}

    def add(self, node: int, size: int) -> None:
        self._by_broker[node] = self._by_broker.get(node, 0) + size
        self.total += size

    def remove(self, node: int, size: int) -> None:
        self._by_broker[node] = self._by_broker.get(node, 0) - size
        self.total -= size

    def is_saturated(self, node: int) -> bool:
        """Whether nothing more may be fetched for the broker. Stays so until `frees_up` is true."""
        if self._by_broker.get(node, 0) > max(self.limit - self.total, 0):
            self.saturated.add(node)
        return node in self.saturated

    def frees_up(self, node: int) -> bool:
        if self._by_broker.get(node, 0) * 2 > max(self.limit - self.total, 0):
            return False
        self.saturated.discard(node)
        return True


@dataclass(slots=True, eq=False)
class SourceSide:
    """What is fetched. Written by the source fetcher, by the conversion of what it fetched, and by resume.py."""

    topic_id: uuid.UUID = NO_ID
    leader: int = -1
    leader_epoch: int = -1
    replica: int = -1  # follower to fetch from, if the leader named one
    position: int = -1  # next offset to fetch
    requested_position: int = -1  # in the newest fetch request; responses for other offsets are ignored
    last_fetched_epoch: int = -1  # leader epoch of the last fetched batch
    # Leader epochs, with the first offset fetched of each
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = -1
    last_stable: int = -1  # first offset of the oldest open transaction; else the high watermark
    log_start: int = -1
    bytes_per_offset: float = 0.0  # average of what was fetched last
    paused: bool = False  # not fetched until the target has acknowledged some of the pending bytes

    @property
    def node(self) -> int:
        """The broker to fetch from."""
        return self.replica if self.replica >= 0 else self.leader


@dataclass(slots=True, eq=False)
class BatchLimits:
    """Found when the target refused a batch. Written by refused_records.py."""

    max_batch_bytes: int = 0  # 0: no limit known
    single_records_until: int = -1  # up to this offset records are sent one by one, to find the refused one
    skip_offsets: frozenset[int] = frozenset()

    def apply_from(self, position: int) -> bool:
        """Whether any batch from this source offset on may have to be rebuilt."""
        return bool(self.max_batch_bytes or self.skip_offsets) or self.single_records_until >= position


@dataclass(slots=True, eq=False)
class TargetSide:
    """What is produced. Written by the target producer, by the relay as the broker acknowledges, and by resume.py."""

    topic_id: uuid.UUID = NO_ID
    leader: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = 0  # sequence number of the next batch to be queued
    acked_sequence: int = 0  # the one after the last acknowledged record
    sequence_confirmed: bool = False  # `acked_sequence` is the sequence number of the record at `position`
    acked_position: int = -1  # source position: everything before it is on the target
    position: int = -1  # target offset that the next batch will get
    # Until this time (wall clock) the target broker keeps our producer's state. It accepts any sequence number from a
    # producer that it does not know: if it refused the first batch and accepted the second, the first would be missing.
    # So after that time one batch is sent at a time, and the others are held.
    producer_known_until_ms: float = 0.0
    one_at_a_time: bool = False  # the same for a far broker, which has received the others except for their last byte
    held: deque[OutboundBatch] = field(default_factory=deque)
    queue: deque[OutboundBatch] = field(default_factory=deque)
    in_flight: deque[OutboundBatch] = field(default_factory=deque)
    pending_bytes: int = 0  # in `held`, `queue` and `in_flight`

    limits: BatchLimits = field(default_factory=BatchLimits)

    @property
    def offset_pair(self) -> OffsetPair:
        return OffsetPair(self.acked_position, self.position)

    @property
    def has_pending(self) -> bool:
        return bool(self.held or self.queue or self.in_flight)

    def acknowledge(self, batch: OutboundBatch, base: int, producer_known_until_ms: float) -> None:
        self.position = base + batch.count
        self.acked_position = batch.next_offset
        self.acked_sequence = next_sequence(self.acked_sequence, batch.count)
        self.sequence_confirmed = True
        self.producer_known_until_ms = producer_known_until_ms

    def discard_pending(self) -> None:
        """The memory of a batch in flight is released with its request."""
        for batch in (*self.held, *self.queue):
            batch.release()
        self.held.clear()
        self.queue.clear()
        self.in_flight.clear()
        self.pending_bytes = 0


@dataclass(slots=True, eq=False)
class ResumeState:
    """What recovery needs, and when it is due. Written by partition_lifecycle.py and resume.py."""

    # Stored positions
    offset_pairs: tuple[OffsetPair, ...] = ()  # from which recovery computes the position, newest last
    mm2_position: int | None = None
    sync: OffsetPair | None = None  # the newest offset sync, one of `offset_pairs`
    tail: Tail | None = None  # where our records ended; while running, the positions of the target side are newer
    altered_pair: OffsetPair | None = None  # the one of `offset_pairs` that an operator wrote
    positions_fresh: bool = False  # they were read for this recovery, not by the planner
    had_position: bool = False
    new_epoch: bool = False  # see RecoveryRequest
    former_ids: set[uuid.UUID] = field(default_factory=set)  # topic ids before the topic was re-created

    # What the source reported
    truncated_at: int | None = None
    out_of_range: int | None = None

    running: bool = False
    generation: int = 0  # the partition's generation that the running recovery is for
    failures: int = 0  # consecutive
    access_missing_since: float = 0.0  # when a permission, or the topic, was first missing; 0: neither is
    retry_at: float = 0.0


@dataclass(slots=True, eq=False)
class StoredState:
    """What was last written to the offsets topic and as offset syncs. Written by progress.py, and by resume.py."""

    pair: OffsetPair | None = None
    leader_epoch: int = -1  # the source's, stored with `pair`
    mm2_position: int | None = None
    sync_gate: SyncGate | None = None  # None before the first acknowledgement
    acked_span: list[int] | None = None  # acknowledged, not yet in the gate: first, last, count, first on the target


@dataclass(slots=True, eq=False)
class ReportState:
    """What the task reports of the partition. The figures are written by progress.py."""

    changed: bool = True  # since the last report
    counters: Counters = field(default_factory=Counters)
    error: str = ""
    failing_side: str = ""  # source or target: which one refuses requests; `error` stays until it accepts one
    stopped_at: int | None = None  # the refused record; the partition is shown as stopped until it is past it
    reported_stop: str = ""  # the last reported reason for stopping
    unreported_foreign: int = 0  # records
    report_foreign_at: float = 0.0  # earliest time of the next report
    latency_ms: float = 0.0  # of the newest batch: time of acknowledgement minus its newest timestamp
    age_ms: float = 0.0  # of the newest batch: time of fetch minus its newest timestamp
    # Of the batches since the last report: count, sum, minimum, maximum
    latencies: list[float] | None = None
    measure_latency_at: float = 0.0  # when the next acknowledgement is awaited, to measure its latency
    ages: list[float] | None = None
    path: str = ""  # of those batches: fast, or rebuild if any of them was rebuilt
    reported_batches: int = 0
    reported_rebuilt: int = 0

    def show(self, error: str) -> None:
        if error != self.error:
            self.error, self.changed = error, True

    def clear_error(self) -> None:
        self.error = self.failing_side = ""
        self.changed = True

    def acknowledged(self, position: int) -> None:
        """Everything before this source position is copied."""
        self.changed = True
        if self.failing_side:
            self.clear_error()
        if self.stopped_at is not None and position > self.stopped_at:
            self.stopped_at, self.reported_stop, self.error = None, "", ""


@dataclass(slots=True, eq=False)
class Partition:
    tp: TopicPartition  # on the source
    remote: TopicPartition
    until: int | None = None  # --once: the source position at which it is done
    state: State = State.RECOVERING
    generation: int = 0  # responses to requests of an earlier generation are ignored
    on_drained: Callable[[], None] | None = None  # called once the target has acknowledged everything fetched
    source: SourceSide = field(default_factory=SourceSide)
    target: TargetSide = field(default_factory=TargetSide)
    resume: ResumeState = field(default_factory=ResumeState)
    stored: StoredState = field(default_factory=StoredState)
    report: ReportState = field(default_factory=ReportState)

    @property
    def wants_more(self) -> bool:
        """Whether to fetch it (as soon as there is memory)."""
        if self.state is not State.RUNNING or self.on_drained is not None:
            return False
        return self.until is None or self.source.position < self.until

    def copied_epoch(self) -> int:
        """The source's leader epoch of the last copied batch; -1: unknown."""
        position, stored = self.target.acked_position, self.stored
        for epoch, start in reversed(self.source.epoch_starts):
            if start < position:
                return epoch
        return stored.leader_epoch if stored.pair is not None and stored.pair.source == position else -1

    def nothing_to_copy_before(self, position: int) -> None:
        """The offsets between the last fetched batch and `position` are not copied: that batch covers them, too."""
        if pending := self.target.held or self.target.queue or self.target.in_flight:
            pending[-1].next_offset = position
        else:
            self.target.acked_position = position
            self.report.changed = True

    def discard_pending(self) -> None:
        self.target.discard_pending()
        self.generation += 1
