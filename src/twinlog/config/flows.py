"""The loaded configuration: immutable, typed, picklable. `repr` shows no secret."""

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from twinlog.config.clients import CLIENT_KEYS
from twinlog.config.layers import letter
from twinlog.config.problems import Problem
from twinlog.config.settings import (
    CheckpointSettings,
    CommonSettings,
    HeartbeatSettings,
    SourceSettings,
    WorkerSettings,
)
from twinlog.config.value_types import checked
from twinlog.config.values import FrozenMap
from twinlog.model import Flow

S = TypeVar("S", bound=CommonSettings)
State = Literal["running", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class Client:
    """The configuration of one Kafka client: Java's keys, text values, Kafka's defaults."""

    role: str  # source.consumer, target.admin, data.producer ...
    values: FrozenMap

    def __getitem__(self, key: str) -> Any:
        """The typed effective value."""
        row = CLIENT_KEYS[letter(self.role)][key]
        return checked(row.kind, row.check, self.values[key].text) if key in self.values else row.default


@dataclass(frozen=True, slots=True)
class Connector(Generic[S]):
    """One of the three connectors of a flow, as MM2 would configure it."""

    kind: str  # MirrorSourceConnector ..., regardless of the spelling in connector.class
    settings: S
    values: FrozenMap  # MM2's complete map of it, each value with its origin
    clients: FrozenMap  # role -> Client
    state: State = "running"  # of Connect and Strimzi, independent of `enabled`


@dataclass(frozen=True, slots=True)
class Worker:
    """The configuration that MM2 would pass to the Connect worker on the target."""

    settings: WorkerSettings
    values: FrozenMap


@dataclass(frozen=True, slots=True)
class FlowConfig:
    flow: Flow
    worker: Worker
    source: Connector[SourceSettings] | None = None
    checkpoint: Connector[CheckpointSettings] | None = None
    heartbeat: Connector[HeartbeatSettings] | None = None
    label: str = ""  # distinguishes flows between the same clusters
    # State topics on the target, of all flows into it: name -> content. Known once every flow is loaded.
    storage_topics: FrozenMap = field(default_factory=lambda: FrozenMap({}))

    def __str__(self) -> str:
        return f"{self.flow} ({self.label})" if self.label else str(self.flow)

    @property
    def replicates(self) -> bool:
        """Whether records are copied; a flow that copies none may still emit heartbeats for the opposite flow."""
        return self.source is not None and self.source.settings.enabled and self.source.state == "running"

    @property
    def emits_heartbeats(self) -> bool:
        heartbeat = self.heartbeat
        return (
            heartbeat is not None
            and heartbeat.settings.emit_heartbeats_enabled
            and heartbeat.settings.emit_heartbeats_interval_seconds >= 0
            and heartbeat.state == "running"
        )

    @property
    def emits_checkpoints(self) -> bool:
        checkpoint = self.checkpoint
        return (
            checkpoint is not None
            and checkpoint.settings.enabled
            and checkpoint.settings.emit_checkpoints_enabled
            and checkpoint.settings.emit_checkpoints_interval_seconds >= 0
            and checkpoint.state == "running"
        )

    @property
    def syncs_group_offsets(self) -> bool:
        """Whether offsets of idle groups are written on the target."""
        settings = self.checkpoint.settings if self.checkpoint is not None else None
        return (
            settings is not None
            and self.emits_checkpoints
            and settings.sync_group_offsets_enabled
            and settings.sync_group_offsets_interval_seconds >= 0
        )

    @property
    def connectors(self) -> dict[str, "Connector[Any]"]:
        named = {"source": self.source, "checkpoint": self.checkpoint, "heartbeat": self.heartbeat}
        return {name: connector for name, connector in named.items() if connector is not None}


@dataclass(frozen=True, slots=True)
class Config:
    files: tuple[str, ...]
    clusters: FrozenMap  # alias -> Client, the admin client of that cluster
    flows: tuple[FlowConfig, ...]
    problems: tuple[Problem, ...] = field(default=())  # warnings and notes; errors are raised
