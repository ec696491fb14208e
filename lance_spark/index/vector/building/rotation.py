"""The fast rotation of RaBitQ: four rounds of sign flips and Walsh-Hadamard transforms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]

_ROUNDS = 4


def random_signs(dimension: int, seed: int) -> bytes:
    """The signs of a new rotation of `dimension` values."""
    return np.random.default_rng(seed).bytes(_ROUNDS * -(-dimension // 8))


def rotated(vectors: Float32Array, signs: bytes) -> Float32Array:
    """float32[n, d]: vectors of d values after the rotation; lengths and products stay.

    Args:
        signs: four rounds of ``ceil(d / 8)`` bytes; a set bit, least significant first, flips the sign of a value.
    """
    dimension = vectors.shape[1]
    bits = np.unpackbits(np.frombuffer(signs, np.uint8).reshape(_ROUNDS, -1), axis=1, bitorder="little")
    flips = 1 - 2 * bits[:, :dimension].astype(np.float32)
    power = 1 << (dimension.bit_length() - 1)
    scale = np.float32(1 / np.sqrt(power))
    values = np.array(vectors, np.float32)
    for number in range(_ROUNDS):
        values *= flips[number]
        if power == dimension:
            values = _transformed(values) * scale
            continue
        part = slice(0, power) if number % 2 == 0 else slice(dimension - power, dimension)
        values[:, part] = _transformed(values[:, part]) * scale
        half = dimension // 2
        low, high = values[:, :half].copy(), values[:, half : 2 * half].copy()
        values[:, :half], values[:, half : 2 * half] = low + high, low - high
    return values if power == dimension else values * np.float32(0.25)


def _transformed(values: Float32Array) -> Float32Array:
    """The Walsh-Hadamard transform of rows, whose length is a power of two, not normalized."""
    num_rows, width = values.shape
    half = 1
    while half < width:
        pairs = values.reshape(num_rows, width // (2 * half), 2, half)
        values = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        values = values.reshape(num_rows, width)
        half *= 2
    return values
