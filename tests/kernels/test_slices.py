from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import concatenate, find_in_memory, gather_rows, scatter_rows, scatter_slices


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 40])
def test_columns_leave_and_enter_rows(width: int) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (50, width + 5), np.uint8)
    column = np.zeros((50, width), np.uint8)
    gather_rows(address_of(rows) + 3, width + 5, width, 50, address_of(column))
    assert column.tolist() == rows[:, 3 : 3 + width].tolist()

    target = np.zeros_like(rows)
    scatter_rows(address_of(column), width + 5, width, 50, address_of(target) + 3)
    expected = np.zeros_like(rows)
    expected[:, 3 : 3 + width] = column
    assert target.tolist() == expected.tolist()


def test_slices_join_and_spread() -> None:
    data = np.arange(20, dtype=np.uint8)
    starts, lengths = np.array([5, 0, 19]), np.array([3, 0, 1])
    joined = np.zeros(4, np.uint8)
    concatenate(address_of(data), address_of(starts), address_of(lengths), 3, address_of(joined))
    assert joined.tolist() == [5, 6, 7, 19]
    spread, places = np.zeros(8, np.uint8), np.array([4, 0, 1])
    scatter_slices(address_of(data), address_of(starts), address_of(lengths), 3, address_of(places), address_of(spread))
    assert spread.tolist() == [0, 19, 0, 0, 5, 6, 7, 0]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(104, 6), (230, 70), (300, 0), (215, 1)], [5004, 7020, 5004, 7005]),
        ([(110, 0), (150, 0)], None),  # Between the files.
        ([(104, 7)], None),
        ([(230, 71)], None),
        ([(209, 2)], None),  # Not in memory.
        ([(301, 0)], None),
        ([(99, 1)], None),
        ([(110, 0), (300, 0)], [0, 0]),
    ],
)
def test_ranges_of_files_in_memory(ranges: list[tuple[int, int]], expected: list[int] | None) -> None:
    """A file of 10 bytes from 100, and one of 100 bytes from 200, whose first ten are not in memory."""
    files = np.array([[100, 200], [10, 100], [0, 10], [5000, 7000]], np.int64)
    starts, lengths = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    found = np.full(len(ranges) + 2, -1, np.int64)
    count = find_in_memory(
        address_of(starts), address_of(lengths), len(ranges), address_of(files), 2, address_of(found)
    )
    assert (count == len(ranges)) == (expected is not None)
    if expected is not None:
        assert found[: len(ranges)].tolist() == expected
        filled = [(at, at + size) for at, (_, size) in zip(expected, ranges, strict=True) if size]
        assert found[len(ranges) :].tolist() == [
            min(filled)[0] if filled else 0,
            max([0, *(stop for _, stop in filled)]),
        ]
