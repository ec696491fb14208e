"""Texts are compared as Python compares their bytes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lance_spark.index.btree_pages import _texts_ascend
from lance_spark.kernels.text_order import texts_ascend


def _texts(chosen: random.Random, count: int) -> list[bytes]:
    """Some that begin alike, also for eight bytes, and empty ones."""
    return [
        chosen.choice([b"", b"common beginning ", b"\xff"])
        + bytes(chosen.choices(b"ab\x00\xff", k=chosen.randrange(3)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("dtype", [pa.binary(), pa.large_binary()])
def test_texts_are_compared_as_python_compares_bytes(dtype: pa.DataType) -> None:
    chosen = random.Random(4)
    outcomes = set()
    for _ in range(2000):
        lower, upper = _texts(chosen, 2), _texts(chosen, 2)
        expected = all(one <= other for one, other in zip(lower, upper, strict=True))
        # Slices, as those of a page and its neighbours are.
        slices = [pa.array([b"before", *texts, b"after"], dtype).slice(1, 2) for texts in (lower, upper)]
        assert _texts_ascend(*slices) is expected
        outcomes.add(expected)
    assert outcomes == {False, True}


@pytest.mark.parametrize("offsets", [[0, 9], [5, 3], [-1, 2]])
def test_offsets_outside_of_the_bytes_are_told(offsets: list[int]) -> None:
    data, known = pa.py_buffer(b"12345678"), pa.array([0, 3], pa.int64()).buffers()[1]
    wrong = pa.array(offsets, pa.int64()).buffers()[1]
    for lower, upper in ((wrong, known), (known, wrong)):
        found = texts_ascend(lower.address, data.address, 8, upper.address, data.address, 8, 1, 8)
        assert found == -1
