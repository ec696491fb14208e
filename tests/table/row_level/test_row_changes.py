"""Rows that go and come in one version, as a driver commits what its tasks have done."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.delete import Delete
from lance_spark.table.operations.update import Update
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, commit_row_changes, rows_by_fragment
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.writing.write import write_fragments
from tests.support.counting_store import CountingStore
from tests.support.harmed_tables import QUIET
from tests.support.keyed_rows import read_by_both, rows
from tests.support.table.row_changes import addresses

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def task(dataset: Dataset, changed: Sequence[int], inserted: Sequence[int] = (), mixed: bool = False) -> NewFragment:
    """Writes changed rows of `dataset` and new ones, as a task does; travels to the driver."""
    found = addresses(dataset)
    values = [*changed, *inserted]
    source_addresses = [found[value] for value in changed] + [NO_ORIGIN] * len(inserted)
    if mixed:
        values, source_addresses = values[::-1], source_addresses[::-1]
    (fragment,) = write_fragments(rows(*values, text="new").to_batches(), dataset.location.store, dataset.lance_schema)
    made = NewFragment(fragment, np.array(source_addresses, np.uint64))
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
    return read_by_both(uri, ["a", "b", *(columns or [])])


def values(uri: str) -> list[str]:
    return [str(row["b"]) for row in sorted(content(uri), key=lambda row: str(row["a"]).zfill(9))]


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
    lance.write_dataset(rows(*range(10)), uri, enable_stable_row_ids=True)
    lance.write_dataset(rows(*range(10, 20)), uri, mode="append")
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


def in_pairs(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array([(fragment << 32) + offset for fragment, offset in pairs], np.uint64)


def test_addresses_in_any_order_and_twice() -> None:
    found = rows_by_fragment(in_pairs((7, 3), (0, 9), (7, 1), (0, 9)))
    assert {fragment: offsets.tolist() for fragment, offsets in found.items()} == {0: [9], 7: [1, 3]}
    assert rows_by_fragment(np.empty(0, np.uint64)) == {}


def test_rows_that_are_not_there(uri: str) -> None:
    dataset = lance_spark.open(uri).delete("a = 3")
    location, base = dataset.location, dataset.manifest
    for gone in (in_pairs((0, 3)), in_pairs((0, 10)), in_pairs((1, 1 << 31)), in_pairs((9, 0))):
        with pytest.raises(InvalidInputError):
            commit_row_changes(location, base, rows_by_fragment(gone), options=QUIET)
    with pytest.raises(InvalidInputError):
        commit_row_changes(location, base, {FragmentId(0): np.array([-1])}, options=QUIET)
    with pytest.raises(InvalidInputError):
        commit_row_changes(location, base, {FragmentId(9): None}, options=QUIET)
    assert lance_spark.open(uri).version == 3
    assert len(list(location.store.list("_deletions"))) == 1


def test_rows_that_come_again_wrongly(uri: str) -> None:
    dataset = lance_spark.open(uri)
    location, base = dataset.location, dataset.manifest
    moved = task(dataset, [1, 2])
    gone = rows_by_fragment(in_pairs((0, 1), (0, 2)))

    def commit(*new: NewFragment, rows: DeletedRows = gone) -> Manifest:
        return commit_row_changes(location, base, rows, new, QUIET)

    for source_addresses in (
        [in_pairs((0, 1), (0, 1))],
        [in_pairs((0, 1), (0, 3))],
        [in_pairs((0, 1))],
        [in_pairs((5, 1), (0, 1))],
    ):
        with pytest.raises(InvalidInputError):
            commit(NewFragment(moved.fragment, source_addresses[0]))
    with pytest.raises(InvalidInputError):
        commit(moved, task(dataset, [1]))
    with pytest.raises(InvalidInputError):
        commit(moved, rows={})
    assert lance_spark.open(uri).version == 2
    assert commit(moved).version == 3


def test_whole_fragments_go_without_being_read(uri: str) -> None:
    dataset = lance_spark.open(uri).delete("a = 3")
    store = CountingStore(dataset.location.store)
    location = TableLocation(uri)
    location.store = store
    location.history = History(store)
    made = commit_row_changes(location, dataset.manifest, {FragmentId(0): None}, options=QUIET)
    assert [fragment.id for fragment in made.fragments] == [1]
    assert not [path for path in store.counts.paths if path.startswith(("data/", "_deletions/"))]
    assert [row["a"] for row in content(uri)] == [*range(10, 20)]
    dataset = lance_spark.open(uri)
    lance_spark.open(uri).delete("true")
    assert content(uri) == []
    with pytest.raises(RetryableConflictError):
        commit_row_changes(dataset.location, dataset.manifest, {FragmentId(1): None}, options=QUIET)


def test_whole_fragments_that_others_have_touched(uri: str) -> None:
    dataset = lance_spark.open(uri)
    lance.dataset(uri).update({"b": "'theirs'"}, where="a = 3")
    with pytest.raises(RetryableConflictError):
        commit_row_changes(dataset.location, dataset.manifest, {FragmentId(0): None}, options=QUIET)
    made = commit_row_changes(dataset.location, dataset.manifest, {FragmentId(1): None}, options=QUIET)
    assert made.version == 4
    assert sorted(row["a"] for row in content(uri)) == [*range(10)]


@pytest.mark.parametrize("mixed", [False, True])
def test_a_driver_follows_writers_of_other_rows(uri: str, mixed: bool) -> None:
    dataset = lance_spark.open(uri)
    lance.dataset(uri).update({"b": "'theirs'"}, where="a in (4, 12)")
    lance_spark.write(rows(70, 71), uri, mode="append")
    change(dataset, changed=[3, 15], inserted=[50], deleted=[5, 11], mixed=mixed)
    found = {row["a"]: row["b"] for row in content(uri)}
    assert set(found) == {*range(20), 50, 70, 71} - {5, 11}
    assert {value: found[value] for value in (3, 4, 12, 15, 50, 71)} == {
        3: "new 3", 4: "theirs", 12: "theirs", 15: "new 15", 50: "new 50", 71: "row 71"
    }  # fmt: skip
    if dataset.manifest.has_stable_row_ids:
        lineage = {row["a"]: tuple(row[name] for name in LINEAGE) for row in content(uri, LINEAGE)}
        assert (lineage[3], lineage[4], lineage[15]) == ((3, 1, 5), (4, 1, 3), (15, 2, 5))
        assert (lineage[70], lineage[71], lineage[50]) == ((20, 4, 4), (21, 4, 4), (22, 5, 5))


@pytest.mark.parametrize("committed", ["b = b", "deleted"])
def test_a_driver_is_told_when_others_have_its_rows(uri: str, committed: str) -> None:
    dataset = lance_spark.open(uri)
    if committed == "deleted":
        lance.dataset(uri).delete("a = 15")
    else:
        lance.dataset(uri).update({"b": "'theirs'"}, where="a = 15")
    with pytest.raises(RetryableConflictError) as caught:
        change(dataset, changed=[3, 15], inserted=[50])
    assert (caught.value.own, caught.value.table_version) == ("update", 3)
    assert lance_spark.open(uri).version == 3
    assert len(list(dataset.location.store.list("data"))) == (3 if committed == "deleted" else 4), (
        "ours are for the caller"
    )


def test_fragments_without_ids_of_moved_rows_are_new_rows(tmp_path: Path) -> None:
    """Origins may be left out: then the rows are other ones, with new ids."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(4)), uri, enable_stable_row_ids=True)
    dataset = lance_spark.open(uri)
    made = NewFragment(task(dataset, [1]).fragment)
    commit_row_changes(dataset.location, dataset.manifest, rows_by_fragment(in_pairs((0, 1))), [made], QUIET)
    assert {row["a"]: tuple(row[name] for name in LINEAGE) for row in content(uri, LINEAGE)}[1] == (4, 2, 2)


def test_row_ids_of_old_tables_without_versions(tmp_path: Path) -> None:
    """The reference takes rows without a version of creation for those of version 1."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(4)), uri, enable_stable_row_ids=True)
    dataset = lance_spark.open(uri)
    messages = []
    for message in dataset.manifest.fragments.messages:
        copy = table_pb2.DataFragment()
        copy.CopyFrom(message)
        copy.ClearField("inline_created_at_versions")
        copy.ClearField("inline_last_updated_at_versions")
        messages.append(copy)
    old = Dataset(dataset.location, replace(dataset.manifest, fragments=FragmentList(messages)))
    change(old, changed=[2])
    assert {row["a"]: tuple(row[name] for name in LINEAGE[:2]) for row in content(uri, LINEAGE[:2])}[2] == (2, 1)


def test_only_what_is_needed_is_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    texts = [bytes(row).hex() for row in np.random.default_rng(0).integers(0, 256, (20000, 25), np.uint8)]
    lance.write_dataset(pa.table({"a": range(20000), "b": texts, "c": texts[::-1]}), uri, max_rows_per_file=5000)
    dataset = lance_spark.open(uri)
    store = CountingStore(dataset.location.store)
    dataset.location.store = store
    dataset.location.history = History(store)
    source = pa.table({"a": [19999], "b": ["new"]})
    keys_and_tails = 4 * (5000 * 2 + (64 << 10))  # Of 2 MB; keys are bit-packed into less than two bytes.
    for work in (
        lambda: dataset.merge(source, "a", when_matched=None),
        lambda: dataset.update({"b": "'x'"}, "a > 100000"),
        lambda: dataset.delete("a > 100000"),
    ):
        store.reset()
        assert work().version == 1
        assert store.counts.bytes_read < keys_and_tails
    store.reset()
    assert dataset.merge(source, "a").version == 2
    assert store.counts.bytes_read < keys_and_tails + 200_000, "and a page of the column that the source has not"


def test_fragments_without_a_change_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 fragments a commit parses the two that it changes: as they were, and as they become."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(1000)}), uri, max_rows_per_file=10, max_rows_per_group=10).delete("a = 3")
    table = lance_spark.open(uri)
    parsed: list[int] = []
    from_proto = DataFragment.from_proto

    def counted(message: table_pb2.DataFragment) -> DataFragment:
        parsed.append(message.id)
        return from_proto(message)

    monkeypatch.setattr(DataFragment, "from_proto", counted)
    gone = rows_by_fragment(np.array([(7 << 32) + 1, (90 << 32) + 2], np.uint64))
    commit_row_changes(table.location, table.manifest, gone, (), QUIET)
    assert sorted(parsed) == [7, 7, 90, 90]
    monkeypatch.undo()
    left = [number for number in range(1000) if number not in (3, 71, 902)]
    assert lance.dataset(uri).to_table()["a"].to_pylist() == left
