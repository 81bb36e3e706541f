"""Twinlog on Spark: data source, epoch planner, one query per flow, Spark session.

For use in your own Spark session: `from twinlog.spark import TwinlogDataSource`; see datasource.py.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinlog.spark.datasource import TwinlogDataSource

__all__ = ["TwinlogDataSource"]


def __getattr__(name: str) -> Any:
    """Imported on demand: some modules of this package do not need pyspark, which takes a second to import."""
    if name in __all__:
        from twinlog.spark.datasource import TwinlogDataSource  # noqa: PLC0415

        return TwinlogDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
