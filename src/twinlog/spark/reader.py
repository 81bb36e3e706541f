"""The stream reader: discovers partitions, plans epochs and assigns partitions to tasks."""

import contextlib
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from twinlog.errors import KafkaError, RefusedError, SupersededError, TwinlogError, UnauthorizedError
from twinlog.kafka import error_codes
from twinlog.model import TopicPartition
from twinlog.replicate.partition_lifecycle import GIVE_UP_SECONDS
from twinlog.replicate.task_spec import PartitionAssignment
from twinlog.spark import driver_threads
from twinlog.spark.options import Options
from twinlog.spark.planner import Planner
from twinlog.spark.topic_changes import changes

T = TypeVar("T")

_RETRY: Final = 1.0  # seconds
_MAX_UNREPORTED: Final = 100  # events
_BALANCE: Final = 60.0  # seconds between checks of the load balance
# Topic creation errors that only the operator can resolve: not authorized, invalid name, partition count, replication
# factor or configs, policy violation.
_FINAL: Final = error_codes.UNAUTHORIZED | {17, 37, 38, 40, 44}


class Discovery:
    """When topics are discovered next. `refresh.topics.*` apply to a flow, not to each of its epochs."""

    def __init__(self, every: float, empty: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._empty = empty
        self._clock = clock
        self._due = float("-inf")

    def wait(self) -> float:
        """Seconds until the next discovery."""
        return max(self._due - self._clock(), 0.0)

    def done(self, *, empty: bool) -> None:
        self._due = self._clock() + (self._empty if empty else self._every)

    def changed(self) -> None:
        """The partitions have changed: discover now."""
        self._due = float("-inf")


@dataclass
class TaskAssignment(InputPartition):
    """The partitions of one task, and what they have in common."""

    common: dict[str, Any]
    assignments: list[str]

    def __init__(self, common: dict[str, Any], assignments: list[str]) -> None:
        super().__init__(common["task"])
        self.common = common
        self.assignments = assignments


class AssignmentReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark offsets are epochs: Spark needs the end before work begins, and real positions are on the target."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner: Planner | None = None
        self._assignments: list[PartitionAssignment] | None = None
        self._once = False
        self._last: dict[str, int] | None = None
        self._watcher: EpochWatcher | None = None
        self._discovery = Discovery(options.refresh_seconds, options.empty_seconds)
        self._discovered: list[PartitionAssignment] | None = None
        self._unreported: list[dict[str, Any]] = []  # events that could not be written yet
        self._replicated: list[TopicPartition] | None = None  # in the last epoch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_watcher": None, "_assignments": None, "_discovered": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": self._options.first_epoch, "once": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._once = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Waits until there are partitions to replicate."""
        if self._once:
            # One epoch per query, even if the checkpoint holds epochs of earlier ones.
            self._last = self._last or {"epoch": start["epoch"] + 1, "once": 1}
            return self._last
        if self._watcher is not None:
            self._watcher.close()
            self._replicated = self._watcher.partitions
            self._discovered = self._watcher.discovered or self._discovered
            self._watcher = None
        while True:
            assignments = self._discover()
            self._report_changes([assignment.tp for assignment in assignments])
            if assignments:
                self._assignments = assignments
                return {"epoch": start["epoch"] + 1, "once": 0}
            driver_threads.wait(min(max(self._discovery.wait(), 0.1), 5.0))  # short, to notice a takeover

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002
        once = bool(end["once"])
        assignments, self._assignments = self._assignments, None
        plan = self._retry(lambda planner: planner.plan(self._options.tasks, once=once, assignments=assignments))
        if once:
            planned = [assignment for group in plan.groups for assignment in group]
            self._retry(lambda planner: planner.report_planned(planned))
        else:
            self._watcher = EpochWatcher(self._options, plan.groups, end["epoch"], self._discovery)
        common = {
            "run": self._options.run,
            "epoch": end["epoch"],
            "producers": plan.producers,
            "journal_offset": plan.journal_offset,
            "offsets_partitions": plan.offsets_partitions,
            "own_offsets_partitions": plan.own_offsets_partitions,
            "epoch_seconds": 1e9 if once else self._options.epoch_seconds,
        }
        return [
            TaskAssignment({**common, "task": task}, [assignment.encode() for assignment in group])
            for task, group in enumerate(plan.groups)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, TaskAssignment)
        common = partition.common
        job = json.dumps(common)
        for text in partition.assignments:
            tp = PartitionAssignment.decode(text).tp
            yield str(self._options.config.flow), common["run"], common["epoch"], common["task"], *tp, text, job

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: positions are stored on the target."""

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        if self._planner is not None:
            self._planner.close()

    def _discover(self) -> list[PartitionAssignment]:
        def discover(planner: Planner) -> list[PartitionAssignment]:
            if planner.superseded():
                raise SupersededError(planner.report_takeover())
            while planner.stopped:  # the query is being stopped; a new epoch would only delay that
                driver_threads.wait(1)
            if self._discovered is None or not self._discovery.wait():
                self._discovered = planner.discover()
                self._discovery.done(empty=not self._discovered)
            return self._discovered

        return self._retry(discover)

    def _retry(self, call: Callable[[Planner], T]) -> T:
        """Retries until the clusters answer: an error that reaches Spark ends the query.

        With --once a permission that is missing for GIVE_UP_SECONDS is raised, as an operator waits for the end.
        """
        reported = ""
        denied_since: float | None = None
        while True:
            try:
                planner = self._planner or self._prepared()
                self._planner = planner
                result = call(planner)
            except KafkaError as error:
                if not isinstance(error, RefusedError) or error.code not in error_codes.UNAUTHORIZED:
                    denied_since = None
                elif (
                    self._once
                    and time.monotonic() - (denied_since := denied_since or time.monotonic()) > GIVE_UP_SECONDS
                ):
                    raise UnauthorizedError(str(error)) from error
                if str(error) != reported:
                    reported = str(error)
                    self._report_waiting(reported)
                driver_threads.wait(_RETRY)
            else:
                self._report_warnings()
                return result

    def _prepared(self) -> Planner:
        options = self._options
        planner = Planner(options.config, options.run, options.flows, options.instance)
        try:
            planner.prepare()
        except RefusedError as error:
            if error.code in _FINAL:
                raise UnauthorizedError(str(error)) from error
            raise
        return planner

    def _report_waiting(self, text: str) -> None:
        """In Spark's log, and in the journal if the target answers."""
        driver_threads.log(f"twinlog: {self._options.config.flow}: {text}")
        if self._planner is not None:
            with contextlib.suppress(KafkaError):
                self._planner.report([{"time": int(time.time() * 1000), "kind": "waiting", "text": text}])

    def _report_changes(self, tps: list[TopicPartition]) -> None:
        before, self._replicated = self._replicated, tps
        if before is not None and (events := changes(before, tps, int(time.time() * 1000))):
            self._retry(lambda planner: planner.report(events))

    def _report_warnings(self) -> None:
        assert self._planner is not None
        now = int(time.time() * 1000)
        events: list[dict[str, Any]] = [
            {
                "time": now,
                "kind": "left out" if warning.left_out else "warning",
                "text": warning.text,
                "topics": list(warning.topics),
            }
            for warning in self._planner.warnings
        ]
        self._planner.warnings.clear()
        self._unreported = (self._unreported + events + self._planner.take_cycles())[-_MAX_UNREPORTED:]
        if self._unreported:
            with contextlib.suppress(KafkaError):  # not a reason to end the query: written with the next events
                self._planner.report(self._unreported)
                self._unreported = []


class EpochWatcher:
    """Assigns new partitions to the tasks of a running epoch. Ends the epoch if partitions are gone, if the load is
    unbalanced, or if new partitions could have a task of their own.
    """

    def __init__(
        self, options: Options, groups: list[list[PartitionAssignment]], epoch: int, discovery: Discovery
    ) -> None:
        self._discovery = discovery
        self._options = options
        self._groups = [[assignment.tp for assignment in group] for group in groups]
        self._epoch = epoch
        self._closing = threading.Event()
        self.discovered: list[PartitionAssignment] | None = None
        threading.Thread(target=self._watch, name="epoch watcher", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        planner = Planner(self._options.config, self._options.run, self._options.flows)
        began = time.monotonic()
        ended = False
        try:
            while not ended and not self._closing.wait(min(max(self._discovery.wait(), 1.0), _BALANCE)):
                try:
                    found = None if self._discovery.wait() else planner.discover()
                    planner.read_reports()
                    settled = time.monotonic() - began > _BALANCE
                    replan = found is not None and self._must_replan(found)
                    if replan or (settled and planner.is_unbalanced(self._groups)):
                        planner.command("end", self._epoch)
                        ended = True
                    elif found is not None:
                        self._assign(planner, found)
                        self.discovered = found
                        self._discovery.done(empty=False)  # only now: a failure is retried soon
                    if replan:
                        self._discovery.changed()
                except TwinlogError:
                    continue  # a cluster is unreachable: tasks report that
        finally:
            planner.close()

    @property
    def partitions(self) -> list[TopicPartition]:
        return [tp for group in self._groups for tp in group]

    def _must_replan(self, found: Sequence[PartitionAssignment]) -> bool:
        before, after = set(self.partitions), {assignment.tp for assignment in found}
        return bool(before - after or (after - before and len(self._groups) < self._options.tasks))

    def _assign(self, planner: Planner, found: Sequence[PartitionAssignment]) -> None:
        """New partitions go to the tasks with the fewest: their load is not known yet."""
        before = self.partitions
        known = set(before)
        new = [assignment for assignment in found if assignment.tp not in known]
        if not new:
            return
        counts = [len(group) for group in self._groups]
        by_task: dict[int, list[PartitionAssignment]] = {}
        for assignment in planner.with_positions(new):
            task = counts.index(min(counts))
            counts[task] += 1
            by_task.setdefault(task, []).append(assignment)
        for task, assignments in by_task.items():
            planner.assign(self._epoch, task, assignments)
            self._groups[task] += [assignment.tp for assignment in assignments]  # only now: a failure is retried
        planner.report(changes(before, self.partitions, int(time.time() * 1000)))


# Spark's workers collect garbage after every task: what is imported by now need not be scanned again.
gc.collect()
gc.freeze()
