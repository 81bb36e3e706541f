"""The demo's play: two clusters, traffic, `twinlog run`, a topic that joins, one that grows, and the proof."""

import itertools
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from twinlog.errors import LabError
from twinlog.lab.cluster import Cluster
from twinlog.lab.compare import compare
from twinlog.lab.demo_door import Interrupts
from twinlog.lab.demo_run import TwinlogRun
from twinlog.lab.demo_view import Picture, Screen, megabytes, milliseconds
from twinlog.lab.demo_watch import Watcher
from twinlog.lab.ends import Ends
from twinlog.lab.lab import Lab
from twinlog.lab.peer import mirror_properties
from twinlog.lab.progress import Progress
from twinlog.lab.traffic import access_log
from twinlog.lab.usage import Meter

ACCESS, ERRORS, CRAWLERS, SEARCHES = "access-logs", "errors", "crawlers", "searches"
TOPICS = {ACCESS: 4, ERRORS: 2, CRAWLERS: 3}  # with their partitions
JOINS, GROWS = 0.35, 0.6  # when SEARCHES is made, and ERRORS gets more partitions: shares of the time
NEW_PARTITIONS, MORE_PARTITIONS = 2, 4
START_SECONDS, DRAIN_SECONDS = 120.0, 90.0  # more than this, and something is broken
LAST_WORDS_SECONDS = 3.0
MEMORY = 1.2e9  # bytes that Twinlog wants to stay below here


@dataclass(frozen=True, slots=True)
class Play:
    seconds: float = 50.0
    rate: int = 2000  # records a second, all topics together
    history: int = 300_000  # records that are there before Twinlog comes
    folder: Path = Path("build/demo")  # the configuration, and what `twinlog run` said


class Traffic(threading.Thread):
    """Publishes access-log lines at a steady rate until stopped; what a line is about decides where it goes."""

    def __init__(self, cluster: Cluster, rate: int) -> None:
        super().__init__(name="traffic", daemon=True)
        self._rate = rate
        self._lines = access_log(start=time.time(), rate=rate)
        self._producer = Producer(
            {
                **cluster.librdkafka_properties(),
                "linger.ms": 10,
                "compression.type": "zstd",
                "topic.metadata.refresh.interval.ms": 1000,  # new partitions get their share soon
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,  # it would write into the picture
            }
        )
        self._done = threading.Event()
        self.searches = False

    def history(self, records: int) -> None:
        with Progress(f"publishing {records:,} access-log lines: the past", records) as progress:
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
            raise LabError(f"{left} records could not be published")

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


class Stage:
    def __init__(self, play: Play, interrupts: Interrupts) -> None:
        self._play, self._interrupts = play, interrupts
        self._screen = Screen()
        self._topics = list(TOPICS)
        self._drawn = 0.0

    def perform(self) -> int:
        """The exit code: 0 if both logs are equal in the end."""
        say("starting two real Kafka clusters, us and eu, of one broker each")
        with Lab() as lab, ExitStack() as stack:
            us, eu = lab.clusters("us", "eu")
            for cluster in (us, eu):
                say(f"  {cluster.name}: Kafka {cluster.spec.line} at {cluster.bootstrap()}")
            for topic, partitions in TOPICS.items():
                us.create_topic(topic, partitions=partitions)
            traffic = Traffic(us, self._play.rate)
            traffic.history(self._play.history)
            run = self._run(us, eu, lab.folder / "scratch")
            stack.callback(run.kill)
            traffic.start()
            stack.callback(traffic.stop)
            meter = stack.enter_context(Meter(run.pid))
            with Watcher(eu, us.name, run) as watcher:
                self._start(run, watcher, meter)
                meter.begin()
                self._relay(run, watcher, meter, traffic, us)
                drained = self._drain(run, watcher, meter, us, eu)
                spent = meter.spent()
                self._interrupts.hard()
                ended = run.stop()
                say(f"\nSIGTERM: twinlog run has ended after {ended:.1f} s, its positions written")
                equal = self._prove(us, eu)
                self._sum_up(watcher, spent, meter.peak)
            if not drained:
                say(f"\nnot all records arrived within {DRAIN_SECONDS:.0f} s")
            return 0 if equal and drained else 1

    def _run(self, us: Cluster, eu: Cluster, scratch: Path) -> TwinlogRun:
        folder = self._play.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "twinlog.log").unlink(missing_ok=True)
        run = TwinlogRun(mirror_properties([us, eu], [(us, eu)]), folder, scratch)
        say(f"\n$ twinlog run {run.file}   (it says more in {run.process.log})\n")
        run.start()
        return run

    def _start(self, run: TwinlogRun, watcher: Watcher, meter: Meter) -> None:
        began = time.monotonic()
        while not watcher.relaying:
            self._step(run, watcher, meter, "starting Spark", 0)
            if time.monotonic() - began > START_SECONDS:
                raise LabError(f"twinlog run reported nothing for {START_SECONDS:.0f} s{run.process.quote()}")

    def _relay(self, run: TwinlogRun, watcher: Watcher, meter: Meter, traffic: Traffic, us: Cluster) -> None:
        seconds = self._play.seconds
        self._interrupts.soft()
        began = time.monotonic()
        grown = False
        while (elapsed := time.monotonic() - began) < seconds and not self._interrupts.asked.is_set():
            if elapsed > JOINS * seconds and SEARCHES not in self._topics:
                us.create_topic(SEARCHES, partitions=NEW_PARTITIONS)
                watcher.tell(f"demo: topic {SEARCHES} is made on us")
                self._topics.append(SEARCHES)
                traffic.searches = True
            if elapsed > GROWS * seconds and not grown:
                with us.admin() as admin:
                    admin.create_partitions({ERRORS: MORE_PARTITIONS})
                watcher.tell(f"demo: {ERRORS} gets {MORE_PARTITIONS} partitions instead of {TOPICS[ERRORS]}")
                grown = True
            self._step(run, watcher, meter, "relaying", elapsed)
        traffic.stop()

    def _drain(self, run: TwinlogRun, watcher: Watcher, meter: Meter, us: Cluster, eu: Cluster) -> bool:
        """Whether all has arrived, by the brokers' own count."""
        watcher.tell("demo: no more traffic; waiting for the last records")
        began = time.monotonic()
        arrived = 0.0
        with Ends(us) as ours, Ends(eu) as theirs:
            while time.monotonic() - began < DRAIN_SECONDS:
                counts = [(ours.total(each), theirs.total(f"us.{each}")) for each in self._topics]
                if all(here == there for here, there in counts):
                    arrived = arrived or time.monotonic()
                    # The picture shall end with what tasks report of the last records, if they do so soon.
                    told = watcher.records == sum(here for here, _ in counts)
                    if told or time.monotonic() - arrived > LAST_WORDS_SECONDS:
                        self._step(run, watcher, meter, "all is there", self._play.seconds, last=True)
                        return True
                self._step(run, watcher, meter, "draining", self._play.seconds)
        return False

    def _step(
        self, run: TwinlogRun, watcher: Watcher, meter: Meter, phase: str, elapsed: float, *, last: bool = False
    ) -> None:
        run.check()
        watcher.listen()
        if not last and time.monotonic() - self._drawn < 0.9:
            return
        self._drawn = time.monotonic()
        seconds, cpu = meter.spent()
        status = watcher.status
        picture = Picture(
            phase,
            elapsed,
            self._play.seconds,
            watcher.rows(self._topics),
            status.latency_p50_ms if status else None,
            status.latency_p99_ms if status else None,
            meter.pss,
            meter.peak,
            None if cpu is None else 100 * cpu / seconds,
            watcher.events,
        )
        self._screen.show(picture, last=last)

    def _prove(self, us: Cluster, eu: Cluster) -> bool:
        say("\ncomparing both logs record by record, as they are stored:")
        total, equal = 0, True
        for topic in self._topics:
            outcome = compare(us.client_properties(), topic, eu.client_properties(), f"us.{topic}", codecs=True)
            verdict = "DIFFERENT" if outcome.differences else "equal"
            say(f"  {topic:<14} on us  =  {f'us.{topic}':<17} on eu   {outcome.records:>9,} records   {verdict}")
            for difference in outcome.differences:
                say(f"    {difference}")
            total += outcome.records
            equal = equal and not outcome.differences
        if equal:
            paint = self._screen.paint
            what = "equal in key, value, headers, timestamp, codec, partition and order"
            say(f"  {paint(f'{total:,} records: {what}', '1', '32')}")
        return equal

    def _sum_up(self, watcher: Watcher, spent: tuple[float, float | None], peak: int) -> None:
        seconds, cpu = spent
        facts: list[tuple[str, str]] = [("copied", megabytes(watcher.bytes))]
        if (latency := watcher.latency()) is not None:
            facts.append(("latency", f"p50 {milliseconds(latency[0])}, p99 {milliseconds(latency[1])}, once caught up"))
        if cpu is not None and watcher.bytes:
            share, each = 100 * cpu / seconds, cpu / (watcher.bytes / 1e9)
            text = f"{cpu:.1f} s after the first record: {share:.0f} % of a core, {each:,.0f} s per GB at this low rate"
            facts.append(("CPU", text))
        if peak:
            side = "below" if peak < MEMORY else "ABOVE"
            facts.append(("memory", f"peak {megabytes(peak)} (PSS; driver, Spark, workers), {side} {MEMORY / 1e9} GB"))
        say("")
        for name, text in facts:
            say(f"  {name:<8} {text}")


def say(text: str) -> None:
    print(text, flush=True)


def perform(play: Play, interrupts: Interrupts) -> int:
    return Stage(play, interrupts).perform()


__all__: Sequence[str] = ("Play", "perform")
