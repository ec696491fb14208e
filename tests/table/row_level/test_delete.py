"""Deleting by filter, against the reference library and against other writers."""

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
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lance_spark.expr.nodes import Column, IsNull
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.operations.delete import Delete
from lance_spark.table.writing.row_source import RowSource
from tests.support.harmed_tables import PUT, QUIET, files, with_faults
from tests.support.keyed_rows import read_by_both, rows
from tests.support.row_verbs import delete_rows, save
from tests.support.threads import all_at_once


def values(uri: str) -> list[object]:
    return [row["a"] for row in read_by_both(uri)]


def delete(location: TableLocation, filter: str) -> int:
    base = location.latest()
    assert base is not None
    return delete_rows(location, base, filter, QUIET).version


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_interleaved_writes_match_pylance(tmp_path: Path, version: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(30)), uri, data_storage_version=version, enable_stable_row_ids=stable)
    lance.write_dataset(rows(*range(30, 60)), uri, mode="append")
    ids = {row["a"]: row["_rowid"] for row in lance.dataset(uri).to_table(with_row_id=True).to_pylist()}
    live = set(range(60))
    for turn, (who, modulus) in enumerate([("us", 7), ("them", 5), ("us", 4), ("us", 3), ("them", 2)]):
        condition = f"a % {modulus} = 1"
        if who == "us":
            assert lance_spark.open(uri).delete(condition).version == turn + 3
        else:
            lance.dataset(uri).delete(condition)
        live -= {value for value in live if value % modulus == 1}
        assert values(uri) == sorted(live)
    kept = lance.dataset(uri).to_table(with_row_id=True).to_pylist()
    assert {row["a"]: row["_rowid"] for row in kept} == {value: ids[value] for value in live}
    mine = lance_spark.open(uri).to_table(with_row_id=True)
    assert mine.to_pylist() == kept
    lance.write_dataset(rows(100, 101), uri, mode="append")
    lance_spark.open(uri).delete("a = 100")
    assert values(uri) == [*sorted(live), 101]


def test_what_is_written(uri: str) -> None:
    dataset = lance_spark.open(uri).delete("a < 3 or a >= 10")
    assert dataset.version == 3
    manifest = dataset.manifest
    assert [fragment.id for fragment in manifest.fragments] == [0]
    assert manifest.max_fragment_id == 1
    assert manifest.reader_flags & manifest.writer_flags & FeatureFlag.DELETION_FILES
    described = manifest.fragments[0].deletion_file
    assert described is not None
    assert (described.num_deleted_rows, described.read_version) == (3, 2)
    assert files(uri, "_deletions") == [described.path(manifest.fragments[0].id)]
    found = dataset.location.history.transaction(dataset.location.at(3))
    assert found is not None
    assert isinstance(found.operation, Delete)
    assert found.operation.deleted_fragment_ids == (1,)
    assert found.operation.predicate == "a < 3 or a >= 10"
    reference = lance.dataset(uri).read_transaction(3)
    assert (reference.read_version, reference.operation.predicate) == (2, "a < 3 or a >= 10")
    assert reference.operation.deleted_fragment_ids == [1]
    assert lance_spark.open(uri, version=2).count_rows() == 20


@pytest.mark.parametrize(("count", "extension"), [(5000, "arrow"), (5001, "bin")])
def test_forms_of_deletion_files(tmp_path: Path, count: int, extension: str) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(12000)), uri)
    lance_spark.open(uri).delete(f"a >= 100 and a < {100 + count}")
    assert [path.rpartition(".")[2] for path in files(uri, "_deletions")] == [extension]
    assert values(uri) == [*range(100), *range(100 + count, 12000)]
    lance_spark.open(uri).delete("a % 2 = 0")
    odd = [value for value in [*range(100), *range(100 + count, 12000)] if value % 2]
    assert values(uri) == odd
    assert lance_spark.open(uri).manifest.fragments[0].num_rows == len(odd)


@pytest.mark.parametrize("stable", [False, True])
def test_the_whole_table_and_then_more(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, 2, 3), uri, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("a = 2")
    dataset = lance_spark.open(uri).delete("true")
    assert (len(dataset.fragments), dataset.manifest.max_fragment_id) == (0, 0)
    assert not dataset.manifest.reader_flags & FeatureFlag.DELETION_FILES
    assert values(uri) == []
    lance.write_dataset(rows(4), uri, mode="append")
    lance_spark.write(rows(5), uri, mode="append")
    assert values(uri) == [4, 5]
    assert [fragment.id for fragment in lance_spark.open(uri).fragments] == [1, 2]
    if stable:
        assert lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [3, 4]


def test_a_delete_of_nothing_makes_no_version(uri: str) -> None:
    assert lance_spark.open(uri).delete("a > 100").version == 2
    assert lance_spark.open(uri).delete("a = 3").delete("a = 3").version == 3
    assert len(files(uri, "_deletions")) == 1
    assert len(files(uri, "_transactions")) == 3


def test_null_is_not_true(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1, None, 3, None), uri)
    lance_spark.open(uri).delete("a > 1")
    assert values(uri) == [1, None, None]
    lance_spark.open(uri).delete("not (a > 1)")
    assert values(uri) == [None, None]
    assert lance_spark.open(uri).delete(IsNull(Column(("a",)))).count_rows() == 0


@pytest.mark.parametrize(
    ("filter", "error"), [("nope = 1", NotFoundError), ("a +", InvalidInputError), ("a", InvalidInputError),
                          ("", InvalidInputError), (None, InvalidInputError)]
)  # fmt: skip
def test_filters_that_make_no_sense(uri: str, filter: str, error: type[LanceError]) -> None:
    with pytest.raises(error):
        lance_spark.open(uri).delete(filter)
    assert len(values(uri)) == 20


def test_an_index_of_pylance_goes_on(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance_spark.open(uri).delete("a % 3 = 0 or a >= 17")
    reference = lance.dataset(uri)
    assert "ScalarIndexQuery" in reference.scanner(filter="a >= 6").explain_plan()
    assert reference.to_table(filter="a >= 6 and a < 12")["a"].to_pylist() == [7, 8, 10, 11]
    assert reference.stats.index_stats("a_idx")["num_indexed_fragments"] == 2
    lance_spark.open(uri).delete("a >= 10")
    reference = lance.dataset(uri)
    assert reference.to_table(filter="a >= 6")["a"].to_pylist() == [7, 8]


def test_on_a_branch(uri: str) -> None:
    lance.dataset(uri).delete("a = 1")
    lance.dataset(uri).create_branch("side")
    lance_spark.open(uri, branch="side").delete("a < 5 or a = 11")
    expected = [*range(5, 11), *range(12, 20)]
    assert lance_spark.open(uri, branch="side").to_table()["a"].to_pylist() == expected
    reference = lance.dataset(uri).checkout_version(("side", None))
    assert reference.to_table()["a"].to_pylist() == expected
    assert values(uri) == [0, *range(2, 20)]


# Other writers.


def stale(uri: str, filter: str, *, meanwhile: Callable[[lance.LanceDataset], object]) -> Dataset:
    """What `filter` makes of the table if another writer comes between our reading and our commit."""
    dataset = lance_spark.open(uri)
    meanwhile(lance.dataset(uri))
    return dataset.delete(filter)


def grown(dataset: lance.LanceDataset) -> None:
    lance.write_dataset(rows(50), dataset.uri, mode="append")


DISJOINT: dict[str, tuple[Callable[[lance.LanceDataset], object], list[int]]] = {
    "append": (grown, [*range(4, 20), 50]),
    "delete": (lambda dataset: dataset.delete("a = 7 or a = 12"), [4, 5, 6, 8, 9, 10, 11, *range(13, 20)]),
    "delete twice": (
        lambda dataset: (dataset.delete("a = 7"), dataset.delete("a = 9")),
        [4, 5, 6, 8, *range(10, 20)],
    ),
    "the rest of the fragment": (lambda dataset: dataset.delete("a >= 4 and a < 10"), [*range(10, 20)]),
    "another fragment": (lambda dataset: dataset.delete("a >= 10"), [*range(4, 10)]),
    "update": (lambda dataset: dataset.update({"a": "a + 100"}, where="a = 8"), [4, 5, 6, 7, *range(9, 20), 108]),
    "index": (lambda dataset: dataset.create_scalar_index("a", "BTREE"), [*range(4, 20)]),
    "config": (lambda dataset: dataset.update_config({"k": "v"}), [*range(4, 20)]),
    "drop of a column": (lambda dataset: dataset.drop_columns(["b"]), [*range(4, 20)]),
}


@pytest.mark.parametrize("case", list(DISJOINT))
@pytest.mark.parametrize("before", [False, True], ids=["no deletions yet", "deletions before"])
def test_other_writers_that_leave_our_rows_alone(uri: str, case: str, before: bool) -> None:
    if before:
        lance.dataset(uri).delete("a = 2")
    meanwhile, expected = DISJOINT[case]
    old = lance_spark.open(uri)
    dataset = stale(uri, "a < 4", meanwhile=meanwhile)
    assert dataset.manifest.version > old.version + 1
    assert values(uri) == expected
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    assert transaction.read_version == old.version, "it was not run again"
    stored = dataset.location.store.read(f"_transactions/{dataset.manifest.transaction_file}")
    assert stored.to_pybytes() == transaction.to_bytes()
    named = {path for version in lance_spark.open(uri).versions() for path in deletion_paths(uri, version.version)}
    assert set(files(uri, "_deletions")) == named, "no deletion file is left that no version names"


def deletion_paths(uri: str, version: int) -> set[str]:
    fragments = lance_spark.open(uri, version=version).fragments
    return {item.deletion_file.path(item.id) for item in fragments if item.deletion_file is not None}


RUN_AGAIN: dict[str, tuple[Callable[[lance.LanceDataset], object], list[int]]] = {
    "same row": (lambda dataset: dataset.delete("a = 2 or a = 7"), [4, 5, 6, 8, 9, *range(10, 20)]),
    "same fragment": (lambda dataset: dataset.delete("a < 10"), [*range(10, 20)]),
    "updated so that it stays": (
        lambda dataset: dataset.update({"a": "a + 100"}, where="a = 2"),
        [*range(4, 20), 102],
    ),
    "updated so that it goes": (lambda dataset: dataset.update({"a": "a - 1"}, where="a = 2"), [*range(4, 20)]),
    "compaction": (lambda dataset: dataset.optimize.compact_files(), [*range(4, 20)]),
    "new column": (lambda dataset: dataset.add_columns({"c": "a + 1"}), [*range(4, 20)]),
    "new type": (lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}), [*range(4, 20)]),
}


@pytest.mark.parametrize("case", list(RUN_AGAIN))
def test_other_writers_that_have_our_rows(uri: str, case: str) -> None:
    meanwhile, expected = RUN_AGAIN[case]
    stale(uri, "a < 4", meanwhile=meanwhile)
    assert values(uri) == expected
    named = {path for version in lance_spark.open(uri).versions() for path in deletion_paths(uri, version.version)}
    assert set(files(uri, "_deletions")) == named


def test_what_ours_was_made_for_is_gone(uri: str) -> None:
    def overwritten(dataset: lance.LanceDataset) -> None:
        lance.write_dataset(rows(*range(5)).select(["a"]), dataset.uri, mode="overwrite")

    with pytest.raises(IncompatibleConflictError):
        stale(uri, "a < 4", meanwhile=overwritten)
    with pytest.raises(IncompatibleConflictError):
        stale(uri, "a < 4", meanwhile=lambda dataset: lance.dataset(dataset.uri, version=1).restore())
    assert values(uri) == [*range(10)]
    assert files(uri, "_deletions") == []


def test_a_merged_deletion_file_takes_the_form_of_its_size(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(12000)), uri)
    dataset = stale(uri, "a < 3000", meanwhile=lambda dataset: dataset.delete("a >= 9000"))
    assert values(uri) == [*range(3000, 9000)]
    path = next(iter(deletion_paths(uri, dataset.version)))
    assert path.endswith(".bin")
    assert dataset.fragments[0].num_rows == 6000


def test_pylance_deletes_after_us_with_an_old_version(uri: str) -> None:
    old = lance.dataset(uri)
    lance_spark.open(uri).delete("a = 3 or a >= 15")
    old.delete("a = 4 or a = 3")
    assert values(uri) == [0, 1, 2, *range(5, 15)]


def test_an_append_of_ours_follows_a_delete(uri: str) -> None:
    def meanwhile() -> None:
        lance_spark.open(uri).delete("a < 10")

    location = with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile))
    save(location, RowSource.of(rows(77)), mode="append", options=QUIET)
    assert values(uri) == [*range(10, 20), 77]


def test_threads_of_ours_and_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(200)), uri, max_rows_per_file=100)

    def work(worker: int) -> None:
        for number in range(4):
            condition = f"a % 40 = {worker * 4 + number}"
            if worker % 3:
                lance_spark.open(uri).delete(condition)
            else:
                lance.dataset(uri).delete(condition)

    all_at_once(work, 6)
    assert values(uri) == [value for value in range(200) if value % 40 >= 24]


# Stores that fail.


@pytest.fixture
def memory() -> str:
    uri = f"memory://delete-{uuid.uuid4().hex}"
    lance_spark.write(rows(*range(10)), uri)
    return uri


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_gives_exactly_one_version(memory: str, harm: Harm) -> None:
    assert delete(with_faults(memory, Fault(PUT, harm, times=3)), "a < 3") == 2
    assert [entry.version for entry in lance_spark.open(memory).versions()] == [1, 2]
    assert values(memory) == [*range(3, 10)]
    assert len(files(memory, "_deletions")) == 1


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_after_a_rebase(memory: str, harm: Harm) -> None:
    rival = Fault(PUT, harm, run=lambda: lance_spark.open(memory).delete("a = 9") and None)
    assert delete(with_faults(memory, rival, Fault(PUT, harm, nth=2)), "a < 3") == 3
    assert values(memory) == [*range(3, 9)]
    assert set(files(memory, "_deletions")) == deletion_paths(memory, 2) | deletion_paths(memory, 3)


def test_a_store_that_never_answers_keeps_the_deletion_file(memory: str) -> None:
    with pytest.raises(CommitStateUnknownError):
        delete(with_faults(memory, Fault(PUT, Harm.NOT_SENT, times=1000)), "a < 3")
    assert len(files(memory, "_deletions")) == 1, "the version may still appear, and then it needs its deletion file"
    assert len(values(memory)) == 10


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put", path_part="_deletions/"),
        Fault("put", Harm.FAILS_AFTERWARDS, path_part="_deletions/"),
        Fault("put", path_part="_transactions/"),
        Fault("list", path_part="_versions", nth=2),
        Fault(PUT),
    ],
    ids=lambda fault: f"{fault.operation}-{fault.harm.value}-{fault.path_part.strip('_/')}",
)
def test_a_failure_before_the_commit_leaves_nothing_behind(memory: str, fault: Fault) -> None:
    with pytest.raises(StorageError):
        delete(with_faults(memory, fault), "a < 3")
    assert files(memory, "_deletions") == []
    assert len(files(memory, "_versions")) == 1
    assert values(memory) == [*range(10)]


def test_a_crash_before_the_commit_is_not_visible(memory: str) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    with pytest.raises(Killed):
        delete(with_faults(memory, Fault(PUT, run=kill)), "a < 3")
    assert values(memory) == [*range(10)]
    assert delete(TableLocation(memory), "a < 4") == 2
    assert values(memory) == [*range(4, 10)]


def test_it_gives_up_when_rivals_have_our_rows_again_and_again(memory: str) -> None:
    def update() -> None:
        dataset = lance_spark.open(memory).delete("a < 3")
        lance_spark.write(rows(0, 1, 2), memory, mode="append")
        assert dataset.count_rows() == 7

    with pytest.raises(RetryableConflictError):
        delete(with_faults(memory, Fault(PUT, Harm.NONE, times=100, run=update)), "a < 3")
    assert sorted(values(memory)) == [*range(10)]
    named = {
        path for version in lance_spark.open(memory).versions() for path in deletion_paths(memory, version.version)
    }
    assert set(files(memory, "_deletions")) == named
