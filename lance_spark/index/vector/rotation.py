"""The fast rotation of RaBitQ: four rounds of sign flips and Walsh-Hadamard transforms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.metrics import Float32Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.rabitq import rotate

_ROUNDS = 4


def random_signs(dimension: int, seed: int) -> bytes:
    """The signs of a new rotation of `dimension` values."""
    return np.random.default_rng(seed).bytes(_ROUNDS * -(-dimension // 8))


def sign_flips(signs: bytes | npt.NDArray[np.uint8], dimension: int) -> Float32Array:
    """float32[4, d]: what each round multiplies the values by, 1 or -1.

    Args:
        signs: four rounds of ``ceil(d / 8)`` bytes; a set bit, least significant first, flips the sign of a value.

    >>> sign_flips(b"\\x01\\x00\\x02\\x00", 2).tolist()
    [[-1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    bits = np.unpackbits(np.frombuffer(signs, np.uint8).reshape(_ROUNDS, -1), axis=1, bitorder="little")
    return 1 - 2 * bits[:, :dimension].astype(np.float32)


def rotated(vectors: npt.NDArray[np.floating], flips: Float32Array) -> Float32Array:
    """float32[n, d]: vectors after the rotation with these `sign_flips`; lengths and products stay."""
    values = np.array(vectors, np.float32, order="C")
    rotate(address_of(values), *values.shape, address_of(flips))
    return values
