"""Codes of a scalar quantizer, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import Kernel, address_of
from lance_spark.kernels.vector.scalar_codes import scalar_codes_f32, scalar_codes_f64


@pytest.mark.parametrize(("dtype", "encode"), [("f4", scalar_codes_f32), ("f8", scalar_codes_f64)])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-0.3, 2.7), (0.0, 1e-30), (-1e30, 1e30)])
def test_codes_are_those_of_numpy(dtype: str, encode: Kernel, low: float, high: float) -> None:
    random = np.random.default_rng(3)
    inside = random.uniform(low, high, 1000)
    steps = low + (high - low) * np.arange(256) / 255
    ends = [low, high, low - (high - low), high + (high - low), 0.0, -0.0, 3e38, -3e38]
    values = np.concatenate([inside, steps, ends]).astype(dtype)
    codes = np.empty(len(values), np.uint8)
    encode(address_of(values), len(values), low, high, address_of(codes))
    expected = np.clip((values.astype("f8") - low) * 255 / (high - low), 0, 255).astype(np.uint8)
    assert codes.tolist() == expected.tolist()
