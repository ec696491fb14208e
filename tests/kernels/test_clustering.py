"""The nearest centroid of each vector, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.clustering import nearest_of_products


def nearest(products: np.ndarray[Any, Any], norms: np.ndarray[Any, Any]) -> tuple[list[int], list[float]]:
    labels, scores = np.empty(len(products), np.int32), np.empty(len(products), np.float32)
    nearest_of_products(
        address_of(products), *products.shape, address_of(norms), address_of(labels), address_of(scores)
    )
    return labels.tolist(), scores.tolist()


@pytest.mark.parametrize("num_centroids", [1, 31, 32, 33, 64, 100, 256])
@pytest.mark.parametrize("is_whole", [False, True])
def test_the_first_of_the_nearest_centroids_is_chosen(num_centroids: int, is_whole: bool) -> None:
    random = np.random.default_rng(num_centroids)
    products, norms = (
        random.normal(size=(300, num_centroids)).astype("f4"),
        random.normal(size=num_centroids).astype("f4"),
    )
    if is_whole:
        # Many equal values.
        products, norms = np.rint(products), np.rint(norms)
    values = norms - np.float32(2) * products
    assert nearest(products, norms) == (values.argmin(axis=1).tolist(), values.min(axis=1).tolist())


@pytest.mark.parametrize("num_centroids", [5, 40])
def test_values_that_are_no_numbers_are_not_near(num_centroids: int) -> None:
    products, norms = np.full((4, num_centroids), -np.inf, np.float32), np.zeros(num_centroids, np.float32)
    products[1:] = np.nan
    products[2, 3], products[3, -1] = 1, np.inf
    assert nearest(products, norms) == ([0, 0, 3, num_centroids - 1], [np.inf, np.inf, -2, -np.inf])
