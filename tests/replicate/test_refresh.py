"""`refresh.topics.*`: when new topics are looked for, over epochs and within one. The reader as Spark drives it, without Spark."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lab.cluster import Cluster
from twinlog.errors import UnreachableError
from twinlog.model import TopicPartition
from twinlog.replicate.task_spec import PartitionAssignment
from twinlog.spark import reader as reader_module
from twinlog.spark.options import Options, read_options
from twinlog.spark.reader import AssignmentReader, Discovery, EpochWatcher, TaskAssignment

pytestmark = pytest.mark.broker


class Reader:
    def __init__(self, folder: Path, us: Cluster, eu: Cluster, topics: str, *lines: str) -> None:
        file = folder / "mm2.properties"
        common = [
            "clusters = us, eu", f"us.bootstrap.servers = {us.bootstrap()}", f"eu.bootstrap.servers = {eu.bootstrap()}",
            "us->eu.enabled = true", "replication.factor = 1", "heartbeats.replication.enabled = false",
            "offset.storage.replication.factor = 1", "status.storage.replication.factor = 1", f"topics = {topics}",
            "offset.storage.partitions = 3", "offset-syncs.topic.replication.factor = 1",
        ]  # fmt: skip
        file.write_text("\n".join([*common, *lines]))
        self.reader = AssignmentReader(read_options({"config": str(file)}))
        self._at = self.reader.initialOffset()

    def epoch(self) -> set[str]:
        """The topics of the next one."""
        end = self.reader.latestOffset(self._at, ReadAllAvailable())
        groups = self.reader.partitions(self._at, end)
        self._at = end
        rows = [row for group in groups if isinstance(group, TaskAssignment) for row in self.reader.read(group)]
        return {row[4] for row in rows}

    def close(self) -> None:
        self.reader.stop()
        if self.reader._planner is not None:
            self.reader._planner.close()


Make = Callable[..., Reader]


@pytest.fixture
def reader(tmp_path: Path, us: Cluster, eu: Cluster, topic: str) -> Iterator[Make]:
    made: list[Reader] = []

    def make(*lines: str) -> Reader:
        made.append(Reader(tmp_path, us, eu, f"{topic}.*", *lines))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "line",
    [
        "refresh.topics.enabled = false",
        "refresh.topics.interval.seconds = 3600",
        "refresh.topics.interval.seconds = -1",
    ],
)
def test_new_topics_are_not_looked_for(us: Cluster, topic: str, reader: Make, line: str) -> None:
    """Nor are their remote topics created: that is left to the operator."""
    us.create_topic(topic)
    flow = reader(line)
    assert flow.epoch() == {topic}
    us.create_topic(f"{topic}-new")
    assert flow.epoch() == {topic}
    assert flow.reader._planner is not None
    assert f"us.{topic}-new" not in flow.reader._planner.target.metadata(None).topics
    flow.reader._discovery.changed()  # as if the interval had passed, or the watch had seen it
    assert flow.epoch() == {topic, f"{topic}-new"}


def test_by_default_they_are(us: Cluster, topic: str, reader: Make) -> None:
    us.create_topic(topic)
    flow = reader("refresh.topics.interval.seconds = 0")
    assert flow.epoch() == {topic}
    us.create_topic(f"{topic}-new")
    flow.reader._discovery.wait = lambda: 0.0  # type: ignore[method-assign]
    assert flow.epoch() == {topic, f"{topic}-new"}


class TestDiscovery:
    def test_it_is_due_once_an_interval(self) -> None:
        now = [100.0]
        found = Discovery(3600.0, 5.0, lambda: now[0])
        assert found.wait() == 0
        found.done(empty=False)
        assert found.wait() == 3600
        now[0] += 3599
        assert found.wait() == 1
        found.changed()
        assert found.wait() == 0

    def test_while_there_is_nothing_to_copy_it_may_be_due_sooner(self) -> None:
        found = Discovery(30.0, 5.0, lambda: 100.0)
        found.done(empty=True)
        assert found.wait() == 5

    def test_never(self) -> None:
        found = Discovery(float("inf"), float("inf"), lambda: 100.0)
        found.done(empty=True)
        assert found.wait() == float("inf")

    @pytest.mark.parametrize(
        ("lines", "every", "empty"),
        [
            ("", 30, 5),
            ("refresh.topics.interval.seconds = 3600", 3600, 3600),
            ("refresh.topics.interval.seconds = 0", 1, 1),
            ("refresh.topics.interval.seconds = -1", float("inf"), float("inf")),
            ("refresh.topics.enabled = false", float("inf"), float("inf")),
        ],
    )
    def test_as_it_is_configured(self, tmp_path: Path, lines: str, every: float, empty: float) -> None:
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = us, eu\nus.bootstrap.servers = a:1\neu.bootstrap.servers = b:1\nus->eu.enabled = true\n{lines}\n"
        )
        options = read_options({"config": str(file)})
        assert (options.refresh_seconds, options.empty_seconds) == (every, empty)


class FakePlanner:
    """Counts what the watch of an epoch asks for."""

    def __init__(self, *_: object) -> None:
        self.reads = threading.Semaphore(0)
        self.searches = 0
        self.commands: list[tuple[str, int]] = []
        self.closed = threading.Event()

    def discover(self) -> list[PartitionAssignment]:
        self.searches += 1
        return [PartitionAssignment(TopicPartition("new", 0), TopicPartition("us.new", 0))]

    def read_reports(self) -> None:
        self.reads.release()

    def is_unbalanced(self, _: object) -> bool:
        return False

    def command(self, verb: str, epoch: int) -> None:
        self.commands.append((verb, epoch))

    def close(self) -> None:
        self.closed.set()


class TestTheWatchOfAnEpoch:
    @pytest.fixture
    def planner(self, monkeypatch: pytest.MonkeyPatch) -> FakePlanner:
        planner = FakePlanner()
        monkeypatch.setattr(reader_module, "Planner", lambda *_: planner)
        monkeypatch.setattr(reader_module, "_BALANCE", 0.01)
        return planner

    @pytest.fixture
    def options(self, tmp_path: Path) -> Options:
        file = tmp_path / "mm2.properties"
        file.write_text(
            "clusters = us, eu\nus.bootstrap.servers = a:1\neu.bootstrap.servers = b:1\nus->eu.enabled = true\n"
        )
        return read_options({"config": str(file)})

    def test_it_goes_on_looking_for_balance_without_searching_for_topics(
        self, planner: FakePlanner, options: Options
    ) -> None:
        discovery = Discovery(float("inf"), float("inf"))
        discovery.done(empty=False)
        watch = EpochWatcher(options, [], 7, discovery)
        for _ in range(5):
            assert planner.reads.acquire(timeout=10)
        watch.close()
        assert planner.closed.wait(10)
        assert (planner.searches, planner.commands) == (0, [])

    def test_new_topics_found_by_a_refresh_end_the_epoch(self, planner: FakePlanner, options: Options) -> None:
        discovery = Discovery(3600.0, 3600.0)
        EpochWatcher(options, [], 7, discovery)
        assert planner.closed.wait(10)
        assert (planner.searches, planner.commands) == (1, [("end", 7)])
        assert discovery.wait() == 0


def test_what_cannot_be_reported_ends_nothing_and_is_reported_later(us: Cluster, topic: str, reader: Make) -> None:
    for name in (topic, f"eu.{topic}"):
        us.create_topic(name)
    flow = reader("topics.exclude =", rf"us->eu.topics = {topic}, eu\\.{topic}")
    reported: list[dict[str, Any]] = []

    def refuse(_: list[dict[str, Any]]) -> None:
        raise UnreachableError("cluster eu cannot be reached")

    flow.reader._retry(lambda planner: setattr(planner, "report", refuse))
    assert flow.epoch() == {topic}
    flow.reader._retry(lambda planner: setattr(planner, "report", reported.extend))
    assert [event["kind"] for event in reported] == ["cycle"]
