"""Values that Spark sees rounded, in rows that a statement changes elsewhere.

Spark has no nanoseconds. A row that comes back from it holds the microseconds of such a column; if they are those that
Spark was shown, the statement left the value alone, and the table keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.expr.nodes import quote_name
from lance_spark.layouts.arrow_take import take
from lance_spark.spark.types.schemas import is_lossless
from lance_spark.spark.types.values import from_spark_batch, to_spark_batch
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.row_level.value_equality import equal_values
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array, distinct

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class OriginalValues:
    """Brings back what Spark has rounded.

    Attributes:
        shown: the columns in question, in the types in which Spark is shown them.
        kept: the same columns in the types of the table.
    """

    shown: pa.Schema
    kept: pa.Schema

    @classmethod
    def of(cls, shown: pa.Schema, kept: pa.Schema) -> OriginalValues | None:
        """Makes it for rows in the types `kept`, of which Spark sees `shown`; None if it sees all of every value."""
        names = [field.name for field in kept if not is_lossless(field.type)]
        if not names:
            return None
        return cls(pa.schema([shown.field(name) for name in names]), pa.schema([kept.field(name) for name in names]))

    def restored(
        self, rows: pa.RecordBatch, had_rows: BoolArray, read: Callable[[list[str]], pa.RecordBatch]
    ) -> pa.RecordBatch:
        """`rows` with the values that the table has, where Spark has given back what it was shown.

        Args:
            rows: as Spark gave them back, in the types of the table.
            had_rows: bool[n]: which of them were in the table before.
            read: the columns of these names, of those rows, as the table has them.
        """
        if not had_rows.any():
            return rows
        originals = read(self.kept.names)
        # What a writer may say about a column, in its metadata, is not asked here.
        originals = pa.RecordBatch.from_arrays(originals.columns, schema=self.kept)
        rounded = from_spark_batch(to_spark_batch(originals, self.shown), self.kept)
        places = np.flatnonzero(had_rows)
        columns = list(rows.columns)
        for name in self.kept.names:
            number = rows.schema.get_field_index(name)
            given = take(columns[number], places)
            chosen = _chosen(originals.column(name), rounded.column(name), given)
            order = np.arange(rows.num_rows)
            order[places] = rows.num_rows + np.arange(len(places))
            columns[number] = take(pa.concat_arrays([columns[number], chosen]), order)
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def read_rows(location: TableLocation, base: Manifest, addresses: UInt64Array, names: list[str]) -> pa.RecordBatch:
    """The columns `names` of the rows at `addresses` (uint64[n]) of `base`, in that order."""
    scan = Scan.of(base.schema, location.bases(base), columns=[quote_name(name) for name in names])
    ascending = distinct(addresses)
    places = {message.id: place for place, message in enumerate(base.fragments.messages)}
    batches = [
        batch
        for fragment_id, offsets in by_fragment(ascending)
        for batch in scan.read([FragmentRows(base.fragments[places[fragment_id]], offsets)])
    ]
    table = pa.Table.from_batches(batches, schema=scan.arrow_schema).combine_chunks()
    order = np.searchsorted(ascending, addresses)
    columns = [take(column.chunk(0), order) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _chosen(original: pa.Array, rounded: pa.Array, given: pa.Array) -> pa.Array:
    """`given`, but what is `rounded` there as `original` has it; fields of a struct each for themselves."""
    if is_lossless(given.type):
        return given
    if pt.is_struct(given.type):
        children = [
            _chosen(*parts) for parts in zip(original.flatten(), rounded.flatten(), given.flatten(), strict=True)
        ]
        mask = given.is_null() if given.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(given.type), mask=mask)
    is_same = equal_values(rounded, given)
    order: npt.NDArray[Any] = np.arange(len(given))
    order[~is_same] += len(given)
    return take(pa.concat_arrays([original, given]), order)
