"""A Spark standalone cluster on one machine: a master and workers as processes of their own, each as Spark ships it.

    with SparkCluster(lab.folder / "spark", workers=2, cores=2) as spark:
        twinlog run mm2.properties --master {spark.url}

A worker starts an executor for each application, and an executor Python processes; all of them go with it.
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

from twinlog import java
from twinlog.cache import cache_folder
from twinlog.lab import usage
from twinlog.lab.ports import HOST, free_port
from twinlog.lab.process import Process
from twinlog.lab.waiting import until
from twinlog.pipeline import spark_home

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_START_SECONDS = 90.0
# They only pass messages.
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


class SparkWorker:
    """One worker. What its executors say is in `folder`, by application and executor."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.process = Process(name, folder.with_suffix(".log"))
        self._family: set[int] = set()

    def family(self) -> list[int]:
        """The worker itself, its executors and their Python processes."""
        found = list(usage.tree(self.process.pid)) if self.process.alive and self.process.pid else []
        self._family |= set(found)
        return found

    def executors(self) -> list[int]:
        return [pid for pid in self.family() if _EXECUTOR in command(pid)]

    def pythons(self) -> list[int]:
        """Spark's Python daemons here and the workers that they have forked."""
        return [pid for pid in self.family() if "twinlog.pipeline.worker_daemon" in command(pid)]

    def kill(self) -> None:
        """`kill -9` of the worker's own process, and of nothing else: its executors have to notice."""
        self.family()
        if self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(5)

    def kill_executors(self) -> None:
        """`kill -9` of its executors only: the worker starts new ones."""
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)

    def left_over(self) -> list[str]:
        """What is left of those that were ever seen."""
        return [f"{pid}: {command(pid)}" for pid in self._family if command(pid)]

    def end(self) -> None:
        self.family()
        self.process.kill()
        for pid in self._family:
            if command(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class SparkCluster:
    """`env` is what master and workers find in their environment beside ours; "" hides a variable."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 2, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.url = f"spark://{HOST}:{free_port()}"
        self.home = spark_home.overlay(cache_folder(), folder)
        self._page = free_port()
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
        self.workers = [SparkWorker(f"spark worker {at}", folder / f"worker-{at}") for at in range(1, workers + 1)]

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
        """Returns when every worker is known to the master."""
        port = self.url.rpartition(":")[2]
        self._launch(self.master, "master.Master", "--host", HOST, "--port", port, "--webui-port", str(self._page))
        for worker in self.workers:  # they try until the master is there
            self.start_worker(worker)
        until(
            lambda: self.state().get("aliveworkers") == len(self.workers),
            "starting a Spark cluster",
            seconds=_START_SECONDS,
            failed=self._why_not,
            logs=lambda: "".join(process.quote() for process in self.processes),
        )

    def start_worker(self, worker: SparkWorker) -> None:
        place = ["--host", HOST, "--webui-port", str(free_port()), "--work-dir", str(worker.folder)]
        size = ["--cores", str(self._cores), "--memory", "4g"]
        self._launch(worker.process, "worker.Worker", *place, *size, self.url)

    @property
    def processes(self) -> list[Process]:
        return [self.master, *(worker.process for worker in self.workers)]

    def state(self) -> dict[str, Any]:
        """What the master says of itself; nothing before it serves."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=5) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}

    def close(self) -> None:
        """Nothing is left of it, whatever became of its parts."""
        for worker in self.workers:
            worker.end()
        self.master.kill()

    def _launch(self, process: Process, main: str, *arguments: str) -> None:
        process.launch([str(self.home / "bin" / "spark-class"), f"{_DEPLOY}.{main}", *arguments], self._env)

    def _why_not(self) -> str | None:
        return next(filter(None, (process.last_words() for process in self.processes)), None)


def command(pid: int) -> str:
    """The words of a running process; none of one that is gone, or only waits to be buried."""
    try:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return ""
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
