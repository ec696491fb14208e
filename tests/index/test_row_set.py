"""Row sets in the two forms of index files, and stable row ids as offsets."""

from __future__ import annotations

import struct

import numpy as np
import pyroaring
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.index.row_set import RowSet
from lance_spark.table.rows.row_ids import Array, Range, RangeWithBitmap, RangeWithHoles, RowIdSequence, SortedArray


def row_set(*numbers: int) -> RowSet:
    return RowSet.of_numbers(np.array(numbers, np.uint64))


def address_map(entries: dict[int, bytes]) -> bytes:
    parts = [struct.pack("<II", high, len(data)) + data for high, data in entries.items()]
    return struct.pack("<I", len(entries)) + b"".join(parts)


def test_address_map_is_read() -> None:
    data = address_map({0: pyroaring.BitMap([0, 40, 80]).serialize(), 7: pyroaring.BitMap([5]).serialize()})
    assert RowSet.of_address_map(data, {}) == row_set(0, 40, 80, (7 << 32) + 5)
    assert len(RowSet.of_address_map(bytes(4), {})) == 0


def test_entry_without_bitmap_is_every_row_of_its_fragment() -> None:
    found = RowSet.of_address_map(address_map({3: b"", 4: b""}), {3: 5})
    assert list(found.part(3)) == [0, 1, 2, 3, 4]
    assert not found.part(4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1",
        struct.pack("<I", 5),
        struct.pack("<I", 0xFFFFFFFF) + bytes(64),
        address_map({1: b"not a bitmap"}),
        address_map({1: pyroaring.BitMap([1]).serialize()}) + b"x",
        address_map({1: pyroaring.BitMap([1]).serialize()})[:-1],
    ],
)
def test_damaged_address_map_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        RowSet.of_address_map(data, {0: 10})


def test_treemap_is_read_and_bounded() -> None:
    data = pyroaring.BitMap64([1, 2, 1 << 33]).serialize()
    assert RowSet.of_treemap(data, 3) == row_set(1, 2, 1 << 33)
    for damaged, most in ((data, 2), (b"", 9), (data[:-1], 9), (b"\xff" * 40, 9)):
        with pytest.raises(CorruptFileError):
            RowSet.of_treemap(damaged, most)


def test_set_operations() -> None:
    one, two = row_set(1, 2, 1 << 32), row_set(2, 3, (1 << 32) + 1)
    assert one.union(two) == row_set(1, 2, 3, 1 << 32, (1 << 32) + 1)
    assert one.intersection(two) == row_set(2)
    assert one.difference(two) == row_set(1, 1 << 32)


def test_row_ids_become_offsets_in_every_form_of_segment() -> None:
    high = 1 << 32
    sequence = RowIdSequence(
        (
            Range(10, 20),
            RangeWithHoles(30, 40, np.array([31, 32], np.uint64)),
            RangeWithBitmap(50, 58, bytes([0b10000101])),
            SortedArray(np.array([70, 75, high + 1], np.uint64)),
            Array(np.array([99, 90, 95], np.uint64)),
            Range(high + 5, high + 8),
        )
    )
    ids = sequence.at(np.arange(sequence.num_rows))
    wanted = row_set(12, 31, 33, 50, 52, 51, high + 1, 95, 99, high + 7, 5000)
    expected = [place for place, id_ in enumerate(ids.tolist()) if id_ in {12, 33, 50, 52, high + 1, 95, 99, high + 7}]
    assert list(sequence.offsets_of(wanted)) == expected
    assert len(sequence.offsets_of(RowSet.empty())) == 0
