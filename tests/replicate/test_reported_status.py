"""The status of stopped, blocked and idle partitions, assembled from the reports of a task."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import pytest

from lab import batches
from lab.batches import Record
from lab.cluster import Cluster
from lab.lab import Lab
from lab.raw_protocol import RawProtocol
from lab.transactions import Transactions
from lab.waiting import until
from twinlog.cli.plan import as_text, plan
from twinlog.config import load
from twinlog.journal.messages import Report, journal_topic
from twinlog.kafka.topic_reader import TopicReader
from twinlog.replicate import partition_lifecycle
from twinlog.replicate.task_spec import TaskSpec
from twinlog.status.flow import FlowStatus
from twinlog.status.idle_flow import partitions_of
from twinlog.status.partition import PartitionStatus

pytestmark = pytest.mark.broker


class Reported:
    """A FlowStatus, assembled from the journal as an observer does."""

    def __init__(self, flow: Any, run: str) -> None:
        self._client = TaskSpec(flow.config.flow, flow.config, (), ()).client("target")
        self._reader = TopicReader(self._client, journal_topic(flow.alias))
        self.status = FlowStatus(run, str(flow.config), flow.config.flow.source, flow.config.flow.target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._client.close()

    def read(self) -> Iterator[Report]:
        """Report by report, each of them added to the status."""
        for record in self._reader.read():
            report = Report.decode(record.value)
            if report is not None and report.run == self.status.run:
                self.status.add(report)
                yield report

    def __getitem__(self, topic: str) -> PartitionStatus:
        return self.status.partitions[f"{topic}-0"]

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
        def arrived() -> bool:
            return any(condition() for _ in self.read()) or (bool(self.status.partitions) and condition())

        until(arrived, what, seconds=seconds)


def _put(cluster: Cluster, topic: str, *sizes: int) -> None:
    with RawProtocol(cluster.client_properties()) as wire:
        for size in sizes:
            wire.produce(topic, 0, batches.encode([Record(int(time.time() * 1000), b"key", b"x" * size)]))


def test_a_refused_record_keeps_its_partition_stopped_until_it_is_copied(
    us: Cluster, eu: Cluster, topic: str, mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_lifecycle, "_STOPPED_RETRY_SECONDS", 0.3)
    flow = mirror(us, eu, topic, heartbeats__replication__enabled="false")
    us.create_topic(topic)
    eu.create_topic(flow.remote(topic), configs={"max.message.bytes": "2000"})
    _put(us, topic, 10, 5000, 10)
    with flow.start() as running, Reported(flow, running.relay.spec.run) as reported:
        reported.until(lambda: reported[topic].state == "stopped", "the record should be refused")
        refused = reported[topic]
        before = refused.counters["recoveries"]
        states: list[tuple[str, bool, int]] = []
        # Retries are not visible in the status.
        generation = running[topic].generation

        def seen() -> bool:
            states.extend(
                (refused.state, "refused by" in refused.error, refused.lag)
                for report in reported.read()
                if f"{topic}-0" in report.partitions
            )
            return running[topic].generation > generation + 20 and len(states) > 3

        until(seen, "retries")
        assert set(states) == {("stopped", True, 2)}
        assert refused.counters["recoveries"] == before, "retries of a stopped partition are not recoveries"
        level, reasons = (health := reported.status.health(0.0)).level, [str(reason) for reason in health.reasons]
        assert level == "broken"
        assert not [text for text in reasons if "tasks" in text or "records/s" in text], reasons

        # Later records make no difference.
        _put(us, topic, 10)
        reported.until(lambda: refused.end == 4, "the end should be reported")
        assert (refused.state, refused.lag) == ("stopped", 3)

        eu.alter_topic(flow.remote(topic), {"max.message.bytes": "100000"})
        reported.until(lambda: refused.state == "running" and refused.position == 4, "it should continue")
        assert not refused.error


def test_a_partition_behind_an_open_transaction_is_blocked(us: Cluster, eu: Cluster, topic: str, mirror: Any) -> None:
    flow = mirror(us, eu, topic, heartbeats__replication__enabled="false")
    us.create_topic(topic)
    now = int(time.time() * 1000)
    _put(us, topic, 10)
    flow.copy()
    with RawProtocol(us.client_properties()) as wire:
        transactions = Transactions(wire, f"{topic}-producer")
        transactions.produce(topic, 0, [Record(now, b"open", b"x")] * 3)
        _put(us, topic, 10, 10)
        # The plan of a flow that is not running.
        (standing,) = partitions_of(flow.config)
        assert (standing.position, standing.end, standing.stable, standing.lag) == (1, 6, 1, 5)
        assert standing.state_at(time.time() + 60) == "blocked"
        text = as_text(plan(load([flow.file]), [flow.config]))
        assert "1 partition; 5 offsets blocked by open transactions" in text, text
        assert "no backlog" not in text
        with flow.start() as running, Reported(flow, running.relay.spec.run) as reported:
            reported.until(lambda: reported[topic].stable == 1, "the transaction should be reported")
            blocked = reported[topic]
            assert (blocked.state, blocked.lag) == ("running", 5)
            later = time.time() + 60
            assert blocked.state_at(later) == "blocked", "not running"
            transactions.abort()
            reported.until(lambda: blocked.position == blocked.end, "the rest should be copied")
            assert blocked.state_at(later) == "running"


@pytest.fixture(scope="module")
def impatient(lab: Lab) -> Cluster:
    """Closes connections that have been idle for a second; real brokers do so after ten minutes."""
    return lab.cluster("impatient", settings={"connections.max.idle.ms": "1000"})


def test_an_idle_connection_that_is_closed_causes_no_event(
    impatient: Cluster, us: Cluster, topic: str, mirror: Any
) -> None:
    """Of the source, and of the target, of two flows at a time."""
    for cluster in (impatient, us):
        cluster.create_topic(topic)
        _put(cluster, topic, 10)
    flows = [mirror(impatient, us, topic), mirror(us, impatient, topic)]
    with ExitStack() as stack:
        runs = [stack.enter_context(flow.start()).relay.spec.run for flow in flows]
        observed = [stack.enter_context(Reported(flow, run)) for flow, run in zip(flows, runs, strict=True)]
        for flow in flows:
            flow.until_equal(topic)
        deadline = time.monotonic() + 8
        reports: list[list[Report]] = [[], []]
        while time.monotonic() < deadline:
            for some, reported in zip(reports, observed, strict=True):
                some.extend(reported.read())
            time.sleep(0.2)
        for flow, some, reported in zip(flows, reports, observed, strict=True):
            _put(flow.source, topic, 10)
            reported.until(partial(_is_at, reported, topic, 2), "later records should be copied")
            some.extend(reported.read())
            errors = {
                content["error"] for report in some for content in report.partitions.values() if "error" in content
            }
            events = [event["text"] for report in some for event in report.events]
            assert not errors, f"{flow.target.name}: {errors}"
            assert not events, f"{flow.target.name}: {events}"
            assert reported[topic].counters["recoveries"] == 0
            flow.until_equal(topic)


def _is_at(reported: Reported, topic: str, position: int) -> bool:
    return reported[topic].position == position
