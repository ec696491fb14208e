"""Distances to vectors in several blocks, and the choice of the nearest rows, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.metrics import Metric, computed_type, distances, distances_of_parts
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_codes import nearest_rows, sums_of_codewords

SIZES = (3, 0, 70, 1)


def blocks(
    values: np.ndarray[Any, Any],
) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(rows of blocks, their addresses, their lengths)."""
    parts = [np.ascontiguousarray(part) for part in np.split(values, np.cumsum(SIZES)[:-1])]
    return parts, np.array([address_of(part) for part in parts]), np.array(SIZES)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT, Metric.COSINE])
def test_blocks_have_the_distances_of_single_vectors(metric: Metric, dtype: str) -> None:
    random = np.random.default_rng(2)
    values, query = random.normal(size=(sum(SIZES), 37)).astype(dtype), random.normal(size=37).astype(dtype)
    kept, addresses, lengths = blocks(values)
    found = distances_of_parts(metric, addresses, lengths, query)
    assert found.tolist() == [float(distances(metric, row[None], query)[0]) for row in values]
    product = values @ query
    norms = np.linalg.norm(values, axis=1) * np.linalg.norm(query)
    expected = {"l2": np.square(values - query).sum(1), "dot": 1 - product, "cosine": 1 - product / norms}[metric.value]
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
    assert len(kept) == len(SIZES)


def test_bits_that_differ_are_counted() -> None:
    random = np.random.default_rng(3)
    values, query = random.integers(0, 256, (sum(SIZES), 21), np.uint8), random.integers(0, 256, 21, np.uint8)
    _, addresses, lengths = kept = blocks(values)
    found = distances_of_parts(Metric.HAMMING, addresses, lengths, query)
    assert found.tolist() == np.unpackbits(values ^ query, axis=1).sum(1).tolist()
    assert kept


def test_types_in_which_vectors_are_compared() -> None:
    assert [np.dtype(computed_type(name)).str[1:] for name in ("f2", "f4", "f8", "u1")] == ["f4", "f4", "f8", "u1"]


@pytest.mark.parametrize("seed", range(20))
def test_nearest_rows_come_by_distance_then_by_row_id(seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 12, sum(SIZES)).astype("f4")
    keys[random.integers(0, len(keys), 5)] = np.nan
    keys[random.integers(0, len(keys), 2)] = np.inf
    ids = random.permutation(len(keys)).astype(np.uint64) | np.uint64(1 << 63 if seed % 2 else 0)
    of_keys, addresses, lengths = blocks(keys)
    of_ids, id_addresses, _ = blocks(ids)
    for count in (1, 7, len(keys)):
        found_keys, found_ids = np.empty(count, np.float32), np.empty(count, np.uint64)
        arrays = (addresses, id_addresses, lengths, found_keys, found_ids)
        first, second, third, fourth, fifth = map(address_of, arrays)
        number = nearest_rows(first, second, third, len(lengths), count, fourth, fifth)
        order = [place for place in np.lexsort((ids, keys)) if not np.isnan(keys[place])][:count]
        assert found_keys[:number].tolist() == keys[order].tolist()
        assert found_ids[:number].tolist() == ids[order].tolist()
    assert of_keys
    assert of_ids


@pytest.mark.parametrize(("sub_vectors", "words"), [(4, 256), (6, 16), (5, 256)])
@pytest.mark.parametrize("is_dot", [False, True])
def test_codes_have_the_distances_of_their_codewords(sub_vectors: int, words: int, is_dot: bool) -> None:
    random = np.random.default_rng(4)
    width = 3
    codebook = random.normal(size=(sub_vectors, words, width)).astype("f4")
    centroids = random.normal(size=(len(SIZES), sub_vectors * width)).astype("f4")
    query = random.normal(size=sub_vectors * width).astype("f4")
    codes = [random.integers(0, words, (sub_vectors, size)).astype(np.uint8) for size in SIZES]
    expected = []
    for part, centroid in zip(codes, centroids, strict=True):
        decoded = np.concatenate([codebook[j][part[j]] for j in range(sub_vectors)], axis=1)
        residual = query - centroid
        expected += (-(decoded @ query) if is_dot else np.square(decoded - residual).sum(1)).tolist()
    turned = np.ascontiguousarray(codebook.transpose(0, 2, 1))
    table, out = np.empty((sub_vectors, words), np.float32), np.empty(sum(SIZES), np.float32)
    parts = np.array([address_of(part) for part in codes])
    lengths = np.array(SIZES)
    middles = np.array([address_of(centroid) for centroid in centroids])

    def run() -> int:
        return int(
            sums_of_codewords(
                address_of(parts),
                address_of(lengths),
                len(parts),
                address_of(query),
                address_of(middles),
                address_of(turned),
                sub_vectors,
                words,
                width,
                int(is_dot),
                address_of(table),
                address_of(out),
            )
        )

    assert run() == 0
    np.testing.assert_allclose(out, expected, 1e-4, 1e-4)
    if words < 256:
        codes[2][1, 4] = words
        assert run() == -1
