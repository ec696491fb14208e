"""Estimates of rows of bytes beside numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_estimates import byte_estimates, squared_lengths
from tests.support.guarded_memory import guarded

Array = np.ndarray[Any, Any]


def estimates(parts: list[Array], query: Array, *, is_dot: bool) -> Array:
    blocks = np.array([address_of(codes) for codes in parts], np.int64)
    squares = [np.empty(len(codes)) for codes in parts]
    for codes, out in zip(parts, squares, strict=True):
        squared_lengths(address_of(codes), len(codes), len(query), address_of(out))
    located = np.array([] if is_dot else [address_of(array) for array in squares], np.int64)
    lengths = np.array([len(codes) for codes in parts], np.int64)
    out = np.empty(int(lengths.sum()), np.float32)
    byte_estimates(
        address_of(blocks),
        address_of(located),
        address_of(lengths),
        len(parts),
        len(query),
        address_of(query),
        is_dot,
        address_of(out),
    )
    return out


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.integers(1, 70),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_estimates_are_near_to_those_of_the_query(sizes: list[int], dimension: int, is_dot: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = [random.integers(0, 256, (num_rows + 1, dimension), dtype=np.uint8) for num_rows in sizes]
    query = random.normal(128, 100, dimension).astype(np.float32)
    estimated = estimates(parts, query, is_dot=is_dot)
    codes, wanted = np.concatenate(parts).astype(np.float64), query.astype(np.float64)
    expected = codes @ wanted if is_dot else ((codes - wanted) ** 2).sum(1)
    # A word of the query is off by half a step at most, which is a 65,534th of its greatest value.
    room = np.abs(query).max() / 65534 * (2 * np.abs(codes - wanted) + 1 if not is_dot else codes).sum(1)
    assert bool((np.abs(estimated - expected) <= room + 1e-6 * np.abs(expected) + 1e-3).all())


@pytest.mark.parametrize("dimension", [40_000, 70_001])
def test_rows_of_many_values(dimension: int) -> None:
    codes = np.full((11, dimension), 255, np.uint8)
    codes[1::2] = 0
    query = np.full(dimension, 255, np.float32)
    for number in (3, 11):
        estimated = estimates([codes[:number]], query, is_dot=False)
        assert set(estimated[::2]) == {estimated[0]}
        assert estimated[0] <= 1e-3 * estimated[1]
        assert estimated[1] == pytest.approx(dimension * 255.0**2, rel=1e-2)


@pytest.mark.parametrize("dimension", [1, 31, 32, 33, 63, 64, 95, 97, 128])
@pytest.mark.parametrize("is_dot", [False, True])
def test_estimates_do_not_depend_on_the_rows_beside(dimension: int, is_dot: bool) -> None:
    """Rows at the end of readable memory, in parts of 1 to 20 rows, are multiplied alone or eight at a time."""
    random = np.random.default_rng(dimension)
    query = random.normal(128, 100, dimension).astype(np.float32)
    for num_rows in (1, 7, 8, 9, 15, 16, 20, 300):
        data = guarded(random.integers(0, 256, num_rows * dimension, dtype=np.uint8).tobytes())
        codes = np.frombuffer(data, np.uint8).reshape(num_rows, dimension)
        together = estimates([codes], query, is_dot=is_dot)
        alone = estimates([codes[row : row + 1] for row in range(num_rows)], query, is_dot=is_dot)
        assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_query_that_is_not_finite_has_no_finite_estimate(value: float) -> None:
    query = np.ones(24, np.float32)
    query[5] = value
    found = estimates([np.ones((20, 24), np.uint8)], query, is_dot=False)
    assert not np.isfinite(found).any()
    assert bool(np.isnan(found).all()) == bool(np.isnan(value))
