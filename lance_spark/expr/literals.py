"""Literals of a filter: a value and its Arrow type, from a small closed set of types.

Integers are `int64` (beyond that `decimal`), because comparisons are exact for any width; dates, timestamps, times of
day and durations are integers in the unit of their type, so that nanoseconds and distant years are representable;
timestamps with a zone are instants in UTC.

>>> literal(5), literal(5).to_sql(), literal("it's").to_sql()
(Literal(value=5, type=DataType(int64)), '5', "'it\\\\'s'")
>>> literal(datetime.date(2024, 1, 1)).to_sql()
"DATE '2024-01-01'"
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import uuid
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_UNIT, format_date, format_time, format_timestamp
from lance_spark.expr.nodes import Expr, quote_string
from lance_spark.text import check_text

LiteralValue = bool | int | float | decimal.Decimal | str | bytes | None

EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)
"""Decimal arithmetic that is exact for numbers of up to two times 76 digits."""

MAX_DECIMAL_DIGITS = 76
"""Digits of Arrow's widest decimal type."""

_EPOCH = datetime.datetime(1970, 1, 1)
_UTC = datetime.timezone.utc


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expr):
    """A constant. Create one with `literal`, which chooses the type.

    `value` is None, or depends on `type`: bool, int (int64; count of units for temporal types), float, Decimal with
    exactly `type.scale` digits after the point, str, bytes.
    """

    is_constant: ClassVar[bool] = True

    value: LiteralValue
    type: pa.DataType

    def _key(self) -> tuple[str, str]:
        # repr distinguishes NaN from numbers, -0.0 from 0.0, 1.50 from 1.5 and True from 1.
        return str(self.type), repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def is_term(self) -> bool:
        return not self.to_sql().startswith("-")

    def to_sql(self) -> str:
        return "NULL" if self.value is None else _sql_text(self)

    def scalar(self) -> pa.Scalar:
        """The constant as an Arrow scalar of `type`."""
        data = _buffers(self.value, self.type)
        if data is None:
            return pa.scalar(self.value, self.type)
        # `pa.scalar` imports pandas, where that is installed.
        return pa.Array.from_buffers(self.type, 1, [None, *data])[0]


def _buffers(value: LiteralValue, dtype: pa.DataType) -> list[pa.Buffer] | None:
    """Buffers of an array with one value; None for types that are less common."""
    if isinstance(value, str) and pa.types.is_string(dtype):
        data = value.encode()
        return [pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    if isinstance(value, int) and (pa.types.is_int64(dtype) or pa.types.is_timestamp(dtype)):
        return [pa.py_buffer(np.array([value], np.int64))]
    if isinstance(value, float) and pa.types.is_float64(dtype):
        return [pa.py_buffer(np.array([value]))]
    return None


NULL = Literal(None, pa.null())
TRUE = Literal(True, pa.bool_())
FALSE = Literal(False, pa.bool_())


@functools.singledispatch
def literal(value: object) -> Literal:
    """The literal for a Python value, a numpy scalar or an Arrow scalar.

    Raises:
        InvalidInputError: the type of the value is not supported in filters.
    """
    if value is None:
        return NULL
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        return literal(value.item())
    raise InvalidInputError(f"a filter cannot hold a value of type {type(value).__name__}: {value!r}")


@literal.register
def _(value: bool) -> Literal:
    return TRUE if value else FALSE


@literal.register
def _(value: int) -> Literal:
    if -(2**63) <= value < 2**63:
        return Literal(int(value), pa.int64())
    return decimal_literal(decimal.Decimal(value))


@literal.register
def _(value: float) -> Literal:
    return Literal(float(value), pa.float64())


@literal.register
def decimal_literal(value: decimal.Decimal) -> Literal:
    """The literal of a decimal number; its type has exactly the digits of the number."""
    if not value.is_finite():
        raise InvalidInputError(f"a filter cannot hold the decimal {value}; write it as a double")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # finite
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > MAX_DECIMAL_DIGITS:
        raise InvalidInputError(
            f"decimal {value} needs {precision} digits, a filter holds at most {MAX_DECIMAL_DIGITS}"
        )
    exact = value.quantize(decimal.Decimal(1).scaleb(-scale), context=EXACT)
    return Literal(abs(exact) if exact.is_zero() else exact, decimal_type(precision, scale))


@literal.register
def _(value: str) -> Literal:
    return Literal(check_text(str(value), "a text constant of a filter"), pa.string())


@literal.register(bytes)
@literal.register(bytearray)
def _(value: bytes | bytearray) -> Literal:
    return Literal(bytes(value), pa.binary())


@literal.register
def _(value: uuid.UUID) -> Literal:
    return Literal(value.bytes, pa.binary())


@literal.register
def _(value: datetime.date) -> Literal:
    return Literal((value - _EPOCH.date()).days, pa.date32())


@literal.register
def _(value: datetime.datetime) -> Literal:
    if value != value:
        return NULL  # NaT of pandas
    if value.utcoffset() is None:
        return timestamp_literal(_nanos(value.replace(tzinfo=None) - _EPOCH), has_zone=False)
    return timestamp_literal(_nanos(value - _EPOCH.replace(tzinfo=_UTC)), has_zone=True)


@literal.register
def _(value: datetime.time) -> Literal:
    if value.tzinfo is not None:
        raise InvalidInputError(f"a filter cannot hold a time of day with a zone: {value!r}")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return Literal(seconds * 10**6 + value.microsecond, pa.time64("us"))


@literal.register
def _(value: datetime.timedelta) -> Literal:
    return duration_literal(_nanos(value))


@literal.register
def _(value: pa.Scalar) -> Literal:
    if isinstance(value, (pa.DictionaryScalar, pa.ExtensionScalar, pa.RunEndEncodedScalar)):
        return literal(value.as_py() if isinstance(value, pa.RunEndEncodedScalar) else value.value)
    if not value.is_valid:
        return NULL
    type_ = value.type
    if pa.types.is_float16(type_) or pa.types.is_float32(type_):
        return Literal(float(value.as_py()), pa.float32())
    if pa.types.is_date(type_):
        return Literal(value.value // (1 if pa.types.is_date32(type_) else 86_400_000), pa.date32())
    if pa.types.is_timestamp(type_):
        return timestamp_literal(value.value * NANOS_PER_UNIT[type_.unit], has_zone=type_.tz is not None)
    if pa.types.is_time(type_):
        return time_literal(value.value * NANOS_PER_UNIT[type_.unit])
    if pa.types.is_duration(type_):
        return duration_literal(value.value * NANOS_PER_UNIT[type_.unit])
    if pa.types.is_nested(type_) or pa.types.is_interval(type_):
        raise InvalidInputError(f"a filter cannot hold a value of type {type_}: {value.as_py()!r}")
    return literal(value.as_py())


def timestamp_literal(nanos: int, *, has_zone: bool) -> Literal:
    """A timestamp in microseconds, or in nanoseconds if needed."""
    value, unit = _smallest_unit(nanos, "timestamp")
    return Literal(value, pa.timestamp(unit, "UTC" if has_zone else None))


def time_literal(nanos: int) -> Literal:
    """A time of day in microseconds, or in nanoseconds if needed."""
    value, unit = _smallest_unit(nanos, "time of day")
    return Literal(value, pa.time64(unit))


def duration_literal(nanos: int) -> Literal:
    """A duration in microseconds, or in nanoseconds if needed."""
    value, unit = _smallest_unit(nanos, "duration")
    return Literal(value, pa.duration(unit))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The narrowest of Arrow's 128 and 256 bit decimals."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _smallest_unit(nanos: int, what: str) -> tuple[int, str]:
    value, unit = (nanos, "ns") if nanos % 1000 else (nanos // 1000, "us")
    if not -(2**63) <= value < 2**63:
        raise InvalidInputError(f"a {what} of {nanos} ns since the epoch is beyond the range of 64 bits")
    return value, unit


def _nanos(delta: datetime.timedelta) -> int:
    micros = (delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds
    # Those of pandas are subclasses with nanoseconds.
    return micros * 1000 + int(getattr(delta, "nanoseconds", 0))


def _sql_text(node: Literal) -> str:
    """SQL text of a literal that is not NULL; it parses to a literal of the same type."""
    value, type_ = node.value, node.type
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return _float_text(value, is_float32=type_ == pa.float32())
    if isinstance(value, decimal.Decimal):
        return f"{value:f}" if type_.scale and "." in f"{value:f}" else f"{value:f}BD"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, int):
        return _integer_text(value, type_)
    assert isinstance(value, str)
    return quote_string(value)


def _integer_text(value: int, type_: pa.DataType) -> str:
    if pa.types.is_date(type_):
        return f"DATE '{format_date(value)}'"
    if pa.types.is_timestamp(type_):
        word, zone = ("TIMESTAMP", "Z") if type_.tz else ("TIMESTAMP_NTZ", "")
        return f"{word} '{format_timestamp(value, type_.unit)}{zone}'"
    if pa.types.is_time(type_):
        return f"TIME '{format_time(value, type_.unit)}'"
    if pa.types.is_duration(type_):
        digits = 9 if type_.unit == "ns" else 6
        seconds = EXACT.scaleb(decimal.Decimal(value), -digits)
        return f"INTERVAL '{seconds:f}' SECOND"
    return str(value)


def _float_text(value: float, *, is_float32: bool) -> str:
    name, suffix = ("FLOAT", "F") if is_float32 else ("DOUBLE", "D")
    if math.isfinite(value):
        return f"{value!r}{suffix}"
    return f"{name}('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}')"
