"""Kernels on levels, against plain Python, with memory that ends where the arrays do."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.levels import select_slots, validity_bitmap, visible_levels
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


def test_slots_of_rows_in_runs_of_chunks() -> None:
    # Two runs: the first begins inside of row 3, the second with row 7.
    rep = np.array([0, 0, 1, 0, 1, 1, 1, 0, 1, 0], "<u2")
    definition = np.array([0, 0, 0, 1, 2, 0, 0, 0, 2, 0], "<u2")
    starts, rows = np.array([0, 6], "<i8"), np.array([4, 7], "<i8")
    wanted = np.zeros(9, np.uint8)
    wanted[[5, 7]] = 1
    out_rep, out_def, values, counts = (allocate_guarded(size) for size in (20, 20, 80, 24))
    inputs = [guarded(array.tobytes()) for array in (rep, definition, starts, rows, wanted)]
    rep_in, def_in, starts_in, rows_in, wanted_in = (buffer.address for buffer in inputs)
    status = select_slots(
        rep_in, def_in, 10, 1, 1, starts_in, rows_in, 2, wanted_in, 9,
        out_rep.address, out_def.address, values.address, counts.address,
    )  # fmt: skip
    assert status == 0
    assert np.frombuffer(counts, "<i8").tolist() == [3, 2, 2]
    assert np.frombuffer(out_rep, "<u2")[:3].tolist() == [1, 1, 0]
    assert np.frombuffer(out_def, "<u2")[:3].tolist() == [2, 0, 0]
    assert np.frombuffer(values, "<i8")[:2].tolist() == [5, 6]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 4095, 4096, 4097, 9000])
def test_ascii(n: int) -> None:
    text = np.full(n, 127, np.uint8)
    assert has_only_ascii(guarded(text.tobytes()).address, n) == 1
    for position in {0, n // 2, n - 1} & set(range(n)):
        text[position] = 128
        assert has_only_ascii(guarded(text.tobytes()).address, n) == 0
        text[position] = 127
