"""Spark's expressions over whole numbers and decimals as those that tasks compute."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.expr.decimal_expr import Number, arithmetic
from lance_spark.spark.predicates import SparkExpression

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""Digits of Spark's decimals for integers of this many bits."""


def to_number(expression: SparkExpression, columns: pa.Schema) -> Number | None:
    """Translates `expression` to a number with its type in Spark; None if it is not computed here.

    Args:
        columns: the table's columns.
    """
    if expression.column is not None:
        return _column(expression.column, columns)
    if expression.cast is not None:
        return _decimal_of_integer(expression, columns)
    if expression.type is not None:
        return _constant(expression)
    if expression.name not in ("+", "-", "*") or len(expression.children) != 2:
        return None
    operands = [to_number(child, columns) for child in expression.children]
    left, right = operands
    # Of whole numbers every single result would have to be looked at.
    if left is None or right is None or not left.precision or not right.precision:
        return None
    return arithmetic(expression.name, left, right)


def _column(path: tuple[str, ...], columns: pa.Schema) -> Number | None:
    if len(path) != 1 or path[0] not in columns.names:
        return None
    dtype = columns.field(path[0]).type
    if pt.is_signed_integer(dtype):
        return Number("column", 0, column=path[0])
    if not pt.is_decimal128(dtype) or not 0 <= dtype.scale <= dtype.precision:
        return None
    return Number("column", dtype.precision, dtype.scale, column=path[0])


def _decimal_of_integer(expression: SparkExpression, columns: pa.Schema) -> Number | None:
    assert expression.cast is not None, "the caller has seen the cast"
    path, target = expression.cast.column, expression.type
    if path is None or not isinstance(target, st.DecimalType) or target.scale:
        return None
    inner = _column(path, columns)
    if inner is None or inner.precision:
        return None
    enough = _INTEGER_DIGITS[columns.field(path[0]).type.bit_width]
    return Number("column", target.precision, column=path[0]) if target.precision >= enough else None


def _constant(expression: SparkExpression) -> Number | None:
    dtype = expression.type
    if not isinstance(dtype, st.DecimalType) or expression.literal is None:
        return None
    sign, digits, exponent = Decimal(expression.literal).as_tuple()
    assert isinstance(exponent, int), "Spark's decimals are numbers"
    shift = exponent + dtype.scale
    if shift < 0 or dtype.scale < 0:
        return None
    value = int("".join(map(str, digits))) * 10**shift
    return Number("constant", dtype.precision, dtype.scale, constant=-value if sign else value)
