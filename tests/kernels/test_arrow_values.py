"""Bits and values cut out of arrays, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels import arrow_values as kernels
from lance_spark.kernels.jit import address_of

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1000])
def test_copy_bits(offset: int, count: int) -> None:
    bits = RNG.integers(0, 2, offset + count).astype(np.uint8)
    # Exactly as many bytes as the bits need, so that a checker of memory would see a byte too far.
    bitmap = np.packbits(bits, bitorder="little")
    target = np.full((count + 7) // 8, 0xAA, np.uint8)
    kernels.copy_bits(address_of(bitmap), offset, count, address_of(target))
    assert target.tolist() == np.packbits(bits[offset:], bitorder="little").tolist()


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 300])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_copy_valid(width: int, count: int) -> None:
    values = RNG.integers(1, 255, (count, width)).astype(np.uint8)
    valid = RNG.random(count) < 0.6
    bitmap = np.packbits(valid, bitorder="little")
    target = np.full((count, width), 7, np.uint8)
    kernels.copy_valid(address_of(values), address_of(bitmap), count, width, 8, address_of(target))
    assert target.tolist() == (values * valid[:, None]).tolist()


@pytest.mark.parametrize("kind", ["<i4", "<i8"])
def test_rebase_offsets(kind: str) -> None:
    offsets = np.array([5, 7, 7, 12, 20], kind)
    target = np.zeros(5, kind)
    wide = kind == "<i8"
    valid = np.packbits([0, 1, 0, 1, 1], bitorder="little")
    assert kernels.rebase_offsets(address_of(offsets), wide, 4, 20, 0, 0, address_of(target)) == 0
    assert target.tolist() == [0, 2, 2, 7, 15]
    # From bit 1 on: valid, null, valid, valid; the null is empty. From bit 0 on: null, valid, null, valid.
    assert kernels.rebase_offsets(address_of(offsets), wide, 4, 20, address_of(valid), 1, address_of(target)) == 0
    assert kernels.rebase_offsets(address_of(offsets), wide, 4, 20, address_of(valid), 0, address_of(target)) == 7
    for bad in ([5, 4, 7, 12, 20], [-1, 4, 7, 12, 20], [5, 7, 7, 12, 21]):
        wrong = np.array(bad, kind)
        assert kernels.rebase_offsets(address_of(wrong), wide, 4, 20, 0, 0, address_of(target)) == -1
