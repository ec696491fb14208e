"""Kernels on levels, against plain Python, with memory that ends where the arrays do."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.levels import count_visible, row_places, validity_bitmap, visible_levels
from lance_spark.kernels.utf8 import has_only_ascii
from tests.support.guarded_memory import allocate_guarded, guarded


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("limit", [0, 1, 2, 32766])
def test_validity_bitmap(n: int, limit: int) -> None:
    levels = np.random.default_rng(n).choice([0, 1, 2, 3, 32766], n).astype("<u2")
    bitmap = allocate_guarded((n + 7) // 8)
    assert validity_bitmap(guarded(levels.tobytes()).address, n, limit, 32766, bitmap.address) == 0
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")[:n]
    assert bits.tolist() == (levels <= limit).astype(int).tolist()


@pytest.mark.parametrize("position", [0, 5, 8, 15, 16, 18])
@pytest.mark.parametrize("level", [3, 4, 32767, 32768, 65535])
def test_levels_out_of_bounds_are_found(position: int, level: int) -> None:
    levels = np.zeros(19, "<u2")
    levels[position] = level
    bitmap = allocate_guarded(3)
    assert validity_bitmap(guarded(levels.tobytes()).address, 19, 0, 2, bitmap.address) == -1


def test_visible_levels() -> None:
    levels = np.array([0, 3, 1, 2, 4, 0], "<u2")
    out = allocate_guarded(12)
    assert visible_levels(guarded(levels.tobytes()).address, 6, 2, out.address) == 4
    assert np.frombuffer(out, "<u2", 4).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 32768, 70_000])
def test_count_visible(n: int) -> None:
    levels = np.random.default_rng(n).integers(0, 5, n).astype("<u2")
    assert count_visible(guarded(levels.tobytes()).address, n, 2) == int((levels <= 2).sum())


def test_places_of_rows_in_runs_of_chunks() -> None:
    # Two runs: the first begins inside of a row, the second with a row.
    rep = np.array([0, 0, 1, 0, 1, 1, 1, 0, 1, 0], "<u2")
    definition = np.array([0, 0, 0, 1, 2, 0, 0, 0, 2, 0], "<u2")
    inputs = [guarded(array.tobytes()) for array in (rep, definition, np.array([0, 6], "<i8"))]
    for with_levels, values in ((1, [2, 4, 4, 5, 5, 7, 8]), (0, [2, 4, 5, 6, 6, 8, 10])):
        run_rows, out_slots, out_values = allocate_guarded(16), allocate_guarded(64), allocate_guarded(64)
        count = row_places(
            inputs[0].address, inputs[1].address * with_levels, 10, 1, 1, inputs[2].address, 2,
            run_rows.address, out_slots.address, out_values.address,
        )  # fmt: skip
        assert count == 7
        assert np.frombuffer(run_rows, "<i8").tolist() == [3, 2]
        assert np.frombuffer(out_slots, "<i8")[:7].tolist() == [2, 4, 5, 6, 6, 8, 10]
        assert np.frombuffer(out_values, "<i8")[:7].tolist() == values


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 4095, 4096, 4097, 9000])
def test_ascii(n: int) -> None:
    text = np.full(n, 127, np.uint8)
    assert has_only_ascii(guarded(text.tobytes()).address, n) == 1
    for position in {0, n // 2, n - 1} & set(range(n)):
        text[position] = 128
        assert has_only_ascii(guarded(text.tobytes()).address, n) == 0
        text[position] = 127
