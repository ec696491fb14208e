"""Files whose metadata agree with themselves and still lie: other rows, or more memory than the file can need."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_spark._proto import file2_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.open_file import open_data_file
from lance_spark.layouts.base import RowRanges
from lance_spark.storage import open_store
from tests.support.equality import assert_tables_equal
from tests.support.file.forced_layouts import CASES, FULL_ZIP
from tests.support.file_surgery import columns_of, layout_of, with_columns

_stores = itertools.count()


def open_bytes(content: bytes) -> DataFileReader:
    store = open_store(f"memory://hostile-{next(_stores)}")
    store.put("x.lance", content)
    return open_data_file(store, "x.lance")


def written(folder: Path, table: pa.Table, version: str = "2.2") -> bytes:
    path = folder / "x.lance"
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)
    return path.read_bytes()


def moved(content: bytes, buffer: int, by: int) -> bytes:
    def edit(_number: int, column: file2_pb2.ColumnMetadata) -> None:
        for page in column.pages:
            page.buffer_offsets[buffer] += by

    return with_columns(content, edit)


def _full_zip(name: str, folder: Path, version: str) -> tuple[bytes, pa.Table]:
    values, metadata = {
        "nulls": (pa.array([None if i % 3 else b"%d" % i + b"x" * (i % 90) for i in range(2000)]), FULL_ZIP),
        **{case: CASES[case][:2] for case in ("full-zip binaries", "lists of binaries", "lists of vectors")},
    }[name]
    table = pa.table([values], schema=pa.schema([pa.field("x", values.type, metadata=metadata)]))
    content = written(folder, table, version)
    assert layout_of(columns_of(content)[0].pages[0]).HasField("full_zip_layout")
    return content, table


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", ["nulls", "full-zip binaries", "lists of binaries", "lists of vectors"])
@pytest.mark.parametrize("by", [-64, -8, -4, -1, 1, 4, 8, 16, 64])
def test_moved_row_index_is_refused(name: str, version: str, by: int, tmp_path: Path) -> None:
    content, table = _full_zip(name, tmp_path, version)
    damaged = open_bytes(moved(content, 1, by))
    whole = open_bytes(content)
    for start in (0, 1, 7, table.num_rows // 2, table.num_rows - 3):
        rows = RowRanges.of(start, start + 2)
        assert_tables_equal(whole.read_table(rows=rows), table.slice(start, 2))
        with pytest.raises(CorruptFileError, match=r"row index|aligned|leaves the file"):
            damaged.read_table(rows=rows)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("by", [1, 2, 4, 12])
def test_unaligned_page_buffers_are_refused(version: str, by: int, tmp_path: Path) -> None:
    content = written(tmp_path, pa.table({"a": np.arange(5000) ** 3}), version)
    with pytest.raises(CorruptFileError, match="aligned to 8 bytes"):
        open_bytes(moved(content, 1, by)).read_table()


def test_unaligned_page_buffers_of_2_0_are_read() -> None:
    # Releases before 0.19 did not align, and version 2.0 does not say that they must.
    content = (Path(__file__).parents[1] / "golden" / "v2_0" / "0.16.1.lance").read_bytes()
    positions = [
        position for column in columns_of(content) for page in column.pages for position in page.buffer_offsets
    ]
    assert any(position % 8 for position in positions)
    assert open_bytes(content).read_table().num_rows > 0
