from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.bits import concatenate_bits, split_bits
from lance_spark.kernels.jit import address_of


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.booleans(), max_size=40), min_size=1, max_size=12))
def test_slices_of_bits_join_and_split(slices: list[list[bool]]) -> None:
    parts = [np.packbits(np.array(bits, np.bool_), bitorder="little") for bits in slices]
    data = np.concatenate(parts)
    counts = np.array([len(bits) for bits in slices], np.int64)
    sizes = np.array([len(part) for part in parts], np.int64)
    starts = np.cumsum(sizes) - sizes
    total = int(counts.sum())

    joined = np.full((total + 7) // 8 + 1, 0xFF, np.uint8)
    concatenate_bits(address_of(data), address_of(starts), address_of(counts), len(counts), address_of(joined))
    expected = np.packbits(np.array([bit for bits in slices for bit in bits], np.bool_), bitorder="little")
    assert joined[: len(expected)].tolist() == expected.tolist()

    split = np.full(len(data), 0xFF, np.uint8)
    split_bits(address_of(expected), address_of(counts), len(counts), address_of(split))
    assert split.tolist() == data.tolist()


def test_bits_after_a_slice_are_left_out() -> None:
    data = np.array([0xFF, 0xFF], np.uint8)
    starts, counts, joined = np.array([0, 1]), np.array([3, 2]), np.zeros(2, np.uint8)
    concatenate_bits(address_of(data), address_of(starts), address_of(counts), 2, address_of(joined))
    assert joined.tolist() == [0b11111, 0]
