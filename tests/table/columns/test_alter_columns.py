"""Changing a column's type, name, nullability and metadata, beside the reference library and beside other writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.columns.alter_column import Alteration, alter_column
from lance_spark.table.operations.merge import Merge
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.writing.row_source import RowSource
from tests.support.column_tables import KINDS, checked, make, named_files, operation_of, rows
from tests.support.harmed_tables import PUT, QUIET, files, with_faults
from tests.support.row_verbs import save

WIDENINGS = {
    "i8": (pa.int8(), pa.int64(), [1, None, -128]),
    "u32": (pa.uint32(), pa.int64(), [1, None, 2**32 - 1]),
    "i32 to double": (pa.int32(), pa.float64(), [1, None, -(2**31)]),
    "i32 to decimal": (pa.int32(), pa.decimal128(12, 2), [1, None, -(2**31)]),
    "f16": (pa.float16(), pa.float32(), [1.5, None, -0.0]),
    "f32": (pa.float32(), pa.float64(), [1.5, None, float("nan")]),
    "decimal": (pa.decimal128(5, 2), pa.decimal256(60, 4), [1, None, -999]),
    "date": (pa.date32(), pa.timestamp("us"), [1, None, -1]),
    "timestamp": (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), [1, None, -1]),
    "string": (pa.string(), pa.large_string(), ["x", None, ""]),
    "binary": (pa.binary(3), pa.large_binary(), [b"abc", None, b"\0\0\0"]),
    "vector": (pa.list_(pa.float16(), 2), pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [0.0, -0.0]]),
}


@pytest.mark.parametrize("name", WIDENINGS)
def test_widening_keeps_the_values(tmp_path: Path, name: str) -> None:
    old, new, values = WIDENINGS[name]
    column = pa.array(values, old)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"c": column, "i": pa.array([1, 2, 3])}), uri)
    lance.dataset(uri).delete("i = 1")
    lance_spark.open(uri).alter_column("c", data_type=new)
    dataset = checked(uri)
    assert dataset.schema.field("c").type == new
    assert dataset.to_table()["c"].combine_chunks().equals(column.cast(new).slice(1)) or name == "f32"
    assert str(dataset.to_table()["c"].to_pylist()) == str(column.cast(new).slice(1).to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_writes_match_pylance(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    table = pa.table(
        {
            "a": pa.array(range(6), pa.int32()),
            "s": pa.array(
                [{"x": i, "y": [i]} for i in range(6)], pa.struct([("x", pa.int16()), ("y", pa.list_(pa.int8()))])
            ),
        }
    )
    lance.write_dataset(table, uri, max_rows_per_file=3, **KINDS[kind]).delete("a = 1")
    dataset = lance_spark.open(uri).alter_column("a", data_type=pa.int64(), nullable=False, comment="key")
    assert dataset.schema.field("a") == pa.field("a", pa.int64(), nullable=False, metadata={"comment": "key"})
    checked(uri)
    if kind == "2.0":  # The reference cannot read what it makes of this itself.
        lance_spark.open(uri).alter_column("s.x", data_type=pa.int32())
    else:
        lance.dataset(uri).alter_columns({"path": "s.x", "data_type": pa.int32()})
    lance_spark.open(uri).alter_column("s.x", data_type=pa.float64(), name="xx")
    checked(uri)
    if kind == "2.0":
        with pytest.raises(UnsupportedFeatureError):
            lance_spark.open(uri).alter_column("s.y.item", data_type=pa.int32())
        return
    dataset = lance_spark.open(uri).alter_column("s.y.item", data_type=pa.int32())
    expected = table.filter(pa.array([i != 1 for i in range(6)])).to_pylist()
    assert checked(uri).to_table().to_pylist() == [
        {"a": row["a"], "s": {"xx": row["s"]["x"], "y": row["s"]["y"]}} for row in expected
    ]
    lance.write_dataset(dataset.to_table(), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert checked(uri).count_rows() == 10


def test_the_same_messages_as_pylance(tmp_path: Path) -> None:
    uris = [str(tmp_path / name) for name in ("ours", "theirs")]
    for uri in uris:
        lance.write_dataset(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]}), uri)
        lance.dataset(uri).create_scalar_index("b", "BTREE")
    lance_spark.open(uris[0]).alter_column("a", data_type=pa.int64())
    lance.dataset(uris[1]).alter_columns({"path": "a", "data_type": pa.int64()})
    left, right = (lance_spark.open(uri) for uri in uris)
    assert left.lance_schema == right.lance_schema
    one, other = operation_of(left), operation_of(right)
    assert isinstance(one, Merge)
    assert isinstance(other, Merge)
    assert (one.schema, one.preserves_nullability) == (other.schema, other.preserves_nullability)
    for uri in uris:
        assert [file.fields for file in lance_spark.open(uri).fragments[0].files] == [(0, 1), (2,)]
        assert [index["name"] for index in lance.dataset(uri).list_indices()] == ["b_idx"]


def test_an_index_of_the_column_goes(tmp_path: Path) -> None:
    """The reference asks to drop it first."""
    uri = make(tmp_path)
    for column in ("a", "b"):
        lance.dataset(uri).create_scalar_index(column, "BTREE")
    lance_spark.open(uri).alter_column("a", data_type=pa.decimal128(25, 0))
    assert [index["name"] for index in lance.dataset(uri).list_indices()] == ["b_idx"]
    assert lance.dataset(uri).to_table(filter="b = 'row 4'")["a"].to_pylist() == [4]


def test_metadata_and_comment(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri).alter_column("s.x", comment="of s", metadata={"k": "v"})
    assert isinstance(operation_of(dataset), UpdateConfig)
    assert lance.dataset(uri).schema.field("s").type.field("x").metadata == {b"comment": b"of s", b"k": b"v"}
    dataset = dataset.alter_column("s.x", name="z", comment="", metadata={"j": "w"})
    assert checked(uri).schema.field("s").type.field("z").metadata == {b"k": b"v", b"j": b"w"}


def test_a_column_without_files_gets_none(tmp_path: Path) -> None:
    uri = make(tmp_path)
    before = files(uri)
    lance_spark.open(uri).add_columns(pa.field("n", pa.int8())).alter_column("n", data_type=pa.int64())
    assert files(uri) == before
    assert checked(uri).schema.field("n").type == pa.int64()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"path": "nope", "data_type": pa.int8()}, NotFoundError),
        ({"path": "a", "data_type": pa.int32()}, InvalidInputError),
        ({"path": "a", "data_type": pa.float64()}, InvalidInputError),
        ({"path": "b", "data_type": pa.int64()}, InvalidInputError),
        ({"path": "s", "data_type": pa.string()}, InvalidInputError),
        ({"path": "a", "data_type": "int64"}, InvalidInputError),
        ({"path": "a", "data_type": pa.decimal128(30, 0), "name": "b"}, InvalidInputError),
        ({"path": "b", "data_type": pa.large_string(), "nullable": False}, InvalidInputError),
        ({"path": "a", "comment": 1}, InvalidInputError),
    ],
)
def test_what_cannot_be(tmp_path: Path, arguments: dict[str, object], error: type[LanceError]) -> None:
    uri = make(tmp_path)
    before = files(uri)
    with pytest.raises(error):
        lance_spark.open(uri).alter_column(**arguments)  # type: ignore[arg-type]
    assert checked(uri).version == 2
    assert files(uri) == before


def test_a_value_that_does_not_fit_after_all(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"d": pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32())}), uri)
    with pytest.raises(InvalidInputError):
        lance_spark.open(uri).alter_column("d", data_type=pa.timestamp("ns"))
    assert len(files(uri)) == 1


MEANWHILE: dict[str, Callable[[lance.LanceDataset], object]] = {
    "append": lambda d: lance.write_dataset(rows(10, 13), d.uri, mode="append"),
    "delete": lambda d: d.delete("a = 3"),
    "update": lambda d: d.update({"a": "a + 100"}, where="a = 4"),
    "compaction": lambda d: d.optimize.compact_files(),
    "add": lambda d: d.add_columns({"other": "a * 3"}),
    "drop": lambda d: d.drop_columns(["l"]),
    "rename another": lambda d: d.alter_columns({"path": "b", "name": "c"}),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_changes_of_others_are_kept(tmp_path: Path, name: str) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    MEANWHILE[name](lance.dataset(uri))
    expected = lance.dataset(uri).to_table()
    stale.alter_column("a", data_type=pa.decimal128(25, 1))
    found = checked(uri).to_table()
    assert found["a"].cast(pa.int64()).equals(expected["a"])
    assert found.drop_columns(["a"]).equals(expected.drop_columns(["a"]))
    assert set(files(uri)) == named_files(uri)


def test_a_stale_append_does_not_follow(tmp_path: Path) -> None:
    uri = make(tmp_path)

    def widen() -> None:
        lance_spark.open(uri).alter_column("a", data_type=pa.decimal128(25, 1))

    location = with_faults(uri, Fault(PUT, Harm.NONE, run=widen))
    with pytest.raises(RetryableConflictError):
        save(location, RowSource.of(rows(7, 9)), mode="append", options=QUIET)
    assert checked(uri).count_rows() == 5


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(tmp_path: Path, harm: Harm) -> None:
    uri = make(tmp_path)
    location = with_faults(uri, Fault(PUT, harm))
    change = Alteration("a", data_type=pa.decimal128(25, 1))
    assert alter_column(location, lance_spark.open(uri).manifest, change, QUIET).version == 3
    checked(uri)
    assert set(files(uri)) == named_files(uri)


def test_a_member_that_left_its_struct_in_a_file_of_2_0(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"s": pa.array([{"x": i, "y": i} for i in range(3)], pa.struct({"x": pa.int8(), "y": pa.int8()}))})
    lance.write_dataset(table, uri, data_storage_version="2.0")
    dataset = lance_spark.open(uri).alter_column("s.x", data_type=pa.int16())
    assert dataset.to_table(columns=["s.x"]).to_pylist() == [{"s.x": 0}, {"s.x": 1}, {"s.x": 2}]
    dataset.alter_column("s.x", data_type=pa.int32()).alter_column("s.y", data_type=pa.int32())
    assert checked(uri).to_table(columns=["s.y"]).to_pylist() == [{"s.y": 0}, {"s.y": 1}, {"s.y": 2}]
