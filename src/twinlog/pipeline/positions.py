"""Reads what is known of positions: MM2's source offsets, our cursors and producer ids, the offset syncs."""

from dataclasses import replace
from typing import TypeVar

from twinlog.config.flows import FlowConfig
from twinlog.kafka.client import Client
from twinlog.kafka.reading import TopicReader
from twinlog.model import Anchor, TopicPartition
from twinlog.pipeline.job import Claim
from twinlog.topology.selection import offset_syncs_location
from twinlog.tracking import offset_syncs, source_offsets
from twinlog.tracking.source_offsets import Cursor, CursorEntry, Producers, ProducersEntry, SourceOffset

T = TypeVar("T")


class Positions:
    """Reads all of it once, later only what is new."""

    def __init__(self, config: FlowConfig, source: Client, target: Client) -> None:
        self._flow = config.flow
        self._connector = source_offsets.connector_name(config)
        side, topic = offset_syncs_location(config)
        self._syncs = TopicReader(source if side == "source" else target, topic)
        self._offsets = TopicReader(target, source_offsets.offsets_topic(config).name)
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.mm2: dict[TopicPartition, int] = {}
        self.anchors: dict[TopicPartition, Anchor] = {}
        self.producers = Producers()

    def read(self) -> None:
        for record in self._offsets.read():
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
        for record in self._syncs.read():
            try:
                sync = offset_syncs.decode(record.key, record.value)
            except ValueError:
                continue  # not a sync: whoever wrote it meant something else
            self.anchors[TopicPartition(sync.topic, sync.partition)] = Anchor(sync.upstream, sync.downstream)

    def _hear_of(self, producers: Producers) -> None:
        """Of runs that got an id each at the same time, all use that of the first one who wrote it down."""
        ours = self.producers.ids[-1:]
        self.producers = producers.adding(*ours) if producers.ids and ours else producers

    def known(self, claim: Claim) -> Claim:
        place = claim.place
        return replace(
            claim, cursor=self.cursors.get(place), sync=self.anchors.get(place), mm2_offset=self.mm2.get(place)
        )


def _keep(kept: dict[TopicPartition, T], place: TopicPartition, value: T | None) -> None:
    if value is None:
        kept.pop(place, None)
    else:
        kept[place] = value
