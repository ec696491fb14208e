from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.kernels.bits import (
    bits_of_ranges,
    concatenate_bits,
    count_ranges,
    keep_bits,
    mark_ranges,
    ranges_of_bits,
    split_bits,
)
from lance_spark.kernels.jit import address_of
from tests.support.guarded_memory import guarded


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.booleans(), max_size=40), min_size=1, max_size=12))
def test_slices_of_bits_join_and_split(slices: list[list[bool]]) -> None:
    parts = [np.packbits(np.array(bits, np.bool_), bitorder="little") for bits in slices]
    data = np.concatenate(parts)
    counts = np.array([len(bits) for bits in slices], np.int64)
    sizes = np.array([len(part) for part in parts], np.int64)
    starts = np.cumsum(sizes) - sizes
    total = int(counts.sum())

    joined = np.full((total + 7) // 8 + 1, 0xFF, np.uint8)
    concatenate_bits(address_of(data), address_of(starts), address_of(counts), len(counts), address_of(joined))
    expected = np.packbits(np.array([bit for bits in slices for bit in bits], np.bool_), bitorder="little")
    assert joined[: len(expected)].tolist() == expected.tolist()

    split = np.full(len(data), 0xFF, np.uint8)
    split_bits(address_of(expected), address_of(counts), len(counts), address_of(split))
    assert split.tolist() == data.tolist()


def test_bits_after_a_slice_are_left_out() -> None:
    data = np.array([0xFF, 0xFF], np.uint8)
    starts, counts, joined = np.array([0, 1]), np.array([3, 2]), np.zeros(2, np.uint8)
    concatenate_bits(address_of(data), address_of(starts), address_of(counts), 2, address_of(joined))
    assert joined.tolist() == [0b11111, 0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([False, False, False, True]), max_size=30), min_size=1, max_size=20),
    st.integers(0, 7),
    st.sampled_from([np.int32, np.int64]),
)
def test_ranges_with_set_bits_are_marked(ranges: list[list[bool]], first: int, dtype: type[np.signedinteger]) -> None:
    bits = [bit for some in ranges for bit in some]
    # Bits before the first one and after the last one do not count.
    data = np.packbits(np.array([True] * first + bits + [True] * 9, np.bool_), bitorder="little")
    lengths = np.array([len(some) for some in ranges], dtype)
    marks = np.zeros(len(ranges) + 1, np.uint8)
    mark_ranges(
        address_of(data), first, len(bits), address_of(lengths), lengths.itemsize, len(lengths), address_of(marks)
    )
    assert marks.tolist() == [*map(any, ranges), 0]


def test_bits_beyond_all_ranges_are_left_out() -> None:
    data, lengths, marks = np.array([0b101], np.uint8), np.array([1, 1], np.int32), np.zeros(3, np.uint8)
    mark_ranges(address_of(data), 0, 3, address_of(lengths), 4, 2, address_of(marks))
    assert marks.tolist() == [1, 0, 0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=30), st.integers(0, 7))
def test_ranges_of_set_bits(runs: list[tuple[bool, int]], first: int) -> None:
    bits = [bit for bit, length in runs for _ in range(length)]
    # Bits before the first one and after the last one do not count.
    data = np.packbits(np.array([True] * first + bits + [True] * 9, np.bool_), bitorder="little")
    starts, stops = np.full((2, len(bits) // 2 + 3), -7, np.int64)
    count = ranges_of_bits(address_of(data), first, len(bits), address_of(starts), address_of(stops))
    edges = np.diff(np.array([False, *bits, False]).astype(np.int64))
    assert starts[:count].tolist() == np.flatnonzero(edges == 1).tolist()
    assert stops[:count].tolist() == np.flatnonzero(edges == -1).tolist()
    # One more than there are ranges is written at most.
    assert starts[count + 1 :].tolist() == [-7] * (len(starts) - count - 1)
    assert stops[count + 1 :].tolist() == [-7] * (len(stops) - count - 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 90)), max_size=12), st.integers(0, 7))
def test_ranges_of_set_bits_are_counted(runs: list[tuple[bool, int]], first: int) -> None:
    bits = [bit for bit, length in runs for _ in range(length)]
    octets = np.packbits(np.array([True] * first + bits + [True] * 9), bitorder="little").tobytes()
    data = guarded(octets[: (first + len(bits) + 7) // 8])
    span = np.array([-7, -7], np.int64)
    edges = np.diff(np.array([False, *bits, False]).astype(np.int64))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    assert count_ranges(data.address, first, len(bits), address_of(span)) == len(starts)
    assert span.tolist() == ([starts[0], stops[-1]] if len(starts) else [-7, -7])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=30), st.integers(0, 70), st.integers(0, 70)
)
def test_bits_of_ranges(parts: list[tuple[int, int]], first: int, after: int) -> None:
    edges = first + np.cumsum(np.array([part for pair in parts for part in pair], np.int64))
    starts, stops = np.ascontiguousarray(edges[::2]), np.ascontiguousarray(edges[1::2])
    num_bits = (int(edges[-1]) if len(edges) else first) - first + after
    words = np.zeros(num_bits // 64 + 2, np.uint64)
    words[-1] = 5
    ranges = address_of(starts), address_of(stops), len(starts)
    assert bits_of_ranges(*ranges, first, num_bits, address_of(words)) == -1
    expected = np.zeros(num_bits, np.bool_)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        expected[start - first : stop - first] = True
    bits = np.unpackbits(words[:-1].view(np.uint8), bitorder="little").astype(np.bool_)
    assert np.array_equal(bits[:num_bits], expected)
    assert words[-1] == 5


def test_bits_of_ranges_outside_are_refused() -> None:
    words = np.zeros(2, np.uint64)
    for start, stop in ((9, 11), (20, 10), (10, 75), (10, 2**62), (-(2**62), 12)):
        starts, stops = np.array([10, start]), np.array([12, stop])
        assert bits_of_ranges(address_of(starts), address_of(stops), 2, 10, 64, address_of(words)) == 1


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 300), st.integers(0, 7), st.integers(0, 90), st.sampled_from([0.0, 0.3, 0.9, 1.0]))
def test_bits_that_are_kept(count: int, first: int, data_bit: int, share: float) -> None:
    rng = np.random.default_rng(count)
    bits, keep = rng.random(data_bit + count) < 0.5, rng.random(first + count) < share
    packed = [np.packbits(values, bitorder="little") for values in (bits, keep)]
    kept = bits[data_bit:][keep[first:]]
    target = np.full(len(kept) // 64 + 2, 7, np.uint64)
    data, mask = map(address_of, packed)
    if count:
        assert keep_bits(data, data_bit, mask, first, count, address_of(target)) == len(kept)
        found = np.unpackbits(target[:-1].view(np.uint8), bitorder="little", count=len(kept))
        assert np.array_equal(found.astype(np.bool_), kept)
        assert target[-1] == 7
