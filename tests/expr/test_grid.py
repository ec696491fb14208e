"""Exact comparison with constants, against arithmetic on Python's integers, fractions and doubles."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_spark.expr.comparison import compare
from lance_spark.expr.grid import threshold
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import ComparisonOp

OPS = {
    ComparisonOp.EQ: operator.eq,
    ComparisonOp.NE: operator.ne,
    ComparisonOp.LT: operator.lt,
    ComparisonOp.LE: operator.le,
    ComparisonOp.GT: operator.gt,
    ComparisonOp.GE: operator.ge,
}
BIG = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**55), 2**55) | st.integers(-3, 3)
DOUBLES = st.floats(allow_nan=False) | BIG.map(float) | st.integers(-20, 20).map(lambda k: k / 4)


def java_double(value: int | Fraction) -> float:
    """The nearest double, as Java's conversions give it."""
    return value.numerator / value.denominator if isinstance(value, Fraction) else float(value)


@settings(max_examples=300, deadline=None)
@given(st.lists(BIG, min_size=1, max_size=4), DOUBLES)
@example([2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3], 2.0**53)
@example([2**63 - 1, 2**63 - 513, 2**63 - 512], 2.0**63)
@example([0], -0.0)
@example([0], 5e-324)
@example([2**63 - 1, -(2**63)], math.inf)
@example([2**63 - 1, -(2**63)], -math.inf)
@example([2**63 - 1], 1.7976931348623157e308)
def test_integers_against_doubles_compare_as_doubles(values: list[int], constant: float) -> None:
    for op, expected in OPS.items():
        result = compare(op, pa.array(values, pa.int64()), pa.scalar(constant), "UTC").to_pylist()
        assert result == [expected(float(value), constant) for value in values], op
        mirrored = compare(op, pa.scalar(constant), pa.array(values, pa.int64()), "UTC").to_pylist()
        assert mirrored == [expected(constant, float(value)) for value in values], op


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(10**20), 10**20), min_size=1, max_size=4), st.integers(0, 30), DOUBLES)
def test_decimals_against_doubles_compare_as_doubles(units: list[int], scale: int, constant: float) -> None:
    values = [Fraction(unit, 10**scale) for unit in units]
    column = pa.array([Decimal(unit).scaleb(-scale) for unit in units], pa.decimal128(38, scale))
    for op, expected in OPS.items():
        result = compare(op, column, pa.scalar(constant), "UTC").to_pylist()
        assert result == [expected(java_double(value), constant) for value in values], op


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.decimal128(7, 3), pa.decimal256(50, 20)]),
    st.integers(-(10**40), 10**40) | st.decimals(-300, 300, places=4) | BIG,
    st.data(),
)
def test_exact_numbers_compare_by_value(type_: pa.DataType, constant: int | Decimal, data: st.DataObject) -> None:
    if pa.types.is_decimal(type_):
        values = [Decimal(unit).scaleb(-type_.scale) for unit in data.draw(st.lists(st.integers(-9999999, 9999999)))]
    else:
        low = 0 if "uint" in str(type_) else -(2 ** (type_.bit_width - 1))
        values = data.draw(st.lists(st.integers(low, low + 2**type_.bit_width - 1)))
    column = pa.array(values, type_)
    for op, expected in OPS.items():
        result = compare(op, column, literal(constant).scalar(), "UTC").to_pylist()
        assert result == [expected(Fraction(value), Fraction(constant)) for value in values], op


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(BIG, min_size=1, max_size=3),
    st.sampled_from(["s", "ms", "us", "ns"]),
    BIG,
)
def test_timestamps_compare_across_units(unit: str, values: list[int], other: str, constant: int) -> None:
    nanos = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    column = pa.array(values, pa.timestamp(unit))
    for op, expected in OPS.items():
        wanted = [expected(value * nanos[unit], constant * nanos[other]) for value in values]
        assert compare(op, column, pa.scalar(constant, pa.timestamp(other)), "UTC").to_pylist() == wanted
        second = pa.array([constant] * len(values), pa.timestamp(other))
        assert compare(op, column, second, "UTC").to_pylist() == wanted


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.floats(), min_size=1, max_size=5), st.floats())
def test_floats_have_one_total_order(values: list[float | None], constant: float) -> None:
    """NaN is greater than infinity and equal to itself; -0.0 is 0.0 (Spark's "NaN semantics")."""

    def key(value: float) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(value) else (False, value)

    column = pa.array(values, pa.float64())
    for op, expected in OPS.items():
        wanted = [None if value is None else expected(key(value), key(constant)) for value in values]
        assert compare(op, column, pa.scalar(constant), "UTC").to_pylist() == wanted
        assert compare(op, column, pa.array([constant] * len(values)), "UTC").to_pylist() == wanted


@pytest.mark.parametrize("constant", [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1.0, 0.1])
def test_midpoints_round_to_even(constant: float) -> None:
    """The largest number that still rounds to the constant, found by the threshold on a very fine grid."""
    fine = pa.decimal256(76, 60)
    limits = threshold(fine, pa.scalar(constant))
    for ticks, inside in (
        (limits.upto, True),
        (limits.upto + 1, False),
        (limits.below + 1, True),
        (limits.below, False),
    ):
        value = Fraction(ticks, 10**60)
        if abs(value) < Fraction(1.7976931348623157e308) and constant > 1e-50:
            assert (java_double(value) == constant) is inside
