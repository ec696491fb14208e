"""k-means: flat Lloyd iterations, and a hierarchy of them for many centroids.

Everything is computed in float32. The same vectors, number of centroids and seed give the same centroids.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.clustering import nearest_of_products, sum_by_label

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]

_BLOCK_ROWS = 4096
_TOLERANCE = 1e-4
"""Iterations end when the loss falls by less than this share of it."""
_FLAT_LIMIT = 256
"""The largest number of centroids that is trained at once; more are trained in a hierarchy."""
_STARTS = 64
"""Vectors for each centroid among which the first centroids are chosen."""
_FAN_OUT = 16
_FINAL_ROUNDS = 2
"""Iterations over all centroids after a hierarchy has chosen them."""


@dataclass(frozen=True)
class Clusters:
    """The result of k-means.

    Attributes:
        centroids: float32[k, d].
        labels: int32[n]: the nearest centroid of each vector.
        loss: the sum of the distances of the vectors to their centroids.
    """

    centroids: Float32Array
    labels: Int32Array
    loss: float


def train(
    vectors: Float32Array, num_centroids: int, *, max_iters: int = 50, seed: int = 0, spherical: bool = False
) -> Clusters:
    """k-means of vectors; fewer centroids than asked for if there are fewer vectors.

    Args:
        vectors: float32[n, d], C-contiguous, n >= 1.
        spherical: vectors belong to the centroid with the greatest inner product, and centroids have length 1.
    """
    num_centroids = min(num_centroids, len(vectors))
    random = np.random.default_rng(seed)
    if num_centroids <= _FLAT_LIMIT:
        return _flat(vectors, num_centroids, max_iters, random, spherical=spherical)
    start = _hierarchy(vectors, num_centroids, max_iters, random, spherical=spherical)
    return _lloyd(vectors, start, min(max_iters, _FINAL_ROUNDS), spherical=spherical)


def assign(
    vectors: Float32Array, centroids: Float32Array, *, by_product: bool = False, squares: float | None = None
) -> tuple[Int32Array, float]:
    """(int32[n]: the nearest centroid of each vector, the sum of distances).

    Args:
        by_product: nearest is the greatest inner product, else the least squared l2.
        squares: the `sum_of_squares` of the vectors, if it is known.
    """
    labels = np.empty(len(vectors), np.int32)
    scores = np.empty(len(vectors), np.float32)
    if by_product:
        norms = np.zeros(len(centroids), np.float32)
    else:
        norms = np.einsum("ij,ij->i", centroids, centroids).astype(np.float32)
    transposed = np.ascontiguousarray(centroids.T)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        products = block @ transposed
        nearest_of_products(
            address_of(products),
            len(block),
            len(centroids),
            address_of(norms),
            address_of(labels[start : start + _BLOCK_ROWS]),
            address_of(scores[start : start + _BLOCK_ROWS]),
        )
    if by_product:
        return labels, float(len(vectors) + scores.sum(dtype=np.float64) / 2)
    total = sum_of_squares(vectors) if squares is None else squares
    return labels, max(0.0, total + float(scores.sum(dtype=np.float64)))


def sum_of_squares(vectors: Float32Array) -> float:
    """The sum of the squares of all values."""
    return float(np.einsum("ij,ij->", vectors, vectors, dtype=np.float64))


def _flat(
    vectors: Float32Array, num_centroids: int, max_iters: int, random: np.random.Generator, *, spherical: bool
) -> Clusters:
    choose = _start if spherical else _spread_start
    return _lloyd(vectors, choose(vectors, num_centroids, random), max_iters, spherical=spherical)


def _start(vectors: Float32Array, num_centroids: int, random: np.random.Generator) -> Float32Array:
    chosen = random.choice(len(vectors), num_centroids, replace=False)
    start: Float32Array = vectors[np.sort(chosen)].copy()
    return start


def _spread_start(vectors: Float32Array, num_centroids: int, random: np.random.Generator) -> Float32Array:
    """Vectors of a sample that are far from each other: each is drawn with the square of its distance to the nearest of
    those before as its weight (k-means++)."""
    sample = _start(vectors, min(len(vectors), _STARTS * num_centroids), random)
    start = np.empty((num_centroids, sample.shape[1]), np.float32)
    weights = np.full(len(sample), np.finfo(np.float32).max, np.float32)
    chosen = int(random.integers(len(sample)))
    # Squares of large values are infinite, and their differences no numbers.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", sample, sample)
        for place in range(num_centroids):
            start[place] = sample[chosen]
            distances = squares[chosen] + squares - 2 * (sample @ sample[chosen])
            np.minimum(weights, np.maximum(distances, 0), out=weights)
            weights[chosen] = 0
            ends = weights.cumsum(dtype=np.float64)
            # Without weights there are only copies of vectors that were drawn: any of them does.
            drawn = ends.searchsorted(random.random() * ends[-1], side="right")
            chosen = min(int(drawn), len(sample) - 1) if ends[-1] > 0 else int(random.integers(len(sample)))
    return start


def _lloyd(vectors: Float32Array, centroids: Float32Array, max_iters: int, *, spherical: bool) -> Clusters:
    if spherical:
        centroids = _unit(centroids)
    before, squares = np.inf, sum_of_squares(vectors)
    for _ in range(max_iters):
        labels, loss = assign(vectors, centroids, by_product=spherical, squares=squares)
        centroids = _means(vectors, labels, centroids, spherical=spherical)
        if abs(before - loss) <= _TOLERANCE * abs(loss):
            break
        before = loss
    labels, loss = assign(vectors, centroids, by_product=spherical, squares=squares)
    return Clusters(centroids, labels, loss)


def _means(vectors: Float32Array, labels: Int32Array, old: Float32Array, *, spherical: bool) -> Float32Array:
    num_centroids, dimension = old.shape
    sums = np.zeros((num_centroids, dimension), np.float64)
    counts = np.zeros(num_centroids, np.int64)
    sum_by_label(address_of(vectors), len(vectors), dimension, address_of(labels), address_of(sums), address_of(counts))
    means = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
    _fill_empty(means, counts)
    return _unit(means) if spherical else means


def _fill_empty(means: Float32Array, counts: npt.NDArray[np.int64]) -> None:
    """Gives an empty cluster half of the largest one: both get its centroid, moved a little in opposite directions."""
    sign = np.where(np.arange(means.shape[1]) % 2 == 0, 1, -1).astype(np.float32) / np.float32(1024)
    for empty in np.flatnonzero(counts == 0).tolist():
        largest = int(counts.argmax())
        means[empty] = means[largest] * (1 + sign)
        means[largest] *= 1 - sign
        counts[empty] = counts[largest] // 2
        counts[largest] -= counts[empty]


def _unit(vectors: Float32Array) -> Float32Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Float32Array = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return scaled


def _hierarchy(
    vectors: Float32Array, num_centroids: int, max_iters: int, random: np.random.Generator, *, spherical: bool
) -> Float32Array:
    """Centroids found by splitting the largest cluster again and again."""
    leaves: list[tuple[int, int]] = [(-len(vectors), 0)]
    members: dict[int, npt.NDArray[np.int64]] = {0: np.arange(len(vectors))}
    centroids: dict[int, Float32Array] = {0: vectors.mean(axis=0)}
    next_id = 1
    while len(leaves) < num_centroids:
        size, leaf = heapq.heappop(leaves)
        rows = members.pop(leaf)
        del centroids[leaf]
        parts = min(_FAN_OUT, num_centroids - len(leaves), -size)
        own = np.ascontiguousarray(vectors[rows])
        found = _flat(own, parts, max_iters, random, spherical=spherical)
        for label in range(parts):
            chosen = rows[found.labels == label]
            members[next_id] = chosen
            centroids[next_id] = found.centroids[label]
            heapq.heappush(leaves, (-len(chosen), next_id))
            next_id += 1
        if parts < 2:
            break
    return np.ascontiguousarray(np.stack([centroids[leaf] for leaf in sorted(centroids)]))
