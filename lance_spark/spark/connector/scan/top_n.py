"""ORDER BY with LIMIT inside of a scan: each task returns its first rows, Spark puts them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.expr.columns import resolve_names
from lance_spark.expr.literals import literal
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.sql_distance import SqlDistance
from lance_spark.spark.connector.channel.tasks import ReadTask, SplitWork
from lance_spark.spark.predicates import LANCE_DISTANCE, SparkExpression, to_literal, to_numbers, type_at
from lance_spark.spark.types.schemas import is_lossless
from lance_spark.table.reading.first_rows import FirstRows, SortKey
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS

MAX_ROWS = 10_000
"""A larger limit is left to Spark: its rows would be looked up one by one."""


@dataclass(frozen=True, slots=True)
class SortOrder:
    """One key of ORDER BY."""

    expression: SparkExpression
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TopN:
    """ORDER BY with LIMIT."""

    orders: tuple[SortOrder, ...]
    limit: int

    def sort_keys(self, schema: pa.Schema) -> tuple[SortKey, ...] | None:
        """The keys, if tasks find the first rows in this order exactly as Spark does; else None.

        Args:
            schema: the columns of the table.
        """
        if self.limit > MAX_ROWS or ROW_ADDRESS in schema.names:
            return None
        keys = tuple(key for order in self.orders if (key := _sort_key(order, schema)) is not None)
        return keys if len(keys) == len(self.orders) else None


def _sort_key(order: SortOrder, schema: pa.Schema) -> SortKey | None:
    if order.expression.name == LANCE_DISTANCE:
        return _distance_key(order, schema)
    path = order.expression.column
    if path is None or path[0] not in schema.names:
        return None
    path = resolve_names(schema, path)
    return SortKey(path, order.descending, order.nulls_first) if _is_sortable(type_at(schema, path)) else None


def _distance_key(order: SortOrder, schema: pa.Schema) -> SortKey | None:
    """The key of `lance_distance(column, query, metric)`; None if its arguments are others, or the call fails."""
    column, query, *metric = order.expression.children
    values = to_numbers(query)
    if column.column is None or column.column[0] not in schema.names or values is None:
        return None
    name = to_literal(metric[0]) if metric else literal(Metric.L2.value)
    known = Metric.of_name(name.value) if name is not None and isinstance(name.value, str) else None
    if known is None:
        return None
    path = resolve_names(schema, column.column)
    distance = SqlDistance.of(type_at(schema, path), known, values)
    return None if distance is None else SortKey(path, order.descending, order.nulls_first, distance)


def _is_sortable(dtype: pa.DataType) -> bool:
    ordered = (
        pt.is_integer(dtype)
        or pt.is_float32(dtype)
        or pt.is_float64(dtype)
        or pt.is_decimal(dtype)
        or pt.is_string(dtype)
        or pt.is_large_string(dtype)
        or pt.is_date32(dtype)
        or pt.is_timestamp(dtype)
    )
    return ordered and is_lossless(dtype)


@dataclass(frozen=True)
class TopNTask(ReadTask):
    """Reads the first rows, in the order of the keys, of each split in its input.

    Attributes:
        keys: the order.
        first: how many rows.
    """

    keys: tuple[SortKey, ...] = ()
    first: int = 0

    def _read(self, part: SplitWork, scan: Scan) -> Iterator[pa.RecordBatch]:
        return FirstRows(scan, self.keys, self.first).of(list(part.slices.rows(scan.version)))
