"""A picked version makes its change on another branch once, where its rows are as they were; else it is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.publishing.cherrypick import cherrypick
from tests.support.harmed_tables import NO_WAIT, PUT, with_faults
from tests.support.table.branches import SCHEMA, reference, rows, shown


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Ten rows in two fragments of version 1, the branch `dev` from there, and a row 100 more on main, version 2."""
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(range(10)), uri, enable_stable_row_ids=request.param, max_rows_per_file=5)
    made.create_branch("dev")
    return lance_spark.write(rows([100]), uri, mode="append")


MAIN = dict.fromkeys([*range(10), 100], 0)


def dev(table: Dataset) -> Dataset:
    return lance_spark.open(table.uri, branch="dev")


def test_appended_rows_share_their_files(table: Dataset) -> None:
    dev(table).append(rows([20, 21]))
    made = table.cherrypick(2, "dev")
    assert (made.version, made.versions()[-1].operation) == (3, "cherrypick")
    assert shown(table.uri) == MAIN | {20: 0, 21: 0}
    (added,) = made.fragments[len(table.fragments) :]
    base_id = added.files[0].base_id
    assert next(base.path for base in made.manifest.base_paths if base.id == base_id).endswith("tree/dev")
    with pytest.raises(InvalidInputError, match="version 3 of branch main has files of the branch 'dev'"):
        table.delete_branch("dev", force=True)


def test_deletions_updates_and_merges(table: Dataset) -> None:
    made = dev(table).delete("id in (1, 7)").update({"v": "5"}, "id in (2, 8)")
    made.merge(pa.table({"id": [3, 30], "v": [9, 9]}, schema=SCHEMA), on="id")
    for version in (2, 3, 4):
        table.cherrypick(version, "dev")
    assert shown(table.uri) == {**{key: MAIN[key] for key in MAIN if key not in (1, 7)}, 2: 5, 8: 5, 3: 9, 30: 9}
    assert shown(table.uri, "dev") == {key: value for key, value in shown(table.uri).items() if key != 100}


def test_updated_rows_keep_their_row_ids(table: Dataset) -> None:
    dev(table).update({"v": "5"}, "id = 2")
    table.cherrypick(2, "dev")
    listed = lance.dataset(table.uri).to_table(columns=["id"], with_row_id=True).to_pylist()
    ids = {row["id"]: row["_rowid"] for row in listed}
    assert len(set(ids.values())) == 11
    if table.has_stable_row_ids:
        before = lance.dataset(table.uri, version=2).to_table(columns=["id"], with_row_id=True).to_pylist()
        assert ids == {row["id"]: row["_rowid"] for row in before}


def test_versions_of_the_reference_library(table: Dataset) -> None:
    other = reference(table.uri, "dev")
    lance.write_dataset(rows([40]), other, mode="append")
    reference(table.uri, "dev").delete("id = 0")
    reference(table.uri, "dev").update({"v": "7"}, "id = 9")
    reference(table.uri, "dev").merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        rows([5, 41], 8)
    )
    for version in (2, 3, 4, 5):
        table.cherrypick(version, "dev")
    expected = MAIN | {40: 0, 9: 7, 5: 8, 41: 8}
    del expected[0]
    assert shown(table.uri) == expected
    lance.write_dataset(rows([50]), table.uri, mode="append")
    lance.dataset(table.uri).delete("id = 41")
    del expected[41]
    lance.dataset(table.uri).optimize.compact_files()
    reference(table.uri, "dev").optimize.compact_files()
    reference(table.uri, "dev").cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert shown(table.uri) == expected | {50: 0}
    assert shown(table.uri, version=6) == {**expected, 41: 8}


@pytest.mark.parametrize("change", ["delete", "update", "delete on main, update on dev"])
def test_rows_that_are_no_longer_as_they_were(table: Dataset, change: str) -> None:
    made = dev(table).delete("id in (1, 2)") if change == "delete" else dev(table).update({"v": "5"}, "id in (1, 2)")
    if change == "update":
        table.update({"v": "6"}, "id = 2")
    else:
        table.delete("id = 2")
    before = shown(table.uri)
    with pytest.raises(InvalidInputError, match="1 rows that version 2 of branch dev deleted or updated are not in"):
        table.cherrypick(made.version, "dev")
    assert shown(table.uri) == before
    assert [tag for tag in table.tags() if tag.startswith("lance-shared-")] == []


def test_rows_that_a_compaction_has_moved(table: Dataset) -> None:
    dev(table).delete("id = 1").update({"v": "5"}, "id = 2")
    table.compact()
    if table.has_stable_row_ids:
        table.cherrypick(2, "dev")
        table.cherrypick(3, "dev")
        expected = MAIN | {2: 5}
        del expected[1]
        assert shown(table.uri) == expected
    else:
        with pytest.raises(InvalidInputError, match="they have been deleted, updated or moved there"):
            table.cherrypick(2, "dev")
        assert shown(table.uri) == MAIN


def test_the_same_row_id_of_another_row(tmp_path: Path) -> None:
    """Both branches give the row id 3 to a row of their own; only files tell them apart."""
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(range(3)), uri, enable_stable_row_ids=True)
    made.create_branch("dev").append(rows([10])).delete("id = 10")
    main = made.append(rows([20]))
    with pytest.raises(InvalidInputError, match="1 rows that version 3 of branch dev"):
        main.cherrypick(3, "dev")
    assert shown(uri) == dict.fromkeys([0, 1, 2, 20], 0)
    main.cherrypick(2, "dev")
    main.cherrypick(3, "dev")
    assert shown(uri) == dict.fromkeys([0, 1, 2, 20], 0)


def test_a_version_is_picked_once(table: Dataset) -> None:
    dev(table).append(rows([20]))
    made = table.cherrypick(2, "dev")
    for again in (made, made.delete("id = 20"), made.newest().compact()):
        with pytest.raises(InvalidInputError, match="version 2 of branch dev is in branch main already, by version 3"):
            again.cherrypick(2, "dev")
    # Nor the pick itself where its origin is, or was picked.
    with pytest.raises(InvalidInputError, match="is in branch dev already, by version 2 of branch dev"):
        made.cherrypick(3, onto="dev")
    made.create_branch("release", 2)
    made.cherrypick(3, onto="release")
    with pytest.raises(InvalidInputError, match="is in branch release already"):
        made.cherrypick(2, "dev", "release")
    assert shown(table.uri, "release") == MAIN | {20: 0}


def test_a_rollback_lets_it_be_picked_again(table: Dataset) -> None:
    dev(table).append(rows([20]))
    made = table.cherrypick(2, "dev").rollback_to_version(2)
    assert shown(table.uri) == MAIN
    assert made.cherrypick(2, "dev").version == 5
    assert shown(table.uri) == MAIN | {20: 0}
    grown = lance_spark.open(table.uri).append(rows([21]))
    grown.rollback_to_version(5).cherrypick(6)
    assert shown(table.uri) == MAIN | {20: 0, 21: 0}


def test_it_is_refused_where_the_history_is_gone(table: Dataset) -> None:
    """The pick was compacted and cleaned up: nothing says any more that the row 20 is that of dev."""
    dev(table).append(rows([20]))
    made = table.cherrypick(2, "dev").append(rows([30])).compact()
    made.cleanup(keep_versions=1, delete_unverified=True)
    with pytest.raises(InvalidInputError, match="it is not known whether it was picked"):
        made.cherrypick(2, "dev")
    assert shown(table.uri) == MAIN | {20: 0, 30: 0}


def test_kinds_that_are_refused_by_name(table: Dataset) -> None:
    made = dev(table).append(rows([20])).compact()
    made = made.update_config({"k": "v"}).restore(2).add_columns({"w": "1"})
    made.overwrite(rows([1]))
    kinds = {1: "clone", 3: "rewrite", 4: "update_config", 5: "restore", 6: "merge", 7: "overwrite"}
    operations = {entry.version: entry.operation for entry in dev(table).versions()}
    for version, kind in kinds.items():
        assert operations[version] == kind
        with pytest.raises(InvalidInputError, match=f"version {version} of branch dev is of kind {kind}, which is not"):
            table.cherrypick(version, "dev")
    assert lance.dataset(table.uri).version == 2
    with pytest.raises(NotFoundError):
        table.cherrypick(99, "dev")


def test_other_columns_are_refused(table: Dataset) -> None:
    dev(table).append(rows([20]))
    table.add_columns({"w": "1"})
    with pytest.raises(InvalidInputError, match="has other columns than branch main"):
        table.cherrypick(2, "dev")


def test_values_rewritten_in_place_are_refused(table: Dataset) -> None:
    other = reference(table.uri, "dev")
    fragment = other.get_fragments()[0]
    updated, fields = fragment.update_columns(pa.table({"_rowid": pa.array([0], pa.uint64()), "v": [4]}))
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(other, operation, read_version=other.version)
    with pytest.raises(UnsupportedFeatureError, match="changed values of columns in place"):
        table.cherrypick(2, "dev")


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT], ids=lambda harm: harm.name.lower())
@pytest.mark.parametrize("appends", [True, False], ids=["append", "update"])
def test_a_lost_reply_is_recognized(table: Dataset, harm: Harm, appends: bool) -> None:
    made = dev(table)
    made.append(rows([20])) if appends else made.update({"v": "5"}, "id = 2")
    target = with_faults(table.uri, Fault(PUT, harm, path_part="_versions/"))
    assert cherrypick(TableLocation(table.uri, branch="dev"), 2, target, NO_WAIT).version == 3
    assert shown(table.uri) == MAIN | ({20: 0} if appends else {2: 5})


def test_two_that_pick_the_same_version(table: Dataset) -> None:
    dev(table).append(rows([20]))
    other = Fault(PUT, Harm.NONE, path_part="_versions/", run=lambda: table.cherrypick(2, "dev"))
    with pytest.raises(InvalidInputError, match="is in branch main already, by version 3"):
        cherrypick(TableLocation(table.uri, branch="dev"), 2, with_faults(table.uri, other), NO_WAIT)
    assert shown(table.uri) == MAIN | {20: 0}


def test_a_commit_meanwhile_is_followed(table: Dataset) -> None:
    dev(table).update({"v": "5"}, "id = 2").append(rows([20]))
    for version, row in ((2, 60), (3, 61)):
        other = Fault(PUT, Harm.NONE, path_part="_versions/", run=lambda row=row: table.append(rows([row])))
        cherrypick(TableLocation(table.uri, branch="dev"), version, with_faults(table.uri, other), NO_WAIT)
    assert shown(table.uri) == MAIN | {2: 5, 20: 0, 60: 0, 61: 0}
