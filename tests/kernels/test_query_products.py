"""Rows that products of integers leave for many queries, beside the distances of single queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.batch import QueryProducts, is_worthwhile
from lance_spark.index.vector.metrics import Metric, distances
from lance_spark.index.vector.nearest import DistanceRange, NearestRows

K = 7


def spread(num_rows: int, dimension: int, seed: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(30, dimension))
    return centres[random.integers(0, 30, num_rows)] + random.normal(scale=0.2, size=(num_rows, dimension))


def one_large_value(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values[::40, 1] = 1e6
    values[5::40] *= 1e-6
    return values


def without_values(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values[::9], values[4, 0], values[5, 0], values[6, 1] = 0, np.nan, np.inf, -np.inf
    return values


SHAPES: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "plain": lambda values: values,
    "far from zero": lambda values: values + 1000,
    "one large value": one_large_value,
    "repeated": lambda values: values[np.arange(len(values)) % 3],
    "zeros, infinity and NaN": without_values,
    "smaller than what float32 holds exactly": lambda values: values * 1e-40,
    "squares of float32 overflow": lambda values: values * 1e19,
    "sums of float32 overflow": lambda values: values * 1e38,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dimension", [1, 2, 13, 200])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("metric", [Metric.L2, Metric.COSINE, Metric.DOT])
def test_the_nearest_rows_are_among_those_left(metric: Metric, shape: str, dimension: int, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        vectors = SHAPES[shape](spread(1500, max(dimension, 2), 1)).astype(dtype)[:, :dimension]
    queries = np.concatenate([vectors[:8], vectors[100:103] * dtype(1.01)])
    ids = np.arange(len(vectors)).astype(np.uint64)
    products = QueryProducts(metric, queries, K)
    collectors = [NearestRows(K, DistanceRange()) for _ in queries]
    expected = [NearestRows(K, DistanceRange()) for _ in queries]
    # The second part starts with the distances of the first.
    for part in (slice(0, 1001), slice(1001, None)):
        for number, places in products.near_places(vectors[part], [collector.bound for collector in collectors]):
            rows = ids[part] if places is None else ids[part][places]
            collectors[number].offer(distances(metric, vectors[rows], queries[number]), rows, rows)
    for query, mine, all_rows in zip(queries, collectors, expected, strict=True):
        all_rows.offer(distances(metric, vectors, query), ids, ids)
        assert mine.hits().row_ids.tolist() == all_rows.hits().row_ids.tolist()
        np.testing.assert_array_equal(mine.hits().distances, all_rows.hits().distances)


def test_few_rows_are_left() -> None:
    vectors, queries = spread(20_000, 64, 2).astype(np.float32), spread(50, 64, 3).astype(np.float32)
    for metric in (Metric.L2, Metric.COSINE, Metric.DOT):
        left = [places for _, places in QueryProducts(metric, queries, K).near_places(vectors, [np.inf] * len(queries))]
        assert max(len(vectors) if places is None else len(places) for places in left) < 3 * K


def test_products_are_left_out_where_they_do_not_pay() -> None:
    assert is_worthwhile(Metric.L2, 100, 10)
    assert not is_worthwhile(Metric.L2, 2, 10)
    assert not is_worthwhile(Metric.HAMMING, 100, 10)
    assert not is_worthwhile(Metric.L2, 100, 1_000_000)
