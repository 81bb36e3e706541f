"""Flows that run here, without Spark: a relay in a thread, or in a process of its own that can be killed."""

import itertools
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from confluent_kafka import Producer

from twinlog.config import FlowConfig, load
from twinlog.errors import KafkaError
from twinlog.kafka.reading import TopicReader
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import Comparison, compare, tally
from twinlog.lab.lab import Lab
from twinlog.lab.process import Process
from twinlog.lab.waiting import until
from twinlog.lab.wire import Wire
from twinlog.model import TopicPartition
from twinlog.pipeline.job import Claim, Job
from twinlog.pipeline.partition import Partition, State
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.relay import Relay
from twinlog.tracking.journal import Report, journal_topic

_SCRIPT = Path(__file__).with_name("run_relay.py")
_counter = itertools.count(1)


class Running:
    """One task of one epoch, in a thread. Leaving it ends the epoch in good order."""

    def __init__(self, job: Job) -> None:
        self.relay = Relay(job)
        self.why = ""
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.relay.end("test")
        self.wait()

    def wait(self, seconds: float = 60) -> str:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"still running after {seconds} s: {self}"
        if self.failure is not None:
            raise self.failure
        return self.why

    def _run(self) -> None:
        try:
            self.why = self.relay.run()
        except BaseException as error:  # noqa: BLE001  # shown where it is waited for
            self.failure = error

    def __str__(self) -> str:
        return "; ".join(
            f"{p.place} {p.state} at {p.acked} of {p.high_watermark}, target {p.expected}, {p.error}, {p.counters}"
            for p in self.relay.partitions
        )

    def __getitem__(self, place: tuple[str, int] | str) -> Partition:
        wanted = TopicPartition(place, 0) if isinstance(place, str) else TopicPartition(*place)
        return next(p for p in self.relay.partitions if p.place == wanted)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
        until(condition, what, seconds=seconds, failed=self._died, logs=lambda: f"\n{self}")

    def until_running(self) -> None:
        self.until(lambda: all(p.state is State.RUNNING for p in self.relay.partitions), "all partitions running")

    def _died(self) -> str | None:
        return f"the relay died: {self.failure!r}" if self.failure is not None else None


class Mirror:
    """A flow between two clusters, `us->eu` in what follows, for the topics of one test."""

    def __init__(
        self, folder: Path, source: Cluster, target: Cluster, topics: str, alias: str = "", **settings: str
    ) -> None:
        """`settings` are lines of mm2.properties, with __ for a dot: `us__consumer__isolation__level="..."`."""
        self.source, self.target = source, target
        self.alias = alias or source.name
        name = target.name if target.name != self.alias else f"{target.name}2"
        factor = str(min(3, len(target.brokers)))
        lines = {
            "clusters": f"{self.alias},{name}",
            f"{self.alias}.bootstrap.servers": source.bootstrap(),
            f"{name}.bootstrap.servers": target.bootstrap(),
            f"{self.alias}->{name}.enabled": "true",
            "topics": topics,
            "replication.factor": factor,
            "offset.storage.replication.factor": factor,
            "offset.storage.partitions": "3",
            "status.storage.replication.factor": factor,
            "checkpoints.topic.replication.factor": factor,
            "heartbeats.topic.replication.factor": factor,
            "offset-syncs.topic.replication.factor": str(min(3, len(source.brokers))),
        }
        if alias:  # another flow from the same cluster must not take our offset syncs for its own
            lines["offset-syncs.topic.location"] = "target"
        lines |= {key.replace("__", "."): value for key, value in settings.items()}
        if lines.get("emit.offset-syncs.enabled") == "false":  # then nothing may be said of them, as with MM2
            lines = {key: value for key, value in lines.items() if not key.startswith("offset-syncs.")}
        self.file = folder / f"mm2-{next(_counter)}.properties"
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.config: FlowConfig = next(f for f in load([self.file]).flows if f.replicates and f.flow.target == name)

    def job(self, *, once: bool = False, **changes: Any) -> Job:
        """What the product would give to one task that carries all partitions."""
        run = uuid.uuid4().hex
        planner = Planner(self.config, run)
        deadline = time.monotonic() + 30
        while True:
            try:
                planner.prepare()
                plan = planner.plan(1, once=once)
                break
            except KafkaError:  # as in the product: a cluster that is away comes back
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            finally:
                planner.close()
        claims = tuple(claim for group in plan.groups for claim in group)
        return Job(
            self.config.flow, self.config, claims, plan.producers, run,
            journal_offset=plan.journal_offset, offsets_partitions=plan.offsets_partitions, **changes,
        )  # fmt: skip

    def start(self, change: Callable[[Claim], Claim] = lambda claim: claim, **wanted: Any) -> Running:
        job = self.job(**wanted)
        return Running(replace(job, claims=tuple(map(change, job.claims))))

    def copy(self) -> Running:
        """All that is there now, as with `--once`."""
        with self.start(once=True) as running:
            assert running.wait() == "done", str(running)
        return running

    def process(self, name: str = "relay") -> "RelayProcess":
        return RelayProcess(self.file, self.file.parent / f"{name}-{next(_counter)}.log")

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def compared(self, topic: str, **how: Any) -> Comparison:
        return compare(
            self.source.client_properties(), topic, self.target.client_properties(), self.remote(topic), **how
        )

    def tallied(self, topic: str) -> str:
        """What is wrong, if every record of the topic is unique."""
        return str(tally(self.source.client_properties(), topic, self.target.client_properties(), self.remote(topic)))

    def until_equal(self, *topics: str, seconds: float = 60, **how: Any) -> None:
        """Record by record; what differs at the end of the time is told."""
        deadline = time.monotonic() + seconds
        for topic in topics:
            if seconds:  # to compare costs more than to wait until nothing more arrives
                self._settled(topic, deadline)
            while (found := self.compared(topic, **how)).differences and time.monotonic() < deadline:
                self._settled(topic, deadline)
            assert not found.differences, f"{topic}: {found.records} equal, then {found.differences[0]}"

    def _settled(self, topic: str, deadline: float) -> None:
        with Wire(self.target.client_properties()) as wire:

            def ends() -> list[int]:
                return [wire.offsets(self.remote(topic), each)[1] for each in wire.partitions(self.remote(topic))]

            before = None
            while time.monotonic() < deadline and (before is None or (now := ends()) != before):
                before = ends() if before is None else now
                time.sleep(0.3)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """What the tasks told of a topic's partitions, as a watcher would read it."""
        client = Job(self.config.flow, self.config, (), ()).client("target")
        try:
            reports = [Report.decode(record.value) for record in TopicReader(client, journal_topic(self.alias)).read()]
        finally:
            client.close()
        return [
            event
            for report in reports
            if report is not None
            for event in report.events
            if event.get("partition", "").startswith(f"{topic}-")
        ]


class RelayProcess(Process):
    """Plans and relays until it is killed."""

    def __init__(self, file: Path, log: Path) -> None:
        super().__init__("relay", log)
        self._file = file

    def start(self) -> Self:
        self.launch([sys.executable, str(_SCRIPT), str(self._file)])
        return self

    def wait_until_relaying(self) -> None:
        self.wait_until_up(lambda: "relaying" in self.tail(), 60)


class Writer:
    """Writes records that are all different, at a steady pace, until it is left."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int = 1, rate: float = 2000, transactional: str = "",
        mark: str = "key", **how: Any,
    ) -> None:  # fmt: skip
        """`transactional` is an id; of its transactions a third is aborted. Keys begin with `mark`. `how` is librdkafka's."""
        settings = {"enable.idempotence": True, "linger.ms": 5, **how}
        if transactional:
            settings["transactional.id"] = transactional
        self._producer = Producer({**cluster.librdkafka_properties(), **settings})
        self._topic, self._partitions, self._rate, self._mark = topic, partitions, rate, mark
        self._transactional = bool(transactional)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.written = 0

    def __enter__(self) -> Self:
        if self._transactional:
            self._producer.init_transactions(30)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._leaving.set()
        self._thread.join()
        self._producer.flush(60)

    def _write(self) -> None:
        began = time.monotonic()
        turn = 0
        while not self._leaving.is_set():
            turn += 1
            if self._transactional:
                self._producer.begin_transaction()
            for _ in range(int((time.monotonic() - began) * self._rate) - self.written):
                number = self.written
                self._producer.produce(
                    self._topic, f"{number}".encode() * (1 + number % 7), f"{self._mark} {number}".encode(),
                    partition=number % self._partitions, headers={"n": f"{number}"},
                )  # fmt: skip
                self.written += 1
                self._producer.poll(0)
            self._producer.poll(0.02)
            if self._transactional:
                self._producer.flush(30)
                if turn % 3:
                    self._producer.commit_transaction(30)
                else:
                    self._producer.abort_transaction(30)


@pytest.fixture(scope="session")
def trio(lab: Lab) -> Cluster:
    """Three brokers, which are the source of some flows and the target of others. Tests may kill one, not keep it dead."""
    return lab.cluster("trio", brokers=3, settings={"min.insync.replicas": "2"})


MakeMirror = Callable[..., Mirror]
MakeWriter = Callable[..., Writer]


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[MakeMirror]:
    processes: list[RelayProcess] = []

    class Cleaned(Mirror):
        def process(self, name: str = "relay") -> RelayProcess:
            made = super().process(name)
            processes.append(made)
            return made

    def make(source: Cluster, target: Cluster, topics: str, **settings: Any) -> Mirror:
        return Cleaned(tmp_path, source, target, topics, **settings)

    yield make
    for process in processes:
        process.kill()


@pytest.fixture
def writer() -> MakeWriter:
    return Writer
