"""A Kafka JVM as a child process: which flags, which jars, which logging; fast to start, small, and never orphaned."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlog import java
from twinlog.errors import LabError
from twinlog.lab import jars
from twinlog.lab.archive import Archive
from twinlog.lab.process import Process, temporary_folder

# Many JVMs share a small machine: a small heap, the smallest collector, and only the quick compiler.
SMALL = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=128m")

# What Kafka's own start scripts give to every JVM, beside a heap: for measurements, which must handicap no one.
SHIPPED = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip

_LOGGING = Path(__file__).parent / "logging"


def command(
    line: str,
    main: str,
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = SMALL,
    urls: Sequence[str] = (),
    level: str = "INFO",
) -> list[str]:
    """`urls` are those that Kafka's OAuth code may open: 4.x opens none that the command line does not name."""
    logging = (
        f"-Dlog4j.configuration=file:{_LOGGING / 'log4j.properties'}"
        if line.startswith("3.")
        else f"-Dlog4j2.configurationFile={_LOGGING / 'log4j2.properties'}"
    )
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"] if urls else []
    return [
        str(java.find().executable),
        *flags,
        "-Xlog:disable",  # Java's own remarks about archives would stand in a tool's output
        "-Djava.awt.headless=true",
        f"-Dtwinlog.lab.level={level}",
        logging,
        *allowed,
        "-cp",
        jars.class_path(line),
        main,
        *arguments,
    ]


def oauth_urls(properties: Mapping[str, str]) -> list[str]:
    """The addresses of OAuth servers in a configuration, also under a cluster's prefix as in MM2's files."""
    return sorted(
        {value for key, value in properties.items() if "sasl.oauthbearer." in key and key.endswith("endpoint.url")}
    )


def run(
    line: str,
    main: str,
    arguments: Sequence[str],
    *,
    name: str,
    urls: Sequence[str] = (),
    stdin: str = "",
    seconds: float = 120,
) -> str:
    """Runs a program to its end and returns what it printed; if it fails, what it said is the error."""
    flags = [*SMALL, *Archive(line, "broker").use()]
    with temporary_folder() as folder:
        given, out, said = folder / "stdin", folder / "stdout", folder / "stderr"
        given.write_text(stdin)
        process = Process(name, out, errors=said)
        process.launch(command(line, main, arguments, flags=flags, urls=urls, level="WARN"), stdin=given)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        printed, complaint = out.read_text(errors="replace"), said.read_text(errors="replace")
    if code is None:
        raise LabError(f"{name} was still running after {seconds:.0f} s:\n{(complaint + printed).strip()}")
    if code:
        raise LabError(f"{name} failed (exit code {code}):\n{(complaint + printed).strip()}")
    return printed


class JavaProcess(Process):
    def __init__(
        self,
        name: str,
        log: Path,
        *,
        main: str,
        arguments: Sequence[str],
        line: str = jars.NEWEST,
        role: str,
        flags: Sequence[str] = SMALL,
        urls: Sequence[str] = (),
    ) -> None:
        super().__init__(name, log)
        self._line, self._main, self._arguments = line, main, list(arguments)
        self._flags, self._urls = tuple(flags), list(urls)
        self._archive = Archive(line, role) if self._flags == SMALL else None

    def start(self) -> None:
        extra = self._archive.flags() if self._archive else []
        flags = [*self._flags, *extra]
        self.launch(command(self._line, self._main, self._arguments, flags=flags, urls=self._urls))

    def stop(self, patience: float = 30) -> None:
        super().stop(patience)
        if self._archive:
            if self.exit_code == -signal.SIGKILL:
                self._archive.abandon()
            else:
                self._archive.harvest()

    def kill(self) -> None:
        super().kill()
        if self._archive:
            self._archive.abandon()

    def end(self) -> None:
        """The quickest end for a process whose data nobody wants: in order only if an archive comes of it."""
        if self.alive and self._archive and self._archive.growing:
            self.stop()
        else:
            self.kill()
