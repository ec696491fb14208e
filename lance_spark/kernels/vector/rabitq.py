"""Magnitude codes of RaBitQ: each value of a vector as a small number, on a scale that is chosen for the vector.

Arguments are addresses and numbers of elements; the caller guarantees that they fit each other: nothing here comes from
a file. Kernels return 0.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import kernel, pointer_f32, pointer_u8

_STEPS = 120
"""Scales that are tried for each vector."""
_LEAST = 0.3
_MOST = 1.05
"""The range of them, as shares of the scale at which the largest value has about the largest code."""


@kernel("int64(int64, int64, int64, int64, int64)", reassociate=True)
def magnitude_codes(vectors, num_vectors, dimension, num_bits, codes):
    """``floor(t * |v| / length)``, at most ``2 ** num_bits - 1``, with the t that gives the least angle to the vector.

    Args:
        vectors: float32[n, d].
        codes: uint8[n, d], written; 0 for a vector of length 0.
    """
    value = pointer_f32(vectors)
    code = pointer_u8(codes)
    limit = np.float32((1 << num_bits) - 1)
    shares = np.empty(dimension, np.float32)
    for i in range(num_vectors):
        start = i * dimension
        square = np.float32(0)
        for j in range(dimension):
            square += value[start + j] * value[start + j]
        if not square > 0:
            for j in range(dimension):
                code[start + j] = 0
            continue
        length = np.sqrt(square)
        largest = np.float32(0)
        for j in range(dimension):
            shares[j] = abs(value[start + j]) / length
            largest = max(largest, shares[j])
        full = np.float32((1 << num_bits) + 9) / largest
        best = np.float32(-1)
        chosen = np.float32(0)
        for step in range(_STEPS):
            scale = full * np.float32(_LEAST + (_MOST - _LEAST) * step / (_STEPS - 1))
            product = np.float32(0)
            squares = np.float32(0)
            for j in range(dimension):
                number = min(np.floor(scale * shares[j] + np.float32(1e-5)), limit) + np.float32(0.5)
                product += number * shares[j]
                squares += number * number
            cosine = product / np.sqrt(squares)
            if cosine > best:
                best = cosine
                chosen = scale
        for j in range(dimension):
            code[start + j] = np.uint8(min(np.floor(chosen * shares[j] + np.float32(1e-5)), limit))
    return 0
