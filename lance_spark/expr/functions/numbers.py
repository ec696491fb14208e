"""Functions of numbers, and the greatest and least of several values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.arithmetic import absolute
from lance_spark.expr.casts import round_half_up
from lance_spark.expr.comparison import compare, same_type, to_double
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import FunctionBody, ScalarFunction, constant_number
from lance_spark.expr.nodes import ComparisonOp
from lance_spark.expr.values import NUMBERS, Family, Operand, family_of, null_like, required_family

_MOST_DIGITS = 300
"""The most digits that `round` takes for floating point numbers; the powers of 10 beyond are not doubles."""

_WIDEST_DECIMAL128, _WIDEST_DECIMAL256 = 38, 76
"""Digits of the largest decimals."""

_INT64_LIMIT = 2.0**63


def _absolute(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    return absolute(arguments[0])


def _of_double(function: Callable[[Operand], Operand]) -> FunctionBody:
    return lambda arguments, _time_zone: function(to_double(arguments[0]))


def _power(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    exponent = arguments[1]
    if not isinstance(exponent, pa.Scalar) or family_of(exponent.type) not in NUMBERS:
        raise InvalidInputError("power takes a constant number as exponent")
    power = to_double(exponent)
    if power.is_valid and not math.isfinite(power.as_py()):
        raise InvalidInputError("power takes a finite exponent")
    return pc.power(to_double(arguments[0]), power)


def _round(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    value, digits = arguments[0], constant_number("round", arguments[1]) if len(arguments) > 1 else 0
    if digits is None:
        return null_like(value, value.type)
    if family_of(value.type) is Family.DECIMAL:
        return _rounded_decimals(value, digits)
    if family_of(value.type) is Family.INTEGER and digits >= 0:
        return value
    if abs(digits) > _MOST_DIGITS or (family_of(value.type) is Family.INTEGER and digits < -18):
        raise InvalidInputError(f"round to {digits} digits is out of range for {value.type}")
    wide = value if family_of(value.type) is Family.FLOAT or value.type == pa.uint64() else value.cast(pa.int64())
    try:
        return pc.round(wide, ndigits=digits, round_mode="half_towards_infinity")
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"round fails: {error}") from error


def _rounded_decimals(value: Operand, digits: int) -> Operand:
    if digits < 0:
        raise InvalidInputError(f"round of {value.type} takes a number of digits >= 0, got {digits}")
    if digits >= value.type.scale:
        return value
    rounded = round_half_up(pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value, digits)
    narrow = rounded.cast(_decimal_type(rounded.type.precision, digits))
    return narrow[0] if isinstance(value, pa.Scalar) else narrow


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= _WIDEST_DECIMAL128 else pa.decimal256(precision, scale)


def _whole(function: Callable[[Operand], Operand]) -> FunctionBody:
    """`floor` or `ceil`."""

    def body(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
        value = arguments[0]
        if family_of(value.type) is Family.INTEGER:
            return value
        if family_of(value.type) is Family.DECIMAL:
            return _whole_decimals(function, value)
        return _whole_floats(function, value)

    return body


def _whole_floats(function: Callable[[Operand], Operand], value: Operand) -> Operand:
    """Rounds floats with `function`, to BIGINT, which is the result type of Spark; NaN becomes 0."""
    if isinstance(value, pa.Scalar):
        return _whole_floats(function, pa.repeat(value, 1))[0]
    whole = function(to_double(value))
    whole = pc.if_else(pc.is_nan(whole), 0.0, whole)
    fits = pc.and_(pc.greater_equal(whole, -_INT64_LIMIT), pc.less(whole, _INT64_LIMIT))
    if pc.all(fits).as_py() is False:
        raise InvalidInputError(f"floor or ceil of {whole.filter(pc.invert(fits))[0]} is out of range of BIGINT")
    return whole.cast(pa.int64())


def _whole_decimals(function: Callable[[Operand], Operand], value: Operand) -> Operand:
    """Rounds decimals with `function`, to scale 0 and one more digit before the point: the result type of Spark.

    In the type of `value` Arrow returns 0 for an overflow, with no error if other values follow.
    """
    precision, scale = value.type.precision, value.type.scale
    if scale <= 0:
        return value
    if precision == _WIDEST_DECIMAL256:
        raise InvalidInputError(f"floor and ceil of {value.type} need more than {precision} digits")
    whole = function(value.cast(pa.decimal256(precision + 1, scale)))
    return whole.cast(_decimal_type(precision - scale + 1, 0))


def _extreme(name: str, op: ComparisonOp) -> FunctionBody:
    """The greatest or least of the arguments that are not null; NaN is greater than all other numbers."""

    def body(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
        for argument in arguments:
            required_family(argument, name)

        def chosen(left: Operand, right: Operand) -> Operand:
            left, right = same_type(left, right)
            better = compare(op, left, right, time_zone)
            return pc.if_else(pc.coalesce(better, pc.is_null(right)), left, right)

        return functools.reduce(chosen, arguments)

    return body


NUMBER_FUNCTIONS: dict[FunctionName, ScalarFunction] = {
    FunctionName.ABS: ScalarFunction(NUMBERS, _absolute),
    FunctionName.SIGN: ScalarFunction(NUMBERS, _of_double(pc.sign)),
    FunctionName.ROUND: ScalarFunction(NUMBERS, _round),
    FunctionName.FLOOR: ScalarFunction(NUMBERS, _whole(pc.floor)),
    FunctionName.CEIL: ScalarFunction(NUMBERS, _whole(pc.ceil)),
    FunctionName.SQRT: ScalarFunction(NUMBERS, _of_double(pc.sqrt)),
    FunctionName.EXP: ScalarFunction(NUMBERS, _of_double(pc.exp)),
    FunctionName.POWER: ScalarFunction(NUMBERS, _power),
    FunctionName.GREATEST: ScalarFunction((), _extreme("greatest", ComparisonOp.GT), is_strict=False),
    FunctionName.LEAST: ScalarFunction((), _extreme("least", ComparisonOp.LT), is_strict=False),
}
