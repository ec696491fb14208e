"""A clean-up takes what is old and nothing that a version, a tag, a branch or a writer still needs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.storage.paths import STAGING_PREFIX
from lance_spark.table.cleanup.cleanup import CleanupStats, cleanup
from lance_spark.table.cleanup.policy import SAFETY_WINDOW, CleanupPolicy
from lance_spark.table.cleanup.references import GUARD_PREFIX
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.paths import ManifestNaming
from lance_spark.table.refs.refs import Refs
from lance_spark.table.refs.tagging import create_tag, update_tag
from lance_spark.table.versions.changes import restore
from lance_spark.table.writing.save import CommitOptions, commit_append
from lance_spark.table.writing.write import write_fragments

NOW = timedelta(0)
DAY = 86_400
GOLDEN = Path(__file__).parents[2] / "golden"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": [str(value) for value in values]})


def history_of(uri: str, stable: bool = False) -> None:
    """1: a=0..4; 2: deleted 0; 3: appended 5; 4: updated 1; 5: compacted; 6: index; 7: overwritten; 8: appended."""
    lance.write_dataset(rows(0, 1, 2, 3, 4), uri, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("a = 0")
    lance.write_dataset(rows(5), uri, mode="append")
    lance.dataset(uri).update({"b": "'u'"}, where="a = 1")
    lance_spark.open(uri).compact()
    lance.dataset(uri).create_scalar_index("a", "ZONEMAP")
    lance_spark.write(rows(7, 8), uri, mode="overwrite")
    lance_spark.write(rows(9), uri, mode="append")


def files(uri: str) -> set[str]:
    root = Path(uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def age(uri: str, days: float, *only: str) -> None:
    """Makes files older than they are."""
    then = time.time() - days * DAY
    for name in only or files(uri):
        os.utime(Path(uri) / name, (then, then))


def numbers(uri: str, branch: str | None = None) -> list[int]:
    return [entry.version for entry in lance_spark.open(uri, branch=branch).versions()]


def contents(uri: str) -> dict[int, pa.Table]:
    """Every version as the reference library reads it, each validated."""
    found = {}
    for number in numbers(uri):
        dataset = lance.dataset(uri, version=number)
        dataset.validate()
        found[number] = dataset.to_table().sort_by("a")
        assert dataset.count_rows("a = 5") == found[number]["a"].to_pylist().count(5)
        assert lance_spark.open(uri, version=number).to_table().sort_by("a") == found[number]
    return found


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_all_but_the_newest_go(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t")
    history_of(uri, stable)
    before, size = contents(uri), sum((Path(uri) / name).stat().st_size for name in files(uri))
    stats = lance_spark.open(uri).cleanup(older_than=NOW)
    assert contents(uri) == {8: before[8]}
    assert stats.versions == tuple(range(1, 8))
    left = files(uri)
    assert {name.partition("/")[0] for name in left} == {"data", "_transactions", "_versions"}
    assert len([name for name in left if name.startswith("data/")]) == 2
    assert (stats.data_files, stats.deletion_files, stats.transaction_files) == (4, 2, 7)
    assert stats.index_files == 1
    assert stats.bytes_removed == size - sum((Path(uri) / name).stat().st_size for name in left)
    assert lance_spark.open(uri).cleanup(older_than=NOW) == CleanupStats()
    lance.write_dataset(rows(10), uri, mode="append")
    assert lance.dataset(uri).version == 9


@pytest.mark.parametrize("keep", [1, 2, 3, 5, 8, 20])
def test_the_newest_ones_stay(tmp_path: Path, keep: int) -> None:
    uri, committed = str(tmp_path / "ours"), str(tmp_path / "theirs")
    for table in (uri, committed):
        history_of(table)
    before = contents(uri)
    lance_spark.open(uri).cleanup(keep_versions=keep)
    lance.dataset(committed).cleanup_old_versions(retain_versions=keep)
    assert contents(uri) == {number: before[number] for number in range(max(9 - keep, 1), 9)}
    assert numbers(uri) == numbers(committed)
    for folder in ("data", "_deletions", "_versions", "_indices", "_transactions"):
        own, reference = ([name for name in files(table) if name.startswith(folder)] for table in (uri, committed))
        assert len(own) == len(reference), folder


def test_both_conditions_must_hold(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    assert lance_spark.open(uri).cleanup(older_than=timedelta(hours=1), keep_versions=2).versions == ()
    moment = lance_spark.open(uri, version=4).timestamp
    assert lance_spark.open(uri).cleanup(older_than=moment, keep_versions=6).versions == (1, 2)
    assert lance_spark.open(uri).cleanup(older_than=moment).versions == (3,)
    assert lance_spark.open(uri).cleanup().versions == ()
    far = datetime.now(timezone.utc) + timedelta(days=1)
    assert lance_spark.open(uri, version=6).cleanup(older_than=far).versions == (4, 5)


@pytest.mark.parametrize("arguments", [{"keep_versions": 0}, {"older_than": timedelta(seconds=-1)}])
def test_invalid_arguments_are_refused(tmp_path: Path, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        CleanupPolicy(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep_from", [-1, 0, 7, 99])
def test_keep_from_a_version_that_cannot_exist(tmp_path: Path, keep_from: int) -> None:
    uri = str(tmp_path / "t")
    for value in range(6):
        lance_spark.write(rows(value), uri, mode="append")
    before = files(uri)
    policy = CleanupPolicy(older_than=timedelta(0))
    with pytest.raises(InvalidInputError, match=f"before {keep_from} cannot be removed, .* name a version from 1 to 6"):
        cleanup(TableLocation(uri), policy, keep_from=keep_from)
    assert files(uri) == before
    assert cleanup(TableLocation(uri), policy, keep_from=6).versions == (1, 2, 3, 4, 5)


def test_a_dry_run_tells_the_same_and_removes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = files(uri)
    told = lance_spark.open(uri).cleanup(keep_versions=3, dry_run=True)
    assert files(uri) == before
    assert lance_spark.open(uri).cleanup(keep_versions=3) == told
    assert told.versions == (1, 2, 3, 4, 5)


def test_what_no_version_names_must_be_old(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    strays = [
        "data/0101.lance",
        f"data/0101/{1:032b}.blob",
        "_deletions/0-1-2.arrow",
        "_deletions/0-1-2.bin",
        "_indices/0b0c/page.lance",
        "_transactions/7-x.txn",
        "_versions/.tmp_9.manifest",
        "_versions/9.manifest#1",
        f"data/{STAGING_PREFIX}x",
    ]
    others = [
        "data/notes.txt",
        "_versions/latest_version_hint.json",
        "_versions/00000000000000000001.manifest-0a-1b",
        "_blobs/x.blob",
        "README",
    ]
    for name in [*strays, *others]:
        path = Path(uri) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"stray")
    assert not {name for name in strays if name in files(uri) - set(strays)}
    lance_spark.open(uri).cleanup(keep_versions=99)
    assert files(uri) >= {*strays, *others}
    age(uri, 6.9)
    assert lance_spark.open(uri).remove_orphans() == CleanupStats()
    age(uri, 7.1)
    told = lance_spark.open(uri).remove_orphans(dry_run=True)
    stats = lance_spark.open(uri).remove_orphans()
    assert (stats.data_files, stats.deletion_files, stats.index_files, stats.transaction_files) == (2, 2, 1, 1)
    assert (told.staged_files, stats.staged_files) == (2, 3)
    assert files(uri) & {*strays, *others} == set(others)
    assert len(contents(uri)) == 8


def test_unverified_files_on_demand(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    (Path(uri) / "data" / "x.lance").write_bytes(b"stray")
    assert lance_spark.open(uri).cleanup(keep_versions=99, delete_unverified=True).data_files == 1
    assert len(contents(uri)) == 8


# Tags, branches, other roots.


def test_tags_are_spared(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    lance_spark.open(uri).create_tag("three", 3)
    lance.dataset(uri).tags.create("six", 6)
    lance_spark.open(uri).create_tag("eight", 8)
    before = contents(uri)
    with pytest.raises(InvalidInputError, match="six, three"):
        lance_spark.open(uri).cleanup(older_than=NOW)
    assert contents(uri) == before
    stats = lance_spark.open(uri).cleanup(older_than=NOW, error_if_tagged_old_versions=False)
    assert stats.versions == (1, 2, 4, 5, 7)
    assert contents(uri) == {number: before[number] for number in (3, 6, 8)}
    assert lance.dataset(uri, version="three").to_table().num_rows == 5
    # A tag of another branch is no tag of this one's version of the same number.
    lance_spark.open(uri).delete_tag("three")
    lance_spark.open(uri).delete_tag("six")
    assert lance_spark.open(uri).cleanup(older_than=NOW).versions == (3, 6)


def test_branches_keep_what_they_began_with(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    lance.dataset(uri).create_branch("old", 3)
    lance.dataset(uri).checkout_version(("old", 3)).create_branch("older/still", 3)
    lance_spark.write(rows(20), uri, mode="append", branch="old")
    expected = lance.dataset(uri).checkout_version(("old", 4)).to_table()
    lance_spark.open(uri).cleanup(older_than=NOW)
    assert numbers(uri) == [3, 8]
    assert lance.dataset(uri).checkout_version(("old", 4)).to_table() == expected
    # Without its description the branch's files are still looked at.
    (Path(uri) / "_refs" / "branches" / "old.json").unlink()
    (Path(uri) / "_refs" / "branches" / "older%2Fstill.json").unlink()
    lance_spark.open(uri).cleanup(older_than=NOW)
    assert numbers(uri) == [8]
    assert lance.dataset(uri + "/tree/old").to_table() == expected
    assert lance.dataset(uri + "/tree/older/still").to_table().num_rows == 5


def test_a_branch_is_cleaned_up_by_itself(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    lance.dataset(uri).create_branch("b", 8)
    for number in range(3):
        lance_spark.write(rows(number), uri, mode="overwrite", branch="b")
    main = contents(uri)
    stats = lance_spark.open(uri, branch="b").cleanup(older_than=NOW)
    assert stats.versions == (8, 9, 10)
    assert stats.data_files == 2
    assert numbers(uri, "b") == [11]
    assert lance.dataset(uri).checkout_version(("b", 11)).to_table() == rows(2)
    assert contents(uri) == main


def test_files_of_other_tables_stay(tmp_path: Path) -> None:
    source, uri = str(tmp_path / "source"), str(tmp_path / "clone")
    history_of(source)
    lance.dataset(source).shallow_clone(uri, 8)
    lance_spark.open(uri).delete("a = 7")
    lance_spark.write(rows(1), uri, mode="overwrite")
    before = files(source)
    stats = lance_spark.open(uri).cleanup(older_than=NOW)
    assert (stats.versions, stats.data_files, stats.deletion_files) == ((8, 9), 0, 1)
    assert files(source) == before
    assert lance.dataset(uri).to_table() == rows(1)


def test_detached_versions_keep_their_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri)
    fragments = lance.fragment.write_fragments(rows(1), uri, mode="append")
    operation = lance.LanceOperation.Append(fragments)
    detached = lance.LanceDataset.commit(uri, operation, read_version=1, detached=True)
    lance.write_dataset(rows(2), uri, mode="overwrite")
    age(uri, 30)
    lance_spark.open(uri).cleanup(older_than=NOW, delete_unverified=True)
    assert numbers(uri) == [2]
    assert lance.dataset(uri, version=detached.version).to_table() == pa.concat_tables([rows(0), rows(1)])


def test_blobs_go_with_their_data_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    for turn, mode in enumerate(("create", "overwrite")):
        values = [bytes([turn]) * 200_000, bytes([turn]) * 5_000_000]
        lance.write_dataset(pa.table({"b": values}, schema=schema), uri, mode=mode, data_storage_version="2.2")
    blobs = {name for name in files(uri) if name.endswith(".blob")}
    assert len(blobs) >= 4
    age(uri, 30)
    stats = lance_spark.open(uri).cleanup(older_than=NOW)
    left = {name for name in files(uri) if name.endswith(".blob")}
    assert (stats.data_files, len(left)) == (1 + len(blobs) // 2, len(blobs) // 2)
    assert [blob.readall() for blob in lance.dataset(uri).take_blobs("b", indices=[0, 1])] == values


def test_old_names_of_manifests(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, enable_v2_manifest_paths=False)
    for number in range(3):
        lance.write_dataset(rows(number), uri, mode="overwrite")
    assert lance_spark.open(uri).cleanup(older_than=NOW).versions == (1, 2, 3)
    assert {name for name in files(uri) if name.endswith(".manifest")} == {"_versions/4.manifest"}
    assert contents(uri) == {4: rows(2)}


# Other writers, faults.


def with_faults(uri: str, *faults: Fault) -> TableLocation:
    location = TableLocation(uri)
    location.store = FaultStore(location.store, faults)
    location.history = History(location.store)
    location.refs = Refs(location.store)
    return location


def tag(uri: str, *versions: int) -> None:
    """Tags versions that are not there at this moment, as of a writer that looked at them before."""
    folder = Path(uri) / "_refs" / "tags"
    folder.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (folder / f"t{version}.json").write_text(json.dumps({"branch": None, "version": version, "manifestSize": 1}))


def test_a_tag_that_comes_meanwhile(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)

    manifest = f"{2**64 - 1 - 4:020d}"
    stats = cleanup(
        with_faults(uri, Fault("delete", Harm.NONE, path_part=manifest, run=lambda: tag(uri, 4))),
        CleanupPolicy(older_than=NOW),
    )
    assert 4 not in stats.versions
    assert contents(uri) == {number: before[number] for number in (4, 8)}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put_if_absent", Harm.NOT_SENT),
        Fault("put_if_absent", Harm.FAILS),
        Fault("put_if_absent", Harm.ANSWER_LOST),
        Fault("delete", Harm.FAILS, nth=5),
    ],
    ids=["not sent", "refused", "answer lost", "another cannot be removed"],
)
def test_all_versions_that_were_tagged_meanwhile_are_put_back(tmp_path: Path, fault: Fault) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)

    meanwhile = Fault("delete", Harm.NONE, path_part=f"{2**64 - 1 - 4:020d}", run=lambda: tag(uri, 2, 4))
    location = with_faults(uri, meanwhile, fault)
    if fault.operation == "delete":
        with pytest.raises(StorageError):
            cleanup(location, CleanupPolicy(older_than=NOW))
    else:
        cleanup(location, CleanupPolicy(older_than=NOW))
    found = contents(uri)
    assert {2, 4, 8} <= found.keys()
    assert all(found[version] == before[version] for version in (2, 4, 8))


def test_versions_that_cannot_be_put_back_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)
    monkeypatch.setattr(
        "lance_spark.table.cleanup.cleanup._PUT_BACK", RetryPolicy(max_requests=3, sleep=lambda seconds: None)
    )
    names = {version: f"{2**64 - 1 - version:020d}" for version in (2, 4)}

    location = with_faults(
        uri,
        Fault("delete", Harm.NONE, path_part=names[4], run=lambda: tag(uri, 2, 4)),
        Fault("put_if_absent", Harm.NOT_SENT, path_part=names[2], times=3),
    )
    with pytest.raises(StorageError, match=names[2]) as error:
        cleanup(location, CleanupPolicy(older_than=NOW))
    assert names[4] not in str(error.value)
    assert contents(uri)[4] == before[4]


@pytest.mark.parametrize("moves", [False, True], ids=["create", "update"])
def test_a_version_that_goes_while_it_is_tagged(tmp_path: Path, moves: bool) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    if moves:
        lance_spark.open(uri).create_tag("t", 8)

    def clean_up() -> None:
        lance_spark.open(uri).cleanup(older_than=NOW)

    location = with_faults(uri, Fault("put" if moves else "put_if_absent", Harm.NONE, run=clean_up))
    with pytest.raises(NotFoundError):
        (update_tag if moves else create_tag)(location, "t", 3)
    assert [tag.version for tag in lance_spark.open(uri).tags().values()] == [8] * moves
    assert numbers(uri) == [8]


def test_a_restore_that_comes_meanwhile(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)
    restored: list[int] = []

    def restore() -> None:
        restored.append(lance_spark.open(uri).restore(5).version)

    first = f"{2**64 - 1 - 1:020d}"
    cleanup(with_faults(uri, Fault("delete", Harm.NONE, path_part=first, run=restore)), CleanupPolicy(older_than=NOW))
    assert restored == [9]
    assert contents(uri) == {8: before[8], 9: before[5]}


def test_a_clean_up_while_a_version_is_restored(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)

    def clean_up() -> None:
        assert lance_spark.open(uri).tags() == {}
        lance_spark.open(uri).cleanup(older_than=NOW)

    restore(with_faults(uri, Fault("put_if_absent", Harm.NONE, path_part="_versions", run=clean_up)), 5)
    assert contents(uri) == {5: before[5], 8: before[8], 9: before[5]}
    assert not list((tmp_path / "t" / "_refs" / "tags").glob("*"))


def test_a_restore_that_was_killed_keeps_its_version_for_a_week(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    guard = Path(uri) / "_refs" / "tags" / f"{GUARD_PREFIX}1.json"
    guard.parent.mkdir(parents=True)
    guard.write_text('{"branch": null, "version": 4, "manifestSize": 1}')
    lance_spark.open(uri).cleanup(older_than=NOW)
    assert numbers(uri) == [4, 8]
    week_ago = time.time() - SAFETY_WINDOW.total_seconds() - 1
    os.utime(guard, (week_ago, week_ago))
    lance_spark.open(uri).cleanup(older_than=NOW)
    assert numbers(uri) == [8]


@pytest.mark.parametrize("operation", ["delete", "list", "read", "put_if_absent"])
@pytest.mark.parametrize("nth", [1, 2, 4, 9, 14])
def test_stopped_anywhere_each_version_has_its_files(tmp_path: Path, operation: str, nth: int) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)
    lance_spark.open(uri).create_tag("t", 2)
    policy = CleanupPolicy(older_than=NOW, error_if_tagged_old_versions=False)
    with suppress(StorageError):
        cleanup(with_faults(uri, Fault(operation, nth=nth, times=99)), policy)
    left = contents(uri)
    assert left == {number: before[number] for number in left}
    assert 8 in left
    assert 2 in left
    # The next one goes on; what had been named by removed versions has become old by then.
    age(uri, 8)
    lance_spark.open(uri).cleanup(older_than=NOW, error_if_tagged_old_versions=False)
    assert contents(uri) == {2: before[2], 8: before[8]}
    lance_spark.open(uri).delete_tag("t")
    lance_spark.open(uri).cleanup(older_than=NOW)
    assert len([name for name in files(uri) if name.startswith(("data/", "_deletions/", "_indices/"))]) == 2


def test_two_at_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)

    def other() -> None:
        lance_spark.open(uri).cleanup(keep_versions=2)

    fault = Fault("delete", Harm.NONE, nth=3, run=other)
    cleanup(with_faults(uri, fault), CleanupPolicy(older_than=NOW))
    assert contents(uri) == {8: before[8]}


def test_what_another_clean_up_has_removed_is_not_put_back(tmp_path: Path) -> None:
    """It may remove the files of a version that gets a tag too late to be seen by it."""
    uri = str(tmp_path / "t")
    history_of(uri)
    before = contents(uri)

    def other() -> None:
        lance_spark.open(uri).cleanup(older_than=NOW)
        tag = Path(uri) / "_refs" / "tags" / "late.json"
        tag.parent.mkdir(parents=True)
        tag.write_text('{"branch": null, "version": 4, "manifestSize": 1}')

    stats = cleanup(with_faults(uri, Fault("delete", Harm.NONE, run=other)), CleanupPolicy(older_than=NOW))
    assert contents(uri) == {8: before[8]}
    assert stats.versions == (1,)


def test_a_writer_that_has_files_but_no_version_yet(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    dataset = lance_spark.open(uri)
    fragments = write_fragments(iter(rows(30).to_batches()), dataset.location.store, dataset.lance_schema)
    lance_spark.write(rows(31), uri, mode="append")
    lance_spark.open(uri).cleanup(older_than=NOW)
    with pytest.raises(NotFoundError):
        lance_spark.open(uri, version=8)
    made = commit_append(dataset.location, dataset.manifest, fragments)
    assert made.version == 10
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [7, 8, 9, 30, 31]


@pytest.mark.parametrize("harm", [Harm.NONE, Harm.FAILS])
def test_writer_paused_during_clean_up(tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Harm) -> None:
    """The name of its manifest was taken, and then freed; `harm` meets the removal of that manifest."""
    uri = str(tmp_path / "t")
    history_of(uri)
    dataset = lance_spark.open(uri)
    fragments = write_fragments(iter(rows(30).to_batches()), dataset.location.store, dataset.lance_schema)

    def meanwhile() -> None:
        for number in range(3):
            lance_spark.write(rows(40 + number), uri, mode="append")
        age(uri, 1)
        lance_spark.open(uri).cleanup(older_than=NOW)

    location = with_faults(
        uri,
        Fault("put_if_absent", Harm.NONE, path_part="_versions", run=meanwhile),
        Fault("delete", harm, path_part="_versions"),
    )
    options = CommitOptions(policy=RetryPolicy(sleep=lambda seconds: None))
    with pytest.raises(lance_spark.errors.RetryableConflictError):
        commit_append(location, dataset.manifest, fragments, options)
    stays = [] if harm is Harm.NONE else [9]
    assert numbers(uri) == [*stays, 11]
    said = [text for text in caplog.messages if "not part of the table's history" in text]
    assert len(said) == len(stays)
    assert all("version 9 of" in text and "VACUUM" in text for text in said)
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [7, 8, 9, 40, 41, 42]
    lance_spark.write(rows(50), uri, mode="append")
    lance_spark.open(uri).cleanup(keep_versions=1)
    assert numbers(uri) == [12], "a clean-up removes what stayed"


def test_writer_paused_where_times_do_not_tell(tmp_path: Path) -> None:
    """The versions that do not follow ours are not older than it."""
    uri = str(tmp_path / "t")
    history_of(uri)
    dataset = lance_spark.open(uri)
    fragments = write_fragments(iter(rows(30).to_batches()), dataset.location.store, dataset.lance_schema)

    def meanwhile() -> None:
        for number in range(3):
            lance_spark.write(rows(40 + number), uri, mode="append")
        age(uri, -100)
        lance_spark.open(uri).cleanup(older_than=NOW)

    location = with_faults(uri, Fault("put_if_absent", Harm.NONE, path_part="_versions", run=meanwhile))
    with pytest.raises(CommitStateUnknownError, match="version 9"):
        commit_append(location, dataset.manifest, fragments)
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [7, 8, 9, 40, 41, 42]


def test_damage_stops_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    history_of(uri)
    path = Path(uri) / "_versions" / f"{2**64 - 1 - 6:020d}.manifest"
    path.write_bytes(path.read_bytes()[:-20])
    before = {name for name in files(uri) if name.startswith("data/")}
    with pytest.raises(CorruptFileError):
        lance_spark.open(uri).cleanup(older_than=NOW)
    assert {name for name in files(uri) if name.startswith("data/")} == before


def test_a_table_of_a_newer_release(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri)
    lance_spark.write(rows(2), uri, mode="overwrite")
    location = TableLocation(uri)
    newest = location.history.load_latest()
    flagged = replace(newest.manifest, writer_flags=newest.manifest.writer_flags | 1 << 40)
    location.store.put(ManifestNaming.V2.path(2), ManifestFile(flagged, newest.transaction).encode())
    before = files(uri)
    with pytest.raises(UnsupportedFeatureError):
        lance_spark.open(uri).cleanup(older_than=NOW)
    with pytest.raises(UnsupportedFeatureError):
        lance_spark.open(uri).remove_orphans(NOW)
    assert files(uri) == before


def test_fragments_of_one_id_keep_their_files(tmp_path: Path) -> None:
    """Old releases gave one id to two fragments; both files are of the version."""
    uri = str(tmp_path / "t")
    shutil.copytree(GOLDEN / "v0_1" / "0.16.0-wrong_data_version_no_fix", uri)
    assert [fragment.id for fragment in lance_spark.open(uri).fragments] == [0, 1, 1, 2]
    lance_spark.open(uri).cleanup(NOW, delete_unverified=True)
    lance_spark.open(uri).remove_orphans(NOW)
    assert lance_spark.open(uri).to_table()["foo"].to_pylist() == [1, 2, 1, 3]


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["append", "delete", "overwrite", "tag", "clean", "compact", "restore"]), max_size=10),
    st.integers(1, 4),
)
@settings(max_examples=15, deadline=None)
def test_random_histories(tmp_path_factory: pytest.TempPathFactory, steps: list[str], keep: int) -> None:
    uri = str(tmp_path_factory.mktemp("t") / "t")
    lance_spark.write(rows(0, 1, 2), uri)
    acts: dict[str, Callable[[int], object]] = {
        "append": lambda step: lance_spark.write(rows(step, step + 5), uri, mode="append"),
        "delete": lambda step: lance_spark.open(uri).delete(f"a % 3 = {step % 3}"),
        "overwrite": lambda step: lance_spark.write(rows(step), uri, mode="overwrite"),
        "tag": lambda step: lance_spark.open(uri).create_tag(f"t{step}"),
        "compact": lambda step: lance_spark.open(uri).compact(),
        "restore": lambda step: lance_spark.open(uri).restore(numbers(uri)[0]),
    }
    for step, what in enumerate(steps):
        if what != "clean":
            acts[what](step)
            continue
        before = contents(uri)
        tagged = {tag.version for tag in lance_spark.open(uri).tags().values()}
        lance_spark.open(uri).cleanup(keep_versions=keep, error_if_tagged_old_versions=False)
        expected = tagged | set(sorted(before)[-keep:])
        assert contents(uri) == {number: before[number] for number in expected}
