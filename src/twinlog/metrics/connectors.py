"""Connectors and their tasks, for Connect's own metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.connect.errors import ConnectError
from twinlog.connect.worker_api import Worker
from twinlog.status.flow import FlowStatus

SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
LEGACY, NEW = "legacy", "new"  # formats of MM2's own metrics
_STATES = {"starting": "running", "finished": "running", "silent": "running", "retrying": "restarting"}


@dataclass(frozen=True, slots=True)
class ConnectorTask:
    id: int
    status: str  # Connect's states in lower case: running, paused, failed ...


@dataclass(frozen=True, slots=True)
class Connector:
    name: str
    kind: str  # the class, without package
    source: str
    target: str
    tasks: tuple[ConnectorTask, ...]
    worker: str = ""  # host:port
    formats: frozenset[str] = frozenset({LEGACY})

    def count(self, status: str) -> int:
        return sum(task.status == status for task in self.tasks)


def connectors(worker: Worker | None, flows: Sequence[FlowStatus]) -> list[Connector]:
    """The worker's connectors; without a worker, one per flow."""
    if worker is None:
        return [_of_flow(flow) for flow in flows]
    try:
        names = worker.names()
    except ConnectError:
        return []
    return [each for name in names if (each := _of_worker(worker, name)) is not None]


def checkpoint_connector_of(flow: FlowStatus, known: Sequence[Connector]) -> Connector | None:
    """The first checkpoint connector between the flow's clusters."""
    wanted = (CHECKPOINT, flow.source, flow.target)
    return next((each for each in known if (each.kind, each.source, each.target) == wanted), None)


def connector_of(flow: FlowStatus, known: Sequence[Connector]) -> str:
    """The name of the source connector that replicates the flow's records."""
    label = _label(flow)
    between = [each.name for each in known if _replicates(each, flow)]
    if label in between:
        return label
    return next(iter(between), _name(flow))


def _replicates(connector: Connector, flow: FlowStatus) -> bool:
    return (connector.kind, connector.source, connector.target) == (SOURCE, flow.source, flow.target)


def _of_worker(worker: Worker, name: str) -> Connector | None:
    try:
        config, status = worker.config(name), worker.status(name)
    except ConnectError:  # deleted meanwhile, or not known yet
        return None
    kind = (config.get("connector.class") or "").rpartition(".")[2]
    return Connector(
        name,
        kind.removesuffix("Connector") + "Connector",  # the class may be a short alias
        config.get("source.cluster.alias") or "",
        config.get("target.cluster.alias") or "",
        tuple(ConnectorTask(int(task["id"]), str(task["state"]).lower()) for task in status.get("tasks", ())),
        str(status.get("connector", {}).get("worker_id", "")),
        _formats(config.get("metric.names.formats")),
    )


def _formats(setting: str | None) -> frozenset[str]:
    """The value of `metric.names.formats`, or MM2's default."""
    return frozenset(map(str.strip, (setting or "").split(","))) & {LEGACY, NEW} or frozenset({LEGACY})


def _of_flow(flow: FlowStatus) -> Connector:
    status = _STATES.get(flow.state, flow.state)
    tasks = () if status == "stopped" else tuple(ConnectorTask(task, status) for task in range(flow.tasks))
    return Connector(_label(flow) or _name(flow), SOURCE, flow.source, flow.target, tasks)


def _name(flow: FlowStatus) -> str:
    """The name in Strimzi."""
    return f"{flow.source}->{flow.target}.{SOURCE}"


def _label(flow: FlowStatus) -> str:
    """The name of the connector, which is part of the flow's name if several flows connect the same clusters."""
    return flow.name.removeprefix(f"{flow.source}->{flow.target}").strip().removeprefix("(").removesuffix(")")
