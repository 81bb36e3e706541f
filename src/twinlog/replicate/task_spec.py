"""The specification of a task: picklable and without connections, since the planner sends it to the workers."""

import json
import uuid
from dataclasses import dataclass
from typing import Final

from twinlog.config.flows import Client as ClientConfig
from twinlog.config.flows import FlowConfig
from twinlog.journal.messages import journal_topic
from twinlog.kafka.client import NO_ID, Client, request_timeout
from twinlog.mm2.client_ids import client_id, data_producer_id
from twinlog.mm2.selection import offset_syncs_location
from twinlog.mm2.source_offsets import StoredPosition, connector_name, connector_offsets_topic, offsets_topic
from twinlog.model import Flow, OffsetPair, TopicPartition
from twinlog.replicate.convert_batches import ConversionRules
from twinlog.replicate.recovery import RecoveryPolicy
from twinlog.replicate.resume_decision import LogProblem
from twinlog.replicate.source_fetcher import FetchSizes

_CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_MIB: Final = 1 << 20
_GRACEFUL: Final = 1.2  # seconds, where task.shutdown.graceful.timeout.ms is not set
_DEFAULT_REQUEST_TIMEOUT: Final = 30.0  # seconds, where request.timeout.ms is not set


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """A partition assigned to a task, with its stored positions."""

    tp: TopicPartition
    remote: TopicPartition
    topic_id: uuid.UUID = NO_ID
    stored_position: StoredPosition | None = None
    sync: OffsetPair | None = None
    mm2_position: int | None = None
    until: int | None = None

    @property
    def offset_pairs(self) -> tuple[OffsetPair, ...]:
        found = [self.sync] if self.sync else []
        if self.stored_position:
            found.append(OffsetPair(self.stored_position.source, self.stored_position.target))
        return tuple(sorted(found, key=lambda offset_pair: offset_pair.target))

    def encode(self) -> str:
        stored_position = self.stored_position
        return json.dumps(
            {
                "place": self.tp,
                "remote": self.remote,
                "id": str(self.topic_id),
                "cursor": stored_position.encode().decode() if stored_position else None,
                "sync": self.sync,
                "mm2": self.mm2_position,
                "until": self.until,
            }
        )

    @classmethod
    def decode(cls, text: str) -> "PartitionAssignment":
        content = json.loads(text)
        return cls(
            TopicPartition(*content["place"]),
            TopicPartition(*content["remote"]),
            uuid.UUID(content["id"]),
            StoredPosition.decode(content["cursor"].encode()) if content["cursor"] else None,
            OffsetPair(*content["sync"]) if content["sync"] else None,
            content["mm2"],
            content["until"],
        )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    flow: Flow
    config: FlowConfig
    assignments: tuple[PartitionAssignment, ...]
    producers: tuple[int, ...]  # producer ids that the flow has used on the target, newest last
    run: str = "run"
    epoch: int = 0
    task: int = 0
    attempt: int = 0
    epoch_seconds: float = 600.0
    journal_offset: int = 0  # of the first command that may concern the task
    offsets_partitions: int = 25
    own_offsets_partitions: int = 0  # of the connector's own offsets topic, if it has one

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
        """A new client for everything but fetch and produce; the caller closes it."""
        if side == "source":
            return Client(self.flow.source, self.source, self.source_client_id)
        return Client(self.flow.target, self.target, self.target_client_id)

    def writer(self, side: str) -> Client:
        """A new client for the background writer: on the source (offset syncs) with the settings of MM2's producer."""
        if side == "source":
            assert self.config.source is not None
            name = client_id(self.config.source, "source.producer", "offset-syncs-source-producer", self.task)
            return Client(self.flow.source, self._role("source.producer"), name)
        return self.client(side)

    @property
    def source_client_id(self) -> str:
        assert self.config.source is not None
        return client_id(self.config.source, "source.consumer", "replication-consumer", self.task)

    @property
    def target_client_id(self) -> str:
        return data_producer_id(self.config, self.task)

    @property
    def source_request_timeout(self) -> float:
        """Seconds without a response after which a connection is closed; more than a fetch may wait."""
        wait = float(self.source["fetch.max.wait.ms"]) / 1000
        return max(request_timeout(self.source, _DEFAULT_REQUEST_TIMEOUT), wait + 1.0)

    @property
    def target_request_timeout(self) -> float:
        return request_timeout(self.target, _DEFAULT_REQUEST_TIMEOUT)

    @property
    def graceful_seconds(self) -> float:
        """How long an ending task may take to write its positions. By default less than MM2's 5 s, within which the
        whole process has to end.
        """
        worker = self.config.worker
        wanted = worker.settings.task_shutdown_graceful_timeout_ms / 1000
        return max(wanted if "task.shutdown.graceful.timeout.ms" in worker.values else min(wanted, _GRACEFUL), 0.1)

    @property
    def rules(self) -> ConversionRules:
        consumer, producer = self.source, self.target
        # Unlike in MM2, aborted records are not copied unless isolation.level is set. The source's compression is kept
        # unless compression.type is set.
        isolation = consumer["isolation.level"] if "isolation.level" in consumer.values else "read_committed"
        codec = _CODECS[producer["compression.type"]] if "compression.type" in producer.values else None
        level_key = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}.get(
            codec or 0
        )
        level = producer[level_key] if level_key is not None and level_key in producer.values else None
        return ConversionRules(isolation == "read_committed", consumer["check.crcs"], codec, level)

    @property
    def sizes(self) -> FetchSizes:
        assert self.config.source is not None
        consumer = self.source
        partition_bytes = consumer["max.partition.fetch.bytes"]
        return FetchSizes(
            wait_ms=consumer["fetch.max.wait.ms"],
            min_bytes=consumer["fetch.min.bytes"],
            # Bounds memory; a broker returns a larger first batch in any case.
            max_bytes=min(consumer["fetch.max.bytes"], 64 * _MIB)
            if "fetch.max.bytes" in consumer.values
            else 16 * _MIB,
            partition_bytes=partition_bytes,
            rack=consumer["client.rack"],
            max_partition_pending=2 * partition_bytes,
            max_pending=64 * _MIB,
            max_retained=128 * _MIB,
            connections=self.config.source.settings.twinlog_fetch_connections,
        )

    @property
    def produce_connections(self) -> int:
        """To one far broker of the target, at most; 0: automatic."""
        assert self.config.source is not None
        return self.config.source.settings.twinlog_produce_connections

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        # MM2 copies uncommitted records by default.
        mm2_read_committed = (
            "isolation.level" in self.source.values and self.source["isolation.level"] == "read_committed"
        )
        assert self.config.source is not None
        refill = self.config.source.settings.twinlog_deleted_remote_topics == "refill"
        return RecoveryPolicy(
            self.source["auto.offset.reset"], self.rules, self.expects_foreign, mm2_read_committed, refill
        )

    @property
    def expects_foreign(self) -> bool:
        """Whether other producers may write to the remote topics."""
        assert self.config.source is not None
        return self.config.source.settings.twinlog_foreign_records == "expect"

    @property
    def skips_refused(self) -> bool:
        assert self.config.source is not None
        return self.config.source.settings.errors_tolerance == "all"

    def stops_on(self, problem: LogProblem | None) -> str:
        """The setting because of which the partition stops; empty: it continues."""
        assert self.config.source is not None
        settings = self.config.source.settings
        if problem in {LogProblem.LOST, LogProblem.TRUNCATED} and settings.twinlog_lost_records == "stop":
            return "twinlog.lost.records = stop"
        if problem is LogProblem.RECREATED and settings.twinlog_recreated_topics == "stop":
            return "twinlog.recreated.topics = stop"
        return ""

    # Internal topics

    @property
    def syncs(self) -> tuple[str, str] | None:
        """(source or target, topic); None: offset syncs are disabled."""
        assert self.config.source is not None
        if not self.config.source.settings.emit_offset_syncs_enabled:
            return None
        return offset_syncs_location(self.config)

    @property
    def offsets(self) -> str:
        return offsets_topic(self.config).name

    @property
    def own_offsets(self) -> str | None:
        """The connector's own offsets topic (`offsets.storage.topic`)."""
        own = connector_offsets_topic(self.config)
        return own.name if own else None

    @property
    def connector(self) -> str:
        return connector_name(self.config)

    @property
    def flush_seconds(self) -> float:
        interval = self.config.worker.settings.offset_flush_interval_ms / 1000
        # Without offset syncs the stored positions are the only offset pairs.
        return interval if self.syncs else min(interval, 1.0)

    @property
    def journal(self) -> str:
        return journal_topic(self.flow.source)
