"""Arithmetic with the result types and errors of Spark's ANSI mode.

- Integers of any width are computed as 64-bit integers: an overflow of a narrower type, an error in Spark, gives the
  correct number here. `/` of integers is floating point.
- Decimals are computed exactly and then rounded, as in Spark, to at most 38 digits.
- If one side is floating point both sides are doubles.
- A date or timestamp plus or minus a duration is one again.
- Overflow and division by zero are errors. A filter raises them only for rows that passed the preceding terms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.casts import round_half_up
from lance_spark.expr.comparison import integer_as_decimal_type, to_double
from lance_spark.expr.literals import decimal_type
from lance_spark.expr.nodes import ArithmeticOp
from lance_spark.expr.temporal import shifted
from lance_spark.expr.values import (
    NUMBERS,
    Family,
    Operand,
    broadcast_shape,
    family_of,
    is_all_scalar,
    null_like,
    required_family,
    zero_of,
)

_SPARK_MAX_PRECISION = 38
_SPARK_MIN_SCALE = 6
"""The minimum scale of a result that needs more than 38 digits."""

_MOMENTS = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)

Combine = Callable[[Operand, Operand], Operand]


def combine(op: ArithmeticOp, left: Operand, right: Operand) -> Operand:
    """`left op right`; the operands are plain.

    Raises:
        InvalidInputError: an operand is not a number, nor a date or timestamp beside a duration; a result overflows, or
            a divisor is zero.
    """
    what = f"operator {op.value}"
    families = required_family(left, what), required_family(right, what)
    if families[1] is Family.DURATION and families[0] in _MOMENTS and op in (ArithmeticOp.ADD, ArithmeticOp.SUBTRACT):
        return shifted(left, right, back=op is ArithmeticOp.SUBTRACT)
    if families[0] is Family.DURATION and families[1] in _MOMENTS and op is ArithmeticOp.ADD:
        return shifted(right, left, back=False)
    if any(family not in (*NUMBERS, Family.NULL) for family in families):
        raise InvalidInputError(f"{what} is not defined for {left.type} and {right.type}")
    if Family.NULL in families:
        return null_like(broadcast_shape(left, right), pa.float64())
    if is_all_scalar(left, right):
        return combine(op, pa.repeat(left, 1), right)[0]
    try:
        return _rule(op, left, right)(left, right)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{what} fails: {error}") from error


def negate(operand: Operand) -> Operand:
    """`-operand`. Raises as `combine`."""
    zero = pa.scalar(0, pa.int64())
    if family_of(operand.type) is Family.FLOAT:
        # Not 0 - x: that would turn 0.0 into 0.0 instead of -0.0.
        return pc.negate(operand)
    return combine(ArithmeticOp.SUBTRACT, zero, operand)


def absolute(operand: Operand) -> Operand:
    """The absolute value.

    Raises:
        InvalidInputError: not a number, or the smallest 64-bit integer, whose absolute value overflows.
    """
    family = required_family(operand, "abs")
    if family not in (*NUMBERS, Family.NULL):
        raise InvalidInputError(f"abs is not defined for {operand.type}")
    wide = operand.cast(pa.int64()) if family is Family.INTEGER and operand.type != pa.uint64() else operand
    try:
        return wide if family is Family.NULL else pc.abs_checked(wide)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"abs fails: {error}") from error


def _rule(op: ArithmeticOp, left: Operand, right: Operand) -> Combine:
    families = {family_of(left.type), family_of(right.type)}
    if Family.FLOAT in families:
        return _DOUBLE_RULES[op]
    if families == {Family.INTEGER} and op is ArithmeticOp.DIVIDE:
        return _DOUBLE_RULES[op]
    if families == {Family.INTEGER} and pa.uint64() not in (left.type, right.type):
        return _INTEGER_RULES[op]
    return _DECIMAL_RULES[op]


def _refuse_zero(divisor: Operand, dividend: Operand) -> None:
    zero = pc.equal(divisor, zero_of(divisor.type))
    if pc.any(pc.and_(zero, pc.is_valid(dividend))).as_py():
        raise InvalidInputError("division by zero")


# Integers


def _integers(function: Combine) -> Combine:
    return lambda left, right: function(left.cast(pa.int64()), right.cast(pa.int64()))


def _integer_remainder(left: Operand, right: Operand) -> Operand:
    _refuse_zero(right, left)
    # x % -1 is 0 as x % 1 is, but the quotient of the smallest integer and -1 overflows.
    divisor = pc.if_else(pc.equal(right, -1), pa.scalar(1, pa.int64()), right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


_INTEGER_RULES: dict[ArithmeticOp, Combine] = {
    ArithmeticOp.ADD: _integers(pc.add_checked),
    ArithmeticOp.SUBTRACT: _integers(pc.subtract_checked),
    ArithmeticOp.MULTIPLY: _integers(pc.multiply_checked),
    ArithmeticOp.REMAINDER: _integers(_integer_remainder),
}


# Floating point


def _doubles(function: Combine) -> Combine:
    def rule(left: Operand, right: Operand) -> Operand:
        if pa.float32() == left.type == right.type:
            return function(left, right)
        return function(to_double(left), to_double(right))

    return rule


def _double_divide(left: Operand, right: Operand) -> Operand:
    _refuse_zero(right, left)
    return pc.divide(left, right)


def _double_remainder(left: Operand, right: Operand) -> Operand:
    _refuse_zero(right, left)
    rows = len(broadcast_shape(left, right))
    sides = [pa.repeat(side, rows) if isinstance(side, pa.Scalar) else side for side in (left, right)]
    valid = pc.and_(pc.is_valid(sides[0]), pc.is_valid(sides[1]))
    dividend, divisor = (side.fill_null(1.0).to_numpy(zero_copy_only=False) for side in sides)
    with np.errstate(invalid="ignore", divide="ignore"):
        # fmod: the remainder has the sign of the dividend, as in Java.
        remainder = pa.array(np.fmod(dividend, divisor))
    return pc.if_else(valid, remainder, pa.scalar(None, remainder.type))


_DOUBLE_RULES: dict[ArithmeticOp, Combine] = {
    ArithmeticOp.ADD: _doubles(pc.add),
    ArithmeticOp.SUBTRACT: _doubles(pc.subtract),
    ArithmeticOp.MULTIPLY: _doubles(pc.multiply),
    ArithmeticOp.DIVIDE: _doubles(_double_divide),
    ArithmeticOp.REMAINDER: _doubles(_double_remainder),
}


# Decimals


def _as_decimal(operand: Operand) -> Operand:
    if family_of(operand.type) is Family.DECIMAL:
        return operand
    if isinstance(operand, pa.Scalar):
        # A constant has exactly its own digits (DecimalType.fromLiteral in Spark).
        value = operand.as_py()
        return operand.cast(pa.decimal128(20, 0)).cast(pa.decimal128(len(str(abs(value or 0))), 0))
    # Spark gives a bigint 20 digits, not 19, and reads an unsigned 64-bit integer as decimal(20, 0).
    digits = 20 if operand.type.bit_width == 64 else integer_as_decimal_type(operand.type).precision
    return operand.cast(pa.decimal128(digits, 0))


def _decimals(function: Combine) -> Combine:
    def rule(left: Operand, right: Operand) -> Operand:
        return function(_widened(_as_decimal(left)), _widened(_as_decimal(right)))

    return rule


def _widened(operand: Operand) -> Operand:
    """Converts to 256 bits, enough for results of two 38-digit numbers."""
    return operand.cast(pa.decimal256(operand.type.precision, operand.type.scale))


def _bounded(values: pa.Array, precision: int, scale: int) -> pa.Array:
    """`values` rounded as Spark rounds a result of this precision and scale (DecimalType.adjustPrecisionScale)."""
    if precision > _SPARK_MAX_PRECISION:
        whole = precision - scale
        scale = max(_SPARK_MAX_PRECISION - whole, min(scale, _SPARK_MIN_SCALE))
        precision = _SPARK_MAX_PRECISION
    return round_half_up(values, scale).cast(decimal_type(precision, scale))


def _decimal_sum(function: Combine) -> Combine:
    def rule(left: Operand, right: Operand) -> Operand:
        scale = max(left.type.scale, right.type.scale)
        whole = max(left.type.precision - left.type.scale, right.type.precision - right.type.scale)
        return _bounded(function(left, right), whole + scale + 1, scale)

    return rule


def _decimal_multiply(left: Operand, right: Operand) -> Operand:
    product = pc.multiply_checked(left, right)
    return _bounded(product, left.type.precision + right.type.precision + 1, left.type.scale + right.type.scale)


def _decimal_divide(left: Operand, right: Operand) -> Operand:
    _refuse_zero(right, left)
    scale = max(_SPARK_MIN_SCALE, left.type.scale + right.type.precision + 1)
    precision = left.type.precision - left.type.scale + right.type.scale + scale
    # Arrow truncates the quotient; one extra digit is enough to round half up.
    return _bounded(_quotient(left, right, scale + 1), precision, scale)


def _quotient(left: Operand, right: Operand, scale: int) -> pa.Array:
    """left / right, truncated after at least `scale` digits behind the point."""
    more = max(scale - right.type.precision + right.type.scale - 1 - left.type.scale, 0)
    return pc.divide(left.cast(pa.decimal256(left.type.precision + more, left.type.scale + more)), right)


def _decimal_remainder(left: Operand, right: Operand) -> Operand:
    _refuse_zero(right, left)
    whole = pc.trunc(_quotient(left, right, 0))
    exact = whole.cast(pa.decimal256(whole.type.precision - whole.type.scale, 0))
    remainder = pc.subtract_checked(left, pc.multiply_checked(exact, right))
    scale = max(left.type.scale, right.type.scale)
    digits = min(left.type.precision - left.type.scale, right.type.precision - right.type.scale) + scale
    return remainder.cast(pa.decimal256(max(digits, 1), scale))


_DECIMAL_RULES: dict[ArithmeticOp, Combine] = {
    ArithmeticOp.ADD: _decimals(_decimal_sum(pc.add_checked)),
    ArithmeticOp.SUBTRACT: _decimals(_decimal_sum(pc.subtract_checked)),
    ArithmeticOp.MULTIPLY: _decimals(_decimal_multiply),
    ArithmeticOp.DIVIDE: _decimals(_decimal_divide),
    ArithmeticOp.REMAINDER: _decimals(_decimal_remainder),
}
