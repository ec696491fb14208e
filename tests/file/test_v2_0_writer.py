"""Encodings and limits of the files of version 2.0 that we write; the reference library reads every one equal."""

from __future__ import annotations

from pathlib import Path

import lance.file
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from tests.support.written_files import assert_file_holds, write_file

ROWS = 3000
PACKED = {"lance-encoding:packed": "true"}


def encodings(path: Path) -> str:
    """The descriptions of all pages."""
    columns = lance.file.LanceFileReader(str(path)).metadata().columns
    return " ".join(str(page.encoding) for column in columns for page in column.pages)


def column(values: pa.Array, metadata: dict[str, str] | None = None) -> pa.Table:
    return pa.table([values], schema=pa.schema([pa.field("c", values.type, metadata=metadata)]))


TEXT = [None if i % 7 == 0 else f"a longer text with the number {i}" for i in range(ROWS)]


@pytest.mark.parametrize(
    ("compression", "data_type"),
    [
        (name, dtype)
        for name in ("none", "lz4", "zstd", "fsst")
        for dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
        if name != "fsst" or dtype in (pa.string(), pa.binary())
    ],
)
def test_requested_compression_is_used(tmp_path: Path, compression: str, data_type: pa.DataType) -> None:
    table = column(pa.array(TEXT).cast(data_type), {"lance-encoding:compression": compression})

    path, _ = write_file(tmp_path, table, "2.0")

    assert_file_holds(path, table)
    expected = {"none": "Binary", "lz4": 'scheme: "lz4"', "zstd": 'scheme: "zstd"', "fsst": "Fsst"}[compression]
    assert expected in encodings(path)


def test_requested_compression_of_empty_texts(tmp_path: Path) -> None:
    for compression in ("lz4", "zstd", "fsst"):
        table = column(pa.array(["", None, ""]), {"lance-encoding:compression": compression})
        path, _ = write_file(tmp_path, table, "2.0")
        assert_file_holds(path, table)


@pytest.mark.parametrize("data_type", [pa.large_string(), pa.large_binary()])
def test_fsst_of_large_types_is_refused(tmp_path: Path, data_type: pa.DataType) -> None:
    table = column(pa.array(TEXT).cast(data_type), {"lance-encoding:compression": "fsst"})
    with pytest.raises(UnsupportedFeatureError, match=r"fsst .* needs file version 2\.1"):
        write_file(tmp_path, table, "2.0")


def test_unknown_compression_is_refused(tmp_path: Path) -> None:
    table = column(pa.array(["a"]), {"lance-encoding:compression": "brotli"})
    with pytest.raises(InvalidInputError, match="field 'c': lance-encoding:compression is 'brotli'; use one of"):
        write_file(tmp_path, table, "2.0")


@pytest.mark.parametrize(("distinct", "is_dictionary"), [(1, True), (99, True), (100, False)])
def test_strings_with_few_distinct_values_get_a_dictionary(tmp_path: Path, distinct: int, is_dictionary: bool) -> None:
    table = column(pa.array([None if i % 13 == 0 else f"value {i % distinct}" for i in range(ROWS)]))

    path, _ = write_file(tmp_path, table, "2.0")

    assert_file_holds(path, table)
    assert ("Dictionary" in encodings(path)) is is_dictionary


@pytest.mark.parametrize(
    "members",
    [
        [("a", pa.int32()), ("b", pa.float64()), ("c", pa.binary(3))],
        [("a", pa.int32()), ("b", pa.list_(pa.int16(), 2))],
    ],
)
@pytest.mark.parametrize("page_bytes", [1000, 1 << 20])
def test_packed_struct_is_one_column(tmp_path: Path, members: list[tuple[str, pa.DataType]], page_bytes: int) -> None:
    values = {"a": 7, "b": 0.5 if len(members) == 3 else [1, 2], "c": b"xyz"}
    rows = [{name: values[name] for name, _ in members} | {"a": i} for i in range(ROWS)]
    table = column(pa.array(rows, pa.struct(members)), PACKED)

    path, written = write_file(tmp_path, table, "2.0", page_bytes=page_bytes)

    assert written.field_ids == (0,)
    assert "PackedStruct" in encodings(path)
    assert_file_holds(path, table)


NULL_STRUCTS = {
    "struct": pa.array([{"a": 1}, None]),
    "item": pa.array([[{"a": 1}, None]]),
    "member": pa.array([{"s": {"a": 1}}, {"s": None}]),
}


@pytest.mark.parametrize("place", NULL_STRUCTS)
def test_null_struct_is_refused(tmp_path: Path, place: str) -> None:
    message = r"null struct, which files of version 2\.0 cannot store; write version 2\.1"
    with pytest.raises(UnsupportedFeatureError, match=message):
        write_file(tmp_path, column(NULL_STRUCTS[place]), "2.0")


@pytest.mark.parametrize("row", [None, {"a": None}])
def test_null_in_packed_struct_is_refused(tmp_path: Path, row: object) -> None:
    rows = pa.array([{"a": 1}, row], pa.struct([("a", pa.int8())]))
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match="packed struct"):
        write_file(tmp_path, column(rows, PACKED), "2.0")


def test_null_struct_below_a_null_list_is_not_visible(tmp_path: Path) -> None:
    items = pa.array([None, {"a": 1}, {"a": 2}])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), items, mask=pa.array([True, False]))

    path, _ = write_file(tmp_path, column(lists), "2.0")

    assert_file_holds(path, column(pa.array([None, [{"a": 1}, {"a": 2}]], lists.type)))


def test_dictionary_without_a_code_for_null_is_refused(tmp_path: Path) -> None:
    codes = pa.array([*range(128), None], pa.int8())
    values = pa.DictionaryArray.from_arrays(codes, pa.array([f"item {i}" for i in range(128)]))
    with pytest.raises(InvalidInputError, match="use wider indices"):
        write_file(tmp_path, column(values), "2.0")


def test_long_lists_and_their_items_have_pages_of_their_own(tmp_path: Path) -> None:
    lists = pa.array([None if i % 5 == 0 else list(range(i % 40)) for i in range(ROWS)], pa.list_(pa.int64()))
    table = column(lists)

    path, written = write_file(tmp_path, table, "2.0", page_bytes=10_000)

    reference = assert_file_holds(path, table)
    lists_pages, item_pages = (len(column.pages) for column in reference.metadata().columns)
    assert 1 < lists_pages < item_pages
    assert written.field_ids == (0, 1)
