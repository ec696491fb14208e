"""`spark.read`, `write`, `readStream` and `writeStream` with `format("lance")` by Spark's Python data source interface.

Spark calls this class in several Python processes: one to make it and ask for the schema, one to plan, one to commit;
the instance travels between them by pickle. So `schema` pins the version that it described, and the reader that is
planned later reads that version, whatever was committed in between.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lance_spark.spark.connector.streaming.change_columns import columns_of_changes
from lance_spark.spark.options.options import ReadOptions, refuse_time_travel_of_spark
from lance_spark.spark.plugin.reader import LanceReader, PushdownReader, Snapshot
from lance_spark.spark.plugin.stream_reader import LanceStreamReader
from lance_spark.spark.plugin.stream_writer import LanceStreamWriter
from lance_spark.spark.plugin.writer import LanceWriter, write_options
from lance_spark.spark.streaming.options import reads_changes, without_source_options
from lance_spark.spark.types.intervals import refuse_months

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
        # Spark does not say whether a batch or a stream is read; `reader` refuses the options of streams.
        snapshot = self._snapshot(without_source_options(self.options))
        self._version = snapshot.version
        columns = snapshot.spark_schema
        refuse_months(columns)
        return columns_of_changes(columns) if reads_changes(self.options) else columns

    def reader(self, schema: StructType) -> DataSourceReader:
        snapshot = self._snapshot(self.options)
        # Spark fails every query of a reader that overrides `pushFilters` unless its switch for that is on, and only
        # then does it plan in a worker of this name.
        pushes = snapshot.options.push_down_filters and _PUSHDOWN_WORKER in sys.modules
        return (PushdownReader if pushes else LanceReader)(snapshot, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        refuse_months(schema)
        return LanceWriter(write_options(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LanceStreamReader(self._snapshot(without_source_options(self.options)), self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        refuse_months(schema)
        return LanceStreamWriter(self.options, schema, overwrite)

    def _snapshot(self, asked: Mapping[str, str]) -> Snapshot:
        options = ReadOptions.parse(asked)
        refuse_time_travel_of_spark(asked)
        return Snapshot.open(options, self._version)
