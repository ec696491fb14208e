"""Exact comparison of a column with a constant of any type.

The values of an integer, decimal or temporal column lie on a grid: integer multiples of a tick (1, 10**-scale, a
microsecond...). So every comparison with a constant becomes one with an integer number of ticks, without casts,
rounding or overflow: `x < 2.5` on integers is `x <= 2`, and `x < 10**30` is true for every value.

A `Threshold` holds the two tick counts that decide all six comparisons:

>>> threshold(pa.int32(), pa.scalar(2.5))           # x < 2.5 and x <= 2.5 are both x <= 2; x = 2.5 never holds
Threshold(below=2, upto=2)
>>> threshold(pa.int32(), pa.scalar(7))             # x < 7 is x <= 6, x <= 7 is x <= 7
Threshold(below=6, upto=7)

If the constant is a double, values are compared as doubles, as in Spark: 2**53 and 2**53 + 1 are the same double, so
both are equal to it.

>>> threshold(pa.int64(), pa.scalar(2.0**53)) == Threshold(below=2**53 - 1, upto=2**53 + 1)
True
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from lance_spark.expr.datetime_text import NANOS_PER_DAY, NANOS_PER_UNIT
from lance_spark.expr.literals import EXACT
from lance_spark.expr.values import Family, family_of

EXACT_FAMILIES = frozenset(
    {
        Family.INTEGER,
        Family.DECIMAL,
        Family.DATE,
        Family.TIMESTAMP,
        Family.TIMESTAMP_NTZ,
        Family.TIME,
        Family.DURATION,
    }
)
"""Families whose values lie on a grid."""

_BEYOND = 10**400
"""More ticks than any type has, for infinities."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a type: size of a tick (in ones, or nanoseconds for temporal types) and the range in ticks."""

    type: pa.DataType
    tick: Fraction
    lowest: int
    highest: int

    def value(self, ticks: int) -> int | decimal.Decimal:
        """The value of `ticks`, as Arrow takes it for the type: temporal types count ticks."""
        if family_of(self.type) is Family.DECIMAL:
            return EXACT.scaleb(decimal.Decimal(ticks), -self.type.scale)
        return ticks

    def scalar(self, ticks: int) -> pa.Scalar:
        """The value of `ticks`, as a scalar of the type."""
        return pa.scalar(self.value(ticks), self.type)

    def contains(self, ticks: int) -> bool:
        """Whether `ticks` is in the range of the type."""
        return self.lowest <= ticks <= self.highest


@dataclass(frozen=True, slots=True)
class Threshold:
    """`x < c` is `x <= below`, `x <= c` is `x <= upto`, `x = c` is `below < x <= upto`; in ticks of the column."""

    below: int
    upto: int


def grid_of(type_: pa.DataType) -> Grid:
    """The grid of a plain type of one of the exact families."""
    family = family_of(type_)
    if family is Family.INTEGER:
        bits = type_.bit_width
        signed = pa.types.is_signed_integer(type_)
        lowest, highest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return Grid(type_, Fraction(1), lowest, highest)
    if family is Family.DECIMAL:
        return Grid(type_, Fraction(10) ** -type_.scale, 1 - 10**type_.precision, 10**type_.precision - 1)
    nanos = NANOS_PER_DAY if family is Family.DATE else NANOS_PER_UNIT[type_.unit]
    bits = type_.bit_width
    return Grid(type_, Fraction(nanos), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def exact_value(scalar: pa.Scalar) -> Fraction:
    """The value of a scalar of an exact family, in ones or nanoseconds."""
    family = family_of(scalar.type)
    if family in (Family.INTEGER, Family.DECIMAL):
        return Fraction(scalar.as_py())
    return int(scalar.value) * grid_of(scalar.type).tick


def threshold(type_: pa.DataType, constant: pa.Scalar) -> Threshold:
    """Threshold that stands for a constant, neither null nor NaN, in comparisons with a column of `type_`."""
    tick = grid_of(type_).tick
    if family_of(constant.type) is Family.FLOAT:
        return _double_threshold(tick, constant.as_py())
    ticks = exact_value(constant) / tick
    upto = math.floor(ticks)
    return Threshold(upto - 1 if upto == ticks else upto, upto)


def _double_threshold(tick: Fraction, constant: float) -> Threshold:
    """The threshold of a double: the numbers that round to it lie between the midpoints to its neighbours.

    The midpoints belong to it if its mantissa is even (IEEE 754, round half to even).
    """
    if math.isinf(constant):
        return Threshold(_BEYOND, _BEYOND) if constant > 0 else Threshold(-_BEYOND, -_BEYOND)
    low = _midpoint(constant, -math.inf) / tick
    high = _midpoint(constant, math.inf) / tick
    mantissa = math.frexp(constant)[0] * 2**53
    if int(mantissa) % 2 == 0:
        return Threshold(math.ceil(low) - 1, math.floor(high))
    return Threshold(math.floor(low), math.ceil(high) - 1)


def _midpoint(constant: float, towards: float) -> Fraction:
    neighbour = math.nextafter(constant, towards)
    if math.isinf(neighbour):
        # Extrapolates the double after the largest.
        step = Fraction(constant) - Fraction(math.nextafter(constant, 0.0))
        return Fraction(constant) + step / 2
    return (Fraction(constant) + Fraction(neighbour)) / 2
