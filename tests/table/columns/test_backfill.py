"""Columns from tasks that know rows by their addresses, beside the reference library and beside other writers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, RetryableConflictError
from lance_spark.table.columns.backfill import commit_backfill, plan_new_columns, plan_new_values
from lance_spark.table.dataset import Dataset
from lance_spark.table.operations.merge import Merge
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.writing.filled_columns import BackfilledFragment, BackfillPlan, remove_backfill, write_backfill
from tests.support.column_tables import KINDS, checked, make, named_files, operation_of, rows
from tests.support.harmed_tables import QUIET, files

NEW = pa.schema([pa.field("n", pa.string(), nullable=False), pa.field("t", pa.struct([("q", pa.int8())]))])


def run(dataset: Dataset, plan: BackfillPlan, values: dict[int, dict[str, object]]) -> list[BackfilledFragment]:
    """What tasks make of values by address, each task on a machine of its own."""
    written = []
    for fragment in dataset.fragments:
        mine = {address: row for address, row in values.items() if address >> 32 == fragment.id}
        table = pa.Table.from_pylist(list(mine.values()), schema=plan.arrow_schema)
        addresses = np.array(list(mine), np.uint64)
        bases = dataset.location.bases(dataset.manifest)
        done = write_backfill(
            dataset.location.store, bases, pickle.loads(pickle.dumps(plan)), fragment, addresses, table
        )
        if done is not None:
            written.append(pickle.loads(pickle.dumps(done)))
    return written


def addresses(dataset: Dataset) -> dict[int, int]:
    """The address of each value of `a`."""
    found = dataset.to_table(columns=["a", "_rowaddr"])
    return dict(zip(found["a"].to_pylist(), found["_rowaddr"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_new_columns(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path, kind)
    dataset = lance_spark.open(uri)
    where = addresses(dataset)
    plan = plan_new_columns(dataset.location, dataset.manifest, NEW)
    values = {where[5]: {"n": "five", "t": {"q": 5}}, where[0]: {"n": "zero", "t": None}}
    written = run(dataset, plan, values)
    assert [item.fragment_id for item in written] == [0, 1]
    lance.dataset(uri).delete("a = 3")
    lance.write_dataset(rows(8, 9, null_structs=False), uri, mode="append")
    manifest = commit_backfill(dataset.location, dataset.manifest, plan, written, QUIET)
    assert manifest.version == 5
    found = checked(uri).to_table(columns=["a", "n", "t"]).to_pylist()
    assert [row["a"] for row in found] == [0, 2, 4, 5, 8]
    assert [row["n"] for row in found] == ["zero", None, None, "five", None]
    assert [row["t"] for row in found] == [None, None, None, {"q": 5}, None]
    assert isinstance(operation_of(lance_spark.open(uri)), Merge)
    lance.dataset(uri).delete("n = 'zero'")
    checked(uri)


@pytest.mark.parametrize("kind", ["2.1", "2.2", "stable"])
def test_new_values(tmp_path: Path, kind: str) -> None:
    uri = make(tmp_path, kind)
    for column in ("a", "b"):
        lance.dataset(uri).create_scalar_index(column, "BTREE")
    dataset = lance_spark.open(uri)
    before = dataset.to_table()
    plan = plan_new_values(dataset.location, dataset.manifest, ["s", "a"])
    values = {2: {"a": -2, "s": None}, 0: {"a": -1, "s": {"x": 7, "y": None}}}
    written = run(dataset, plan, values)
    made = commit_backfill(dataset.location, dataset.manifest, plan, written, QUIET)
    found = checked(uri).to_table()
    assert found["a"].to_pylist() == [-1, -2, 3, 4, 5]
    assert found["s"].to_pylist() == [{"x": 7, "y": None}, None, *before["s"].to_pylist()[2:]]
    assert found.select(["b", "l"]).equals(before.select(["b", "l"]))
    operation = operation_of(lance_spark.open(uri))
    assert isinstance(operation, Update)
    assert operation.mode is UpdateMode.REWRITE_COLUMNS
    reference = lance.dataset(uri)
    assert reference.to_table(filter="a < 4")["a"].to_pylist() == [-1, -2, 3]
    covered = {index["name"]: set(index["fragment_ids"]) for index in reference.list_indices()}
    assert covered == {"a_idx": {1}, "b_idx": {0, 1}}
    if kind == "stable":
        versions = reference.to_table(columns=["_row_last_updated_at_version", "_row_created_at_version"])
        assert versions["_row_last_updated_at_version"].to_pylist() == [made.version, made.version, 1, 1, 1]
        assert versions["_row_created_at_version"].to_pylist() == [1] * 5
    reference.update({"a": "a - 1"}, where="a = -2")
    reference.optimize.compact_files()
    assert sorted(checked(uri).to_table()["a"].to_pylist()) == [-3, -1, 3, 4, 5]


def test_pylance_makes_the_same_of_the_same(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    own, committed = make(tmp_path, "stable"), make(tmp_path / "x", "stable")
    dataset = lance_spark.open(own)
    plan = plan_new_values(dataset.location, dataset.manifest, ["a"])
    commit_backfill(dataset.location, dataset.manifest, plan, run(dataset, plan, {0: {"a": -1}}), QUIET)
    update = pa.table({"_rowaddr": pa.array([0], pa.uint64()), "a": pa.array([-1], pa.int64())})
    fragment, modified = (
        lance.dataset(committed).get_fragments()[0].update_columns(update, left_on="_rowaddr", right_on="_rowaddr")
    )
    left, operation = lance_spark.open(own), operation_of(lance_spark.open(own))
    assert isinstance(operation, Update)
    reference = lance.LanceOperation.Update(
        updated_fragments=[fragment],
        fields_modified=modified,
        update_mode="rewrite_columns",
        updated_fragment_offsets=dict(operation.updated_offsets),
    )
    lance.LanceDataset.commit(committed, reference, read_version=2)
    right = lance_spark.open(committed)
    for one, other in zip(left.fragments, right.fragments, strict=True):
        assert [file.fields for file in one.files] == [file.fields for file in other.files]
        assert one.last_updated_at_versions == other.last_updated_at_versions
    assert left.to_table().equals(right.to_table())
    theirs_operation = operation_of(right)
    assert isinstance(theirs_operation, Update)
    assert operation.fields_modified == theirs_operation.fields_modified
    assert operation.updated_offsets == theirs_operation.updated_offsets


def test_nothing_to_write(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    plan = plan_new_values(dataset.location, dataset.manifest, ["a"])
    assert run(dataset, plan, {}) == []
    assert commit_backfill(dataset.location, dataset.manifest, plan, []) is dataset.manifest
    plan = plan_new_columns(dataset.location, dataset.manifest, NEW)
    commit_backfill(dataset.location, dataset.manifest, plan, [])
    assert checked(uri).to_table()["n"].null_count == 5


@pytest.mark.parametrize(
    ("address", "row"),
    [
        ([1 << 32], {"n": ["x"], "t": [None]}),
        ([3], {"n": ["x"], "t": [None]}),
        ([0, 0], {"n": ["x", "y"], "t": [None, None]}),
        ([0], {"n": ["x", "y"], "t": [None, None]}),
        ([0], {"n": ["x"]}),
        ([0], {"n": [b"\xff"], "t": [None]}),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, address: list[int], row: dict[str, list[object]]) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    plan = plan_new_columns(dataset.location, dataset.manifest, NEW)
    bases = dataset.location.bases(dataset.manifest)
    places = np.array(address, np.uint64)
    with pytest.raises(InvalidInputError):
        write_backfill(dataset.location.store, bases, plan, dataset.fragments[0], places, pa.table(row))
    assert len(files(uri)) == 2


def test_plans_that_make_no_sense(tmp_path: Path) -> None:
    dataset = lance_spark.open(make(tmp_path))
    with pytest.raises(InvalidInputError):
        plan_new_columns(dataset.location, dataset.manifest, pa.schema([("a", pa.int8())]))
    with pytest.raises(NotFoundError):
        plan_new_values(dataset.location, dataset.manifest, ["nope"])
    with pytest.raises(InvalidInputError):
        plan_new_values(dataset.location, dataset.manifest, [])


MOVES: dict[str, Callable[[lance.LanceDataset], object]] = {
    "update": lambda d: d.update({"b": "'x'"}, where="a = 4"),
    "compaction": lambda d: d.optimize.compact_files(),
    "the same column": lambda d: d.drop_columns(["a"]),
    "the fragment": lambda d: d.delete("a < 3"),
}


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_addresses_are_void_when_rows_move(tmp_path: Path, name: str, replaces: bool) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    if replaces:
        plan = plan_new_values(dataset.location, dataset.manifest, ["a"])
        written = run(dataset, plan, {0: {"a": 1}, 1 << 32: {"a": 2}})
    else:
        plan = plan_new_columns(dataset.location, dataset.manifest, NEW)
        written = run(dataset, plan, {0: {"n": "x"}, 1 << 32: {"n": "y"}})
    MOVES[name](lance.dataset(uri))
    if name == "the fragment" and not replaces:
        commit_backfill(dataset.location, dataset.manifest, plan, written, QUIET)
        assert checked(uri).to_table()["n"].to_pylist() == ["y", None, None]
    else:
        with pytest.raises(RetryableConflictError):
            commit_backfill(dataset.location, dataset.manifest, plan, written, QUIET)
    checked(uri)
    assert set(files(uri)) == named_files(uri)


def test_rows_that_are_not_there_any_more(tmp_path: Path) -> None:
    """Addresses that somebody wrote down: a row that was updated since is another one now."""
    uri = make(tmp_path)
    where = addresses(lance_spark.open(uri))
    lance.dataset(uri).update({"a": "100"}, where="a = 2")
    dataset = lance_spark.open(uri)
    before = set(files(uri))
    for plan in (
        plan_new_columns(dataset.location, dataset.manifest, NEW.remove(1)),
        plan_new_values(dataset.location, dataset.manifest, ["a"]),
    ):
        row = {"a": 1} if plan.replaces else {"n": "x"}
        with pytest.raises(InvalidInputError, match=r"row \d of fragment 0 is not there any more"):
            run(dataset, plan, {where[0]: row, where[2]: row})
    assert set(files(uri)) == before


def test_what_is_given_up_is_removed(tmp_path: Path) -> None:
    uri = make(tmp_path)
    dataset = lance_spark.open(uri)
    plan = plan_new_columns(dataset.location, dataset.manifest, NEW)
    written = run(dataset, plan, {0: {"n": "x"}})
    remove_backfill(dataset.location.store, written)
    assert len(files(uri)) == 2
    written = run(dataset, plan, {0: {"n": "x"}})
    with pytest.raises(LanceError):
        commit_backfill(dataset.location, dataset.manifest, plan, [*written, *written])
    assert len(files(uri)) == 2


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.integers(0, 19), st.one_of(st.none(), st.integers(-5, 5)), max_size=12),
    st.sets(st.integers(0, 19), max_size=10),
    st.booleans(),
)
def test_any_rows_and_any_deletions(
    tmp_path_factory: pytest.TempPathFactory, values: dict[int, int | None], deleted: set[int], replaces: bool
) -> None:
    uri = str(tmp_path_factory.mktemp("t") / "t")
    table = pa.table({"a": pa.array(range(20)), "c": pa.array([100 + i for i in range(20)], pa.int64())})
    lance_spark.write(table, uri, max_rows_per_file=10)
    if deleted:
        lance_spark.open(uri).delete(f"a IN ({', '.join(map(str, deleted))})")
    dataset = lance_spark.open(uri)
    if replaces:
        plan = plan_new_values(dataset.location, dataset.manifest, ["c"])
    else:
        plan = plan_new_columns(dataset.location, dataset.manifest, pa.schema([("d", pa.int64())]))
    name = plan.written.names()[0]
    values = {row: value for row, value in values.items() if row not in deleted}
    by_address = {(row // 10 << 32) + row % 10: {name: value} for row, value in values.items()}
    commit_backfill(dataset.location, dataset.manifest, plan, run(dataset, plan, by_address), QUIET)
    found = {row["a"]: row[name] for row in lance.dataset(uri).to_table().to_pylist()}
    assert found == {row: values.get(row, 100 + row if replaces else None) for row in range(20) if row not in deleted}
    assert lance_spark.open(uri).to_table().equals(lance.dataset(uri).to_table())
