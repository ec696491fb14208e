from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError
from lance_spark.storage.base import ByteRange
from lance_spark.storage.coalesce import ReadPolicy, cut, plan_stretches, require_inside, slice_ranges

DATA = pa.py_buffer(bytes(range(256)))

ranges = st.lists(
    st.builds(lambda start, stop: ByteRange(min(start, stop), abs(stop - start)), *[st.integers(0, 256)] * 2),
    max_size=12,
)
policies = st.builds(ReadPolicy, st.integers(0, 64), st.integers(1, 128), st.just(4))


@given(ranges, policies)
def test_every_range_gets_its_bytes(wanted: list[ByteRange], policy: ReadPolicy) -> None:
    stretches = plan_stretches(wanted, policy)
    replies = [DATA.slice(stretch.byte_range.start, stretch.byte_range.length) for stretch in stretches]
    found = slice_ranges(wanted, stretches, replies)
    assert [buffer.to_pybytes() for buffer in found] == [DATA.slice(r.start, r.length).to_pybytes() for r in wanted]


@given(ranges, policies)
def test_no_byte_is_read_twice_and_no_large_gap_at_all(wanted: list[ByteRange], policy: ReadPolicy) -> None:
    stretches = plan_stretches(wanted, policy)
    for before, after in pairwise(stretches):
        assert before.byte_range.stop <= after.byte_range.start
    needed = {byte for r in wanted for byte in range(r.start, r.stop)}
    for stretch in stretches:
        gap = 0
        for byte in range(stretch.byte_range.start, stretch.byte_range.stop):
            gap = 0 if byte in needed else gap + 1
            assert gap <= policy.max_gap_bytes
        longest = max(wanted[index].length for index in stretch.members)
        joined_by_a_gap = needed < set(range(stretch.byte_range.start, stretch.byte_range.stop))
        assert (
            stretch.byte_range.length <= max(policy.max_read_bytes, longest) or not joined_by_a_gap or len(wanted) > 2
        )


@given(st.integers(0, 1000), st.integers(1, 1000), policies)
def test_a_cut_covers_exactly_its_range(start: int, length: int, policy: ReadPolicy) -> None:
    pieces = cut(ByteRange(start, length), policy)
    assert pieces[0].start == start
    assert pieces[-1].stop == start + length
    assert all(a.stop == b.start for a, b in pairwise(pieces))
    assert all(0 < piece.length <= policy.max_read_bytes for piece in pieces)


def test_near_ranges_are_read_together_and_distant_ones_apart() -> None:
    policy = ReadPolicy(max_gap_bytes=10, max_read_bytes=100, num_threads=4)

    def planned(*wanted: tuple[int, int]) -> list[tuple[int, int]]:
        stretches = plan_stretches([ByteRange(*range_) for range_ in wanted], policy)
        return [(stretch.byte_range.start, stretch.byte_range.length) for stretch in stretches]

    assert planned() == planned((5, 0)) == []
    assert planned((0, 5), (15, 5)) == [(0, 20)]
    assert planned((0, 5), (16, 5)) == [(0, 5), (16, 5)]
    assert planned((16, 5), (0, 5)) == [(0, 5), (16, 5)]
    assert planned((0, 60), (60, 60)) == [(0, 60), (60, 60)]
    assert planned((0, 60), (50, 60)) == [(0, 110)]
    assert planned((0, 500), (505, 5)) == [(0, 500), (505, 5)]
    assert planned((7, 3), (7, 3)) == [(7, 3)]


def test_ranges_outside_an_object() -> None:
    require_inside("a", [ByteRange(0, 10), ByteRange(10, 0)], 10)
    require_inside("a", [ByteRange(0, 1 << 62)], None)
    for range_ in [ByteRange(0, 11), ByteRange(-1, 1), ByteRange(1, -1)]:
        with pytest.raises(CorruptFileError, match="file a"):
            require_inside("a", [range_], 10)
