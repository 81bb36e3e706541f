"""The records of one flow: its query, started again when it ends, and ended in good order."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import KafkaError, RelayError, TwinlogError
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.pipeline.datasource import SUPERSEDED
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.query import GONE, FlowQuery, QuerySpec, Spark
from twinlog.runtime.flow_run import FlowRun, client_of
from twinlog.runtime.listener import Listener
from twinlog.runtime.parts import Wanted
from twinlog.tracking.journal import COMMANDS, Command, journal_topic

_EPOCHS: Final = 1_000_000  # more than a query ever has
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_HEALTHY: Final = 60.0  # a query that ran for so long did not fail because of what it was started with
_GRACE: Final = 8.0  # for tasks to write their last positions

Events = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Manner:
    """How flows are run; `patient`: what cannot start is tried again later, and ends no other flow."""

    secrets: Path | None = None
    once: bool = False
    patient: bool = False


class Records:
    """Belongs to the supervisor's thread, as all of it does; nothing in here waits for long."""

    def __init__(self, wanted: Wanted, manner: Manner) -> None:
        self.flow = FlowRun(wanted.config, wanted.tasks)
        self._paths = wanted.paths
        self._manner = manner
        self._checkpoints = Path()
        self._listener: Listener | None = None
        self._attempt: Attempt | None = None
        self._next: Wanted | None = None  # how it goes on once it has ended
        self._wanted = False
        self._ends_by: float | None = None  # it was told to end
        self.given_up = False  # trying again makes no sense

    @property
    def running(self) -> bool:
        """Whether something of it may still write."""
        return self.flow.query is not None

    @property
    def paths(self) -> tuple[str, ...]:
        return (*self._paths, *(self._next.paths if self._next else ()))

    @property
    def state(self) -> str:
        """idle, starting, running, retrying, failed, finished or ending."""
        flow = self.flow
        if self._ends_by is not None:
            return "ending"
        if flow.finished:
            return "finished"
        if not self._wanted:
            return "idle"
        if self.given_up:
            return "failed"
        if flow.query is not None:
            return "running"
        return "retrying" if flow.error else "starting"

    def begin(self, wanted: Wanted, checkpoints: Path) -> None:
        """From now on it shall run, like this; what runs is ended first."""
        self.end()
        self._next, self._wanted, self._checkpoints = wanted, True, checkpoints

    def end(self) -> None:
        """Tasks are told to write their last positions; the query ends when they have, or when that takes too long."""
        self._wanted, self._next = False, None
        if self.flow.query is not None and self._ends_by is None:
            self._ends_by = time.monotonic()
            with contextlib.suppress(KafkaError, RelayError):  # then nothing can be written either
                if self.flow.query.active:
                    _command(self.flow, "stop")
                    self._ends_by += _GRACE

    def look(self, spark: Spark, events: Events) -> None:
        """What is due now; about four times a second."""
        if self._listener is not None:
            self._listener.take(events)
        if self._ends_by is not None:
            self._ending()
            return
        if not self._wanted or self.flow.finished or self.given_up:
            return
        if self._next is not None:
            self._adopt(self._next, events)
        if self.flow.query is not None:
            self._look_after(events)
        if self.flow.query is None and not self.flow.finished and time.monotonic() >= self.flow.again_at:
            self._try(spark, events)

    def close(self, events: Events) -> None:
        if self._listener is not None:
            self._listener.finish(events)
            self._listener = None

    def listen(self) -> None:
        self._listener = self._listener or Listener(self.flow)

    def _adopt(self, wanted: Wanted, events: Events) -> None:
        """A run of its own: the one before was told to stop, and whoever bears its name would hear that."""
        flow = self.flow
        if flow.starts or self._listener is not None:
            self.close(events)
            flow.run = uuid.uuid4().hex
            flow.status.run = flow.run
        flow.config, flow.tasks, self._paths = wanted.config, wanted.tasks, wanted.paths
        flow.failures, flow.again_at, flow.error, self._attempt = 0, 0.0, "", None
        self.given_up = False
        self._next = None
        if not wanted.tasks:
            flow.error = "Spark has no slot left for this flow: raise the number of tasks in --master local[n]"
            events(flow.name, flow.error)
            self.given_up = True
            return
        if not self._manner.patient:
            self.listen()

    def _try(self, spark: Spark, events: Events) -> None:
        flow = self.flow
        if self._manner.patient:
            self._attempt = self._attempt or Attempt(flow.config, flow.run)
            if not self._attempt.over:
                return
            error, self._attempt = self._attempt.error, None
            if error:
                flow.error = error
                self._again("it does not start", events)
                return
            self.listen()
        try:
            self._start(spark)
        except RelayError as error:
            flow.error = str(error)
            self._fail(f"the query does not start ({error})", events)

    def _start(self, spark: Spark) -> None:
        # A new folder each time: positions are on the target. So epochs are numbered anew, and in another range, or
        # reports of two queries could not be told apart.
        flow = self.flow
        place = self._checkpoints / uuid.uuid4().hex
        flow.began = time.monotonic()
        flow.starts += 1
        flow.query = FlowQuery(
            spark,
            QuerySpec(
                flow.name,
                self._paths,
                self._manner.secrets,
                flow.run,
                flow.tasks,
                place.as_uri(),
                self._manner.once,
                flow.starts * _EPOCHS,
            ),
        )
        flow.error = ""

    def _look_after(self, events: Events) -> None:
        flow = self.flow
        assert flow.query is not None
        if flow.query.active:
            return
        flow.error = flow.query.error()
        flow.query = None
        if not flow.error and self._manner.once:
            flow.finished = True
            return
        self._fail(f"the query ended ({flow.error or 'no reason given'})", events)

    def _fail(self, what: str, events: Events) -> None:
        """It is tried again, if that makes sense."""
        if self.flow.error == GONE or (SUPERSEDED in self.flow.error and not self._manner.patient):
            raise RelayError(self.flow.error)
        if SUPERSEDED in self.flow.error:
            self.given_up = True
            events(self.flow.name, f"{self.flow.error}; restart its connector to take it back")
            return
        self._again(what, events)

    def _again(self, what: str, events: Events) -> None:
        flow = self.flow
        now = time.monotonic()
        if flow.began and now - flow.began > _HEALTHY:
            flow.failures = 0
        pause = min(_FIRST_PAUSE * 2**flow.failures, _LONGEST_PAUSE)
        flow.failures += 1
        flow.again_at = now + pause
        reason = "" if flow.error in what or not flow.error else f" ({flow.error})"
        events(flow.name, f"{what}{reason}; it starts again in {pause:.0f} s")

    def _ending(self) -> None:
        query = self.flow.query
        assert self._ends_by is not None
        late = time.monotonic() >= self._ends_by
        with contextlib.suppress(RelayError):  # whoever has no Spark any more has nothing to end
            if query is not None and not late and query.relaying:
                return
        if query is not None:
            query.stop()
        self.flow.query = None
        self._ends_by = None


class Attempt:
    """Looks in a thread of its own whether a flow can start: a cluster that is away keeps nobody else waiting."""

    def __init__(self, config: FlowConfig, run: str) -> None:
        self.error = ""
        self._thread = threading.Thread(target=self._look, args=(config, run), name=f"attempt {config}", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def _look(self, config: FlowConfig, run: str) -> None:
        try:
            ready(config, run)
        except (TwinlogError, OSError) as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001  # an answer that nobody thought of is this flow's trouble only
            self.error = f"{type(error).__name__}: {error}"


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
