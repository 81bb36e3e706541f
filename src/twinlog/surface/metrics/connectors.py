"""Connectors and their tasks, as Connect's own metrics tell of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.connect.api import Worker
from twinlog.connect.errors import ConnectError
from twinlog.status.flow import FlowStatus

SOURCE = "MirrorSourceConnector"
_STATES = {"starting": "running", "finished": "running", "silent": "running", "retrying": "restarting"}


@dataclass(frozen=True, slots=True)
class ConnectorTask:
    id: int
    status: str  # running, paused, failed ...: Connect's words, in lower case


@dataclass(frozen=True, slots=True)
class Connector:
    name: str
    kind: str  # the class, without its package
    source: str
    target: str
    tasks: tuple[ConnectorTask, ...]
    worker: str = ""  # host:port of the one that runs it

    def having(self, status: str) -> int:
        return sum(task.status == status for task in self.tasks)


def connectors(worker: Worker | None, flows: Sequence[FlowStatus]) -> list[Connector]:
    """Those of the worker; where there is none, one for each flow."""
    if worker is None:
        return [_of_flow(flow) for flow in flows]
    try:
        names = worker.names()
    except ConnectError:
        return []
    return [each for name in names if (each := _of_worker(worker, name)) is not None]


def connector_of(flow: FlowStatus, there: Sequence[Connector]) -> str:
    """The name of the one that copies a flow's records."""
    label = _label(flow)
    between = [each.name for each in there if _copies(each, flow)]
    if label in between:
        return label
    return next(iter(between), _name(flow))


def _copies(connector: Connector, flow: FlowStatus) -> bool:
    return (connector.kind, connector.source, connector.target) == (SOURCE, flow.source, flow.target)


def _of_worker(worker: Worker, name: str) -> Connector | None:
    try:
        config, status = worker.config(name), worker.status(name)
    except ConnectError:  # deleted meanwhile, or not known yet
        return None
    kind = config.get("connector.class", "").rpartition(".")[2]
    return Connector(
        name,
        kind.removesuffix("Connector") + "Connector",  # its short alias will do
        config.get("source.cluster.alias", ""),
        config.get("target.cluster.alias", ""),
        tuple(ConnectorTask(int(task["id"]), str(task["state"]).lower()) for task in status.get("tasks", ())),
        str(status.get("connector", {}).get("worker_id", "")),
    )


def _of_flow(flow: FlowStatus) -> Connector:
    status = _STATES.get(flow.state, flow.state)
    tasks = () if status == "stopped" else tuple(ConnectorTask(task, status) for task in range(flow.tasks))
    return Connector(_label(flow) or _name(flow), SOURCE, flow.source, flow.target, tasks)


def _name(flow: FlowStatus) -> str:
    """As Strimzi calls it."""
    return f"{flow.source}->{flow.target}.{SOURCE}"


def _label(flow: FlowStatus) -> str:
    """A second flow between the same clusters has the name of its connector in brackets."""
    return flow.name.removeprefix(f"{flow.source}->{flow.target}").strip().removeprefix("(").removesuffix(")")
