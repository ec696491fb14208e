"""A fast-forward publishes a branch: the reference library reads it, and goes on with it, row by row."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitStateUnknownError, InvalidInputError, NotFoundError
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import ManifestNaming
from lance_spark.table.publishing.fast_forward import fast_forward
from tests.support.harmed_tables import NO_WAIT, PUT, with_faults
from tests.support.table.branches import reference, rows, shown


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Ten rows in version 1, and a branch `dev` with deleted, changed and new rows, its newest version 4."""
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(range(10)), uri, enable_stable_row_ids=request.param)
    dev = made.create_branch("dev").delete("id = 3").update({"v": "1"}, "id < 3")
    dev.append(rows([20, 21]))
    return made


CHANGED = {0: 1, 1: 1, 2: 1, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0, 20: 0, 21: 0}


def row_ids(uri: str, branch: str | None = None) -> dict[int, int]:
    listed = reference(uri, branch).to_table(columns=["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in listed}


def test_main_gets_the_rows_ids_and_indexes_of_the_branch(table: Dataset) -> None:
    uri = table.uri
    reference(uri, "dev").create_scalar_index("id", "BTREE")
    lance_spark.open(uri, branch="dev").update_config({"owner": "dev"})
    made = table.fast_forward("main", "dev")
    assert (made.branch, made.version, made.versions()[-1].operation) == (None, 2, "fast_forward")
    assert shown(uri) == CHANGED == shown(uri, "dev")
    assert row_ids(uri) == row_ids(uri, "dev")
    published = lance.dataset(uri)
    assert published.config()["owner"] == "dev"
    assert published.to_table(filter="id = 20").num_rows == 1
    assert "ScalarIndexQuery" in published.scanner(filter="id = 20").explain_plan()
    assert shown(uri, version=1) == dict.fromkeys(range(10), 0)
    assert made.fast_forward("main", "dev").version == made.version
    # A compaction moves rows, and the index with them, at whatever place its files are.
    lance_spark.open(uri).append(rows([22]))
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).optimize.optimize_indices()
    for number in (4, 20, 22):
        assert lance.dataset(uri).to_table(filter=f"id = {number}")["id"].to_pylist() == [number]
        assert lance_spark.open(uri).to_table(filter=f"id = {number}")["id"].to_pylist() == [number]


def test_both_libraries_go_on_with_it(table: Dataset) -> None:
    uri = table.uri
    table.fast_forward("main", "dev")
    lance.write_dataset(rows([30]), uri, mode="append")
    lance.dataset(uri).update({"v": "2"}, "id = 20")
    lance.dataset(uri).delete("id = 21")
    own = lance_spark.open(uri).update({"v": "3"}, "id = 9").append(rows([31]))
    expected = {**CHANGED, 30: 0, 31: 0, 20: 2, 9: 3}
    del expected[21]
    assert shown(uri) == expected
    lance.dataset(uri).optimize.compact_files()
    own.newest().compact()
    assert shown(uri) == expected
    assert shown(uri, "dev") == CHANGED


@pytest.mark.parametrize("library", ["ours", "reference"])
def test_a_clean_up_of_the_branch_keeps_the_files(table: Dataset, library: str) -> None:
    uri = table.uri
    table.fast_forward("main", "dev")
    dev = lance_spark.open(uri, branch="dev").overwrite(rows([77]))
    if library == "ours":
        dev.cleanup(keep_versions=1, delete_unverified=True)
    else:
        reference(uri, "dev").cleanup_old_versions(
            older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    lance_spark.open(uri).cleanup(keep_versions=1, delete_unverified=True)
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert shown(uri) == CHANGED
    assert shown(uri, "dev") == {77: 0}


def test_the_branch_is_not_deleted_while_main_has_its_files(table: Dataset) -> None:
    uri = table.uri
    table.fast_forward("main", "dev")
    with pytest.raises(InvalidInputError, match="version 2 of branch main has files of the branch 'dev'"):
        table.delete_branch("dev", force=True)
    with pytest.raises(OSError, match="referenced by tags"):
        lance.dataset(uri).branches.delete("dev")
    main = lance_spark.open(uri).overwrite(lance_spark.open(uri).to_table())
    with pytest.raises(InvalidInputError, match="keep the branch, or write these rows again"):
        main.delete_branch("dev")
    main.cleanup(keep_versions=1, delete_unverified=True, error_if_tagged_old_versions=False)
    # The version that the branch began at is kept, and has no files of it.
    with pytest.raises(InvalidInputError, match="less than an hour old"):
        main.delete_branch("dev")
    main.delete_branch("dev", force=True)
    assert not list(Path(uri, "tree").rglob("*.lance"))
    assert (main.branches(), main.tags()) == ({}, {})
    assert shown(uri) == CHANGED


def test_a_branch_that_does_not_contain_the_newest_version(table: Dataset) -> None:
    lance_spark.write(rows([50]), table.uri, mode="append")
    with pytest.raises(InvalidInputError, match="dev, which does not contain version 2 of main; cherrypick"):
        table.fast_forward("main", "dev")
    assert shown(table.uri) == dict.fromkeys([*range(10), 50], 0)
    assert table.tags() == {}


def test_again_and_again_and_in_both_directions(table: Dataset) -> None:
    uri = table.uri
    dev = lance_spark.open(uri, branch="dev")
    for number in range(3):
        main = table.fast_forward("main", "dev")
        assert main.version == 2 + 2 * number
        main = main.append(rows([60 + number]))
        with pytest.raises(InvalidInputError, match="does not contain"):
            table.fast_forward("main", "dev")
        dev = table.fast_forward("dev", "main")
        dev = dev.append(rows([70 + number])).compact()
        with pytest.raises(InvalidInputError, match="does not contain"):
            table.fast_forward("dev", "main")
    table.fast_forward("main", "dev")
    expected = CHANGED | dict.fromkeys([60, 61, 62, 70, 71, 72], 0)
    assert shown(uri) == shown(uri, "dev") == expected
    assert row_ids(uri) == row_ids(uri, "dev")


def test_through_a_branch_of_the_branch(table: Dataset) -> None:
    uri = table.uri
    lance_spark.open(uri, branch="dev").create_branch("dev/deep").append(rows([40]))
    made = table.fast_forward("main", "dev/deep")
    assert shown(uri) == shown(uri, "dev/deep") == CHANGED | {40: 0}
    assert table.fast_forward("dev", "main").version == 5
    assert shown(uri, "dev") == CHANGED | {40: 0}
    with pytest.raises(InvalidInputError, match="has files of the branches made from it"):
        made.delete_branch("dev")


def test_row_versions_are_those_of_the_branch_that_gets_them(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(range(4)), uri, enable_stable_row_ids=True)
    dev = made.create_branch("dev").append(rows([10])).update({"v": "1"}, "id = 0")
    made.fast_forward("main", "dev")
    dev = dev.append(rows([11])).update({"v": "2"}, "id = 1").compact()
    made.fast_forward("main", "dev")
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    listed = lance.dataset(uri).to_table(columns=columns).to_pylist()
    versions = {(0, 1, 2), (1, 1, 3), (2, 1, 1), (3, 1, 1), (10, 2, 2), (11, 3, 3)}
    assert {tuple(row.values()) for row in listed} == versions
    feed = pa.Table.from_batches(lance_spark.open(uri).changes(3))
    assert sorted(zip(feed["id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True)) == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (11, "insert"),
    ]


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT], ids=lambda harm: harm.name.lower())
def test_a_lost_reply_is_recognized(table: Dataset, harm: Harm) -> None:
    target = with_faults(table.uri, Fault(PUT, harm, path_part="_versions/"))
    made = fast_forward(target, TableLocation(table.uri, branch="dev"), NO_WAIT)
    assert made.version == 2 == lance.dataset(table.uri).version
    assert shown(table.uri) == CHANGED


def test_an_unknown_outcome_keeps_the_tag(table: Dataset) -> None:
    lost = Fault(PUT, Harm.ANSWER_LOST, times=99, path_part="_versions/")
    target = with_faults(table.uri, lost, Fault("read", times=999, path_part=ManifestNaming.V2.path(2)))
    with pytest.raises(CommitStateUnknownError):
        fast_forward(target, TableLocation(table.uri, branch="dev"), NO_WAIT)
    assert shown(table.uri) == CHANGED
    assert [tag.branch for tag in table.tags().values()] == ["dev"]


def test_a_commit_meanwhile_is_not_lost(table: Dataset) -> None:
    uri = table.uri
    other = Fault(PUT, Harm.NONE, path_part="_versions/", run=lambda: lance_spark.write(rows([50]), uri, mode="append"))
    with pytest.raises(InvalidInputError, match="does not contain version 2 of main"):
        fast_forward(with_faults(uri, other), TableLocation(uri, branch="dev"), NO_WAIT)
    assert shown(uri) == dict.fromkeys([*range(10), 50], 0)
    assert table.tags() == {}


@pytest.mark.parametrize("library", ["ours", "reference"])
def test_a_writer_that_has_read_the_version_before(table: Dataset, library: str) -> None:
    """An append goes on top, a deletion finds its rows again: neither is lost, nor undoes the fast-forward."""
    uri = table.uri
    theirs = lance.dataset(uri)
    table.fast_forward("main", "dev")
    if library == "ours":
        table.append(rows([90]))
        table.delete("id in (3, 4)")
        expected = CHANGED | {90: 0}
        del expected[4]
        assert shown(uri) == expected
    else:
        with pytest.raises(OSError, match="conflict"):
            theirs.delete("id = 4")
        assert shown(uri) == CHANGED


def test_wrong_names(table: Dataset) -> None:
    with pytest.raises(NotFoundError, match="no branch 'other'"):
        table.fast_forward("main", "other")
    with pytest.raises(InvalidInputError, match="main is one branch"):
        table.fast_forward("main", "main")
