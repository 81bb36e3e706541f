"""A Spark standalone cluster on one machine: Spark's own master and workers, each in its own process.

    with SparkCluster(lab.folder / "spark", workers=2, cores=2) as spark:
        twinlog run mm2.properties --master {spark.url}

A worker starts an executor for each application, and an executor starts Python processes.
"""

import contextlib
import json
import os
import signal
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab import resource_usage
from lab.ports import HOST, free_port
from lab.process import Process
from lab.waiting import until
from twinlog import java
from twinlog.cache import cache_folder
from twinlog.spark import spark_home

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_START_SECONDS = 90.0
# Master and workers only exchange messages.
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


class SparkWorker:
    """A worker. `folder` contains its executors' logs, by application and executor."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.process = Process(name, folder.with_suffix(".log"))
        self._seen: set[int] = set()

    def process_tree(self) -> list[int]:
        """The worker itself, its executors and their Python processes."""
        found = list(resource_usage.tree(self.process.pid)) if self.process.alive and self.process.pid else []
        self._seen |= set(found)
        return found

    def executors(self) -> list[int]:
        return [pid for pid in self.process_tree() if _EXECUTOR in command(pid)]

    def python_processes(self) -> list[int]:
        """Spark's Python daemons and the workers they have forked."""
        return [pid for pid in self.process_tree() if "twinlog.spark.worker_daemon" in command(pid)]

    def kill(self) -> None:
        """`kill -9` of the worker's process only: its executors must notice."""
        self.process_tree()
        if self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(5)

    def kill_executors(self) -> None:
        """`kill -9` of its executors; the worker starts new ones."""
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)

    def left_over(self) -> list[str]:
        """The processes of its tree that are still running."""
        return [f"{pid}: {command(pid)}" for pid in self._seen if command(pid)]

    def end(self) -> None:
        self.process_tree()
        self.process.kill()
        for pid in self._seen:
            if command(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class SparkCluster:
    """`env` is added to the environment of master and workers; an empty value hides a variable."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 2, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.url = f"spark://{HOST}:{free_port()}"
        self.home = spark_home.overlay(cache_folder(), folder)
        self._web_port = free_port()
        self._cores = cores
        folder.mkdir(parents=True, exist_ok=True)
        self._env = {
            "SPARK_HOME": str(self.home),
            "JAVA_HOME": str(java.home_for_spark(java.find(), folder / "java")),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _SMALL,
            **(env or {}),
        }
        self.master = Process("spark master", folder / "master.log")
        self.workers = [SparkWorker(f"spark worker {n}", folder / f"worker-{n}") for n in range(1, workers + 1)]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Returns when all workers have registered with the master."""
        port = self.url.rpartition(":")[2]
        self._launch(self.master, "master.Master", "--host", HOST, "--port", port, "--webui-port", str(self._web_port))
        for worker in self.workers:  # they retry until the master is up
            self.start_worker(worker)
        until(
            lambda: self.state().get("aliveworkers") == len(self.workers),
            "starting a Spark cluster",
            seconds=_START_SECONDS,
            failed=self._start_failure,
            logs=lambda: "".join(process.log_excerpt() for process in self.processes),
        )

    def start_worker(self, worker: SparkWorker) -> None:
        location = ["--host", HOST, "--webui-port", str(free_port()), "--work-dir", str(worker.folder)]
        resources = ["--cores", str(self._cores), "--memory", "4g"]
        self._launch(worker.process, "worker.Worker", *location, *resources, self.url)

    @property
    def processes(self) -> list[Process]:
        return [self.master, *(worker.process for worker in self.workers)]

    def state(self) -> dict[str, Any]:
        """The master's state from its web UI; empty before it is up."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as response:
                return dict(json.load(response))
        except OSError:
            return {}

    def close(self) -> None:
        """Kills all its processes."""
        for worker in self.workers:
            worker.end()
        self.master.kill()

    def _launch(self, process: Process, main: str, *arguments: str) -> None:
        process.launch([str(self.home / "bin" / "spark-class"), f"{_DEPLOY}.{main}", *arguments], self._env)

    def _start_failure(self) -> str | None:
        return next(filter(None, (process.exit_report() for process in self.processes)), None)


def command(pid: int) -> str:
    """The command line of a running process; empty if it has exited or is a zombie."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return ""
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
