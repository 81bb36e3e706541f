"""The source's side: one connection and one fetch session per broker, one long poll in each at any time."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from twinlog.errors import KafkaError, RelayError
from twinlog.kafka import codes
from twinlog.kafka.connection import Buffer
from twinlog.kafka.fetch import BY_ID, BY_NAME, Part, Session, Want
from twinlog.model import TopicPartition
from twinlog.pipeline.lanes import Rules, cut
from twinlog.pipeline.links import Link, Links
from twinlog.pipeline.loom import Loom
from twinlog.pipeline.partition import Partition, Piece, State

FETCH: Final = 1
_AT_ONCE: Final = 10  # answers in a row that bring nothing and do not wait for it: a broker that works sends none
_LONGEST_PAUSE: Final = 0.25
_CUT_OFF: Final = 5  # answers in a row that hold nothing but parts of batches: a broker gives the first one whole


@dataclass(frozen=True, slots=True)
class FetchSizes:
    wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    rack: str
    most_waiting: int  # bytes of one partition that may wait for the target
    all_waiting: int  # of all partitions


class Handler(Protocol):
    """What the loop does about what comes in."""

    waiting_bytes: int

    def fetched(self, partition: Partition, pieces: list[Piece]) -> None: ...
    def source_error(self, partition: Partition, code: int, part: Part) -> None: ...
    def damaged(self, partition: Partition, reason: str) -> None: ...
    def source_lost(self, node: int, partitions: Iterable[Partition], reason: str) -> None: ...


@dataclass(slots=True, eq=False)
class SourceLink(Link):
    session: Session = field(default_factory=lambda: Session(BY_ID))
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    dirty: dict[TopicPartition, None] = field(default_factory=dict)  # whose wish changed since the broker was told
    forget: dict[TopicPartition, None] = field(default_factory=dict)
    full: dict[TopicPartition, None] = field(default_factory=dict)  # that must wait until the target has taken some
    cut_off: dict[TopicPartition, int] = field(default_factory=dict)  # how often there was only a part of a batch
    asked_at: float = 0.0
    wait: float = 0.0  # seconds for which the broker was asked to wait
    hasty: int = 0  # answers in a row that brought nothing, at once


class Intake(Links[SourceLink]):
    link_class = SourceLink

    def __init__(self, handler: Handler, sizes: FetchSizes, rules: Rules, **links: Any) -> None:
        super().__init__(**links)
        self._handler = handler
        self._sizes = sizes
        self._rules = rules
        self._loom = Loom(self.pool)
        self.throttled_ms = 0

    def add(self, partition: Partition) -> None:
        """From `partition.fetched` on, from its leader, or the replica that the leader named."""
        node = partition.replica if partition.replica >= 0 else partition.leader
        link = self.link(node)
        link.partitions[partition.place] = partition
        link.dirty[partition.place] = None
        link.forget.pop(partition.place, None)
        partition.asked = -1
        self.pump(link)

    def has(self, partition: Partition) -> bool:
        return any(partition.place in link.partitions for link in self.links.values())

    def remove(self, partition: Partition) -> None:
        for link in self.links.values():
            if link.partitions.pop(partition.place, None) is not None:
                link.dirty.pop(partition.place, None)
                link.full.pop(partition.place, None)
                partition.full = False
                link.forget[partition.place] = None
        partition.asked = -1

    def more_room(self, partition: Partition) -> None:
        """The target has taken some of what a full partition had waiting."""
        if partition.waiting_bytes * 2 > self._sizes.most_waiting:
            return
        partition.full = False
        for link in self.links.values():
            if link.full.pop(partition.place, 0) is None:
                link.dirty[partition.place] = None
                self.pump(link)

    def pump_all(self) -> None:
        for link in list(self.links.values()):
            self.pump(link)

    def pump(self, link: SourceLink) -> None:
        now = time.monotonic()
        if link.connection is None:
            if link.partitions:
                self.connect(link, now)
            return
        if link.connection.waiting or now < link.quiet_until or self.stopping or not self.free(link):
            return
        if self._handler.waiting_bytes > self._sizes.all_waiting:
            return
        if link.session.fresh:
            link.dirty = dict.fromkeys(place for place in link.partitions if place not in link.full)
            link.forget.clear()
        wants = []
        for place in link.dirty:
            partition = link.partitions[place]
            if partition.waiting_bytes > self._sizes.most_waiting:
                link.full[place] = None
                link.forget[place] = None
                partition.full = True
                continue
            partition.asked = partition.fetched
            wants.append(
                Want(
                    place,
                    partition.topic_id,
                    partition.fetched,
                    partition.leader_epoch if partition.replica < 0 else -1,
                    partition.last_epoch,
                    self._sizes.partition_bytes,
                )
            )
        if len(link.full) == len(link.partitions):
            return  # nothing is wanted now; what was forgotten is said with the next wish
        # With partitions that wait for room, a long poll would keep them waiting.
        wait_ms = min(self._sizes.wait_ms, 5) if link.full else self._sizes.wait_ms
        link.asked_at, link.wait = now, wait_ms / 1000
        request = link.session.request(
            link.connection.next_correlation(),
            self.client_id,
            wants,
            link.forget,
            wait_ms=wait_ms,
            min_bytes=self._sizes.min_bytes,
            max_bytes=self._sizes.max_bytes,
            isolation=int(self._rules.read_committed),
            rack=self._sizes.rack,
        )
        link.dirty = {}
        link.forget = {}
        self.send(link, [request], None)

    def opened(self, link: SourceLink, versions: dict[int, tuple[int, int]]) -> None:
        highest = versions.get(FETCH, (0, -1))[1]
        if highest < BY_NAME:
            raise KafkaError(
                f"cluster {self.alias}: its brokers are older than Kafka 2.7: Twinlog cannot read from them"
            )
        known = all(partition.topic_id.int for partition in link.partitions.values())
        link.session = Session(BY_ID if highest >= BY_ID and known else BY_NAME)
        for partition in link.partitions.values():
            partition.asked = -1
        self.pump(link)

    def answered(self, link: SourceLink, token: Any, buffer: Buffer) -> None:  # noqa: ARG002
        try:
            answer = link.session.decode(buffer.view)
            if answer.error in codes.SESSION:
                link.session.reset()
            elif answer.error:
                raise KafkaError(f"cluster {self.alias}: fetch: {codes.name(answer.error)}")
            else:
                link.session.answered(answer)
                brought = False
                for part in answer.parts:
                    partition = link.partitions.get(part.place)
                    if partition is not None and self._part(link, partition, part, buffer):
                        brought = True
                self._pause(link, brought=brought)
            if answer.throttle_ms:
                self.throttled_ms += answer.throttle_ms
                link.quiet_until = time.monotonic() + answer.throttle_ms / 1000
        finally:
            buffer.release()
        self.pump(link)

    def _pause(self, link: SourceLink, *, brought: bool) -> None:
        """A broker that answers nothing, at once, again and again would keep both sides busy with nothing else."""
        now = time.monotonic()
        if brought:
            link.cut_off.clear()  # it was the others that left them no room
        for place in [place for place, times in link.cut_off.items() if times >= _CUT_OFF]:
            del link.cut_off[place]
            if (partition := link.partitions.get(place)) is not None:
                self._handler.damaged(partition, f"the batch at offset {partition.fetched} never comes whole")
        link.hasty = 0 if brought or now - link.asked_at > link.wait / 2 else link.hasty + 1
        if link.hasty > _AT_ONCE:
            link.quiet_until = now + min(0.001 * 2 ** (link.hasty - _AT_ONCE), _LONGEST_PAUSE)

    def _part(self, link: SourceLink, partition: Partition, part: Part, buffer: Buffer) -> bool:
        """Whether the partition got further."""
        if partition.asked != partition.fetched or partition.state is not State.RUNNING:
            link.dirty[part.place] = None  # an answer to an earlier wish
            return False
        if part.error or part.diverging is not None:
            self._handler.source_error(partition, part.error, part)
            return False
        if partition.error and partition.blame != "target":
            partition.error = partition.blame = ""
            partition.changed = True
        if part.high_watermark != partition.high_watermark:
            partition.high_watermark = part.high_watermark
            partition.changed = True
        partition.log_start = part.log_start
        # Who reads what is not committed waits for no transaction.
        partition.last_stable = part.last_stable if self._rules.read_committed else part.high_watermark
        if part.replica >= 0 and part.replica != partition.replica and part.replica in self.brokers:
            self.remove(partition)
            partition.replica = part.replica
            self.add(partition)
            return False
        if not part.records:
            return False
        before = partition.fetched
        try:
            pieces = cut(partition, part, buffer, self._rules, self._loom)
        except RelayError as error:
            self._handler.damaged(partition, str(error))
            return False
        link.dirty[part.place] = None
        if partition.fetched == before:
            link.cut_off[part.place] = link.cut_off.get(part.place, 0) + 1
            return False
        self._handler.fetched(partition, pieces)
        return True

    def lost(self, link: SourceLink, tokens: list[Any], reason: str) -> None:  # noqa: ARG002
        """The partitions stay: metadata will tell whether they have another leader. Their positions are safe."""
        link.session = Session(link.session.version)
        for partition in link.partitions.values():
            partition.asked = -1
        self._handler.source_lost(link.node, list(link.partitions.values()), reason)

    def failed(self, link: SourceLink, reason: str) -> None:
        self._handler.source_lost(link.node, list(link.partitions.values()), reason)
