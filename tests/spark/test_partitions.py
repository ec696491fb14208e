"""Packing and splitting lose and double no row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyroaring
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.spark.partitions import SizedFragment, SizedRows, plan_partitions
from lance_spark.table.rows.fragment import FragmentList

sizes = st.tuples(st.integers(0, 200), st.one_of(st.none(), st.integers(0, 5000)))


def sized(fragments: list[tuple[int, int | None]]) -> SizedRows:
    pieces = [SizedFragment(place, rows, size) for place, (rows, size) in enumerate(fragments)]
    return SizedRows.of(FragmentList(), pieces)


def rows_of(parts: list[SizedRows]) -> list[tuple[int, int]]:
    return [
        (place, row)
        for part in parts
        for place, start, stop in zip(part.places.tolist(), part.starts.tolist(), part.stops.tolist(), strict=True)
        for row in range(start, stop)
    ]


@given(st.lists(sizes, max_size=20), st.integers(1, 3000))
def test_every_row_is_in_one_partition_in_order(fragments: list[tuple[int, int | None]], target: int) -> None:
    expected = [(place, row) for place, (rows, _) in enumerate(fragments) for row in range(rows)]
    assert rows_of(plan_partitions(sized(fragments), target)) == expected


@given(st.lists(sizes, max_size=20), st.integers(1, 3000))
def test_a_partition_takes_what_fits(fragments: list[tuple[int, int | None]], target: int) -> None:
    """Each next piece would exceed the target by more than an eighth; only single pieces do."""
    parts = plan_partitions(sized(fragments), target)
    for part, following in pairwise(parts):
        assert part.total_bytes + following.part(0, 1).total_bytes > target + target // 8
    assert all(len(part) == 1 or part.total_bytes <= target + target // 8 for part in parts)


@given(st.integers(0, 1 << 32), st.integers(1, 1 << 40), st.integers(1, 40))
def test_a_large_fragment_is_cut_evenly(rows: int, size: int, count: int) -> None:
    target = max(1, size // count)
    pieces = sized([(rows, size)]).divided(target)
    number = max(1, min(rows, round(size / target)))
    assert pieces.starts.tolist() == [rows * index // number for index in range(number)]
    assert pieces.stops.tolist() == [rows * index // number for index in range(1, number + 1)]
    assert set(pieces.size_bytes.tolist()) == {size // number}


def test_sizes_that_cannot_be_are_not_believed() -> None:
    pieces = sized([(1 << 32, 1 << 62)]).divided(1 << 20)
    assert len(pieces) == 1 << 16
    assert (pieces.starts[0], pieces.stops[-1]) == (0, 1 << 32)
    assert (pieces.starts[1:] == pieces.stops[:-1]).all()


def test_small_fragments_share_a_partition() -> None:
    assert [len(part) for part in plan_partitions(sized([(10, 100)] * 10), 300)] == [3, 3, 3, 1]


def test_a_large_fragment_is_split() -> None:
    parts = plan_partitions(sized([(10, 50), (1000, 1000), (10, 250)]), 250)
    assert rows_of([parts[0]]) == [(0, row) for row in range(10)]
    assert [(int(part.starts[0]), int(part.stops[0])) for part in parts[1:]] == [
        (0, 250),
        (250, 500),
        (500, 750),
        (750, 1000),
        (0, 10),
    ]


def test_parts_keep_what_belongs_to_a_fragment() -> None:
    offsets = pyroaring.BitMap([3, 8])
    whole = SizedFragment(1, 10, None)
    pieces = [SizedFragment(0, 10, 100, 0), whole.only(offsets), whole.part(4, 20), SizedFragment(2, 5, 10)]
    rows = SizedRows.joined([SizedRows.of(FragmentList(), pieces[:2]), SizedRows.of(FragmentList(), pieces[2:])])
    assert rows.rows_to_read.tolist() == [10, 2, 6, 5]
    assert rows.size_bytes.tolist() == [100, 2 * 64, 6 * 64, 10]
    assert [rows.is_size_known, SizedRows.of(FragmentList(), pieces[:1]).is_size_known] == [False, True]
    assert rows.candidates == (None, offsets.serialize(), None, None)
    chosen = rows.of_fragments(np.array([1, 7]))
    assert (chosen.starts.tolist(), chosen.stops.tolist()) == ([3, 4], [9, 10])
    assert chosen.candidates == (offsets.serialize(), None)
    assert rows.part(1, 2).candidates == (offsets.serialize(),)
