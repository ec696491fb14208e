"""Values under evaluation: families of types, and normalization of columns to a comparable form.

An operand is an Arrow array, or an Arrow scalar that represents any number of equal rows. Types that differ only in
layout (dictionary, views, run ends, narrow decimals, float16, fixed-size binary) are converted to one plain form first.
"""

from __future__ import annotations

import decimal
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError

Operand: TypeAlias = "pa.Array | pa.Scalar"

types = pa.types


class Family(str, Enum):
    """Types whose values are comparable with one another."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "floating point"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp with a time zone"
    TIMESTAMP_NTZ = "timestamp without a time zone"
    TIME = "time of day"
    DURATION = "duration"


NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.FLOAT)


def family_of(type_: pa.DataType) -> Family | None:
    """The family of a plain type; None for nested types and calendar intervals, which are not comparable."""
    if types.is_timestamp(type_):
        return Family.TIMESTAMP if type_.tz else Family.TIMESTAMP_NTZ
    return next((family for family, belongs in _MEMBERS if belongs(type_)), None)


_MEMBERS = (
    (Family.NULL, types.is_null),
    (Family.BOOLEAN, types.is_boolean),
    (Family.INTEGER, types.is_integer),
    (Family.DECIMAL, types.is_decimal),
    (Family.FLOAT, types.is_floating),
    (Family.STRING, lambda type_: types.is_string(type_) or types.is_large_string(type_)),
    (Family.BINARY, lambda type_: types.is_binary(type_) or types.is_large_binary(type_)),
    (Family.DATE, types.is_date),
    (Family.TIME, types.is_time),
    (Family.DURATION, types.is_duration),
)


def required_family(operand: Operand, what: str) -> Family:
    """The family of an operand.

    Raises:
        InvalidInputError: `what` is not defined for such a type.
    """
    family = family_of(operand.type)
    if family is None:
        raise InvalidInputError(f"{what} is not defined for {operand.type}")
    return family


def plain(values: pa.Array) -> pa.Array:
    """The same values, without layouts that Arrow's kernels support only in part."""
    type_ = values.type
    if type_.id in _PLAIN_IDS:
        return values
    if isinstance(values, pa.ExtensionArray):
        return plain(values.storage)
    if types.is_dictionary(type_):
        return plain(values.dictionary_decode())
    if types.is_run_end_encoded(type_):
        return plain(pc.run_end_decode(values))
    if types.is_date64(type_):
        # Milliseconds within the day carry no meaning (Arrow columnar format, Date64).
        return pc.floor_temporal(values, unit="day").cast(pa.date32())
    target = _plain_type(type_)
    return values if target is None else values.cast(target)


def _plain_type(type_: pa.DataType) -> pa.DataType | None:
    if types.is_decimal(type_) and (type_.bit_width < 128 or type_.scale < 0):
        digits = type_.precision - min(type_.scale, 0)
        if digits > 76:
            raise InvalidInputError(f"filters cannot compare {type_}: its values have up to {digits} digits")
        return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, max(type_.scale, 0))
    return next((target for belongs, target in _PLAIN if belongs(type_)), None)


_PLAIN_IDS = {dtype.id for dtype in (pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32())}
"""Common types that are plain."""

_PLAIN = (
    (types.is_float16, pa.float32()),
    (types.is_string_view, pa.large_string()),
    (types.is_binary_view, pa.large_binary()),
    (types.is_fixed_size_binary, pa.binary()),
)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, also of types for which pyarrow has no converter from Python."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def as_array(operand: Operand, length: int) -> pa.Array:
    """The operand as an array of `length` rows."""
    return pa.repeat(operand, length) if isinstance(operand, pa.Scalar) else operand


def as_boolean(operand: Operand, what: str) -> Operand:
    """The operand as a truth value.

    Raises:
        InvalidInputError: it is neither boolean nor NULL.
    """
    family = family_of(operand.type)
    if family is Family.NULL:
        null = pa.scalar(None, pa.bool_())
        return null if isinstance(operand, pa.Scalar) else pa.nulls(len(operand), pa.bool_())
    if family is not Family.BOOLEAN:
        raise InvalidInputError(f"{what} must be a condition, but is {operand.type}")
    return operand


def null_like(operand: Operand, type_: pa.DataType) -> Operand:
    """Nulls of `type_` in the shape of `operand`."""
    return pa.scalar(None, type_) if isinstance(operand, pa.Scalar) else pa.nulls(len(operand), type_)


def zero_of(type_: pa.DataType) -> pa.Scalar:
    """The number 0 in a number's type."""
    return pa.scalar(decimal.Decimal(0) if types.is_decimal(type_) else 0, type_)


def broadcast_shape(left: Operand, right: Operand) -> Operand:
    """An operand with rows, if there is one."""
    return right if isinstance(left, pa.Scalar) else left


def is_all_scalar(*operands: Operand) -> bool:
    """Whether no operand has rows."""
    return all(isinstance(operand, pa.Scalar) for operand in operands)
