"""Rows that go and come in one version, as a driver commits what its tasks have done."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.commit import RetryPolicy
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.moved_rows import NO_ORIGIN, NewFragment
from lance_spark.table.operations import Append, Delete, Update
from lance_spark.table.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.save import CommitOptions
from lance_spark.table.write import write_fragments

QUIET = CommitOptions(policy=RetryPolicy(sleep=lambda seconds: None))
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(values: Sequence[int], text: str = "row") -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([f"{text} {value}" for value in values])})


def addresses(dataset: Dataset) -> dict[int, int]:
    table = dataset.to_table(columns=["a"], with_row_address=True)
    return dict(zip(table["a"].to_pylist(), table["_rowaddr"].to_pylist(), strict=True))


def task(dataset: Dataset, changed: Sequence[int], inserted: Sequence[int] = (), mixed: bool = False) -> NewFragment:
    """Writes changed rows of `dataset` and new ones, as a task does; travels to the driver."""
    found = addresses(dataset)
    values = [*changed, *inserted]
    origins = [found[value] for value in changed] + [NO_ORIGIN] * len(inserted)
    if mixed:
        values, origins = values[::-1], origins[::-1]
    (fragment,) = write_fragments(rows(values, "new").to_batches(), dataset.location.store, dataset.lance_schema)
    made = NewFragment(fragment, np.array(origins, np.uint64))
    again: NewFragment = pickle.loads(pickle.dumps(made))
    return again


def change(
    dataset: Dataset,
    changed: Sequence[int] = (),
    inserted: Sequence[int] = (),
    deleted: Sequence[int] = (),
    mixed: bool = False,
    location: TableLocation | None = None,
) -> Dataset:
    found = addresses(dataset)
    gone = rows_by_fragment(np.array([found[value] for value in (*changed, *deleted)], np.uint64))
    new = [task(dataset, changed, inserted, mixed)] if changed or inserted else []
    location = location or dataset.location
    return Dataset(location, commit_row_changes(location, dataset.manifest, gone, new, QUIET))


def content(uri: str, columns: list[str] | None = None) -> list[dict[str, object]]:
    """Of our reader; on a local disk the reference must say the same."""
    names = ["a", "b", *(columns or [])]
    mine = lance_spark.open(uri).to_table(columns=names)
    if "://" not in uri:
        reference = lance.dataset(uri)
        reference.validate()
        assert reference.scanner(columns=names).to_table().to_pylist() == mine.to_pylist()
        assert reference.count_rows() == mine.num_rows == lance_spark.open(uri).count_rows()
    found: list[dict[str, object]] = mine.to_pylist()
    return found


def values(uri: str) -> list[str]:
    return [str(row["b"]) for row in sorted(content(uri), key=lambda row: str(row["a"]).zfill(9))]


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """0..9 and 10..19, two fragments, written by the reference."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(range(10)), uri, enable_stable_row_ids=request.param)
    lance.write_dataset(rows(range(10, 20)), uri, mode="append")
    return uri


def operation(dataset: Dataset) -> object:
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    return transaction.operation


def test_kinds_of_operation(uri: str) -> None:
    dataset = lance_spark.open(uri)
    assert change(dataset).version == 2, "nothing to change makes no version"
    assert isinstance(operation(change(dataset, deleted=[1])), Delete)
    assert isinstance(operation(change(lance_spark.open(uri), inserted=[20])), Append)
    update = change(lance_spark.open(uri), changed=[2], inserted=[21], deleted=[3])
    assert isinstance(operation(update), Update)
    reference = lance.dataset(uri).read_transaction(5).operation
    assert type(reference).__name__ == "Update"
    assert sorted(row["a"] for row in content(uri)) == [0, 2, *range(4, 22)]


@pytest.mark.parametrize("mixed", [False, True], ids=["moved rows first", "new rows first"])
def test_rows_keep_their_ids_and_the_version_of_their_creation(tmp_path: Path, mixed: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(range(10)), uri, enable_stable_row_ids=True)
    lance.write_dataset(rows(range(10, 20)), uri, mode="append")
    before = {row["a"]: row for row in content(uri, LINEAGE)}
    change(lance_spark.open(uri), changed=[15, 3, 7], inserted=[30, 31], deleted=[4], mixed=mixed)
    after = {row["a"]: row for row in content(uri, LINEAGE)}
    assert set(after) == set(before) - {4} | {30, 31}
    for value, row in after.items():
        if value in (3, 7, 15):
            expected = {**before[value], "b": f"new {value}", "_row_last_updated_at_version": 3}
        elif value in (30, 31):
            continue
        else:
            expected = before[value]
        assert row == expected
    assert sorted(after[value]["_rowid"] for value in (30, 31)) == [20, 21]
    assert {(after[v]["_row_created_at_version"], after[v]["_row_last_updated_at_version"]) for v in (30, 31)} == {
        (3, 3)
    }
    assert lance_spark.open(uri).manifest.next_row_id == 22
    # And on top of each other.
    change(lance_spark.open(uri), changed=[3, 30], inserted=[40], mixed=mixed)
    lance.dataset(uri).update({"b": "'theirs'"}, where="a in (3, 31, 40)")
    change(lance_spark.open(uri), changed=[3, 5])
    final = {row["a"]: row for row in content(uri, LINEAGE)}
    assert {value: row["_rowid"] for value, row in final.items() if value < 20} == {
        value: row["_rowid"] for value, row in before.items() if value != 4
    }
    assert final[3]["_row_created_at_version"] == 1
    assert final[3]["_row_last_updated_at_version"] == 6
    assert final[40]["_row_created_at_version"] == 4
    assert final[40]["_row_last_updated_at_version"] == 5
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert {row["a"]: row["_rowid"] for row in content(uri, LINEAGE)} == {a: row["_rowid"] for a, row in final.items()}
