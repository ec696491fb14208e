"""Every type, share of nulls and nesting that we write is read equal by the reference library and by us."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.arrays import leaves_table, nested_table
from tests.support.written_files import assert_file_holds, write_file

VERSIONS = ("2.0", "2.1", "2.2")
ROWS = (0, 1, 1024, 1025)
NULLS = (0.0, 0.3, 1.0)


def nested(rows: int, nulls: float, version: str) -> pa.Table:
    """Maps came with 2.2; a 2.0 file has no place for the validity of a struct."""
    return nested_table(rows, nulls, maps=version == "2.2", null_structs=version != "2.0")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("rows", ROWS)
def test_types_without_children(tmp_path: Path, version: str, nulls: float, rows: int) -> None:
    table = leaves_table(rows, nulls)
    assert_file_holds(write_file(tmp_path, table, version)[0], table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("rows", ROWS)
def test_nested_types(tmp_path: Path, version: str, nulls: float, rows: int) -> None:
    table = nested(rows, nulls, version)
    assert_file_holds(write_file(tmp_path, table, version)[0], table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("page_bytes", [1, 5_000])
def test_many_pages(tmp_path: Path, version: str, page_bytes: int) -> None:
    rows = 60 if page_bytes == 1 else 3000
    for table in (leaves_table(rows, 0.2), nested(rows, 0.2, version)):
        path, _ = write_file(tmp_path, table, version, page_bytes=page_bytes)
        reference = assert_file_holds(path, table)
        assert max(len(column.pages) for column in reference.metadata().columns) > 3


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_many_rows_in_batches(tmp_path: Path, version: str) -> None:
    sources = leaves_table(100_000, 0.1), nested(100_000, 0.1, version)
    table = pa.table({name: source[name] for source in sources for name in source.column_names})
    batches = [table.slice(start, 30_001) for start in range(0, 100_000, 30_001)]
    path, written = write_file(tmp_path, table, version, page_bytes=1 << 20, batches=batches)
    assert written.num_rows == 100_000
    assert_file_holds(path, table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [1, 7, 8, 1023])
def test_sliced_arrays(tmp_path: Path, version: str, offset: int) -> None:
    for whole in (leaves_table(3000, 0.2), nested(3000, 0.2, version)):
        table = whole.slice(offset, 1500)
        assert_file_holds(write_file(tmp_path, table, version)[0], table)


ODD_TYPES = {
    "views": pa.array(["a", None, "a string that is longer than twelve bytes"] * 5, pa.string_view()),
    "binary views": pa.array([b"a", None, b"bytes that are longer than twelve bytes"] * 5, pa.binary_view()),
    "list of views": pa.array([["a", None], [], None] * 5, pa.list_(pa.string_view())),
    "uuid": pa.array([bytes([i] * 16) for i in range(15)], pa.uuid()),
    "list of uuids": pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 5], pa.int32()), pa.array([bytes([i] * 16) for i in range(5)], pa.uuid())
    ),
    "wide binary": pa.array([b"x" * 300, None, b"y" * 300] * 5, pa.binary(300)),
    "nested vectors": pa.array([[[1, None], [3, 4]], None, [[5, 6], [7, 8]]] * 5, pa.list_(pa.list_(pa.int16(), 2), 2)),
    "vectors of booleans": pa.array([[True, None, False], None, [True] * 3] * 5, pa.list_(pa.bool_(), 3)),
    "wide vectors with null items": pa.array([[1.0, None] * 100, None, [2.0] * 200] * 5, pa.list_(pa.float64(), 200)),
    "null lists of nulls": pa.array([[None, None], None, []] * 5, pa.list_(pa.null())),
    "dictionary of large strings": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1] * 5, pa.int64()), pa.array(["a", "b"], pa.large_string())
    ),
    "dictionary of numbers": pa.array([1, None, 2] * 5, pa.dictionary(pa.int8(), pa.int64())),
    "list of dictionaries": pa.array([["a", None], None, ["b"]] * 5, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "large lists": pa.array([[1, None], None, []] * 5, pa.large_list(pa.int32())),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ODD_TYPES)
def test_odd_types(tmp_path: Path, version: str, name: str) -> None:
    given = pa.table({"c": ODD_TYPES[name]})
    stored = {"views": pa.string(), "binary views": pa.binary(), "list of views": pa.list_(pa.string())}
    expected = given.cast(pa.schema([("c", stored.get(name, given["c"].type))]))
    path, _ = write_file(tmp_path, given, version)
    # Our reader leaves extension types to the layer that knows them.
    assert_file_holds(path, expected, ours="uuid" not in name)


STRUCT_LISTS = {
    "in a column": pa.array(
        [[{"a": i, "b": None}, None] if i % 3 else None for i in range(3000)],
        pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]), 2),
    ),
    "in a struct": pa.array(
        [{"x": [{"a": i}, None, {"a": None}]} if i % 3 else None for i in range(3000)],
        pa.struct([("x", pa.list_(pa.struct([("a", pa.int32())]), 3))]),
    ),
}


@pytest.mark.parametrize("place", STRUCT_LISTS)
@pytest.mark.parametrize("page_bytes", [1000, 1 << 20])
def test_fixed_size_lists_of_structs(tmp_path: Path, place: str, page_bytes: int) -> None:
    table = pa.table({"c": STRUCT_LISTS[place]})
    path, _ = write_file(tmp_path, table, page_bytes=page_bytes)
    assert_file_holds(path, table)
