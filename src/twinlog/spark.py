"""Twinlog in a Spark of your own: `from twinlog.spark import TwinlogDataSource`; see its module for how to use it."""

from twinlog.pipeline.datasource import TwinlogDataSource

__all__ = ["TwinlogDataSource"]
