"""Levels of chunks, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import mini_block_write as kernels
from tests.support.guarded_memory import allocate_guarded


def u16(*levels: int) -> np.ndarray:
    return np.array(levels, np.uint16)


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def index_of(reps: list[int], num_levels: list[int], max_rep: int) -> list[list[int]]:
    target = np.full((len(num_levels), 2), -1, np.int64)
    levels, counts = u16(*reps), i64(*num_levels)
    kernels.repetition_index(address_of(levels), address_of(counts), len(num_levels), max_rep, address_of(target))
    return target.tolist()


@pytest.mark.parametrize(
    ("reps", "num_levels", "max_rep", "expected"),
    [
        # A row that ends with its chunk belongs to it and leaves nothing over.
        ([1, 0, 1, 0], [2, 2], 1, [[1, 0], [1, 0]]),
        # One that does not leaves its levels since its start, and is counted where it ends.
        ([1, 0, 1, 0, 0, 1], [3, 3], 1, [[1, 1], [2, 0]]),
        # A row over three chunks: the middle one is all of it.
        ([1, 0, 0, 0, 0, 1], [2, 2, 2], 1, [[0, 2], [0, 2], [2, 0]]),
        # Inner lists start no row.
        ([2, 0, 1, 0, 1, 2], [3, 3], 2, [[0, 3], [2, 0]]),
        ([1], [1], 1, [[1, 0]]),
    ],
)
def test_repetition_index(reps: list[int], num_levels: list[int], max_rep: int, expected: list[list[int]]) -> None:
    assert index_of(reps, num_levels, max_rep) == expected


def test_placeholders_go_with_the_next_value_and_at_the_end_with_the_last_chunk() -> None:
    defs = u16(0, 2, 0, 2, 2, 1, 0, 2)
    num_values, num_levels = i64(1, 2, 1), i64(-1, -1, -1)
    largest = kernels.chunk_levels(address_of(defs), 8, 1, address_of(num_values), 3, address_of(num_levels))
    assert num_levels.tolist() == [1, 5, 2]
    assert largest == 5


def test_more_values_than_levels_are_noticed() -> None:
    defs, num_values, num_levels = u16(0, 2), i64(1, 1), i64(0, 0)
    assert kernels.chunk_levels(address_of(defs), 2, 1, address_of(num_values), 2, address_of(num_levels)) == -1


def test_longest_window_and_fewest_values() -> None:
    defs = u16(0, 2, 2, 0, 0, 2, 2, 2)
    assert [kernels.longest_window(address_of(defs), 8, 1, window) for window in (1, 2, 4)] == [3, 4, 8]
    assert [kernels.fewest_values(address_of(defs), 8, 1, block) for block in (2, 4, 8, 16)] == [0, 1, 3, 16]


@pytest.mark.parametrize("wide", [False, True])
def test_write_chunks(wide: bool) -> None:
    """Header (levels, sizes), padding FE, levels, values; every part from a multiple of 8 bytes."""
    level_data, value_data = np.arange(1, 5, dtype=np.uint8), np.arange(11, 31, dtype=np.uint8)
    tables = [i64(0, 2), i64(2, 2), i64(0, 12), i64(12, 8)]
    sources = np.array(
        [
            [address_of(level_data), address_of(tables[0]), address_of(tables[1])],
            [address_of(value_data), address_of(tables[2]), address_of(tables[3])],
        ]
    )
    num_levels, num_values = i64(2, 3), i64(8, 3)
    words, target = np.zeros(2, np.uint32 if wide else np.uint16), allocate_guarded(2 * (16 + 2 * 11) + 24)
    written = kernels.write_chunks(
        address_of(num_levels),
        1,
        address_of(sources),
        2,
        address_of(num_values),
        2,
        wide,
        address_of(words),
        target.address,
    )
    sizes = ["0200 0c000000", "0200 08000000"] if wide else ["0200 0c00 fefe", "0200 0800 fefe"]
    expected = "".join(
        [
            f"0200 {sizes[0]} 0102 fefefefefefe 0b0c0d0e0f101112 13141516 fefefefe",
            f"0300 {sizes[1]} 0304 fefefefefefe 1718191a1b1c1d1e",
        ]
    )
    assert target.slice(0, written).to_pybytes() == bytes.fromhex(expected)
    assert words.tolist() == [(32 // 8 - 1) << 4 | 3, (24 // 8 - 1) << 4]


@pytest.mark.parametrize("size", [32_760, 32_761, 70_000])
def test_chunks_of_32_kib_are_the_largest_of_narrow_pages(size: int) -> None:
    """The header takes 8 bytes."""
    data, starts, sizes, num_values = np.ones(size, np.uint8), i64(0), i64(size), i64(1)
    sources = i64(address_of(data), address_of(starts), address_of(sizes))
    words, target = np.zeros(1, np.uint32), allocate_guarded(16 + 11 + size)
    arguments = (0, 0, address_of(sources), 1, address_of(num_values), 1)
    narrow = kernels.write_chunks(*arguments, False, address_of(words), target.address)
    assert narrow == (32_768 if size == 32_760 else -1)
    assert kernels.write_chunks(*arguments, True, address_of(words), target.address) == 8 + (size + 7) // 8 * 8
