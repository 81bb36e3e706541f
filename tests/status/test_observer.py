"""A flow that is watched through a real journal: who tells of it and who watches it share nothing else."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.mirrormaker import mirror_properties
from lab.waiting import until
from tests.status.samples import made_report
from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.config.properties import properties_text
from twinlog.journal.messages import REPORTS, SupervisorReport, journal_topic
from twinlog.kafka.topic_writer import write
from twinlog.model import TopicPartition
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.report_listener import ReportListener
from twinlog.runtime.status_publisher import FlowPublisher, FlowState
from twinlog.status.flow import FlowStatus
from twinlog.status.observer import Observer
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.internal_topics import wait_for_topics

pytestmark = pytest.mark.broker


@pytest.fixture
def config(us: Cluster, eu: Cluster, tmp_path: Path, topic: str) -> FlowConfig:
    """Its source has an alias of its own, so it has a journal of its own; and no topics."""
    file = tmp_path / "mm2.properties"
    alias = topic.replace("-", "")[-20:]
    wanted = {"topics": f"{topic}-none", "heartbeats.replication.enabled": "false"}
    text = properties_text(mirror_properties([us, eu], [(us, eu)], wanted))
    lines = [line.replace("us->eu", f"{alias}->eu") for line in text.splitlines()]
    lines = [line.replace("us.", f"{alias}.", 1) if line.startswith("us.") else line for line in lines]
    file.write_text(
        "\n".join(line.replace("us,", f"{alias},") if line.startswith("clusters") else line for line in lines)
    )
    (flow,) = [each for each in load([str(file)]).flows if each.replicates]
    return flow


@pytest.fixture
def journal(config: FlowConfig) -> Iterator["Journal"]:
    journal = Journal(config)
    yield journal
    journal.close()


class Journal:
    """Written to as tasks and supervisors do."""

    def __init__(self, config: FlowConfig) -> None:
        self.config = config
        self._client = FlowClients(config).client("data.producer")
        self._place = TopicPartition(journal_topic(config.flow.source), REPORTS)
        self._client.create_topic(self._place.topic, 2, 1, {})
        wait_for_topics(self._client, {self._place.topic: 2})
        self._publishers: list[FlowPublisher] = []
        self._listeners: list[ReportListener] = []

    def put(self, value: bytes, time_ms: float | None = None) -> None:
        write(self._client, self._place, [(int(time_ms or time.time() * 1000), None, value)])

    def report(self, run: str, step: int, **manner: Any) -> None:
        self.put(made_report(run, time.time(), 3, 2, step=step, **manner).encode())

    def run(self) -> tuple[FlowRun, ReportListener, FlowPublisher]:
        """A process that runs the flow, as far as others can tell."""
        flow = FlowRun(self.config, 2)
        listener = ReportListener(flow)
        self._listeners.append(listener)
        on_record(listener, lambda: flow.journal_offset >= 0)
        publisher = FlowPublisher(flow)
        self._publishers.append(publisher)
        return flow, listener, publisher

    def close(self) -> None:
        for listener in self._listeners:
            listener.finish(_nothing)
        for publisher in self._publishers:
            publisher.close(3)
        self._client.close()


def _nothing(flow: str, text: str) -> None:
    del flow, text


def on_record(listener: ReportListener, heard: Callable[[], bool]) -> None:
    def heard_by_now() -> bool:
        listener.apply_reports(_nothing)
        return heard()

    until(heard_by_now, "what is reported should be heard", seconds=30)


def seen(config: FlowConfig) -> FlowStatus:
    observer = Observer(config)
    try:
        observer.observe()
        return observer.status
    finally:
        observer.close()


def test_without_a_journal_the_flow_has_never_run(config: FlowConfig) -> None:
    status = seen(config)
    assert (status.state, status.reported_ms, status.lag, status.observation_error) == ("silent", 0, 0, "")


def test_a_later_observer_has_the_same_status(config: FlowConfig, journal: Journal) -> None:
    flow, listener, publisher = journal.run()
    journal.report(flow.run, 1)
    journal.report(flow.run, 5)
    on_record(listener, lambda: flow.status.total("records") == 30)
    flow.starts = 3
    publisher.publish(FlowState(flow, "running"))  # a run with a past: the keyframe is written at once
    journal.report(flow.run, 9, lag=4)  # and one that is not in it

    until(lambda: seen(config).total("records") == 54, "all of it should be known", seconds=30)
    status = seen(config)
    assert (status.run, status.state, status.tasks, status.starts) == (flow.run, "running", 2, 3)
    assert (status.lag, len(status.partitions)) == (24, 6)
    listener.apply_reports(_nothing)
    assert status.total("records") == flow.status.total("records")

    publisher.publish(FlowState(flow, "idle"), last=True)
    publisher.close(5)
    assert seen(config).state == "stopped"
    assert seen(config).total("records") == 54


def test_it_begins_with_the_keyframe_and_not_with_what_was_before(config: FlowConfig, journal: Journal) -> None:
    flow, listener, publisher = journal.run()
    journal.report(flow.run, 2)
    on_record(listener, lambda: flow.status.total("records") == 12)
    flow.status.events.append({"time": 1, "kind": "only here", "text": "no report has it"})
    publisher.publish(FlowState(flow, "running"))
    publisher.publish(FlowState(flow, "retrying"))  # its bulletin names the keyframe
    until(lambda: seen(config).state == "retrying", "the bulletin should be read", seconds=60)
    assert [event["kind"] for event in seen(config).events if event["kind"] == "only here"] == ["only here"]


def test_a_successor_is_seen_and_a_process_that_is_gone_is_missed(config: FlowConfig, journal: Journal) -> None:
    now = int(time.time() * 1000)

    def supervisor_report(run: str, began: int, ago: int) -> bytes:
        return SupervisorReport(str(config), run, began, now - ago, "running", tasks=1).encode()

    journal.put(supervisor_report("first", 100, 300_000), now - 300_000)
    journal.report("first", 7)
    status = seen(config)
    assert (status.run, status.state, status.reported_ms) == ("first", "silent", now - 300_000)
    assert "no report since 5 min ago" in str(status.health().reasons[0])
    journal.put(supervisor_report("second", 200, 0))
    journal.report("second", 3)
    journal.put(supervisor_report("first", 100, -500))  # its last words, after the second has begun
    status = seen(config)
    assert (status.run, status.state, status.total("records")) == ("second", "running", 18)


def test_records_of_others_in_the_journal_are_ignored(config: FlowConfig, journal: Journal) -> None:
    now = int(time.time() * 1000)
    for value in (b"", b"{}", b"\xff" * 50, b"\x00frame\x00junk", b'{"bulletin": {"flow": 3}}'):
        journal.put(value)
    journal.put(SupervisorReport(str(config), "run", now, now, "running", keyframe=0).encode())  # there is none
    journal.report("run", 4)
    assert seen(config).total("records") == 24
