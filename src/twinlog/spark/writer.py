"""The stream writer: each task replicates its partitions until the epoch ends."""

import contextlib
import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, SupersededError
from twinlog.journal.messages import Command
from twinlog.replicate.command_listener import CommandListener
from twinlog.replicate.known_positions import AssignmentPositions
from twinlog.replicate.relay import Relay
from twinlog.replicate.task_spec import PartitionAssignment, TaskSpec
from twinlog.spark.planner import Planner
from twinlog.sync.flow_clients import FlowClients

SUPERSEDED: Final = "superseded"  # why a task ended: another instance has taken the flow over


@dataclass
class TaskResult(WriterCommitMessage):
    task: int
    reason: str
    run: str = ""
    once: bool = False


class RelayWriter(DataSourceStreamWriter):
    def __init__(self, config: FlowConfig) -> None:
        self._config = config

    def write(self, iterator: Iterator[Row]) -> TaskResult:
        rows = list(iterator)
        if not rows:
            return TaskResult(-1, "no partitions")
        common = json.loads(rows[0].job)
        assignments = tuple(PartitionAssignment.decode(row.assignment) for row in rows)
        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        job = TaskSpec(
            self._config.flow,
            self._config,
            assignments,
            tuple(common["producers"]),
            common["run"],
            common["epoch"],
            common["task"],
            attempt,
            common["epoch_seconds"],
            common["journal_offset"],
            common["offsets_partitions"],
            common["own_offsets_partitions"],
        )
        return TaskResult(
            job.task, relay(job), job.run, any(assignment.until is not None for assignment in assignments)
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Positions are stored on the target. With --once, this is the last chance to notice a takeover: without the
        error the run would count as complete.
        """
        for each in messages:
            if isinstance(each, TaskResult) and each.once and each.reason == SUPERSEDED:
                planner = Planner(self._config, each.run)
                try:
                    planner.superseded()
                    raise SupersededError(planner.report_takeover())
                finally:
                    planner.close()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: the next attempt resumes from the position on the target."""


def relay(job: TaskSpec) -> str:
    """Replicates until the epoch ends, by time or by command; returns why it ended."""
    if job.attempt:
        job = replace(job, assignments=_with_new_positions(job))
    task = Relay(job)
    if job.attempt:
        task.progress.task_event(
            "task retry", f"task {job.task} failed; attempt {job.attempt + 1} resumes from the stored positions"
        )

    def on_command(command: Command) -> None:
        if command.flow != str(job.config):
            return
        if command.run != job.run and command.verb == "run":
            task.end(SUPERSEDED)
        elif command.run == job.run and (command.verb == "stop" or (command.verb, command.epoch) == ("end", job.epoch)):
            task.end(command.verb)
        elif (command.run, command.epoch, command.task, command.verb) == (job.run, job.epoch, job.task, "assign"):
            task.assign(map(PartitionAssignment.decode, command.assigned))

    listener = CommandListener(job.client("target"), job.journal, job.journal_offset, on_command)
    try:
        return task.run()
    finally:
        listener.close()


def _with_new_positions(job: TaskSpec) -> tuple[PartitionAssignment, ...]:
    """The failed attempt may have stored newer positions than those in the assignments: recovery is shorter."""
    with FlowClients(job.config, "source", job.task) as clients, contextlib.suppress(KafkaError):
        positions = AssignmentPositions(job.config, clients.client("source.consumer"), clients.client("data.producer"))
        positions.read()
        return tuple(positions.known(assignment) for assignment in job.assignments)
    return job.assignments


# Spark's workers collect garbage after every task: what is imported by now need not be scanned again.
gc.collect()
gc.freeze()
