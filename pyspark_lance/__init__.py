"""Spark looks into every top-level package whose name starts with ``pyspark_`` and registers its `DefaultSource`."""

from lance_spark.spark.plugin.datasource import LanceDataSource as DefaultSource

__all__ = ["DefaultSource"]
