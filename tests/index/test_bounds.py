"""Bounds that are compared all at once: exactly those are kept between which a value satisfies the condition."""

from __future__ import annotations

import datetime
import random

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.expr.nodes import referenced_columns
from lance_spark.expr.sql.parse import parse
from lance_spark.index.base import Predicate
from lance_spark.index.bounds import Bounds, matching_bounds

CONDITIONS = [
    "x = {0}",
    "x < {0} OR x >= {1}",
    "x BETWEEN {0} AND {1}",
    "{1} > x",
    "x IN ({0}, {1}, {2})",
    "x IN ({0}, {0}, NULL)",
    "x IN ({0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}, {2}, {0})",
]
NUMBERS = range(-50, 50)


def value(number: int, dtype: pa.DataType) -> object:
    if pa.types.is_date(dtype):
        return datetime.date(1970, 1, 1) + datetime.timedelta(number)
    return f"t{number + 100:04}" if pa.types.is_string(dtype) else number


def constant(number: int, dtype: pa.DataType) -> str:
    shown = value(number, dtype)
    if pa.types.is_floating(dtype):
        return f"CAST({shown} AS DOUBLE)"
    return str(shown) if isinstance(shown, int) else f"{'DATE ' if pa.types.is_date(dtype) else ''}'{shown}'"


@pytest.mark.parametrize("dtype", [pa.int64(), pa.int8(), pa.date32(), pa.string(), pa.float64()], ids=str)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_bounds_are_kept_if_a_value_between_them_matches(condition: str, dtype: pa.DataType) -> None:
    draw = random.Random(condition)
    pairs = [sorted(draw.choices(NUMBERS, k=2)) for _ in range(60)]
    is_known = [(draw.random() < 0.9, draw.random() < 0.9) for _ in pairs]
    has_values = np.array([draw.random() < 0.9 for _ in pairs])
    ends = [
        [value(pair[end], dtype) if known[end] else None for pair, known in zip(pairs, is_known, strict=True)]
        for end in (0, 1)
    ]
    lows, highs = (pa.array(values, dtype) for values in ends)
    expr = parse(condition.format(*(constant(number, dtype) for number in sorted(draw.choices(NUMBERS, k=3)))))
    predicate = Predicate(expr, ("x",), referenced_columns(expr), dtype, "UTC")
    found = matching_bounds(predicate, Bounds(lows, highs, has_values))
    if found is None:
        # Constants of another type are compared one by one, as are lists of these types.
        assert dtype == pa.float64() or (dtype == pa.string() and "IN" in condition)
        return
    matches = predicate.keeps(pa.array([value(number, dtype) for number in NUMBERS], dtype))
    first, last = NUMBERS.start, NUMBERS.stop - 1
    expected = [
        values and matches[(low if known[0] else first) - first : (high if known[1] else last) - first + 1].any()
        for (low, high), known, values in zip(pairs, is_known, has_values.tolist(), strict=True)
    ]
    assert found.tolist() == [bool(item) for item in expected]
