from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.mini_block.chunks import moved_ranges, touched_by_values
from lance_spark.layouts.row_bits import RowBits
from lance_spark.layouts.row_selection import take_ranges

RANGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=30)
"""(gap before, length) of ranges."""


def _ranges(parts: list[tuple[int, int]], stretch: int = 1) -> RowRanges:
    stops = np.cumsum(np.array([gap + length for gap, length in parts], np.int64))
    starts = stops - np.array([length for _, length in parts], np.int64)
    # Every second number of a table, so that the arrays are not contiguous.
    table = np.repeat(np.stack([starts, stops]), stretch, axis=1)[:, ::stretch]
    return RowRanges(table[0], table[1])


@settings(max_examples=100, deadline=None)
@given(RANGES, st.integers(1, 2))
def test_ranges_of_numbers(parts: list[tuple[int, int]], stretch: int) -> None:
    numbers = np.repeat(_ranges(parts).indices(), stretch)[::stretch]
    rows = RowRanges.of_numbers(numbers)
    assert rows.indices().tolist() == numbers.tolist()
    assert RowRanges(rows.starts, rows.stops).indices().tolist() == numbers.tolist()
    assert rows.num_rows == len(numbers)
    assert rows.are_apart
    assert RowRanges(rows.starts, rows.stops).are_apart


@pytest.mark.parametrize("numbers", [[3, 3], [4, 3], [1, 2, 2]])
def test_numbers_that_do_not_ascend_are_refused(numbers: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        RowRanges.of_numbers(np.array(numbers))


@settings(max_examples=100, deadline=None)
@given(RANGES, st.integers(1, 2))
def test_numbers_of_ranges(parts: list[tuple[int, int]], stretch: int) -> None:
    rows = _ranges(parts, stretch)
    pairs = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
    assert rows.indices().tolist() == [row for start, stop in pairs for row in range(start, stop)]


@settings(max_examples=100, deadline=None)
@given(RANGES.filter(len), st.integers(1, 2))
def test_mask_of_ranges(parts: list[tuple[int, int]], stretch: int) -> None:
    rows = _ranges(parts, stretch)
    wanted = set(rows.indices().tolist())
    span = range(int(rows.starts[0]), int(rows.stops[-1]))
    assert rows.mask().to_pylist() == [row in wanted for row in span]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(range(500)),
        pa.array([None if value % 7 == 0 else value for value in range(500)], pa.int16()),
        pa.array([None if value % 5 == 0 else value % 3 == 0 for value in range(500)]),
        pa.array([f"text {value}" for value in range(500)]),
        pa.array([[value] * (value % 3) for value in range(500)]),
        pa.array([[[value, None]] for value in range(500)], pa.list_(pa.list_(pa.int32(), 2), 1)),
    ],
    ids=lambda values: str(values.type),
)
def test_many_and_few_rows_are_those_of_their_numbers(values: pa.Array) -> None:
    rng = np.random.default_rng(1)
    rows = values.to_pylist()
    for share in (0.05, 0.2, 0.3, 0.6, 0.95):
        numbers = np.flatnonzero(rng.random(450) < share) + 20
        taken = take_ranges(values, RowRanges.of_numbers(numbers))
        taken.validate(full=True)
        assert taken.to_pylist() == [rows[number] for number in numbers.tolist()]


def test_range_that_ends_before_it_begins_has_no_numbers() -> None:
    for starts, stops in (([0, 9], [4, 7]), ([5, 9], [4, 20]), ([9, 0], [7, 4])):
        with pytest.raises(ValueError, match="ends before it begins"):
            RowRanges(np.array(starts), np.array(stops)).indices()


@settings(max_examples=150, deadline=None)
@given(RANGES, st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 2))
def test_chunks_of_ranges(parts: list[tuple[int, int]], sizes: list[int], stretch: int) -> None:
    rows = _ranges(parts, stretch)
    ends = np.cumsum(np.array(sizes, np.int64))
    firsts = ends - np.array(sizes)
    owners = [next((chunk for chunk, end in enumerate(ends) if row < end), None) for row in rows.indices().tolist()]
    chosen = touched_by_values(ends, rows).tolist()
    assert [chunk for chunk in chosen if sizes[chunk]] == sorted({owner for owner in owners if owner is not None})
    moves = np.arange(len(sizes)) * 100
    moved = moved_ranges(rows, firsts, moves)
    last = np.searchsorted(firsts, rows.starts, "right") - 1
    assert (moved.starts - rows.starts).tolist() == moves[last].tolist()
    assert (moved.stops - rows.stops).tolist() == moves[last].tolist()


@pytest.mark.parametrize("count", [1, 10, 2048, 2049, 9000])
@pytest.mark.parametrize("longest", [1, 4])
def test_rows_within_a_stretch(count: int, longest: int) -> None:
    rng = np.random.default_rng(count + longest)
    starts = np.cumsum(rng.integers(longest, longest + 5, count))
    rows = RowRanges(starts, starts + rng.integers(1, longest + 1, count))
    end = int(rows.stops[-1]) + 3
    for start, stop in [(0, end), (0, 1), (end - 2, end), *np.sort(rng.integers(0, end, (30, 2)), axis=1).tolist()]:
        inside = rows.within(start, stop)
        expected = [row - start for row in rows.indices().tolist() if start <= row < stop]
        assert inside.indices().tolist() == expected
        assert bool((inside.starts < inside.stops).all())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), max_size=300), st.integers(0, 9), st.integers(0, 500))
def test_rows_of_bits_are_those_of_their_ranges(bits: list[bool], offset: int, first_row: int) -> None:
    keep = pa.array([True] * offset + bits + [True]).slice(offset, len(bits))
    rows = RowBits(keep, first_row, sum(bits))
    same = RowRanges.of_numbers(np.flatnonzero(np.array(bits, np.bool_)) + first_row)
    assert (rows.num_ranges, rows.num_rows) == (same.num_ranges, same.num_rows)
    assert [rows.starts.tolist(), rows.stops.tolist()] == [same.starts.tolist(), same.stops.tolist()]
    assert rows.indices().tolist() == same.indices().tolist()
    if same.num_ranges:
        assert rows.span == same.span
        assert rows.mask().equals(same.mask())
        inside, expected = (each.within(first_row + 3, first_row + 90) for each in (rows, same))
        assert inside.indices().tolist() == expected.indices().tolist()
