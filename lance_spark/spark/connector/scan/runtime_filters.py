"""Filters that Spark knows only while a query runs: values that the other side of a join has (dynamic pruning).

They are hints: the join evaluates the condition again. Filters on columns that choose partitions or fragments
prune these, if they have few enough values to do so quickly. Filters on other columns skip rows in the reader, before
the other columns are decoded and handed over.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import DataType

from lance_spark.expr.literals import FALSE
from lance_spark.expr.nodes import Column, Expr, InArray, conjunction
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.spark.types.schemas import is_lossless

MAX_CHOOSING_VALUES = 10_000
"""Partitions and fragments are not chosen by more values."""

MAX_VALUES = 100_000
"""Rows are not looked up among more values."""

MANY_ROWS = 100_000
"""To plan a filter at run time costs more than it saves of fewer rows."""

MAX_SENT_BYTES = 64 << 20
"""All tasks of a scan together are not sent more values than this."""

Path = tuple[str, ...]
"""Path of a column, or of a member of a struct."""


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Rows whose `column` has one of some values are wanted, as Spark compares values of `type`.

    Attributes:
        texts: the values, unless they are whole numbers or days.
        attachment: of whole numbers and days the request's attachment that has them, 64 bits each, little-endian.
    """

    column: Path
    type: DataType
    texts: tuple[str, ...] = ()
    attachment: int | None = None

    def values(self, attachments: Sequence[bytes]) -> pa.Array:
        """The values: int64 or text."""
        if self.attachment is None:
            return pa.array(self.texts, pa.string())
        return pa.Array.from_buffers(
            pa.int64(), len(attachments[self.attachment]) // 8, [None, pa.py_buffer(attachments[self.attachment])]
        )


def filter_columns(
    choosing: Collection[Path], filterable: pa.Schema, columns: Sequence[str], num_rows: int | None
) -> tuple[str, ...]:
    """Columns of a scan that are worth a runtime filter; a struct is, if one of its members is.

    Only columns that are compared as Spark compares them.

    Args:
        choosing: columns whose values choose partitions or fragments.
        filterable: columns that filters may name.
        columns: the columns that the scan reads.
        num_rows: the number of rows that the scan reads; None if it is not known.
    """
    has_many = num_rows is None or num_rows >= MANY_ROWS

    def pays(path: Path, dtype: pa.DataType) -> bool:
        if pt.is_struct(dtype):
            return any(pays((*path, member.name), member.type) for member in dtype)
        return is_lossless(dtype) and (path in choosing or (has_many and _converter(dtype) is not None))

    known = {name: filterable.field(name).type for name in columns if name in filterable.names}
    return tuple(name for name, dtype in known.items() if pays((name,), dtype))


def runtime_filter(
    filters: Sequence[KeyFilter], attachments: Sequence[bytes], filterable: pa.Schema, choosing: Collection[Path]
) -> Expr | None:
    """A filter that keeps all rows that all of `filters` keep; None if it would keep everything.

    Args:
        attachments: of the request that `filters` came with.
        filterable: what filters may name.
        choosing: the columns whose values choose partitions or fragments.
    """
    terms = [_term(item, item.values(attachments), filterable, choosing) for item in filters]
    return conjunction(tuple(term for term in terms if term is not None))


def affordable(condition: Expr | None, num_tasks: int) -> Expr | None:
    """`condition`, if it may be sent to this many tasks."""
    if condition is None:
        return None
    num_bytes = sum(node.values.nbytes for node in condition.walk() if isinstance(node, InArray))
    return condition if num_bytes * num_tasks <= MAX_SENT_BYTES else None


def _term(item: KeyFilter, values: pa.Array, filterable: pa.Schema, choosing: Collection[Path]) -> Expr | None:
    if not len(values):
        return FALSE  # The other side has no rows.
    dtype = _type_at(filterable, item.column)
    if dtype is None or not is_lossless(dtype):
        return None  # Another member of the struct is worth a filter.
    if item.column in choosing:
        if len(values) > MAX_CHOOSING_VALUES:
            return None
        constants = tuple(SparkExpression(literal=str(value), type=item.type) for value in values.to_pylist())
        return to_filter(SparkExpression("IN", (SparkExpression(column=item.column), *constants)), filterable)
    convert = _converter(dtype)
    if convert is None or len(values) > MAX_VALUES:
        return None
    try:
        return InArray(Column(item.column), convert(values, dtype))
    except pa.ArrowInvalid:
        return None  # A value that no row of the column can have; the join looks at all of them.


def _type_at(filterable: pa.Schema, path: Path) -> pa.DataType | None:
    """The type of a column or of a member of structs; None for anything else."""
    if path[0] not in filterable.names:
        return None
    dtype = filterable.field(path[0]).type
    for name in path[1:]:
        place = dtype.get_field_index(name) if pt.is_struct(dtype) else -1
        if place < 0:
            return None
        dtype = dtype.field(place).type
    return dtype


def _converter(dtype: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array] | None:
    """Converter of filter values to `dtype`; None for other types. Spark compares floats: NaN and signed zeros."""
    if pt.is_signed_integer(dtype) or pt.is_string(dtype) or pt.is_large_string(dtype):
        return lambda values, kind: values.cast(kind)
    if pt.is_date32(dtype):
        return lambda values, kind: values.cast(pa.int32()).cast(kind)
    if pt.is_decimal128(dtype):
        return lambda values, kind: pa.array(map(decimal.Decimal, values.to_pylist()), kind)
    return None
