"""One flow as one Structured Streaming query, named after the flow."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twinlog.pipeline.datasource import TwinlogDataSource

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


class FlowQuery:
    def __init__(self, spark: SparkSession, spec: QuerySpec) -> None:
        spark.dataSource.register(TwinlogDataSource)
        options = {
            "config": json.dumps([str(path) for path in spec.paths]),
            "flow": spec.name,
            "run": spec.run,
            "tasks": str(spec.tasks),
        }
        if spec.secrets is not None:
            options["secrets"] = str(spec.secrets)
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
        return bool(self._query.isActive)

    @property
    def relaying(self) -> bool:
        """Whether tasks of an epoch run now."""
        return self.active and "Processing" in str(self._query.status.get("message", ""))

    def error(self) -> str:
        """Why it ended; empty when it was told to, or has done its work."""
        failure = self._query.exception()
        if failure is None:
            return ""
        return last_line(str(failure))

    def stop(self) -> None:
        with contextlib.suppress(PySparkException):
            self._query.stop()


def last_line(text: str) -> str:
    """The cause at the end of Spark's and Python's traces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("twinlog.errors.")]
    if causes:
        return causes[-1].partition(": ")[2]
    return lines[0] if lines else "the query ended without a reason"
