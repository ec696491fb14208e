"""The Arrow types of the columns that tasks send to the JVM."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import StructType

from lance_spark.errors import CorruptFileError
from lance_spark.expr.decimal_expr import unscaled
from lance_spark.spark.types.schemas import exchanged_schema
from lance_spark.spark.types.values import convert_batch, to_spark_value

_LONG_DIGITS = 18
"""Decimals with up to this many digits fit into 64 bits; Spark stores them this way."""


def wire_schema(columns: StructType) -> pa.Schema:
    """The schema of a task's batches for `columns`: as Spark's own, except that decimals of up to 18 digits are int64,
    the unscaled value.

    This halves their size, and the JVM reads them without creating a BigInteger for each.
    """
    schema = exchanged_schema(columns)
    return pa.schema([pa.field(field.name, _wire_type(field.type), field.nullable) for field in schema])


def _wire_type(dtype: pa.DataType) -> pa.DataType:
    if pt.is_decimal128(dtype) and dtype.precision <= _LONG_DIGITS:
        return pa.int64()
    if pt.is_struct(dtype):
        return pa.struct([child.with_type(_wire_type(child.type)) for child in dtype])
    if pt.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_wire_type(dtype.value_type)))
    return dtype


def to_wire_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """`batch` in the types of `target` (a `wire_schema`, the same names in the same order).

    Rows without columns get a dummy column: pyspark creates a Python object for each row without one.

    Raises:
        InvalidInputError: a value out of the range of Spark's type, such as a second beyond the range of microseconds.
        CorruptFileError: a decimal has more digits than its type.
    """
    if not len(target):
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], ["row"])
    return convert_batch(batch, target, _to_wire)


def _to_wire(array: pa.Array, target: pa.DataType) -> pa.Array:
    if not (pt.is_decimal128(array.type) and pt.is_int64(target)):
        return to_spark_value(array, target)
    table = unscaled(array)
    if table is None:
        raise CorruptFileError(f"a column of type {array.type} has a value of more than {_LONG_DIGITS} digits")
    return table
