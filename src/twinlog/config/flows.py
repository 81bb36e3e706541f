"""The configuration once it is read: frozen, typed, picklable. `repr` shows no secret."""

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from twinlog.config.clients import CLIENT_KEYS
from twinlog.config.kinds import checked
from twinlog.config.layers import letter
from twinlog.config.problems import Problem
from twinlog.config.settings import (
    CheckpointSettings,
    CommonSettings,
    HeartbeatSettings,
    SourceSettings,
    WorkerSettings,
)
from twinlog.config.values import FrozenMap
from twinlog.model import Flow

S = TypeVar("S", bound=CommonSettings)
State = Literal["running", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class Client:
    """What one Kafka client is given: Java's keys, text values, defaults by Kafka's table."""

    role: str  # source.consumer, target.admin, data.producer ...
    values: FrozenMap

    def __getitem__(self, key: str) -> Any:
        """The typed value in effect."""
        row = CLIENT_KEYS[letter(self.role)][key]
        return checked(row.kind, row.check, self.values[key].text) if key in self.values else row.default


@dataclass(frozen=True, slots=True)
class Connector(Generic[S]):
    """One of the three connectors of a flow, as MM2 would configure it."""

    kind: str  # MirrorSourceConnector ..., whatever its connector.class calls it
    settings: S
    values: FrozenMap  # MM2's whole map of it, each value with its origin
    clients: FrozenMap  # role -> Client
    state: State = "running"  # Connect's and Strimzi's switch, beside `enabled`


@dataclass(frozen=True, slots=True)
class Worker:
    """What MM2 would give to the Connect worker on the target."""

    settings: WorkerSettings
    values: FrozenMap


@dataclass(frozen=True, slots=True)
class FlowConfig:
    flow: Flow
    worker: Worker
    source: Connector[SourceSettings] | None = None
    checkpoint: Connector[CheckpointSettings] | None = None
    heartbeat: Connector[HeartbeatSettings] | None = None
    label: str = ""  # tells two flows between the same clusters apart

    def __str__(self) -> str:
        return f"{self.flow} ({self.label})" if self.label else str(self.flow)

    @property
    def replicates(self) -> bool:
        """Whether records are copied; a flow that copies none may still emit heartbeats, for the way back."""
        return self.source is not None and self.source.settings.enabled and self.source.state == "running"

    @property
    def emits_heartbeats(self) -> bool:
        beat = self.heartbeat
        return beat is not None and beat.settings.emit_heartbeats_enabled and beat.state == "running"

    @property
    def emits_checkpoints(self) -> bool:
        point = self.checkpoint
        return (
            point is not None
            and point.settings.enabled
            and point.settings.emit_checkpoints_enabled
            and point.state == "running"
        )

    @property
    def connectors(self) -> dict[str, "Connector[Any]"]:
        named = {"source": self.source, "checkpoint": self.checkpoint, "heartbeat": self.heartbeat}
        return {name: connector for name, connector in named.items() if connector is not None}


@dataclass(frozen=True, slots=True)
class Config:
    files: tuple[str, ...]
    clusters: FrozenMap  # alias -> Client, what an administrator's client of that cluster is given
    flows: tuple[FlowConfig, ...]
    problems: tuple[Problem, ...] = field(default=())  # warnings and notes; an error never gets here
