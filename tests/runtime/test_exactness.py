"""Nothing is lost, nothing comes twice, whoever is killed or put to sleep while records flow.

Each test hurts a flow that runs, sees it move again, then compares both logs. A test that leaves the flow alive leaves
it to the next one: Spark takes ten seconds to start.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.runtime.conftest import Feed, Pair, Twin

from twinlog.lab.cluster import Cluster
from twinlog.lab.waiting import until

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
        """All that was written by now is there, once and in order; then records flow again."""
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
        assert stage.twin.terminate() == 0, stage.twin.said
        assert not stage.twin.left_over()


@pytest.fixture
def twin(stage: Stage) -> Twin:
    """A flow that runs."""
    return stage.twin if stage.twin is not None and stage.twin.running else stage.start()


def test_a_worker_is_killed(stage: Stage, twin: Twin, eu: Cluster) -> None:
    for _ in range(2):
        workers = twin.workers(eu)
        assert len(workers) == 2
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        stage.pair.wait_for_more(twin, TOPIC, seconds=20)
        until(lambda: len(twin.workers(eu)) == 2, "others should take their places")
    stage.settle()


def test_a_worker_sleeps(stage: Stage, twin: Twin, eu: Cluster) -> None:
    for worker in twin.workers(eu)[:1]:
        os.kill(worker, signal.SIGSTOP)
        time.sleep(6)
        os.kill(worker, signal.SIGCONT)
    stage.settle()


def test_the_reader_is_killed(stage: Stage, twin: Twin) -> None:
    os.kill(twin.reader, signal.SIGKILL)
    # It is not needed while an epoch lasts; then the query ends, and is started again.
    twin.wait_for("us->eu: the query ended (a Python process of Spark's is gone); it starts again in 1 s")
    stage.pair.wait_for_more(twin, TOPIC)
    stage.settle()


def test_everything_sleeps_for_half_a_minute(stage: Stage, twin: Twin) -> None:
    family = twin.family()
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(30)
    for pid in reversed(family):
        os.kill(pid, signal.SIGCONT)
    stage.pair.wait_for_more(twin, TOPIC)
    stage.settle()


def test_a_second_run_of_the_same_flow_takes_over(stage: Stage, twin: Twin, eu: Cluster) -> None:
    # The first sleeps with records in its hands, and will wake up later, when the second has long gone on. And without
    # its reader it has to start its query anew then: that must not make it the newer of the two.
    workers = twin.workers(eu)
    for pid in (*workers, twin.reader):
        os.kill(pid, signal.SIGSTOP if pid in workers else signal.SIGKILL)
    second = stage.start()
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    assert twin.wait(30) == 1
    assert twin.lines[-1] == "twinlog: another run of us->eu has begun: this one ends; run each flow in one place"
    assert not twin.left_over()
    assert second.running
    stage.settle()


def test_the_jvm_is_killed(stage: Stage, twin: Twin) -> None:
    os.kill(twin.jvm, signal.SIGKILL)
    assert twin.wait(20) == 1
    line, _, logs = twin.lines[-1].partition("; what it said is in ")
    assert line == "twinlog: Spark's Java process is gone; nothing is lost: start again to go on"
    assert (Path(logs) / "spark.log").is_file()
    assert not twin.left_over()
    stage.start()
    stage.settle()


def test_the_driver_is_killed(stage: Stage, twin: Twin) -> None:
    twin.kill()
    assert not twin.left_over()
    stage.start()
    stage.settle()
