"""Files of version 2.0 by the reference library, of every type: whole, in ranges and row by row."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from lance_spark.layouts.base import RowRanges
from tests.layouts.v2_0.files import OpenFile, ranges_of, single_rows
from tests.support import arrays
from tests.support.equality import assert_arrays_equal, assert_tables_equal
from tests.support.layouts.v2_0_files import both, write


def write_column(path: Path, values: pa.Array | pa.ChunkedArray, metadata: dict[str, str] | None = None) -> OpenFile:
    """A file with one column ``x``."""
    schema = pa.schema([pa.field("x", values.type, metadata=metadata)])
    return write(path, pa.table([values], schema=schema))


def some_ranges(rows: int) -> list[RowRanges]:
    """Whole, none, aligned to nothing, the two ends, and many single rows."""
    if rows == 0:
        return [ranges_of([]), ranges_of([(0, 0)])]
    rng = np.random.default_rng(rows)
    cuts = np.unique(rng.integers(0, rows + 1, 20))
    cuts = cuts[: len(cuts) // 2 * 2].reshape(-1, 2)
    return [
        ranges_of([]),
        ranges_of([(rows // 3, rows)]),
        ranges_of([(0, (rows + 1) // 2)]),
        ranges_of([(0, 1), (rows - 1, rows)] if rows > 1 else [(0, 1)]),
        ranges_of([(int(a), int(b)) for a, b in cuts]),
        single_rows(np.unique(rng.integers(0, rows, 60))),
    ]


def check_ranges(file: OpenFile, expected: pa.Table) -> None:
    """All of the file, and every one of `some_ranges`."""
    assert_tables_equal(file.read().replace_schema_metadata(None), expected)
    for ranges in some_ranges(expected.num_rows):
        assert_tables_equal(file.read(ranges), expected.take(pa.array(ranges.indices())))


@pytest.mark.parametrize("kind", ["leaves", "nested"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rows", [0, 1, 1024, 1025])
def test_every_type(tmp_path: Path, rows: int, share: float, kind: str) -> None:
    expected = arrays.leaves_table(rows, share) if kind == "leaves" else nested(rows, share)
    check_ranges(write(tmp_path / "t.lance", expected), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["leaves", "nested"])
def test_every_type_in_many_rows(tmp_path: Path, kind: str) -> None:
    expected = arrays.leaves_table(100_000, 0.1) if kind == "leaves" else nested(100_000, 0.1)
    expected = expected.drop_columns(["wide_fixed_size_list"]) if kind == "leaves" else expected
    check_ranges(write(tmp_path / "t.lance", expected), expected)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_columns_of_many_pages(tmp_path: Path, share: float) -> None:
    """Pages of all columns end at different rows, those of list items within rows of other columns."""
    expected = pa.concat_tables([both(500, share, seed) for seed in range(8)])
    file = write(tmp_path / "t.lance", expected, data_cache_bytes=200_000)
    assert max(len(column.pages) for column in file.columns.values()) > 3
    assert len({len(column.pages) for column in file.columns.values()}) > 1
    check_ranges(file, expected)


def nested(rows: int, share: float) -> pa.Table:
    return arrays.nested_table(rows, share, maps=False, null_structs=False)


def test_agrees_with_pylance_reader(tmp_path: Path) -> None:
    table = nested(3000, 0.2)
    file = write(tmp_path / "t.lance", table)
    reader = LanceFileReader(str(tmp_path / "t.lance"))
    assert_tables_equal(file.read(RowRanges.of(700, 1900)), reader.read_range(700, 1200).to_table())
    rows = [3, 4, 5, 1000, 2999]
    assert_tables_equal(file.read(single_rows(rows)), reader.take_rows(rows).to_table())


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "fsst", "none"])
@pytest.mark.parametrize("dtype", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_compressed_strings(tmp_path: Path, scheme: str, dtype: pa.DataType) -> None:
    if scheme == "fsst" and dtype in (pa.large_string(), pa.large_binary()):
        pytest.skip("the reference library cannot write FSST with 64-bit offsets in 2.0")
    words = [
        None if i % 7 == 0 else "" if i % 11 == 0 else f"a string {i % 800} of no great length" for i in range(9000)
    ]
    values = pa.array(words, pa.string()).cast(dtype)
    file = write_column(tmp_path / "t.lance", values, {"lance-encoding:compression": scheme})
    for ranges in [RowRanges.of(0, len(values)), *some_ranges(len(values))]:
        expected = values.take(pa.array(ranges.indices()))
        assert_arrays_equal(file.read_field("x", ranges), expected)


def test_text_that_is_not_ascii(tmp_path: Path) -> None:
    values = pa.array(["größe", None, "日本語", "", "x"] * 300)
    file = write_column(tmp_path / "t.lance", values, {"lance-encoding:compression": "fsst"})
    assert_arrays_equal(file.read_field("x", RowRanges.of(3, 900)), values.slice(3, 897))


@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed"])
def test_packed_structs(tmp_path: Path, key: str) -> None:
    rows = 2000
    members = {
        "i": pa.array(range(rows), pa.int16()),
        "v": pa.array([[float(i), -1.0, 2.0] for i in range(rows)], pa.list_(pa.float32(), 3)),
        "f": pa.array(np.linspace(0, 1, rows)),
        "b": pa.array([b"abc"] * rows, pa.binary(3)),
        "d": pa.array(range(rows), pa.int32()).cast(pa.decimal128(12, 2)),
    }
    values = pa.StructArray.from_arrays(list(members.values()), list(members))
    file = write_column(tmp_path / "t.lance", values, {key: "true"})
    assert len(file.columns) == 1
    for ranges in [RowRanges.of(0, rows), *some_ranges(rows)]:
        assert_arrays_equal(file.read_field("x", ranges), values.take(pa.array(ranges.indices())))


@pytest.mark.parametrize("nulls", [False, True])
def test_fixed_size_lists_of_structs(tmp_path: Path, nulls: bool) -> None:
    """The reference library writes them, but cannot read them itself."""
    dtype = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.float64())]), 2)
    rows = [None if nulls and i % 3 == 0 else [{"a": i, "b": 0.5}, {"a": -i, "b": 1.5}] for i in range(1500)]
    values = pa.array(rows, dtype)
    file = write_column(tmp_path / "t.lance", values)
    for ranges in [RowRanges.of(0, 1500), *some_ranges(1500)]:
        assert_arrays_equal(file.read_field("x", ranges), values.take(pa.array(ranges.indices())))


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.bool_(), 5),
        pa.list_(pa.list_(pa.float32(), 2), 3),
        pa.list_(pa.decimal128(12, 3), 2),
        pa.list_(pa.list_(pa.list_(pa.int8(), 2), 2), 2),
    ],
    ids=str,
)
def test_fixed_size_lists_with_null_items(tmp_path: Path, dtype: pa.DataType, share: float) -> None:
    rng = np.random.default_rng(5)

    def value(inner: pa.DataType) -> object:
        if rng.random() < share:
            return None
        if pa.types.is_fixed_size_list(inner):
            return [value(inner.value_type) for _ in range(inner.list_size)]
        return bool(rng.random() < 0.5) if pa.types.is_boolean(inner) else int(rng.integers(0, 100))

    values = pa.array([value(dtype) for _ in range(700)], dtype)
    file = write_column(tmp_path / "t.lance", values)
    for ranges in [RowRanges.of(0, 700), *some_ranges(700)]:
        assert_arrays_equal(file.read_field("x", ranges), values.take(pa.array(ranges.indices())))


def test_values_without_bytes(tmp_path: Path) -> None:
    for rows in ([b""] * 300, [None, b"", b""] * 100):
        values = pa.array(rows, pa.binary(0))
        file = write_column(tmp_path / "t.lance", values)
        assert_arrays_equal(file.read_field("x", RowRanges.of(0, 300)), values)
        assert_arrays_equal(file.read_field("x", single_rows([3, 4, 200])), values.take(pa.array([3, 4, 200])))


def test_lists_that_are_all_null_or_empty(tmp_path: Path) -> None:
    """Such a page has no items; the pages before and after it have."""
    some = [[1, 2], None, [], [3]] * 200
    chunks = [pa.array(rows, pa.list_(pa.int32())) for rows in ([None] * 800, some, [[]] * 800, some, [None, []] * 400)]
    expected = pa.table({"x": pa.chunked_array(chunks)})
    file = write(tmp_path / "t.lance", expected, data_cache_bytes=10)
    assert len(file.columns[0].pages) == 5
    check_ranges(file, expected)


@pytest.mark.parametrize("index_type", [pa.int8(), pa.uint16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("value_type", [pa.string(), pa.int64(), pa.large_binary()], ids=str)
def test_dictionary_types(tmp_path: Path, index_type: pa.DataType, value_type: pa.DataType) -> None:
    values = pa.array([str(i) for i in range(20)]).cast(pa.int64() if value_type == pa.int64() else pa.string())
    codes = pa.array([None if i % 5 == 0 else i * 7 % 20 for i in range(900)], index_type)
    expected = pa.DictionaryArray.from_arrays(codes, values.cast(value_type))
    file = write_column(tmp_path / "t.lance", expected)
    for ranges in [RowRanges.of(0, 900), *some_ranges(900)]:
        assert_arrays_equal(file.read_field("x", ranges), expected.take(pa.array(ranges.indices())))


def test_dictionary_pages(tmp_path: Path) -> None:
    """Strings of few distinct values, at the border of what the writer takes for few."""
    for distinct in (1, 2, 95, 130):
        words = [None if i % 13 == 0 else "" if i % 17 == 0 else f"w{i % distinct}" * (i % 3) for i in range(3000)]
        values = pa.array(words, pa.string())
        file = write_column(tmp_path / f"{distinct}.lance", values)
        for ranges in [RowRanges.of(0, 3000), *some_ranges(3000)]:
            assert_arrays_equal(file.read_field("x", ranges), values.take(pa.array(ranges.indices())))


def test_blobs(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    blobs = [None if i % 5 == 0 else b"" if i % 7 == 0 else rng.bytes(int(rng.integers(1, 5000))) for i in range(200)]
    for first, name in ((blobs, "nulls first"), (blobs[1:], "value first")):
        values = pa.array(first, pa.large_binary())
        file = write_column(tmp_path / f"{name}.lance", values, {"lance-encoding:blob": "true"})
        for ranges in [RowRanges.of(0, len(values)), *some_ranges(len(values))]:
            assert_arrays_equal(file.read_field("x", ranges), values.take(pa.array(ranges.indices())))


def test_data_files_of_datasets(tmp_path: Path) -> None:
    """Ids of fields are those of the table, and an added column has a file of its own."""
    expected = nested(500, 0.3)
    lance.write_dataset(expected, str(tmp_path / "t"), data_storage_version="2.0")
    [path] = (tmp_path / "t" / "data").iterdir()
    assert_tables_equal(OpenFile.open(path).read(), expected)
