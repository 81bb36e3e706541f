"""Heartbeats: a record a second on the target, by which its readers see that the way is open, and its hops."""

import time

from twinlog.config.flows import FlowConfig
from twinlog.kafka.client import Client
from twinlog.model import TopicPartition
from twinlog.topology.policy import policy_of
from twinlog.tracking.heartbeats import Heartbeat
from twinlog.upkeep.internal import COMPACTED, ensure, write
from twinlog.upkeep.routine import Chore


class HeartbeatKeeper:
    """Belongs to one thread."""

    def __init__(self, config: FlowConfig) -> None:
        assert config.heartbeat is not None
        connector = config.heartbeat
        self._settings = connector.settings
        # MM2 writes them with the producer of the worker; its connector's own admin makes the topic.
        writer = config.source.clients["data.producer"] if config.source else connector.clients["target.producer"]
        name = f"twinlog-{config.flow}-heartbeats"
        self._admin = Client(config.flow.target, connector.clients["target.admin"], name)
        self._client = Client(config.flow.target, writer, name)
        self._place = TopicPartition(policy_of(connector).heartbeats_topic(), 0)
        self._key = Heartbeat(self._settings.source_cluster_alias, self._settings.target_cluster_alias, 0).key()
        self._made = False
        self.beat_ms: int | None = None  # when the newest one was written; may be read from any thread

    def chores(self) -> list[Chore]:
        every = float(self._settings.emit_heartbeats_interval_seconds)
        return [Chore("heartbeats", every, self.beat, first=every)]

    def close(self) -> None:
        self._admin.close()
        self._client.close()

    def beat(self) -> None:
        if not self._made:
            factor = self._settings.heartbeats_topic_replication_factor
            ensure(self._admin, self._place.topic, 1, factor, COMPACTED, "heartbeats.topic.replication.factor")
            self._made = True
        now = int(time.time() * 1000)
        source, target = self._settings.source_cluster_alias, self._settings.target_cluster_alias
        write(self._client, self._place, [(now, self._key, Heartbeat(source, target, now).value())])
        self.beat_ms = now
