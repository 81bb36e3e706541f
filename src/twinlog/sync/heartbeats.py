"""Emits heartbeats: one record per second on the target, which shows that the flow runs, and its hops."""

import time

from twinlog.config.flows import FlowConfig
from twinlog.errors import RefusedError
from twinlog.kafka import error_codes
from twinlog.kafka.topic_writer import write
from twinlog.mm2.heartbeats import Heartbeat
from twinlog.model import TopicPartition
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.internal_topics import ensure, heartbeats_topic
from twinlog.sync.scheduler import PeriodicJob, interval


class HeartbeatSync:
    """Not thread-safe."""

    def __init__(self, config: FlowConfig) -> None:
        assert config.heartbeat is not None
        self._settings = config.heartbeat.settings
        # As in MM2: written by the worker's producer; the topic is created by the connector's admin client.
        self._clients = FlowClients(config, "heartbeat")
        self._admin = self._clients.client("target.admin")
        self._producer = self._clients.client("data.producer")
        self._topic = heartbeats_topic(config)
        self._tp = TopicPartition(self._topic.name, 0)
        self._key = Heartbeat(self._settings.source_cluster_alias, self._settings.target_cluster_alias, 0).key()
        self._ensured = False
        self.heartbeat_ms: int | None = None  # time of the newest heartbeat; may be read from any thread

    def jobs(self) -> list[PeriodicJob]:
        every = interval(self._settings.emit_heartbeats_interval_seconds)
        return [PeriodicJob("heartbeats", every, self.emit, first=every)] if every is not None else []

    def close(self) -> None:
        self._clients.close()

    def emit(self) -> None:
        if not self._ensured:
            ensure(self._admin, self._topic)
            self._ensured = True
        now = int(time.time() * 1000)
        source, target = self._settings.source_cluster_alias, self._settings.target_cluster_alias
        try:
            write(self._producer, self._tp, [(now, self._key, Heartbeat(source, target, now).value())])
        except RefusedError as error:
            self._ensured = error.code not in error_codes.TOPIC_MISSING  # deleted: the next heartbeat re-creates it
            raise
        self.heartbeat_ms = now
