"""One flow as one Structured Streaming query, named after the flow."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinlog.errors import RelayError
from twinlog.pipeline.datasource import TwinlogDataSource

_RAISED = re.compile(r"[a-z_A-Z][\w.]*(Error|Exception|Interrupt|Exit)(: |$)")  # how a Python traceback ends
_CUT_OFF = ("Broken pipe", "Connection reset", "Connection reset by peer", "null")  # Java's words for it
GONE = "Spark's Java process is gone; nothing is lost: start again to go on"
Spark = SparkSession  # for those who hand it on, and may not import it


@dataclass(frozen=True, slots=True)
class QuerySpec:
    name: str
    paths: Sequence[str]
    secrets: Path | None
    run: str
    tasks: int
    checkpoint: str  # holds counters of epochs only: positions are on the target, so a fresh one is as good
    once: bool
    first_epoch: int = 0


class FlowQuery:
    """Every call raises RelayError with one line when Spark does not answer, or does not want to."""

    def __init__(self, spark: SparkSession, spec: QuerySpec) -> None:
        options = {
            "config": json.dumps([str(path) for path in spec.paths]),
            "flow": spec.name,
            "run": spec.run,
            "tasks": str(spec.tasks),
            "epoch": str(spec.first_epoch),
        }
        if spec.secrets is not None:
            options["secrets"] = str(spec.secrets)
        with _in_one_line():
            spark.dataSource.register(TwinlogDataSource)
            claims = spark.readStream.format("twinlog").options(**options).load()
            writer = (
                claims.writeStream.format("twinlog")
                .options(**options)
                .option("checkpointLocation", spec.checkpoint)
                .queryName(spec.name)
            )
            self._query = writer.trigger(availableNow=True).start() if spec.once else writer.start()

    @property
    def active(self) -> bool:
        with _in_one_line():
            return bool(self._query.isActive)

    @property
    def relaying(self) -> bool:
        """Whether tasks of an epoch run now."""
        with _in_one_line():
            return self.active and "Processing" in str(self._query.status.get("message", ""))

    def error(self) -> str:
        """Why it ended; empty when it was told to, or has done its work."""
        with _in_one_line():
            failure = self._query.exception()
        return "" if failure is None else cause(str(failure))

    def stop(self) -> None:
        with contextlib.suppress(RelayError), _in_one_line():
            self._query.stop()


def is_embedded(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def slots(spark: SparkSession) -> int | None:
    """How many tasks can run at a time now; None where no executor has come yet."""
    with _in_one_line():
        context = spark.sparkContext
        known = context._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001  # Python is not told; the driver counts
        if known < 2 and not is_embedded(spark):
            return None
        # On a cluster the cores of all executors, but never fewer than 2.
        return int(context.defaultParallelism / float(context.getConf().get("spark.task.cpus", "1")))


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise RelayError(cause(str(error))) from None
    except (Py4JError, OSError):  # all others tell, in many ways, that nobody answers
        raise RelayError(GONE) from None


def cause(text: str) -> str:
    """What Spark's and Python's traces come down to: our own last word, else Python's, else Spark's first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("twinlog.errors.")]
    if ours:
        return ours[-1].partition(": ")[2]
    python = [line for line in lines if _RAISED.match(line)]
    if python and "Traceback (most recent call last)" in text:
        return f"a bug: {python[-1]}"
    if lines and lines[0] in _CUT_OFF:
        return "a Python process of Spark's is gone"
    return lines[0] if lines else "without a reason"
