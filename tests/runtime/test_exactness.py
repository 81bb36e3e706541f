"""No record is lost or duplicated when processes are killed or suspended.

Each test disturbs a running flow, waits for progress, then compares both logs. If the flow still runs it is used by the
next test: Spark takes ten seconds to start.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.waiting import until
from tests.runtime.conftest import Feed, Pair, Twin

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TOPIC = "exactness"


@dataclass
class Stage:
    pair: Pair
    file: Path
    feed: Feed
    twin: Twin | None = None

    def start(self) -> Twin:
        self.twin = self.pair.run(self.file)
        self.twin.wait_for("us->eu: relaying", seconds=120)
        self.pair.wait_for_more(self.twin, TOPIC, seconds=120)
        return self.twin

    def settle(self) -> None:
        """All records written so far are on the target, once and in order; then the feed continues."""
        self.feed.pause()
        self.pair.wait_until_equal(TOPIC)
        self.feed.flow()


@pytest.fixture(scope="module")
def stage(pair: Pair, us: Cluster) -> Iterator[Stage]:
    us.create_topic(TOPIC, 6)
    feed = pair.feed(TOPIC, per_second=2000)
    feed.flow()
    stage = Stage(pair, pair.file({"topics": TOPIC, "tasks.max": "2", "twinlog.epoch.seconds": "10"}), feed)
    yield stage
    if stage.twin is not None and stage.twin.running:
        assert stage.twin.terminate() == 0, stage.twin.output
        assert not stage.twin.left_over()


@pytest.fixture
def twin(stage: Stage) -> Twin:
    """A flow that runs."""
    return stage.twin if stage.twin is not None and stage.twin.running else stage.start()


def test_a_worker_is_killed(stage: Stage, twin: Twin, eu: Cluster) -> None:
    for _ in range(2):
        workers: list[int] = []

        def two_connected(found: list[int] = workers) -> bool:
            found[:] = twin.workers(eu)
            return len(found) == 2  # fewer for a moment after an epoch has ended

        until(two_connected, "two workers are connected")
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        stage.pair.wait_for_more(twin, TOPIC)
    until(lambda: len(twin.workers(eu)) == 2, "replaced workers")
    stage.settle()


def test_a_worker_is_suspended(stage: Stage, twin: Twin, eu: Cluster) -> None:
    for worker in twin.workers(eu)[:1]:
        os.kill(worker, signal.SIGSTOP)
        time.sleep(6)
        os.kill(worker, signal.SIGCONT)
    stage.settle()


def test_the_reader_is_killed(stage: Stage, twin: Twin) -> None:
    os.kill(twin.reader, signal.SIGKILL)
    # It is not needed during an epoch; then the query fails, and is restarted.
    twin.wait_for("us->eu: query failed: a Python process of Spark exited; retrying in 1 s")
    stage.pair.wait_for_more(twin, TOPIC)
    stage.settle()


@pytest.mark.slow
def test_all_processes_are_suspended_for_30_seconds(stage: Stage, twin: Twin) -> None:
    processes = twin.processes()
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(30)
    for pid in reversed(processes):
        os.kill(pid, signal.SIGCONT)
    stage.pair.wait_for_more(twin, TOPIC)
    stage.settle()


def test_a_second_run_of_the_same_flow_takes_over(stage: Stage, twin: Twin, eu: Cluster) -> None:
    # The first is suspended with records in flight and resumed after the takeover. Its reader is killed too, so that it
    # restarts its query: that must not make it the newer run.
    workers = twin.workers(eu)
    for pid in (*workers, twin.reader):
        os.kill(pid, signal.SIGSTOP if pid in workers else signal.SIGKILL)
    second = stage.start()
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    assert twin.wait(60) == 1
    assert twin.lines[-1].startswith("twinlog: flow us->eu was taken over by another instance (")
    assert twin.lines[-1].endswith("; run each flow in one place")
    assert not twin.left_over()
    assert second.running
    stage.settle()


@pytest.mark.slow
def test_the_jvm_is_killed(stage: Stage, twin: Twin) -> None:
    os.kill(twin.jvm, signal.SIGKILL)
    assert twin.wait(150) == 1
    last = next(line for line in twin.lines if "; its log is in " in line)  # lines of Spark's log may follow
    line, _, logs = last.removesuffix(". Last lines:").partition("; its log is in ")
    assert line == "twinlog: Spark's JVM exited; no data is lost, restart to resume"
    assert (Path(logs) / "spark.log").is_file()
    assert not twin.left_over()
    stage.start()
    stage.settle()


def test_the_driver_is_killed(stage: Stage, twin: Twin) -> None:
    twin.kill()
    assert not twin.left_over()
    stage.start()
    stage.settle()
