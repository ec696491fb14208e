"""Dropping, renaming and reordering columns, beside the reference library and beside other writers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
)
from lance_spark.schema import evolution
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.columns.alter_column import Alteration, alter_column
from lance_spark.table.columns.schema_changes import project
from lance_spark.table.operations.merge import Merge
from lance_spark.table.operations.project import Project
from lance_spark.table.writing.row_source import RowSource
from tests.support.column_tables import KINDS, checked, make, operation_of, rows
from tests.support.harmed_tables import PUT, QUIET, with_faults
from tests.support.row_verbs import save


@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_writes_match_pylance(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path, kind)
    whole = lance_spark.open(uri).to_table()
    dataset = lance_spark.open(uri).rename_columns({"b": "bb", "s.x": "xx"})
    assert dataset.version == 3
    checked(uri)
    lance.dataset(uri).alter_columns({"path": "s.xx", "name": "x"})
    dataset = lance_spark.open(uri).reorder_columns(["l", "s"])
    assert checked(uri).schema.names == ["l", "s", "a", "bb"]
    lance.dataset(uri).drop_columns(["s.y"])
    dataset = lance_spark.open(uri).drop_columns(["l"])
    assert checked(uri).schema.names == ["s", "a", "bb"]
    kept = dataset.to_table()
    assert kept["bb"].to_pylist() == whole["b"].to_pylist()
    assert kept["s"].to_pylist() == [row and {"x": row["x"]} for row in whole["s"].to_pylist()]
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    lance.dataset(uri).delete("a = 2")
    assert checked(uri).count_rows() == 8
    lance.dataset(uri).optimize.compact_files()
    checked(uri)


def test_the_same_messages_as_pylance(tmp_path: Path) -> None:
    steps: list[tuple[Callable[[lance_spark.Dataset], object], Callable[[lance.LanceDataset], object]]] = [
        (lambda d: d.rename_columns({"s.x": "z"}), lambda d: d.alter_columns({"path": "s.x", "name": "z"})),
        (lambda d: d.drop_columns(["b"]), lambda d: d.drop_columns(["b"])),
        (lambda d: d.alter_column("a", nullable=False), lambda d: d.alter_columns({"path": "a", "nullable": False})),
        (lambda d: d.alter_column("a", nullable=True), lambda d: d.alter_columns({"path": "a", "nullable": True})),
    ]
    (tmp_path / "x").mkdir()
    own, committed = make(tmp_path), make(tmp_path / "x")
    for mine, reference in steps:
        mine(lance_spark.open(own))
        reference(lance.dataset(committed))
        left, right = (lance_spark.open(uri) for uri in (own, committed))
        assert operation_of(left) == operation_of(right)
        assert left.lance_schema == right.lance_schema
        assert isinstance(operation_of(left), Project)
        for one, other in zip(left.fragments, right.fragments, strict=True):
            assert [file.fields for file in one.files] == [file.fields for file in other.files]


def test_files_and_indices_without_a_column_go(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance.dataset(uri).add_columns({"c": "a * 2"})
    for column in ("a", "c"):
        lance.dataset(uri).create_scalar_index(column, "BTREE")
    dataset = lance_spark.open(uri).drop_columns(["c"])
    assert [len(fragment.files) for fragment in dataset.fragments] == [1, 1]
    assert [index["name"] for index in lance.dataset(uri).list_indices()] == ["a_idx"]
    assert lance.dataset(uri).to_table(filter="a > 3")["a"].to_pylist() == [4, 5]
    dataset = dataset.drop_columns(["a"])
    assert dataset.manifest.index_section is None
    assert checked(uri).schema.names == ["b", "s", "l"]


def test_structs_stay_null_where_they_were(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    before = dataset.to_table()["s"].to_pylist()
    dataset = dataset.add_columns(pa.field("s", pa.struct([pa.field("n", pa.int32())]))).drop_columns(["s.x", "s.y"])
    assert isinstance(operation_of(dataset), Merge)
    assert checked(uri).to_table()["s"].to_pylist() == [row and {"n": None} for row in before]
    lists = dataset.to_table()["l"].to_pylist()
    item = pa.field("item", pa.struct([pa.field("n", pa.int32())]))
    dataset = dataset.add_columns(pa.field("l", pa.list_(item))).drop_columns(["l.item.k", "l.item.m"])
    expected = [row and [{"n": None} for _ in row] for row in lists]
    assert checked(uri).to_table()["l"].to_pylist() == expected


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_members_of_lists(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    table = rows(null_structs=False)
    lance.write_dataset(table, uri, data_storage_version=version)
    dataset = lance_spark.open(uri).drop_columns(["l.item.k"]).add_columns(pa.field("l.item.n", pa.int8()))
    expected = [row and [{"m": item["m"], "n": None} for item in row] for row in table["l"].to_pylist()]
    assert checked(uri).to_table()["l"].to_pylist() == expected
    dataset.drop_columns(["l.item.m"])
    assert checked(uri).to_table()["l"].to_pylist() == [row and [{"n": None} for _ in row] for row in expected]


def test_a_fragment_keeps_a_column_of_the_table(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance_spark.open(uri).add_columns(pa.field("n", pa.int32())).drop_columns(["a", "b", "s", "l"])
    assert checked(uri).to_table().to_pylist() == [{"n": None}] * 5
    lance.dataset(uri).add_columns({"c": "n + 1"})
    lance_spark.open(uri).drop_columns(["n"])
    assert checked(uri).to_table().to_pylist() == [{"c": None}] * 5


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda d: d.drop_columns(["a", "b", "s", "l"]), InvalidInputError),
        (lambda d: d.drop_columns(["s.x", "s.y"]), InvalidInputError),
        (lambda d: d.drop_columns("a"), InvalidInputError),
        (lambda d: d.drop_columns([]), InvalidInputError),
        (lambda d: d.drop_columns(["nope"]), NotFoundError),
        (lambda d: d.rename_columns({"a": "b"}), InvalidInputError),
        (lambda d: d.rename_columns({"a": "x.y"}), InvalidInputError),
        (lambda d: d.reorder_columns(["nope"]), NotFoundError),
        (lambda d: d.alter_column("b", nullable=False), InvalidInputError),
        (lambda d: d.alter_column("s", nullable=False), InvalidInputError),
    ],
)
def test_changes_that_make_no_sense(
    tmp_path: Path, change: Callable[[lance_spark.Dataset], object], error: type[LanceError]
) -> None:
    uri = make(tmp_path)
    with pytest.raises(error):
        change(lance_spark.open(uri))
    assert checked(uri).version == 2


def test_what_changes_nothing_makes_no_version(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    assert dataset.rename_columns({"a": "a"}).version == 2
    assert dataset.reorder_columns(["a"]).version == 2
    assert dataset.alter_column("a", nullable=True).version == 2


def test_nulls_below_a_null_do_not_count(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance_spark.open(uri).alter_column("s.x", nullable=False)
    lance_spark.open(uri).alter_column("l.item", nullable=False)
    assert not checked(uri).schema.field("s").type.field("x").nullable


def test_on_a_branch(tmp_path: Path) -> None:
    uri = make(tmp_path)
    lance.dataset(uri).create_branch("side")
    lance_spark.open(uri, branch="side").drop_columns(["b"]).rename_columns({"a": "id"})
    side = lance.dataset(uri).checkout_version(("side", None))
    assert side.to_table().column_names == ["id", "s", "l"]
    assert side.to_table().to_pylist() == lance_spark.open(uri, branch="side").to_table().to_pylist()
    assert checked(uri).schema.names == ["a", "b", "s", "l"]


# Other writers.


def more(dataset: lance.LanceDataset) -> None:
    lance.write_dataset(rows(10, 12), dataset.uri, mode="append")


MEANWHILE: dict[str, Callable[[lance.LanceDataset], object]] = {
    "append": more,
    "delete": lambda d: d.delete("a = 3"),
    "update": lambda d: d.update({"b": "'new'"}, where="a = 4"),
    "compaction": lambda d: d.optimize.compact_files(),
    "add": lambda d: d.add_columns({"c": "a * 2"}),
    "drop": lambda d: d.drop_columns(["l"]),
    "rename": lambda d: d.alter_columns({"path": "s.y", "name": "why"}),
    "convert": lambda d: d.alter_columns({"path": "a", "data_type": pa.int32()}),
    "index": lambda d: d.create_scalar_index("b", "BITMAP"),
    "config": lambda d: d.update_config({"k": "v"}),
    "field metadata": lambda d: d.update_field_metadata({"a": {"k": "v"}}),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_changes_of_others_are_kept(tmp_path: Path, name: str) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    MEANWHILE[name](lance.dataset(uri))
    expected = lance.dataset(uri).to_table()
    metadata = lance.dataset(uri).schema.field("a").metadata
    assert stale.drop_columns(["b"]).version == lance.dataset(uri).version
    dataset = checked(uri)
    assert dataset.to_table().equals(expected.drop_columns(["b"]))
    assert dataset.schema.field("a").metadata == metadata
    assert "b_idx" not in [index["name"] for index in lance.dataset(uri).list_indices()]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda d: lance.write_dataset(rows().select(["a", "b"]), d.uri, mode="overwrite"), IncompatibleConflictError),
        (lambda d: d.drop_columns(["b"]), NotFoundError),
        (lambda d: d.alter_columns({"path": "b", "name": "c"}), NotFoundError),
    ],
)
def test_what_ours_cannot_follow(
    tmp_path: Path, change: Callable[[lance.LanceDataset], object], error: type[LanceError]
) -> None:
    uri = make(tmp_path)
    stale = lance_spark.open(uri)
    change(lance.dataset(uri))
    newest = lance.dataset(uri).version
    with pytest.raises(error):
        stale.drop_columns(["b"])
    assert lance.dataset(uri).version == newest


@pytest.fixture
def memory() -> str:
    uri = f"memory://project-{uuid.uuid4().hex}"
    lance_spark.write(pa.table({"a": [1, 2], "b": ["x", None]}), uri)
    return uri


def test_a_rename_between_the_check_and_the_request(memory: str) -> None:
    def rename() -> None:
        lance_spark.open(memory).rename_columns({"b": "c"})

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=rename))
    base = lance_spark.open(memory).manifest
    assert project(location, base, lambda schema: evolution.renamed(schema, {"a": "d"}), QUIET).schema.names() == (
        "d",
        "c",
    )
    assert lance_spark.open(memory).version == 3


def test_a_null_that_comes_in_between(memory: str) -> None:
    def bring_a_null() -> None:
        lance_spark.write(pa.table({"a": pa.array([None], pa.int64()), "b": ["y"]}), memory, mode="append")

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=bring_a_null))
    base = lance_spark.open(memory).manifest
    with pytest.raises(InvalidInputError, match="nulls"):
        alter_column(location, base, Alteration("a", nullable=False), QUIET)
    assert lance_spark.open(memory).schema.field("a").nullable


def test_a_row_without_nulls_may_come_in_between(memory: str) -> None:
    def bring_a_row() -> None:
        lance_spark.write(pa.table({"a": [3], "b": ["y"]}), memory, mode="append")

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=bring_a_row))
    base = lance_spark.open(memory).manifest
    alter_column(location, base, Alteration("a", nullable=False), QUIET)
    dataset = lance_spark.open(memory)
    assert (dataset.schema.field("a").nullable, dataset.count_rows()) == (False, 3)
    null = pa.table({"a": pa.array([None], pa.int64()), "b": ["y"]})
    with pytest.raises(LanceError):
        lance_spark.write(null, memory, mode="append")


def test_a_stale_append_does_not_bring_nulls(memory: str) -> None:
    def forbid() -> None:
        lance_spark.open(memory).alter_column("a", nullable=False)

    location = with_faults(memory, Fault(PUT, Harm.NONE, run=forbid))
    source = RowSource.of(pa.table({"a": pa.array([None], pa.int64()), "b": ["y"]}))
    with pytest.raises(RetryableConflictError):
        save(location, source, mode="append", options=QUIET)
    assert lance_spark.open(memory).count_rows() == 2


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.NOT_SENT, Harm.SENT_TWICE])
def test_a_lost_reply_makes_one_version(memory: str, harm: Harm) -> None:
    location = with_faults(memory, Fault(PUT, harm))
    assert (
        project(
            location, lance_spark.open(memory).manifest, lambda schema: evolution.without(schema, ("a",)), QUIET
        ).version
        == 2
    )
    assert lance_spark.open(memory).schema.names == ["b"]
