"""A few rows, whose values are copied straight from mapped files: the same as those of the reference and of a scan."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.layouts import page_runs
from lance_spark.layouts.prepared import forms
from lance_spark.layouts.prepared.field import Nulls
from lance_spark.storage.cache import shared
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading import take
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from tests.support.index.requests import KeptStore, counted
from tests.support.manifest_surgery import edit_manifest
from tests.support.table.single_rows import INDICES, NULLS, ROWS, encoded, opened, picked
from tests.support.threads import all_at_once
from tests.support.vector_search.tables import clustered, vectors
from tests.table.reading.counted_rows import counted_rows
from tests.table.reading.damaged_reads import check_damaged_reads

TYPES = [
    pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us", "UTC"), pa.duration("ns"),
    pa.list_(pa.float32(), 96), pa.list_(pa.uint8(), 300),
]  # fmt: skip


def column(dtype: pa.DataType, nulls: str = "none", rows: int = ROWS) -> pa.Array:
    """Values that need all bits in the first half, few in the second."""
    random = np.random.default_rng(5)
    mask = NULLS[nulls](np.arange(rows))
    if pa.types.is_fixed_size_list(dtype):
        items = column(dtype.value_type, "none", rows * dtype.list_size)
        return pa.FixedSizeListArray.from_arrays(items, dtype.list_size, mask=pa.array(mask))
    if pa.types.is_boolean(dtype):
        return pa.array(random.integers(0, 2, rows) == 1, mask=mask)
    width = dtype.bit_width // 8
    words = random.integers(0, 1 << (8 * width - 1), rows, np.uint64)
    words[rows // 2 :] &= np.uint64(7 if width == 1 else 1023)
    if pa.types.is_floating(dtype):
        numbers = words.astype(np.float64).astype(f"f{width}")
        return pa.array(np.nan_to_num(numbers), dtype, mask=mask)
    plain = pa.array(words.astype(f"u{width}").view(f"i{width}"), mask=mask)
    return plain.view(dtype) if dtype != plain.type else plain


class Taken:
    """Counts the columns that are copied, and the reads that are not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.columns = 0
        read = SingleRowColumns.read

        def count(self_: SingleRowColumns, *arguments: Any) -> list[pa.Array] | None:
            columns = read(self_, *arguments)
            self.columns += len(columns or ())
            return columns

        monkeypatch.setattr(SingleRowColumns, "read", count)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("nulls", list(NULLS))
def test_values_of_all_types(tmp_path: Path, nulls: str, version: Any, writer: str, taken: Taken) -> None:
    uri = str(tmp_path / "t")
    names = [f"c{number}" for number in range(len(TYPES))]
    table = pa.table([column(dtype, nulls) for dtype in TYPES], names=names)
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version=version)
    else:
        lance_spark.write(table, uri, file_format_version=version)
    dataset = opened(uri)
    copied = []
    for name in names:
        before = taken.columns
        assert dataset.take(INDICES, [name]).equals(table.select([name]).take(INDICES))
        copied += [name] if taken.columns > before else []
    assert copied == names


@pytest.mark.parametrize("stable", [False, True])
def test_several_fragments_with_deleted_rows_and_added_columns(tmp_path: Path, stable: bool, taken: Taken) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"id": column(pa.int64()), "n": column(pa.int32(), "some")})
    written = lance.write_dataset(table, uri, max_rows_per_file=9_000, enable_stable_row_ids=stable)
    written.delete("n % 5 = 1")
    written.add_columns({"twice": "n * 2"})
    written.delete("n % 7 = 1")
    dataset, reference = opened(uri), lance.dataset(uri)
    indices = np.random.default_rng(2).integers(0, reference.count_rows(), 12).tolist()
    for columns in (["id"], ["twice", "id"], ["n", "twice"]):
        for chosen in (indices, indices[:1]):
            assert dataset.take(chosen, columns).equals(reference.take(chosen, columns))
    assert taken.columns > 0
    ids = dataset.take(indices[:1], ["id", "_rowid"]).column("_rowid").to_pylist()
    assert ids == [dataset.to_table(["_rowid"]).column("_rowid").to_pylist()[indices[0]]]


@pytest.mark.parametrize("stable", [False, True])
def test_system_columns(tmp_path: Path, stable: bool, taken: Taken) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"id": column(pa.int64()), "n": range(ROWS)})
    written = lance.write_dataset(table, uri, max_rows_per_file=9_000, enable_stable_row_ids=stable)
    written.delete("n % 5 = 1")
    written.update({"id": "7"}, "n % 11 = 2")
    dataset, reference = opened(uri), lance.dataset(uri)
    names = [
        "_rowid", "n", "_rowaddr", "_fragid", "_row_created_at_version", "_row_last_updated_at_version", "id",
    ]  # fmt: skip
    scanned = dataset.to_table(names)
    assert (
        scanned.select(["_rowid", "_rowaddr"])
        == reference.scanner([], with_row_id=True, with_row_address=True).to_table()
    )
    before = taken.columns
    for indices in ([3], [5, 5, 20_000, 1, 7], np.random.default_rng(5).integers(0, len(scanned), 900)):
        assert dataset.take(indices, names).equals(scanned.take(indices))
    assert dataset.take([9, 4], ["_rowid"]).equals(scanned.select(["_rowid"]).take([9, 4]))
    assert taken.columns >= before + 6


def test_rows_in_any_order_and_twice(tmp_path: Path, taken: Taken, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": np.random.default_rng(1).random(ROWS), "b": column(pa.bool_(), "some")})
    lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=9_000)
    dataset = opened(str(tmp_path / "t"))
    with monkeypatch.context() as patch:
        # Nothing is sorted and put back.
        patch.setattr(take, "take_chunked", None)
        for indices in (INDICES, [8_999, 9_000, 8_999, 0], [ROWS - 1, ROWS - 2]):
            assert dataset.take(indices).equals(table.take(indices))
            assert dataset.take(indices, ["b"]).equals(table.select(["b"]).take(indices))
    assert taken.columns == 9
    for wrong in ([5, ROWS], [3, -1]):
        with pytest.raises(InvalidInputError, match="there is no row"):
            dataset.take(wrong)
    many = [*range(200, 100, -1), 0]
    assert dataset.take(many).equals(table.take(many))


def test_fragments_of_several_versions_and_without_the_column(tmp_path: Path, taken: Taken) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": column(pa.int64(), rows=3000)}), uri, data_storage_version="2.1")
    dataset = lance_spark.open(uri).add_columns(pa.schema([pa.field("b", pa.int32())]))
    rows = pa.table({"a": column(pa.int64(), rows=500), "b": column(pa.int32(), rows=500)})
    dataset.append(rows)
    dataset, reference = opened(uri), lance.dataset(uri)
    for indices in ([5, 2999, 3000, 3499], [1, 0], [3001]):
        for columns in (["a"], ["b"], ["a", "b"]):
            assert dataset.take(indices, columns).equals(reference.take(indices, columns))
    assert taken.columns == 12


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_nulls_and_equal_values(tmp_path: Path, dtype: pa.DataType, writer: str, version: Any, taken: Taken) -> None:
    uri, values = str(tmp_path / "t"), column(dtype, rows=3000)
    equal = pa.concat_arrays([values.slice(7, 1)] * 3000) if pa.types.is_fixed_size_list(dtype) else None
    equal = equal or pa.repeat(values[7], 3000)
    parts = [pa.table({"c": part}) for part in (values, pa.nulls(3000, dtype), equal, values)]
    for number, part in enumerate(parts):
        mode: Any = "append" if number else "create"
        if writer == "reference":
            lance.write_dataset(part, uri, data_storage_version=version, mode=mode)
        else:
            lance_spark.write(part, uri, file_format_version=version, mode=mode)
    dataset, table = opened(uri), pa.concat_tables(parts)
    for indices in ([3001, 5999], [6000, 8999, 3000], [11_999, 3, 8000, 4000, 4000, 2999]):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found.equals(table.take(indices))
    assert taken.columns == 3


def test_levels_in_runs(tmp_path: Path, taken: Taken) -> None:
    mask = np.arange(ROWS) // 900 % 2 == 1
    table = pa.table({"x": pa.array(np.arange(ROWS), mask=mask), "v": column(pa.list_(pa.float32(), 4), "late")})
    lance_spark.write(table, str(tmp_path / "t"), file_format_version="2.2")
    found, _ = encoded(str(tmp_path / "t"))
    assert "Rle" in str(page_runs.parse_page(found.pages[0].type_url, found.pages[0].message))
    assert opened(str(tmp_path / "t")).take(INDICES).equals(table.take(INDICES))
    assert taken.columns == 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_of_nulls_among_others(tmp_path: Path, version: Any, taken: Taken) -> None:
    page = 1 << 20
    numbers, places = np.random.default_rng(3).integers(0, 1 << 62, 3 * page), np.arange(3 * page) // page
    table = pa.table({"x": pa.array(numbers, mask=places == 1)})
    lance_spark.write(table, str(tmp_path / "t"), file_format_version=version, max_rows_per_file=3 * page)
    found, _ = encoded(str(tmp_path / "t"))
    assert [len(page.buffers) for page in found.pages] == [2, 0, 2]
    indices = np.random.default_rng(4).integers(0, len(table), 900)
    assert opened(str(tmp_path / "t")).take(indices).equals(table.take(indices))
    assert taken.columns == 1


OTHERS = {
    "strings": pa.array([f"{number:08x}" for number in range(ROWS)]),
    "times": pa.array(np.arange(ROWS), pa.time64("us")),
    "structs": pa.array([{"a": number} for number in range(ROWS)]),
    "lists": pa.array([[number] for number in range(ROWS)]),
    "repeated": pa.array(np.arange(ROWS) // 4000),
    "constant": pa.array([7] * ROWS),
    "short vectors": pa.FixedSizeListArray.from_arrays(column(pa.float32(), rows=2 * ROWS), 2),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_other_columns(tmp_path: Path, name: str) -> None:
    table = pa.table({"id": range(ROWS), "c": OTHERS[name]})
    lance.write_dataset(table, str(tmp_path / "t"))
    dataset = opened(str(tmp_path / "t"))
    assert dataset.take(INDICES).equals(table.take(INDICES))
    assert dataset.take(INDICES, ["c"]).equals(table.select(["c"]).take(INDICES))


def test_old_files_and_stores_without_mapped_files(tmp_path: Path, taken: Taken) -> None:
    table = pa.table({"id": column(pa.int64())})
    lance.write_dataset(table, str(tmp_path / "old"), data_storage_version="legacy")
    assert opened(str(tmp_path / "old")).take(INDICES).equals(table.take(INDICES))
    lance.write_dataset(table, str(tmp_path / "new"))
    assert counted(tmp_path / "new", KeptStore)[0].take(INDICES).equals(table.take(INDICES))
    assert taken.columns == 0


def searched(tmp_path: Path, **options: Any) -> tuple[Dataset, Any, np.ndarray[Any, Any]]:
    values = clustered(4000, 128, "f4")
    table = pa.table({"id": column(pa.int64(), rows=4000), "n": column(pa.int32(), "some", 4000), "v": vectors(values)})
    uri = str(tmp_path / "t")
    lance.write_dataset(table, uri, **options)
    opened(uri).create_index("v", "IVF_FLAT", num_partitions=4)
    lance.dataset(uri).delete("id % 5 = 1")
    return opened(uri), lance.dataset(uri), values


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_file", [4000, 900])
@pytest.mark.parametrize("stable", [False, True])
def test_columns_of_searches(tmp_path: Path, stable: bool, rows_per_file: int, taken: Taken) -> None:
    dataset, reference, values = searched(tmp_path, max_rows_per_file=rows_per_file, enable_stable_row_ids=stable)
    for query in values[::400] + 0.01:
        nearest = {"column": "v", "q": query, "k": 12, "nprobes": 4}
        for columns in (["id"], ["n", "id"], ["v"], None):
            before = taken.columns
            names = None if columns is None else [*columns, "_distance"]
            expected = reference.to_table(names, nearest=nearest)
            found = dataset.nearest("v", query, 12, columns=columns, nprobes=4)
            assert found.drop(["_distance"]).equals(expected.drop(["_distance"]))
            assert taken.columns > before


def test_batches_of_queries_have_rows_twice(tmp_path: Path) -> None:
    dataset, _, values = searched(tmp_path, max_rows_per_file=900)
    queries = np.repeat(values[:1] + 0.01, 3, axis=0)
    found = dataset.nearest("v", queries, 4, columns=["id"], nprobes=4).column("id").to_pylist()
    assert found == dataset.nearest("v", queries[0], 4, columns=["id"], nprobes=4).column("id").to_pylist() * 3


@pytest.mark.slow
def test_threads_that_share_a_version(tmp_path: Path) -> None:
    table = pa.table({"id": column(pa.int64(), "some"), "v": column(pa.list_(pa.float32(), 96))})
    lance.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=8_000)
    dataset = opened(str(tmp_path / "t"))

    def work(number: int) -> bool:
        random = np.random.default_rng(number)
        for turn in range(20):
            indices = random.integers(0, ROWS, 12).tolist()
            if turn % 7 == number % 7:
                shared.clear()
            if not dataset.take(indices).equals(table.take(indices)):
                return False
        return True

    assert all(all_at_once(work, 8))


def test_a_file_that_is_removed_meanwhile(tmp_path: Path) -> None:
    table = pa.table({"id": column(pa.int64())})
    lance.write_dataset(table, str(tmp_path / "t"))
    dataset = opened(str(tmp_path / "t"))
    assert dataset.take([5], ["id"]).equals(table.take([5]))
    shutil.rmtree(tmp_path / "t" / "data")
    # The map of an open file keeps it.
    assert dataset.take([6], ["id"]).equals(table.take([6]))
    shared.clear()
    with pytest.raises(NotFoundError):
        opened(str(tmp_path / "t")).take([6], ["id"])


def test_the_error_of_a_broken_chunk_names_the_file(tmp_path: Path) -> None:
    lance_spark.write(pa.table({"id": column(pa.int64())}), str(tmp_path / "t"))
    (file,) = (tmp_path / "t" / "data").iterdir()
    column_, _ = encoded(str(tmp_path / "t"))
    start = column_.pages[0].buffers[1].position
    with open(file, "r+b") as raw:
        raw.seek(start)
        raw.write(b"\xff" * 16)
    with pytest.raises(CorruptFileError, match=os.path.basename(file)):
        opened(str(tmp_path / "t")).take([5], ["id"])


@pytest.mark.slow
def test_a_page_of_an_unknown_kind_is_in_the_way_of_its_own_rows_only(tmp_path: Path, taken: Taken) -> None:
    rows = 60_000
    table = pa.table({"v": column(pa.list_(pa.float32(), 96), rows=rows)})
    lance_spark.write(table, str(tmp_path / "t"))
    found, _ = encoded(str(tmp_path / "t"))
    assert len(found.pages) > 1
    parse = page_runs.parse_page
    last = found.pages[-1].message + b"\xf8\x01\x01"

    def refusing(type_url: str, message: bytes) -> Any:
        if message == last:
            raise UnsupportedFeatureError("a layout of a later release", feature="layout")
        return parse(type_url, message)

    with pytest.MonkeyPatch.context() as patch:
        for module in (page_runs, forms):
            patch.setattr(module, "parse_page", refusing)
        object.__setattr__(found.pages[-1], "message", last)
        dataset = opened(str(tmp_path / "t"))
        assert dataset.take([5, 3]).equals(table.take([5, 3]))
        with pytest.raises(UnsupportedFeatureError):
            dataset.take([rows - 1])
    assert taken.columns == 0


@pytest.mark.parametrize("nulls", ["none", "some"])
@pytest.mark.parametrize(
    "dtype", [pa.int64(), pa.uint8(), pa.float64(), pa.bool_(), pa.list_(pa.float32(), 96)], ids=str
)
def test_damaged_pages(tmp_path: Path, dtype: pa.DataType, nulls: str) -> None:
    """Each value is read, or none; nothing behind the file is touched."""
    values, uri = column(dtype, nulls, 5000), str(tmp_path / "t")
    lance_spark.write(pa.table({"c": values}), uri)
    found, content = encoded(uri)
    has_headers = not pa.types.is_nested(dtype)
    check_damaged_reads(partial(picked, uri), found.pages, content, values, refuses=has_headers)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_schema_with_lists_of_no_items(tmp_path: Path, version: Any) -> None:
    """A value takes no room then, and must not be written anywhere."""
    uri = str(tmp_path / "t")
    values = np.random.default_rng(1).integers(0, 1000, 5000)
    values[2048:4096] = 0
    lance_spark.write(pa.table({"c": values}), uri, file_format_version=version)

    def emptied(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "fixed_size_list:int64:0"

    edit_manifest(Path(uri), emptied)
    for read in (lambda: opened(uri).take([4000, 2100, 2]), opened(uri).to_table):
        with pytest.raises(CorruptFileError, match="type fixed_size_list"):
            read()


@pytest.mark.parametrize("rows_per_file", [ROWS, 5_000])
def test_rows_that_an_index_found(tmp_path: Path, rows_per_file: int, taken: Taken) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"id": np.random.default_rng(4).permutation(ROWS), "n": column(pa.int32(), "some")})
    lance.write_dataset(table, uri, max_rows_per_file=rows_per_file)
    opened(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("n % 5 = 1")
    dataset, reference = opened(uri), lance.dataset(uri)
    for condition in ("id = 77", "id IN (5, 5000, 19000, 3)", "id BETWEEN 100 AND 900", "id < 0"):
        before = taken.columns
        expected = reference.to_table(["n", "id"], filter=condition, use_scalar_index=False)
        assert dataset.to_table(["n", "id"], condition).equals(expected)
        assert (taken.columns > before) == (expected.num_rows > 0)
        batches = list(dataset.to_batches(["n", "id"], condition, batch_size=7))
        assert max([0, *(batch.num_rows for batch in batches)]) <= 7
        assert pa.Table.from_batches(batches, expected.schema).equals(expected)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_of_the_null_type(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"n": pa.nulls(ROWS), "id": range(ROWS)})
    uri = str(tmp_path / "t")
    lance_spark.write(table, uri, file_format_version=version, max_rows_per_file=ROWS // 2)
    dataset = opened(uri).delete("id % 7 = 2")
    copied = counted_rows(monkeypatch, (Nulls, "pick"))
    left = table.take([row for row in range(ROWS) if row % 7 != 2])
    rows = [5, left.num_rows - 1, 5, 0, ROWS // 2]
    for columns in (["n"], ["id", "n"]):
        assert dataset.take(rows, columns=columns).equals(left.select(columns).take(rows))
    assert dataset.to_table(["n"], "id IN (3, 11)").equals(pa.table({"n": pa.nulls(2)}))
    assert copied or version == "2.0"
    with pytest.raises(InvalidInputError, match="no row"):
        dataset.take([left.num_rows], columns=["n"])
