"""The PySpark data source: `format("twinlog")`. Its rows are partition assignments; its sink replicates them.

    from twinlog.spark import TwinlogDataSource

    spark.dataSource.register(TwinlogDataSource)
    rows = spark.readStream.format("twinlog").option("config", "mm2.properties").option("flow", "us->eu").load()
    rows.writeStream.format("twinlog").option("config", "mm2.properties").option("flow", "us->eu")...start()

Options: `config` (a path, or a JSON list of paths), `flow`, `secrets`. `twinlog run` also sets `tasks`, `run`, `epoch`
(the number of the first epoch) and `instance`. With `trigger(availableNow=True)` the query copies what exists and ends.

The reader runs in a thread of the driver (driver_threads.py), or in a process next to it, for as long as the query;
`read` and `write` run in workers, which get a pickled copy. So nothing opens a connection before it is used.
"""

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from twinlog.spark.options import read_options
from twinlog.spark.reader import AssignmentReader
from twinlog.spark.writer import RelayWriter

SCHEMA: Final = (
    "flow STRING, run STRING, epoch BIGINT, task INT, topic STRING, partition INT, assignment STRING, job STRING"
)


class TwinlogDataSource(DataSource):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        return "twinlog"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> AssignmentReader:  # noqa: N802, ARG002
        return AssignmentReader(self._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> RelayWriter:  # noqa: N802, ARG002
        return RelayWriter(self._options.config)
