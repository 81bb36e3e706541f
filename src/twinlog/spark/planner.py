"""Plans an epoch: discovers topics, creates missing remote topics, assigns partitions to tasks."""

import contextlib
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RefusedError, ReplicationError
from twinlog.journal.instances import Instances
from twinlog.journal.messages import COMMANDS, REPORTS, Command, Report, journal_topic
from twinlog.kafka import error_codes
from twinlog.kafka.client import LATEST, NO_ID
from twinlog.kafka.topic_reader import TopicReader
from twinlog.kafka.topic_writer import PATIENT, partition_for, write
from twinlog.mm2 import source_offsets
from twinlog.mm2.client_ids import SIDES
from twinlog.mm2.cycles import Cycle
from twinlog.mm2.selection import selection_of
from twinlog.model import TopicPartition
from twinlog.replicate.known_positions import AssignmentPositions
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec
from twinlog.spark.assignment import assign, is_unbalanced
from twinlog.spark.partition_loads import Loads
from twinlog.sync.cycle_guard import CycleGuard
from twinlog.sync.flow_clients import FlowClients
from twinlog.sync.internal_topics import ensure, source_topics
from twinlog.sync.remote_topics import RemoteTopics

_MAX_ASSIGNED: Final = 500  # assignments in one command, which must stay below 1 MiB
_MAX_REPORTED: Final = 500  # partitions in one report
_ELECTION: Final = 10.0  # seconds to wait for the leaders of new topics


@dataclass(frozen=True, slots=True)
class Plan:
    groups: list[list[PartitionAssignment]]
    producers: tuple[int, ...]
    journal_offset: int
    offsets_partitions: int
    own_offsets_partitions: int = 0


class PlannerWarning(NamedTuple):
    text: str
    left_out: bool  # whether a topic, or some of its partitions, is not replicated
    topics: tuple[str, ...] = ()  # that it is about


class Planner:
    """Not thread-safe. `run` identifies this run of the flow; a later run supersedes it."""

    def __init__(self, config: FlowConfig, run: str, flows: Sequence[FlowConfig] = (), instance: str = "") -> None:
        """`flows` are all flows of the configuration, to detect replication cycles. `instance` is the host and process
        id that run the flow.
        """
        assert config.source is not None
        self.config = config
        self.run = run
        self._settings = config.source.settings
        self._selection = selection_of(config)
        self._clients = FlowClients(config, "source")
        self.source, self.target = self._clients.client("source.consumer"), self._clients.client("data.producer")
        # As in MM2, topics are created by the admin clients, which may have another login.
        self._source_admin, self._target_admin = (self._clients.client(f"{side}.admin") for side in SIDES)
        self._journal = journal_topic(config.flow.source)
        self._positions = AssignmentPositions(config, self.source, self.target)
        self._reports = TopicReader(self.target, self._journal, partitions=(REPORTS,))
        self._commands = TopicReader(self.target, self._journal, partitions=(COMMANDS,))
        self.loads = Loads()
        self._remote_topics = RemoteTopics(config, self._source_admin, self._target_admin, self._warn)
        self._cycle_guard = CycleGuard(config, flows)
        self._warned: dict[str, str] = {}  # key -> text
        self.warnings: list[PlannerWarning] = []  # new ones: the caller reports and clears them
        self.cycles: dict[str, Cycle] = {}  # by the cluster that the topics were copied from
        self._reported_cycles: dict[str, Cycle] = {}
        self._instance = instance or f"{socket.gethostname()}:{os.getpid()}"
        self.instances = Instances(str(config))
        self._announced = False
        self.stopped = False  # a stop command was read

    def close(self) -> None:
        self._clients.close()

    # Before the first epoch

    def prepare(self) -> None:
        self.create_internal_topics()
        self.announce()

    def create_internal_topics(self) -> None:
        for topic in source_topics(self.config):
            ensure(self._source_admin if topic.side == "source" else self._target_admin, topic)

    def announce(self) -> None:
        """Makes this the flow's only run."""
        # Only once per run: if a restarted query announced its run again, it would end a newer run that has taken over
        # in the meantime.
        self.superseded()
        if not self._announced:
            self.command("run")

    def command(self, verb: str, epoch: int = -1, by: str = "") -> None:
        self._command(Command(verb, self.run, epoch, str(self.config), self._instance, by))

    def assign(self, epoch: int, task: int, assignments: Sequence[PartitionAssignment]) -> None:
        """Assigns partitions to a running task."""
        texts = [assignment.encode() for assignment in assignments]
        for at in range(0, len(texts), _MAX_ASSIGNED):
            some = tuple(texts[at : at + _MAX_ASSIGNED])
            self._command(Command("assign", self.run, epoch, str(self.config), task=task, assigned=some))

    def _command(self, command: Command) -> None:
        self._write(TopicPartition(self._journal, COMMANDS), None, command.encode())

    def report(
        self, events: list[dict[str, Any]], partitions: dict[str, dict[str, Any]] | None = None, run: str = ""
    ) -> None:
        """Writes a report of the planner, as task -1; for another `run`, so that its observers see the events."""
        now = int(time.time() * 1000)
        report = Report(run or self.run, -1, -1, 0, now, partitions or {}, events, flow=str(self.config))
        self._write(TopicPartition(self._journal, REPORTS), None, report.encode())

    def report_planned(self, assignments: Sequence[PartitionAssignment]) -> None:
        """All planned partitions at once, before the tasks report them one after the other."""
        for at in range(0, len(assignments), _MAX_REPORTED):
            partitions: dict[str, dict[str, Any]] = {}
            for assignment in assignments[at : at + _MAX_REPORTED]:
                topic, partition = assignment.tp
                partitions[str(assignment.tp)] = {
                    "topic": topic,
                    "partition": partition,
                    "remote": assignment.remote.topic,
                    "state": "waiting",
                    "until": assignment.until,
                }
            self.report([], partitions)

    def _write(self, tp: TopicPartition, key: bytes | None, value: bytes) -> None:
        write(self.target, tp, [(int(time.time() * 1000), key, value)], PATIENT)

    # Takeovers and topics

    def superseded(self) -> bool:
        """Whether another run of this flow was announced after this one."""
        for record in self._commands.read():
            command = Command.decode(record.value)
            if command is None or command.flow != str(self.config):
                continue
            self.instances.on_record(record.timestamp, command)
            if command.verb == "run":
                self._announced = self._announced or command.run == self.run
            elif command.verb == "stop" and command.run == self.run:
                self.stopped = True
        return self.instances.current not in {"", self.run}

    def report_takeover(self) -> str:
        """Reports to observers of the newer run that it took over; returns the error message of this run."""
        winner, now = self.instances.current, int(time.time() * 1000)
        name = self.instances.name(winner)
        contenders = self.instances.contenders(now, name, self._instance)
        why = f": {contenders}" if contenders else ""
        text = f"{name} took the flow over from {self._instance}, which was running{why}; run each flow in one place"
        event = {"time": now, "kind": "taken over", "amount": 0, "text": text}
        with contextlib.suppress(KafkaError):
            self.command("superseded", by=winner)
            self.report([event], run=winner)
        return f"flow {self.config} was taken over by another instance ({name}){why}; run each flow in one place"

    def report_refusal(self, reason: str) -> None:
        """Reports to observers of the current run that this one was not started."""
        now, winner = int(time.time() * 1000), self.instances.current
        if self.instances.refusal_due(now, self._instance):
            text = f"{self._instance} was not allowed to take the flow over: {reason}; run each flow in one place"
            with contextlib.suppress(KafkaError):
                self.command("refused", by=winner)
                self.report([{"time": now, "kind": "refused", "amount": 0, "text": text}], run=winner)

    def discover(self) -> list[PartitionAssignment]:
        """Every partition that can be replicated now. Creates missing remote topics and partitions."""
        upstream = self.source.metadata(None).topics
        self._note_cycles(upstream)
        # A topic without DESCRIBE permission is only listed when it is requested by name.
        if hidden := self._selection.unseen(upstream):
            upstream |= {
                name: info
                for name, info in self.source.metadata(hidden).topics.items()
                if info.error in error_codes.UNAUTHORIZED
            }
        chosen = {name: info for name, info in upstream.items() if self._selection.selects(name)}
        skipped = {
            name: f"topic {name} of {self.config.flow.source} is not replicated: {error_codes.name(info.error)}"
            for name, info in chosen.items()
            if info.error
        }
        skipped |= self._cycle_guard.reasons_to_skip(name for name in chosen if name not in skipped)
        for name, reason in skipped.items():
            self._warn(name, reason)
        chosen = {name: info for name, info in chosen.items() if name not in skipped}
        remote = {name: self._selection.remote_name(name) for name in chosen}
        shared = Counter(remote.values())
        for name in [name for name in remote if shared[remote[name]] > 1]:
            # Possible with a custom replication policy. Records of both would be mixed on the target.
            text = f"topic {name} is not replicated: another topic of the flow has the same remote topic {remote[name]}"
            self._warn(name, text, topics=(remote[name],))
            del chosen[name]
        downstream = self._remote_topics.ensure(chosen, remote, self.target)
        assignments = []
        for name in sorted(chosen):
            there = downstream.get(remote[name])
            count = len(there.leaders) if there is not None and not there.error else 0
            assignments += [
                PartitionAssignment(
                    TopicPartition(name, partition), TopicPartition(remote[name], partition), chosen[name].id
                )
                for partition in sorted(chosen[name].leaders)
                if partition < count
            ]
        return assignments

    def _note_cycles(self, topics: Iterable[str]) -> None:
        """Notes topics that are skipped as replication cycles. That is usually intended, so `--once` does not fail, but
        a topic whose name only looks like a remote topic must not be skipped silently.
        """
        found: dict[str, list[str]] = {}
        for name in topics:
            if (origin := self._selection.left_out_as_cycle(name)) is not None:
                found.setdefault(origin, []).append(name)
        self.cycles = {origin: Cycle(origin, tuple(sorted(names))) for origin, names in sorted(found.items())}

    def take_cycles(self) -> list[dict[str, Any]]:
        """Events for cycles that are new or have changed since the last call."""
        events = []
        for origin, cycle in self.cycles.items():
            if self._reported_cycles.get(origin) != cycle:
                self._reported_cycles[origin] = cycle
                events.append(cycle.event(self.config.flow.source, int(time.time() * 1000)))
        return events

    def _warn(self, key: str, text: str | None, *, left_out: bool = True, topics: Sequence[str] = ()) -> None:
        """Adds a warning if the text for `key` has changed; None clears it. The arguments are those of Warn."""
        if text is None:
            self._warned.pop(key, None)
        elif self._warned.get(key) != text:
            self._warned[key] = text
            self.warnings.append(PlannerWarning(text, left_out, (key, *topics) if left_out else tuple(topics)))

    # An epoch

    def plan(self, tasks: int, *, once: bool, assignments: list[PartitionAssignment] | None = None) -> Plan:
        assignments = self.with_positions(self.discover() if assignments is None else assignments)
        if once:
            assignments = self._with_ends(assignments)
        self.read_reports()
        by_tp = {assignment.tp: assignment for assignment in assignments}
        groups = assign(list(by_tp), tasks, self.loads.rates())
        offsets = source_offsets.offsets_topic(self.config).name
        own = source_offsets.connector_offsets_topic(self.config)
        wanted = [offsets, *([own.name] if own else [])]
        found = self.target.metadata([*wanted, self._journal]).topics
        for name in wanted:
            if (info := found.get(name)) is None or info.error:
                raise ReplicationError(f"cluster {self.config.flow.target}: topic {name} does not exist")
        partitions = [len(found[name].leaders) for name in wanted]
        tp = TopicPartition(self._journal, COMMANDS)
        ends, failed = self.target.list_offsets([tp], LATEST)
        if failed:
            raise RefusedError(f"cluster {self.config.flow.target}: {tp}: {error_codes.name(failed[tp])}", failed[tp])
        return Plan(
            [[by_tp[tp] for tp in group] for group in groups],
            self._producer_ids(partitions[0], offsets),
            ends[tp],
            partitions[0],
            sum(partitions[1:]),
        )

    def with_positions(self, assignments: Sequence[PartitionAssignment]) -> list[PartitionAssignment]:
        """With the stored positions."""
        self._positions.read()
        return [self._positions.known(self._with_old_id(assignment)) for assignment in assignments]

    def _with_old_id(self, assignment: PartitionAssignment) -> PartitionAssignment:
        """With the topic id of the stored position: recovery compares it with the current id."""
        stored_position = self._positions.stored_positions.get(assignment.tp)
        try:
            return replace(assignment, topic_id=uuid.UUID(stored_position.topic_id) if stored_position else NO_ID)
        except ValueError:
            return replace(assignment, topic_id=NO_ID)

    def _with_ends(self, assignments: list[PartitionAssignment]) -> list[PartitionAssignment]:
        job = TaskSpec(self.config.flow, self.config, (), ())
        isolation = int(job.rules.read_committed)
        deadline = time.monotonic() + _ELECTION
        while True:
            ends, failed = self.source.list_offsets([assignment.tp for assignment in assignments], LATEST, isolation)
            if not failed:
                return [replace(assignment, until=ends[assignment.tp]) for assignment in assignments]
            if time.monotonic() > deadline:
                tp, code = next(iter(failed.items()))
                raise RefusedError(f"cluster {self.config.flow.source}: {tp}: {error_codes.name(code)}", code)
            time.sleep(0.2)
            self.source.metadata(sorted({assignment.tp.topic for assignment in assignments}))

    def _producer_ids(self, partitions: int, topic: str) -> tuple[int, ...]:
        """The producer id of the flow, stored before it is used: recovery recognizes our records by it."""
        if not self._positions.producers.ids:
            flow = self.config.flow
            key = source_offsets.producer_key(flow.source, flow.target)
            tp = TopicPartition(topic, partition_for(key, partitions))
            new_id = self.target.init_producer()
            self._write(tp, key, source_offsets.Producers((new_id,)).encode())
            self._positions.read()
            if self._positions.producers.ids[-1:] != (new_id,):  # another run was faster: its id is used
                self._write(tp, key, self._positions.producers.encode())
        return self._positions.producers.ids

    def read_reports(self) -> None:
        """Updates the loads from new task reports."""
        for record in self._reports.read():
            if (report := Report.decode(record.value)) is not None and report.run == self.run:
                self.loads.add(report)

    def is_unbalanced(self, groups: list[list[TopicPartition]]) -> bool:
        return is_unbalanced(groups, self.loads.rates())
