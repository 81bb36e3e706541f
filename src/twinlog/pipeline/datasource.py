"""The PySpark data source: `format("twinlog")`. Its rows are claims, its sink relays what they claim.

    from twinlog.spark import TwinlogDataSource

    spark.dataSource.register(TwinlogDataSource)
    claims = spark.readStream.format("twinlog").option("config", "mm2.properties").option("flow", "us->eu").load()
    claims.writeStream.format("twinlog").option("config", "mm2.properties").option("flow", "us->eu")...start()

Options: `config` (a path, or a JSON list of paths), `flow`, `secrets`; and `tasks`, `run` and `epoch` (the number of
the first), which `twinlog run` sets. With `trigger(availableNow=True)` the query copies what is there and ends.

Who lives where: the reader in one process beside the driver, for as long as the query; `read` and `write` in workers,
which get a pickled copy; so nothing here opens a connection before it is used.
"""

import contextlib
import gc
import json
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from twinlog.config import load
from twinlog.config.flows import FlowConfig
from twinlog.errors import ConfigError, KafkaError, RefusedError, RelayError, TwinlogError
from twinlog.kafka import codes
from twinlog.model import TopicPartition
from twinlog.pipeline.changes import changes
from twinlog.pipeline.ear import Ear
from twinlog.pipeline.job import Claim, Job
from twinlog.pipeline.planner import Planner
from twinlog.pipeline.positions import Positions
from twinlog.pipeline.relay import Relay
from twinlog.tracking.journal import Command

SCHEMA: Final = "flow STRING, run STRING, epoch BIGINT, task INT, topic STRING, partition INT, claim STRING, job STRING"
SUPERSEDED: Final = "another run of"  # an error crosses Spark as text: by this the supervisor knows it
_TRY_AGAIN: Final = 1.0
# Answers to the making of a topic that only the operator can change: no right to, wrong name, partitions, replication
# factor or configs, against the cluster's policy.
_FINAL: Final = codes.DENIED | {17, 37, 38, 40, 44}


@dataclass(frozen=True, slots=True)
class Options:
    config: FlowConfig
    flows: tuple[FlowConfig, ...]  # all of the file
    run: str
    tasks: int
    epoch_seconds: float
    refresh_seconds: float
    first_epoch: int = 0


def read_options(options: dict[str, str]) -> Options:
    """The files are read where the driver is; what workers get of them is pickled, not written into Spark's plan."""
    if "config" not in options:
        raise ConfigError('the data source twinlog needs option("config", "<mm2.properties>")')
    text = options["config"]
    paths = json.loads(text) if text.startswith("[") else [text]
    config = load(paths, Path(options["secrets"]) if "secrets" in options else None)
    wanted = options.get("flow", "").replace(" ", "")
    known = [f for f in config.flows if f.replicates]
    flows = [f for f in known if str(f).replace(" ", "") == wanted] if wanted else known
    if len(flows) != 1:
        names = ", ".join(map(str, known)) or "none"
        raise ConfigError(f'option("flow", "{wanted}") must name one of the flows that replicate: {names}')
    settings = flows[0].source.settings if flows[0].source else None
    assert settings is not None
    assert flows[0].source is not None
    values = flows[0].source.values
    refresh = settings.refresh_topics_interval_seconds if "refresh.topics.interval.seconds" in values else 30
    tasks = settings.tasks_max if "tasks.max" in values else 2
    return Options(
        flows[0],
        config.flows,
        options.get("run") or uuid.uuid4().hex,
        int(options.get("tasks") or tasks),
        float(settings.twinlog_epoch_seconds),
        float(refresh) if settings.refresh_topics_enabled else float("inf"),
        int(options.get("epoch") or 0),
    )


@dataclass
class Group(InputPartition):
    """What one task gets: its claims, and what they have in common."""

    common: dict[str, Any]
    claims: list[str]

    def __init__(self, common: dict[str, Any], claims: list[str]) -> None:
        super().__init__(common["task"])
        self.common = common
        self.claims = claims


class TwinlogDataSource(DataSource):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        return "twinlog"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> "ClaimReader":  # noqa: N802, ARG002
        return ClaimReader(self._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "RelayWriter":  # noqa: N802, ARG002
        return RelayWriter(self._options.config)


class ClaimReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are epochs: Spark wants to know the end before work begins, and the real positions are on the target."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner: Planner | None = None
        self._claims: list[Claim] | None = None
        self._once = False
        self._last: dict[str, int] | None = None
        self._watch: Watch | None = None
        self._carried: list[TopicPartition] | None = None  # what was there when an epoch last began

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None, "_watch": None, "_claims": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"epoch": self._options.first_epoch, "once": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._once = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Waits until there is something to relay."""
        if self._once:
            # One epoch for each query, also where a checkpoint holds those of earlier ones.
            self._last = self._last or {"epoch": start["epoch"] + 1, "once": 1}
            return self._last
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        while True:
            claims = self._look()
            self._tell_changes([claim.place for claim in claims])
            if claims:
                self._claims = claims
                return {"epoch": start["epoch"] + 1, "once": 0}
            time.sleep(min(self._options.refresh_seconds, 5.0))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002
        once = bool(end["once"])
        claims, self._claims = self._claims, None
        plan = self._patiently(lambda planner: planner.plan(self._options.tasks, once=once, claims=claims))
        if not once:
            self._watch = Watch(self._options, plan.groups, end["epoch"])
        common = {
            "run": self._options.run,
            "epoch": end["epoch"],
            "producers": plan.producers,
            "journal_offset": plan.journal_offset,
            "offsets_partitions": plan.offsets_partitions,
            "epoch_seconds": 1e9 if once else self._options.epoch_seconds,
        }
        return [
            Group({**common, "task": task}, [claim.encode() for claim in group])
            for task, group in enumerate(plan.groups)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Group)
        common = partition.common
        job = json.dumps(common)
        for text in partition.claims:
            place = Claim.decode(text).place
            yield str(self._options.config.flow), common["run"], common["epoch"], common["task"], *place, text, job

    def commit(self, end: dict[str, int]) -> None:
        """The truth is on the target, nothing is kept here."""

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _look(self) -> list[Claim]:
        def look(planner: Planner) -> list[Claim]:
            if planner.superseded():
                raise RelayError(
                    f"{SUPERSEDED} {self._options.config.flow} has begun: this one ends; run each flow in one place"
                )
            while planner.stopped:  # whoever said so ends the query; a new epoch would only be in the way
                time.sleep(1)
            return planner.discover()

        found: list[Claim] = self._patiently(look)
        return found

    def _patiently(self, ask: Any) -> Any:
        """A cluster that is away comes back; an error that reaches Spark ends the query."""
        said = ""
        while True:
            try:
                planner = self._planner or self._prepared()
                self._planner = planner
                answer = ask(planner)
            except KafkaError as error:
                if str(error) != said:
                    said = str(error)
                    self._complain(said)
                time.sleep(_TRY_AGAIN)
            else:
                self._tell_warnings()
                return answer

    def _prepared(self) -> Planner:
        planner = Planner(self._options.config, self._options.run, self._options.flows)
        try:
            planner.prepare()
        except RefusedError as error:
            if error.code in _FINAL:
                raise RelayError(str(error)) from error
            raise
        return planner

    def _complain(self, text: str) -> None:
        """To whoever can hear: through the journal, if the target answers, and in Spark's log."""
        print(f"twinlog: {self._options.config.flow}: {text}", flush=True)  # noqa: T201
        if self._planner is not None:
            with contextlib.suppress(KafkaError):
                self._planner.tell([{"time": int(time.time() * 1000), "kind": "waiting", "text": text}])

    def _tell_changes(self, places: list[TopicPartition]) -> None:
        before, self._carried = self._carried, places
        if before is not None and (told := changes(before, places, int(time.time() * 1000))):
            self._patiently(lambda planner: planner.tell(told))

    def _tell_warnings(self) -> None:
        assert self._planner is not None
        if self._planner.warnings:
            now = int(time.time() * 1000)
            events = [
                {"time": now, "kind": "warning" if text in self._planner.harmless else "left out", "text": text}
                for text in self._planner.warnings
            ]
            self._planner.warnings.clear()
            self._planner.tell(events)


class Watch:
    """While an epoch runs: has the set of partitions changed, or does one task carry too much? Then the epoch ends."""

    def __init__(self, options: Options, groups: list[list[Claim]], epoch: int) -> None:
        self._options = options
        self._groups = [[claim.place for claim in group] for group in groups]
        self._epoch = epoch
        self._closing = threading.Event()
        threading.Thread(target=self._look_around, name="watch", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _look_around(self) -> None:
        planner = Planner(self._options.config, self._options.run, self._options.flows)
        known = {place for group in self._groups for place in group}
        began = time.monotonic()
        ended = False
        try:
            while not ended and not self._closing.wait(min(self._options.refresh_seconds, 60.0)):
                try:
                    there = {claim.place for claim in planner.discover()}
                    planner.hear()
                    settled = time.monotonic() - began > 60
                    if there != known or (settled and planner.lopsided(self._groups)):
                        planner.command("end", self._epoch)
                        ended = True
                except TwinlogError:
                    continue  # a cluster is away: tasks see that by themselves
        finally:
            planner.close()


@dataclass
class Receipt(WriterCommitMessage):
    task: int
    reason: str


class RelayWriter(DataSourceStreamWriter):
    def __init__(self, config: FlowConfig) -> None:
        self._config = config

    def write(self, iterator: Iterator[Row]) -> Receipt:
        rows = list(iterator)
        if not rows:
            return Receipt(-1, "nothing claimed")
        common = json.loads(rows[0].job)
        claims = tuple(Claim.decode(row.claim) for row in rows)
        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        job = Job(
            self._config.flow,
            self._config,
            claims,
            tuple(common["producers"]),
            common["run"],
            common["epoch"],
            common["task"],
            attempt,
            common["epoch_seconds"],
            common["journal_offset"],
            common["offsets_partitions"],
        )
        return Receipt(job.task, relay(job))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The truth is on the target, nothing is kept here."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: what is on the target is right, and the next attempt goes on from there."""


def relay(job: Job) -> str:
    """Relays until the epoch ends, by time or by command; says why it ended."""
    if job.attempt:
        job = replace(job, claims=_fresh(job))
    task = Relay(job)
    if job.attempt:
        task.ledger.say("task retry", f"task {job.task} failed: attempt {job.attempt + 1} goes on where it stood")

    def hear(command: Command) -> None:
        if command.flow != str(job.config):
            return
        if command.run != job.run and command.verb == "run":
            task.end("superseded")
        elif command.run == job.run and (command.verb == "stop" or command.epoch == job.epoch):
            task.end(command.verb)

    ear = Ear(job.client("target"), job.journal, job.journal_offset, hear)
    try:
        return task.run()
    finally:
        ear.close()


def _fresh(job: Job) -> tuple[Claim, ...]:
    """After a failed attempt the claims are old: what that attempt still wrote shortens the walk."""
    source, target = job.client("source"), job.client("target")
    try:
        positions = Positions(job.config, source, target)
        positions.read()
        return tuple(positions.known(claim) for claim in job.claims)
    except KafkaError:
        return job.claims
    finally:
        source.close()
        target.close()


# Spark's workers collect garbage after every task: what is imported by now need not be looked at again.
gc.collect()
gc.freeze()
