"""Runs flows until told to stop: starts their queries, starts them again when they end, hears what tasks report."""

import contextlib
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from twinlog.config import Config
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError, KafkaError, RelayError, TwinlogError
from twinlog.kafka.client import LATEST, Client
from twinlog.kafka.reading import batch_end, records_from
from twinlog.kafka.records import encode
from twinlog.model import TopicPartition
from twinlog.pipeline import session
from twinlog.pipeline.query import FlowQuery, QuerySpec, Spark
from twinlog.status import FlowStatus
from twinlog.tracking.journal import COMMANDS, REPORTS, Command, Report, journal_topic

_MOST_TASKS: Final = 4  # where the operator does not say how many
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_GRACE: Final = 8.0  # for tasks to write their last positions


@dataclass(slots=True)
class FlowRun:
    config: FlowConfig
    tasks: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    query: FlowQuery | None = None
    status: FlowStatus = field(init=False)
    failures: int = 0
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
        if not any(wanted.replace(" ", "") in (str(flow.flow), str(flow)) for flow in known):
            there = ", ".join(str(flow) for flow in known) or "none"
            raise ConfigError(
                f"--flow {wanted}: no such flow that replicates in {', '.join(config.files)}; there is: {there}"
            )
    for alias in clusters:
        if alias not in config.clusters:
            raise ConfigError(f"--clusters {alias}: no such cluster; there is: {', '.join(sorted(config.clusters))}")
    wanted_names = {each.replace(" ", "") for each in flows}
    found = [
        flow
        for flow in known
        if (not wanted_names or wanted_names & {str(flow.flow), str(flow)})
        and (not clusters or flow.flow.target in clusters)
    ]
    if not found:
        raise ConfigError(
            f"{', '.join(config.files)}: no flow that replicates is left to run: set <source>-><target>.enabled = true"
        )
    return found


def tasks_of(flow: FlowConfig) -> int:
    assert flow.source is not None
    if "tasks.max" in flow.source.values:
        return flow.source.settings.tasks_max
    return max(1, min(_MOST_TASKS, os.cpu_count() or 1))


class Runtime:
    """`events` is called with (flow, text) for what an operator should see; `tick` about once a second."""

    def __init__(
        self,
        config: Config,
        flows: Sequence[FlowConfig],
        *,
        paths: Sequence[str],
        secrets: Path | None = None,
        master: str | None = None,
        once: bool = False,
        conf: dict[str, str] | None = None,
    ) -> None:
        self._paths = [str(Path(path).resolve()) for path in paths]
        self._secrets = secrets.resolve() if secrets else None
        self._master = master
        self._once = once
        self._conf = conf or {}
        self._stop = threading.Event()
        self.flows = [FlowRun(flow, tasks_of(flow)) for flow in flows]
        self._folder: Path | None = None
        del config

    def stop(self) -> None:
        """From any thread or signal handler."""
        self._stop.set()

    def run(self, events: Callable[[str, str], None], tick: Callable[[], None]) -> None:
        """Returns when all is copied (`once`) or `stop` was called; raises what cannot be mended by trying again."""
        for flow in self.flows:
            reachable(flow.config)
        with self._spark() as (spark, folder):
            events("", f"Spark {spark.version} is up")
            listeners = [_Listener(flow) for flow in self.flows]
            try:
                for number, flow in enumerate(self.flows):
                    self._start(spark, folder / f"checkpoint-{number}", flow)
                while not self._stop.is_set() and not all(flow.finished for flow in self.flows):
                    self._stop.wait(0.25)
                    for number, flow in enumerate(self.flows):
                        self._look_after(spark, folder / f"checkpoint-{number}", flow, events)
                        for event in flow.status.news():
                            events(flow.name, str(event.get("text", "")))
                    tick()
            finally:
                self._end()
                for flow, listener in zip(self.flows, listeners, strict=True):
                    listener.finish()
                    for event in flow.status.news():
                        events(flow.name, str(event.get("text", "")))
                tick()

    @contextlib.contextmanager
    def _spark(self) -> Iterator[tuple[Spark, Path]]:
        folder = Path(tempfile.mkdtemp(prefix="twinlog-"))
        slots = sum(flow.tasks for flow in self.flows) + len(self.flows)
        try:
            spark = session.start(self._master, slots, folder, self._conf)
            try:
                yield spark, folder
            finally:
                session.stop(spark)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, spark: Spark, checkpoint: Path, flow: FlowRun) -> None:
        # A new folder each time: an epoch's number means nothing to the next query.
        place = checkpoint / uuid.uuid4().hex
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
            if "another run of" in flow.error:
                raise RelayError(flow.error)
            if not session.is_alive():
                raise RelayError("Spark's Java process is gone; nothing is lost: start again to go on")
            pause = min(_FIRST_PAUSE * 2**flow.failures, _LONGEST_PAUSE)
            flow.failures += 1
            flow.again_at = time.monotonic() + pause
            events(flow.name, f"the query ended ({flow.error or 'no reason given'}); it starts again in {pause:.0f} s")
        if time.monotonic() >= flow.again_at:
            self._start(spark, checkpoint, flow)

    def _end(self) -> None:
        """Tasks write their last positions, then the queries end."""
        running = [flow for flow in self.flows if flow.query is not None and flow.query.active]
        for flow in running:
            with contextlib.suppress(KafkaError):
                _command(flow, "stop")
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline and any(flow.query and flow.query.relaying for flow in running):
            time.sleep(0.05)
        for flow in running:
            if flow.query is not None:
                flow.query.stop()


def reachable(config: FlowConfig) -> None:
    """Both clusters answer; raises one line that says which does not."""
    for side in ("source", "target"):
        client = _client(config, side)
        try:
            client.metadata([])
        finally:
            client.close()


def _client(config: FlowConfig, side: str) -> Client:
    assert config.source is not None
    role = "source.consumer" if side == "source" else "data.producer"
    alias = config.flow.source if side == "source" else config.flow.target
    return Client(alias, config.source.clients[role], f"twinlog-{config.flow}")


def _command(flow: FlowRun, verb: str) -> None:
    client = _client(flow.config, "target")
    try:
        place = TopicPartition(journal_topic(flow.config.flow.source), COMMANDS)
        client.append(place, encode([(int(time.time() * 1000), None, Command(verb, flow.run).encode(), ())]))
    finally:
        client.close()


class _Listener:
    """Hears the reports of one flow."""

    def __init__(self, flow: FlowRun) -> None:
        self._flow = flow
        self._client = _client(flow.config, "target")
        self._place = TopicPartition(journal_topic(flow.config.flow.source), REPORTS)
        self._next: int | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"listener {flow.name}", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Hears what is there by now, and no more."""
        self._closing.set()
        self._thread.join(timeout=3)
        with contextlib.suppress(TwinlogError, OSError):
            self._hear(0)
        self._client.close()

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._hear(1000)
            except (TwinlogError, OSError):
                self._closing.wait(0.5)

    def _hear(self, wait_ms: int) -> None:
        with self._lock:
            if self._next is None:
                self._client.leader(self._place, fresh=True)
                ends, _ = self._client.list_offsets([self._place], LATEST)
                self._next = ends.get(self._place)
                return
            answer = self._client.read(self._place, self._next, wait_ms=wait_ms)
            if answer.error_code:
                self._next = None
                return
            for record in records_from(answer.records, self._next):
                if (report := Report.decode(record.value)) is not None:
                    self._flow.status.add(report)
            self._next = batch_end(answer.records) or self._next
