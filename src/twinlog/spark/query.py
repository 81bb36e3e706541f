"""One flow as one Structured Streaming query, named after the flow."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinlog import errors
from twinlog.errors import JvmExitedError, ReplicationError, TwinlogError
from twinlog.spark.datasource import TwinlogDataSource

_EXCEPTION = re.compile(r"[a-z_A-Z][\w.]*(Error|Exception|Interrupt|Exit)(: |$)")  # the last line of a traceback
_PIPE_CLOSED = ("Broken pipe", "Connection reset", "Connection reset by peer", "null")  # Java's messages
_OURS = "twinlog.errors."  # prefix of our exceptions in a Python traceback
Spark = SparkSession  # for modules that must not import pyspark


@dataclass(frozen=True, slots=True)
class QuerySpec:
    name: str
    paths: Sequence[str]
    secrets: Path | None
    run: str
    tasks: int
    checkpoint: str  # holds only epoch numbers, as positions are on the target: a new one is fine
    once: bool
    first_epoch: int = 0
    instance: str = ""  # the host and process id that run it


class Failure(NamedTuple):
    text: str = ""
    kind: type[TwinlogError] | None = None  # None: not one of our errors


class FlowQuery:
    """Every call raises ReplicationError with a one-line message if Spark fails, JvmExitedError if it is gone."""

    def __init__(self, spark: SparkSession, spec: QuerySpec) -> None:
        options = {
            "config": json.dumps([str(path) for path in spec.paths]),
            "flow": spec.name,
            "run": spec.run,
            "tasks": str(spec.tasks),
            "epoch": str(spec.first_epoch),
            "instance": spec.instance,
        }
        if spec.secrets is not None:
            options["secrets"] = str(spec.secrets)
        with _one_line_errors():
            spark.dataSource.register(TwinlogDataSource)
            assignments = spark.readStream.format("twinlog").options(**options).load()
            writer = (
                assignments.writeStream.format("twinlog")
                .options(**options)
                .option("checkpointLocation", spec.checkpoint)
                .queryName(spec.name)
            )
            self._query = writer.trigger(availableNow=True).start() if spec.once else writer.start()

    @property
    def active(self) -> bool:
        with _one_line_errors():
            return bool(self._query.isActive)

    @property
    def running_tasks(self) -> bool:
        """Whether tasks of an epoch are running."""
        with _one_line_errors():
            return self.active and "Processing" in str(self._query.status.get("message", ""))

    def failure(self) -> Failure:
        """Why the query ended; empty if it was stopped or is complete."""
        with _one_line_errors():
            failure = self._query.exception()
        return Failure() if failure is None else failure_of(str(failure))

    def stop(self, seconds: float | None = None) -> None:
        """Waits until the query has ended, at most `seconds`: its reader may be blocked on a cluster."""
        stopping = threading.Thread(target=self._stop, name="query stop", daemon=True)
        stopping.start()
        stopping.join(seconds)

    def _stop(self) -> None:
        with contextlib.suppress(ReplicationError), _one_line_errors():
            self._query.stop()


def is_embedded(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def slots(spark: SparkSession) -> int | None:
    """How many tasks can run concurrently; None if there is no executor yet."""
    with _one_line_errors():
        context = spark.sparkContext
        executors = context._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001  # no Python API; includes the driver
        if executors < 2 and not is_embedded(spark):
            return None
        # On a cluster: the cores of all executors, but at least 2.
        return int(context.defaultParallelism / float(context.getConf().get("spark.task.cpus", "1")))


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise ReplicationError(cause(str(error))) from None
    except (Py4JError, OSError):  # all others mean that the JVM does not answer
        raise JvmExitedError("Spark's JVM exited; no data is lost, restart to resume") from None


def failure_of(text: str) -> Failure:
    """Spark passes exceptions on as text: the class is found by its name."""
    names = [
        line.strip().removeprefix(_OURS).partition(":")[0]
        for line in text.splitlines()
        if line.strip().startswith(_OURS)
    ]
    found = getattr(errors, names[-1], None) if names else None
    ours = isinstance(found, type) and issubclass(found, TwinlogError)
    return Failure(cause(text), found if ours else None)


def cause(text: str) -> str:
    """One line of Spark's and Python's traces: our last exception, else Python's, else Spark's first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(_OURS)]
    if ours:
        return ours[-1].partition(": ")[2]
    python = [line for line in lines if _EXCEPTION.match(line)]
    if python and "Traceback (most recent call last)" in text:
        return f"internal error: {python[-1]}"
    if lines and lines[0] in _PIPE_CLOSED:
        return "a Python process of Spark exited"
    return lines[0] if lines else "no reason given"
