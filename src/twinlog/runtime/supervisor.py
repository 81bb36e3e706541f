"""Runs flows until told to stop: starts their queries, starts them again when they end, hears what tasks report."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RelayError, SparkError
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.pipeline import session
from twinlog.pipeline.datasource import SUPERSEDED
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.query import GONE, FlowQuery, QuerySpec, Spark, slots
from twinlog.runtime.choice import tasks_of
from twinlog.runtime.flow_run import FlowRun, client_of
from twinlog.runtime.listener import Listener
from twinlog.runtime.scratch import scratch
from twinlog.tracking.journal import COMMANDS, Command, journal_topic
from twinlog.upkeep.keeper import Keeper

_EPOCHS: Final = 1_000_000  # more than a query ever has
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_HEALTHY: Final = 60.0  # a query that ran for so long did not fail because of what it was started with
_GRACE: Final = 8.0  # for tasks to write their last positions


class Runtime:
    """`events` is called with (flow, text) for what an operator should see; `tick` about once a second."""

    def __init__(
        self,
        flows: Sequence[FlowConfig],
        *,
        paths: Sequence[str],
        secrets: Path | None = None,
        master: str | None = None,
        once: bool = False,
        conf: dict[str, str] | None = None,
        beating: Sequence[FlowConfig] = (),
    ) -> None:
        """`beating` are flows that only emit heartbeats."""
        self._paths = [str(Path(path).resolve()) for path in paths]
        self._secrets = secrets.resolve() if secrets else None
        self._master = master
        self._once = once
        self._conf = conf or {}
        self._stop = threading.Event()
        self.flows = [FlowRun(flow, tasks_of(flow)) for flow in flows]
        self._keepers = [Keeper(flow) for flow in (*flows, *(() if once else beating))]

    def stop(self) -> None:
        """From any thread or signal handler."""
        self._stop.set()

    def run(self, events: Callable[[str, str], None], tick: Callable[[], None]) -> None:
        """Returns when all is copied (`once`) or `stop` was called; raises what cannot be mended by trying again."""
        for flow in self.flows:
            ready(flow.config, flow.run)
        with self._spark() as (spark, folder):
            events("", f"Spark {spark.version} is up")
            self._share(slots(spark), events)
            listeners = [Listener(flow) for flow in self.flows]
            try:
                if not self._once:
                    for keeper in self._keepers:
                        keeper.start()
                for number, flow in enumerate(self.flows):
                    if not self._stop.is_set():
                        self._start(spark, folder / f"checkpoint-{number}", flow)
                while not self._stop.is_set() and not all(flow.finished for flow in self.flows):
                    self._stop.wait(0.25)
                    for number, flow in enumerate(self.flows):
                        listeners[number].take(events)
                        self._look_after(spark, folder / f"checkpoint-{number}", flow, events)
                    for keeper in self._keepers:
                        keeper.take(events)
                    tick()
            finally:
                for keeper in self._keepers:
                    keeper.stop()
                self._end()
                if all(flow.finished for flow in self.flows):
                    for keeper in self._keepers:
                        keeper.once()
                for keeper in self._keepers:
                    keeper.take(events)
                for listener in listeners:
                    listener.finish(events)
                tick()

    def _share(self, there: int | None, events: Callable[[str, str], None]) -> None:
        """A task holds its slot for an epoch, so one without a slot would not move for as long."""
        wanted = sum(flow.tasks for flow in self.flows)
        if there is None or there >= wanted:
            return
        if there < len(self.flows):
            raise RelayError(f"--master {self._master} runs {there} tasks at a time, and each flow needs one: raise it")
        spare = there - len(self.flows)
        for flow in self.flows:
            fewer = 1 + (flow.tasks - 1) * spare // (wanted - len(self.flows))
            if fewer < flow.tasks:
                events(flow.name, f"{fewer} of {flow.tasks} tasks, as --master {self._master} has no room for more")
                flow.tasks = fewer

    @contextlib.contextmanager
    def _spark(self) -> Iterator[tuple[Spark, Path]]:
        wanted = sum(flow.tasks for flow in self.flows) + len(self.flows)
        with scratch() as folder:
            spark = session.start(self._master, wanted, folder, self._conf)
            try:
                with session.hushed():
                    yield spark, folder
            except RelayError as error:
                if str(error) == GONE:
                    raise SparkError(f"{GONE}; what it said is in {folder}") from None
                raise
            finally:
                session.stop(spark)

    def _start(self, spark: Spark, checkpoint: Path, flow: FlowRun) -> None:
        # A new folder each time: positions are on the target. So epochs are numbered anew, and in another range, or
        # reports of two queries could not be told apart.
        place = checkpoint / uuid.uuid4().hex
        flow.began = time.monotonic()
        flow.starts += 1
        flow.query = FlowQuery(
            spark,
            QuerySpec(
                flow.name,
                self._paths,
                self._secrets,
                flow.run,
                flow.tasks,
                place.as_uri(),
                self._once,
                flow.starts * _EPOCHS,
            ),
        )

    def _look_after(self, spark: Spark, checkpoint: Path, flow: FlowRun, events: Callable[[str, str], None]) -> None:
        if flow.finished:
            return
        if flow.query is not None:
            if flow.query.active:
                return
            flow.error = flow.query.error()
            flow.query = None
            if not flow.error and self._once:
                flow.finished = True
                return
            self._fail(flow, f"the query ended ({flow.error or 'no reason given'})", events)
        if time.monotonic() >= flow.again_at:
            try:
                self._start(spark, checkpoint, flow)
            except RelayError as error:
                flow.error = str(error)
                self._fail(flow, f"the query does not start ({error})", events)

    def _fail(self, flow: FlowRun, what: str, events: Callable[[str, str], None]) -> None:
        """It is tried again, if that makes sense."""
        if SUPERSEDED in flow.error or flow.error == GONE:
            raise RelayError(flow.error)
        now = time.monotonic()
        if now - flow.began > _HEALTHY:
            flow.failures = 0
        pause = min(_FIRST_PAUSE * 2**flow.failures, _LONGEST_PAUSE)
        flow.failures += 1
        flow.again_at = now + pause
        events(flow.name, f"{what}; it starts again in {pause:.0f} s")

    def _end(self) -> None:
        """Tasks write their last positions, then the queries end."""
        with contextlib.suppress(RelayError):  # whoever has no Spark any more has nothing to end
            running = [flow for flow in self.flows if flow.query is not None and flow.query.active]
            told = []
            for flow in running:
                with contextlib.suppress(KafkaError):  # then nothing can be written either
                    _command(flow, "stop")
                    told.append(flow)
            deadline = time.monotonic() + _GRACE
            while time.monotonic() < deadline and any(flow.query and flow.query.relaying for flow in told):
                time.sleep(0.05)
            for flow in running:
                if flow.query is not None:
                    flow.query.stop()


def ready(config: FlowConfig, run: str) -> None:
    """Both clusters answer, and have the topics that a flow needs beside those with records.

    Raises one line that says what is missing; before Spark, where nobody would see it.
    """
    planner = Planner(config, run)
    try:
        planner.source.metadata([])
        planner.target.metadata([])
        planner.make_topics()
    finally:
        planner.close()


def _command(flow: FlowRun, verb: str) -> None:
    client = client_of(flow.config, "target")
    try:
        place = TopicPartition(journal_topic(flow.config.flow.source), COMMANDS)
        client.append(
            place, encode([(int(time.time() * 1000), None, Command(verb, flow.run, flow=flow.name).encode(), ())])
        )
    finally:
        client.close()
