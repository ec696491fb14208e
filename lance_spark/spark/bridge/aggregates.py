"""COUNT, MIN and MAX over all rows of a scan, each task one row of its part.

A task hands over one row instead of all values of its columns; Spark puts the rows of the tasks together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.types import StructType

from lance_spark.spark.bridge.tasks import ReadWork
from lance_spark.spark.bridge.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.types import is_lossless, to_spark_schema
from lance_spark.table.fragment import DataFragment
from lance_spark.table.scan import Scan


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate function: "count_star", "count", "min", "max", or one that is not answered here."""

    kind: str
    column: tuple[str, ...] = ()
    distinct: bool = False

    def counts_one_of(self, columns: set[str]) -> bool:
        """Whether it counts the values of one of `columns`."""
        return self.kind == "count" and not self.distinct and len(self.column) == 1 and self.column[0] in columns

    def __str__(self) -> str:
        return "count(*)" if self.kind == "count_star" else f"{self.kind}({'.'.join(self.column)})"


def in_tasks(aggregates: Sequence[Aggregate], columns: pa.Schema) -> StructType | None:
    """The columns of the row that every task returns; None if tasks cannot have all of `aggregates` exactly.

    Args:
        columns: those of the table.
    """
    fields = []
    for number, aggregate in enumerate(aggregates):
        dtype = _result_type(aggregate, columns)
        if dtype is None:
            return None
        (field,) = to_spark_schema(pa.schema([pa.field(f"{aggregate}#{number}", dtype)])).fields
        fields.append(field)
    return StructType(fields)


def _result_type(aggregate: Aggregate, columns: pa.Schema) -> pa.DataType | None:
    if aggregate.kind == "count_star":
        return pa.int64()
    if aggregate.distinct or len(aggregate.column) != 1 or aggregate.column[0] not in columns.names:
        return None
    dtype = columns.field(aggregate.column[0]).type
    if aggregate.kind == "count":
        return None if pt.is_nested(dtype) else pa.int64()
    return dtype if aggregate.kind in ("min", "max") and _has_one_order(dtype) else None


def _has_one_order(dtype: pa.DataType) -> bool:
    """Whether Arrow and Spark agree which of two values is less: not of floats, for NaN and zeros with a sign."""
    kinds = (pt.is_signed_integer, pt.is_decimal128, pt.is_date32, pt.is_timestamp, pt.is_string, pt.is_large_string)
    return any(is_kind(dtype) for is_kind in kinds) and is_lossless(dtype)


def read_columns(aggregates: Sequence[Aggregate], columns: pa.Schema) -> StructType:
    """The columns that the tasks read."""
    names = dict.fromkeys(aggregate.column[0] for aggregate in aggregates if aggregate.column)
    return to_spark_schema(pa.schema([columns.field(name) for name in names]))


@dataclass(frozen=True)
class AggregateTask:
    """Returns one row: the aggregates over the slices that its only input row names.

    Attributes:
        scan: what to read.
        aggregates: in the order of `columns`.
        columns: those of the row.
    """

    scan: Scan
    aggregates: tuple[Aggregate, ...]
    columns: StructType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: list[list[pa.Scalar]] = [[] for _ in self.aggregates]
        for work in ReadWork.of_rows(batches):
            for piece in work.slices:
                fragment = DataFragment.from_bytes(piece.fragment)
                for batch in self.scan.read_fragment(fragment, start=piece.start, stop=piece.stop):
                    for values, aggregate in zip(parts, self.aggregates, strict=True):
                        values.append(_of_batch(aggregate, batch))
        rows = [_together(aggregate, values) for aggregate, values in zip(self.aggregates, parts, strict=True)]
        yield to_wire_batch(pa.RecordBatch.from_arrays(rows, self.columns.fieldNames()), wire_schema(self.columns))


def _of_batch(aggregate: Aggregate, batch: pa.RecordBatch) -> pa.Scalar:
    if aggregate.kind == "count_star":
        return pa.scalar(batch.num_rows, pa.int64())
    values = batch.column(aggregate.column[0])
    if aggregate.kind == "count":
        return pa.scalar(len(values) - values.null_count, pa.int64())
    return pc.min_max(values)[aggregate.kind]


def _together(aggregate: Aggregate, parts: list[pa.Scalar]) -> pa.Array:
    """One value; of no rows 0 for a count, else null."""
    if aggregate.kind in ("count_star", "count"):
        return pa.array([sum(part.as_py() for part in parts)], pa.int64())
    if not parts:
        return pa.nulls(1)
    return pa.array([pc.min_max(pa.array(parts, parts[0].type))[aggregate.kind]], parts[0].type)
