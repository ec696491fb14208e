"""Values in order: halving finds exactly those for which the evaluation of filters says TRUE."""

from __future__ import annotations

import datetime
import random

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import pytest

from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.sql.parse import parse
from lance_spark.index.base import Predicate
from lance_spark.index.bounds import key_numbers
from lance_spark.index.spans import keys_of, numbers_of, span_of

CONDITIONS = [
    *(f"x {op} {{0}}" for op in ("=", "<", "<=", ">", ">=")),
    "{0} < x",
    "x BETWEEN {0} AND {1}",
    "x > {0} AND x < {1}",
    "x >= {1} AND x <= {0}",
    "x = {0} AND x < {0}",
    "x > {0} AND x >= {0} AND x <= {1} AND x < {1}",
]
EDGES = {pa.int8(): [-128, 127, -129, 128, 10**25, -(10**25)], pa.int64(): [-(2**63), 2**63 - 1, 2**63, -(10**25)]}
DTYPES = [
    pa.int8(),
    pa.int64(),
    pa.date32(),
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.string(),
    pa.large_string(),
]


def value(number: int, dtype: pa.DataType) -> object:
    if pa.types.is_date(dtype):
        return datetime.date(1970, 1, 1) + datetime.timedelta(number)
    if pa.types.is_timestamp(dtype):
        zone = datetime.timezone.utc if dtype.tz else None
        return datetime.datetime(2024, 1, 1, tzinfo=zone) + datetime.timedelta(seconds=number)
    # Beyond U+FFFF the order of bytes is that of code points, not that of UTF-16.
    return f"{'é￿𝄞'[number % 3]}{number:04}" if not pa.types.is_integer(dtype) else number


def constant(number: int, dtype: pa.DataType) -> str:
    shown = value(number, dtype)
    if pa.types.is_timestamp(dtype):
        # Half a second: between two values of a column of seconds.
        return f"TIMESTAMP{'' if dtype.tz else '_NTZ'} '{str(shown)[:19]}.5'"
    if pa.types.is_date(dtype):
        return f"DATE '{shown}'"
    return str(shown) if isinstance(shown, int) else f"'{shown}'"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_spans_have_the_values_that_a_filter_keeps(condition: str, dtype: pa.DataType) -> None:
    rng = random.Random(f"{condition} {dtype}")
    for _ in range(20):
        values = sorted(value(rng.randrange(100), dtype) for _ in range(50))  # type: ignore[type-var]
        column = pa.array(values, dtype)
        numbers = sorted(rng.choice([rng.randrange(100), *EDGES.get(dtype, [])]) for _ in range(2))
        expr = parse(condition.format(*(constant(number, dtype) for number in numbers)))
        span = span_of(expr, dtype)
        if span is None:
            # Whole numbers beyond 64 bits are decimals.
            assert any(abs(number) >= 2**63 for number in numbers)
            continue
        keys = keys_of(column)
        first, last = span.first(keys), span.last(keys)
        kept = evaluate_filter(expr, pa.record_batch({"x": column})).to_pylist()
        assert [first <= place < last for place in range(len(values))] == kept


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int64(), pa.date32(), pa.timestamp("us")], ids=str)
def test_numbers_of_values(dtype: pa.DataType) -> None:
    numbers = [3, -1, 7, 0, 100, 5]
    values = pa.array(numbers, pa.int32()).cast(pa.int64() if pt.is_timestamp(dtype) else pa.int32()).cast(dtype)
    for part in (slice(0, 6), slice(2, 5), slice(3, 3)):
        assert numbers_of(values[part.start : part.stop]).tolist() == numbers[part]
    with_nulls = pa.concat_arrays([values, pa.nulls(2, dtype), values])[1:]
    assert numbers_of(with_nulls).tolist() == [*numbers[1:], 0, 0, *numbers]
    assert numbers_of(with_nulls).dtype == np.int64


@pytest.mark.parametrize(
    "condition",
    ["x <> 1", "x = 1 OR x = 2", "x = 1.5", "x = NULL", "x = y", "x IS NULL", "x IN (1, 2)", "NOT x = 1", "x <=> 1"],
)
def test_other_conditions_are_no_spans(condition: str) -> None:
    assert span_of(parse(condition), pa.int64()) is None


@pytest.mark.parametrize("dtype", [pa.float64(), pa.uint64(), pa.decimal128(5, 1), pa.bool_(), pa.binary()], ids=str)
def test_values_of_other_types_have_no_spans(dtype: pa.DataType) -> None:
    assert span_of(parse("x = 1"), dtype) is None


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int32(), pa.int64()], ids=str)
def test_keys_of_a_list_are_those_that_the_type_has(dtype: pa.DataType) -> None:
    for listed, expected in (
        ("7, 3, 7, -128, 127", [-128, 3, 7, 127]),
        ("NULL, 5", [5]),
        ("128, 5, -129", [5] if dtype == pa.int8() else [-129, 5, 128]),
        (f"5, {10**17}", [5, 10**17] if dtype == pa.int64() else [5]),
        ("5, 6.0, 6.5", [5, 6]),
    ):
        expr = parse(f"x IN ({listed})")
        found = key_numbers(Predicate(expr, ("x",), frozenset([("x",)]), dtype, "UTC"))
        assert found is not None
        assert found.tolist() == expected, listed
