"""What is known of positions, as far as it is written down: MM2's source offsets, our cursors and producer ids beside
them, and the offset syncs.
"""

from collections.abc import Iterator
from typing import TypeVar

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import codes
from twinlog.kafka.client import Client
from twinlog.kafka.reading import TopicReader
from twinlog.kafka.records import Record
from twinlog.model import Anchor, TopicPartition
from twinlog.topology.selection import offset_syncs_location
from twinlog.tracking import offset_syncs, source_offsets
from twinlog.tracking.source_offsets import Cursor, CursorEntry, Producers, ProducersEntry, SourceOffset

T = TypeVar("T")


class Known:
    """Reads all of it once, later only what is new. A topic that is not there says nothing."""

    def __init__(self, config: FlowConfig, source: Client, target: Client, *, pass_over_denied: bool = False) -> None:
        """`pass_over_denied`: nor does a topic that may not be read; else that is an error."""
        self._flow = config.flow
        self._connector = source_offsets.connector_name(config)
        side, topic = offset_syncs_location(config)
        self._sync_reader = TopicReader(source if side == "source" else target, topic)
        self._offset_reader = TopicReader(target, source_offsets.offsets_topic(config).name)
        self._passed_over = codes.DENIED if pass_over_denied else frozenset()
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.mm2: dict[TopicPartition, int] = {}  # the offset of the last record that MM2 says it has copied
        self.syncs: dict[TopicPartition, Anchor] = {}
        self.producers = Producers()

    def read(self) -> None:
        for record in self._records(self._offset_reader):
            entry = source_offsets.parse(record.key, record.value)
            if isinstance(entry, CursorEntry) and entry.flow == self._flow:
                _keep(self.cursors, TopicPartition(entry.topic, entry.partition), entry.cursor)
            elif isinstance(entry, ProducersEntry) and entry.flow == self._flow:
                self._hear_of(entry.producers or Producers())
            elif (
                isinstance(entry, SourceOffset)
                and entry.connector == self._connector
                and entry.cluster == self._flow.source
            ):
                _keep(self.mm2, TopicPartition(entry.topic, entry.partition), entry.offset)
        for record in self._records(self._sync_reader):
            try:
                sync = offset_syncs.decode(record.key, record.value)
            except ValueError:
                continue  # not a sync: whoever wrote it meant something else
            self.syncs[TopicPartition(sync.topic, sync.partition)] = Anchor(sync.upstream, sync.downstream)

    def anchors(self, place: TopicPartition) -> tuple[Anchor, ...]:
        found = [self.syncs[place]] if place in self.syncs else []
        if (cursor := self.cursors.get(place)) is not None:
            found.append(Anchor(cursor.source, cursor.target))
        return tuple(found)

    def _records(self, reader: TopicReader) -> Iterator[Record]:
        try:
            yield from reader.read()
        except RefusedError as error:
            if error.code not in self._passed_over:
                raise

    def _hear_of(self, producers: Producers) -> None:
        """Of runs that got an id each at the same time, all use that of the first one who wrote it down."""
        ours = self.producers.ids[-1:]
        self.producers = producers.adding(*ours) if producers.ids and ours else producers


def _keep(kept: dict[TopicPartition, T], place: TopicPartition, value: T | None) -> None:
    if value is None:
        kept.pop(place, None)
    else:
        kept[place] = value
