"""One flow while it is run: its query, how often it was started, what is known of it."""

import uuid
from dataclasses import dataclass, field

from twinlog.config.flows import FlowConfig
from twinlog.kafka.client import Client
from twinlog.pipeline.query import FlowQuery
from twinlog.status.flow import FlowStatus


@dataclass(slots=True)
class FlowRun:
    config: FlowConfig
    tasks: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    query: FlowQuery | None = None
    status: FlowStatus = field(init=False)
    starts: int = 0
    failures: int = 0  # in a row
    began: float = 0.0
    again_at: float = 0.0
    error: str = ""
    finished: bool = False

    heard: int = -1  # the offset in the journal up to which reports are in `status`

    def __post_init__(self) -> None:
        self.status = FlowStatus(self.run, self.name, self.config.flow.source, self.config.flow.target)

    @property
    def name(self) -> str:
        return str(self.config)


def client_of(config: FlowConfig, side: str) -> Client:
    assert config.source is not None
    role = "source.consumer" if side == "source" else "data.producer"
    alias = config.flow.source if side == "source" else config.flow.target
    return Client(alias, config.source.clients[role], f"twinlog-{config.flow}")
