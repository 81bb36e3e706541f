"""A soak: faults one after the other while records flow, recovery after each, and the comparison at the end."""

import contextlib
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from lab.errors import LabError
from lab.process import tail, temporary_folder
from soak import reading
from soak.arrivals import Ends, Recovery, remote
from soak.catalogue import FAULTS
from soak.fault import Fault, UnexpectedError
from soak.plan import SIDES, PlannedFault, Step, steps
from soak.replicator import START_SECONDS
from soak.report import Injected, Report, TopicResult, as_json, as_markdown, as_text
from soak.stage import Stage
from soak.traffic import TopicPartition
from soak.usage import Sampler, growth

_POLL_SECONDS = 0.5
_GIVE_UP_SECONDS = 240.0  # more than that: the next fault begins in any case
_FINISH_SECONDS = 300.0
_LOG_LINES = 40


@dataclass(frozen=True, slots=True)
class Options:
    """`faults` and `minutes`: whichever comes first."""

    seed: int
    minutes: float
    faults: int | None
    per_second: float
    longest: float  # seconds of a fault
    report: Path | None
    keep: Path | None  # where Twinlog's logs are copied to
    command: str
    no_disk: str | None  # why disks cannot be filled


class Soak:
    def __init__(self, options: Options, stopped: Callable[[], bool]) -> None:
        self._options, self._stopped = options, stopped
        self.report = Report(options.seed, options.command)
        self._began = time.monotonic()
        self._exits = 0

    def run(self) -> int:
        with temporary_folder() as folder:
            self._say(f"seed {self._options.seed}; starting two clusters of three brokers")
            stage = Stage(folder, self._options.seed, self._options.per_second, self._options.no_disk)
            try:
                self._work(stage)
            finally:
                if self._options.keep:
                    self._options.keep.mkdir(parents=True, exist_ok=True)
                    for log in folder.glob("*.log"):
                        shutil.copy(log, self._options.keep)
                with contextlib.suppress(LabError):
                    stage.close()
        print(as_text(self.report))
        if file := self._options.report:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.with_suffix(".json").write_text(as_json(self.report))
            file.with_suffix(".md").write_text(as_markdown(self.report))
        return self.report.exit_code

    def _work(self, stage: Stage) -> None:
        self.report.left_out = stage.left_out
        self._ends = {side: Ends(stage.clusters[side]) for side in SIDES}
        stage.replicator.wait_until_relaying()
        self._await(stage, self._recovery(stage), "start")
        self._say(f"records flow; emulated link: {stage.packets_side if stage.packets else 'none'}")
        sampler = Sampler(stage.replicator)
        self._began = time.monotonic()
        try:
            for step in steps(self._options.seed, stage.kinds, self._options.longest):
                if self._is_over():
                    break
                self._inject(stage, step)
                time.sleep(step.pause)
            self.report.seconds = time.monotonic() - self._began
            self._finish(stage)
        finally:
            sampler.close()
            self._summarize(stage, sampler)

    def _is_over(self) -> bool:
        enough = self._options.faults is not None and len(self.report.injected) >= self._options.faults
        return enough or self._stopped() or time.monotonic() - self._began > self._options.minutes * 60

    # Faults

    def _inject(self, stage: Stage, step: Step) -> None:
        begun: list[tuple[PlannedFault, Injected]] = []
        with contextlib.ExitStack() as ends:
            for planned in step.faults:
                fault = FAULTS[planned.kind.name](stage, planned)
                ends.callback(self._end, fault, planned)
                at = time.monotonic() - self._began
                injected = Injected(planned.number, str(planned.kind), "", at)
                try:
                    injected = replace(injected, description=fault.begin())
                except LabError as error:
                    injected = replace(injected, skipped=str(error).splitlines()[0])
                    if isinstance(error, UnexpectedError):
                        self._find(f"#{planned.number} {planned.kind}: {error}")
                self._say(f"#{planned.number} {injected.description or f'{planned.kind}: skipped: {injected.skipped}'}")
                begun.append((planned, injected))
            time.sleep(step.seconds)
        what = " and ".join(f"#{planned.number} {planned.kind}" for planned, _ in begun)
        took = self._await(stage, self._recovery(stage), what)
        if took is not None:
            self._say(f"   all partitions make progress {took:.0f} s after it")
        self.report.injected += [replace(injected, recovered=took) for _, injected in begun]
        self._check_exits(stage, what)

    def _end(self, fault: Fault, planned: PlannedFault) -> None:
        try:
            fault.end()
        except LabError as error:
            self._find(f"#{planned.number} {planned.kind} could not be ended: {error}")

    # Recovery

    def _recovery(self, stage: Stage) -> Recovery:
        return Recovery(time.monotonic(), stage.traffic.acknowledged(), self._arrived(stage))

    def _arrived(self, stage: Stage) -> dict[TopicPartition, int]:
        names = {remote(tp): tp for tp in [*stage.traffic.sent]}
        return {names[name]: end for name, end in self._ends["eu"].of(names).items()}

    def _await(self, stage: Stage, recovery: Recovery, what: str) -> float | None:
        """Until every partition has new records; the seconds it took, None if some had none."""
        try:
            stage.replicator.wait_until_relaying()
        except LabError:
            self._find(f"{what}: twinlog run is not relaying after {START_SECONDS:.0f} s\n{self._state(stage, [])}")
        found: set[TopicPartition] = set()
        deadline = time.monotonic() + recovery.seconds + _GIVE_UP_SECONDS
        while True:
            stage.traffic.check()
            now = time.monotonic()
            recovery.see(now, stage.traffic.acknowledged(), self._arrived(stage), stage.replicator.current.relaying)
            if not (pending := recovery.pending()):
                if found:
                    self._say(f"{what}: all partitions make progress again after {recovery.took:.0f} s")
                return None if found else recovery.took
            if new := set(recovery.silent(now)) - found:
                found |= new
                silent = f"silent partitions after {recovery.seconds:.0f} s: {_names(new)}"
                self._find(f"{what}: {silent}\n{self._state(stage, new)}")
            if now > deadline:
                silent = f"no new records of {_names(pending)} on the target after {now - recovery.began:.0f} s"
                self._find(f"{what}: {silent}\n{self._state(stage, pending)}")
                return None
            time.sleep(_POLL_SECONDS)

    def _state(self, stage: Stage, partitions: Collection[TopicPartition]) -> str:
        """For a person who looks for the cause: both ends, both leaders, Twinlog's log."""
        ends = {**self._ends["us"].of(partitions), **self._ends["eu"].of(map(remote, partitions))}
        lines = []
        for tp in sorted(partitions):
            for name, cluster in ((tp, stage.source), (remote(tp), stage.target)):
                leader: object = "?"
                with contextlib.suppress(LabError):
                    described = cluster.partition(*name)
                    leader = f"{described['leader_id']}, in sync {described['isr_nodes']}"
                lines.append(f"  {cluster.name} {name[0]}-{name[1]}: end {ends.get(name, '?')}, leader {leader}")
        log = tail(stage.replicator.current.process.log, _LOG_LINES)
        return "\n".join([*lines, f"  log of twinlog run (instance {stage.replicator.current.number}):", log])

    def _check_exits(self, stage: Stage, what: str) -> None:
        for ended in stage.replicator.exits[self._exits :]:
            if not ended.expected:
                self._find(
                    f"{what}: twinlog run (instance {ended.instance}) ended by itself, exit code {ended.code}: "
                    f"{ended.last_line}"
                )
        self._exits = len(stage.replicator.exits)
        while stage.replicator.left_over:
            self._find(stage.replicator.left_over.pop())

    # The end

    def _finish(self, stage: Stage) -> None:
        self._say("no more faults; waiting for the copy to finish")
        stage.traffic.finish()
        wanted = {tp: max(sent.acknowledged) for tp, sent in stage.traffic.sent.items() if sent.acknowledged}
        deadline = time.monotonic() + _FINISH_SECONDS
        while missing := self._missing(stage, wanted):
            if time.monotonic() > deadline:
                self._find(f"the copy of {_names(missing)} is not finished\n{self._state(stage, missing)}")
                break
            time.sleep(1)
        try:
            with stage.replicator.held():
                seconds = stage.replicator.current.stop()
                self.report.notes.append(f"the last SIGTERM took {seconds:.1f} s")
                self._compare(stage)
        except LabError as error:
            self._find(f"at the end: {error}")

    def _missing(self, stage: Stage, wanted: dict[TopicPartition, int]) -> list[TopicPartition]:
        """Partitions whose last record on the target is not the last one that was acknowledged, or a later one."""
        ends = self._arrived(stage)
        start = {remote(tp): max(0, ends.get(tp, 0) - 1) for tp in wanted}
        try:
            last = reading.numbers(stage.target, list(start), start)
        except LabError:
            return list(wanted)
        return [tp for tp, number in wanted.items() if max(last[remote(tp)], default=-1) < number]

    def _compare(self, stage: Stage) -> None:
        self._say("comparing: by librdkafka and record numbers")
        verdicts = reading.judge_all(stage.target, stage.traffic)
        for tp, verdict in verdicts.items():
            if not verdict.clean:
                self._find(f"{tp[0]}-{tp[1]}: {verdict}")
        for topic in stage.traffic.topics:
            self._say(f"comparing both logs of {topic.name}")
            equal, differences = reading.compare(stage.source, stage.target, topic)
            for difference in differences[:5]:
                self._find(f"logs of {topic.name} differ: {difference}")
            own = {tp: verdict for tp, verdict in verdicts.items() if tp[0] == topic.name}
            sent = [stage.traffic.sent[tp] for tp in own]
            self.report.topics.append(
                TopicResult(
                    topic.name,
                    len(own),
                    sum(len(each.acknowledged) for each in sent),
                    sum(verdict.records for verdict in own.values()),
                    equal,
                    sum(not verdict.clean for verdict in own.values()) + len(differences),
                )
            )

    def _summarize(self, stage: Stage, sampler: Sampler) -> None:
        report = self.report
        report.seconds = report.seconds or time.monotonic() - self._began
        report.instances = stage.replicator.current.number
        report.peak_pss = max((sample.pss for sample in sampler.samples), default=0)
        if grown := growth(sampler.samples):
            memory, descriptors = grown.pss, grown.descriptors
            report.growth = (
                f"instance {grown.instance}, the longest ({grown.seconds:.0f} s after its first minute): "
                f"memory {memory[0] / 1e6:.0f} to {memory[1] / 1e6:.0f} MB, "
                f"file descriptors {descriptors[0]} to {descriptors[1]} (medians of its first and last third)"
            )
            for finding in grown.findings:
                self._find(finding)
        if stage.traffic.failures:
            report.notes.append(f"producers that were replaced after a fatal error: {stage.traffic.failures}")

    def _find(self, finding: str) -> None:
        self.report.findings.append(finding)
        self._say(f"FINDING: {finding}")

    def _say(self, text: str) -> None:
        print(f"soak {time.monotonic() - self._began:6.0f} s  {text}", flush=True)


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
