"""For those who bring their own Spark: `from twinlog.spark import TwinlogDataSource` (docs/library.md)."""

from twinlog.pipeline.datasource import TwinlogDataSource

__all__ = ["TwinlogDataSource"]
