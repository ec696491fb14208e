from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.offsets import plan_variable_chunks


def plan(sizes: list[int], max_values: int, max_bytes: int) -> tuple[list[int], list[int]]:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    counts, chunk_sizes = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    chunks = plan_variable_chunks(
        address_of(offsets), 4, len(sizes), max_values, max_bytes, address_of(counts), address_of(chunk_sizes)
    )
    return counts[:chunks].tolist(), chunk_sizes[:chunks].tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=200), st.sampled_from([2, 4, 64]), st.sampled_from([64, 512]))
def test_chunks_are_powers_of_two_that_fit(sizes: list[int], max_values: int, max_bytes: int) -> None:
    counts, chunk_sizes = plan(sizes, max_values, max_bytes)
    assert sum(counts) == len(sizes)
    assert all(count.bit_count() == 1 and count > 1 for count in counts[:-1])
    at = 0
    for count, size in zip(counts, chunk_sizes, strict=True):
        needed = (count + 1) * 4 + sum(sizes[at : at + count])
        assert size == -(-needed // 4) * 4
        assert count <= 2 or needed <= max_bytes
        assert count <= max_values
        at += count
