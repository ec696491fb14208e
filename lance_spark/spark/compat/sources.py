"""Classes of Spark's Python data source interface that only some minor versions have."""

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from lance_spark.spark.compat import SPARK

__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxRows", "StreamArrowWriter", "SupportsTriggerAvailableNow"]

if SPARK >= (4, 2):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    # Spark does not ask for limits, so nobody makes or receives one.
    class ReadLimit:  # type: ignore[no-redef]
        """A limit of a batch."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """A number of rows."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A source that ends a query of Trigger.AvailableNow by itself; Spark reads all in one batch without it."""


if SPARK >= (4, 1):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
else:

    class StreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef,misc]
        """A writer of epochs that gets Arrow batches, as Spark 4.0 passes them to every `DataSourceArrowWriter`."""
