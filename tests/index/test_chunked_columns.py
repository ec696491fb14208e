"""Columns that are copied from a mapped file have the values that the file reader decodes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import LanceError
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.vector import storage
from lance_spark.index.vector.aligned import owned
from lance_spark.index.vector.chunked_columns import ChunkedColumn
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage.cache import shared
from lance_spark.storage.registry import open_store
from tests.support.vector_search.old_indexes import make_old, results
from tests.support.vector_search.tables import clustered, vectors, write

ROWS = 3000
BYTES = pa.list_(pa.uint8(), 16)
LARGE = pa.list_(pa.uint8(), 300)
COLUMNS = [
    ("number", pa.float32()),
    ("codes", BYTES),
    ("large", LARGE),
    ("packed", pa.uint64()),
    ("mixed", pa.float32()),
]


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    codes = pa.array(rng.integers(0, 256, ROWS * 16), pa.uint8())
    large = pa.array(rng.integers(0, 256, ROWS * 300), pa.uint8())
    columns = {
        "number": pa.array(rng.normal(size=ROWS), pa.float32()),
        "codes": pa.FixedSizeListArray.from_arrays(codes, 16),
        "large": pa.FixedSizeListArray.from_arrays(large, 300),
        "packed": pa.array(rng.integers(0, 1 << 40, ROWS), pa.uint64()),
        # Numbers of fewer bits are packed.
        "mixed": pa.array(
            np.where(np.arange(ROWS) < ROWS // 2, rng.uniform(size=ROWS), -rng.uniform(size=ROWS)), pa.float32()
        ),
        "nulls": pa.array([None if row % 5 == 2 else float(row) for row in range(ROWS)], pa.float32()),
    }
    fields = [pa.field(name, array.type, nullable=name == "nulls") for name, array in columns.items()]
    return pa.Table.from_arrays([*columns.values()], schema=pa.schema(fields))


def written(folder: Path, page_bytes: int, version: FileVersion = FileVersion.V2_2) -> IndexFile:
    schema = from_arrow_schema(table().schema)
    writer = FileWriter(open_store(str(folder)), "file", schema, version=version, page_bytes=page_bytes)
    writer.write(table())
    writer.close()
    return opened(folder)


def opened(folder: Path) -> IndexFile:
    return IndexFiles(open_store(str(folder.parent)), folder.name, {}).open("file")


def read(file: IndexFile, name: str, dtype: pa.DataType, rows: RowRanges) -> list[np.ndarray[Any, Any]] | None:
    memory = file.in_memory(1, 0)
    column = ChunkedColumn.of(file, name, dtype)
    return None if memory is None or column is None else column.read(memory, rows)


def some_rows(seed: int) -> RowRanges:
    bounds = sorted(random.Random(seed).sample(range(ROWS + 1), 2 * random.Random(seed).choice([1, 2, 7, 40])))
    return RowRanges(np.array(bounds[::2]), np.array(bounds[1::2]))


@pytest.mark.parametrize("page_bytes", [700, 20_000, 1 << 23])
@pytest.mark.parametrize(("name", "dtype"), COLUMNS)
def test_values_are_those_of_the_file(tmp_path: Path, page_bytes: int, name: str, dtype: pa.DataType) -> None:
    file = written(tmp_path, page_bytes)
    values = table().column(name).combine_chunks()
    flat = values.values.to_numpy().reshape(ROWS, -1) if pa.types.is_fixed_size_list(dtype) else values.to_numpy()
    everything = RowRanges.of(0, ROWS)
    touching = RowRanges(np.array([0, 1000, 1001]), np.array([1000, 1001, ROWS]))
    for rows in (everything, touching, *map(some_rows, range(25))):
        found = read(file, name, dtype, rows)
        assert found is not None
        spans = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
        for array, (start, stop) in zip(found, spans, strict=True):
            assert owned(array) is array
            assert np.array_equal(array, flat[start:stop])


def test_other_columns_are_left_to_the_reader(tmp_path: Path) -> None:
    file = written(tmp_path, 20_000)
    rows = RowRanges.of(10, 200)
    assert read(file, "nulls", pa.float32(), rows) is None
    assert read(file, "number", pa.float64(), rows) is None
    assert read(file, "codes", pa.list_(pa.uint8(), 8), rows) is None
    assert read(file, "missing", pa.float32(), rows) is None
    old = written(tmp_path / "old", 20_000, FileVersion.V2_0)
    assert read(old, "number", pa.float32(), rows) is None


@pytest.mark.parametrize(("name", "dtype"), COLUMNS)
def test_damaged_files_have_the_values_of_the_reader_or_an_error(tmp_path: Path, name: str, dtype: pa.DataType) -> None:
    file = written(tmp_path, 9_000)
    buffers = [buffer for page in file.encoded_pages(name) for buffer in page.buffers]
    path = tmp_path / "file"
    content = path.read_bytes()
    rng = random.Random(5)
    num_errors = 0
    for _ in range(250):
        buffer = rng.choice(buffers)
        # The words of chunks and their headers are at the start of a buffer.
        place = buffer.position + rng.randrange(min(buffer.size, 24))
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        shared.clear()
        rows = some_rows(rng.randrange(1000))
        file = opened(tmp_path)
        try:
            (expected,) = file.columns({name: dtype}, rows)
        except LanceError:
            expected = None
        try:
            found = read(file, name, dtype, rows)
        except LanceError:
            num_errors += 1
            continue
        assert expected is not None
        assert found is not None
        values = expected.flatten() if pa.types.is_fixed_size_list(dtype) else expected
        assert np.concatenate(found).tobytes() == values.to_numpy().tobytes()
    assert num_errors > 0 or name == "large"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("IVF_PQ", {"num_sub_vectors": 16}),
        ("IVF_PQ", {"num_sub_vectors": 16, "num_bits": 4}),
        ("IVF_SQ", {}),
        ("IVF_RQ", {"num_bits": 5}),
        ("IVF_RQ", {"num_bits": 1}),
        ("IVF_HNSW_SQ", {}),
    ],
)
@pytest.mark.parametrize("dimension", [64, 640])
def test_searches_find_the_same_rows(
    tmp_path: Path, kind: str, options: dict[str, Any], dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, dimension, "f4")
    write(uri, vectors(values))
    lance.dataset(uri).create_index("v", kind, num_partitions=4, **options)
    make_old(uri)
    shared.clear()
    queries = values[:100:40]
    found = [results(uri, queries, "l2") for _ in range(2)]
    shared.clear()
    monkeypatch.setattr(storage, "has_free_etags", lambda store: False)
    assert found == [results(uri, queries, "l2") for _ in range(2)]


def test_the_reader_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 64, "f4")
    write(uri, vectors(values))
    lance.dataset(uri).create_index("v", "IVF_SQ", num_partitions=4)
    make_old(uri)
    decoded: list[str] = []
    columns = IndexFile.columns_in_chunks

    def counted(self: IndexFile, types: Any, rows: RowRanges | None = None) -> list[pa.ChunkedArray]:
        decoded.extend(types)
        return columns(self, types, rows)

    monkeypatch.setattr(IndexFile, "columns_in_chunks", counted)
    shared.clear()
    results(uri, values[:1], "l2")
    assert decoded == []
