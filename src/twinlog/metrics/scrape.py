"""The data of one scrape: the current flow statuses, with cached labels."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from twinlog.connect.worker_api import Worker
from twinlog.metrics.connectors import LEGACY, Connector, checkpoint_connector_of, connector_of, connectors
from twinlog.metrics.counters import FlowCounters, Totals
from twinlog.metrics.process import Usage, UsageReader
from twinlog.metrics.text_format import jmx, labels
from twinlog.status.flow import FlowStatus
from twinlog.status.flow_board import FlowBoard
from twinlog.status.partition import PartitionStatus

OF_MIRROR = ("source", "target", "topic", "partition")
OF_CONSUMER = ("clientid", "topic", "partition")
OF_TOPIC = ("flow", "topic")
OF_PARTITION = ("flow", "topic", "partition")


Labelled = tuple[str, PartitionStatus]  # labels as text, status


@dataclass(frozen=True, slots=True)
class _CachedLabels:
    """A partition with its labels; replaced if its task, remote topic or connector changes."""

    status: PartitionStatus
    task: int
    remote: str
    connector: str
    mirror: Labelled
    consumer: Labelled
    own: Labelled


@dataclass(slots=True)
class FlowScrape:
    status: FlowStatus
    connector: str  # the source connector
    counters: FlowCounters
    now: float
    formats: frozenset[str] = frozenset({LEGACY})  # of the source connector's metrics
    checkpoints: Connector | None = None  # the checkpoint connector, if a worker has one
    topics: list[tuple[str, Totals]] = field(default_factory=list)
    own: list[Labelled] = field(default_factory=list)
    mirror: list[Labelled] = field(default_factory=list)
    consumer: list[Labelled] = field(default_factory=list)

    def age(self, then_ms: float | None) -> float | None:
        return max(self.now - then_ms / 1000, 0.0) if then_ms else None


@dataclass(frozen=True, slots=True)
class Scrape:
    flows: list[FlowScrape]
    connectors: list[Connector]
    usage: Usage | None


class Scraper:
    """Keeps counters and labels between scrapes. Not thread-safe."""

    def __init__(self, board: FlowBoard, worker: Worker | None) -> None:
        self._board, self._worker = board, worker
        self._usage_reader = UsageReader()
        self._counters: dict[str, FlowCounters] = {}
        self._labels: dict[str, dict[str, _CachedLabels]] = {}  # flow -> partition
        self._topics: dict[str, dict[str, str]] = {}  # flow -> topic -> labels

    def scrape(self) -> Scrape:
        flows = list(self._board.flows)
        known = connectors(self._worker, flows)
        names = {flow.name for flow in flows}
        self._counters = {name: self._counters.get(name) or FlowCounters() for name in names}
        self._labels = {name: self._labels.get(name, {}) for name in names}
        self._topics = {name: self._topics.get(name, {}) for name in names}
        scrapes = [self._flow(flow, known) for flow in flows]
        _drop_duplicate_series(scrapes)
        return Scrape(scrapes, known, self._usage_reader.read())

    def _flow(self, flow: FlowStatus, known: list[Connector]) -> FlowScrape:
        connector = connector_of(flow, known)
        partitions = dict(flow.partitions)
        counters = self._counters[flow.name]
        counters.update(flow, partitions)
        scrape = FlowScrape(flow, connector, counters, time.time(), checkpoints=checkpoint_connector_of(flow, known))
        scrape.formats = next((each.formats for each in known if each.name == connector), scrape.formats)
        before = self._topics[flow.name]
        topics = {topic: before.get(topic) or labels(OF_TOPIC, (flow.name, topic)) for topic in counters.topics}
        self._topics[flow.name] = topics
        scrape.topics = list(zip(topics.values(), counters.topics.values(), strict=True))
        self._labels[flow.name] = cached = _cached(flow, connector, partitions, self._labels[flow.name])
        scrape.own = [each.own for each in cached.values()]
        scrape.mirror = [each.mirror for each in cached.values()] if LEGACY in scrape.formats else []
        scrape.consumer = [each.consumer for each in cached.values()]
        return scrape


def _cached(
    flow: FlowStatus, connector: str, partitions: dict[str, PartitionStatus], before: dict[str, _CachedLabels]
) -> dict[str, _CachedLabels]:
    found = {}
    for name, each in partitions.items():
        cached = before.get(name)
        if (
            cached is None
            or cached.status is not each
            or cached.task != each.task
            or cached.remote != each.remote
            or cached.connector != connector
        ):
            cached = _labels_of(flow, connector, each)
        found[name] = cached
    return found


def consumer_id(flow: FlowStatus, connector: str, task: int) -> str:
    return jmx(f"{flow.source}->{flow.target}|{connector}-{max(task, 0)}|replication-consumer")


def producer_id(connector: str, task: int) -> str:
    return jmx(f"connector-producer-{connector}-{max(task, 0)}")


def _labels_of(flow: FlowStatus, connector: str, each: PartitionStatus) -> _CachedLabels:
    mirror = labels(OF_MIRROR, (jmx(flow.source), jmx(flow.target), jmx(each.remote), each.partition))
    client = consumer_id(flow, connector, each.task)
    consumer = labels(OF_CONSUMER, (client, jmx(each.topic), each.partition))
    own = labels(OF_PARTITION, (flow.name, each.topic, each.partition))
    return _CachedLabels(each, each.task, each.remote, connector, (mirror, each), (consumer, each), (own, each))


def _drop_duplicate_series(scrapes: Iterable[FlowScrape]) -> None:
    """If two flows between the same clusters replicate a topic, MM2's labels are the same: the first flow's remain."""
    seen: dict[tuple[str, str], set[str]] = {}
    for scrape in scrapes:
        pair = (scrape.status.source, scrape.status.target)
        if pair in seen:
            scrape.mirror = [(label, each) for label, each in scrape.mirror if label not in seen[pair]]
        seen.setdefault(pair, set()).update(label for label, _ in scrape.mirror)
