"""Kernels of file version 2.0 against plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.v2_0 import (
    FALLING,
    OUTSIDE,
    TOO_LONG,
    dictionary_offsets,
    gather_bits,
    plan_ranges,
    rebase_ends,
)
from tests.support.guarded_memory import allocate_guarded, guarded


@settings(max_examples=60, deadline=None)
@given(
    bits=st.lists(st.booleans(), min_size=1, max_size=200),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 90)), min_size=1, max_size=8),
)
def test_gather_bits(bits: list[bool], cuts: list[tuple[int, int]]) -> None:
    ranges = [(start % len(bits), min(count, len(bits) - start % len(bits))) for start, count in cuts]
    starts, counts = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    expected = [bit for start, count in ranges for bit in bits[start : start + count]]
    source = guarded(np.packbits(bits, bitorder="little").tobytes())
    target = allocate_guarded((len(expected) + 7) // 8)
    gather_bits(source.address, address_of(starts), address_of(counts), len(ranges), target.address)
    assert target.to_pybytes() == np.packbits(np.array(expected, np.uint8), bitorder="little").tobytes()


def rebase(
    ends: list[int], counts: list[int], has_before: list[int], adjustment: int, limit: int, wide: bool
) -> tuple[int, list[int], list[bool], list[tuple[int, int]]]:
    """(status, offsets, validity, item ranges)."""
    entries = guarded(np.array(ends, np.uint64).tobytes())
    lengths, flags = np.array(counts, np.int64), np.array(has_before, np.uint8)
    num_values = int(lengths.sum())
    offsets = allocate_guarded((num_values + 1) * (8 if wide else 4))
    validity = np.full((num_values + 7) // 8, 0xFF, np.uint8)
    starts, stops = np.zeros_like(lengths), np.zeros_like(lengths)
    pages = np.array([len(lengths), limit, adjustment], np.int64)
    status = rebase_ends(
        entries.address, address_of(lengths), address_of(flags), address_of(pages), 1, wide,
        offsets.address, address_of(validity), address_of(starts), address_of(stops),
    )  # fmt: skip
    valid = np.unpackbits(validity, count=num_values, bitorder="little").astype(bool).tolist()
    places = np.frombuffer(offsets, np.int64 if wide else np.int32).tolist()
    return status, places, valid, list(zip(starts.tolist(), stops.tolist(), strict=True))


@pytest.mark.parametrize("wide", [False, True])
def test_worked_example(wide: bool) -> None:
    """``[[A, B], null, [], [C, D, E]]``, whole and the rows 2..4."""
    assert rebase([2, 9, 2, 5], [4], [0], 7, 5, wide) == (1, [0, 2, 2, 2, 5], [True, False, True, True], [(0, 5)])
    assert rebase([9, 2, 5], [2], [1], 7, 5, wide) == (0, [0, 0, 3], [True, True], [(2, 5)])
    assert rebase([2, 2, 5], [1, 1], [0, 1], 7, 5, wide) == (0, [0, 2, 5], [True, True], [(0, 2), (2, 5)])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=8),
    wide=st.booleans(),
)
def test_ranges(rows: list[tuple[int, bool]], cuts: list[int], wide: bool) -> None:
    lengths = [0 if null else length for length, null in rows]
    ends = np.cumsum(lengths)
    limit = int(ends[-1])
    stored = [int(end) + (limit + 1 if null else 0) for end, (_, null) in zip(ends, rows, strict=True)]
    borders = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    ranges = list(pairwise(borders))[::2]
    entries = [entry for start, stop in ranges for entry in stored[max(start - 1, 0) : stop]]
    counts = [stop - start for start, stop in ranges]
    status, offsets, valid, items = rebase(entries, counts, [start > 0 for start, _ in ranges], limit + 1, limit, wide)
    picked = [row for start, stop in ranges for row in range(start, stop)]
    assert status == sum(rows[row][1] for row in picked)
    assert np.diff(offsets).tolist() == [lengths[row] for row in picked]
    assert valid == [not rows[row][1] for row in picked]
    assert items == [(int(ends[start - 1]) if start else 0, int(ends[stop - 1])) for start, stop in ranges]


@pytest.mark.parametrize(
    ("ends", "counts", "has_before", "limit", "expected"),
    [
        ([3, 2], [2], [0], 5, FALLING),
        ([3, 6], [2], [0], 5, FALLING),
        ([3, 12], [2], [0], 5, FALLING),
        ([2**64 - 1, 3], [1], [1], 5, FALLING),
        ([3, 7, 4], [3], [0], 5, FALLING),
        ([1, 5, 2, 3], [1, 1], [1, 1], 5, FALLING),
        ([2**31], [1], [0], 2**40, TOO_LONG),
    ],
)
def test_damage(ends: list[int], counts: list[int], has_before: list[int], limit: int, expected: int) -> None:
    assert rebase(ends, counts, has_before, limit + 1, limit, False)[0] == expected


@settings(max_examples=200, deadline=None)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), min_size=1, max_size=8).map(sorted),
    max_gap=st.integers(0, 10),
)
def test_plan_ranges(ranges: list[tuple[int, int]], max_gap: int) -> None:
    starts, stops = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    stops += starts
    count, size, position = len(starts), 100, 1000
    table = np.frombuffer(allocate_guarded(4 * (count + 1) * 8), np.int64).reshape(4, count + 1)
    num_spans = plan_ranges(address_of(starts), address_of(stops), count, position, size, max_gap, table.ctypes.data)
    filled = [(start, stop) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) if start < stop]
    if any(stop > size for _, stop in filled):
        assert num_spans == OUTSIDE
        return
    spans: list[list[int]] = []
    for start, stop in filled:
        if not spans or start > spans[-1][1] + max_gap:
            spans.append([start, stop])
        spans[-1][1] = max(spans[-1][1], stop)
    assert table[0, :num_spans].tolist() == [position + start for start, _ in spans]
    assert table[1, :num_spans].tolist() == [stop - start for start, stop in spans]
    assert table[0, count] == sum(stop - start for start, stop in spans)
    assert table[1, count] == position + max((stop for _, stop in spans), default=0)
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        if start < stop:
            assert spans[table[2, number]][0] + table[3, number] == start
            assert stop <= spans[table[2, number]][1]


@pytest.mark.parametrize(
    "ranges", [[(5, 6), (4, 7)], [(-1, 1)], [(0, 1), (99, 101)], [(0, 2**63 - 1)], [(-(2**63), 1)]]
)
def test_ranges_that_do_not_ascend_or_leave_the_buffer(ranges: list[tuple[int, int]]) -> None:
    starts, stops = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    table = np.zeros((4, len(starts) + 1), np.int64)
    assert plan_ranges(address_of(starts), address_of(stops), len(starts), 0, 100, 10, address_of(table)) == OUTSIDE


@pytest.mark.parametrize(("limits", "expected"), [([6, 5], 1), ([6, 4], FALLING), ([5, 5], FALLING)])
def test_ends_of_several_pages(limits: list[int], expected: int) -> None:
    """Two rows of 2 and 4 items; of another page, whose first row has an item, a null row and one of 4 items."""
    entries = guarded(np.array([2, 6, 1, 7, 5], np.uint64).tobytes())
    counts, flags = np.array([2, 2], np.int64), np.array([0, 1], np.uint8)
    pages = np.array([[1, 1], limits, [7, 6]], np.int64)
    offsets, validity = allocate_guarded(5 * 4), np.full(1, 0xFF, np.uint8)
    starts, stops = np.zeros(2, np.int64), np.zeros(2, np.int64)
    status = rebase_ends(
        entries.address, address_of(counts), address_of(flags), address_of(pages), 2, False,
        offsets.address, address_of(validity), address_of(starts), address_of(stops),
    )  # fmt: skip
    assert status == expected
    if status >= 0:
        assert np.frombuffer(offsets, np.int32).tolist() == [0, 2, 6, 6, 10]
        assert (starts.tolist(), stops.tolist(), int(validity[0])) == ([0, 1], [6, 5], 0b11111011)


@pytest.mark.parametrize(
    ("codes", "expected"), [([2, 0, 1, 3], 1), ([3, 0, 1, 3], FALLING), ([2, 0, 1, 4], FALLING), ([2, 1, 2, 3], 1)]
)
def test_codes_of_several_pages(codes: list[int], expected: int) -> None:
    """Pages of two codes: the items of the first are a and bb, of the second ccc, null, and eeee."""
    lengths = [1, 2, 3, 0, 4]
    source = guarded(bytes(codes))
    pages, item_offsets = np.array([[2, 2], [2, 3]], np.int64), np.cumsum([0, *lengths]).astype(np.int32)
    item_validity, validity = np.array([0b10111], np.uint8), np.full(1, 0xFF, np.uint8)
    offsets = allocate_guarded(5 * 4)
    status = dictionary_offsets(
        source.address, address_of(pages), 2, address_of(item_offsets), address_of(item_validity), offsets.address,
        address_of(validity),
    )  # fmt: skip
    assert status == expected
    if status >= 0:
        items = [None, 1, 2], [None, 3, None, 4]
        found = [items[place // 2][code] for place, code in enumerate(codes)]
        assert np.diff(np.frombuffer(offsets, np.int32)).tolist() == [length or 0 for length in found]
        assert [bool(validity[0] >> place & 1) for place in range(4)] == [length is not None for length in found]
