"""Rotations, and estimates of distances from codes of RaBitQ, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.rotation import random_signs, rotated, sign_flips
from lance_spark.index.vector.stored.rabit_codes import (
    PACKED_BITS,
    magnitude_bytes,
    packed_sign_panels,
    sign_panels,
    sign_rows,
)
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.rabitq import code_distances, encode

SIZES = (3, 0, 300, 8, 257, 1)


def hadamard(size: int) -> np.ndarray[Any, Any]:
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


@pytest.mark.parametrize("dimension", [8, 64, 104, 136])
def test_rotation_is_that_of_matrices(dimension: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(5, dimension)).astype("f4")
    flips = sign_flips(random_signs(dimension, 7), dimension)
    size = 1 << (dimension.bit_length() - 1)
    expected = vectors.astype("f8")
    for number, flip in enumerate(flips):
        expected = expected * flip
        part = slice(0, size) if number % 2 == 0 else slice(dimension - size, dimension)
        expected[:, part] = expected[:, part] @ hadamard(size)
        if size < dimension:
            low, high = np.split(expected, 2, axis=1)
            expected = np.concatenate([low + high, low - high], axis=1) / np.sqrt(2)
    found = rotated(vectors, flips)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
    np.testing.assert_allclose(found @ found.T, vectors @ vectors.T, 1e-3, 1e-3)


def packed_halves(magnitudes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """uint8[n, 32 * ceil(d / 64)]: numbers of four bits, of each 16 the first eight in the lower halves of bytes."""
    num_rows, dimension = magnitudes.shape
    padded = np.zeros((num_rows, magnitude_bytes(dimension, 5) * 2), np.uint8)
    padded[:, :dimension] = magnitudes
    pairs = padded.reshape(num_rows, padded.shape[1] // 16, 2, 8)
    return np.ascontiguousarray(pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(num_rows, padded.shape[1] // 2)


class _Codes:
    """Codes of random rows in parts; `bounds` are the factors of signs, float32[3, n]."""

    def __init__(self, dimension: int, num_bits: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        total = sum(SIZES)
        self.codes = random.integers(0, 1 << num_bits, (total, dimension)).astype(np.uint8)
        self.signs = self.codes >> (num_bits - 1)
        self.are_packed = num_bits == PACKED_BITS
        self.factors = random.normal(size=(5, total)).astype("f4")
        self.query = random.normal(size=dimension).astype("f4")
        self.terms = random.uniform(0.5, 2, (len(SIZES), 3)).astype("f4")
        self.middle = np.float32(((1 << num_bits) - 1) / 2 * self.query.sum())
        self.starts = np.cumsum(SIZES) - SIZES

    def of_rows(self, column: int) -> np.ndarray[Any, Any]:
        return np.repeat(self.terms[:, column], SIZES)

    def estimates(self, values: np.ndarray[Any, Any], factors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """float64[n]: of codes without their middle."""
        product = values.astype("f8") @ self.query
        return self.of_rows(0) + self.of_rows(1) * factors[0] + factors[1] * product

    def found(self, count: int) -> np.ndarray[Any, Any]:
        rows = [slice(start, start + size) for start, size in zip(self.starts, SIZES, strict=True)]
        parts = [np.ascontiguousarray(self.codes[part]) for part in rows]
        if self.are_packed:
            parts = [packed_halves(part & 15) for part in parts]
        panels = [sign_panels(np.packbits(self.signs[part], axis=1, bitorder="little")) for part in rows]
        factors = [np.ascontiguousarray(self.factors[:, part]) for part in rows]
        addresses = [np.array([address_of(item) for item in items]) for items in (parts, panels, factors)]
        out, lengths = np.empty(sum(SIZES), np.float32), np.array(SIZES)
        places = [address_of(array) for array in (*addresses, lengths)]
        dimension = self.codes.shape[1]
        rest = (self.middle, address_of(self.terms), count, self.are_packed, address_of(out))
        code_distances(*places, len(SIZES), dimension, address_of(self.query), *rest)
        return out


@pytest.mark.parametrize("dimension", [8, 104, 128, 200])
@pytest.mark.parametrize("num_bits", [1, 5, 8])
def test_estimates_of_all_rows(dimension: int, num_bits: int) -> None:
    codes = _Codes(dimension, num_bits)
    expected = codes.estimates(codes.codes - ((1 << num_bits) - 1) / 2, codes.factors)
    np.testing.assert_allclose(codes.found(0), expected, 1e-3, 1e-2 * (1 << num_bits))


@pytest.mark.parametrize("dimension", [8, 104, 128, 200])
@pytest.mark.parametrize("count", [1, 10, 100, 2000])
@pytest.mark.parametrize("num_bits", [5, 6])
def test_rows_are_ruled_out_by_bounds_that_hold(dimension: int, count: int, num_bits: int) -> None:
    codes = _Codes(dimension, num_bits, seed=count)
    every = codes.found(0)
    # Factors with which the error bound of each row is as large as its error, with room for sums of float32.
    of_signs = codes.estimates(codes.signs - 0.5, codes.factors[2:])
    codes.factors[4] = (np.maximum(of_signs - every, 0) + 1e-2) / codes.of_rows(2)
    found = codes.found(count)
    kept = ~np.isnan(found)
    assert found[kept].tolist() == every[kept].tolist()
    assert np.sort(found[kept])[:count].tolist() == np.sort(every)[:count].tolist()
    assert kept.all() if count > len(every) else not kept.all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bounds_that_are_no_numbers_rule_nothing_out(value: float) -> None:
    codes = _Codes(64, 5)
    every = codes.found(0)
    codes.factors[4] = value
    assert codes.found(3).tolist() == every.tolist()


@pytest.mark.parametrize("num_bits", [0, 1, 4, 8])
@pytest.mark.parametrize("dimension", [8, 104])
def test_codes_and_their_sums(dimension: int, num_bits: int) -> None:
    random = np.random.default_rng(num_bits)
    values, centers = random.normal(size=(50, dimension)).astype("f4"), random.normal(size=(3, dimension)).astype("f4")
    values[7], values[8, :4] = 0, [0.0, -0.0, 1e-30, -1e-30]
    labels = random.integers(0, 3, 50).astype(np.int32)
    signs, codes = np.empty((50, dimension // 8), np.uint8), np.empty((50, dimension), np.uint8)
    sums = np.empty((50, 6))
    addresses = [address_of(array) for array in (centers, labels, signs, codes, sums)]
    encode(address_of(values), 50, dimension, num_bits, *addresses)
    positive = ~np.signbit(values)
    assert np.unpackbits(signs, axis=1, bitorder="little").tolist() == positive.astype(int).tolist()
    halves = np.where(positive, 0.5, -0.5)
    magnitudes = np.where(positive, codes, ~codes & ((1 << num_bits) - 1)) + 0.5 if num_bits else np.abs(halves)
    both, own = halves * 2 * magnitudes, centers[labels].astype("f8")
    pairs = [(values, values), (values, own), (values, halves), (own, halves), (values, both), (own, both)]
    expected = [np.einsum("ij,ij->i", one.astype("f8"), other.astype("f8")) for one, other in pairs]
    np.testing.assert_allclose(sums, np.stack(expected, axis=1), 1e-9, 1e-9)


@pytest.mark.parametrize("num_bits", [1, 2, 4, 8])
def test_magnitudes_are_near_the_vectors(num_bits: int) -> None:
    """The mean of 1 - cosine is at most 10 % above that of a search over 1,000 scales."""
    values = np.random.default_rng(5).normal(size=(100, 128)).astype("f4")
    zeros, labels = np.zeros((1, 128), np.float32), np.zeros(100, np.int32)
    signs, codes, sums = np.empty((100, 16), np.uint8), np.empty((100, 128), np.uint8), np.empty((100, 6))
    addresses = [address_of(array) for array in (zeros, labels, signs, codes, sums)]
    encode(address_of(values), 100, 128, num_bits, *addresses)
    sizes = np.abs(values) / np.linalg.norm(values, axis=1, keepdims=True)

    def losses(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return 1 - np.einsum("ij,ij->i", found, sizes) / np.linalg.norm(found, axis=1)

    limit = (1 << num_bits) - 1
    scales = (np.linspace(0.1, 1.1, 1000)[:, None] * (limit + 10) / sizes.max(axis=1))[:, :, None]
    best = np.min([losses(np.minimum(np.floor(scale * sizes), limit) + 0.5) for scale in scales], axis=0)
    own = losses(np.where(np.signbit(values), ~codes & limit, codes) + 0.5)
    assert own.mean() <= best.mean() * 1.1


@pytest.mark.parametrize("width", [5, 8, 13])
@pytest.mark.parametrize("num_rows", [0, 1, 31, 32, 100])
def test_packed_signs_are_those_of_rows(num_rows: int, width: int) -> None:
    rows = np.random.default_rng(num_rows).integers(0, 256, (num_rows, width), dtype=np.uint8)
    order, stored = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15], []
    for start in range(0, num_rows // 32 * 32, 32):
        for byte in rows[start : start + 32].T:
            stored += [byte[row] & 15 | (byte[row + 16] & 15) << 4 for row in order]
            stored += [byte[row] >> 4 | byte[row + 16] & 240 for row in order]
    stored += rows[num_rows // 32 * 32 :].T.ravel().tolist()
    packed = np.array(stored, np.uint8).reshape(rows.shape)
    panels = packed_sign_panels(packed)
    assert panels.tolist() == sign_panels(rows).tolist()
    assert sign_rows(panels, *rows.shape).tolist() == rows.tolist()


@pytest.mark.parametrize("dimension", [8, 64, 104, 136])
def test_packed_codes_are_unpacked_where_they_are_compared(dimension: int) -> None:
    """The estimates for a query that is 1 in one dimension are the codes of that dimension."""
    codes = _Codes(dimension, PACKED_BITS)
    codes.factors[0], codes.factors[1], codes.terms[:, 0], codes.middle = 0, 1, 0, np.float32(0)
    for place in range(dimension):
        codes.query = np.eye(dimension, dtype=np.float32)[place]
        assert codes.found(0).tolist() == codes.codes[:, place].tolist()
