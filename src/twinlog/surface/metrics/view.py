"""What one scrape shows: the board at this moment, with labels that are written once and used again."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from twinlog.connect.api import Worker
from twinlog.status.board import Board
from twinlog.status.flow import FlowStatus
from twinlog.status.partition import PartitionStatus
from twinlog.surface.metrics.connectors import Connector, connector_of, connectors
from twinlog.surface.metrics.process import Cost, Meter
from twinlog.surface.metrics.tally import Account, FlowTally
from twinlog.surface.metrics.text import jmx, labels

OF_MIRROR = ("source", "target", "topic", "partition")
OF_CONSUMER = ("clientid", "topic", "partition")
OF_TOPIC = ("flow", "topic")
OF_PARTITION = ("flow", "topic", "partition")


Placed = tuple[str, PartitionStatus]  # its labels, and what is known of it


@dataclass(frozen=True, slots=True)
class _Known:
    """A partition with its labels: made anew when it comes to another task, or its topic to another name."""

    status: PartitionStatus
    task: int
    remote: str
    connector: str
    mirror: Placed
    consumer: Placed
    own: Placed


@dataclass(slots=True)
class FlowView:
    status: FlowStatus
    connector: str  # the one that copies records
    tally: FlowTally
    now: float
    topics: list[tuple[str, Account]] = field(default_factory=list)
    own: list[Placed] = field(default_factory=list)
    mirror: list[Placed] = field(default_factory=list)
    consumer: list[Placed] = field(default_factory=list)

    def age(self, then_ms: float | None) -> float | None:
        return max(self.now - then_ms / 1000, 0.0) if then_ms else None


@dataclass(frozen=True, slots=True)
class View:
    flows: list[FlowView]
    connectors: list[Connector]
    cost: Cost | None


class Viewer:
    """Keeps what outlives a scrape. One thread at a time."""

    def __init__(self, board: Board, worker: Worker | None) -> None:
        self._board, self._worker = board, worker
        self._meter = Meter()
        self._tallies: dict[str, FlowTally] = {}
        self._known: dict[str, dict[str, _Known]] = {}  # flow -> partition
        self._topics: dict[str, dict[str, str]] = {}  # flow -> topic -> labels

    def look(self) -> View:
        flows = list(self._board.flows)
        there = connectors(self._worker, flows)
        names = {flow.name for flow in flows}
        self._tallies = {name: self._tallies.get(name) or FlowTally() for name in names}
        self._known = {name: self._known.get(name, {}) for name in names}
        self._topics = {name: self._topics.get(name, {}) for name in names}
        views = [self._flow(flow, connector_of(flow, there)) for flow in flows]
        _apart(views)
        return View(views, there, self._meter.look())

    def _flow(self, flow: FlowStatus, connector: str) -> FlowView:
        partitions = dict(flow.partitions)
        tally = self._tallies[flow.name]
        tally.take(flow, partitions)
        view = FlowView(flow, connector, tally, time.time())
        before = self._topics[flow.name]
        topics = {topic: before.get(topic) or labels(OF_TOPIC, (flow.name, topic)) for topic in tally.topics}
        self._topics[flow.name] = topics
        view.topics = list(zip(topics.values(), tally.topics.values(), strict=True))
        self._known[flow.name] = known = _known(flow, connector, partitions, self._known[flow.name])
        view.own = [each.own for each in known.values()]
        view.mirror = [each.mirror for each in known.values()]
        view.consumer = [each.consumer for each in known.values()]
        return view


def _known(
    flow: FlowStatus, connector: str, partitions: dict[str, PartitionStatus], before: dict[str, _Known]
) -> dict[str, _Known]:
    found = {}
    for name, each in partitions.items():
        known = before.get(name)
        if (
            known is None
            or known.status is not each
            or known.task != each.task
            or known.remote != each.remote
            or known.connector != connector
        ):
            known = _write(flow, connector, each)
        found[name] = known
    return found


def consumer_id(flow: FlowStatus, connector: str, task: int) -> str:
    return jmx(f"{flow.source}->{flow.target}|{connector}-{max(task, 0)}|replication-consumer")


def producer_id(connector: str, task: int) -> str:
    return jmx(f"connector-producer-{connector}-{max(task, 0)}")


def _write(flow: FlowStatus, connector: str, each: PartitionStatus) -> _Known:
    mirror = labels(OF_MIRROR, (jmx(flow.source), jmx(flow.target), jmx(each.remote), each.partition))
    client = consumer_id(flow, connector, each.task)
    consumer = labels(OF_CONSUMER, (client, jmx(each.topic), each.partition))
    own = labels(OF_PARTITION, (flow.name, each.topic, each.partition))
    return _Known(each, each.task, each.remote, connector, (mirror, each), (consumer, each), (own, each))


def _apart(views: Iterable[FlowView]) -> None:
    """Two flows between the same clusters may carry a topic both, and MM2's labels be the same: the first counts."""
    seen: dict[tuple[str, str], set[str]] = {}
    for view in views:
        pair = (view.status.source, view.status.target)
        if pair in seen:
            view.mirror = [(label, each) for label, each in view.mirror if label not in seen[pair]]
        seen.setdefault(pair, set()).update(label for label, _ in view.mirror)
