"""One partition on its way: where it stands on either side, and what is between them."""

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.kafka.connection import Buffer
from twinlog.model import Anchor, TopicPartition
from twinlog.tracking.offset_syncs import SyncGate


class State(StrEnum):
    RECOVERING = "recovering"  # its position is being found, or a broker is not there
    RUNNING = "running"
    STOPPED = "stopped"  # only the operator can help; `error` says how
    DONE = "done"  # has all that was asked for (--once)


class Piece:
    """One batch that the target is to store, with the source offsets that it stands for."""

    __slots__ = (
        "attributes",
        "buffer",
        "count",
        "first",
        "last",
        "max_timestamp",
        "next",
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
        self.buffer = buffer  # whose memory it lies in; None when it has its own
        self.first = first
        self.last = last
        self.next = last + 1  # the source offset from which to go on; beyond `last` where nothing was to be copied
        self.count = count
        self.max_timestamp = max_timestamp
        self.attributes = attributes
        self.rebuilt = rebuilt
        self.offsets = offsets  # of its records, where they have gaps

    def release(self) -> None:
        if self.buffer is not None:
            self.buffer.release()
            self.buffer = None


@dataclass(slots=True)
class Counters:
    """Since the task began. `lost` to `skipped` should stay 0; each is told of in an event."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    rebuilt: int = 0  # batches that had to be opened
    lost: int = 0  # source offsets that were gone before they were copied
    foreign: int = 0  # records in the remote topic that we did not write
    duplicates: int = 0  # records that may be there twice
    skipped: int = 0  # records that the target refuses
    recoveries: int = 0


@dataclass(slots=True, eq=False)
class Partition:
    place: TopicPartition  # on the source
    remote: TopicPartition
    until: int | None = None  # --once: the source offset at which it is done
    state: State = State.RECOVERING
    generation: int = 0  # an answer to a request of an earlier one means nothing any more

    # The source's side
    topic_id: uuid.UUID = field(default=uuid.UUID(int=0))
    leader: int = -1
    leader_epoch: int = -1
    replica: int = -1  # a follower that the leader wants us to read from
    last_epoch: int = -1  # of the last batch that was fetched
    epochs: list[tuple[int, int]] = field(default_factory=list)  # with the offset at which we saw each begin
    fetched: int = -1  # the next offset to fetch
    fetched_at: float = 0.0  # when there was last something, after nothing
    asked: int = -1  # the offset in the newest fetch request; an answer to another is of no use
    high_watermark: int = -1
    last_stable: int = -1  # the first offset of a transaction that is open; the high watermark where there is none
    log_start: int = -1

    # The target's side
    remote_id: uuid.UUID = field(default=uuid.UUID(int=0))
    target_leader: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = 0  # of the next piece that is queued
    acked_sequence: int = 0  # after the last one that is acknowledged
    acked: int = -1  # the source offset after all that the target has
    expected: int = -1  # where the target will put the next piece
    # Whether the target's broker knows our producer here. One that it does not know it takes at any number: were the
    # first batch refused and the second taken, the first would be missing. So until then there is one at a time.
    proven: bool = True
    held: deque[Piece] = field(default_factory=deque)  # until it is
    queue: deque[Piece] = field(default_factory=deque)
    flight: deque[Piece] = field(default_factory=deque)
    waiting_bytes: int = 0  # in held, queue and flight
    full: bool = False  # nothing more is fetched until the target has taken some

    # What the target will not take
    largest: int = 0  # bytes of a batch; 0: no limit known
    alone_until: int = -1  # up to here each record travels by itself, to find the one that is refused
    skip: frozenset[int] = frozenset()

    # What is known of it by others
    anchors: tuple[Anchor, ...] = ()  # from which its position can be worked out, newest last
    mm2_offset: int | None = None
    fresh: bool = False  # they were read for this recovery, not by the planner
    had_cursor: bool = False
    written: Anchor | None = None  # the cursor in the offsets topic
    written_epoch: int = -1  # the source's leader epoch in it
    gate: SyncGate | None = None  # None before the first acknowledgement
    span: list[int] | None = None  # acknowledged, not yet told to the gate: first, last, count, first on the target

    # What recovery must know
    truncated_at: int | None = None
    out_of_range: int | None = None

    error: str = ""
    blame: str = ""  # source or target: who refuses us, so that `error` stays until that one gives in
    failures: int = 0  # in a row
    retry_at: float = 0.0
    counters: Counters = field(default_factory=Counters)
    told_stop: str = ""  # why it was stopped, as it was last told
    untold_foreign: int = 0  # records
    tell_foreign_at: float = 0.0  # not before that
    latency_ms: float = 0.0  # of the newest batch: acknowledged now, minus its newest record's time
    age_ms: float = 0.0  # of the newest batch when it was fetched: then, minus its newest record's time
    # Of the batches since it was last told of: count, sum, least, most
    latencies: list[float] | None = None
    ages: list[float] | None = None
    lane: str = ""  # that they took: fast, or rebuild where one of them had to be opened
    told_batches: int = 0
    told_rebuilt: int = 0
    changed: bool = True  # since it was last told of

    def clear(self) -> None:
        """Forgets what is between the sides; a sent piece stays alive until its request is over."""
        for piece in (*self.held, *self.queue):
            piece.release()
        self.held.clear()
        self.queue.clear()
        self.flight.clear()
        self.waiting_bytes = 0
        self.generation += 1
