"""A few rows of columns with dictionaries and runs, copied straight from mapped files: the same as those of Arrow."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.prepared.field import PreparedField
from tests.support.table.single_rows import NULLS, encoded, opened, picked
from tests.table.reading.counted_rows import counted_rows
from tests.table.reading.damaged_reads import check_damaged_reads

ROWS = 30_000
INDICES = [17, 3, 3, ROWS - 1, 0, 1023, 1024, 10, 4096, 29_000, 25_001, 12_345]
WORDS = pa.array([f"word number {number}" for number in range(90)])
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string()),
         pa.dictionary(pa.uint16(), pa.string()), pa.dictionary(pa.int32(), pa.string()),
         pa.decimal128(30, 2), pa.int64()]  # fmt: skip


def column(dtype: pa.DataType, nulls: str, rows: int = ROWS) -> pa.Array:
    """Ninety values; some in runs, and others in none."""
    codes = np.random.default_rng(4).integers(0, 90, rows)
    codes[rows // 3 : rows // 2] = 7
    mask = NULLS[nulls](np.arange(rows))
    codes = pa.array(codes, mask=mask)
    if pa.types.is_dictionary(dtype):
        return pa.DictionaryArray.from_arrays(codes.cast(dtype.index_type), WORDS)
    if pa.types.is_decimal(dtype) or pa.types.is_integer(dtype):
        return pc.multiply(codes, 1 << 50).cast(dtype)
    return WORDS.take(codes).cast(dtype)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each column that was copied."""
    return counted_rows(monkeypatch, (PreparedField, "pick"))


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("nulls", list(NULLS))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values(tmp_path: Path, dtype: pa.DataType, nulls: str, version: Any, writer: str, taken: list[int]) -> None:
    uri, table = str(tmp_path / "t"), pa.table({"x": column(dtype, nulls), "n": range(ROWS)})
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version=version)
    else:
        lance_spark.write(table, uri, file_format_version=version)
    dataset = opened(uri)
    for indices in (INDICES, sorted(set(INDICES)), [5]):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found["x"].type == dtype
        assert found.to_pylist() == table.take(indices).to_pylist()
    if version != "2.0" and not pa.types.is_decimal(dtype):
        assert taken == [12, 12, 11, 11, 1, 1]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", list(NULLS))
def test_runs(tmp_path: Path, nulls: str, version: Any, taken: list[int]) -> None:
    values = np.repeat(np.random.default_rng(1).integers(0, 100, ROWS // 40 + 1), 40)[:ROWS]
    mask = NULLS[nulls](np.arange(ROWS))
    table = pa.table({"i": pa.array(values.astype(np.int32), mask=mask), "u": pa.array(values.astype(np.uint8))})
    metadata = {"lance-encoding:rle-threshold": "1.0", "lance-encoding:compression": "none"}
    table = table.cast(pa.schema([field.with_metadata(metadata) for field in table.schema]))
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version=version)
    dataset = opened(str(tmp_path / "t"))
    assert dataset.take(INDICES).equals(table.take(INDICES))
    assert taken == [12, 12]
    # All rows, and many of them, are read in the general way.
    assert dataset.to_table().equals(table)
    many = list(range(0, ROWS, 3))
    assert dataset.take(many).equals(table.take(many))


@pytest.mark.slow
def test_several_pages_and_fragments(tmp_path: Path, taken: list[int]) -> None:
    rows = 700_000
    uri, values = str(tmp_path / "t"), WORDS.take(pa.array(np.random.default_rng(2).integers(0, 90, rows)))
    table = pa.table({"x": pc.binary_join_element_wise(values, "and more text", "; ")})
    batches = table.to_batches(max_chunksize=100_000)
    lance.write_dataset(pa.Table.from_batches([batch.take(pa.array(range(len(batch)))) for batch in batches]), uri)
    found, _ = encoded(uri)
    assert len(found.pages) > 1
    dataset = opened(uri)
    indices = np.random.default_rng(3).integers(0, rows, 500).tolist()
    assert dataset.take(indices).equals(table.take(indices))
    assert taken == [500]
    dataset.append(table.slice(0, 1000))
    for indices in ([5, 3, rows + 7], [rows + 999, 0]):
        assert opened(uri).take(indices)["x"].to_pylist() == [table["x"][row % rows].as_py() for row in indices]
    # Dictionaries of both fragments.
    assert len(taken) == 5


@pytest.mark.parametrize("place", ["words", "index", "dictionary"])
def test_an_error_names_the_file(tmp_path: Path, place: str) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"x": column(pa.string(), "none")}), uri)
    (file,) = (tmp_path / "t" / "data").iterdir()
    found, _ = encoded(uri)
    assert len(found.pages[0].buffers) == 3
    start, size = found.pages[0].buffers[("words", "index", "dictionary").index(place)]
    with open(file, "r+b") as raw:
        raw.seek(start)
        raw.write(b"\xff" * min(size, 1 << 12))
    with pytest.raises(CorruptFileError, match=os.path.basename(file)):
        opened(uri).take([5, 3])


@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize("kind", ["string", "dictionary", "runs"])
def test_damaged_pages(tmp_path: Path, kind: str, nulls: str) -> None:
    """Each value is read, or none; nothing behind the file is touched."""
    rows, metadata = 5000, {}
    if kind == "runs":
        mask = NULLS[nulls](np.arange(rows))
        values = pa.array(np.repeat(np.arange(rows // 25) % 50, 25).astype(np.int32), mask=mask)
        metadata = {"lance-encoding:rle-threshold": "1.0", "lance-encoding:compression": "none"}
    else:
        values = column(pa.string() if kind == "string" else pa.dictionary(pa.int32(), pa.string()), nulls, rows)
    schema = pa.schema([pa.field("c", values.type, metadata=metadata)])
    lance_spark.write(pa.table([values], schema=schema), str(tmp_path / "t"))
    found, content = encoded(str(tmp_path / "t"))
    check_damaged_reads(partial(picked, str(tmp_path / "t")), found.pages, content, values)
