"""Files of 2.1 and 2.2 by the reference library, of every type and shape: whole, in ranges and row by row."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.file.open_file import open_data_file
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.field import FieldId
from lance_spark.storage import open_store
from tests.file.reference_files import check, one_column, open_file, pages, ranges_of, write
from tests.support import arrays
from tests.support.counting_store import CountingStore
from tests.support.equality import assert_arrays_equal, assert_tables_equal

VERSIONS = ("2.1", "2.2")


@pytest.mark.parametrize("kind", ["leaves", "nested"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rows", [0, 1, 1023, 1025, 9000])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_type(tmp_path: Path, version: str, rows: int, share: float, kind: str) -> None:
    if kind == "leaves":
        expected = arrays.leaves_table(rows, share)
    else:
        expected = arrays.nested_table(rows, share, maps=version == "2.2")
    check(write(tmp_path / "x.lance", expected, version), expected)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_many_rows_in_many_pages(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(0)
    parts = []
    for seed in range(5):
        table = arrays.nested_table(15_000, 0.2, seed, maps=False).select(["list_int", "struct", "list_struct"])
        parts.append(table.append_column("s", arrays.leaf(pa.string(), 15_000, 0.1, rng)))
    expected = pa.concat_tables(parts)
    # The reference writer ends a page when a column has gathered this much, so pages of columns end at different rows.
    file = write(tmp_path / "x.lance", expected, version, data_cache_bytes=150_000)
    assert len(pages(file)) > 10
    check(file, expected)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(12))
def test_nesting_at_random(tmp_path: Path, version: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected = one_column(_random_array(rng, 300 if seed % 2 else 3000, 4, maps=version == "2.2"))
    check(write(tmp_path / "x.lance", expected, version), expected, seed)


def _random_array(rng: np.random.Generator, n: int, depth: int, *, maps: bool) -> pa.Array:
    share = float(rng.choice([0.0, 0.1, 0.5]))
    kind = "leaf" if depth == 0 else rng.choice(["list", "struct", "list", "struct", "leaf", "map"])
    if kind == "list":
        return arrays.list_of(lambda k: _random_array(rng, k, depth - 1, maps=maps), n, share, rng)
    if kind == "struct":
        children = {name: _random_array(rng, n, depth - 1, maps=maps) for name in "ab"[: rng.integers(1, 3)]}
        return arrays.struct_of(children, share, rng)
    if kind == "map" and maps:
        return arrays.map_of(n, share, rng)
    types = [pa.int32(), pa.string(), pa.bool_(), pa.list_(pa.float32(), 3), pa.decimal128(38, 5), pa.large_binary()]
    return arrays.leaf(types[rng.integers(len(types))], n, share, rng)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_lists_of_nothing(tmp_path: Path, version: str) -> None:
    rows = 3000
    nested = pa.list_(pa.list_(pa.struct([("a", pa.string())])))
    expected = pa.table(
        {
            "empty": pa.array([[]] * rows, pa.list_(pa.int32())),
            "empty or null": pa.array([[] if i % 2 else None for i in range(rows)], pa.list_(pa.int32())),
            "null items": pa.array([[None] * (i % 3) for i in range(rows)], pa.list_(pa.null())),
            "few": pa.array([[i] if i % 500 == 7 else [] for i in range(rows)], pa.list_(pa.int32())),
            "nested": pa.array([[[], None, [None]] if i % 3 == 0 else None for i in range(rows)], nested),
            "long": pa.array([list(range(rows)) if i in (5, 2000) else [i] for i in range(rows)], pa.list_(pa.int16())),
            "large": pa.array(
                [[[i % 99] * (i % 4)] * (i % 3) for i in range(rows)], pa.large_list(pa.large_list(pa.int8()))
            ),
        }
    )
    check(write(tmp_path / "x.lance", expected, version), expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_structs_of_nothing(tmp_path: Path, version: str) -> None:
    rows = 40
    inner = pa.struct([("n", pa.int64())])
    required = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    expected = pa.table(
        {
            "no members": pa.array([{}] * rows, pa.struct([])),
            "no members below": pa.array([{"e": {}}] * rows, pa.struct([("e", pa.struct([]))])),
            "null member": pa.array([{"n": None} for _ in range(rows)], inner),
            "null struct": pa.array([None] * rows, inner),
            "null struct of required": pa.array([None] * rows, required),
            "some null structs of required": pa.array([{"n": 5} if i % 3 else None for i in range(rows)], required),
            "null below": pa.array([{"s": {"n": None}}] * rows, pa.struct([("s", inner)])),
            "null in between": pa.array([{"s": None}] * rows, pa.struct([("s", inner)])),
            "of null type": pa.array(
                [{"n": None} if i % 2 else None for i in range(rows)], pa.struct([("n", pa.null())])
            ),
        }
    )
    check(write(tmp_path / "x.lance", expected, version), expected)


def test_fixed_size_lists_of_structs(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    members = {"a": arrays.leaf(pa.int32(), 6000, 0.2, rng), "b": arrays.leaf(pa.string(), 6000, 0.2, rng)}
    items = arrays.struct_of(members, 0.2, rng)
    lists = pa.FixedSizeListArray.from_arrays(items, 2, mask=pa.array(rng.random(3000) < 0.2))
    expected = pa.table({"top": lists, "below": arrays.struct_of({"f": lists}, 0.2, rng)})
    check(write(tmp_path / "x.lance", expected), expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_packed_structs(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(4)
    rows = 3000
    members = {"a": arrays.leaf(pa.int32(), rows, 0, rng), "b": arrays.leaf(pa.float64(), rows, 0, rng)}
    if version == "2.2":
        members["s"] = arrays.leaf(pa.string(), rows, 0, rng)
        members["v"] = arrays.leaf(pa.list_(pa.float32(), 3), rows, 0, rng)
    expected = one_column(arrays.struct_of(members, 0, rng), {"lance-encoding:packed": "true"})
    check(write(tmp_path / "x.lance", expected, version), expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs(tmp_path: Path, version: str) -> None:
    rng = np.random.default_rng(5)
    values = [None if i % 5 == 0 else b"" if i % 7 == 0 else rng.bytes(int(rng.integers(1, 900))) for i in range(400)]
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    structs = pa.array([None if i % 11 == 3 else {"b": value} for i, value in enumerate(values)], pa.struct([blob]))
    expected = pa.table([pa.array(values, blob.type), structs], schema=pa.schema([blob, pa.field("s", structs.type)]))
    check(write(tmp_path / "x.lance", expected, version), expected)


def test_descriptions_of_blobs(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array([b"hello", None, b"", b"x" * 1000], blob.type)], schema=pa.schema([blob]))
    uri = tmp_path / "t"
    dataset = lance.write_dataset(table, str(uri), data_storage_version="2.2")
    [path] = (uri / "data").glob("*.lance")
    assert_tables_equal(open_file(path).read_table(), dataset.to_table())


def test_extension_types_are_read_as_their_storage(tmp_path: Path) -> None:
    uuids = pa.array([bytes(range(16)), None], pa.uuid())
    file = write(tmp_path / "x.lance", pa.table({"x": uuids}))
    assert_arrays_equal(file.read_table()["x"], uuids.storage)
    assert file.schema.fields[0].metadata["ARROW:extension:name"] == b"arrow.uuid"


def test_no_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "x.lance", pa.table({"a": [1, 2, 3]}))
    table = file.read_table([])
    assert (table.num_rows, table.num_columns) == (3, 0)


def test_columns_by_name_and_path(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "s": [{"x": 1, "y": "p", "z": None}, None], "c": ["u", "v"]})
    file = write(tmp_path / "x.lance", table)
    picked = file.read_table(["c", "s.y", "s.x"])
    assert picked.to_pydict() == {"c": ["u", "v"], "s": [{"x": 1, "y": "p"}, None]}
    with pytest.raises(NotFoundError):
        file.read_table(["nope"])


def test_fields_without_a_column_are_null(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "s": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}]})
    file = write(tmp_path / "x.lance", table)
    a, s = file.schema.fields
    columns = {field_id: index for field_id, index in file.columns.items() if field_id != s.children[0].id}
    columns[a.id] = -1
    got = file.read([a, s], columns)
    assert [array.to_pylist() for array in got] == [[None, None], [{"x": None, "y": "p"}, {"x": None, "y": "q"}]]
    assert file.read([s], {})[0].to_pylist() == [None, None]


def test_ids_of_another_table(tmp_path: Path) -> None:
    file = write(tmp_path / "x.lance", pa.table({"a": [1, 2], "b": [3, 4]}))
    wanted = [field.with_children(()) for field in file.schema.fields][::-1]
    assert [array.to_pylist() for array in file.read(wanted, {FieldId(0): 1, FieldId(1): 0})] == [[1, 2], [3, 4]]


def test_a_column_the_file_does_not_have(tmp_path: Path) -> None:
    file = write(tmp_path / "x.lance", pa.table({"a": [1, 2]}))
    with pytest.raises(CorruptFileError, match=r"column 7 of 1.*x\.lance"):
        file.read(file.schema.fields, {FieldId(0): 7})


def test_rows_the_file_does_not_have(tmp_path: Path) -> None:
    file = write(tmp_path / "x.lance", pa.table({"a": [1, 2]}))
    for rows in (RowRanges.of(0, 3), RowRanges.of(-1, 1)):
        with pytest.raises(InvalidInputError):
            file.read_table(rows=rows)


def test_global_buffers(tmp_path: Path) -> None:
    from lance.file import LanceFileWriter

    schema = pa.schema([pa.field("a", pa.int64())])
    with LanceFileWriter(str(tmp_path / "x.lance"), schema) as writer:
        writer.write_batch(pa.table({"a": [1]}))
        assert writer.add_global_buffer(b"some bytes") == 1
    file = open_file(tmp_path / "x.lance")
    assert file.num_global_buffers == 2
    assert file.read_global_buffer(1).to_pybytes() == b"some bytes"
    with pytest.raises(CorruptFileError):
        file.read_global_buffer(2)


def test_unstable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"2\.3"):
        write(tmp_path / "x.lance", pa.table({"a": [1, 2]}), "2.3")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_what_a_file_says_of_itself(tmp_path: Path, version: str) -> None:
    table = pa.table({"a": range(1000), "s": [{"x": i} for i in range(1000)]})
    file = write(tmp_path / "x.lance", table, version)
    assert file.version is FileVersion(version)
    assert (file.num_rows, file.schema.names()) == (1000, ("a", "s"))
    assert file.num_columns == (3 if version == "2.0" else 2)
    assert file.size_bytes == (tmp_path / "x.lance").stat().st_size
    one, both = (sum(file.estimated_bytes(file.schema.fields[:count], file.columns)) for count in (1, 2))
    assert 0 < one < both < file.size_bytes


def test_requests(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 2**60, 40_000) for i in range(50)}
    with_lists = columns | {"l": arrays.list_of(lambda k: pa.array(rng.integers(0, 9, k)), 40_000, 0.1, rng)}
    table = pa.table(with_lists)
    write(tmp_path / "x.lance", table)
    store = CountingStore(open_store(str(tmp_path)))
    file = open_data_file(store, "x.lance", size=(tmp_path / "x.lance").stat().st_size)
    assert store.reset().read_requests == 1
    file.read_table(["c7"])
    counts = store.reset()
    assert (counts.calls["read_ranges"], counts.read_requests) == (1, 1)
    assert counts.bytes_read < table["c7"].nbytes * 1.1
    rows = ranges_of([(100, 110), (39_000, 39_010)])
    file.read_table(["c7", "l"], rows)
    counts = store.reset()
    assert counts.calls["read_ranges"] == 2, "a round for the chunk tables, a round for the chunks"


def test_a_file_with_many_columns(tmp_path: Path) -> None:
    table = pa.table({f"c{i}": [i, i + 1] for i in range(1500)})
    file = write(tmp_path / "x.lance", table)
    assert_tables_equal(file.read_table(), table)
    assert file.read_table(["c3"]).to_pydict() == {"c3": [3, 4]}


@pytest.mark.slow
@pytest.mark.parametrize("num_columns", [3, 200])
def test_what_open_files_take_in_memory_is_about_what_they_say(num_columns: int, tmp_path: Path) -> None:
    content = pa.table({f"c{number}": np.arange(100) + number for number in range(num_columns)})
    write(tmp_path / "x.lance", content)
    data = (tmp_path / "x.lance").read_bytes()
    store = open_store("memory://sizes")
    names = [f"{number}.lance" for number in range(50)]
    for name in names:
        store.put(name, data)
    warm = open_data_file(store, names[0])
    warm.read_table()
    gc.collect()
    tracemalloc.start()
    try:
        files = [open_data_file(store, name) for name in names]
        for file in files:
            file.prepared(file.schema.fields, file.columns)
        gc.collect()
        # The ends of files are Arrow buffers, here those of the store.
        taken = tracemalloc.get_traced_memory()[0] + sum(file.tail.size for file in files)
    finally:
        tracemalloc.stop()
    stated = sum(file.held_bytes for file in files)
    assert taken < stated < 2 * taken, (taken, stated)
