"""Row id and row version sequences, against those of the reference library and against a plain list."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark._proto import rowids_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.table.rows.row_ids import (
    Array,
    Range,
    RangeWithBitmap,
    RangeWithHoles,
    RowIdSequence,
    SortedArray,
    U64Segment,
    decode_array,
    encode_array,
    segments_of,
)
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


def listed(segment: U64Segment) -> list[int]:
    return segment.at(np.arange(segment.num_values, dtype=np.int64)).tolist()


def uint64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


SEGMENTS = [
    (Range(5, 9), [5, 6, 7, 8]),
    (Range(5, 5), []),
    (RangeWithHoles(5, 10, uint64(5, 7)), [6, 8, 9]),
    (RangeWithHoles(5, 10, uint64(9)), [5, 6, 7, 8]),
    # Worked example of the reference library: ids 3, 13, ..., 93.
    (RangeWithBitmap(3, 94, bytes.fromhex("010410400001041040000104")), [3, 13, 23, 33, 43, 53, 63, 73, 83, 93]),
    (SortedArray(uint64(1, 1 << 20, 1 << 40)), [1, 1 << 20, 1 << 40]),
    (Array(uint64(9, 2, (1 << 64) - 1)), [9, 2, (1 << 64) - 1]),
]


@pytest.mark.parametrize(("segment", "values"), SEGMENTS)
def test_segments(segment: U64Segment, values: list[int]) -> None:
    assert listed(segment) == values
    sequence = RowIdSequence.from_bytes(RowIdSequence((segment,)).to_bytes(), len(values))
    assert sequence.at(np.arange(len(values), dtype=np.int64)).tolist() == values
    if values:
        lowest, highest = segment.bounds
        assert lowest <= min(values) <= max(values) <= highest
        asked = sorted({value + step for value in values for step in (-1, 0, 1) if lowest <= value + step <= highest})
        ranks = segment.ranks_of(uint64(*asked)).tolist()
        assert sorted(ranks) == list(range(len(values)))
        for value in asked:
            expected = [values.index(value)] if value in values else []
            assert segment.ranks_of(uint64(value)).tolist() == expected


def test_all_rows_with_an_id_are_found() -> None:
    # As in a fragment with a deleted and a live row of one id.
    for segment in (Array(uint64(4, 4, 7)), Array(uint64(4, 7, 4)), SortedArray(uint64(4, 4, 7))):
        expected = [place for place, value in enumerate(listed(segment)) if value == 4]
        assert segment.ranks_of(uint64(4, 6)).tolist() == expected


def test_a_sequence_crosses_its_segments() -> None:
    sequence = RowIdSequence(tuple(segment for segment, _ in SEGMENTS))
    everything = [value for _, values in SEGMENTS for value in values]
    assert sequence.num_rows == len(everything)
    assert sequence.at(np.arange(len(everything), dtype=np.int64)).tolist() == everything
    some = np.array([0, 3, 4, 9, len(everything) - 1], np.int64)
    assert sequence.at(some).tolist() == [everything[row] for row in some]


@pytest.mark.parametrize(
    "segment",
    [
        rowids_pb2.U64Segment(),
        rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=3, end=2)),
        rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=0, end=1 << 63)),
        RangeWithHoles(5, 10, uint64(10)).to_proto(),
        RangeWithHoles(5, 10, uint64(7, 7)).to_proto(),
        RangeWithBitmap(0, 9, b"\1").to_proto(),
        rowids_pb2.U64Segment(
            array=rowids_pb2.EncodedU64Array(u16_array=rowids_pb2.EncodedU64Array.U16Array(base=1, offsets=b"abc"))
        ),
        rowids_pb2.U64Segment(
            array=rowids_pb2.EncodedU64Array(
                u16_array=rowids_pb2.EncodedU64Array.U16Array(base=(1 << 64) - 1, offsets=b"\1\0")
            )
        ),
    ],
)
def test_segments_that_contradict_themselves_are_corrupt(segment: rowids_pb2.U64Segment) -> None:
    with pytest.raises(CorruptFileError):
        RowIdSequence.from_bytes(rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString())


def test_another_length_than_the_fragment_is_corrupt() -> None:
    with pytest.raises(CorruptFileError):
        RowIdSequence.from_bytes(RowIdSequence.of_range(0, 4).to_bytes(), 5)
    with pytest.raises(CorruptFileError):
        RowDatasetVersionSequence.from_bytes(RowDatasetVersionSequence.uniform(4, 1).to_bytes(), 5)
    with pytest.raises(CorruptFileError):
        RowIdSequence.from_bytes(b"\xff\xff")
    with pytest.raises(CorruptFileError):
        RowDatasetVersionSequence.from_bytes(b"\xff\xff")


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
@settings(max_examples=50, deadline=None)
def test_arrays_of_every_width(values: list[int]) -> None:
    assert decode_array(encode_array(uint64(*values))).tolist() == values


CHOICES: list[tuple[list[int], tuple[U64Segment, ...]]] = [
    ([], ()),
    ([7], (Range(7, 8),)),
    ([5, 6, 7, 8], (Range(5, 9),)),
    # As the reference library writes them: rows 2, 5 and 12 after an update, and what its costs say of larger ones.
    ([2, 5, 12], (RangeWithBitmap(2, 13, b"\x09\x04"),)),
    ([*range(50), *range(51, 100)], (RangeWithHoles(0, 100, uint64(50)),)),
    ([0, 1 << 20, 1 << 40], (SortedArray(uint64(0, 1 << 20, 1 << 40)),)),
    ([9, 2, 4, 1], (Array(uint64(9, 2, 4, 1)),)),
    ([*range(50, 80), *range(30)], (Range(50, 80), Range(0, 30))),
    ([3, 3], (Array(uint64(3, 3)),)),
]


@pytest.mark.parametrize(("ids", "segments"), CHOICES, ids=lambda value: str(value)[:20])
def test_the_cheapest_form_of_ids(ids: list[int], segments: tuple[U64Segment, ...]) -> None:
    # Segments with arrays in them cannot be compared.
    assert str(segments_of(uint64(*ids))) == str(segments)


@given(
    st.lists(st.lists(st.integers(0, 300) | st.integers(0, (1 << 64) - 2), max_size=40, unique=True), max_size=4),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_ids_of_moved_rows(stretches: list[list[int]], ascending: bool) -> None:
    ids = [number for stretch in stretches for number in (sorted(stretch) if ascending else stretch)]
    sequence = RowIdSequence.from_bytes(RowIdSequence.of_ids(uint64(*ids)).to_bytes(), len(ids))
    assert sequence.at(np.arange(len(ids), dtype=np.int64)).tolist() == ids
    assert sequence.largest == max(ids, default=-1)
    longer = sequence.followed_by(1000, 3)
    assert longer.at(np.arange(len(ids) + 3, dtype=np.int64)).tolist() == [*ids, 1000, 1001, 1002]
    assert sequence.followed_by(1000, 0) == sequence


@given(st.lists(st.integers(1, 3), max_size=30))
@settings(max_examples=50, deadline=None)
def test_versions_of_moved_rows(versions: list[int]) -> None:
    sequence = RowDatasetVersionSequence.of_versions(uint64(*versions))
    assert sequence.at(np.arange(len(versions), dtype=np.int64)).tolist() == versions
    again = RowDatasetVersionSequence.from_bytes(sequence.followed_by(2, 9).to_bytes(), len(versions) + 2)
    assert again.at(np.arange(len(versions) + 2, dtype=np.int64)).tolist() == [*versions, 9, 9]
    assert len(sequence.runs) <= len(versions)


def test_versions() -> None:
    sequence = RowDatasetVersionSequence(((2, 7), (1, 3), (4, 9)))
    again = RowDatasetVersionSequence.from_bytes(sequence.to_bytes(), 7)
    assert again.at(np.arange(7, dtype=np.int64)).tolist() == [7, 7, 3, 9, 9, 9, 9]


@pytest.mark.parametrize("predicate", ["a % 10 = 3", "a % 2 = 0", "a <> 50", "a in (1, 2, 70)"])
def test_sequences_of_pylance_after_a_compaction(tmp_path: Path, predicate: str) -> None:
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(pa.table({"a": range(100)}), uri, enable_stable_row_ids=True)
    dataset.delete(f"not ({predicate})")
    dataset.optimize.compact_files(materialize_deletions_threshold=0.0)
    expected = dataset.scanner(columns=["_rowid", "_row_created_at_version"]).to_table()
    fragment = lance.dataset(uri).get_fragments()[0].metadata.to_json()
    row_ids = RowIdSequence.from_bytes(_inline(fragment["row_id_meta"]), expected.num_rows)
    rows = np.arange(expected.num_rows, dtype=np.int64)
    assert row_ids.at(rows).tolist() == expected["_rowid"].to_pylist()
    versions = RowDatasetVersionSequence.from_bytes(_inline(fragment["created_at_version_meta"]), expected.num_rows)
    assert versions.at(rows).tolist() == expected["_row_created_at_version"].to_pylist()


def _inline(meta: dict[str, list[int]]) -> bytes:
    (content,) = meta.values()
    return bytes(content)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_sequences_raise_nothing_else(data: st.DataObject) -> None:
    whole = RowIdSequence(tuple(segment for segment, _ in SEGMENTS)).to_bytes()
    versions = RowDatasetVersionSequence(((2, 7), (1, 3), (300, 9))).to_bytes()
    for parse, content in ((RowIdSequence, bytearray(whole)), (RowDatasetVersionSequence, bytearray(versions))):
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        try:
            sequence = parse.from_bytes(bytes(content))
        except CorruptFileError:
            continue
        rows = np.unique(np.linspace(0, max(sequence.num_rows - 1, 0), 50).astype(np.int64))
        if sequence.num_rows:
            assert len(sequence.at(rows)) == len(rows)
