"""Arithmetic and casts, against Python's integers and decimals (Spark's own answers are in test_evaluate)."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate, evaluate_filter
from lance_spark.expr.sql.parse import parse

WIDE = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_UP)
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)


def value(sql: str, **columns: pa.Array) -> list[object]:
    return list(evaluate(parse(sql), pa.record_batch(columns)).to_pylist())


@settings(max_examples=200, deadline=None)
@given(INTS, INTS.filter(bool))
def test_remainder_has_the_sign_of_the_dividend(left: int, right: int) -> None:
    assert value("a % b", a=pa.array([left]), b=pa.array([right])) == [
        int(math.copysign(1, left)) * (abs(left) % abs(right))
    ]


@settings(max_examples=100, deadline=None)
@given(INTS, INTS)
def test_integers_are_true_or_refused(left: int, right: int) -> None:
    for op, result in (("+", left + right), ("-", left - right), ("*", left * right)):
        columns = {"a": pa.array([left]), "b": pa.array([right])}
        if -(2**63) <= result < 2**63:
            assert value(f"a {op} b", **columns) == [result]
        else:
            with pytest.raises(InvalidInputError, match=rf"operator \{op} fails: overflow"):
                value(f"a {op} b", **columns)


DECIMALS = st.decimals(-(10**7), 10**7, places=3)


@settings(max_examples=100, deadline=None)
@given(DECIMALS, DECIMALS.filter(bool))
def test_decimals(left: Decimal, right: Decimal) -> None:
    columns = {"a": pa.array([left], pa.decimal128(11, 3)), "b": pa.array([right], pa.decimal128(11, 3))}
    assert value("a + b", **columns) == [left + right]
    assert value("a - b", **columns) == [left - right]
    assert value("a * b", **columns) == [WIDE.multiply(left, right)]
    # Spark: decimal(11, 3) / decimal(11, 3) has max(6, 3 + 11 + 1) digits after the point, halves up.
    assert value("a / b", **columns) == [WIDE.divide(left, right).quantize(Decimal(10) ** -15, context=WIDE)]
    assert value("a % b", **columns) == [WIDE.remainder(left, right)]


def test_results_of_more_than_38_digits_are_rounded_as_in_spark() -> None:
    # decimal(37, 18) * decimal(37, 18) is decimal(38, 6): 75 digits, 39 of them whole, so 6 of 36 remain.
    small = pa.array([Decimal("0.123456789012345678")], pa.decimal128(37, 18))
    product = evaluate(parse("a * b"), pa.record_batch({"a": small, "b": small}))
    assert product.type == pa.decimal128(38, 6)
    assert product.to_pylist() == [Decimal("0.015242")]
    wide = pa.array([Decimal("1" * 19 + "." + "9" * 18)], pa.decimal128(37, 18))
    with pytest.raises(InvalidInputError, match=r"operator \* fails"):
        value("a * a", a=wide)


@pytest.mark.parametrize("divisor", ["0", "0.0", "0D", "b", "d"])
@pytest.mark.parametrize("op", ["/", "%"])
def test_division_by_zero(op: str, divisor: str) -> None:
    zeros = {"b": pa.array([0, 0]), "d": pa.array([Decimal("0.00")] * 2, pa.decimal128(5, 2))}
    for dividend in (pa.array([1, 2]), pa.array([1.5, 2.5]), pa.array([Decimal("1.5")] * 2, pa.decimal128(5, 1))):
        with pytest.raises(InvalidInputError, match="division by zero"):
            value(f"a {op} {divisor}", a=dividend, **zeros)
        # Nothing is divided where the dividend is null.
        assert value(f"a {op} {divisor}", a=pa.nulls(2, dividend.type), **zeros) == [None, None]


def test_guarded_terms_see_only_open_rows() -> None:
    columns = {"a": pa.array([0, 5, None, 2, 0]), "s": pa.array(["1", "x", None, "4", "y"])}
    batch = pa.record_batch(columns)
    for sql, kept in (
        ("a <> 0 AND 10 / a > 3", [3]),
        ("a = 0 OR 10 / a > 3", [0, 3, 4]),
        ("NOT (a = 0 OR 10 / a > 3)", [1]),
        ("s <> 'x' AND s <> 'y' AND CAST(s AS INT) > 0", [0, 3]),
        ("coalesce(a, CAST(s AS INT)) = 0", [0, 4]),
        ("FALSE AND 1 / 0 = 1", []),
        ("TRUE OR 1 / 0 = 1", [0, 1, 2, 3, 4]),
    ):
        assert [row for row, keep in enumerate(evaluate_filter(parse(sql), batch).to_pylist()) if keep] == kept, sql
    with pytest.raises(InvalidInputError, match=r"division by zero \(in: 10 / a\)"):
        evaluate_filter(parse("10 / a > 3 AND a <> 0"), batch)


def test_unsigned_64_bit() -> None:
    big = pa.array([2**64 - 1, None, 0], pa.uint64())
    assert value("a + 1 > 18446744073709551615", a=big) == [True, None, False]
    assert value("a - 1 = -1", a=big) == [False, None, True]
    assert value("a % 10 = 5", a=big) == [True, None, False]
    assert value("abs(a) = a", a=big) == [True, None, True]
    assert value("a / 5 = 3689348814741910323D", a=big) == [True, None, False]


@pytest.mark.parametrize(
    ("text", "integer", "double", "boolean"),
    [
        ("1", 1, 1.0, True),
        (" +7 ", 7, 7.0, None),
        ("-0", 0, -0.0, None),
        ("1e2", None, 100.0, None),
        ("1.5d", None, 1.5, None),
        (".5F", None, 0.5, None),
        ("5.", None, 5.0, None),
        ("Infinity", None, math.inf, None),
        ("-inf", None, -math.inf, None),
        ("0x10", None, None, None),
        ("1_0", None, None, None),
        ("", None, None, None),
        ("9223372036854775808", None, 2.0**63, None),
        ("-9223372036854775808", -(2**63), -(2.0**63), None),
        ("9" * 61, None, 1e61, None),
        ("t", None, None, True),
        (" No ", None, None, False),
        ("yes", None, None, True),
        ("FALSE", None, None, False),
    ],
)
def test_text_to_number(text: str, integer: int | None, double: float | None, boolean: bool | None) -> None:
    column = pa.array([text, None])
    assert value("TRY_CAST(a AS BIGINT)", a=column) == [integer, None]
    assert value("TRY_CAST(a AS DOUBLE)", a=column) == [double, None]
    assert value("TRY_CAST(a AS BOOLEAN)", a=column) == [boolean, None]
    if integer is None:
        with pytest.raises(InvalidInputError, match="TRY_CAST gives NULL there"):
            value("CAST(a AS BIGINT)", a=column)


def test_casts_at_the_edges() -> None:
    assert value("TRY_CAST(a AS BIGINT)", a=pa.array([2.0**63, -(2.0**63), math.nan, 1.9, -1.9])) == [
        2**63 - 1,
        -(2**63),
        None,
        1,
        -1,
    ]
    assert value("TRY_CAST(a AS TINYINT)", a=pa.array([127.9, 128.0, -128.9, -129.0])) == [127, None, -128, None]
    assert value("TRY_CAST(a AS INT)", a=pa.array([2**31, 5], pa.uint64())) == [None, 5]
    rounding = pa.array([Decimal("1.25"), Decimal("-1.25"), Decimal("9.95"), Decimal("9.94")], pa.decimal128(3, 2))
    assert value("TRY_CAST(a AS DECIMAL(2, 1))", a=rounding) == [Decimal("1.3"), Decimal("-1.3"), None, Decimal("9.9")]
    assert value("TRY_CAST(a AS DECIMAL(4, 1))", a=pa.array(["1.25", "-.25", "1234.5", "1e2", "x"])) == [
        Decimal("1.3"),
        Decimal("-0.3"),
        None,
        Decimal("100.0"),
        None,
    ]
    far = pa.array([2**40, 2**62], pa.int64()).cast(pa.timestamp("s", "UTC"))
    assert value("TRY_CAST(a AS TIMESTAMP) IS NULL", a=far) == [False, True]
    with pytest.raises(
        InvalidInputError, match=r"CAST of 4611686018427387904 \(timestamp\[s, tz=UTC\]\) to TIMESTAMP fails"
    ):
        value("CAST(a AS TIMESTAMP)", a=far)


@pytest.mark.parametrize("sql", ["CAST(a AS STRING)", "CAST(a AS DATE)", "CAST(a AS BINARY)"])
def test_casts_that_arrow_would_answer_differently_are_refused(sql: str) -> None:
    with pytest.raises(InvalidInputError, match=r"CAST of double to .* is not supported in a filter"):
        value(sql, a=pa.array([1.0]))
