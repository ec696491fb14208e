"""Product quantizers: codebooks and codes.

A codebook is float32[m, k, s]: for each of m sub-vectors of s values its k codewords.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.clustering import nearest_codewords, sum_by_label

Float32Array = npt.NDArray[np.float32]
UInt8Array = npt.NDArray[np.uint8]

_TOLERANCE = 1e-4


def train_codebook(
    vectors: Float32Array, num_sub_vectors: int, num_bits: int, *, max_iters: int = 50, seed: int = 0
) -> Float32Array:
    """The codebook of a sample.

    Args:
        vectors: float32[n, d], C-contiguous; n is at least ``2 ** num_bits``.
        num_sub_vectors: divides d.
    """
    num_words, width = 1 << num_bits, vectors.shape[1] // num_sub_vectors
    codebook = np.empty((num_sub_vectors, num_words, width), np.float32)
    random = np.random.default_rng(seed)
    for number in range(num_sub_vectors):
        own = np.ascontiguousarray(vectors[:, number * width : (number + 1) * width])
        start = own[np.sort(random.choice(len(own), num_words, replace=False))]
        codebook[number] = _train_words(own, start.copy(), max_iters)
    return codebook


def encode(vectors: Float32Array, codebook: Float32Array) -> UInt8Array:
    """uint8[m, n]: the number of the codeword nearest to each sub-vector."""
    num_sub_vectors, _, width = codebook.shape
    codes = np.empty((num_sub_vectors, len(vectors)), np.uint8)
    losses = np.empty(len(vectors), np.float32)
    for number in range(num_sub_vectors):
        _nearest(vectors, number * width, codebook[number], codes[number], losses)
    return codes


def packed(codes: UInt8Array, num_bits: int) -> UInt8Array:
    """uint8[b, n]: the bytes of codes; two of 4 bits in a byte, the first one in the low bits."""
    if num_bits == 8:
        return codes
    pairs: UInt8Array = codes[0::2] | np.left_shift(codes[1::2], 4, dtype=np.uint8)
    return pairs


def unpacked(data: UInt8Array, num_bits: int) -> UInt8Array:
    """Inverse of `packed`."""
    if num_bits == 8:
        return data
    codes = np.empty((2 * len(data), data.shape[1]), np.uint8)
    codes[0::2], codes[1::2] = data & 15, data >> 4
    return codes


def decode(codes: UInt8Array, codebook: Float32Array) -> Float32Array:
    """float32[n, d]: the vectors that codes stand for."""
    parts = [codebook[number][codes[number]] for number in range(len(codebook))]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _train_words(vectors: Float32Array, words: Float32Array, max_iters: int) -> Float32Array:
    num_rows, width = vectors.shape
    codes = np.empty(num_rows, np.uint8)
    losses = np.empty(num_rows, np.float32)
    before = np.inf
    for _ in range(max_iters):
        _nearest(vectors, 0, words, codes, losses)
        loss = float(losses.sum(dtype=np.float64))
        sums = np.zeros(words.shape, np.float64)
        counts = np.zeros(len(words), np.int64)
        labels = codes.astype(np.int32)
        sum_by_label(address_of(vectors), num_rows, width, address_of(labels), address_of(sums), address_of(counts))
        words = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], words).astype(np.float32)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            # The vectors that fit worst become codewords.
            worst = np.argsort(-losses, kind="stable")[: len(empty)]
            words[empty] = vectors[worst]
        elif before - loss <= _TOLERANCE * loss:
            break
        before = loss
    return words


def _nearest(vectors: Float32Array, first: int, words: Float32Array, codes: UInt8Array, losses: Float32Array) -> None:
    stride = vectors.shape[1]
    words = np.ascontiguousarray(words)
    start = address_of(vectors) + first * vectors.itemsize
    arguments = (len(vectors), stride, words.shape[1], address_of(words), len(words))
    nearest_codewords(start, *arguments, address_of(codes), address_of(losses))
