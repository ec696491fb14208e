"""Later reads of few rows of a file in memory: columns are picked where the first read decodes their chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from tests.file.reference_files import open_file, pages, write

ROWS = 5000
VERSIONS = ("2.0", "2.1", "2.2")


def _table() -> pa.Table:
    rng = np.random.default_rng(0)
    offsets = np.cumsum(np.concatenate([[0], rng.integers(0, 3, ROWS)])).astype(np.int32)
    lists = pa.ListArray.from_arrays(
        offsets, rng.integers(0, 2**40, offsets[-1]), mask=pa.array(rng.random(ROWS) < 0.1)
    )
    texts = pa.array([f"text {number}" for number in rng.integers(0, 10**9, ROWS).tolist()])
    compressed = pa.field("compressed", pa.string(), metadata={"lance-encoding:compression": "zstd"})
    columns = {
        pa.field("number", pa.int64()): pa.array(rng.integers(0, 2**40, ROWS)),
        compressed: texts,
        pa.field("nulls", pa.int32()): pa.array(np.arange(ROWS, dtype=np.int32), mask=rng.random(ROWS) < 0.1),
        pa.field("list", lists.type): lists,
        pa.field("null", pa.int64()): pa.nulls(ROWS, pa.int64()),
        pa.field("struct", pa.struct({"a": pa.string()})): pa.StructArray.from_arrays([texts], ["a"]),
    }
    return pa.table([*columns.values()], schema=pa.schema([*columns]))


def _read(file: FileReader, rows: RowRanges) -> list[pa.ChunkedArray]:
    return file.read(file.schema.fields, file.columns, rows)


@pytest.mark.parametrize("version", VERSIONS)
def test_later_reads_equal_the_first(version: str, tmp_path: Path) -> None:
    table = _table()
    write(tmp_path / "x.lance", table, version)
    numbers = np.sort(np.random.default_rng(1).choice(ROWS, 50, replace=False))
    for rows in (RowRanges.of(0, ROWS), RowRanges.of(4000, 4010), RowRanges.of_numbers(numbers)):
        file = open_file(tmp_path / "x.lance")
        expected = table.take(rows.indices()).columns
        for _ in range(3):
            assert [column.combine_chunks() for column in _read(file, rows)] == [
                column.combine_chunks() for column in expected
            ]


@pytest.mark.parametrize("version", VERSIONS)
def test_few_rows_are_picked_without_requests(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table().select(["number", "nulls", "list", "struct"])
    file = write(tmp_path / "x.lance", table.slice(0, 1000), version)
    assert file.is_in_memory
    rows = RowRanges.of(10, 20)
    first = _read(file, rows)
    monkeypatch.setattr(type(file), "_answers", None)
    assert _read(file, rows) == first


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_later_reads_name_a_damaged_page(version: str, tmp_path: Path) -> None:
    path = tmp_path / "x.lance"
    file = write(path, _table().select(["number", "nulls"]), version)
    content = bytearray(path.read_bytes())
    # The header of the first chunk: its parts leave it.
    start = pages(file)[1].buffers[1].position
    content[start : start + 8] = b"\xff" * 8
    path.unlink()
    path.write_bytes(content)
    file = open_file(path)
    for _ in range(3):
        with pytest.raises(CorruptFileError) as caught:
            _read(file, RowRanges.of(5, 15))
        assert (caught.value.column, caught.value.page) == (1, 0)
