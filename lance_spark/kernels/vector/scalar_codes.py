"""Codes of a scalar quantizer: each value of a vector as a byte between two bounds.

Arguments are addresses and numbers of elements, and the bounds, `low` below `high`. The results are computed in
float64: ``(value - low) * 255 / (high - low)``, cut at 0 and 255, without its fraction. Values must be finite. Kernels
return 0.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.jit import inlined, kernel, pointer_f32, pointer_f64, pointer_u8


@inlined
def _encode(values, num_values, low, high, codes):
    for i in range(num_values):
        scaled = (np.float64(values[i]) - low) * 255.0 / (high - low)
        codes[i] = np.uint8(np.int32(min(max(scaled, 0.0), 255.0)))
    return 0


@kernel("int64(int64, int64, float64, float64, int64)")
def scalar_codes_f32(values, num_values, low, high, codes):
    """codes (uint8[n], written) of float32[n]."""
    return _encode(pointer_f32(values), num_values, low, high, pointer_u8(codes))


@kernel("int64(int64, int64, float64, float64, int64)")
def scalar_codes_f64(values, num_values, low, high, codes):
    """codes (uint8[n], written) of float64[n]."""
    return _encode(pointer_f64(values), num_values, low, high, pointer_u8(codes))
