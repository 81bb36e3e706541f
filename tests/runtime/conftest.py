"""`twinlog run` as a command: its log lines, its exit code, its processes."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lab import batches, resource_usage
from lab.cluster import Cluster
from lab.compare_logs import compare, tally
from lab.end_offsets import EndOffsets
from lab.mirrormaker import mirror_properties
from lab.process import cleanup
from lab.raw_protocol import RawProtocol
from lab.waiting import until
from twinlog.config.properties import properties_text

TWINLOG = Path(sys.executable).with_name("twinlog")

# Internals of Python, Java and Spark must not be logged.
INSIDES = ("Traceback", '  File "', "\tat ", "Exception", "py4j", "pyspark", "WARN", "org.apache")


class Twin:
    """One process of `twinlog run`, in its own session as in a shell."""

    def __init__(self, folder: Path, name: str, arguments: list[str | Path]) -> None:
        self.name = name
        self._out = folder / f"{name}.out"
        self.errors = folder / f"{name}.err"
        self.scratch = folder / name  # where Spark's log is
        self.scratch.mkdir()
        self._pids: set[int] = set()
        with self._out.open("wb") as out, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [TWINLOG, "run", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(self.scratch)},
                start_new_session=True,
            )
        cleanup.add_process(self.process.pid)  # it must not outlive a test session that is killed

    @property
    def output(self) -> str:
        return self.errors.read_text()

    @property
    def lines(self) -> list[str]:
        """Without the time."""
        return [line[9:] if line[2:3] == ":" else line for line in self.output.splitlines()]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def processes(self) -> list[int]:
        found = list(resource_usage.tree(self.process.pid)) if self.running else []
        self._pids |= set(found)
        return found

    @property
    def jvm(self) -> int:
        return next(pid for pid in self.processes() if _command(pid).startswith("java"))

    @property
    def reader(self) -> int:
        """The process of the stream reader."""
        return next(pid for pid in self.processes() if "python_streaming_source_runner" in _command(pid))

    def workers(self, target: Cluster) -> list[int]:
        """Spark's Python workers with a connection to the target."""
        ports = {int(address.rpartition(":")[2]) for address in target.bootstrap().split(",")}
        workers = [pid for pid in self.processes() if "pyspark.worker" in _command(pid).split()]
        return [pid for pid in workers if ports & _peers(pid)]

    def wait(self, seconds: float = 30) -> int:
        """The exit code. Fails if internals were logged."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} still runs after {seconds} s; output:\n{self.output}")
        output = self.output + self._out.read_text()
        assert not [word for word in INSIDES if word in output], output
        assert not self._out.read_text()
        return code

    def wait_for(self, text: str, seconds: float = 60) -> None:
        until(
            lambda: text in self.output,
            f"{self.name} should log: {text}",
            seconds=seconds,
            failed=lambda: None if self.running else f"{self.name} ended ({self.process.returncode}):\n{self.output}",
            logs=lambda: f"; output:\n{self.output}",
        )

    def signal(self, number: int) -> None:
        self.processes()
        os.kill(self.process.pid, number)

    def terminate(self, seconds: float = 60) -> int:
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def interrupt(self, seconds: float = 60) -> int:
        """As a terminal on Ctrl-C: signals the whole process group."""
        self.processes()
        os.killpg(self.process.pid, signal.SIGINT)
        return self.wait(seconds)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()

    def left_over(self, seconds: float = 30) -> list[str]:
        """Its processes that still run after `seconds`."""
        deadline = time.monotonic() + seconds
        while (there := [pid for pid in self._pids if _alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"{pid}: {_command(pid)}" for pid in there]

    def end(self) -> None:
        if self.running:
            self.processes()
            self.process.kill()
        self.process.wait()
        cleanup.remove_process(self.process.pid)
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if _alive(pid):
                    os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    return " ".join([Path(words[0]).name, *words[1:]])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _peers(pid: int) -> set[int]:
    """Remote ports of its TCP connections."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            found[f"socket:[{fields[9]}]"] = int(fields[2].rpartition(":")[2], 16)
    ports = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            ports.add(found.get(str(link.readlink()), 0))
    return ports


class Feed:
    """Produces numbered records to its topics at a constant rate, until it is paused or closed."""

    def __init__(
        self, cluster: Cluster, *topics: str, per_second: int = 1000, partition: int = -1, size: int = 100
    ) -> None:
        self.topics = list(topics)
        self._partition, self._size = partition, size
        self.count = 0
        self._pause = 20 / per_second
        self._producer = Producer({**cluster.librdkafka_properties(), "linger.ms": 5, "acks": "all"})
        self._go = threading.Event()
        self._flushed = threading.Event()
        self._stop = False
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop:
            if not self._go.is_set():
                self._producer.flush()
                self._flushed.set()
                self._go.wait(0.1)
                continue
            for topic in self.topics:
                for _ in range(20):
                    value = f"value {self.count} ".ljust(self._size, "*")
                    self._producer.produce(topic, key=f"{self.count}", value=value, partition=self._partition)
                    self.count += 1
            self._producer.poll(0)
            time.sleep(self._pause)
        self._producer.flush()

    def flow(self) -> None:
        self._flushed.clear()
        self._go.set()

    def pause(self) -> None:
        """Returns when every record is on the source."""
        self._go.clear()
        self._flushed.wait(30)

    def close(self) -> None:
        if not self._stop:
            self._stop = True
            self._thread.join()
            del self._producer  # or librdkafka logs errors when the brokers stop


class Pair:
    """Two clusters, and a folder for files."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path) -> None:
        self.source, self.target, self.folder = source, target, folder
        self._ends = contextlib.ExitStack()
        self._source_ends = self._ends.enter_context(EndOffsets(source))
        self._target_ends = self._ends.enter_context(EndOffsets(target))
        self._twins: list[Twin] = []
        self._feeds: list[Feed] = []

    def file(self, settings: Mapping[str, str], name: str = "mm2", *, back: bool = False) -> Path:
        """A dedicated-mode file for source -> target, and `back` if set."""
        flows = [(self.source, self.target), *([(self.target, self.source)] if back else [])]
        path = self.folder / f"{name}.properties"
        # A real MM2 may have left heartbeats behind.
        settings = {"heartbeats.replication.enabled": "false", **settings}
        path.write_text(properties_text(mirror_properties([self.source, self.target], flows, settings)))
        return path

    def run(self, *arguments: str | Path) -> Twin:
        twin = Twin(self.folder, f"twinlog-{len(self._twins)}", list(arguments))
        self._twins.append(twin)
        return twin

    def feed(self, *topics: str, cluster: Cluster | None = None, **options: int) -> Feed:
        """Paused; into the source, if no cluster is named."""
        feed = Feed(cluster or self.source, *topics, **options)
        self._feeds.append(feed)
        return feed

    def put(self, topic: str, partition: int, value: bytes) -> None:
        """Produces one record to the source, in its own batch."""
        with RawProtocol(self.source.client_properties()) as wire:
            wire.produce(topic, partition, batches.encode([batches.Record(int(time.time() * 1000), None, value, ())]))

    def arrived(self, topic: str, alias: str = "") -> int:
        return self._target_ends.total(f"{alias or self.source.name}.{topic}")

    def ends(self, topic: str) -> list[int]:
        """Of the remote topic's partitions."""
        return self._target_ends.each(f"{self.source.name}.{topic}")

    def wait_for_more(self, twin: Twin, *topics: str, records: int = 200, seconds: float = 60, alias: str = "") -> None:
        """Until `records` more of each topic have arrived."""
        wanted = {topic: self.arrived(topic, alias) + records for topic in topics}
        until(
            lambda: all(self.arrived(topic, alias) >= count for topic, count in wanted.items()),
            f"records of {', '.join(topics)} should arrive",
            seconds=seconds,
            failed=lambda: None if twin.running else f"{twin.name} ended ({twin.process.returncode}):\n{twin.output}",
            logs=lambda: f"; {twin.name}:\n{twin.output}",
        )

    def wait_until_equal(self, *topics: str, seconds: float = 60) -> None:
        """Until each remote topic has as many records as its source; then compares them."""
        wanted = {topic: self._source_ends.total(topic) for topic in topics}

        def found() -> str:
            there = {topic: self.arrived(topic) for topic in topics}
            return "".join([f"; there are {there}", *(f"\n{twin.name}:\n{twin.output}" for twin in self._twins)])

        until(
            lambda: all(self.arrived(topic) >= count for topic, count in wanted.items()),
            f"{wanted} records should arrive",
            seconds=seconds,
            logs=found,
        )
        self.assert_equal(*topics)

    def assert_equal(self, *topics: str) -> None:
        ours, theirs = self.source.client_properties(), self.target.client_properties()
        for topic in topics:
            remote = f"{self.source.name}.{topic}"
            found = compare(ours, topic, theirs, remote, codecs=True)
            assert not found.differences, f"{found.differences[0]}\n{tally(ours, topic, theirs, remote)}"
            assert found.records == self._source_ends.total(topic)

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
        for twin in self._twins:
            twin.end()
        self._ends.close()


@pytest.fixture(scope="module")
def pair(us: Cluster, eu: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(us, eu, tmp_path_factory.mktemp("run"))
    try:
        yield pair
    finally:
        pair.close()
