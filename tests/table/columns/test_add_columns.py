"""Adding columns in every way, beside the reference library and beside other writers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.columns.add_columns import ColumnsToAdd, add_columns
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.operations.merge import Merge
from tests.support.column_tables import KINDS, checked, make, named_files, operation_of, rows
from tests.support.harmed_tables import PUT, QUIET, files, with_faults
from tests.support.threads import all_at_once

ADDED = {0: "zero", 3: "three", 99: "none"}


def by_key() -> tuple[pa.Table, list[str]]:
    return pa.table({"a": pa.array(ADDED, pa.int64()), "word": list(ADDED.values())}), ["a"]


def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"loud": pa.array([f"{value}!" for value in batch["a"].to_pylist()])})


@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_writes_match_pylance(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path, kind)
    lance_spark.open(uri).add_columns(pa.schema([("n", pa.int32()), ("t", pa.struct([("q", pa.string())]))]))
    checked(uri)
    lance_spark.open(uri).add_columns({"twice": "a * 2", "s.sum": "a + s.x"})
    checked(uri)
    lance.dataset(uri).add_columns({"thrice": "a * 3"})
    lance_spark.open(uri).add_columns(shout, read_columns=["a"])
    checked(uri)
    dataset = lance_spark.open(uri).add_columns(by_key())
    assert dataset.version == 7
    found = checked(uri).to_table().to_pylist()
    whole = {row["a"]: row for row in rows(null_structs=kind != "2.0").to_pylist()}
    assert [row["a"] for row in found] == [0, 2, 3, 4, 5]
    for row in found:
        struct = whole[row["a"]]["s"]
        assert row["s"] == (struct and {**struct, "sum": row["a"] + struct["x"]})
        assert (row["n"], row["t"], row["twice"], row["thrice"]) == (None, None, 2 * row["a"], 3 * row["a"])
        assert (row["loud"], row["word"]) == (f"{row['a']}!", ADDED.get(row["a"]))
    assert bool(dataset.manifest.reader_flags & FeatureFlag.MIXED_DATA_FILE_VERSIONS) is (kind == "2.0")
    lance_spark.open(uri).drop_columns(["t"])  # Files of 2.0 hold no null structs.
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    lance.dataset(uri).delete("twice = 4")
    lance.dataset(uri).optimize.compact_files()
    assert checked(uri).count_rows() == 8


def test_the_same_messages_as_pylance(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    own, committed = make(tmp_path), make(tmp_path / "x")
    new = pa.schema([pa.field("s", pa.struct([("new", pa.int32())])), pa.field("n", pa.int32())])
    for step in (new, {"c": "a * 2"}):
        lance_spark.open(own).add_columns(step)
        lance.dataset(committed).add_columns(step)
        left, right = lance_spark.open(own), lance_spark.open(committed)
        assert left.lance_schema == right.lance_schema
        one, other = operation_of(left), operation_of(right)
        assert isinstance(one, Merge)
        assert isinstance(other, Merge)
        assert (one.schema, one.preserves_nullability) == (other.schema, other.preserves_nullability)
        for mine, reference in zip(left.fragments, right.fragments, strict=True):
            assert [file.fields for file in mine.files] == [file.fields for file in reference.files]
            assert [file.version for file in mine.files] == [file.version for file in reference.files]


def test_null_columns_need_no_file(tmp_path: Path) -> None:
    uri = make(tmp_path)
    before = files(uri)
    lance_spark.open(uri).add_columns(pa.field("s.new", pa.int32())).add_columns([pa.field("n", pa.int32())])
    assert files(uri) == before
    assert checked(uri).schema.field("s").type.names == ["x", "y", "new"]


def test_deleted_rows_are_not_computed(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri).add_columns({"q": "10 / (a - 1)"})
    assert checked(uri).to_table()["q"].to_pylist() == [-10, 10, 5, pytest.approx(10 / 3), 2.5]
    assert [file.path for file in dataset.fragments[0].files] != []
    uri = str(tmp_path / "all deleted but one")
    lance.write_dataset(rows(0, 50), uri).delete("a <> 30")
    lance_spark.open(uri).add_columns({"c": "a + 1"})
    assert checked(uri).to_table()["c"].to_pylist() == [31]


def test_values_of_all_types(tmp_path: Path) -> None:
    uri = make(tmp_path)
    types = [pa.large_string(), pa.list_(pa.int8()), pa.list_(pa.float32(), 3), pa.decimal128(9, 2), pa.bool_()]
    types += [pa.dictionary(pa.int8(), pa.string()), pa.timestamp("us", "UTC"), pa.map_(pa.string(), pa.int32())]

    def nulls_and_more(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [pa.nulls(batch.num_rows, dtype) for dtype in types]
        vectors = pa.array([[float(i)] * 3 for i in range(batch.num_rows)], pa.list_(pa.float32(), 3))
        return pa.record_batch([*columns, vectors], names=[*map(str, range(len(types))), "vectors"])

    dataset = lance_spark.open(uri).add_columns(nulls_and_more)
    assert [field.type for field in dataset.schema][4:-1] == types
    checked(uri)


def test_functions_get_what_they_ask_for(tmp_path: Path) -> None:
    uri = make(tmp_path)
    seen: list[tuple[list[str], int]] = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append((batch.schema.names, batch.num_rows))
        return pa.record_batch({"c": pa.array([1] * batch.num_rows, pa.int8())})

    fields = pa.schema([pa.field("c", pa.int16(), nullable=False)])
    dataset = lance_spark.open(uri).add_columns(function, read_columns=["_rowid", "a"], schema=fields, batch_size=2)
    assert seen == [(["_rowid", "a"], 2), (["_rowid", "a"], 2), (["_rowid", "a"], 1)]
    assert dataset.schema.field("c") == pa.field("c", pa.int16())
    assert checked(uri).to_table()["c"].to_pylist() == [1] * 5
    lance_spark.write(pa.table({"a": pa.array([], pa.int64())}), str(tmp_path / "empty"))
    assert lance_spark.open(str(tmp_path / "empty")).add_columns(shout).schema.names == ["a", "loud"]


def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch["a"].to_pylist() == [3, 4, 5]:
        raise KeyError("on purpose")
    return shout(batch)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (pa.field("a", pa.int64()), InvalidInputError),
        (pa.field("n", pa.int64(), nullable=False), InvalidInputError),
        (pa.schema([]), InvalidInputError),
        ({}, InvalidInputError),
        ({"n": 1}, InvalidInputError),
        ({"n": "a +"}, InvalidInputError),
        ({"n": "NULL"}, InvalidInputError),
        ({"n": "nope"}, NotFoundError),
        ({"nope.n": "a"}, NotFoundError),
        ({"l.item.n": "a"}, InvalidInputError),
        ({"n": "10 / (a - 4)"}, InvalidInputError),
        ({"n": "CAST(b AS INT)"}, InvalidInputError),
        (fail, KeyError),
        (lambda batch: batch.slice(1), InvalidInputError),
        (lambda batch: None, InvalidInputError),
        (lambda batch: batch, InvalidInputError),
        (7, InvalidInputError),
        ((pa.table({"a": [0, 0], "w": [1, 2]}), ["a"]), InvalidInputError),
        ((pa.table({"z": [0], "w": [1]}), ["z"]), NotFoundError),
        ((pa.table({"a": [0], "w": [1]}), ["w"]), NotFoundError),
        ((pa.table({"a": ["x"], "w": [1]}), ["a"]), InvalidInputError),
        ((pa.table({"a": [0]}), ["a"]), InvalidInputError),
        ((pa.table({"a": [0], "b": [1]}), ["a"]), InvalidInputError),
        ((pa.table({"s": [{"x": 1, "y": "1"}], "w": [1]}), ["s"]), InvalidInputError),
    ],
)
def test_what_cannot_be_added(tmp_path: Path, columns: object, error: type[Exception]) -> None:
    uri = make(tmp_path)
    before = files(uri)
    with pytest.raises(error):
        lance_spark.open(uri).add_columns(columns)
    assert checked(uri).version == 2
    assert files(uri) == before


def test_keys_of_several_columns_and_null_keys(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"k": ["x", "x", None, "y"], "f": [1.0, float("nan"), 2.0, None]})
    lance_spark.write(table, uri)
    found = pa.table({"f": [float("nan"), 2.0, 1.0, None, 1.0], "k": ["x", None, "y", "y", "x"], "v": [1, 2, 3, 4, 5]})
    lance_spark.open(uri).add_columns((found, ["f", "k"]))
    assert checked(uri).to_table()["v"].to_pylist() == [5, 1, None, None]


@pytest.mark.parametrize("dtype", [pa.string_view(), pa.list_(pa.string_view()), pa.json_()])
def test_views_and_documents_by_key(tmp_path: Path, dtype: pa.DataType) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"k": [1, 2, 3]}), uri)
    values: list[object] = [["a"], None] if pa.types.is_list(dtype) else ["1", None]
    lance_spark.open(uri).add_columns((pa.table({"k": [3, 1], "v": pa.array(values, dtype)}), ["k"]))
    assert checked(uri).to_table()["v"].to_pylist() == [None, None, values[0]]


def test_keys_by_address_and_by_row_id(tmp_path: Path) -> None:
    uri = make(tmp_path, "stable")
    known = lance_spark.open(uri).to_table(columns=["a", "_rowid", "_rowaddr"])
    wanted = known.filter(pa.array([True, False, True, False, True]))
    for key in ("_rowid", "_rowaddr"):
        new = pa.table({key: wanted[key], f"by{key}": wanted["a"]})
        lance_spark.open(uri).add_columns((new, key))
        assert checked(uri).to_table()[f"by{key}"].to_pylist() == [0, None, 3, None, 5]


def test_no_id_is_given_twice(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri).add_columns({"c": "a"})
    first = dataset.lance_schema.fields[-1].id
    dataset = dataset.drop_columns(["c"]).add_columns({"d": "a"}).drop_columns(["d"])
    dataset = dataset.add_columns(pa.field("e", pa.int8()))
    assert dataset.lance_schema.fields[-1].id == first + 2
    lance.dataset(uri).drop_columns(["e"])
    assert lance_spark.open(uri).add_columns(pa.field("f", pa.int8())).lance_schema.fields[-1].id == first + 3


def test_a_stale_append_of_pylance_after_a_drop(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance.dataset(uri).add_columns({"c": "a"})
    stale = lance.dataset(uri)
    fragments = lance.fragment.write_fragments(stale.to_table().slice(0, 2), stale, mode="append")
    lance_spark.open(uri).drop_columns(["c"]).add_columns(pa.field("d", pa.int64()))
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=stale.version)
    assert checked(uri).to_table()["d"].to_pylist() == [None] * 7


def test_a_legacy_table_gets_no_values(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, data_storage_version="legacy")
    with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
        lance_spark.open(uri).add_columns({"c": "a"})


def test_indices_go_on(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance_spark.open(uri).add_columns({"c": "a * 2"})
    reference = lance.dataset(uri)
    assert "ScalarIndexQuery" in reference.scanner(filter="a > 3").explain_plan()
    assert reference.to_table(filter="a > 3")["c"].to_pylist() == [8, 10]
    assert reference.stats.index_stats("a_idx")["num_indexed_fragments"] == 2


# Other writers.

MEANWHILE: dict[str, Callable[[lance.LanceDataset], object]] = {
    "append": lambda d: lance.write_dataset(rows(10, 13), d.uri, mode="append"),
    "delete": lambda d: d.delete("a = 3"),
    "a whole fragment": lambda d: d.delete("a > 2"),
    "update": lambda d: d.update({"a": "a + 100"}, where="a = 4"),
    "compaction": lambda d: d.optimize.compact_files(),
    "another column": lambda d: d.add_columns({"other": "a * 3"}),
    "drop": lambda d: d.drop_columns(["l"]),
    "rename": lambda d: d.alter_columns({"path": "b", "name": "c"}),
    "index": lambda d: d.create_scalar_index("a", "BTREE"),
    "config": lambda d: d.update_config({"k": "v"}),
    "schema metadata": lambda d: d.update_schema_metadata({"k": "v"}),
    "field metadata": lambda d: d.update_field_metadata({"a": {"k": "v"}}),
}
WAYS: dict[str, object] = {"null": pa.field("new", pa.int64()), "expression": {"new": "a * 2"}, "key": by_key()}


@pytest.mark.parametrize("name", MEANWHILE)
@pytest.mark.parametrize("way", WAYS)
def test_changes_of_others_are_kept(tmp_path: Path, way: str, name: str) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    MEANWHILE[name](lance.dataset(uri))
    expected = lance.dataset(uri).to_table()
    assert stale.add_columns(WAYS[way]).version == lance.dataset(uri).version
    found = checked(uri).to_table()
    assert found.drop_columns(found.column_names[-1:]).equals(expected)
    wanted = {"null": lambda a: None, "expression": lambda a: a * 2, "key": ADDED.get}[way]
    assert found.column(found.num_columns - 1).to_pylist() == [wanted(a) for a in found["a"].to_pylist()]
    assert set(files(uri)) == named_files(uri)


def test_what_ours_cannot_follow(tmp_path: Path) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    lance.write_dataset(rows().select(["a", "b"]), uri, mode="overwrite")
    with pytest.raises(IncompatibleConflictError):
        stale.add_columns({"new": "a"})
    assert set(files(uri)) == named_files(uri)


def test_the_same_column_by_another_writer(tmp_path: Path) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    lance.dataset(uri).add_columns({"new": "a"})
    with pytest.raises(InvalidInputError, match="new"):
        stale.add_columns({"new": "a * 2"})
    assert checked(uri).version == 3
    assert set(files(uri)) == named_files(uri)


@pytest.mark.parametrize("name", ["update", "compaction", "another column"])
def test_addresses_are_void_when_rows_move(tmp_path: Path, name: str) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    MEANWHILE[name](lance.dataset(uri))
    with pytest.raises(RetryableConflictError):
        stale.add_columns((pa.table({"_rowaddr": pa.array([0], pa.uint64()), "new": [1]}), ["_rowaddr"]))
    assert set(files(uri)) == named_files(uri)


@pytest.fixture
def memory() -> str:
    uri = f"memory://add-columns-{uuid.uuid4().hex}"
    lance_spark.write(rows(), uri, max_rows_per_file=3)
    return uri


def test_an_append_between_the_check_and_the_request(memory: str) -> None:
    def append() -> None:
        lance_spark.write(rows(6, 8), memory, mode="append")

    location = with_faults(memory, Fault(PUT, Harm.NONE, times=2, run=append))
    made = add_columns(location, lance_spark.open(memory).manifest, ColumnsToAdd.of({"c": "a * 2"}), QUIET)
    assert made.version == 4
    assert lance_spark.open(memory).to_table()["c"].to_pylist() == [0, 2, 4, 6, 8, 10, 12, 14, 12, 14]
    assert set(files(memory)) == named_files(memory)
    assert len(files(memory)) == 2 + 2 + 2 + 2


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(memory: str, harm: Harm) -> None:
    location = with_faults(memory, Fault(PUT, harm))
    base = lance_spark.open(memory).manifest
    assert add_columns(location, base, ColumnsToAdd.of({"c": "a * 2"}), QUIET).version == 2
    assert lance_spark.open(memory).to_table()["c"].to_pylist() == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("operation", ["open_output", "close", "read_range", PUT])
def test_nothing_is_left_after_an_error(memory: str, operation: str) -> None:
    before = files(memory)
    base = lance_spark.open(memory).manifest
    for nth in (1,) if operation == PUT else (1, 2):
        location = with_faults(memory, Fault(operation, Harm.FAILS, nth=nth, times=100))
        with pytest.raises(StorageError):
            add_columns(location, base, ColumnsToAdd.of({"c": "a * 2"}), QUIET)
        assert files(memory) == before


def test_files_stay_while_nobody_knows(memory: str) -> None:
    location = with_faults(memory, Fault(PUT, Harm.NOT_SENT, times=1000), Fault("read", Harm.FAILS, nth=2, times=1000))
    base = lance_spark.open(memory).manifest
    with pytest.raises(CommitStateUnknownError):
        add_columns(location, base, ColumnsToAdd.of({"c": "a * 2"}), QUIET)
    assert len(files(memory)) == 4


def test_threads_add_columns_and_rows(memory: str) -> None:
    def work(number: int) -> None:
        if number % 2:
            lance_spark.open(memory).add_columns({f"c{number}": f"a * {number}"})
        else:
            lance_spark.write(rows(number * 10, number * 10 + 2), memory, mode="append")

    all_at_once(work, 8)
    found = lance_spark.open(memory).to_table()
    assert found.num_rows == 14
    values = found["a"].to_pylist()
    for number in (1, 3, 5, 7):
        column = found[f"c{number}"].to_pylist()
        assert column[:6] == [value * number for value in range(6)]
        # Rows that were appended after the column was there are null in it.
        assert all(value in (None, values[row] * number) for row, value in enumerate(column))
    assert set(files(memory)) == named_files(memory)
