"""Kafka JVMs as child processes: flags, class path and logging."""

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import jars
from lab.class_archive import Archive
from lab.errors import LabError
from lab.process import Process, temporary_folder
from twinlog import java

# Many JVMs share a small machine: small heap, serial collector, C1 compiler only.
SMALL = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=128m")

# The JVM flags of Kafka's start scripts, without the heap size: for benchmarks.
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
    """The command line. Kafka's OAuth code (4.x) opens only `urls`."""
    logging = (
        f"-Dlog4j.configuration=file:{_LOGGING / 'log4j.properties'}"
        if jars.before(line, "4.0")
        else f"-Dlog4j2.configurationFile={_LOGGING / 'log4j2.properties'}"
    )
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"] if urls else []
    return [
        str(java.find().executable),
        *flags,
        "-Xlog:disable",  # keeps the JVM's warnings about class archives out of a tool's output
        "-Djava.awt.headless=true",
        f"-Dlab.level={level}",
        logging,
        *allowed,
        "-cp",
        jars.class_path(line),
        main,
        *arguments,
    ]


def oauth_urls(properties: Mapping[str, str]) -> list[str]:
    """The URLs of OAuth servers in a configuration, also under a cluster's prefix as in MM2's files."""
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
    """Runs a program to completion and returns its standard output; if it fails, its output is in the error."""
    flags = [*SMALL, *Archive(line, "broker").use()]
    with temporary_folder() as folder:
        stdin_file, stdout_file, stderr_file = folder / "stdin", folder / "stdout", folder / "stderr"
        stdin_file.write_text(stdin)
        process = Process(name, stdout_file, errors=stderr_file)
        process.launch(command(line, main, arguments, flags=flags, urls=urls, level="WARN"), stdin=stdin_file)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        stdout, stderr = stdout_file.read_text(errors="replace"), stderr_file.read_text(errors="replace")
    if code is None:
        raise LabError(f"{name} timed out after {seconds:.0f} s:\n{(stderr + stdout).strip()}")
    if code:
        raise LabError(f"{name} failed (exit code {code}):\n{(stderr + stdout).strip()}")
    return stdout


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

    def stop(self, timeout: float = 30) -> None:
        super().stop(timeout)
        if self._archive:
            if self.exit_code == -signal.SIGKILL:
                self._archive.discard()
            else:
                self._archive.commit()

    def kill(self) -> None:
        super().kill()
        if self._archive:
            self._archive.discard()

    def end(self) -> None:
        """Kills it, as its data is no longer needed; stops it gracefully only if it writes a class archive on exit."""
        if self.alive and self._archive and self._archive.recording:
            self.stop()
        else:
            self.kill()
