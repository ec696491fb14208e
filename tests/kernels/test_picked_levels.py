"""Levels of rows out of packed chunks, beside their definition on decoded levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import FixedWidthBlock
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.kernels.layouts.picked_levels import MAX_CHUNK_LEVELS, SCRATCH_LEVELS, pick_levels
from tests.support.guarded_memory import allocate_guarded, guarded

_Array = np.ndarray[Any, Any]


class _Chunks:
    """Chunks of these numbers of random slots of lists of lists; levels 2 and 3 have no value."""

    def __init__(self, sizes: list[int], row_share: float, widths: tuple[int, int] = (2, 2)) -> None:
        rng = np.random.default_rng(sum(sizes))
        total = sum(sizes)
        self.rep = rng.choice([0, 1, 2], total, p=[0.8 - row_share, 0.2, row_share]).astype("<u2")
        self.definition = rng.integers(0, 4, total).astype("<u2")
        if total:
            self.rep[0] = 2
        self.sizes = np.array(sizes, "<i8")
        self.first_slots = np.concatenate([[0], np.cumsum(self.sizes)]).astype("<i8")
        self.first_values = np.array([int((self.definition[:stop] <= 1).sum()) for stop in self.first_slots], "<i8")
        self.data, self.tables = b"", []
        for levels, width in zip((self.rep, self.definition), widths, strict=True):
            encoded = OutOfLineBitpacking.encode_blocks(
                FixedWidthBlock(pa.py_buffer(levels), 16, total), self.sizes, width
            ).chunks
            self.tables.append(np.array([encoded.starts + len(self.data), encoded.sizes], "<i8"))
            self.data += encoded.data.to_pybytes()
        self.widths = widths

    def bounds(self) -> list[tuple[int, int, int]]:
        """(chunk, ordinal, slot) of each start of a row, in order, and of the end."""
        found = []
        for chunk, size in enumerate(self.sizes.tolist()):
            first = int(self.first_slots[chunk])
            starts = np.flatnonzero(self.rep[first : first + size] == 2) + first
            found += [(chunk, place, slot) for place, slot in enumerate(starts.tolist())]
        last = len(self.sizes) - 1
        ordinal = sum(chunk == last for chunk, _, _ in found)
        return [*found, (last, ordinal, int(self.first_slots[-1]))]

    def pick(
        self, bounds: list[tuple[int, int]], *, with_definition: bool = True
    ) -> tuple[int, _Array, _Array, list[int]]:
        """(status, repetition, definition, values) of `pick_levels`."""
        first_values = self.first_values if with_definition else self.first_slots
        chunks, ordinals = np.array(bounds, "<i8").reshape(-1, 2).T
        arrays = (*self.tables, self.sizes, first_values, chunks, ordinals)
        rep, definition, sizes, firsts, *wanted = [guarded(array.astype("<i8").tobytes()) for array in arrays]
        data, scratch = guarded(self.data), allocate_guarded(4 * SCRATCH_LEVELS)
        reps, defs = (allocate_guarded(2 * len(self.rep)) for _ in range(2))
        values = allocate_guarded(8 * len(bounds))
        status = pick_levels(
            data.address, rep.address, self.widths[0], definition.address * with_definition, self.widths[1],
            sizes.address, firsts.address, len(self.sizes), 2, 1, *[table.address for table in wanted], len(bounds),
            scratch.address, reps.address, defs.address, values.address,
        )  # fmt: skip
        picked = [np.frombuffer(levels, "<u2")[: max(status, 0)] for levels in (reps, defs)]
        return status, *picked, np.frombuffer(values, "<i8").tolist()


@pytest.mark.parametrize("sizes", [[10], [64, 63], [128, 1], [1000, 1024, 1025, 3], [5000, 0, 70], [65535, 2]])
@pytest.mark.parametrize("row_share", [0.5, 0.01])
@pytest.mark.parametrize("widths", [(2, 2), (2, 3), (16, 2)])
def test_levels_of_rows(sizes: list[int], row_share: float, widths: tuple[int, int]) -> None:
    made = _Chunks(sizes, row_share, widths)
    bounds = made.bounds()
    for step, gap in ((1, 1), (1, 5), (3, 0), (40, 700), (len(bounds), 1)):
        pairs = [(i, min(i + step, len(bounds) - 1)) for i in range(0, len(bounds) - 1, step + gap)]
        wanted = [bounds[i] for pair in pairs for i in pair]
        slots = np.concatenate([np.arange(bounds[i][2], bounds[j][2]) for i, j in pairs])
        for with_definition in (True, False):
            status, rep, definition, values = made.pick(
                [bound[:2] for bound in wanted], with_definition=with_definition
            )
            assert status == len(slots)
            assert rep.tolist() == made.rep[slots].tolist()
            if with_definition:
                assert definition.tolist() == made.definition[slots].tolist()
                assert values == [int((made.definition[:slot] <= 1).sum()) for _, _, slot in wanted]
            else:
                assert values == [slot for _, _, slot in wanted]


def test_a_range_that_ends_with_its_chunk() -> None:
    made = _Chunks([70, 50], 0.3)
    count = sum(chunk == 0 for chunk, _, _ in made.bounds())
    status, rep, _, values = made.pick([(0, 0), (0, count)])
    assert (status, values) == (70, [0, made.first_values[1]])
    assert rep.tolist() == made.rep[:70].tolist()


def test_bounds_that_are_not_in_their_chunk() -> None:
    made = _Chunks([300, 200], 0.3)
    count = sum(chunk == 0 for chunk, _, _ in made.bounds())
    for bounds in (
        [(0, 0), (0, count + 1)],
        [(0, count), (1, 0)],
        [(0, 5), (0, 3)],
        [(0, 0), (2, 0)],
        [(1, 0), (0, 1)],
    ):
        assert made.pick(bounds)[0] < 0, bounds
    made.first_values[1] = 5
    assert made.pick([(0, 0), (0, count)])[0] < 0


@pytest.mark.parametrize("table", [0, 1])
def test_chunks_that_are_too_short(table: int) -> None:
    made = _Chunks([1500, 2000], 0.3)
    made.tables[table][1, 1] -= 1
    assert made.pick([(0, 0), (0, 1)])[0] < 0


@pytest.mark.parametrize("count", [-1, MAX_CHUNK_LEVELS, 1 << 62])
def test_impossible_numbers_of_slots(count: int) -> None:
    made = _Chunks([1500], 0.3)
    made.sizes = np.array([count], "<i8")
    assert made.pick([(0, 0), (0, 1)])[0] < 0
