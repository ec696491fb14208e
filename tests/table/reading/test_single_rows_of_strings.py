"""A few rows of strings, copied straight from mapped files: the same as those of Arrow."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.prepared.field import PreparedField
from lance_spark.layouts.prepared.forms import form_of_page
from tests.support.table.single_rows import INDICES, NULLS, ROWS, encoded, opened, picked
from tests.table.reading.counted_rows import counted_rows
from tests.table.reading.damaged_reads import check_damaged_reads, damaged_contents

ENCODINGS = {
    "fsst": {"lance-encoding:compression": "fsst"},
    "none": {"lance-encoding:compression": "none"},
    "full zip": {"lance-encoding:compression": "none", "lance-encoding:structural-encoding": "fullzip"},
    "full zip, fsst": {"lance-encoding:compression": "fsst", "lance-encoding:structural-encoding": "fullzip"},
}
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def column(dtype: pa.DataType, nulls: str, rows: int = ROWS, *, repeats: bool = True) -> pa.Array:
    """Distinct strings of 0 to 90 bytes, which FSST compresses if they repeat."""
    random = np.random.default_rng(7)
    words = ["lorem ", "ipsum ", "dölor ", "sit "] if repeats else [chr(letter) for letter in range(33, 90)]
    numbers = random.integers(0, len(words), (rows, 12))
    lengths = random.integers(0, 13, rows)
    mask = NULLS[nulls](np.arange(rows))
    texts = [
        None if is_null else ("" if length == 0 else f"{row} ") + "".join(words[number] for number in some[:length])
        for row, (is_null, length, some) in enumerate(zip(mask, lengths, numbers, strict=True))
    ]
    return pa.array(texts, pa.large_string()).cast(dtype)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each part of a column that was copied."""
    return counted_rows(monkeypatch, (PreparedField, "pick"))


@pytest.mark.parametrize("encoding", list(ENCODINGS))
@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", list(NULLS))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values(
    tmp_path: Path, dtype: pa.DataType, nulls: str, version: Any, writer: str, encoding: str, taken: list[int]
) -> None:
    field = pa.field("x", dtype, metadata=ENCODINGS[encoding])
    values = column(dtype, nulls)
    uri, table = str(tmp_path / "t"), pa.table([values, range(ROWS)], schema=pa.schema([field, ("n", pa.int64())]))
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version=version)
    else:
        lance_spark.write(table, uri, file_format_version=version)
    dataset = opened(uri)
    for indices in (INDICES, sorted(set(INDICES)), [5], list(range(3000, 0, -1))):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found["x"].type == dtype
        assert found.to_pylist() == table.take(indices).to_pylist()
    # Of both columns.
    assert taken == [12, 12, 11, 11, 1, 1, 3000, 3000]


@pytest.mark.parametrize("encoding", ["fsst", "none"])
@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("nulls", list(NULLS))
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_values_of_version_2_0(
    tmp_path: Path, dtype: pa.DataType, nulls: str, writer: str, encoding: str, taken: list[int]
) -> None:
    values = column(dtype, nulls)
    # Neither writer compresses large strings so.
    is_large = dtype in (pa.large_string(), pa.large_binary())
    field = pa.field("x", dtype, metadata={} if is_large else ENCODINGS[encoding])
    struct = pa.StructArray.from_arrays([values, pa.array(range(ROWS))], names=["a", "b"])
    schema = pa.schema([field, ("s", struct.type)])
    uri, table = str(tmp_path / "t"), pa.table([values, struct], schema=schema)
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version="2.0", max_rows_per_file=ROWS - 5)
    else:
        lance_spark.write(table, uri, file_format_version="2.0")
    dataset = opened(uri)
    for indices in (INDICES, sorted(set(INDICES)), [5], list(range(3000, 0, -1))):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found["x"].type == dtype
        assert found.to_pylist() == table.take(indices).to_pylist()
        assert found.to_pylist() == lance.dataset(uri).take(indices).to_pylist()
    # The column, the struct, and its two members.
    assert sum(taken) == 4 * (12 + 11 + 1 + 3000)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_several_fragments_nulls_and_missing_columns(tmp_path: Path, dtype: pa.DataType, taken: list[int]) -> None:
    uri = str(tmp_path / "t")
    values = column(dtype, "some", 3000)
    parts = [values, pa.nulls(3000, dtype), column(dtype, "none", 3000, repeats=False)]
    for number, part in enumerate(parts):
        lance.write_dataset(pa.table({"x": part}), uri, mode="append" if number else "create")
    lance.write_dataset(pa.table({"x": values}), uri, mode="append", data_storage_version="2.1")
    dataset = opened(uri).add_columns(pa.schema([pa.field("y", dtype)]))
    expected = pa.table({"x": pa.concat_arrays([*parts, values]), "y": pa.nulls(12_000, dtype)})
    for indices in ([3001, 5999], [6000, 8999, 3000], [11_999, 3, 8000, 4000, 4000, 2999]):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found.to_pylist() == expected.take(indices).to_pylist()
    # Each of two columns, in each fragment with rows.
    assert len(taken) == 2 * (1 + 2 + 4)


def test_deleted_rows_and_several_columns(tmp_path: Path, taken: list[int]) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"x": column(pa.string(), "some"), "n": range(ROWS), "y": column(pa.binary(), "none")})
    lance.write_dataset(table, uri, max_rows_per_file=9_000).delete("n % 5 = 1")
    dataset, reference = opened(uri), lance.dataset(uri)
    indices = np.random.default_rng(2).integers(0, reference.count_rows(), 40).tolist()
    for columns in (["x"], ["n", "x"], ["y", "n", "x"]):
        assert dataset.take(indices, columns).to_pylist() == reference.take(indices, columns).to_pylist()
    assert sum(taken) == 40 * 6


@pytest.mark.parametrize("encoding", list(ENCODINGS))
@pytest.mark.parametrize("nulls", ["none", "some"])
def test_damaged_pages(tmp_path: Path, nulls: str, encoding: str) -> None:
    """Each value is read, or none; nothing behind the file is touched."""
    values = column(pa.string(), nulls, 5000)
    schema = pa.schema([pa.field("c", pa.string(), metadata=ENCODINGS[encoding])])
    lance_spark.write(pa.table([values], schema=schema), str(tmp_path / "t"))
    found, content = encoded(str(tmp_path / "t"))
    check_damaged_reads(partial(picked, str(tmp_path / "t")), found.pages, content, values)


@pytest.mark.parametrize("encoding", ["fsst", "none"])
def test_damaged_pages_of_version_2_0(tmp_path: Path, encoding: str) -> None:
    values = column(pa.string(), "some", 5000)
    schema = pa.schema([pa.field("c", pa.string(), metadata=ENCODINGS[encoding])])
    lance_spark.write(pa.table([values], schema=schema), str(tmp_path / "t"), file_format_version="2.0")
    found, content = encoded(str(tmp_path / "t"))
    check_damaged_reads(partial(picked, str(tmp_path / "t")), found.pages, content, values)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"x": column(pa.string(), "none")}), uri)
    (file,) = (tmp_path / "t" / "data").iterdir()
    found, _ = encoded(uri)
    start, size = found.pages[0].buffers[1]
    with open(file, "r+b") as raw:
        raw.seek(start)
        raw.write(b"\xff" * min(size, 1 << 12))
    with pytest.raises(CorruptFileError, match=os.path.basename(file)):
        opened(uri).take([5, 3])


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("scheme", ["zstd", "lz4"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_strings_that_are_compressed_one_by_one(
    tmp_path: Path, dtype: pa.DataType, scheme: str, writer: str, taken: list[int]
) -> None:
    """In damaged pages nothing behind the file is touched."""
    zipped = {"lance-encoding:compression": scheme, "lance-encoding:structural-encoding": "fullzip"}
    texts = [f"{row} " + "lorem ipsum " * (row % 40 + 1) for row in range(3000)]
    values = pa.array(texts, pa.large_string()).cast(dtype)
    table = pa.table([values], schema=pa.schema([pa.field("x", dtype, nullable=False, metadata=zipped)]))
    uri = str(tmp_path / "t")
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version="2.2")
    else:
        lance_spark.write(table, uri, file_format_version="2.2")
    for indices in ([5], [7, 7, 2999, 0]):
        assert opened(uri).take(indices)["x"].to_pylist() == values.take(pa.array(indices)).to_pylist()
    assert taken == [1, 4]
    found, content = encoded(uri)
    rows = np.array([2999, 0, 5, 5], np.int64)
    for damaged in damaged_contents(found.pages, content, 200):
        kept = picked(uri, damaged, rows)
        assert kept is None or len(kept) == 4


@pytest.mark.slow
def test_compressed_pages_beside_plain_ones(tmp_path: Path) -> None:
    """Random bytes are not compressed, so that pages are of both kinds."""
    zipped = {"lance-encoding:compression": "zstd", "lance-encoding:structural-encoding": "fullzip"}
    random = np.random.default_rng(5)
    values = pa.array([*(random.bytes(8192) for _ in range(2500)), *(b"%d " % row * 1500 for row in range(4000))])
    schema = pa.schema([pa.field("x", pa.binary(), nullable=False, metadata=zipped)])
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table([values], schema=schema), uri, file_format_version="2.2")
    found, content = encoded(uri)
    forms = [form_of_page(page) for page in found.pages]
    assert {form is not None and form.values is not None and form.values.compressed_by is None for form in forms} == {
        True, False
    }  # fmt: skip
    for wanted in ([6499, 0, 2499, 2500, 6499, 1], [3, 2], [6000, 5000]):
        taken = picked(uri, content, np.array(wanted, np.int64))
        assert taken is not None
        assert taken.equals(values.take(pa.array(wanted)))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("writer", ["reference", "own"])
def test_one_long_value_in_all_rows(tmp_path: Path, writer: str, dtype: pa.DataType) -> None:
    """A page with one value in its buffer: each row has it."""
    uri, values = str(tmp_path / "t"), pa.array(["text " * 200] * 3000).cast(dtype)
    table = pa.table({"x": values})
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version="2.2")
    else:
        lance_spark.write(table, uri, file_format_version="2.2")
    for indices in ([5], [7, 7, 2999, 0]):
        found = opened(uri).take(indices)["x"]
        found.validate(full=True)
        assert found.type == dtype
        assert found.to_pylist() == values.take(pa.array(indices)).to_pylist()
