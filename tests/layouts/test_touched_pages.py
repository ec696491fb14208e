from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.touched_pages import cut_at_pages, touched_pages

PAGES = st.lists(st.integers(0, 9), min_size=1, max_size=8)
RANGES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12)
"""(gap before, length) of ranges."""


def touched(lengths: list[int], ranges: list[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]] | None:
    starts, stops = (np.array(bounds, np.int64) for bounds in zip(*ranges, strict=True))
    rows, sizes = np.array(lengths, np.int64), np.array(lengths, np.int64) * 100
    moved, table = np.empty((2, len(ranges)), np.int64), np.empty((5, min(len(ranges), len(lengths))), np.int64)
    pages = address_of(rows), address_of(sizes), len(lengths)
    count = touched_pages(
        address_of(starts), address_of(stops), len(ranges), *pages, 7, address_of(moved), address_of(table),
        table.shape[1],
    )  # fmt: skip
    return None if count < 0 else (table[:, :count].tolist(), moved.tolist())


@settings(max_examples=300, deadline=None)
@given(PAGES, RANGES)
def test_pages_of_ranges(lengths: list[int], parts: list[tuple[int, int]]) -> None:
    ranges, at = [], -1
    for gap, length in parts:
        ranges.append((at + gap, at + gap + length))
        at += gap + length
    owners = [page for page, length in enumerate(lengths) for _ in range(length)]
    of_ranges = [{owners[row] if row < len(owners) else -1 for row in range(*bounds)} for bounds in ranges]
    found = touched(lengths, ranges)
    if any(len(pages) != 1 or -1 in pages for pages in of_ranges):
        assert found is None
        return
    assert found is not None
    (numbers, wanted, needed, opens, firsts), moved = found
    per_range = [pages.pop() for pages in of_ranges]
    assert numbers == sorted(set(per_range))
    for place, page in enumerate(numbers):
        inside = [bounds for bounds, owner in zip(ranges, per_range, strict=True) if owner == page]
        count = sum(stop - start for start, stop in inside)
        assert wanted[place] == count
        assert needed[place] == min(100 * lengths[page], 100 * count + 7 * len(inside))
        assert opens[place] == per_range.index(page)
        assert firsts[place] == sum(lengths[before] for before in numbers[:place])
    packed = [row for page in numbers for row in range(sum(lengths[:page]), sum(lengths[: page + 1]))]
    for (start, stop), moved_start, moved_stop in zip(ranges, *moved, strict=True):
        assert packed[moved_start:moved_stop] == [*range(start, stop)]


def test_a_large_page_needs_no_more_than_its_bytes() -> None:
    rows, sizes = np.array([1 << 40]), np.array([1 << 50])
    starts, stops = np.array([0]), np.array([1 << 40])
    moved, table = np.empty((2, 1), np.int64), np.empty((5, 1), np.int64)
    addresses = [address_of(values) for values in (starts, stops, rows, sizes, moved, table)]
    assert touched_pages(*addresses[:2], 1, *addresses[2:4], 1, 4096, *addresses[4:], 1) == 1
    assert table[:, 0].tolist() == [0, 1 << 40, 1 << 50, 0, 0]


@settings(max_examples=300, deadline=None)
@given(PAGES, RANGES)
def test_ranges_cut_at_pages(lengths: list[int], parts: list[tuple[int, int]]) -> None:
    ranges, at = [], 0
    for gap, length in parts:
        ranges.append((at + gap - 1, at + gap - 1 + length))
        at += gap - 1 + length
    starts, stops = (np.array(bounds, np.int64) for bounds in zip(*ranges, strict=True))
    borders = np.cumsum([0, *lengths])
    table = np.empty((3, len(ranges) + len(lengths)), np.int64)
    count = cut_at_pages(
        address_of(starts), address_of(stops), len(ranges), address_of(borders), len(lengths), address_of(table),
        table.shape[1],
    )  # fmt: skip
    if any(start == stop or stop > borders[-1] for start, stop in ranges):
        assert count == -1
        return
    expected = [
        (max(start, first) - first, min(stop, end) - first, page)
        for start, stop in ranges
        for page, (first, end) in enumerate(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True))
        if max(start, first) < min(stop, end)
    ]
    assert list(zip(*table[:, :count].tolist(), strict=True)) == expected
