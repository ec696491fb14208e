"""Vectors that bounds of their copies in bytes leave, beside all distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.index.vector.metrics import Metric, distances, distances_of_parts
from lance_spark.index.vector.storage import Partition
from lance_spark.index.vector.stored.flat import ByteCopy
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_bounds import near_by_bytes
from tests.support.kernels.vectors import SHAPES, spread

Float32Array = np.ndarray[Any, np.dtype[np.float32]]


def near(
    parts: list[Float32Array], centers: list[Float32Array | None], query: Float32Array, *, is_dot: bool, count: int
) -> tuple[list[int], Float32Array]:
    """(the places of the vectors that can be near, the distances of these); a part without a center has no copy."""
    rows = [Partition(np.arange(len(part), dtype=np.uint64), part) for part in parts]
    both = zip(rows, centers, strict=True)
    copies = [None if center is None else ByteCopy.of(part, center) for part, center in both]
    vectors = np.array([part.address for part in rows])
    addresses_of_copies = np.array([(0,) * 5 if copy is None else copy.addresses for copy in copies])
    lengths = np.array([len(part) for part in parts])
    num_rows = int(lengths.sum())
    lows, places = np.empty(num_rows, np.float32), np.empty(num_rows, np.int64)
    addresses = np.empty(num_rows, np.int64)
    number = near_by_bytes(
        address_of(vectors),
        address_of(addresses_of_copies),
        address_of(lengths),
        len(parts),
        len(query),
        address_of(query),
        is_dot,
        count,
        address_of(lows),
        address_of(places),
        address_of(addresses),
    )
    metric = Metric.DOT if is_dot else Metric.L2
    found = distances_of_parts(metric, addresses[:number], np.ones(number, np.int64), query)
    return places[:number].tolist(), found


def require_nearest(
    parts: list[Float32Array], centers: list[Float32Array | None], query: Float32Array, *, is_dot: bool, count: int
) -> int:
    """Requires the `count` nearest, with all that are as near as the last; returns how many were left."""
    places, found = near(parts, centers, query, is_dot=is_dot, count=count)
    metric = Metric.DOT if is_dot else Metric.L2
    expected = np.concatenate([distances(metric, part, query) for part in parts])
    assert expected[places].tobytes() == found.tobytes()
    numbers = np.sort(expected[~np.isnan(expected)])
    bound = numbers[min(count, len(numbers)) - 1] if len(numbers) else -np.inf
    assert set(np.flatnonzero(expected <= bound).tolist()) <= set(places)
    return len(places)


@pytest.mark.parametrize("is_dot", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 7, 13, 64, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_nearest_vectors_are_among_those_left(shape: str, dimension: int, is_dot: bool) -> None:
    with np.errstate(over="ignore"):
        vectors = SHAPES[shape](spread(1500, max(dimension, 2), 1)).astype(np.float32)[:, :dimension]
    parts = [np.ascontiguousarray(part) for part in (vectors[:1], vectors[1:700], vectors[700:])]
    centers = [parts[0][0].copy(), None, parts[2][50].copy()]
    for query in (*vectors[:8], *(vectors[100:104] * np.float32(1.01)), -vectors[20]):
        for count in (1, 7):
            require_nearest(parts, centers, query, is_dot=is_dot, count=count)


@pytest.mark.parametrize("is_dot", [False, True])
def test_few_vectors_are_left(is_dot: bool) -> None:
    vectors = spread(4000, 96, 2).astype(np.float32)
    center = vectors.mean(0, dtype=np.float32)
    assert require_nearest([vectors], [center], vectors[7] * np.float32(1.01), is_dot=is_dot, count=10) < 60


def test_a_query_without_a_distance_leaves_all_vectors() -> None:
    vectors = spread(300, 8, 3).astype(np.float32)
    for value in (np.nan, np.inf, 3e38):
        query = vectors[0].copy()
        query[3] = value
        for is_dot in (False, True):
            assert near([vectors], [vectors[1].copy()], query, is_dot=is_dot, count=5)[0] == list(range(300))


@pytest.mark.parametrize("distance", [1e3, 1e9, 1e15, 1e17])
def test_equal_vectors_far_from_a_query_are_found(distance: float) -> None:
    # All of them are the center, so that the step between codes is the least one.
    equal, others = np.full((40, 8), 5, np.float32), np.linspace(1e18, 2e18, 2400, dtype=np.float32).reshape(300, 8)
    query = equal[0].copy()
    query[5] += np.float32(distance)
    assert require_nearest([others, equal], [others[0].copy(), equal[0].copy()], query, is_dot=False, count=3) == 40


VALUES = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-38, 1e19, -3e38, 3.4e38, np.inf, -np.inf, np.nan, 1000.0, 1000.001]
    ),
    st.floats(width=32),
    st.integers(-3, 3).map(float),
)


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[Float32Array], list[Float32Array | None], Float32Array]:
    dimension = draw(st.integers(1, 20))
    vector = st.lists(VALUES, min_size=dimension, max_size=dimension)
    common = draw(st.lists(vector, min_size=1, max_size=4))
    shift = draw(st.sampled_from([0.0, 1.0, 1e6, 1e30]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(st.one_of(vector, st.sampled_from(common)), min_size=1, max_size=30))
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append((np.array(rows) + shift).astype(np.float32))
    centers = [draw(st.sampled_from([None, part[0].copy(), part[-1] * np.float32(0)])) for part in parts]
    near_row = parts[-1][0] * np.float32(draw(st.sampled_from([1.0, 1.0000001, -1.0, 0.5])))
    return parts, centers, draw(st.sampled_from([near_row, np.array(common[0], np.float32)]))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(searches(), st.booleans(), st.integers(1, 12))
def test_no_near_vector_is_left_out(
    search: tuple[list[Float32Array], list[Float32Array | None], Float32Array], is_dot: bool, count: int
) -> None:
    parts, centers, query = search
    with np.errstate(all="ignore"):
        require_nearest(parts, centers, query, is_dot=is_dot, count=count)
