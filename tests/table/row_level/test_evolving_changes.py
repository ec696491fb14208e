"""Rows that go and come, and columns that come with them, as one version."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, RetryableConflictError
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.backfill import commit_backfill, plan_new_values
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.merge import Merge
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.row_level.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.writing.filled_columns import write_backfill
from lance_spark.table.writing.schema_merge import evolved_schema
from lance_spark.table.writing.write import write_fragments
from tests.support.column_tables import operation_of
from tests.support.harmed_tables import QUIET
from tests.support.keyed_rows import read_by_both, rows
from tests.support.table.row_changes import addresses

CHANGED, INSERTED, DELETED = (3, 15), (30, 31), (4, 10, 11, 12, 13, 14, 16, 17, 18, 19)
"""Of 0..9 and 10..19: the second fragment loses all of its rows."""


def evolved(dataset: Dataset) -> LanceSchema:
    schema = evolved_schema(dataset.location.history, dataset.manifest, pa.schema([("more", pa.int32())]))
    assert schema is not None
    return schema


def change(dataset: Dataset) -> Dataset:
    """Changes, inserts and deletes rows of `dataset`, which may be an old version."""
    found, schema = addresses(dataset), evolved(dataset)
    values = [*CHANGED, *INSERTED]
    table = rows(*values, text="new").append_column("more", pa.array(values, pa.int32()))
    source_addresses = [found[value] for value in CHANGED] + [NO_ORIGIN] * len(INSERTED)
    (fragment,) = write_fragments(table.to_batches(), dataset.location.store, schema)
    deleted = rows_by_fragment(np.array([found[value] for value in (*CHANGED, *DELETED)], np.uint64))
    new = [NewFragment(fragment, np.array(source_addresses, np.uint64))]
    made = commit_row_changes(dataset.location, dataset.manifest, deleted, new, QUIET, evolved=schema)
    return Dataset(dataset.location, made)


def content(uri: str, *more: str) -> list[dict[str, object]]:
    """Of both readers, in the order of the first column."""
    found = read_by_both(uri, ["a", "b", "more", *more])
    return sorted(found, key=lambda row: int(str(row["a"])))


def expected(*without: int) -> list[dict[str, object]]:
    kept = [key for key in range(10) if key not in (*CHANGED, *DELETED, *without)]
    old = [{"a": key, "b": f"row {key}", "more": None} for key in kept]
    new = [{"a": key, "b": f"new {key}", "more": key} for key in (*CHANGED, *INSERTED)]
    return sorted([*old, *new], key=lambda row: int(str(row["a"])))


def test_rows_and_columns_are_one_version(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    before = lance.dataset(uri)
    ids = {row["a"]: row["_rowid"] for row in before.to_table(columns=["a"], with_row_id=True).to_pylist()}
    dataset = change(lance_spark.open(uri))
    assert dataset.version == before.version + 1
    assert isinstance(operation_of(dataset), Merge)
    assert content(uri) == expected()
    assert lance.dataset(uri).to_table(filter="a > 9")["a"].to_pylist() == [15, 30, 31]
    assert [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()] == [0, 2]
    if dataset.manifest.has_stable_row_ids:
        lineage = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        told = {row["a"]: tuple(row[name] for name in lineage) for row in content(uri, *lineage)}
        version = dataset.version
        assert told[0] == (ids[0], 1, 1)
        assert (told[3], told[15]) == ((ids[3], 1, version), (ids[15], 2, version))
        assert [told[30], told[31]] == [(20, version, version), (21, version, version)]
    # Both libraries go on from there.
    lance.dataset(uri).delete("more = 30")
    lance_spark.open(uri).compact()
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    assert lance_spark.open(uri).count_rows() == 2 * (len(expected()) - 1)


def test_columns_come_without_rows(uri: str) -> None:
    dataset = lance_spark.open(uri)
    schema = evolved(dataset)
    made = commit_row_changes(dataset.location, dataset.manifest, {}, [], QUIET, evolved=schema)
    assert made.version == 3
    assert [row["more"] for row in content(uri)] == [None] * 20


def test_the_change_feed_tells_the_rows(uri: str) -> None:
    change(lance_spark.open(uri))
    found = pa.Table.from_batches(lance_spark.open(uri).changes(3, 3)).select(["a", "_change_type"]).to_pylist()
    kinds: dict[str, set[int]] = {}
    for row in found:
        kinds.setdefault(row["_change_type"], set()).add(row["a"])
    if lance_spark.open(uri).manifest.has_stable_row_ids:
        assert kinds["update_postimage"] == set(CHANGED)
        assert (kinds["insert"], kinds["delete"]) == (set(INSERTED), set(DELETED))
    else:
        assert kinds["delete"] >= set(DELETED)
        assert kinds["insert"] >= set(INSERTED)


def test_rivals_of_other_rows(uri: str) -> None:
    dataset = lance_spark.open(uri)
    lance.dataset(uri).delete("a = 5")
    lance.write_dataset(rows(7), uri, mode="append")
    assert change(dataset).version == 5
    old = {"a": 7, "b": "row 7", "more": None}
    assert content(uri) == sorted([*expected(5), old], key=lambda row: int(str(row["a"])))


@pytest.mark.parametrize("action", ["delete", "update", "compact", "add", "rename", "overwrite", "values"])
def test_rivals_of_the_same_rows_or_columns(uri: str, action: str) -> None:
    dataset = lance_spark.open(uri)
    if action == "delete":
        lance.dataset(uri).delete("a = 4")
    elif action == "update":
        lance.dataset(uri).update({"b": "'theirs'"}, where="a = 3")
    elif action == "compact":
        lance_spark.open(uri).delete("a = 0").compact()
    elif action == "add":
        lance_spark.open(uri).add_columns(pa.schema([("other", pa.int64())]))
    elif action == "rename":
        lance_spark.open(uri).rename_columns({"b": "c"})
    elif action == "overwrite":
        lance.write_dataset(rows(1), uri, mode="overwrite")
    else:
        lance_spark.open(uri).drop_columns(["b"]).add_columns(pa.schema([("b", pa.string())]))
    before = lance.dataset(uri).version
    deletions = sorted((Path(uri) / "_deletions").glob("*"))
    error = CommitConflictError if action == "overwrite" else RetryableConflictError
    with pytest.raises(error):
        change(dataset)
    assert lance.dataset(uri).version == before
    assert sorted((Path(uri) / "_deletions").glob("*")) == deletions


@pytest.mark.parametrize("values_first", [False, True])
def test_values_by_place_and_rows_that_move(uri: str, values_first: bool) -> None:
    """A row that moves keeps its value, so a new value for its old place, and the move, do not go together."""
    dataset = lance_spark.open(uri)
    plan = plan_new_values(dataset.location, dataset.manifest, ["b"], job="values")
    places = np.array([addresses(dataset)[3]], np.uint64)
    fragment, bases = dataset.manifest.fragments[0], dataset.location.bases(dataset.manifest)
    filled = pa.table({"b": ["filled"]})
    written = write_backfill(dataset.location.store, bases, plan, fragment, places, filled)
    assert written is not None
    if values_first:
        commit_backfill(dataset.location, dataset.manifest, plan, [written], QUIET)
        with pytest.raises(RetryableConflictError):
            change(dataset)
        assert "filled" in lance.dataset(uri).to_table()["b"].to_pylist()
    else:
        change(dataset)
        with pytest.raises(RetryableConflictError):
            commit_backfill(dataset.location, dataset.manifest, plan, [written], QUIET)
        assert content(uri) == expected()


def test_files_of_values_do_not_follow_rows_that_have_moved(uri: str) -> None:
    dataset = lance_spark.open(uri)
    fragment = dataset.manifest.fragments[0]
    operation = DataReplacement(((fragment.id, fragment.files[0]),))
    transaction = Transaction.new(dataset.version, operation)
    change(dataset)
    with pytest.raises(RetryableConflictError):
        Commit(dataset.location.history, dataset.manifest, transaction, NewTable(FileVersion.V2_2)).run()
