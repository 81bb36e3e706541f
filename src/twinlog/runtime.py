"""Runs flows until told to stop: starts their queries, starts them again when they end, hears what tasks report."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError, KafkaError, RefusedError, RelayError, SparkError, TwinlogError
from twinlog.kafka import codes
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.reading import batch_end, records_from
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.pipeline import session
from twinlog.pipeline.datasource import SUPERSEDED
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.query import GONE, FlowQuery, QuerySpec, Spark, slots
from twinlog.status import FlowStatus
from twinlog.tracking.journal import COMMANDS, REPORTS, Command, Report, journal_topic
from twinlog.upkeep.keeper import Keeper

_MOST_TASKS: Final = 4  # where the operator does not say how many
_SCRATCH: Final = "twinlog-run-"
_OWNED: Final = "owned"
_EPOCHS: Final = 1_000_000  # more than a query ever has
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_HEALTHY: Final = 60.0  # a query that ran for so long did not fail because of what it was started with
_SILENT: Final = 5.0  # seconds without an answer that are not worth a line
_GRACE: Final = 8.0  # for tasks to write their last positions


@dataclass(slots=True)
class FlowRun:
    config: FlowConfig
    tasks: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    query: FlowQuery | None = None
    status: FlowStatus = field(init=False)
    starts: int = 0
    failures: int = 0  # in a row
    began: float = 0.0
    again_at: float = 0.0
    error: str = ""
    finished: bool = False

    def __post_init__(self) -> None:
        self.status = FlowStatus(self.run)

    @property
    def name(self) -> str:
        return str(self.config)


def chosen(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """The flows that replicate records, and are asked for; `clusters` are targets, as MM2's --clusters has it."""
    known = [flow for flow in config.flows if flow.replicates]
    for wanted in flows:
        if not any(is_named(flow, wanted) for flow in known):
            there = ", ".join(str(flow) for flow in known) or "none"
            raise ConfigError(
                f"--flow {wanted}: no such flow that replicates in {', '.join(config.files)}; there is: {there}"
            )
    for alias in clusters:
        if alias not in config.clusters:
            raise ConfigError(f"--clusters {alias}: no such cluster; there is: {', '.join(sorted(config.clusters))}")
    found = [
        flow
        for flow in known
        if (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]
    if not found and known:
        raise ConfigError(
            f"--clusters {','.join(clusters)}: none of the flows that replicate ends there; there is: "
            f"{', '.join(str(flow) for flow in known)}"
        )
    if not found:
        raise ConfigError(f"{', '.join(config.files)}: no flow replicates: set <source>-><target>.enabled = true")
    return found


def beating(config: Config, flows: Sequence[str], clusters: Sequence[str]) -> list[FlowConfig]:
    """Flows that copy nothing and only emit heartbeats: by them the way back is known."""
    return [
        flow
        for flow in config.flows
        if flow.emits_heartbeats
        and not flow.replicates
        and (not flows or any(is_named(flow, wanted) for wanted in flows))
        and (not clusters or flow.flow.target in clusters)
    ]


def is_named(flow: FlowConfig, wanted: str) -> bool:
    """By its clusters, which may have several flows between them, or by its full name; blanks do not matter."""
    return wanted.replace(" ", "") in {str(flow.flow), str(flow).replace(" ", "")}


def tasks_of(flow: FlowConfig) -> int:
    assert flow.source is not None
    if "tasks.max" in flow.source.values:
        return flow.source.settings.tasks_max
    return max(1, min(_MOST_TASKS, os.cpu_count() or 1))


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
            listeners = [_Listener(flow) for flow in self.flows]
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
        with _scratch() as folder:
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


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for Spark. It stays when Spark failed, for its log; and after kill -9, until the next run sweeps it."""
    for file in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/{_OWNED}"):
        with contextlib.suppress(OSError), file.open() as owned:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its owner lives
            shutil.rmtree(file.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_SCRATCH))
    with (folder / "new").open("w") as owned:
        fcntl.flock(owned, fcntl.LOCK_EX)
        (folder / "new").rename(folder / _OWNED)
        try:
            yield folder
        except SparkError:
            (folder / _OWNED).unlink()
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


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


def _client(config: FlowConfig, side: str) -> Client:
    assert config.source is not None
    role = "source.consumer" if side == "source" else "data.producer"
    alias = config.flow.source if side == "source" else config.flow.target
    return Client(alias, config.source.clients[role], f"twinlog-{config.flow}")


def _command(flow: FlowRun, verb: str) -> None:
    client = _client(flow.config, "target")
    try:
        place = TopicPartition(journal_topic(flow.config.flow.source), COMMANDS)
        client.append(
            place, encode([(int(time.time() * 1000), None, Command(verb, flow.run, flow=flow.name).encode(), ())])
        )
    finally:
        client.close()


class _Listener:
    """Hears the reports of one flow, in a thread of its own; they are taken over in the supervisor's."""

    def __init__(self, flow: FlowRun) -> None:
        self._flow = flow
        self._client = _client(flow.config, "target")
        self._place = TopicPartition(journal_topic(flow.config.flow.source), REPORTS)
        self._next: int | None = None
        self._heard: SimpleQueue[Report | str] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"listener {flow.name}", daemon=True)
        self._thread.start()

    def take(self, events: Callable[[str, str], None]) -> None:
        """What was heard since this was last called."""
        with contextlib.suppress(Empty):
            while True:
                heard = self._heard.get_nowait()
                if isinstance(heard, Report):
                    self._flow.status.add(heard)
                else:
                    events(self._flow.name, heard)
        for event in self._flow.status.news():
            events(self._flow.name, str(event.get("text", "")))

    def finish(self, events: Callable[[str, str], None]) -> None:
        """Hears what is there by now, and no more."""
        self._closing.set()
        self._thread.join(timeout=3)
        if not self._thread.is_alive():
            with contextlib.suppress(TwinlogError, OSError):
                while self._hear(0):
                    pass
            self._client.close()
        self.take(events)

    def _listen(self) -> None:
        silent_since: float | None = None
        told = False
        while not self._closing.is_set():
            try:
                self._hear(1000)
            except (TwinlogError, OSError) as error:
                now = time.monotonic()
                silent_since = silent_since or now
                if not told and now - silent_since > _SILENT:
                    self._heard.put(str(error))
                    told = True
                self._closing.wait(0.5)
            else:
                if told:
                    self._heard.put(f"cluster {self._flow.config.flow.target} answers again")
                silent_since, told = None, False

    def _hear(self, wait_ms: int) -> bool:
        """Whether there was something."""
        if self._next is None:
            self._client.leader(self._place, fresh=True)
            ends, _ = self._client.list_offsets([self._place], LATEST)
            self._next = ends.get(self._place)
            return False
        answer = self._client.read(self._place, self._next, wait_ms=wait_ms)
        if answer.error_code == codes.OFFSET_OUT_OF_RANGE:  # the journal keeps an hour
            self._next = None
            return False
        if answer.error_code:
            raise RefusedError(f"{self._place}: {codes.name(answer.error_code)}", answer.error_code)
        for record in records_from(answer.records, self._next):
            if (report := Report.decode(record.value)) is not None:
                self._heard.put(report)
        end = batch_end(answer.records, self._next)
        self._next = end or self._next
        return end is not None
