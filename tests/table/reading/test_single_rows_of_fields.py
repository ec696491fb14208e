"""A few rows of structs, lists and maps, and of compressed leaves, from mapped files: the same as those of Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.file.reader import FileReader
from lance_spark.layouts.prepared.bare_pages import ListField, StructField
from lance_spark.layouts.prepared.field import LeafField, MergedField
from lance_spark.layouts.prepared.pick import Picker
from lance_spark.table.reading.fragment_reader import FragmentReader
from tests.support.table.single_rows import encoded, opened, picked
from tests.table.reading.counted_rows import counted_rows
from tests.table.reading.damaged_reads import check_damaged_reads

ROWS = 20_000
INDICES = [17, 3, 3, ROWS - 1, 0, 1023, 1024, 10, 4096, 19_000, 15_001, 12_345]
WORDS = pa.array([f"word number {number}" for number in range(500)])

TYPES = {
    "struct": pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.bool_()}),
    "struct of struct": pa.struct({"s": pa.struct({"a": pa.int32(), "b": pa.float64()}), "n": pa.int16()}),
    "list": pa.list_(pa.float32()),
    "large list": pa.large_list(pa.int64()),
    "list of strings": pa.list_(pa.string()),
    "list of lists": pa.list_(pa.list_(pa.int64())),
    "list of structs": pa.list_(pa.struct({"a": pa.int64(), "b": pa.string()})),
    "struct of lists": pa.struct({"a": pa.list_(pa.int32()), "b": pa.list_(pa.bool_())}),
    "struct of vectors": pa.struct({"v": pa.list_(pa.float32(), 4), "n": pa.int64()}),
    "list of dictionaries": pa.list_(pa.dictionary(pa.int32(), pa.string())),
}


def values(dtype: pa.DataType, count: int, random: np.random.Generator, null_share: float) -> pa.Array:
    """Values with nulls at every level, and lists that are empty."""
    mask = random.random(count) < null_share
    if pa.types.is_struct(dtype):
        members = [values(field.type, count, random, null_share) for field in dtype]
        return pa.StructArray.from_arrays(members, fields=list(dtype), mask=pa.array(mask))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lengths = np.where(mask, 0, random.integers(0, 6, count))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        items = values(dtype.value_type, int(offsets[-1]), random, null_share)
        kind = pa.LargeListArray if pa.types.is_large_list(dtype) else pa.ListArray
        width = pa.int64() if pa.types.is_large_list(dtype) else pa.int32()
        return kind.from_arrays(pa.array(offsets, width), items, mask=pa.array(mask)).cast(dtype)
    if pa.types.is_fixed_size_list(dtype):
        items = values(dtype.value_type, count * dtype.list_size, random, 0.0)
        return pa.FixedSizeListArray.from_arrays(items, dtype.list_size, mask=pa.array(mask))
    if pa.types.is_dictionary(dtype):
        codes = pa.array(random.integers(0, len(WORDS), count).astype(np.int32), mask=mask)
        return pa.DictionaryArray.from_arrays(codes, WORDS)
    if pa.types.is_string(dtype):
        picked = WORDS.take(pa.array(random.integers(0, len(WORDS), count)))
        return pa.array(picked.to_pylist(), mask=mask)
    if pa.types.is_boolean(dtype):
        return pa.array(random.random(count) < 0.5, mask=mask)
    return pa.array(random.integers(0, 30_000, count), mask=mask).cast(dtype)


def write(writer: str, table: pa.Table, uri: str, version: Any, **options: Any) -> None:
    if writer == "reference":
        lance.write_dataset(table, uri, data_storage_version=version, **options)
    else:
        lance_spark.write(table, uri, file_format_version=version, **options)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each part of a column that was read so."""
    return counted_rows(monkeypatch, (LeafField, "pick"), (MergedField, "pick"))


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("null_share", [0.0, 0.2])
@pytest.mark.parametrize("name", list(TYPES))
def test_values(tmp_path: Path, name: str, null_share: float, version: Any, writer: str, taken: list[int]) -> None:
    random = np.random.default_rng(11_000_000)
    column = values(TYPES[name], ROWS + 5, random, null_share)
    # A slice, whose offsets do not begin at 0; the reference cannot write structs of those.
    column = column.slice(5) if writer == "own" else column.take(pa.array(range(5, ROWS + 5)))
    table = pa.table({"x": column, "n": range(ROWS)})
    write(writer, table, str(tmp_path / "t"), version)
    dataset = opened(str(tmp_path / "t"))
    many = random.choice(ROWS, 3000, replace=False).tolist()
    for indices in (INDICES, sorted(set(INDICES)), [5], many):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found["x"].type == TYPES[name]
        assert found.to_pylist() == table.take(indices).to_pylist()
    # Each page has a dictionary of its own, if the array is one.
    assert taken == [12, 12, 11, 11, 1, 1, 3000, 3000] or name == "list of dictionaries"


@pytest.mark.parametrize("writer", ["reference", "own"])
@pytest.mark.parametrize("null_share", [0.0, 0.2])
@pytest.mark.parametrize("name", [name for name in TYPES if "dictionaries" not in name])
def test_values_of_version_2_0(
    tmp_path: Path, name: str, null_share: float, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2.0 has no null structs."""
    read = counted_rows(monkeypatch, (ListField, "pick"), (StructField, "pick"))
    random = np.random.default_rng(13_000_001)
    has_structs = "struct" in name
    column = values(TYPES[name], ROWS, random, 0.0 if has_structs else null_share)
    if name == "list of structs" and null_share:
        lists = values(TYPES["list"], ROWS, random, null_share)
        items = values(TYPES["struct"], len(lists.values), random, 0.0)
        column = pa.ListArray.from_arrays(lists.offsets, items, mask=lists.is_null())
    table = pa.table({"x": column, "n": range(ROWS)})
    write(writer, table, str(tmp_path / "t"), "2.0", max_rows_per_file=ROWS // 2 + 7)
    dataset = opened(str(tmp_path / "t"))
    many = random.choice(ROWS, 3000).tolist()
    for indices in (INDICES, sorted(set(INDICES)), [5], many):
        found = dataset.take(indices)
        found.validate(full=True)
        assert found["x"].type == table["x"].type
        assert found.to_pylist() == table.take(indices).to_pylist()
    assert len(read) >= 4


def test_long_lists_of_version_2_0(tmp_path: Path) -> None:
    """Lists of many items are read in the general way, and lists of none at all."""
    random = np.random.default_rng(13_000_002)
    lengths = np.where(np.arange(2000) % 2, 0, random.integers(0, 500, 2000))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 9, int(offsets[-1]))))
    table = pa.table({"x": column, "empty": pa.array([[]] * 2000, pa.list_(pa.string()))})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.0")
    for indices in ([0, 2, 4, 6], [1, 3, 5], [8, 8, 1999, 0]):
        assert opened(str(tmp_path / "t")).take(indices).to_pylist() == table.take(indices).to_pylist()


@pytest.mark.parametrize("name", ["list", "list of strings", "list of lists"])
def test_damaged_pages_of_version_2_0(tmp_path: Path, name: str) -> None:
    column = values(TYPES[name], 3000, np.random.default_rng(13_000_003), 0.2)
    uri = str(tmp_path / "t")
    write("own", pa.table({"x": column}), uri, "2.0")
    _, content = encoded(uri)
    dataset = opened(uri)
    fragment = dataset.manifest.fragments[0]
    reader = FragmentReader(fragment, dataset.plan().bases).open_file(fragment.files[0])
    assert isinstance(reader, FileReader)
    pages = [page for each in reader.encoded_columns() for page in each.pages if page.num_rows]
    check_damaged_reads(partial(picked, uri), pages, content, column)


def test_maps(tmp_path: Path, taken: list[int]) -> None:
    random = np.random.default_rng(11_000_001)
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, 5, ROWS))]).astype(np.int32)
    keys, items = values(pa.string(), int(offsets[-1]), random, 0.0), values(pa.int64(), int(offsets[-1]), random, 0.3)
    table = pa.table({"x": pa.MapArray.from_arrays(offsets, keys, items)})
    for writer in ("reference", "own"):
        write(writer, table, str(tmp_path / writer), "2.2")
        found = opened(str(tmp_path / writer)).take(INDICES)
        found.validate(full=True)
        assert found.to_pylist() == table.take(INDICES).to_pylist()
    assert taken == [12, 12]


ENCODINGS = {
    "string, zstd": (pa.string(), {"compression": "zstd"}),
    "string, lz4": (pa.string(), {"compression": "lz4", "dict-divisor": "100000000"}),
    "float32, bss": (pa.float32(), {"compression": "lz4", "bss": "on"}),
    "packed struct": (pa.struct({"a": pa.int64(), "b": pa.int32()}), {"packed": "true"}),
}


LZ4 = ("string, lz4", "float32, bss")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", list(ENCODINGS))
def test_encodings(tmp_path: Path, name: str, version: Any, taken: list[int]) -> None:
    dtype, options = ENCODINGS[name]
    metadata = {"lance-encoding:" + key: value for key, value in options.items()}
    column = values(dtype, ROWS, np.random.default_rng(11_000_002), 0.0)
    table = pa.table([column], schema=pa.schema([pa.field("x", dtype, metadata=metadata)]))
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version=version)
    assert opened(str(tmp_path / "t")).take(INDICES).to_pylist() == table.take(INDICES).to_pylist()
    assert taken == [12]


@pytest.mark.parametrize("seed", range(11_000_010, 11_000_018))
def test_random_tables(tmp_path: Path, seed: int, taken: list[int]) -> None:
    """Fragments of several writers and versions, deleted rows, columns that were added and renamed."""
    random = np.random.default_rng(seed)
    uri, names = str(tmp_path / "t"), [str(name) for name in random.choice(list(TYPES), 3, replace=False)]
    parts = []
    for number in range(4):
        rows = int(random.integers(1, 4000))
        columns = {f"c{place}": values(TYPES[name], rows, random, 0.2) for place, name in enumerate(names)}
        parts.append(pa.table({"n": random.integers(0, 100, rows), **columns}))
        writer, version = ("reference", "own")[random.integers(2)], ("2.1", "2.2")[random.integers(2)]
        options = {"max_rows_per_file": int(random.integers(500, 5000))}
        write(writer, parts[-1], uri, version, mode="append" if number else "create", **options)
    lance.dataset(uri).delete("n % 7 = 1")
    lance.dataset(uri).alter_columns({"path": "c0", "name": "renamed"})
    opened(uri).add_columns(pa.schema([pa.field("added", pa.list_(pa.string()))]))
    dataset, reference = opened(uri), lance.dataset(uri)
    table = dataset.to_table()
    for count in (1, 10, 300):
        indices = random.integers(0, table.num_rows, count).tolist()
        for wanted in (["renamed"], ["c1", "n"], ["c2", "added", "renamed"], None):
            found = dataset.take(indices, wanted)
            found.validate(full=True)
            expected = table if wanted is None else table.select(wanted)
            assert found.to_pylist() == expected.take(indices).to_pylist()
            assert found.to_pylist() == reference.take(indices, wanted).to_pylist()
    assert len(taken) > 0


def test_some_members_of_a_struct(tmp_path: Path, taken: list[int]) -> None:
    table = pa.table({"s": values(TYPES["struct"], ROWS, np.random.default_rng(11_000_003), 0.2)})
    lance.write_dataset(table, str(tmp_path / "t"))
    dataset, reference = opened(str(tmp_path / "t")), lance.dataset(str(tmp_path / "t"))
    for columns in (["s.a"], ["s.b"], ["s"], ["s.c", "s.a"], ["s.b"]):
        assert dataset.take(INDICES, columns).to_pylist() == reference.take(INDICES, columns).to_pylist()
    assert len(taken) == 5


ITEMS: dict[str, Callable[[np.random.Generator, int], pa.Array]] = {
    "bool": lambda random, count: pa.array(random.random(count) < 0.5),
    "int64": lambda random, count: pa.array(random.integers(-(2**62), 2**62, count)),
    "uint8": lambda random, count: pa.array(random.integers(0, 9, count, np.uint8)),
    "vector": lambda random, count: pa.FixedSizeListArray.from_arrays(pa.array(random.random(3 * count)), 3),
    "text": lambda random, count: pa.array([f"{number:x} of a text" for number in random.integers(0, 2**40, count)]),
    "large_binary": lambda random, count: pa.array(list(map(bytes, random.integers(0, 9, count))), pa.large_binary()),
    "words": lambda random, count: WORDS.take(pa.array(random.integers(0, len(WORDS), count))),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", list(ITEMS))
def test_lists_of_all_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: Any) -> None:
    """Lists over many chunks, of no items, and stretches of nulls; rows in any order, and twice."""
    random = np.random.default_rng(13_000_000)
    picks = counted_rows(monkeypatch, (Picker, "pick"))
    lengths = random.integers(0, 4, ROWS)
    lengths[random.integers(0, ROWS, 6)] = random.integers(3000, 9000, 6)
    lengths[5000:9000] = 0
    items = ITEMS[name](random, int(lengths.sum()))
    items = pc.if_else(pa.array(random.random(len(items)) < 0.9), items, pa.scalar(None, items.type))
    mask = random.random(ROWS) < 0.1
    mask[6000:7000] = True
    mask &= lengths == 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    inner = pa.ListArray.from_arrays(offsets, items, mask=pa.array(mask))
    outer = pa.ListArray.from_arrays(pa.array(range(0, ROWS + 1, 4), pa.int32()), inner)
    longest = int(lengths.argmax())
    for number, column in enumerate((inner, outer)):
        table = pa.table({"x": column})
        for writer in ("reference", "own"):
            uri = str(tmp_path / f"{writer}{number}")
            write(writer, table, uri, version)
            dataset = opened(uri)
            rows = len(column)
            for count in (1, 20, 64, 500):
                scattered = random.integers(0, rows, count).tolist()
                twice = [longest * rows // ROWS, 0, *scattered, longest * rows // ROWS]
                for indices in (scattered, sorted(set(scattered)), twice):
                    found = dataset.take(indices)
                    found.validate(full=True)
                    assert found.to_pylist() == table.take(indices).to_pylist()
    # Of vectors with nulls, chunks have the validity of the items too.
    assert len(picks) > 30 or name == "vector"


@pytest.mark.parametrize(
    "name", ["struct", "list", "list of strings", "list of lists", "list of structs", "string, lz4", "float32, bss"]
)
@pytest.mark.parametrize("writer", ["reference", "own"])
def test_damaged_pages(tmp_path: Path, writer: str, name: str) -> None:
    """Each value is read, or none; nothing behind the file is touched."""
    dtype, options = ENCODINGS[name] if name in ENCODINGS else (TYPES[name], {})
    metadata = {"lance-encoding:" + key: value for key, value in options.items()}
    column = values(dtype, 3000, np.random.default_rng(11_000_004), 0.2)
    uri = str(tmp_path / "t")
    write(writer, pa.table([column], schema=pa.schema([pa.field("x", dtype, metadata=metadata)])), uri, "2.2")
    _, content = encoded(uri)
    dataset = opened(uri)
    fragment = dataset.manifest.fragments[0]
    reader = FragmentReader(fragment, dataset.plan().bases).open_file(fragment.files[0])
    assert isinstance(reader, FileReader)
    pages = [page for each in reader.encoded_columns() for page in each.pages if page.num_rows]
    check_damaged_reads(partial(picked, uri), pages, content, column)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"x": values(TYPES["list"], ROWS, np.random.default_rng(1), 0.2)}), uri)
    (file,) = (tmp_path / "t" / "data").iterdir()
    found, _ = encoded(uri)
    start, size = found.pages[0].buffers[1]
    with open(file, "r+b") as raw:
        raw.seek(start)
        raw.write(b"\xff" * min(size, 1 << 12))
    with pytest.raises(CorruptFileError, match=os.path.basename(file)) as error:
        opened(uri).take([5, 3])
    assert isinstance(error.value, LanceError)
