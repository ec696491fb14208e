"""Tasks that write columns for rows identified by their addresses, in tables of either kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.backfill import plan_partitioned_columns, plan_partitioned_values
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.blobs.references import check_no_references
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.columns.backfill import plan_new_columns, plan_new_values
from lance_spark.table.columns.backfill_writer import Backfill, BackfillWriter, PlainBackfill
from lance_spark.table.dataset import Dataset
from lance_spark.table.paths import new_job
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.writing.filled_columns import BackfilledSplit

AnyTable = Dataset | PartitionedTable

_Home = tuple[str | None, int]
"""The key of a split, None in a plain table, and a fragment in it."""


def plan_columns(table: AnyTable, fields: pa.Schema) -> Backfill:
    """A plan for columns that `table` lacks. Raises as `plan_new_columns`."""
    if isinstance(table, PartitionedTable):
        return plan_partitioned_columns(table, fields, new_job())
    return PlainBackfill(table.location, plan_new_columns(table.location, table.manifest, fields, job=new_job()))


def plan_values(table: AnyTable, columns: Sequence[str]) -> Backfill:
    """A plan for other values of columns of `table`. Raises as `plan_new_values`, and `InvalidInputError` for columns
    that choose partitions.
    """
    if isinstance(table, PartitionedTable):
        return plan_partitioned_values(table, columns, new_job())
    return PlainBackfill(table.location, plan_new_values(table.location, table.manifest, columns, job=new_job()))


@dataclass(frozen=True)
class BackfillJob:
    """Backfill job that driver and tasks share; small, because every task gets it.

    Attributes:
        backfill: the plan.
        split_column: the column with the keys of the rows' splits; None in a plain table.
        blob_mark: begins the values that `blob_uri` and `blob_ingest` have made, which are refused.
    """

    backfill: Backfill
    split_column: str | None
    blob_mark: bytes = b""

    @property
    def row_id(self) -> list[pa.Field]:
        """The columns that identify rows."""
        keys = [] if self.split_column is None else [pa.field(self.split_column, pa.string())]
        return [*keys, pa.field(ROW_ADDRESS, pa.int64())]

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[BackfilledSplit]:
        """Writes the columns of the fragments of its rows, which are sorted by split and address.

        Raises:
            LanceError: files that were written stay, for `Backfill.remove_files`.
        """
        writer = BackfillWriter(self.backfill)
        found = (self._written(writer, home, rows) for home, rows in self._by_fragment(batches))
        return [item for item in found if item is not None]

    def _written(self, writer: BackfillWriter, home: _Home, rows: pa.Table) -> BackfilledSplit | None:
        addresses: UInt64Array = rows.column(ROW_ADDRESS).to_numpy().view(np.uint64)
        return writer.write(home[0], addresses, rows.select(self.backfill.arrow_schema.names))

    def _by_fragment(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[_Home, pa.Table]]:
        """The rows of each fragment, in the types of the table.

        Raises:
            InvalidInputError: a row has no address.
        """
        target = pa.schema([*self.row_id, *self.backfill.arrow_schema])
        held: list[pa.RecordBatch] = []
        current: _Home | None = None
        for exchanged in batches:
            batch = from_spark_batch(exchanged, target)
            check_no_references(batch, self.blob_mark)
            for home, start, stop in self._runs(batch):
                if home != current and current is not None:
                    yield current, pa.Table.from_batches(held)
                    held = []
                current = home
                held.append(batch.slice(start, stop - start))
        if current is not None:
            yield current, pa.Table.from_batches(held)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[_Home, int, int]]:
        """Ranges [start, stop) of consecutive rows in one fragment."""
        for field in self.row_id:
            if batch.column(field.name).null_count:
                raise InvalidInputError(f"a row has no {field.name}, so the row of the table that it is for is unknown")
        keys = None if self.split_column is None else batch.column(self.split_column)
        fragments, _ = split_addresses(batch.column(ROW_ADDRESS).to_numpy().view(np.uint64))
        changes = np.diff(fragments) != 0
        if keys is not None:
            changes |= pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        starts: Sequence[int] = [0, *(np.flatnonzero(changes) + 1).tolist()] if batch.num_rows else []
        for start, stop in pairwise([*starts, batch.num_rows]):
            yield (None if keys is None else keys[start].as_py(), int(fragments[start])), start, stop
