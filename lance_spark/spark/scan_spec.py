"""A read from Spark: its columns and options, of a query, of a stream, and of the plug-in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from lance_spark.expr.nodes import Expr
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.blobs.columns import check_blob_handling, scanned_columns
from lance_spark.spark.options.options import BATCH_BYTES, ReadOptions
from lance_spark.spark.projection import narrow
from lance_spark.spark.table_view import check_text_options
from lance_spark.spark.types.schemas import exchanged_schema
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS
from lance_spark.table.source import Split


@dataclass(frozen=True, slots=True)
class ScanSpec:
    """The columns and options from which the scan of a read is made.

    Attributes:
        schema: the table's columns as scans read them: blobs are descriptions that name their data files.
        columns: those that tasks read; their order is that of the batches.
        options: of the read.
        time_zone: in which filters read times.
        constants: names of columns that no file has and tasks add, such as that of the partition.
    """

    schema: LanceSchema
    columns: StructType
    options: ReadOptions
    time_zone: str = "UTC"
    constants: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        schema: LanceSchema,
        file_version: FileVersion | None,
        columns: StructType,
        options: ReadOptions,
        *,
        time_zone: str = "UTC",
        constants: tuple[str, ...] = (),
    ) -> ScanSpec:
        """The spec of a read of a table with the columns `schema`; other arguments as the attributes."""
        read = with_blob_descriptors(schema, file_version, with_source=True)
        hidden = read.names()
        return cls(read, columns, options, time_zone, tuple(name for name in constants if name not in hidden))

    def scan(self, bases: Bases, filter: Expr | None) -> Scan:
        """The scan that tasks run on each split, bound to none of them unless `bases` are those of one.

        Args:
            filter: that of the options and those that Spark has pushed.

        Raises:
            NotFoundError: the table has no such column.
            InvalidInputError: the filter is invalid.
        """
        scan = Scan.of(
            self.schema,
            bases,
            columns=[],
            filter=filter,
            batch_rows=self.options.batch_size,
            window_bytes=self.options.max_batch_bytes,
            time_zone=self.time_zone,
        )
        names = tuple(name for name in self._scanned.fieldNames() if name not in self.constants)
        return replace(scan.returning(self.projection, names), batch_bytes=BATCH_BYTES)

    @property
    def projection(self) -> LanceSchema:
        """The columns to read of data files.

        Raises:
            NotFoundError: the table has no such column.
        """
        return narrow(self.schema, self._scanned, [*SYSTEM_FIELDS, *self.constants])

    @property
    def _scanned(self) -> StructType:
        return scanned_columns(self.columns, self.schema)

    def check_shown(self, scan: Scan, table: str) -> None:
        """Passes if Spark knows the columns in the types that the options say.

        Args:
            table: its name in messages.

        Raises:
            InvalidInputError: Spark has looked the table up without the options, so they have no effect.
        """
        options, shown = self.options, exchanged_schema(self.columns)
        check_blob_handling(options.blob_handling, scan, shown, table)
        check_text_options(scan.arrow_schema, shown, table, json_as=options.json_as, uuid_as=options.uuid_as)


def bound_to(scan: Scan, split: Split) -> Scan:
    """The scan of one split."""
    return scan.of_version(split.bases, stable_row_ids=split.manifest.has_stable_row_ids)
