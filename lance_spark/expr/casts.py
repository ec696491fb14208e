"""CAST and TRY_CAST with Spark's ANSI meaning.

A conversion maps values it cannot convert to null; CAST turns these nulls into an error, TRY_CAST does not.
Conversions that Java and Arrow format differently (floating point to string, timestamp to string) are rejected rather
than slightly different.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import apply_threshold, integer_as_decimal_type
from lance_spark.expr.datetime_text import parse_date, parse_timestamp
from lance_spark.expr.grid import Threshold, grid_of
from lance_spark.expr.literals import EXACT
from lance_spark.expr.nodes import ComparisonOp, cast_type_name
from lance_spark.expr.temporal import date_to_timestamp, to_instants, to_local, to_unit
from lance_spark.expr.values import Family, Operand, family_of, null_like, zero_of

Conversion = Callable[[pa.Array, pa.DataType, str], pa.Array]

_INT64_LIMIT = 2.0**63


def cast(operand: Operand, type_: pa.DataType, *, is_try: bool, time_zone: str) -> Operand:
    """`operand` (plain) as values of `type_`.

    Raises:
        InvalidInputError: there is no such conversion, or (for CAST) a value cannot be represented in `type_`.
    """
    families = family_of(operand.type), family_of(type_)
    if families[0] is Family.NULL:
        return null_like(operand, type_)
    conversion = _CONVERSIONS.get(families)
    if conversion is None:
        raise InvalidInputError(f"CAST of {operand.type} to {cast_type_name(type_)} is not supported in a filter")
    if isinstance(operand, pa.Scalar):
        return cast(pa.repeat(operand, 1), type_, is_try=is_try, time_zone=time_zone)[0]
    converted = conversion(operand, type_, time_zone)
    if families == (Family.FLOAT, Family.DECIMAL):
        # Without an error, as in Spark.
        operand = _where(pc.is_finite(operand), operand)
    if not is_try and converted.null_count > operand.null_count:
        failed = pc.and_(pc.is_null(converted), pc.is_valid(operand))
        value = _shown(operand.filter(failed)[0])
        raise InvalidInputError(f"CAST of {value} to {cast_type_name(type_)} fails; TRY_CAST gives NULL there")
    return converted


def _shown(scalar: pa.Scalar) -> str:
    # Python's dates and timestamps do not cover Arrow's range.
    return f"{scalar.value} ({scalar.type})" if pa.types.is_temporal(scalar.type) else repr(scalar.as_py())


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """`values` where the condition is true, null elsewhere."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _in_range(values: pa.Array, low: int, high: int) -> pa.Array:
    """Whether low <= value <= high, in ticks of the values' grid."""
    above = apply_threshold(ComparisonOp.GT, values, Threshold(low - 1, low - 1))
    return pc.and_(above, apply_threshold(ComparisonOp.LE, values, Threshold(high, high)))


def _same(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    return values.cast(type_)


def _integer_to_integer(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    grid = grid_of(type_)
    return _where(_in_range(values, grid.lowest, grid.highest), values).cast(type_)


def _float_to_integer(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    limit = 2.0 ** (type_.bit_width - 1)
    whole = pc.trunc(values.cast(pa.float64()))
    integers = _where(pc.and_(pc.greater_equal(whole, -limit), pc.less(whole, limit)), whole).cast(type_)
    if limit < _INT64_LIMIT:
        return integers
    # Spark compares with the largest BIGINT as a double, which is one more.
    return pc.if_else(pc.equal(whole, limit), pa.scalar(2**63 - 1, type_), integers)


def _decimal_to_integer(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    grid, one = grid_of(type_), 10**values.type.scale
    if values.type.precision == values.type.scale:
        # Arrow does not truncate decimals that have no digits before the point.
        return pc.if_else(values.is_valid(), pa.scalar(0, type_), pa.scalar(None, type_))
    whole = pc.trunc(values)
    return _where(_in_range(whole, grid.lowest * one, grid.highest * one), whole).cast(type_)


def _boolean_to_number(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    bits = values.cast(pa.int8())
    return _integer_to_decimal(bits, type_, zone) if pa.types.is_decimal(type_) else bits.cast(type_)


def _number_to_boolean(values: pa.Array, _type: pa.DataType, _zone: str) -> pa.Array:
    return pc.not_equal(values, zero_of(values.type))


def _number_to_float(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    return values.cast(type_, safe=False)


def _decimal_to_float(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    # By way of doubles: Arrow's own way to floats is off in the last digit.
    return values.cast(pa.float64()).cast(type_, safe=False)


def _decimal_to_string(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    # Arrow writes small numbers with an exponent.
    distinct = values.dictionary_encode()
    texts = [None if number is None else f"{number:f}" for number in distinct.dictionary.to_pylist()]
    return pa.array(texts, type_).take(distinct.indices)


def _float_to_decimal(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    """Rounds the shortest text of a number, as Spark does: 1.005 to 1.01. Before Java 19 its texts can be longer."""
    return _string_to_decimal(values.cast(pa.float64()).cast(pa.string()), type_, zone)


def _integer_to_decimal(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    return _decimal_to_decimal(values.cast(integer_as_decimal_type(values.type)), type_, zone)


def _decimal_to_decimal(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    rounded = round_half_up(values, type_.scale)
    limit = 10**type_.precision - 1
    return _where(_in_range(rounded, -limit, limit), rounded).cast(type_)


def round_half_up(values: pa.Array, scale: int) -> pa.Array:
    """Rounds to decimals of `scale`, halves away from zero; wide enough not to overflow."""
    whole = values.type.precision - values.type.scale + 1
    if whole + max(scale, values.type.scale) > 76:
        raise InvalidInputError(f"{values.type} with {scale} digits after the point needs more than 76 digits")
    wide = values.cast(pa.decimal256(whole + max(scale, values.type.scale), max(scale, values.type.scale)))
    rounded = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    return rounded.cast(pa.decimal256(whole + scale, scale))


def _trimmed(values: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(values)


def _string_to_integer(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    text = _trimmed(values)
    digits = _where(pc.match_substring_regex(text, r"^[+-]?\d{1,60}$"), text).cast(pa.decimal256(76, 0))
    return _decimal_to_integer(digits, type_, zone)


_FLOAT_TEXT = r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[df]?$"


def _string_to_float(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    text = pc.utf8_lower(_trimmed(values))
    number = pc.replace_substring_regex(text, r"[df]$", "")
    special = pc.match_substring_regex(text, r"^([+-]?inf(inity)?|nan)$")
    return pc.coalesce(
        _where(pc.match_substring_regex(text, _FLOAT_TEXT), number).cast(type_),
        _where(special, text).cast(type_),
    )


_DECIMAL_TEXT = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?$"
_SHORT_DECIMAL_TEXT = r"^[+-]?(\d{1,37}(\.\d{0,38})?|\.\d{1,38})$"

_JAVA_INTEGERS = range(-(2**31), 2**31)


def _string_to_decimal(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    text = _trimmed(values)
    is_short = pc.match_substring_regex(text, _SHORT_DECIMAL_TEXT)
    converted = _decimal_to_decimal(_where(is_short, text).cast(pa.decimal256(75, 38)), type_, zone)
    is_long = pc.and_not(pc.match_substring_regex(text, _DECIMAL_TEXT), is_short)
    if not pc.any(is_long).as_py():
        return converted
    # Exponents, and more digits than Arrow converts.
    distinct = _where(is_long, text).dictionary_encode()
    parsed = [_long_text_to_decimal(each, type_) for each in distinct.dictionary.to_pylist()]
    return pc.coalesce(converted, pa.array(parsed, type_).take(distinct.indices))


def _long_text_to_decimal(text: str, type_: pa.DataType) -> decimal.Decimal | None:
    """The number, rounded; None where Java's BigDecimal or Spark's 38 digits before the point end."""
    number = decimal.Decimal(text)
    exponent = number.as_tuple().exponent
    if exponent not in _JAVA_INTEGERS or (number and number.adjusted() >= 38):
        return None
    rounded = number.quantize(decimal.Decimal(1).scaleb(-type_.scale), context=EXACT)
    return rounded if not rounded or rounded.adjusted() < type_.precision - type_.scale else None


_TRUE_WORDS, _FALSE_WORDS = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]


def _string_to_boolean(values: pa.Array, _type: pa.DataType, _zone: str) -> pa.Array:
    text = pc.utf8_lower(_trimmed(values))
    true = pc.is_in(text, value_set=pa.array(_TRUE_WORDS, text.type))
    return _where(pc.or_(true, pc.is_in(text, value_set=pa.array(_FALSE_WORDS, text.type))), true)


def _text_to_date(text: str, _zone: str) -> int | None:
    days = parse_date(text)
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _text_to_micros(text: str, time_zone: str) -> int | None:
    parsed = parse_timestamp(text, time_zone)
    return None if parsed is None else _int64_or_none(parsed.nanos // 1000)


def _text_to_local_micros(text: str, _zone: str) -> int | None:
    parsed = parse_timestamp(text, "UTC")
    return None if parsed is None else _int64_or_none(parsed.local_nanos // 1000)


def _int64_or_none(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None


def _from_text(parse: Callable[[str, str], int | None]) -> Conversion:
    def conversion(values: pa.Array, type_: pa.DataType, time_zone: str) -> pa.Array:
        # Constants and columns use the same parser; a column's texts are parsed once per distinct value.
        distinct = values.dictionary_encode()
        parsed = [parse(text, time_zone) for text in distinct.dictionary.to_pylist()]
        return pa.array(parsed, type_).take(distinct.indices)

    return conversion


def _date_to_local(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    return to_unit(date_to_timestamp(values), type_)


def _date_to_instant(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    return to_unit(to_instants(date_to_timestamp(values), zone), type_)


def _local_to_instant(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    return to_unit(to_instants(values, zone), type_)


def _instant_to_local(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    return to_unit(to_local(values, zone), type_)


def _local_to_date(values: pa.Array, _type: pa.DataType, _zone: str) -> pa.Array:
    return pc.floor_temporal(values, unit="day").cast(pa.date32())


def _instant_to_date(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    return _local_to_date(to_local(values, zone), type_, zone)


def _unit_to_unit(values: pa.Array, type_: pa.DataType, _zone: str) -> pa.Array:
    return to_unit(values, type_)


def _instant_to_integer(values: pa.Array, type_: pa.DataType, zone: str) -> pa.Array:
    seconds = to_unit(values, pa.timestamp("s", "UTC")).cast(pa.int64())
    return _integer_to_integer(seconds, type_, zone)


_CONVERSIONS: dict[tuple[Family | None, Family | None], Conversion] = {
    (Family.BOOLEAN, Family.BOOLEAN): _same,
    (Family.BOOLEAN, Family.INTEGER): _boolean_to_number,
    (Family.BOOLEAN, Family.FLOAT): _boolean_to_number,
    (Family.BOOLEAN, Family.DECIMAL): _boolean_to_number,
    (Family.BOOLEAN, Family.STRING): _same,
    (Family.INTEGER, Family.BOOLEAN): _number_to_boolean,
    (Family.INTEGER, Family.INTEGER): _integer_to_integer,
    (Family.INTEGER, Family.FLOAT): _number_to_float,
    (Family.INTEGER, Family.DECIMAL): _integer_to_decimal,
    (Family.INTEGER, Family.STRING): _same,
    (Family.FLOAT, Family.BOOLEAN): _number_to_boolean,
    (Family.FLOAT, Family.INTEGER): _float_to_integer,
    (Family.FLOAT, Family.FLOAT): _number_to_float,
    (Family.FLOAT, Family.DECIMAL): _float_to_decimal,
    (Family.DECIMAL, Family.BOOLEAN): _number_to_boolean,
    (Family.DECIMAL, Family.INTEGER): _decimal_to_integer,
    (Family.DECIMAL, Family.FLOAT): _decimal_to_float,
    (Family.DECIMAL, Family.DECIMAL): _decimal_to_decimal,
    (Family.DECIMAL, Family.STRING): _decimal_to_string,
    (Family.STRING, Family.BOOLEAN): _string_to_boolean,
    (Family.STRING, Family.INTEGER): _string_to_integer,
    (Family.STRING, Family.FLOAT): _string_to_float,
    (Family.STRING, Family.DECIMAL): _string_to_decimal,
    (Family.STRING, Family.STRING): _same,
    (Family.STRING, Family.BINARY): _same,
    (Family.STRING, Family.DATE): _from_text(_text_to_date),
    (Family.STRING, Family.TIMESTAMP): _from_text(_text_to_micros),
    (Family.STRING, Family.TIMESTAMP_NTZ): _from_text(_text_to_local_micros),
    (Family.BINARY, Family.BINARY): _same,
    (Family.DATE, Family.STRING): _same,
    (Family.DATE, Family.DATE): _same,
    (Family.DATE, Family.TIMESTAMP): _date_to_instant,
    (Family.DATE, Family.TIMESTAMP_NTZ): _date_to_local,
    (Family.TIMESTAMP, Family.DATE): _instant_to_date,
    (Family.TIMESTAMP, Family.INTEGER): _instant_to_integer,
    (Family.TIMESTAMP, Family.TIMESTAMP): _unit_to_unit,
    (Family.TIMESTAMP, Family.TIMESTAMP_NTZ): _instant_to_local,
    (Family.TIMESTAMP_NTZ, Family.DATE): _local_to_date,
    (Family.TIMESTAMP_NTZ, Family.TIMESTAMP): _local_to_instant,
    (Family.TIMESTAMP_NTZ, Family.TIMESTAMP_NTZ): _unit_to_unit,
}
