"""Rows that products of integers leave for many queries, beside the distances of single queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.batch import QueryProducts, is_worthwhile
from lance_spark.index.vector.metrics import Metric, distances
from lance_spark.index.vector.nearest import DistanceRange, NearestRows
from tests.support.kernels.vectors import SHAPES, spread

K = 7


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
