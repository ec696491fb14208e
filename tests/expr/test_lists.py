"""array_contains keeps the rows that Spark keeps: a null item makes an absent value unknown."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import parse

# What Spark 4 answers for array_contains(a, 2).
ROWS: list[tuple[list[int | None] | None, bool | None]] = [
    (None, None),
    ([], False),
    ([2], True),
    ([1, 2, 2], True),
    ([1, 3], False),
    ([None], None),
    ([1, None], None),
    ([None, 2], True),
]


def truth(condition: str | Expr, column: pa.Array) -> list[bool | None]:
    batch = pa.RecordBatch.from_arrays([column], ["a"])
    expr = parse(condition) if isinstance(condition, str) else condition
    found: list[bool | None] = evaluate(expr, batch).to_pylist()
    return found


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize("item", [pa.int8(), pa.int64(), pa.float32(), pa.decimal128(20, 1)])
def test_lists_of_numbers(make: type[pa.DataType], item: pa.DataType) -> None:
    column = pa.array([row for row, _ in ROWS], pa.list_(pa.int64())).cast(make(item))
    assert truth("array_contains(a, 2)", column) == [expected for _, expected in ROWS]
    assert truth("NOT array_contains(a, 2)", column.slice(2)) == [
        None if expected is None else not expected for _, expected in ROWS[2:]
    ]


def test_lists_of_fixed_size() -> None:
    column = pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int32(), 2))
    assert truth("array_contains(a, 2)", column) == [True, None, None, False]
    assert truth("array_contains(a, 2)", column.slice(1)) == [None, None, False]


def test_items_below_null_lists_are_ignored() -> None:
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array([2, 2, 1]), mask=pa.array([True, False, False]))
    assert truth("array_contains(a, 2)", column) == [None, True, False]


def test_nan_and_zeros_are_found_by_value() -> None:
    column = pa.array([[float("nan")], [-0.0], [1.0]])
    assert truth("array_contains(a, double('NaN'))", column) == [True, False, False]
    assert truth("array_contains(a, 0)", column) == [False, True, False]


def test_several_items() -> None:
    column = pa.array([["x"], ["x", "y"], [], None, ["z"]])
    assert truth("array_has_any(a, array('x', 'z'))", column) == [True, True, False, None, True]
    assert truth("array_has_all(a, array('x', 'y'))", column) == [False, True, False, None, False]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=12), max_size=60),
    st.integers(0, 20),
    st.sampled_from([pa.list_, pa.large_list]),
)
def test_random_lists(rows: list[list[int | None] | None], start: int, make: type[pa.DataType]) -> None:
    def expected(row: list[int | None] | None) -> bool | None:
        return None if row is None else True if 2 in row else None if None in row else False

    column = pa.array(rows, make(pa.int64())).slice(start)
    assert truth("array_contains(a, 2)", column) == [expected(row) for row in rows[start:]]


def test_empty_batch() -> None:
    assert truth("array_contains(a, 2)", pa.array([], pa.list_(pa.int32()))) == []


@pytest.mark.parametrize("column", [pa.array([1]), pa.array([{"b": [1]}]), pa.array([["x"]]), pa.array([[[1]]])])
def test_other_types_are_refused(column: pa.Array) -> None:
    with pytest.raises(InvalidInputError):
        truth("array_contains(a, 1)", column)
