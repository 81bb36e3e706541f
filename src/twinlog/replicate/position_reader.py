"""Reads the stored positions: MM2's source offsets, our positions and producer ids in the same topic, offset syncs."""

from collections.abc import Iterator
from typing import TypeVar

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.client import Client
from twinlog.kafka.records import Record
from twinlog.kafka.topic_reader import TopicReader
from twinlog.mm2 import offset_syncs, source_offsets
from twinlog.mm2.selection import offset_syncs_location, selection_of
from twinlog.mm2.source_offsets import PositionEntry, Producers, ProducersEntry, SourceOffset, StoredPosition
from twinlog.model import OffsetPair, TopicPartition

T = TypeVar("T")


class PositionReader:
    """Reads everything once, then only new records. A missing topic counts as empty."""

    def __init__(
        self, config: FlowConfig, source: Client, target: Client, *, ignore_unauthorized: bool = False
    ) -> None:
        """`ignore_unauthorized`: so does a topic without Read permission; else that is an error."""
        self._flow = config.flow
        self._connector = source_offsets.connector_name(config)
        side, topic = offset_syncs_location(config)
        self._sync_reader = TopicReader(source if side == "source" else target, topic)
        # An exactly-once MM2 writes there in transactions, which must not block the reader.
        self._offset_reader = TopicReader(target, source_offsets.offsets_topic(config).name, past_open=True)
        own = source_offsets.connector_offsets_topic(config)
        self._own_reader = TopicReader(target, own.name, past_open=True) if own else None
        self._ignored_codes = error_codes.UNAUTHORIZED if ignore_unauthorized else frozenset()
        # Another flow between the same clusters may copy the same topics to other remote topics.
        self._remote_name = selection_of(config).remote_name
        self._with_remote_name: set[TopicPartition] = set()  # whose stored position names the remote topic
        self.stored_positions: dict[TopicPartition, StoredPosition] = {}
        self._worker_offsets: dict[TopicPartition, int] = {}
        self._connector_offsets: dict[TopicPartition, int] = {}  # in the connector's own topic; takes precedence
        self.mm2_positions: dict[TopicPartition, int] = {}  # MM2 stores the offset before: of its last copied record
        self.syncs: dict[TopicPartition, OffsetPair] = {}
        self.producers = Producers()

    def read(self) -> None:
        for record in self._records(self._offset_reader):
            entry = source_offsets.parse(record.key, record.value)
            if isinstance(entry, PositionEntry) and entry.flow == self._flow:
                self._update_position(entry)
            elif isinstance(entry, ProducersEntry) and entry.flow == self._flow:
                self._update_producers(entry.producers or Producers())
            elif isinstance(entry, SourceOffset):
                self._update_offset(self._worker_offsets, entry)
        for record in self._records(self._own_reader) if self._own_reader else ():
            entry = source_offsets.parse(record.key, record.value)
            if isinstance(entry, SourceOffset):
                self._update_offset(self._connector_offsets, entry)
        self.mm2_positions = self._worker_offsets | self._connector_offsets
        for record in self._records(self._sync_reader):
            try:
                headers = [(name.decode(errors="replace"), value) for name, value in record.headers]
                sync = offset_syncs.decode(record.key, record.value, headers)
            except ValueError:
                continue  # not an offset sync
            if sync.remote is None or sync.remote == self._remote_name(sync.topic):
                self.syncs[TopicPartition(sync.topic, sync.partition)] = OffsetPair(sync.upstream, sync.downstream)

    def _update_offset(self, kept: dict[TopicPartition, int], entry: SourceOffset) -> None:
        if entry.connector == self._connector and entry.cluster == self._flow.source:
            _update(
                kept, TopicPartition(entry.topic, entry.partition), None if entry.offset is None else entry.offset + 1
            )

    def _update_position(self, entry: PositionEntry) -> None:
        tp = TopicPartition(entry.topic, entry.partition)
        if entry.remote is None and tp in self._with_remote_name:
            return
        if entry.remote is not None:
            if entry.remote != self._remote_name(entry.topic):
                return
            self._with_remote_name.add(tp)
        _update(self.stored_positions, tp, entry.stored_position)

    def offset_pairs(self, tp: TopicPartition) -> tuple[OffsetPair, ...]:
        found = [self.syncs[tp]] if tp in self.syncs else []
        if (stored_position := self.stored_positions.get(tp)) is not None:
            found.append(OffsetPair(stored_position.source, stored_position.target))
        return tuple(found)

    def _records(self, reader: TopicReader) -> Iterator[Record]:
        try:
            yield from reader.read()
        except RefusedError as error:
            if error.code not in self._ignored_codes:
                raise

    def _update_producers(self, producers: Producers) -> None:
        """Of runs that allocated an id at the same time, all use the one that was stored first."""
        ours = self.producers.ids[-1:]
        self.producers = producers.adding(*ours) if producers.ids and ours else producers


def _update(kept: dict[TopicPartition, T], tp: TopicPartition, value: T | None) -> None:
    if value is None:
        kept.pop(tp, None)
    else:
        kept[tp] = value
