"""Runs the query of one flow: restarts it when it fails, and stops it gracefully."""

import contextlib
import itertools
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import JvmExitedError, ReplicationError, SupersededError, TwinlogError, UnauthorizedError
from twinlog.journal.messages import COMMANDS, Command, journal_topic
from twinlog.kafka.records import encode
from twinlog.kafka.topic_writer import append
from twinlog.model import TopicPartition
from twinlog.replicate.task_spec import TaskSpec
from twinlog.runtime.components import DesiredFlow
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.report_listener import ReportListener
from twinlog.spark.planner import Planner
from twinlog.spark.query import FlowQuery, QuerySpec, Spark
from twinlog.status.journal_follower import SILENT_SECONDS, JournalFollower
from twinlog.sync.flow_clients import FlowClients

_MAX_EPOCHS: Final = 1_000_000  # more than a query ever has
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_HEALTHY: Final = 60.0  # seconds after which a failure is not one of the start: the back-off is reset
_DRAIN: Final = 1.3  # seconds for tasks to read the command and wait for acknowledgements
_GRACE: Final = 2.5  # seconds for tasks to write their last positions
_COMMAND: Final = 1.0  # seconds for the stop command; if the target does not accept it, it accepts no positions either
_COMMAND_RETRY: Final = 0.2
_QUERY_STOP: Final = 0.5  # seconds for the query, once its tasks have ended

Events = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`retry_start`: a flow that cannot start is retried, and does not end the others."""

    secrets: Path | None = None
    once: bool = False
    retry_start: bool = False
    take_over: bool = False  # even if several instances contend for a flow


class QueryRunner:
    """Used in the supervisor's thread; no method blocks for long."""

    def __init__(self, wanted: DesiredFlow, options: RunOptions) -> None:
        self.flow = FlowRun(wanted.config, wanted.tasks)
        self._paths = wanted.paths
        self._options = options
        self._checkpoints = Path()
        self._listener: ReportListener | None = None
        self._readiness: ReadinessCheck | None = None
        self._next: DesiredFlow | None = None  # to start once the running query has ended
        self._enabled = False
        self._stop_by: float | None = None  # deadline, while it is being stopped
        self._stop_command: StopCommand | None = None
        self._final = False
        self.given_up = False  # not retried

    @property
    def running(self) -> bool:
        """Whether its tasks may still write."""
        return self.flow.query is not None

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self._paths, *(self._next.paths if self._next else ()))

    @property
    def state(self) -> str:
        """idle, starting, running, retrying, failed, finished or ending."""
        flow = self.flow
        if self._stop_by is not None:
            return "ending"
        if flow.finished:
            return "finished"
        if not self._enabled:
            return "idle"
        if self.given_up:
            return "failed"
        if flow.query is not None:
            return "running"
        return "retrying" if flow.error else "starting"

    def start(self, desired: DesiredFlow, checkpoints: Path) -> None:
        """Starts the query with this configuration, after stopping a running one."""
        self.stop()
        self._next, self._enabled, self._checkpoints = desired, True, checkpoints

    def stop(self, *, final: bool = False) -> None:
        """Tasks get the command to write their last positions; the query ends when they have, or after `grace`.

        `final`: Spark is stopped afterwards, so the query need not have ended.
        """
        self._enabled, self._next = False, None
        self._final = self._final or final
        if self.flow.query is not None and self._stop_by is None:
            self._stop_by = time.monotonic()
            with contextlib.suppress(ReplicationError):  # without Spark there is nothing to stop
                if self.flow.query.active:
                    self._stop_command = StopCommand(self.flow)
                    self._stop_by += self.grace

    def wait_for_clusters(self) -> None:
        """A cluster is unreachable: retries the start, without ending the other flows."""
        self._options = replace(self._options, retry_start=True)

    @property
    def grace(self) -> float:
        """Seconds for tasks to write their last positions: more if task.shutdown.graceful.timeout.ms is set."""
        config = self.flow.config
        return max(_GRACE, TaskSpec(config.flow, config, (), ()).graceful_seconds + _DRAIN)

    def poll(self, spark: Spark, events: Events) -> None:
        """Does what is due; called about four times a second."""
        if self._listener is not None:
            self._listener.apply_reports(events)
        if self._stop_by is not None:
            self._poll_stop()
            return
        if not self._enabled or self.flow.finished or self.given_up:
            return
        if self._next is not None:
            self._adopt(self._next, events)
        if self.flow.query is not None:
            self._check_query(events)
        if self.flow.query is None and not self.flow.finished and time.monotonic() >= self.flow.retry_at:
            self._try_start(spark, events)

    def close(self, events: Events, seconds: float | None = None) -> None:
        """Reads the last reports, for at most `seconds`."""
        if self._listener is not None:
            if seconds is None:
                self._listener.finish(events)
            else:
                self._listener.finish(events, seconds)
            self._listener = None

    def listen(self) -> None:
        self._listener = self._listener or ReportListener(self.flow)

    def _adopt(self, desired: DesiredFlow, events: Events) -> None:
        """Uses a new run id: tasks with the previous one would follow its stop command."""
        flow = self.flow
        if flow.starts or self._listener is not None:
            self.close(events)
            flow.run = uuid.uuid4().hex
            flow.status.run = flow.run
        flow.config, flow.tasks, self._paths = desired.config, desired.tasks, desired.paths
        flow.failures, flow.retry_at, flow.error, self._readiness = 0, 0.0, "", None
        self.given_up = False
        self._next = None
        if not desired.tasks:
            flow.error = "flow not started: no free Spark slot; raise n in --master local[n]"
            events(flow.name, flow.error)
            self.given_up = True
            return
        if not self._options.retry_start:
            self.listen()

    def _try_start(self, spark: Spark, events: Events) -> None:
        flow = self.flow
        if self._options.retry_start:
            self._readiness = self._readiness or ReadinessCheck(flow.config, flow.run)
            if not self._readiness.done:
                return
            error, self._readiness = self._readiness.error, None
            if error:
                flow.error = error
                self._retry(f"flow not started: {error}", events)
                return
            self.listen()
        try:
            self._start(spark)
        except ReplicationError as error:
            flow.error = str(error)
            self._fail(f"query not started: {error}", events, type(error))

    def _start(self, spark: Spark) -> None:
        # A new checkpoint each time, as positions are on the target. Its epochs are in another range, so that reports
        # of two queries are distinct.
        flow = self.flow
        checkpoint = self._checkpoints / uuid.uuid4().hex
        flow.started_at = time.monotonic()
        flow.starts += 1
        flow.query = FlowQuery(
            spark,
            QuerySpec(
                flow.name,
                self._paths,
                self._options.secrets,
                flow.run,
                flow.tasks,
                checkpoint.as_uri(),
                self._options.once,
                flow.starts * _MAX_EPOCHS,
                instance_name(),
            ),
        )
        flow.error = ""

    def _check_query(self, events: Events) -> None:
        flow = self.flow
        assert flow.query is not None
        if flow.query.active:
            return
        flow.error, kind = flow.query.failure()
        flow.query = None
        if not flow.error and self._options.once:
            flow.finished = True
            return
        self._fail(f"query failed: {flow.error or 'no reason given'}", events, kind)

    def _fail(self, what: str, events: Events, kind: type[TwinlogError] | None = None) -> None:
        """Retries, unless that is pointless. `kind` is the class of the error, if it is one of ours."""
        if kind is JvmExitedError:
            raise JvmExitedError(self.flow.error)
        if kind is SupersededError and not self._options.retry_start:
            raise ReplicationError(self.flow.error)
        if kind is UnauthorizedError and self._options.once:  # --once must end, not wait for an operator
            raise ReplicationError(self.flow.error)
        if kind is SupersededError:
            self.given_up = True
            events(self.flow.name, f"{self.flow.error}; restart the connector to take the flow back")
            return
        self._retry(what, events)

    def _retry(self, what: str, events: Events) -> None:
        flow = self.flow
        now = time.monotonic()
        if flow.started_at and now - flow.started_at > _HEALTHY:
            flow.failures = 0
        pause = min(_FIRST_PAUSE * 2**flow.failures, _LONGEST_PAUSE)
        flow.failures += 1
        flow.retry_at = now + pause
        events(flow.name, f"{what}; retrying in {pause:.0f} s")

    def _poll_stop(self) -> None:
        query = self.flow.query
        assert self._stop_by is not None
        late = time.monotonic() >= self._stop_by or (self._stop_command is not None and self._stop_command.failed)
        with contextlib.suppress(ReplicationError):  # without Spark there is nothing to stop
            if query is not None and not late and query.running_tasks:
                return
        if query is not None:
            query.stop(_QUERY_STOP if self._final else None)
        self.flow.query = None
        self._stop_by = self._stop_command = None


class StopCommand:
    """Writes the stop command for the tasks of a flow, in its own thread: the target may not answer."""

    def __init__(self, flow: FlowRun) -> None:
        self.failed = False  # then tasks cannot write their positions either
        self._flow, self._command = flow, Command("stop", flow.run, flow=flow.name, instance=instance_name())
        threading.Thread(target=self._write, name=f"stop {flow.name}", daemon=True).start()

    def _write(self) -> None:
        tp = TopicPartition(journal_topic(self._flow.config.flow.source), COMMANDS)
        batch = encode([(int(time.time() * 1000), None, self._command.encode(), ())])
        try:
            with FlowClients(self._flow.config) as clients:
                client = clients.client("data.producer")
                client.timeout = min(client.timeout, _GRACE / 2)
                append(client, tp, batch, itertools.repeat(_COMMAND_RETRY), _COMMAND)
        except (TwinlogError, OSError):
            self.failed = True


class ReadinessCheck:
    """Checks in its own thread whether a flow can start: a cluster may be unreachable."""

    def __init__(self, config: FlowConfig, run: str) -> None:
        self.error = ""
        self._thread = threading.Thread(target=self._check, args=(config, run), name=f"readiness {config}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def _check(self, config: FlowConfig, run: str) -> None:
        try:
            check_ready(config, run)
        except (TwinlogError, OSError) as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001  # an unexpected response must not end the other flows
            self.error = f"{type(error).__name__}: {error}"


def check_ready(config: FlowConfig, run: str, *, take_over: bool = True) -> None:
    """Checks that both clusters answer, and creates the internal topics of the flow.

    Raises an error before Spark is started, where it would be hard to find. Without `take_over`, also raises if
    another instance runs the flow and several have contended for it.
    """
    planner = Planner(config, run, instance=instance_name())
    try:
        planner.source.metadata([])
        planner.target.metadata([])
        planner.create_internal_topics()
        planner.superseded()
        contested = planner.instances.contested(int(time.time() * 1000), instance_name())
        if contested and not take_over and is_running_elsewhere(config):
            planner.report_refusal(contested)
            raise ReplicationError(
                f"flow {config} is running elsewhere ({planner.instances.name(planner.instances.current)}): "
                f"{contested}; run each flow in one place, or use --take-over"
            )
    finally:
        planner.close()


def instance_name() -> str:
    """Host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def is_running_elsewhere(config: FlowConfig) -> bool:
    """Whether an instance runs the flow now: it must write a new report, as a killed one has also reported recently.

    False once reports are overdue.
    """
    journal = JournalFollower(config)
    try:
        journal.catch_up()
        known, deadline = journal.status.reported_ms, time.monotonic() + SILENT_SECONDS
        while journal.alive and journal.status.reported_ms == known and time.monotonic() < deadline:
            journal.poll(1000)
        return journal.alive and journal.status.reported_ms != known
    finally:
        journal.close()
