"""Runs flows until it is stopped: starts, restarts and stops their components as desired."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import JvmExitedError, ReplicationError, SparkError, UnreachableError
from twinlog.runtime.components import RECORDS, Component, DesiredFlow, reconcile, share_slots
from twinlog.runtime.flow_choice import tasks_of
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.query_runner import QueryRunner, RunOptions, check_ready
from twinlog.runtime.slots import Slots
from twinlog.runtime.status_publisher import FlowState, StatusPublisher
from twinlog.runtime.temp_folder import temp_folder
from twinlog.spark import session
from twinlog.spark.query import Spark, is_embedded, slots
from twinlog.status.flow_board import FlowBoard
from twinlog.sync.flow_sync import FlowSync
from twinlog.sync.group_status import GroupStatus

# Slots if flows can be added later: each is a thread that Spark creates on first use, so unused ones are free. By
# default Spark would also create as many RPC dispatcher threads, at once (50 MB for 500).
_MAX_SLOTS: Final = 512
_FEW_DISPATCHERS: Final = {"spark.rpc.netty.dispatcher.numThreads": "4"}
_SLOTS_INTERVAL: Final = 5.0  # seconds between requests for the number of slots on a cluster
_SHUTDOWN: Final = 5.0  # seconds for the whole shutdown, whatever state the clusters are in
_SPARK_SHUTDOWN: Final = 1.5  # seconds of them for Spark, which is then killed
_LONG_SPARK_SHUTDOWN: Final = 20.0  # if no operator waits, or if Spark runs elsewhere
_MIN_STEP: Final = 0.3  # seconds for each step of the shutdown even if no time is left


@dataclass(frozen=True, slots=True)
class ComponentState:
    """`state` is one of starting, running, retrying, failed, finished, ending."""

    state: str
    error: str = ""
    tasks: int = 1
    starts: int = 1


class Supervisor:
    """`events` is called with (flow, text) for operator messages, `tick` about four times a second.

    The desired flows can be changed at any time (`set_desired`), from any thread; the thread of `run` applies it.
    """

    def __init__(
        self,
        flows: Sequence[FlowConfig],
        *,
        paths: Sequence[str],
        secrets: Path | None = None,
        master: str | None = None,
        once: bool = False,
        conf: dict[str, str] | None = None,
        heartbeat_flows: Sequence[FlowConfig] = (),
        take_over: bool = False,
        serving: Path | None = None,
    ) -> None:
        """`heartbeat_flows` only emit heartbeats. `take_over`: even if several instances contend for a flow.
        `serving`: the folder for Spark's files, if flows can be added and removed; one that cannot start does not end
        the others.
        """
        files = tuple(str(Path(path).resolve()) for path in paths)
        self._master = master
        self._options = RunOptions(secrets.resolve() if secrets else None, once, serving is not None, take_over)
        self._conf = conf or {}
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._desired: list[DesiredFlow] = [
            DesiredFlow(flow, files, tasks_of(flow, len(flows)) if flow.source else 1)
            for flow in (*flows, *(() if once else heartbeat_flows))
        ]
        self._slots = Slots()
        self._slots_due = 0.0
        self._folder = serving
        self._runners: dict[str, QueryRunner] = {
            flow.name: QueryRunner(flow, self._options) for flow in self._desired if flow.config.replicates
        }
        self._flow_syncs: dict[str, FlowSync] = {flow.name: FlowSync(flow.config) for flow in self._desired}
        self._running: dict[Component, object] = {}
        self._reported: set[str] = set()
        self._publisher = StatusPublisher()
        self.board = FlowBoard(each.flow.status for each in self._runners.values())
        self.up = False  # whether Spark is
        self.waiting_for = ""  # what the shutdown waits for
        self._deadline: float | None = None  # of the shutdown
        self.components: dict[Component, ComponentState] = {}  # replaced, never changed: may be read from any thread
        self._version = self._applying = 0
        self.applied_version = 0  # the last version (see `set_desired`) that `components` reflects

    @property
    def flows(self) -> list[FlowRun]:
        return [each.flow for each in self._runners.values()]

    def groups(self, flow: str) -> list[GroupStatus]:
        """The last known state of a flow's consumer groups. From any thread."""
        flow_sync = self._flow_syncs.get(flow)
        return [] if flow_sync is None else flow_sync.groups

    @property
    def desired(self) -> list[DesiredFlow]:
        return list(self._desired)

    @property
    def used_paths(self) -> set[str]:
        """The files that queries read, also after a restart. In the thread of `run` only."""
        return {path for runner in self._runners.values() for path in runner.paths}

    def stop(self) -> None:
        """From any thread or signal handler."""
        self._stop.set()
        self._wake.set()

    def set_desired(self, flows: Sequence[DesiredFlow]) -> int:
        """Replaces all desired flows; returns the version, to compare with `applied_version`.

        From any thread, but not concurrently.
        """
        self._desired = list(flows)
        self._version += 1
        self._wake.set()
        return self._version

    def run(self, events: Callable[[str, str], None], tick: Callable[[], None]) -> None:
        """Returns when all is copied (`once`) or after `stop`; raises errors that a retry cannot resolve."""
        if not self._options.retry_start:
            self._check_ready(events)
        with self._spark() as (spark, folder):
            events("", f"Spark {spark.version} started")
            self._folder = folder
            fixed = is_embedded(spark)
            self._slots.update(slots(spark), time.monotonic(), fixed=fixed)
            if not self._options.retry_start:
                self._check_slots()
                self._report_fewer_tasks(self._desired, share_slots(self._desired, self._slots.slots), events)
            self.up = True
            try:
                while not self._stop.is_set() and not self._finished:
                    if not fixed and not self._options.once:  # once: flows that have ended release their slots
                        self._update_slots(spark)
                    self._reconcile(events)
                    for runner in self._runners.values():
                        runner.poll(spark, events)
                    for flow_sync in self._flow_syncs.values():
                        flow_sync.forward_events(events)
                    self._publish()
                    tick()
                    self._wake.wait(0.25)
                    self._wake.clear()
            finally:
                self._shut_down(spark, events, tick)

    def _check_ready(self, events: Callable[[str, str], None]) -> None:
        """An unreachable cluster delays only its own flows; if no flow can start, that is an error."""
        unreachable: dict[str, UnreachableError] = {}
        for name, runner in self._runners.items():
            try:
                check_ready(runner.flow.config, runner.flow.run, take_over=self._options.take_over)
            except UnreachableError as error:
                if self._options.once:
                    raise
                unreachable[name] = error
        for name, reason in unreachable.items():
            if len(unreachable) == len(self._runners):
                raise reason
            self._runners[name].wait_for_clusters()
            events(name, f"{reason}; starting the other flows, retrying this one")

    def _update_slots(self, spark: Spark) -> None:
        now = time.monotonic()
        if now >= self._slots_due:
            self._slots_due = now + _SLOTS_INTERVAL
            self._slots.update(slots(spark), now)

    @property
    def _finished(self) -> bool:
        return self._options.once and all(each.flow.finished for each in self._runners.values())

    def _reconcile(self, events: Callable[[str, str], None]) -> None:
        """Starts and stops components according to the desired flows."""
        self._applying, desired = self._version, self._desired
        flows = share_slots(desired, self._slots.slots)
        self._report_fewer_tasks(desired, flows, events)
        steps = reconcile(self._running, flows)
        by_name = {flow.name: flow for flow in flows}
        for name in [name for name in self._flow_syncs if name not in by_name]:
            self._flow_syncs[name].stop()
            self._flow_syncs.pop(name).forward_events(events)
        for flow in flows:
            self._flow_syncs.setdefault(flow.name, FlowSync(flow.config)).configure(flow.config)
        for component in steps.stop:
            self._stop_component(component)
        for component in steps.start:
            self._start_component(component, by_name[component.flow])
        for name in [name for name in self._runners if name not in by_name or not _may_replicate(by_name[name].config)]:
            if not self._runners[name].running:
                self._runners.pop(name).close(events)
        for flow in flows:
            if self._options.retry_start and flow.name not in self._runners and _may_replicate(flow.config):
                self._runners[flow.name] = QueryRunner(flow, self._options)  # paused: its status is shown
        shown = [each.flow.status for each in self._runners.values()]
        if shown != self.board.flows:
            self.board.show(shown)

    def _stop_component(self, component: Component) -> None:
        del self._running[component]
        if component.subject != RECORDS:
            if component.flow in self._flow_syncs:
                self._flow_syncs[component.flow].stop([component.subject])
        elif component.flow in self._runners:
            self._runners[component.flow].stop()

    def _start_component(self, component: Component, desired: DesiredFlow) -> None:
        self._running[component] = desired.fingerprint(component.subject)
        if component.subject == RECORDS:
            if component.flow not in self._runners:
                self._runners[component.flow] = QueryRunner(desired, self._options)
            assert self._folder is not None
            self._runners[component.flow].start(desired, self._folder / "checkpoints")
        elif not self._options.once:
            self._flow_syncs[component.flow].start([component.subject])

    def _publish(self) -> None:
        """Publishes the state of all components, for other threads and in the journals."""
        found: dict[Component, ComponentState] = {}
        for component in self._running:
            flow_sync = self._flow_syncs.get(component.flow)
            error = flow_sync.errors.get(component.subject, "") if flow_sync is not None else ""
            found[component] = ComponentState("failed" if error else "running", error)
        for name, runner in self._runners.items():
            if runner.state != "idle":
                found[Component(name, RECORDS)] = ComponentState(
                    runner.state, runner.flow.error, runner.flow.tasks, runner.flow.starts
                )
        self.components = found
        self.applied_version = self._applying
        configs = {flow.name: flow.config for flow in self._desired}
        self._publisher.publish(
            FlowState(each.flow, each.state, configs.get(name), self._flow_syncs.get(name))
            for name, each in self._runners.items()
        )

    def _check_slots(self) -> None:
        flows = len(self._runners)
        if self._slots.slots is not None and self._slots.slots < flows:
            raise ReplicationError(
                f"--master {self._master}: {self._slots.slots} task slots for {flows} flows, each flow needs one; "
                "raise the number of slots"
            )

    def _report_fewer_tasks(
        self, desired: Sequence[DesiredFlow], shared: Sequence[DesiredFlow], events: Callable[[str, str], None]
    ) -> None:
        for before, after in zip(desired, shared, strict=True):
            text = f"{after.tasks} of {before.tasks} tasks: --master {self._master} has no more slots"
            if 0 < after.tasks < before.tasks and f"{after.name}: {text}" not in self._reported:
                self._reported.add(f"{after.name}: {text}")
                events(after.name, text)

    @contextlib.contextmanager
    def _spark(self) -> Iterator[tuple[Spark, Path]]:
        count, conf = max(sum(flow.tasks + 1 for flow in self.flows), 1), self._conf
        if self._options.retry_start:
            count, conf = _MAX_SLOTS, {**_FEW_DISPATCHERS, **self._conf}
        with temp_folder() if self._folder is None else contextlib.nullcontext(self._folder) as folder:
            spark = session.start(self._master, count, folder, conf)
            try:
                with session.quiet():
                    yield spark, folder
            except JvmExitedError as error:
                raise SparkError(f"{error}; its log is in {folder}{session.log_tail(folder)}") from None
            finally:
                # An operator waits, and an embedded Spark ends with its JVM: no need for a graceful stop.
                hurry = self._stop.is_set() and is_embedded(spark)
                session.stop(spark, max(self._left, _SPARK_SHUTDOWN) if hurry else _LONG_SPARK_SHUTDOWN)

    @property
    def _left(self) -> float:
        """Seconds left for the shutdown."""
        return _SHUTDOWN if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def _shut_down(self, spark: Spark, events: Callable[[str, str], None], tick: Callable[[], None]) -> None:
        """Tasks write their last positions, then the queries end; if all is copied, a last sync follows."""
        all_copied = bool(self._runners) and all(each.flow.finished for each in self._runners.values())
        # Longer if tasks get more time (task.shutdown.graceful.timeout.ms).
        within = max(_SHUTDOWN, *(each.grace + _SHUTDOWN / 2 for each in self._runners.values()), 0.0)
        self._deadline = time.monotonic() + within

        def wait_for(what: str) -> None:
            self.waiting_for = what
            tick()

        if not all_copied and any(each.running for each in self._runners.values()):
            events("", f"stopping: tasks write their last positions, at most {within:.0f} s")
        for flow_sync in self._flow_syncs.values():
            flow_sync.request_stop()
        for runner in self._runners.values():
            runner.stop(final=True)
        while self._left > _SPARK_SHUTDOWN and any(each.running for each in self._runners.values()):
            for runner in self._runners.values():
                runner.poll(spark, events)
            running = [name for name, each in self._runners.items() if each.running]
            wait_for(f"last positions of {', '.join(running)}")
            time.sleep(0.05)
        if all_copied:
            wait_for("configs, ACLs and checkpoints")
            for flow_sync in self._flow_syncs.values():
                flow_sync.once()
            self._deadline = time.monotonic() + _SHUTDOWN
        wait_for("configs, ACLs, checkpoints and heartbeats")
        for flow_sync in self._flow_syncs.values():
            flow_sync.stop(timeout=max(self._left - _SPARK_SHUTDOWN, _MIN_STEP))
            flow_sync.forward_events(events)
        for name, runner in self._runners.items():
            wait_for(f"the last reports of {name}")
            # If all is copied, the last reports hold the final counts.
            runner.close(events, None if all_copied else max(self._left - _SPARK_SHUTDOWN, _MIN_STEP))
        wait_for("the last status")
        self._publisher.close(max(self._left - _SPARK_SHUTDOWN, _MIN_STEP))
        self.components, self.up = {}, False
        wait_for("Spark")


def _may_replicate(config: FlowConfig) -> bool:
    return config.source is not None and config.source.settings.enabled
