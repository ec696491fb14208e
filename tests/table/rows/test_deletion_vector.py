"""Deletion files: both forms, as the reference library writes them, damaged, and at the edges."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import CorruptFileError
from lance_spark.table.rows.deletion_vector import DeletionFileType, DeletionVector

ARROW, BITMAP = DeletionFileType.ARROW_ARRAY, DeletionFileType.BITMAP


def decode(kind: DeletionFileType, data: bytes, rows: int | None = 100, deleted: int | None = None) -> list[int]:
    return DeletionVector.decode(kind, data, physical_rows=rows, num_deleted_rows=deleted).offsets.tolist()


@pytest.mark.parametrize(
    ("predicate", "count", "kind"), [("a % 4 = 1 AND a < 400", 100, ARROW), ("a < 5001", 5001, BITMAP)]
)
def test_reads_what_pylance_writes(tmp_path: Path, predicate: str, count: int, kind: DeletionFileType) -> None:
    dataset = lance.write_dataset(pa.table({"a": range(20_000)}), tmp_path / "t")
    dataset.delete(predicate)
    (file,) = (tmp_path / "t" / "_deletions").iterdir()
    assert file.suffix == f".{kind.extension}"
    expected = [i for i in range(20_000) if (i % 4 == 1 and i < 400 if kind is ARROW else i < 5001)]
    assert decode(kind, file.read_bytes(), 20_000, count) == expected


@pytest.mark.parametrize("kind", [ARROW, BITMAP])
@pytest.mark.parametrize("offsets", [[], [0], [99], [0, 1, 2, 99], list(range(100))])
def test_round_trip(kind: DeletionFileType, offsets: list[int]) -> None:
    assert decode(kind, DeletionVector(np.array(offsets, np.int64)).encode(kind), 100, len(offsets)) == offsets


def test_arrow_values_may_come_in_any_order_and_uncompressed() -> None:
    batch = pa.record_batch([pa.array([7, 3, 5], pa.uint32())], names=["row_id"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert decode(ARROW, sink.getvalue().to_pybytes()) == [3, 5, 7]


def arrow_file(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ARROW1",
        arrow_file(pa.record_batch([pa.array([1], pa.int32())], names=["row_id"])),
        arrow_file(pa.record_batch([pa.array([1], pa.uint32())], names=["row"])),
        arrow_file(pa.record_batch([pa.array([None], pa.uint32())], names=["row_id"])),
        arrow_file(pa.record_batch([pa.array([1, 1], pa.uint32())], names=["row_id"])),
        arrow_file(pa.record_batch([pa.array([100], pa.uint32())], names=["row_id"])),
        arrow_file(*[pa.record_batch([pa.array([1], pa.uint32())], names=["row_id"])] * 2),
    ],
)
def test_wrong_arrow_files_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode(ARROW, data)


def test_wrong_bitmaps_are_corrupt() -> None:
    everything = pyroaring.BitMap(range(1 << 20))
    everything.run_optimize()
    for data in (b"", b"x" * 8, everything.serialize(), pyroaring.BitMap([100]).serialize()):
        with pytest.raises(CorruptFileError):
            decode(BITMAP, data)


@pytest.mark.parametrize("kind", [ARROW, BITMAP])
def test_a_count_that_contradicts_the_manifest_is_corrupt(kind: DeletionFileType) -> None:
    with pytest.raises(CorruptFileError):
        decode(kind, DeletionVector(np.array([1, 2], np.int64)).encode(kind), 100, 3)


@pytest.mark.parametrize("kind", [ARROW, BITMAP])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_files_raise_nothing_else(kind: DeletionFileType, data: st.DataObject) -> None:
    content = bytearray(DeletionVector(np.arange(0, 100, 3)).encode(kind))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(kind, bytes(content))
    except CorruptFileError:
        return


@settings(max_examples=60, deadline=None)
@given(deleted=st.sets(st.integers(0, 49)), start=st.integers(0, 50), length=st.integers(0, 50))
def test_live_rows(deleted: set[int], start: int, length: int) -> None:
    vector = DeletionVector(np.array(sorted(deleted), np.int64))
    stop = min(50, start + length)
    live = [i for i in range(50) if i not in deleted]
    assert vector.live_rows(start, stop).indices().tolist() == [i for i in live if start <= i < stop]
    assert vector.offsets_of_live(np.arange(len(live), dtype=np.int64)).tolist() == live


@pytest.mark.parametrize(("claimed", "present"), [(5000, 65536), (60000, 10), (65536, 4097), (4097, 65536)])
def test_bitset_container_with_wrong_count_is_refused(claimed: int, present: int) -> None:
    """pyroaring 1.0.0 crashed the process on the first of them."""
    bits = np.packbits(np.arange(65536) < present, bitorder="little").tobytes()
    # Cookie without runs, one container: its key, its count less one, its offset.
    header = struct.pack("<IIHHI", 12346, 1, 0, claimed - 1, 16)
    with pytest.raises(CorruptFileError):
        decode(BITMAP, header + bits, 1 << 17)
