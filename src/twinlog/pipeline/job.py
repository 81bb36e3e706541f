"""What a task is asked to do. Picklable and without connections: it crosses from the planner to the workers."""

import json
import uuid
from dataclasses import dataclass
from typing import Final

from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import FlowConfig
from twinlog.kafka.client import NO_ID, Client
from twinlog.model import Anchor, Flow, TopicPartition
from twinlog.pipeline.intake import FetchSizes
from twinlog.pipeline.lanes import Rules
from twinlog.pipeline.recovery import Manner
from twinlog.topology.selection import offset_syncs_location
from twinlog.tracking.journal import journal_topic
from twinlog.tracking.positions import Trouble
from twinlog.tracking.source_offsets import Cursor, connector_name, offsets_topic

_CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Claim:
    """One partition that a task is to relay, with all that is known of its position."""

    place: TopicPartition
    remote: TopicPartition
    topic_id: uuid.UUID = NO_ID
    cursor: Cursor | None = None
    sync: Anchor | None = None
    mm2_offset: int | None = None
    until: int | None = None

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        found = [self.sync] if self.sync else []
        if self.cursor:
            found.append(Anchor(self.cursor.source, self.cursor.target))
        return tuple(sorted(found, key=lambda anchor: anchor.target))

    def encode(self) -> str:
        cursor = self.cursor
        return json.dumps(
            {
                "place": self.place,
                "remote": self.remote,
                "id": str(self.topic_id),
                "cursor": cursor.encode().decode() if cursor else None,
                "sync": self.sync,
                "mm2": self.mm2_offset,
                "until": self.until,
            }
        )

    @classmethod
    def decode(cls, text: str) -> "Claim":
        content = json.loads(text)
        return cls(
            TopicPartition(*content["place"]),
            TopicPartition(*content["remote"]),
            uuid.UUID(content["id"]),
            Cursor.decode(content["cursor"].encode()) if content["cursor"] else None,
            Anchor(*content["sync"]) if content["sync"] else None,
            content["mm2"],
            content["until"],
        )


@dataclass(frozen=True, slots=True)
class Job:
    flow: Flow
    config: FlowConfig
    claims: tuple[Claim, ...]
    producers: tuple[int, ...]  # ids that the flow has used on the target, newest last
    run: str = "run"
    epoch: int = 0
    task: int = 0
    attempt: int = 0
    epoch_seconds: float = 600.0
    journal_offset: int = 0  # of the first command that may concern us
    offsets_partitions: int = 25

    @property
    def source(self) -> ClientConfig:
        return self._role("source.consumer")

    @property
    def target(self) -> ClientConfig:
        return self._role("data.producer")

    def _role(self, role: str) -> ClientConfig:
        assert self.config.source is not None
        client = self.config.source.clients[role]
        assert isinstance(client, ClientConfig)
        return client

    def client(self, side: str) -> Client:
        """For the rarer questions; belongs to whoever asks for it."""
        if side == "source":
            return Client(self.flow.source, self.source, self.client_id)
        return Client(self.flow.target, self.target, self.client_id)

    def writer(self, side: str) -> Client:
        """For what is noted: on the source, offset syncs, by the client that MM2 would write them with."""
        if side == "source":
            return Client(self.flow.source, self._role("source.producer"), self.client_id)
        return self.client(side)

    @property
    def client_id(self) -> str:
        return f"twinlog-{self.flow}-{self.task}"

    @property
    def patience(self) -> float:
        return min(float(self.source["request.timeout.ms"]), float(self.target["request.timeout.ms"]), 30_000.0) / 1000

    @property
    def rules(self) -> Rules:
        consumer, producer = self.source, self.target
        # A twin must not show what never happened, so aborted records stay behind unless the operator wants them (MM2
        # copies them). And the source's compression stays, unless the operator names one.
        isolation = consumer["isolation.level"] if "isolation.level" in consumer.values else "read_committed"
        codec = _CODECS[producer["compression.type"]] if "compression.type" in producer.values else None
        level_key = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}.get(
            codec or 0
        )
        level = producer[level_key] if level_key is not None and level_key in producer.values else None
        return Rules(isolation == "read_committed", consumer["check.crcs"], codec, level)

    @property
    def sizes(self) -> FetchSizes:
        consumer = self.source
        partition_bytes = consumer["max.partition.fetch.bytes"]
        return FetchSizes(
            wait_ms=consumer["fetch.max.wait.ms"],
            min_bytes=consumer["fetch.min.bytes"],
            max_bytes=consumer["fetch.max.bytes"] if "fetch.max.bytes" in consumer.values else 16 * _MIB,
            partition_bytes=partition_bytes,
            rack=consumer["client.rack"],
            most_waiting=2 * partition_bytes,
            all_waiting=48 * _MIB,
        )

    @property
    def manner(self) -> Manner:
        return Manner(self.source["auto.offset.reset"], self.rules, self.merges)

    @property
    def merges(self) -> bool:
        """Whether others write to our remote topics by right."""
        assert self.config.source is not None
        return self.config.source.settings.twinlog_foreign_records == "expect"

    @property
    def skip_bad(self) -> bool:
        assert self.config.source is not None
        return self.config.source.settings.errors_tolerance == "all"

    def stops_on(self, trouble: Trouble | None) -> str:
        """The setting that says so; empty: go on."""
        assert self.config.source is not None
        settings = self.config.source.settings
        if trouble in {Trouble.LOST, Trouble.TRUNCATED} and settings.twinlog_lost_records == "stop":
            return "twinlog.lost.records = stop"
        if trouble is Trouble.RECREATED and settings.twinlog_recreated_topics == "stop":
            return "twinlog.recreated.topics = stop"
        return ""

    # Where things are written

    @property
    def syncs(self) -> tuple[str, str] | None:
        """(source or target, topic); None when the operator wants no offset syncs."""
        assert self.config.source is not None
        if not self.config.source.settings.emit_offset_syncs_enabled:
            return None
        return offset_syncs_location(self.config)

    @property
    def offsets(self) -> str:
        return offsets_topic(self.config).name

    @property
    def connector(self) -> str:
        return connector_name(self.config)

    @property
    def flush_seconds(self) -> float:
        interval = self.config.worker.settings.offset_flush_interval_ms / 1000
        # Without syncs the cursors are the only anchors.
        return interval if self.syncs else min(interval, 1.0)

    @property
    def journal(self) -> str:
        return journal_topic(self.flow.source)
