"""Fixtures for flows without Spark: a relay in a thread, or in a process that can be killed."""

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
from confluent_kafka import KafkaException, Producer

from lab.cluster import Cluster
from lab.compare_logs import Comparison, compare, tally
from lab.lab import Lab
from lab.process import Process
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from twinlog.config import FlowConfig, load
from twinlog.errors import KafkaError
from twinlog.journal.messages import Report, journal_topic
from twinlog.kafka.topic_reader import TopicReader
from twinlog.model import TopicPartition
from twinlog.replicate.partition import Partition, State
from twinlog.replicate.relay import Relay
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec
from twinlog.spark.planner import Planner

_SCRIPT = Path(__file__).with_name("run_relay.py")
_counter = itertools.count(1)


class Running:
    """One task of one epoch, in a thread. Leaving the context ends the epoch gracefully."""

    def __init__(self, job: TaskSpec) -> None:
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
        except BaseException as error:  # noqa: BLE001  # raised by `wait`
            self.failure = error

    def __str__(self) -> str:
        return "; ".join(
            f"{p.tp} {p.state} at {p.target.acked_position} of {p.source.high_watermark}, target {p.target.position}, {p.report.error}, {p.report.counters}"
            for p in self.relay.partitions
        )

    def __getitem__(self, tp: tuple[str, int] | str) -> Partition:
        wanted = TopicPartition(tp, 0) if isinstance(tp, str) else TopicPartition(*tp)
        return next(p for p in self.relay.partitions if p.tp == wanted)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
        until(condition, what, seconds=seconds, failed=self._died, logs=lambda: f"\n{self}")

    def until_running(self) -> None:
        self.until(lambda: all(p.state is State.RUNNING for p in self.relay.partitions), "all partitions running")

    def _died(self) -> str | None:
        return f"the relay died: {self.failure!r}" if self.failure is not None else None


class Mirror:
    """A flow between two clusters for the topics of one test."""

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
        if alias:  # keeps its offset syncs apart from those of other flows
            lines["offset-syncs.topic.location"] = "target"
        lines |= {key.replace("__", "."): value for key, value in settings.items()}
        if lines.get("emit.offset-syncs.enabled") == "false":  # then MM2 does not allow settings of that topic
            lines = {key: value for key, value in lines.items() if not key.startswith("offset-syncs.")}
        self.file = folder / f"mm2-{next(_counter)}.properties"
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        self.config: FlowConfig = next(f for f in load([self.file]).flows if f.replicates and f.flow.target == name)

    def job(self, *, once: bool = False, **changes: Any) -> TaskSpec:
        """The specification of one task with all partitions, as the planner makes it."""
        run = uuid.uuid4().hex
        planner = Planner(self.config, run)
        deadline = time.monotonic() + 30
        while True:
            try:
                planner.prepare()
                plan = planner.plan(1, once=once)
                break
            except KafkaError:  # as in the product: retried until the cluster is reachable
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            finally:
                planner.close()
        assignments = tuple(assignment for group in plan.groups for assignment in group)
        return TaskSpec(
            self.config.flow, self.config, assignments, plan.producers, run,
            journal_offset=plan.journal_offset, offsets_partitions=plan.offsets_partitions,
            own_offsets_partitions=plan.own_offsets_partitions, **changes,
        )  # fmt: skip

    def start(
        self,
        change: Callable[[PartitionAssignment], PartitionAssignment] = lambda assignment: assignment,
        **wanted: Any,
    ) -> Running:
        job = self.job(**wanted)
        # Heartbeats are shared with other tests, so they keep their real positions.
        assignments = (
            assignment if assignment.tp.topic == "heartbeats" else change(assignment) for assignment in job.assignments
        )
        return Running(replace(job, assignments=tuple(assignments)))

    def copy(self) -> Running:
        """Copies everything up to the current end, as `--once` does."""
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
        """Differences, if every record of the topic is unique."""
        return str(tally(self.source.client_properties(), topic, self.target.client_properties(), self.remote(topic)))

    def until_equal(self, *topics: str, seconds: float = 60, **how: Any) -> None:
        """Waits until the topics are equal record by record; else fails with the first difference."""
        deadline = time.monotonic() + seconds
        for topic in topics:
            if seconds:  # comparing costs more than waiting until no more records arrive
                self._wait_until_quiet(topic, deadline)
            while (found := self.compared(topic, **how)).differences and time.monotonic() < deadline:
                self._wait_until_quiet(topic, deadline)
            assert not found.differences, f"{topic}: {found.records} equal, then {found.differences[0]}"

    def _wait_until_quiet(self, topic: str, deadline: float) -> None:
        with RawProtocol(self.target.client_properties()) as wire:

            def ends() -> list[int]:
                return [wire.offsets(self.remote(topic), each)[1] for each in wire.partitions(self.remote(topic))]

            before = None
            while time.monotonic() < deadline and (before is None or (now := ends()) != before):
                before = ends() if before is None else now
                time.sleep(0.3)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """The events that tasks have reported for a topic's partitions."""
        client = TaskSpec(self.config.flow, self.config, (), ()).client("target")
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
    """Writes unique records at a constant rate until the context is left."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int = 1, rate: float = 2000, transactional: str = "",
        mark: str = "key", **how: Any,
    ) -> None:  # fmt: skip
        """`transactional` is an id; a third of its transactions is aborted. Keys start with `mark`. `how` are librdkafka settings."""
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
                try:
                    self._producer.produce(
                        self._topic, f"{number}".encode() * (1 + number % 7), f"{self._mark} {number}".encode(),
                        partition=number % self._partitions, headers={"n": f"{number}"},
                    )  # fmt: skip
                except (BufferError, KafkaException):  # a broker that has just restarted may not know the topic yet
                    self._producer.poll(0.2)
                    break
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
    """Three brokers, source of some flows and target of others. Tests may kill one but must start it again."""
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
