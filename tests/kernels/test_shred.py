"""The first codes of a path, against numpy; the other kernels are tested through `layouts.shred`."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import shred as kernels


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1000])
def test_first_nulls(offset: int, count: int) -> None:
    valid = np.random.default_rng(0).random(offset + count) < 0.5
    bitmap = np.packbits(valid, bitorder="little")
    codes = np.full(count, 99, np.uint16)
    kernels.first_nulls(address_of(bitmap), offset, count, 3, address_of(codes))
    assert codes.tolist() == (3 * ~valid[offset:]).tolist()
