"""State of a running flow: its query, its starts and failures, its status."""

import uuid
from dataclasses import dataclass, field

from twinlog.config.flows import FlowConfig
from twinlog.spark.query import FlowQuery
from twinlog.status.flow import FlowStatus


@dataclass(slots=True)
class FlowRun:
    config: FlowConfig
    tasks: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    query: FlowQuery | None = None
    status: FlowStatus = field(init=False)
    starts: int = 0
    failures: int = 0  # consecutive
    started_at: float = 0.0
    retry_at: float = 0.0
    error: str = ""
    finished: bool = False
    journal_offset: int = -1  # up to which reports are in `status`

    def __post_init__(self) -> None:
        self.status = FlowStatus(self.run, self.name, self.config.flow.source, self.config.flow.target)

    @property
    def name(self) -> str:
        return str(self.config)
