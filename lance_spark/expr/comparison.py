"""Comparison of two operands with Spark's semantics.

- Exact numbers, dates, timestamps, times and durations compare by value, across widths, signs, scales and units.
- If one side is floating point both sides compare as doubles; NaN equals NaN and is greater than every other value;
  -0.0 equals 0.0.
- A string constant compared with a date, timestamp or time is parsed as one; a date compared with a timestamp is its
  midnight; a timestamp without a zone compared with one with a zone is in the session's zone.
- Other operands of different families are an error, not a cast.

The result is null where an operand is null (except for `<=>`).
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_UNIT, parse_date, parse_time, parse_timestamp
from lance_spark.expr.grid import EXACT_FAMILIES, Threshold, exact_value, grid_of, threshold
from lance_spark.expr.literals import MAX_DECIMAL_DIGITS, decimal_type, time_literal, timestamp_literal
from lance_spark.expr.nodes import ComparisonOp
from lance_spark.expr.temporal import date_to_timestamp, to_instants
from lance_spark.expr.values import (
    NUMBERS,
    Family,
    Operand,
    broadcast_shape,
    family_of,
    is_all_scalar,
    null_like,
    required_family,
)

EQ, NE, LT, LE, GT, GE = (
    ComparisonOp.EQ,
    ComparisonOp.NE,
    ComparisonOp.LT,
    ComparisonOp.LE,
    ComparisonOp.GT,
    ComparisonOp.GE,
)
_BOOL = pa.bool_()


def compare(op: ComparisonOp, left: Operand, right: Operand, time_zone: str) -> Operand:
    """Truth values of `left op right`; the operands are plain.

    Raises:
        InvalidInputError: the types cannot be compared.
    """
    if isinstance(left, pa.Array) and left.type.id in _DIRECT and left.type == right.type and op in _ARROW_OPS:
        return _ARROW_OPS[op](left, right)
    if op is ComparisonOp.NULL_SAFE_EQ:
        equal = compare(EQ, left, right, time_zone)
        return pc.coalesce(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    left, right = align(left, right, time_zone)
    families = required_family(left, f"operator {op.value}"), required_family(right, f"operator {op.value}")
    if Family.NULL in families:
        return null_like(broadcast_shape(left, right), _BOOL)
    if set(families) == _EXACT_NUMBERS or (families[0] is families[1] and families[0] in EXACT_FAMILIES):
        return _compare_exact(op, left, right)
    if families[0] in NUMBERS and families[1] in NUMBERS:
        return _compare_floating(op, left, right)
    if families[0] is families[1]:
        return _compare_direct(op, left, right)
    raise InvalidInputError(f"cannot compare {left.type} with {right.type}; CAST one of them")


_DIRECT = {dtype.id for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.large_string())}
"""Types of which Arrow compares values as they are meant here."""

_EXACT_NUMBERS = {Family.INTEGER, Family.DECIMAL}


def align(left: Operand, right: Operand, time_zone: str) -> tuple[Operand, Operand]:
    """Converts text to the date or time type of the other operand, and dates and local timestamps to its type."""
    left, right = _as_kind_of(right, left, time_zone), _as_kind_of(left, right, time_zone)
    families = {family_of(left.type), family_of(right.type)}
    if Family.DATE in families and families & {Family.TIMESTAMP, Family.TIMESTAMP_NTZ}:
        left, right = _from_date(left), _from_date(right)
        families = {family_of(left.type), family_of(right.type)}
    if families == {Family.TIMESTAMP, Family.TIMESTAMP_NTZ}:
        return _to_instants(left, time_zone), _to_instants(right, time_zone)
    return left, right


def _as_kind_of(other: Operand, operand: Operand, time_zone: str) -> Operand:
    """A text constant as a date or time if `other` is one; any other operand unchanged."""
    family = family_of(other.type)
    if family in _TEXT_READERS and isinstance(operand, pa.Scalar) and family_of(operand.type) is Family.STRING:
        return _read_text(operand, family, time_zone)
    return operand


def _read_text(scalar: pa.Scalar, family: Family, time_zone: str) -> pa.Scalar:
    if not scalar.is_valid:
        return pa.scalar(None)
    value = _TEXT_READERS[family](scalar.as_py(), time_zone)
    if value is None:
        raise InvalidInputError(f"{scalar.as_py()!r} is no {family.value}")
    return value


def _read_date(text: str, _time_zone: str) -> pa.Scalar | None:
    days = parse_date(text)
    return None if days is None or not -(2**31) <= days < 2**31 else pa.scalar(days, pa.date32())


def _read_timestamp(text: str, time_zone: str) -> pa.Scalar | None:
    parsed = parse_timestamp(text, time_zone)
    return None if parsed is None else timestamp_literal(parsed.nanos, has_zone=True).scalar()


def _read_timestamp_ntz(text: str, _time_zone: str) -> pa.Scalar | None:
    parsed = parse_timestamp(text, "UTC")
    return None if parsed is None else timestamp_literal(parsed.local_nanos, has_zone=False).scalar()


def _read_time(text: str, _time_zone: str) -> pa.Scalar | None:
    nanos = parse_time(text)
    return None if nanos is None else time_literal(nanos).scalar()


_TEXT_READERS: dict[Family, Callable[[str, str], pa.Scalar | None]] = {
    Family.DATE: _read_date,
    Family.TIMESTAMP: _read_timestamp,
    Family.TIMESTAMP_NTZ: _read_timestamp_ntz,
    Family.TIME: _read_time,
}


def _from_date(operand: Operand) -> Operand:
    return date_to_timestamp(operand) if family_of(operand.type) is Family.DATE else operand


def _to_instants(operand: Operand, time_zone: str) -> Operand:
    return to_instants(operand, time_zone) if operand.type.tz is None else operand


_PYTHON_OPS: dict[ComparisonOp, Callable[[Fraction, Fraction], bool]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}
_ARROW_OPS: dict[ComparisonOp, Callable[[Operand, Operand], Operand]] = {
    EQ: pc.equal,
    NE: pc.not_equal,
    LT: pc.less,
    LE: pc.less_equal,
    GT: pc.greater,
    GE: pc.greater_equal,
}


def _compare_direct(op: ComparisonOp, left: Operand, right: Operand) -> Operand:
    """Booleans (false < true), and strings and binaries by their bytes."""
    if left.type != right.type:
        wide = pa.large_string() if family_of(left.type) is Family.STRING else pa.large_binary()
        left, right = left.cast(wide), right.cast(wide)
    return _ARROW_OPS[op](left, right)


def _compare_exact(op: ComparisonOp, left: Operand, right: Operand) -> Operand:
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        if not (left.is_valid and right.is_valid):
            return pa.scalar(None, _BOOL)
        return pa.scalar(_PYTHON_OPS[op](exact_value(left), exact_value(right)), _BOOL)
    if isinstance(left, pa.Scalar):
        return _compare_exact(op.mirrored, right, left)
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return null_like(left, _BOOL)
        if left.type == right.type:
            return _ARROW_OPS[op](left, right)
        return apply_threshold(op, left, threshold(left.type, right))
    return _ARROW_OPS[op](*_common_exact(left, right))


def apply_threshold(op: ComparisonOp, values: pa.Array, limits: Threshold) -> pa.Array:
    """Truth of `values op constant`, where `limits` is the constant's threshold on the values' grid."""
    if op is LT or op is GE:
        return _upto(values, limits.below, negated=op is GE)
    if op is LE or op is GT:
        return _upto(values, limits.upto, negated=op is GT)
    grid = grid_of(values.type)
    if limits.upto - limits.below == 1 and grid.contains(limits.upto):
        return _ARROW_OPS[op](values, grid.scalar(limits.upto))
    equal = pc.and_(_upto(values, limits.below, negated=True), _upto(values, limits.upto, negated=False))
    return equal if op is EQ else pc.invert(equal)


def _upto(values: pa.Array, ticks: int, *, negated: bool) -> pa.Array:
    """`values <= ticks`, or its negation; constant if the limit is outside the type's range."""
    grid = grid_of(values.type)
    if grid.contains(ticks):
        return _ARROW_OPS[GT if negated else LE](values, grid.scalar(ticks))
    return constant_where_valid(values, (ticks > grid.highest) != negated)


def constant_where_valid(values: pa.Array, truth: bool) -> pa.Array:
    """`truth` for each value, null for each null."""
    constant = pa.repeat(pa.scalar(truth), len(values))
    return pc.if_else(pc.is_valid(values), constant, pa.scalar(None, _BOOL)) if values.null_count else constant


def _common_exact(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two columns of exact types as two columns of one type, by value."""
    if left.type == right.type:
        return left, right
    if family_of(left.type) not in _EXACT_NUMBERS:
        return _in_finest_unit(left, right)
    common = _common_number(left.type, right.type)
    return left.cast(common), right.cast(common)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type that holds all values of two integer or decimal types."""
    if pa.types.is_integer(left) and pa.types.is_integer(right) and pa.uint64() not in (left, right):
        return pa.int64()
    types = [integer_as_decimal_type(type_) if pa.types.is_integer(type_) else type_ for type_ in (left, right)]
    whole = max(type_.precision - type_.scale for type_ in types)
    scale = max(type_.scale for type_ in types)
    if whole + scale > MAX_DECIMAL_DIGITS:
        raise InvalidInputError(f"{left} and {right} together need more than {MAX_DECIMAL_DIGITS} digits")
    return decimal_type(whole + scale, scale)


def integer_as_decimal_type(type_: pa.DataType) -> pa.DataType:
    """The decimal type that holds all integers of `type_`."""
    return pa.decimal128(len(str(grid_of(type_).highest)), 0)


def _in_finest_unit(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Timestamps, times or durations of two units as decimals of the finer one: 64 bits could overflow."""
    nanos = [NANOS_PER_UNIT[side.type.unit] for side in (left, right)]
    factors = [decimal.Decimal(unit // min(nanos)) for unit in nanos]
    sides = [
        pc.multiply(_ticks(side).cast(pa.decimal128(19, 0)), pa.scalar(factor, pa.decimal128(10, 0)))
        for side, factor in zip((left, right), factors, strict=True)
    ]
    return sides[0], sides[1]


def _ticks(values: pa.Array) -> pa.Array:
    return values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32()).cast(pa.int64())


def _compare_floating(op: ComparisonOp, left: Operand, right: Operand) -> Operand:
    if is_all_scalar(left, right):
        return _compare_floating(op, pa.repeat(left, 1), right)[0]
    if isinstance(left, pa.Scalar):
        return _compare_floating(op.mirrored, right, left)
    if isinstance(right, pa.Scalar) and not right.is_valid:
        return null_like(left, _BOOL)
    if isinstance(right, pa.Scalar) and family_of(left.type) is not Family.FLOAT and not math.isnan(right.as_py()):
        return apply_threshold(op, left, threshold(left.type, right))
    return _compare_doubles(op, to_double(left), to_double(right))


def to_double(operand: Operand) -> Operand:
    """Numbers as doubles, rounded to nearest."""
    if isinstance(operand, pa.Scalar):
        return operand if pa.types.is_float64(operand.type) else pa.scalar(scalar_as_double(operand), pa.float64())
    return operand.cast(pa.float64(), safe=False)


def scalar_as_double(scalar: pa.Scalar) -> float | None:
    """A number as the nearest double; an infinity if it is too large."""
    value = scalar.as_py()
    try:
        return None if value is None else float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _compare_doubles(op: ComparisonOp, left: pa.Array, right: Operand) -> pa.Array:
    """IEEE comparisons, which are false for NaN, adjusted to Spark's total order, in which it is the largest number."""
    if isinstance(right, pa.Scalar) and right.is_valid and not math.isnan(right.as_py()):
        compare = pc.less if op in (LT, GE) else pc.less_equal if op in (LE, GT) else pc.equal
        result = compare(left, right)
        return result if op in (LT, LE, EQ) else pc.invert(result)
    if op is GT or op is LE:
        less = _less(right, left)
        return less if op is GT else pc.invert(less)
    if op is LT or op is GE:
        less = _less(left, right)
        return less if op is LT else pc.invert(less)
    both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
    equal = pc.or_(pc.equal(left, right), both_nan)
    return equal if op is EQ else pc.invert(equal)


def _less(left: Operand, right: Operand) -> Operand:
    nan_is_greater = pc.and_not(pc.is_nan(right), pc.is_nan(left))
    return pc.or_(pc.less(left, right), nan_is_greater)


def same_type(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """Two operands (plain) converted to their common type.

    Raises:
        InvalidInputError: there is none.
    """
    families = family_of(left.type), family_of(right.type)
    if left.type == right.type:
        return left, right
    if families[0] is Family.NULL:
        return null_like(left, right.type), right
    if families[1] is Family.NULL:
        return left, null_like(right, left.type)
    if Family.FLOAT in families and families[0] in NUMBERS and families[1] in NUMBERS:
        return to_double(left), to_double(right)
    if set(families) <= _EXACT_NUMBERS:
        type_ = _common_number(left.type, right.type)
        return left.cast(type_), right.cast(type_)
    if families[0] is families[1] and families[0] in (Family.STRING, Family.BINARY):
        wide = pa.large_string() if families[0] is Family.STRING else pa.large_binary()
        return left.cast(wide), right.cast(wide)
    raise InvalidInputError(f"{left.type} and {right.type} have no common type; CAST one of them")
