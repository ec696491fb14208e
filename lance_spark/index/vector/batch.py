"""Many queries at once: a matrix product chooses the rows whose distances are then computed one by one.

A product has another order of additions than the kernels of one query, so its results differ in the last bits. It
decides nothing but which rows cannot be among the nearest, with room for these errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.metrics import Metric, Vectors
from lance_spark.index.vector.nearest import bound_of_least

BLOCK_ROWS = 32768
BLOCK_QUERIES = 128
"""Rows and queries of one product."""

LEAST_QUERIES = 4
"""From this number of queries a matrix product is faster than one pass per query."""

Places = npt.NDArray[np.int64]


def is_worthwhile(metric: Metric, num_queries: int) -> bool:
    """Whether the queries are searched by products."""
    return num_queries >= LEAST_QUERIES and metric is not Metric.HAMMING


def near_places(
    metric: Metric, vectors: Vectors, queries: Vectors, k: int, bounds: Sequence[float]
) -> Iterator[tuple[int, Places]] | None:
    """(number of the query, int64[n]: rows among which its `k` nearest are); None if products cannot decide that.

    Rows farther than `bounds`, a distance for each query, can be left out.

    Args:
        vectors: [n, d], at most `BLOCK_ROWS`.
        queries: [m, d], at most `BLOCK_QUERIES`, of the same type.
    """
    dtype = np.float64 if vectors.dtype == np.float64 else np.float32
    rows, wanted = vectors.astype(dtype, copy=False), queries.astype(dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        squares, query_squares = np.einsum("ij,ij->i", rows, rows), np.einsum("ij,ij->i", wanted, wanted)
    if not (np.isfinite(squares).all() and np.isfinite(query_squares).all()):
        return None
    return _chosen(metric, rows, wanted, squares, query_squares, k, bounds)


def _chosen(
    metric: Metric,
    rows: Vectors,
    queries: Vectors,
    squares: Vectors,
    query_squares: Vectors,
    k: int,
    bounds: Sequence[float],
) -> Iterator[tuple[int, Places]]:
    longest = float(np.sqrt(squares.max(initial=0)))
    unit = 4 * rows.shape[1] * float(np.finfo(rows.dtype).eps) + 4 * float(np.finfo(np.float32).eps)
    # The signs and factors are in the smaller operands, so that the products need one more pass at most.
    if metric is Metric.COSINE:
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = rows / np.sqrt(squares)[:, None]
            products = -(queries / np.sqrt(query_squares)[:, None]) @ rows.T
    else:
        products = (queries * (-2 if metric is Metric.L2 else -1)) @ rows.T
    for number, estimates in enumerate(products):
        length = float(np.sqrt(query_squares[number]))
        constant, error = 1.0, 2 * unit
        if metric is Metric.L2:
            estimates += squares
            constant, error = length * length, unit * (longest + length) ** 2
        elif metric is Metric.DOT:
            error = unit * (longest * length + 1)
        bound = bounds[number] - constant
        if not np.isfinite(bound):
            bound = bound_of_least(estimates.astype(np.float32, copy=False), k)[0]
        places = np.flatnonzero(estimates <= bound + 2 * error)
        if len(places):
            yield number, places
