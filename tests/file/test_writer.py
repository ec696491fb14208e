"""The writer's own business: container, metadata, errors, refusals."""

from __future__ import annotations

import struct
from pathlib import Path

import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage import open_store
from tests.support.equality import assert_tables_equal
from tests.support.written_files import assert_file_holds, layouts, read_table, write_file

NUMBERS = pa.table({"a": pa.array([5, 6, 7]), "s": pa.array(["x", None, "yz"])})


def open_writer(folder: Path, schema: pa.Schema, version: str = "2.2", **options: int) -> FileWriter:
    return FileWriter(
        open_store(str(folder)), "f.lance", from_arrow_schema(schema), version=FileVersion(version), **options
    )


@pytest.mark.parametrize(("version", "numbers"), [("2.1", (2, 1)), ("2.2", (2, 2))])
def test_container(tmp_path: Path, version: str, numbers: tuple[int, int]) -> None:
    path, written = write_file(tmp_path, NUMBERS, version)
    data = path.read_bytes()
    assert written.size_bytes == len(data)
    assert (written.num_rows, written.field_ids, written.column_indices) == (3, (0, 1), (0, 1))
    columns, offsets, buffers, num_buffers, num_columns, *version_numbers, magic = struct.unpack(
        "<QQQIIHH4s", data[-40:]
    )
    assert (num_buffers, num_columns, tuple(version_numbers), magic) == (1, 2, numbers, b"LANC")
    assert columns < offsets < buffers == len(data) - 40 - 16
    assert struct.unpack("<Q", data[buffers : buffers + 8])[0] % 64 == 0
    for column in assert_file_holds(path, NUMBERS).metadata().columns:
        assert all(buffer.position % 64 == 0 for page in column.pages for buffer in page.buffers)


def test_worked_example_of_a_mini_block(tmp_path: Path) -> None:
    """Three values 5, 6, 7 are one chunk of 32 bytes: no levels, 24 bytes of values, padding, the values."""
    path, _ = write_file(tmp_path, pa.table({"a": pa.array([-5, 6, 7])}))
    (page,) = lance.file.LanceFileReader(str(path)).metadata().columns[0].pages
    data = path.read_bytes()
    words, chunks = (data[buffer.position : buffer.position + buffer.size] for buffer in page.buffers)
    assert words == struct.pack("<I", (32 // 8 - 1) << 4)
    assert chunks == bytes.fromhex("0000 18000000 fefe") + struct.pack("<3q", -5, 6, 7)


def test_schema_of_the_file(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False, metadata={"unit": "m"}),
            pa.field("s", pa.struct([pa.field("x", pa.list_(pa.int8()))])),
        ],
        metadata={"made by": "a test"},
    )
    table = pa.table([pa.array([1, 2]), pa.array([{"x": [1]}, None])], schema=schema)
    path, written = write_file(tmp_path, table)
    assert written.field_ids == (0, 3)
    read = lance.file.LanceFileReader(str(path)).metadata().schema
    assert read.equals(schema, check_metadata=True)


def test_ids_of_the_schema_are_kept(tmp_path: Path) -> None:
    schema = from_arrow_schema(pa.schema([("a", pa.int8()), ("l", pa.list_(pa.int8()))]), first_id=40)
    with FileWriter(open_store(str(tmp_path)), "f.lance", schema) as writer:
        assert writer.close().field_ids == (40, 42)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    with open_writer(tmp_path, NUMBERS.schema) as writer:
        writer.write(NUMBERS.select(["s", "a"]))
        writer.write(NUMBERS.to_batches()[0])
        writer.close()
    assert_file_holds(tmp_path / "f.lance", pa.concat_tables([NUMBERS, NUMBERS]))


def test_no_rows_and_no_batches(tmp_path: Path) -> None:
    path, written = write_file(tmp_path, NUMBERS.slice(0, 0), batches=[])
    assert written.num_rows == 0
    assert layouts(assert_file_holds(path, NUMBERS.slice(0, 0))) == [[], []]


def test_pages_end_between_rows_and_near_the_wanted_size(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(np.arange(100_000)), "l": pa.array([list(range(i % 9)) for i in range(100_000)])})
    path, _ = write_file(tmp_path, table, page_bytes=64 << 10)
    first, second = assert_file_holds(path, table).metadata().columns
    assert len(first.pages) == 13
    assert 50 <= len(second.pages) <= 60


def test_a_row_larger_than_a_page(tmp_path: Path) -> None:
    table = pa.table({"l": pa.array([[1], list(range(50_000)), None, list(range(9_000)), []], pa.list_(pa.int64()))})
    path, _ = write_file(tmp_path, table, page_bytes=1000)
    assert_file_holds(path, table)


def fail_while_writing(folder: Path) -> None:
    with open_writer(folder, NUMBERS.schema) as writer:
        writer.write(NUMBERS)
        raise RuntimeError


def test_leaving_with_an_exception_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        fail_while_writing(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError):
        open_store(str(tmp_path)).size("f.lance")


def test_leaving_without_close_publishes(tmp_path: Path) -> None:
    with open_writer(tmp_path, NUMBERS.schema) as writer:
        writer.write(NUMBERS)
        assert writer.num_rows == 3
    assert_file_holds(tmp_path / "f.lance", NUMBERS)
    with pytest.raises(InvalidInputError, match="closed"):
        writer.write(NUMBERS)
    writer.abort()
    assert (tmp_path / "f.lance").exists()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (NUMBERS.select(["a"]), "no column 's'"),
        (NUMBERS.append_column("t", NUMBERS["a"]), "has no column 't'"),
        (NUMBERS.select(["a", "s", "s"]), "twice"),
        (pa.table({"a": pa.array([5], pa.int32()), "s": ["x"]}), "column 'a' has type int32 where .* int64"),
    ],
)
def test_batches_that_do_not_fit(tmp_path: Path, batch: pa.Table, message: str) -> None:
    with open_writer(tmp_path, NUMBERS.schema) as writer:
        with pytest.raises(InvalidInputError, match=message):
            writer.write(batch)
        writer.write(NUMBERS)
    assert_file_holds(tmp_path / "f.lance", NUMBERS)


INNER = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())])
FORBIDDEN_NULLS = {
    "column": (pa.field("c", pa.int32(), nullable=False), [1, 2, None], "'c' .* row 2"),
    "field": (pa.field("c", INNER), [{"x": 1}, None, {"x": 2}, {"x": None}], r"'c\.x' .* row 3"),
    "item": (
        pa.field("c", pa.list_(pa.field("item", pa.int8(), False))),
        [None, [1], [2, None]],
        r"'c\.item' .* row 2",
    ),
    "list": (pa.field("c", pa.list_(pa.int8()), False), [[], [None], None], "'c' .* row 2"),
}


@pytest.mark.parametrize("place", FORBIDDEN_NULLS)
def test_nulls_where_the_schema_forbids_them(tmp_path: Path, place: str) -> None:
    field, rows, message = FORBIDDEN_NULLS[place]
    nullable = pa.array(rows, _all_nullable(field.type))
    with open_writer(tmp_path, pa.schema([field])) as writer, pytest.raises(InvalidInputError, match=message):
        writer.write(pa.table({"c": nullable}))


def _all_nullable(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(child.name, child.type) for child in dtype])
    return pa.list_(dtype.value_type) if pa.types.is_list(dtype) else dtype


def test_hidden_nulls_are_no_nulls(tmp_path: Path) -> None:
    """A field that is not nullable may be null where its struct is."""
    field = pa.field("c", INNER)
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32()), pa.array([None, 3], pa.int32())],
        fields=[pa.field("x", pa.int32()), pa.field("y", pa.int32())],
        mask=pa.array([False, True]),
    )
    with open_writer(tmp_path, pa.schema([field])) as writer:
        writer.write(pa.table({"c": hidden}))
    expected = pa.table([pa.array([{"x": 1, "y": None}, None], INNER)], schema=pa.schema([field]))
    assert_file_holds(tmp_path / "f.lance", expected)


def test_offsets_out_of_order_break_the_writer_but_publish_nothing(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.list_(pa.int8()),
        2,
        [None, pa.py_buffer(struct.pack("<3i", 0, 3, 1))],
        children=[pa.array([1, 2, 3], pa.int8())],
    )
    writer = open_writer(tmp_path, pa.schema([("c", broken.type)]))
    with pytest.raises(InvalidInputError, match="offsets"):
        writer.write(pa.table({"c": broken}))
    with pytest.raises(InvalidInputError, match="earlier write failed"):
        writer.close()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


PACKED = {"lance-encoding:packed": "true"}
REFUSED = {
    "map in 2.1": (pa.field("c", pa.map_(pa.string(), pa.int8())), "2.1"),
    "list of structs of fixed size in 2.1": (pa.field("c", pa.list_(pa.struct([("a", pa.int8())]), 2)), "2.1"),
    "and around lists": (pa.field("c", pa.list_(pa.struct([("a", pa.list_(pa.int8()))]), 2)), "2.2"),
    "and in lists": (pa.field("c", pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2))), "2.2"),
    "packed struct of booleans": (pa.field("c", pa.struct([("a", pa.bool_())]), metadata=PACKED), "2.2"),
    "packed struct of strings in 2.1": (pa.field("c", pa.struct([("a", pa.string())]), metadata=PACKED), "2.1"),
    "blob": (pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), "2.2"),
    "list of empty structs": (pa.field("c", pa.list_(pa.struct([]))), "2.2"),
    "values of no bytes": (pa.field("c", pa.binary(0)), "2.2"),
    "map in 2.0": (pa.field("c", pa.map_(pa.string(), pa.int8())), "2.0"),
    "list of structs of fixed size in 2.0": (pa.field("c", pa.list_(pa.struct([("a", pa.int8())]), 2)), "2.0"),
    "packed struct of strings in 2.0": (pa.field("c", pa.struct([("a", pa.string())]), metadata=PACKED), "2.0"),
    "struct that 2.0 always packs": (
        pa.field("c", pa.struct([("a", pa.int8())]), metadata={"lance-encoding:packed": "false"}),
        "2.0",
    ),
    "file version 0.1": (pa.field("c", pa.int8()), "0.1"),
    "file version 2.3": (pa.field("c", pa.int8()), "2.3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_written_is_refused_at_once(tmp_path: Path, name: str) -> None:
    field, version = REFUSED[name]
    with pytest.raises(UnsupportedFeatureError):
        open_writer(tmp_path, pa.schema([field]), version)
    assert list(tmp_path.iterdir()) == []


def test_empty_structs(tmp_path: Path) -> None:
    table = pa.table({"e": pa.array([{}] * 3, pa.struct([])), "s": pa.array([{"e": {}}] * 3)})
    path, _ = write_file(tmp_path, table)
    assert_file_holds(path, table)
    with pytest.raises(UnsupportedFeatureError, match="without fields"):
        write_file(tmp_path, pa.table({"s": pa.array([{"e": {}}, None])}))


PACKED_ROWS = {
    "fixed": ("2.1", {"a": 1, "b": 0.5, "c": b"xyz"}, [("a", pa.int32()), ("b", pa.float64()), ("c", pa.binary(3))]),
    "variable": ("2.2", {"a": 1, "s": "text"}, [("a", pa.int32()), ("s", pa.string())]),
    "vector": ("2.2", {"a": 1, "v": [1.0, 2.0]}, [("a", pa.int32()), ("v", pa.list_(pa.float32(), 2))]),
}


@pytest.mark.parametrize("name", PACKED_ROWS)
@pytest.mark.parametrize("nulls", [False, True])
def test_packed_structs(tmp_path: Path, name: str, nulls: bool) -> None:
    version, row, fields = PACKED_ROWS[name]
    rows = [None if nulls and i % 3 == 0 else row | {"a": i} for i in range(3000)]
    field = pa.field("c", pa.struct(fields), metadata=PACKED)
    table = pa.table([pa.array(rows, field.type)], schema=pa.schema([field]))
    path, written = write_file(tmp_path, table, version)
    assert written.field_ids == (0,)
    assert_file_holds(path, table)


def test_a_null_field_of_a_packed_struct_is_refused(tmp_path: Path) -> None:
    field = pa.field("c", pa.struct([("a", pa.int8())]), metadata=PACKED)
    table = pa.table([pa.array([{"a": 1}, {"a": None}], field.type)], schema=pa.schema([field]))
    with pytest.raises(InvalidInputError, match="packed struct"):
        write_file(tmp_path, table)


def test_dictionaries_with_more_items_together_than_their_indices_count(tmp_path: Path) -> None:
    batches = [
        pa.table({"d": pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array(items))})
        for items in ([f"{first}-{i}" for i in range(100)] for first in range(3))
    ]
    path, _ = write_file(tmp_path, batches[0], batches=batches)
    assert read_table(path)["d"].to_pylist() == [word for batch in batches for word in batch["d"].to_pylist()]
    # The reference library cannot join the pages' dictionaries, so it reads each page alone.
    reference = lance.file.LanceFileReader(str(path))
    for number, batch in enumerate(batches):
        assert_tables_equal(reference.read_range(100 * number, 100).to_table(), batch)


def test_many_small_batches(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(range(1500)), "l": pa.array([[str(i)] * (i % 3) for i in range(1500)])})
    batches = [table.slice(row, 1) for row in range(1500)]
    path, _ = write_file(tmp_path, table, batches=batches)
    assert_file_holds(path, table)


def test_a_waiting_page_does_not_keep_its_batch_alive(tmp_path: Path) -> None:
    with open_writer(tmp_path, pa.schema([("a", pa.int8()), ("b", pa.binary())])) as writer:
        before = pa.total_allocated_bytes()
        for _ in range(10):
            sink = pa.BufferOutputStream()
            batch = pa.record_batch({"a": pa.array([1], pa.int8()), "b": pa.array([bytes(9 << 20)])})
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            writer.write(pa.ipc.open_stream(sink.getvalue()).read_next_batch())
            del batch, sink
        assert pa.total_allocated_bytes() - before < 20 << 20


def test_global_buffers_and_schema_metadata(tmp_path: Path) -> None:
    with open_writer(tmp_path, NUMBERS.schema) as writer:
        assert writer.add_global_buffer(b"one") == 1
        writer.write(NUMBERS)
        assert writer.add_global_buffer(pa.py_buffer(b"two")) == 2
        writer.add_schema_metadata("key", b"value")
    reference = assert_file_holds(tmp_path / "f.lance", NUMBERS.replace_schema_metadata({"key": "value"}))
    assert [reference.read_global_buffer(number) for number in (1, 2)] == [b"one", b"two"]
    assert reference.metadata().schema.metadata == {b"key": b"value"}


@pytest.mark.parametrize(
    ("compression", "version"),
    [(name, version) for name in ("lz4", "zstd", "none", "fsst") for version in ("2.0", "2.1", "2.2")],
)
def test_compression_that_the_metadata_ask_for(tmp_path: Path, compression: str, version: str) -> None:
    asked = {"lance-encoding:compression": compression, "lance-encoding:bss": "on"}
    columns = {
        "i": pa.array(range(20_000)),
        "f": pa.array(np.linspace(0, 1, 20_000)),
        "s": pa.array([f"number {i // 3}" for i in range(20_000)]),
        "long": pa.array([f"number {i}" * 60 for i in range(20_000)]),
        "nulls": pa.array([None if i % 3 else i for i in range(20_000)]),
        "l": pa.array([[i] * (i % 3) for i in range(20_000)]),
    }
    schema = pa.schema([pa.field(name, column.type, metadata=asked) for name, column in columns.items()])
    table = pa.table(list(columns.values()), schema=schema)
    path, _ = write_file(tmp_path, table, version)
    assert_file_holds(path, table)
