"""COUNT, MIN, MAX and SUM over the rows of a scan, with or without GROUP BY: each task aggregates its part.

A task hands over its groups instead of all values of its columns; Spark puts those of the tasks together. It takes the
sum of a part for one more value of what is summed, so a part is never so large that its sum is no such value. AVG comes
as SUM and COUNT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import StructType

from lance_spark.expr.decimal_expr import MAX_PRECISION, Number
from lance_spark.spark.connector.channel.tasks import bound_parts
from lance_spark.spark.connector.channel.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.connector.scan.decimal_terms import to_number
from lance_spark.spark.predicates import SparkExpression
from lance_spark.spark.types.intervals import without_months
from lance_spark.spark.types.schemas import is_lossless, to_spark_schema
from lance_spark.table.reading.groups import Grouping, Slot
from lance_spark.table.reading.scan import Scan

_WINDOW_ROWS = 1 << 20
"""Rows that are grouped at a time, if they are not too wide."""

_BATCH_ROWS = 1 << 15
"""Rows that are handed over at a time."""

ROWS_OF_GROUP = 16
"""Rows of a group in a sample of 8,192. Spark's own hash maps are compiled for the keys; tasks make up for that only if
little is left to hand over."""

_EXACT_DOUBLES = 1 << 53
"""Doubles are exact up to here."""

_FREE_DIGITS = 10
"""Digits that Spark's sum of a decimal has more than the decimal: enough for any number of rows."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate function.

    Attributes:
        kind: "count_star", "count", "min", "max", "sum", or one that is not answered here.
        of: what of; None for "count_star".
        averaged: Spark made AVG to SUM and COUNT.
    """

    kind: str
    of: SparkExpression | None = None
    distinct: bool = False
    averaged: bool = False

    @property
    def column(self) -> str | None:
        """The column at the top that it is of; None for anything else."""
        path = None if self.of is None else self.of.column
        return path[0] if path is not None and len(path) == 1 else None

    def counts_one_of(self, columns: set[str]) -> bool:
        """Whether it counts the values of one of `columns`."""
        return self.kind == "count" and not self.distinct and self.column in columns


def slots(aggregates: Sequence[Aggregate], columns: pa.Schema, num_rows: int | None) -> tuple[Slot, ...] | None:
    """Partial aggregates that tasks return for `aggregates`; None if they cannot have all of them exactly.

    Args:
        columns: the table's columns.
        num_rows: an upper bound of the number of rows; None if not known.
    """
    numbers = without_months(columns)
    found = [_slot(aggregate, numbers, num_rows) for aggregate in aggregates]
    known = tuple(slot for slot in found if slot is not None)
    return known if len(known) == len(found) else None


def _slot(aggregate: Aggregate, columns: pa.Schema, num_rows: int | None) -> Slot | None:
    if aggregate.kind == "count_star":
        return Slot("count_star", pa.int64())
    if aggregate.distinct or aggregate.of is None:
        return None
    name = aggregate.column
    dtype = columns.field(name).type if name in columns.names else None
    if aggregate.kind in ("min", "max"):
        is_known = dtype is not None and _has_one_order(dtype)
        return Slot(aggregate.kind, dtype, column=name) if is_known else None
    if aggregate.kind == "count" and dtype is not None:
        return None if pt.is_nested(dtype) else Slot("count", pa.int64(), column=name)
    number = to_number(aggregate.of, columns)
    if number is None or not any(number.columns()) or aggregate.kind not in ("count", "sum"):
        return None
    if aggregate.kind == "count":
        return Slot("count", pa.int64(), number=number)
    if aggregate.averaged and not _has_sum(number, dtype, num_rows):
        return None
    return Slot("sum", number.arrow_type, number=number)


def _has_sum(number: Number, dtype: pa.DataType, num_rows: int | None) -> bool:
    """Whether AVG is always SUM through COUNT. Of a sum that is too large TRY_AVG makes a null, and SUM an error."""
    if not number.precision:
        return _is_exact_as_double(dtype, num_rows)
    free_digits = MAX_PRECISION - number.precision
    return free_digits >= _FREE_DIGITS or (num_rows is not None and num_rows <= 10**free_digits)


def _is_exact_as_double(dtype: pa.DataType, num_rows: int | None) -> bool:
    """Whether doubles add up to the exact sum: Spark's AVG of whole numbers adds doubles, and SUM does not."""
    return num_rows is not None and num_rows << (dtype.bit_width - 1) <= _EXACT_DOUBLES


def _has_one_order(dtype: pa.DataType) -> bool:
    """Whether Arrow and Spark agree which of two values is less: not of floats, for NaN and zeros with a sign."""
    kinds = (pt.is_signed_integer, pt.is_decimal128, pt.is_date32, pt.is_timestamp, pt.is_string, pt.is_large_string)
    return any(is_kind(dtype) for is_kind in kinds) and is_lossless(dtype)


def can_group_by(names: Sequence[str], columns: pa.Schema) -> bool:
    """Whether Arrow and Spark agree which values of all of these columns are equal."""
    return all(
        name in columns.names and (pt.is_boolean(columns.field(name).type) or _has_one_order(columns.field(name).type))
        for name in names
    )


def returned_columns(group_by: Sequence[str], found: Sequence[Slot], columns: pa.Schema) -> StructType:
    """The columns of the rows that the tasks return: group columns first."""
    keys = [columns.field(name).with_name(f"{name}#{number}") for number, name in enumerate(group_by)]
    values = [pa.field(f"{slot}#{len(keys) + number}", slot.dtype) for number, slot in enumerate(found)]
    return to_spark_schema(pa.schema([*keys, *values]))


def read_columns(group_by: Sequence[str], found: Sequence[Slot], columns: pa.Schema) -> StructType:
    """The columns that the tasks read."""
    names = dict.fromkeys([*group_by, *(name for slot in found for name in slot.columns())])
    return to_spark_schema(pa.schema([columns.field(name) for name in names]))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates that the tasks of a scan return instead of its rows.

    Attributes:
        group_by: names of the columns.
        slots: the aggregates.
        read: the columns that the tasks read.
        returned: the columns of the groups.
    """

    group_by: tuple[str, ...]
    slots: tuple[Slot, ...]
    read: StructType
    returned: StructType

    @classmethod
    def of(
        cls, group_by: tuple[str, ...], aggregates: Sequence[Aggregate], columns: pa.Schema, num_rows: int | None
    ) -> Aggregation | None:
        """The aggregation for `aggregates`; None if tasks cannot have all of them exactly. Arguments as for `slots`."""
        found = slots(aggregates, columns, num_rows)
        if found is None or not can_group_by(group_by, columns):
            return None
        return cls(group_by, found, read_columns(group_by, found, columns), returned_columns(group_by, found, columns))

    def __str__(self) -> str:
        groups = f" group_by=[{', '.join(self.group_by)}]" if self.group_by else ""
        return f"aggregates=[{', '.join(map(str, self.slots))}]{groups}"


@dataclass(frozen=True)
class AggregateTask:
    """Returns the groups of the rows that its input names; without GROUP BY at least one row.

    The same group can be in many rows: of each window of rows there are its own, and of rows whose sum would be too
    large for its type, or which are hardly ever of the same group, each is a group.

    Attributes:
        scan: what to read of each split; it is bound to none.
        group_by: names of the columns.
        slots: the aggregates.
        columns: those of the rows.
    """

    scan: Scan
    group_by: tuple[str, ...]
    slots: tuple[Slot, ...]
    columns: StructType
    target: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", wire_schema(self.columns))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scan = replace(self.scan, batch_rows=_WINDOW_ROWS, batch_bytes=None)
        grouping = Grouping(self.group_by, self.slots)
        is_empty = True
        for part, bound in bound_parts(scan, batches):
            for batch in part.read(bound):
                if batch.num_rows:
                    is_empty = False
                    yield from self._wire(grouping.of(batch))
        if is_empty and not self.group_by:
            # Spark takes the sum of no counts for null.
            row = [pa.array([0 if slot.is_count else None], slot.dtype) for slot in self.slots]
            yield from self._wire(row)

    def _wire(self, arrays: list[pa.Array]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(arrays[0]), _BATCH_ROWS):
            part = [array.slice(start, _BATCH_ROWS) for array in arrays]
            yield to_wire_batch(pa.RecordBatch.from_arrays(part, self.columns.fieldNames()), self.target)
