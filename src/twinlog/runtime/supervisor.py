"""Runs flows until told to stop: starts their parts, starts them again when they end, and follows what is wanted."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twinlog.config.flows import FlowConfig
from twinlog.errors import RelayError, SparkError
from twinlog.pipeline import session
from twinlog.pipeline.query import GONE, Spark, is_embedded, slots
from twinlog.runtime.choice import tasks_of
from twinlog.runtime.flow_run import FlowRun
from twinlog.runtime.herald import Herald, News
from twinlog.runtime.parts import RECORDS, Part, Wanted, reconcile, shared
from twinlog.runtime.records import Manner, Records, ready
from twinlog.runtime.room import Room
from twinlog.runtime.scratch import scratch
from twinlog.status.board import Board
from twinlog.upkeep.keeper import Keeper

# Slots where more flows may come: each is a thread that Spark makes when it is used, and so costs nothing before. But
# Spark makes as many for messages between its own parts, at once (500 of them take 50 MB), if it is not told otherwise.
_ROOM: Final = 512
_FEW_MESSAGES: Final = {"spark.rpc.netty.dispatcher.numThreads": "4"}
_ENDING: Final = 12.0  # seconds in which all flows have ended, one way or the other


@dataclass(frozen=True, slots=True)
class PartState:
    """`state` is one of starting, running, retrying, failed, finished, ending."""

    state: str
    error: str = ""
    tasks: int = 1
    starts: int = 1


class Runtime:
    """`events` is called with (flow, text) for what an operator should see; `tick` about four times a second.

    What shall run may be changed at any time (`want`), from any thread; it is carried out in the thread of `run`.
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
        beating: Sequence[FlowConfig] = (),
        serving: Path | None = None,
    ) -> None:
        """`beating` are flows that only emit heartbeats. `serving`: flows come and go, and one that cannot start ends
        none of the others; it is the folder for what Spark writes.
        """
        files = tuple(str(Path(path).resolve()) for path in paths)
        self._master = master
        self._manner = Manner(secrets.resolve() if secrets else None, once, serving is not None)
        self._conf = conf or {}
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._asked: list[Wanted] = [
            Wanted(flow, files, tasks_of(flow) if flow.source else 1) for flow in (*flows, *(() if once else beating))
        ]
        self._room = Room()
        self._folder = serving
        self._records: dict[str, Records] = {
            flow.name: Records(flow, self._manner) for flow in self._asked if flow.config.replicates
        }
        self._keepers: dict[str, Keeper] = {flow.name: Keeper(flow.config) for flow in self._asked}
        self._running: dict[Part, object] = {}
        self._said: set[str] = set()
        self._herald = Herald()
        self.board = Board(each.flow.status for each in self._records.values())
        self.up = False  # whether Spark is
        self.parts: dict[Part, PartState] = {}  # replaced, never changed: may be read from any thread
        self._wishes = self._followed = 0
        self.carried_out = 0  # the number of the last wish that `parts` tells of

    @property
    def flows(self) -> list[FlowRun]:
        return [each.flow for each in self._records.values()]

    @property
    def wanted(self) -> list[Wanted]:
        return list(self._asked)

    @property
    def used_paths(self) -> set[str]:
        """The files that queries read, or will if they are started again. In the thread of `run` only."""
        return {path for records in self._records.values() for path in records.paths}

    def stop(self) -> None:
        """From any thread or signal handler."""
        self._stop.set()
        self._wake.set()

    def want(self, flows: Sequence[Wanted]) -> int:
        """What shall run from now on, in place of all that was wanted before; the number of this wish.

        From any thread, but by one at a time.
        """
        self._asked = list(flows)
        self._wishes += 1
        self._wake.set()
        return self._wishes

    def run(self, events: Callable[[str, str], None], tick: Callable[[], None]) -> None:
        """Returns when all is copied (`once`) or `stop` was called; raises what cannot be mended by trying again."""
        if not self._manner.patient:
            for flow in self.flows:
                ready(flow.config, flow.run)
        with self._spark() as (spark, folder):
            events("", f"Spark {spark.version} is up")
            self._folder = folder
            fixed = is_embedded(spark)
            self._room.see(slots(spark), time.monotonic(), fixed=fixed)
            if not self._manner.patient:
                self._fit()
                self._say_fewer(self._asked, shared(self._asked, self._room.slots), events)
            self.up = True
            try:
                while not self._stop.is_set() and not self._finished:
                    if not fixed and not self._manner.once:  # once: who has ended makes room
                        self._room.see(slots(spark), time.monotonic())
                    self._follow(events)
                    for records in self._records.values():
                        records.look(spark, events)
                    for keeper in self._keepers.values():
                        keeper.take(events)
                    self._tell()
                    tick()
                    self._wake.wait(0.25)
                    self._wake.clear()
            finally:
                self._end(spark, events)
                tick()

    @property
    def _finished(self) -> bool:
        return self._manner.once and all(each.flow.finished for each in self._records.values())

    def _follow(self, events: Callable[[str, str], None]) -> None:
        """Takes the steps to what is wanted now."""
        self._followed, asked = self._wishes, self._asked
        wanted = shared(asked, self._room.slots)
        self._say_fewer(asked, wanted, events)
        steps = reconcile(self._running, wanted)
        by_name = {flow.name: flow for flow in wanted}
        for name in [name for name in self._keepers if name not in by_name]:
            self._keepers[name].stop()
            self._keepers.pop(name).take(events)
        for flow in wanted:
            self._keepers.setdefault(flow.name, Keeper(flow.config)).change(flow.config)
        for part in steps.stop:
            self._stop_part(part)
        for part in steps.start:
            self._start_part(part, by_name[part.flow])
        for name in [name for name in self._records if name not in by_name or not _may_replicate(by_name[name].config)]:
            if not self._records[name].running:
                self._records.pop(name).close(events)
        for flow in wanted:
            if self._manner.patient and flow.name not in self._records and _may_replicate(flow.config):
                self._records[flow.name] = Records(flow, self._manner)  # paused: it is seen all the same
        shown = [each.flow.status for each in self._records.values()]
        if shown != self.board.flows:
            self.board.show(shown)

    def _stop_part(self, part: Part) -> None:
        del self._running[part]
        if part.subject != RECORDS:
            if part.flow in self._keepers:
                self._keepers[part.flow].stop([part.subject])
        elif part.flow in self._records:
            self._records[part.flow].end()

    def _start_part(self, part: Part, wanted: Wanted) -> None:
        self._running[part] = wanted.likeness(part.subject)
        if part.subject == RECORDS:
            if part.flow not in self._records:
                self._records[part.flow] = Records(wanted, self._manner)
            assert self._folder is not None
            self._records[part.flow].begin(wanted, self._folder / "checkpoints")
        elif not self._manner.once:
            self._keepers[part.flow].start([part.subject])

    def _tell(self) -> None:
        """What runs, for whoever asks from another thread."""
        found: dict[Part, PartState] = {}
        for part in self._running:
            error = self._keepers[part.flow].errors.get(part.subject, "") if part.flow in self._keepers else ""
            found[part] = PartState("failed" if error else "running", error)
        for name, records in self._records.items():
            if records.state != "idle":
                found[Part(name, RECORDS)] = PartState(
                    records.state, records.flow.error, records.flow.tasks, records.flow.starts
                )
        self.parts = found
        self.carried_out = self._followed
        configs = {flow.name: flow.config for flow in self._asked}
        self._herald.tell(
            News(each.flow, each.state, configs.get(name), self._keepers.get(name))
            for name, each in self._records.items()
        )

    def _fit(self) -> None:
        moving = len(self._records)
        if self._room.slots is not None and self._room.slots < moving:
            raise RelayError(
                f"--master {self._master} runs {self._room.slots} tasks at a time, and each flow needs one: raise it"
            )

    def _say_fewer(self, asked: Sequence[Wanted], given: Sequence[Wanted], events: Callable[[str, str], None]) -> None:
        for before, after in zip(asked, given, strict=True):
            text = f"{after.tasks} of {before.tasks} tasks, as --master {self._master} has no room for more"
            if 0 < after.tasks < before.tasks and f"{after.name}: {text}" not in self._said:
                self._said.add(f"{after.name}: {text}")
                events(after.name, text)

    @contextlib.contextmanager
    def _spark(self) -> Iterator[tuple[Spark, Path]]:
        room, conf = sum(flow.tasks + 1 for flow in self.flows), self._conf
        if self._manner.patient:
            room, conf = _ROOM, {**_FEW_MESSAGES, **self._conf}
        with scratch() if self._folder is None else contextlib.nullcontext(self._folder) as folder:
            spark = session.start(self._master, room, folder, conf)
            try:
                with session.hushed():
                    yield spark, folder
            except RelayError as error:
                if str(error) == GONE:
                    raise SparkError(f"{GONE}; what it said is in {folder}") from None
                raise
            finally:
                session.stop(spark)

    def _end(self, spark: Spark, events: Callable[[str, str], None]) -> None:
        """Tasks write their last positions, then the queries end; the chores come last where all is copied."""
        all_copied = bool(self._records) and all(each.flow.finished for each in self._records.values())
        for keeper in self._keepers.values():
            keeper.stop()
        for records in self._records.values():
            records.end()
        deadline = time.monotonic() + _ENDING
        while time.monotonic() < deadline and any(each.running for each in self._records.values()):
            for records in self._records.values():
                records.look(spark, events)
            time.sleep(0.05)
        if all_copied:
            for keeper in self._keepers.values():
                keeper.once()
        for keeper in self._keepers.values():
            keeper.take(events)
        for records in self._records.values():
            records.close(events)
        self._herald.close()
        self.parts, self.up = {}, False


def _may_replicate(config: FlowConfig) -> bool:
    return config.source is not None and config.source.settings.enabled
