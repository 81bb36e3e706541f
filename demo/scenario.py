"""The demo: two clusters, traffic, `twinlog run`, a new topic, new partitions, and the comparison of both logs."""

import itertools
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from demo.observer import RunObserver
from demo.screen import Frame, Screen, megabytes, milliseconds
from lab.access_logs import access_log
from lab.cluster import Cluster
from lab.compare_logs import compare
from lab.end_offsets import EndOffsets
from lab.entrypoint import Interrupts
from lab.errors import LabError
from lab.lab import Lab
from lab.mirrormaker import mirror_properties
from lab.progress import Progress
from lab.resource_usage import Meter
from lab.twinlog_run import TwinlogRun

ACCESS, ERRORS, CRAWLERS, SEARCHES = "access-logs", "errors", "crawlers", "searches"
TOPICS = {ACCESS: 4, ERRORS: 2, CRAWLERS: 3}  # with their partitions
# When SEARCHES is created, and when ERRORS gets more partitions: shares of the duration.
NEW_TOPIC_AT, NEW_PARTITIONS_AT = 0.35, 0.6
NEW_PARTITIONS, MORE_PARTITIONS = 2, 4
START_SECONDS, DRAIN_SECONDS = 120.0, 90.0
LAST_REPORT_SECONDS = 3.0
MEMORY = 1.2e9  # bytes; Twinlog's target in this demo


@dataclass(frozen=True, slots=True)
class Options:
    seconds: float = 50.0
    rate: int = 2000  # records per second, all topics together
    history: int = 300_000  # records produced before `twinlog run` starts
    folder: Path = Path("build/demo")  # for the configuration and the log of `twinlog run`


class Traffic(threading.Thread):
    """Produces access-log lines at a steady rate until stopped; the topic depends on the line's content."""

    def __init__(self, cluster: Cluster, rate: int) -> None:
        super().__init__(name="traffic", daemon=True)
        self._rate = rate
        self._lines = access_log(start=time.time(), rate=rate)
        self._producer = Producer(
            {
                **cluster.librdkafka_properties(),
                "linger.ms": 10,
                "compression.type": "zstd",
                "topic.metadata.refresh.interval.ms": 1000,  # to find new partitions soon
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,  # its messages would disturb the screen
            }
        )
        self._done = threading.Event()
        self.searches = False

    def history(self, records: int) -> None:
        with Progress(f"producing {records:,} access-log lines as history", records) as progress:
            for number in range(records):
                self._send(next(self._lines))
                if number % 5000 == 0:
                    progress.update(number)
            self._producer.flush(60)
            progress.update(records)

    def run(self) -> None:
        started = time.monotonic()
        for number in itertools.count(1):
            self._send(next(self._lines))
            ahead = number / self._rate - (time.monotonic() - started)
            if self._done.wait(ahead) if ahead > 0.01 else self._done.is_set():
                break
        if left := self._producer.flush(60):
            raise LabError(f"{left} records were not acknowledged within 60 s")

    def stop(self) -> None:
        self._done.set()
        if self.is_alive():
            self.join()

    def _send(self, entry: tuple[str, str]) -> None:
        visitor, text = entry
        columns = text.split(",")
        code, crawler, found = columns[7], columns[13], columns[12]
        topic = CRAWLERS if crawler == "1.0" else ERRORS if code == "404.0" else ACCESS
        if self.searches and topic == ACCESS and found in {"1.0", "2.0"}:
            topic = SEARCHES
        while True:
            try:
                self._producer.produce(topic, text.encode(), visitor.encode())
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)


class Demo:
    def __init__(self, options: Options, interrupts: Interrupts) -> None:
        self._options, self._interrupts = options, interrupts
        self._screen = Screen()
        self._topics = list(TOPICS)
        self._drawn = 0.0

    def run(self) -> int:
        """The exit code: 0 if both logs are equal in the end."""
        echo("starting two real Kafka clusters, us and eu, of one broker each")
        with Lab() as lab, ExitStack() as stack:
            us, eu = lab.clusters("us", "eu")
            for cluster in (us, eu):
                echo(f"  {cluster.name}: Kafka {cluster.spec.line} at {cluster.bootstrap()}")
            for topic, partitions in TOPICS.items():
                us.create_topic(topic, partitions=partitions)
            traffic = Traffic(us, self._options.rate)
            traffic.history(self._options.history)
            run = self._launch(us, eu, lab.folder / "scratch")
            stack.callback(run.kill)
            traffic.start()
            stack.callback(traffic.stop)
            meter = stack.enter_context(Meter(run.pid))
            with RunObserver(eu, us.name, run) as observer:
                self._wait_for_start(run, observer, meter)
                meter.begin()
                self._replicate(run, observer, meter, traffic, us)
                drained = self._drain(run, observer, meter, us, eu)
                spent = meter.spent()
                self._interrupts.raise_again()
                seconds = run.stop()
                echo(f"\nSIGTERM: twinlog run exited after {seconds:.1f} s, its positions are stored")
                equal = self._compare(us, eu)
                self._summarize(observer, spent, meter.peak)
            if not drained:
                echo(f"\nnot all records arrived within {DRAIN_SECONDS:.0f} s")
            return 0 if equal and drained else 1

    def _launch(self, us: Cluster, eu: Cluster, scratch: Path) -> TwinlogRun:
        folder = self._options.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "twinlog.log").unlink(missing_ok=True)
        run = TwinlogRun(mirror_properties([us, eu], [(us, eu)]), folder, scratch)
        echo(f"\n$ twinlog run {run.file}   (log: {run.process.log})\n")
        run.start()
        return run

    def _wait_for_start(self, run: TwinlogRun, observer: RunObserver, meter: Meter) -> None:
        began = time.monotonic()
        while not observer.replicating:
            self._step(run, observer, meter, "starting Spark", 0)
            if time.monotonic() - began > START_SECONDS:
                raise LabError(f"no report from twinlog run within {START_SECONDS:.0f} s{run.process.log_excerpt()}")

    def _replicate(self, run: TwinlogRun, observer: RunObserver, meter: Meter, traffic: Traffic, us: Cluster) -> None:
        seconds = self._options.seconds
        self._interrupts.defer()
        began = time.monotonic()
        grown = False
        while (elapsed := time.monotonic() - began) < seconds and not self._interrupts.requested.is_set():
            if elapsed > NEW_TOPIC_AT * seconds and SEARCHES not in self._topics:
                us.create_topic(SEARCHES, partitions=NEW_PARTITIONS)
                observer.add_event(f"demo: created topic {SEARCHES} on us")
                self._topics.append(SEARCHES)
                traffic.searches = True
            if elapsed > NEW_PARTITIONS_AT * seconds and not grown:
                with us.admin() as admin:
                    admin.create_partitions({ERRORS: MORE_PARTITIONS})
                observer.add_event(f"demo: increased {ERRORS} from {TOPICS[ERRORS]} to {MORE_PARTITIONS} partitions")
                grown = True
            self._step(run, observer, meter, "replicating", elapsed)
        traffic.stop()

    def _drain(self, run: TwinlogRun, observer: RunObserver, meter: Meter, us: Cluster, eu: Cluster) -> bool:
        """Whether all records have arrived, according to the end offsets."""
        observer.add_event("demo: stopped traffic, waiting for the last records")
        began = time.monotonic()
        arrived = 0.0
        with EndOffsets(us) as ours, EndOffsets(eu) as theirs:
            while time.monotonic() - began < DRAIN_SECONDS:
                counts = [(ours.total(each), theirs.total(f"us.{each}")) for each in self._topics]
                if all(here == there for here, there in counts):
                    arrived = arrived or time.monotonic()
                    # The last frame should include the tasks' reports of the last records, if they arrive soon.
                    reported = observer.records == sum(here for here, _ in counts)
                    if reported or time.monotonic() - arrived > LAST_REPORT_SECONDS:
                        self._step(run, observer, meter, "complete", self._options.seconds, last=True)
                        return True
                self._step(run, observer, meter, "draining", self._options.seconds)
        return False

    def _step(
        self, run: TwinlogRun, observer: RunObserver, meter: Meter, phase: str, elapsed: float, *, last: bool = False
    ) -> None:
        run.check()
        observer.poll()
        if not last and time.monotonic() - self._drawn < 0.9:
            return
        self._drawn = time.monotonic()
        seconds, cpu = meter.spent()
        status = observer.status
        frame = Frame(
            phase,
            elapsed,
            self._options.seconds,
            observer.rows(self._topics),
            status.latency_p50_ms if status else None,
            status.latency_p99_ms if status else None,
            meter.pss,
            meter.peak,
            None if cpu is None else 100 * cpu / seconds,
            observer.events,
        )
        self._screen.show(frame, last=last)

    def _compare(self, us: Cluster, eu: Cluster) -> bool:
        echo("\ncomparing both logs record by record:")
        total, equal = 0, True
        for topic in self._topics:
            outcome = compare(us.client_properties(), topic, eu.client_properties(), f"us.{topic}", codecs=True)
            verdict = "DIFFERENT" if outcome.differences else "equal"
            echo(f"  {topic:<14} on us  =  {f'us.{topic}':<17} on eu   {outcome.records:>9,} records   {verdict}")
            for difference in outcome.differences:
                echo(f"    {difference}")
            total += outcome.records
            equal = equal and not outcome.differences
        if equal:
            style = self._screen.style
            what = "equal in key, value, headers, timestamp, codec, partition and order"
            echo(f"  {style(f'{total:,} records: {what}', '1', '32')}")
        return equal

    def _summarize(self, observer: RunObserver, spent: tuple[float, float | None], peak: int) -> None:
        seconds, cpu = spent
        facts: list[tuple[str, str]] = [("copied", megabytes(observer.bytes))]
        if (latency := observer.latency()) is not None:
            facts.append(("latency", f"p50 {milliseconds(latency[0])}, p99 {milliseconds(latency[1])}, once caught up"))
        if cpu is not None and observer.bytes:
            share, each = 100 * cpu / seconds, cpu / (observer.bytes / 1e9)
            text = f"{cpu:.1f} s since the first record: {share:.0f} % of a core, {each:,.0f} s per GB at this low rate"
            facts.append(("CPU", text))
        if peak:
            side = "below" if peak < MEMORY else "ABOVE"
            facts.append(("memory", f"peak {megabytes(peak)} (PSS; driver, Spark, workers), {side} {MEMORY / 1e9} GB"))
        echo("")
        for name, text in facts:
            echo(f"  {name:<8} {text}")


def echo(text: str) -> None:
    print(text, flush=True)
