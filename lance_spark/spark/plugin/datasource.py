"""`spark.read.format("lance")` and `df.write.format("lance")` by Spark's Python data source interface.

Spark calls this class in several Python processes: one to make it and ask for the schema, one to plan, one to commit;
the instance travels between them by pickle. So `schema` pins the version that it described, and the reader that is
planned later reads that version, whatever was committed in between.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from lance_spark.spark.options import (
    ReadOptions,
    WriteOptions,
    refuse_options_of_connector,
    refuse_time_travel_of_spark,
)
from lance_spark.spark.plugin.reader import LanceReader, PushdownReader, Snapshot
from lance_spark.spark.plugin.writer import LanceWriter

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class LanceDataSource(DataSource):
    """The data source named ``lance``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        return "lance"

    def schema(self) -> StructType:
        snapshot = self._snapshot()
        self._version = snapshot.version
        return snapshot.spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        snapshot = self._snapshot()
        # Spark fails every query of a reader that overrides `pushFilters` unless its switch for that is on, and only
        # then does it plan in a worker of this name.
        pushes = snapshot.options.push_down_filters and _PUSHDOWN_WORKER in sys.modules
        return (PushdownReader if pushes else LanceReader)(snapshot, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = WriteOptions.parse(self.options)
        options.check_without_partitions()
        options.log_without_effect()
        return LanceWriter(options, schema, overwrite)

    def _snapshot(self) -> Snapshot:
        options = ReadOptions.parse(self.options)
        refuse_time_travel_of_spark(self.options)
        refuse_options_of_connector(options)
        return Snapshot.open(options, self._version)
