"""Clean-ups of the whole: what any kept version names stays, and so does what may belong to a writer at work."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, InvalidInputError, LanceError, NotFoundError
from lance_spark.expr.sql.parse import parse
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.partitioned.columns import alter_column
from lance_spark.partitioned.history import restore
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.maintenance.vacuum import remove_orphans
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.properties import set_properties
from lance_spark.partitioned.row_delta import commit_delta, matching_rows
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.writer import WrittenPartition
from lance_spark.storage.local.store import LocalStore
from lance_spark.table.columns.alter_column import Alteration
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.save import CommitOptions
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, by_reference, files, ids, rows, shown
from tests.partitioned.verbs import create_tag, delete_rows, save_rows, update_rows, vacuum

NOW = timedelta(0)


@pytest.fixture
def table(root: str) -> PartitionedTable:
    made = create_partitioned(root, SCHEMA, BY_COUNTRY)
    made = save_rows(made, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))
    for number in range(4, 8):
        made = save_rows(made, rows(number))
    return made


def write_and_forget(table: PartitionedTable, given: pa.Table) -> list[WrittenPartition]:
    with PartitionedTarget.of(table).taking(SCHEMA).writer() as writer:
        writer.write(given.combine_chunks().to_batches()[0])
        return writer.close()


def partition_files(root: str) -> set[str]:
    return {path for path in files(root) if not path.startswith("__manifest")}


def age(root: str, days: float) -> None:
    """All files are older."""
    for path in Path(root).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - days * 86400
            os.utime(path, (then, then))


def test_only_the_newest_version_is_left(table: PartitionedTable, root: str) -> None:
    table = compact(update_rows(delete_rows(table, "id = 1"), {"country": "'de'"}, "id = 2"))
    before = shown(table)
    would = vacuum(table, NOW, dry_run=True)
    assert files(root) >= partition_files(root)
    stats = vacuum(table, NOW)
    assert stats.versions == would.versions == tuple(range(1, table.version))
    assert stats.partitions == would.partitions
    assert shown(open_partitioned(root)) == before == by_reference(table)
    (at,) = [opened for opened in table.open_all(table.partitions()) if opened.partition.values[0][0].as_py() == "at"]
    assert [entry.version for entry in at.table.history.locations()] == [at.manifest.version]
    assert len(list(Path(root, at.partition.location, "data").iterdir())) == 1
    again = vacuum(table.newest(), NOW)
    assert (again.versions, again.partitions, again.directories) == ((), {}, ())
    assert ids(save_rows(table.newest(), rows(50))) == [2, 3, 4, 5, 6, 7, 50]


@pytest.mark.parametrize("too_far", [0, 1])
def test_keep_from_a_version_that_cannot_exist(table: PartitionedTable, root: str, too_far: int) -> None:
    before = files(root)
    newest = table.version
    keep_from = newest + 1 if too_far else 0
    with pytest.raises(InvalidInputError, match=f"before {keep_from} cannot be removed, .* from 1 to {newest}"):
        vacuum(table, NOW, keep_from=keep_from)
    assert files(root) == before
    # The table may be an older version than the newest one.
    delete_rows(table, "id = 1")
    assert vacuum(table, NOW, keep_from=newest + 1).versions == tuple(range(1, newest))


def test_auto_cleanup_after_every_second_version(table: PartitionedTable, root: str) -> None:
    table = set_properties(table, {"lance.auto_cleanup.interval": "2", "lance.auto_cleanup.older_than": "0s"})
    for key in range(20, 24):
        table = delete_rows(save_rows(table.newest(), rows(key)), f"id = {key}")
        versions = [entry.version for entry in table.catalog.table.history.locations()]
        assert min(versions) == table.version - table.version % 2
    assert shown(open_partitioned(root)) == by_reference(table)
    with pytest.raises(NotFoundError):
        open_partitioned(root, version=1)


def test_versions_that_stay_can_be_read(table: PartitionedTable, root: str) -> None:
    kept = table.version - 2
    create_tag(table, "kept", kept)
    table = delete_rows(table, "country = 'at'")
    with pytest.raises(InvalidInputError):
        vacuum(table, NOW)
    vacuum(table, keep_versions=2, error_if_tagged_old_versions=False)
    assert ids(open_partitioned(root, tag="kept")) == [1, 2, 3, 4, 5]
    assert ids(open_partitioned(root, version=table.version - 1)) == [1, 2, 3, 4, 5, 6, 7]
    assert ids(open_partitioned(root)) == [3]
    with pytest.raises(NotFoundError):
        open_partitioned(root, version=kept + 1)
    back = restore(table, kept)
    assert ids(back) == [1, 2, 3, 4, 5]


def test_a_dropped_partition_goes_with_the_last_version_that_names_it(table: PartitionedTable, root: str) -> None:
    (ch,) = table.partitions("country = 'ch'")
    made = delete_rows(table, "country = 'ch'")
    vacuum(made, keep_versions=2)
    assert Path(root, ch.location).exists()
    assert vacuum(made, NOW).directories == (ch.location,)
    assert not any(path.startswith(ch.location) for path in files(root))
    assert ids(save_rows(made, rows(9, country="ch"))) == [1, 2, 4, 5, 6, 7, 9]


@pytest.mark.parametrize("unverified", [False, True])
def test_partition_that_was_cloned_stays(table: PartitionedTable, root: str, tmp_path: Path, unverified: bool) -> None:
    """A shallow clone of a partition reads its files: its tag keeps their version, and the directory."""
    clones = {}
    for country in ("at", "ch"):
        (partition,) = table.partitions(f"country = '{country}'")
        clones[country] = f"{root}/{partition.location}", str(tmp_path / f"clone of {country}")
        lance_spark.open(clones[country][0]).shallow_clone(clones[country][1])
    made = delete_rows(delete_rows(table, "country = 'ch'"), "id < 6")
    made = compact(made)
    assert vacuum(made, NOW, delete_unverified=unverified).directories == ()
    age(root, 100)
    assert remove_orphans(made).directories == ()
    assert ids(made) == [6, 7]
    read = {country: lance_spark.open(clone).to_table()["id"].to_pylist() for country, (_, clone) in clones.items()}
    assert {country: sorted(found) for country, found in read.items()} == {"at": [1, 2, 4, 5, 6, 7], "ch": [3]}
    for place, _ in clones.values():
        (tag,) = lance_spark.open(place).tags()
        lance_spark.open(place).delete_tag(tag)
    age(root, 100)
    stats = vacuum(made, NOW, delete_unverified=unverified)
    assert [f"{root}/{location}" for location in stats.directories] == [clones["ch"][0]]
    assert ids(made) == [6, 7]
    assert not any(path.startswith(stats.directories) for path in files(root))


def test_what_killed_writers_leave_goes_when_it_is_old(
    table: PartitionedTable, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: object, **__: object) -> None:
        raise Killed

    kept = partition_files(root)
    monkeypatch.setattr(CatalogTable, "replace_rows", dies)
    for step in (
        lambda: save_rows(table, pa.concat_tables([rows(20), rows(21, country="de")])),
        lambda: alter_column(table, Alteration("n", data_type=pa.int64())),
        lambda: delete_rows(table, "id = 1"),
    ):
        with pytest.raises(Killed):
            step()
    write_and_forget(table, rows(30))
    monkeypatch.undo()
    left = partition_files(root) - kept
    assert left
    assert vacuum(table, keep_versions=100).partitions == {}
    assert partition_files(root) == kept | left
    # In a partition a number stays above those that may still be held; what is above that is not known to be garbage.
    stats = vacuum(table, keep_versions=100, delete_unverified=True)
    assert len(stats.directories) == 1
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    made = save_rows(table, pa.concat_tables([rows(22), rows(23, country="ch"), rows(24, country="de")]))
    vacuum(made, NOW, delete_unverified=True)
    assert ids(made) == [1, 2, 3, 4, 5, 6, 7, 22, 23, 24]
    for opened in made.open_all(made.partitions()):
        assert len(list(opened.table.history.locations())) == 1
        assert len(list(Path(root, opened.partition.location, "data").iterdir())) == len(opened.manifest.fragments)


def test_a_directory_that_nobody_names_goes_when_it_is_old(table: PartitionedTable, root: str) -> None:
    (written,) = write_and_forget(table, rows(30, country="de"))
    Path(root, "something_else").mkdir()
    Path(root, "something_else", "file").write_text("not ours")
    age(root, 6.9)
    assert vacuum(table, keep_versions=100).directories == ()
    age(root, 0.2)
    assert vacuum(table, keep_versions=100).directories == (written.partition.location,)
    assert Path(root, "something_else", "file").exists()
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]


def test_a_writer_at_work_while_others_commit_and_clean_up(table: PartitionedTable) -> None:
    target = PartitionedTarget.of(table).taking(SCHEMA)
    with target.writer() as writer:
        writer.write(pa.concat_tables([rows(30), rows(31, country="de")]).combine_chunks().to_batches()[0])
        written = writer.close()
    newest = save_rows(delete_rows(table, "id = 4"), rows(40, country="de"))
    vacuum(newest, NOW)
    try:
        made = target.save(WriteMode.APPEND, written, CommitOptions())
    except (CommitConflictError, NotFoundError):
        made = newest.newest()
        assert ids(made) == [1, 2, 3, 5, 6, 7, 40]
    else:
        assert ids(made) == [1, 2, 3, 5, 6, 7, 30, 31, 40]
    assert shown(made) == by_reference(made)


def test_a_stale_writer_does_not_take_a_number_for_what_it_was(table: PartitionedTable) -> None:
    stale = save_rows(table, rows(8))
    back = restore(stale, table.version)
    vacuum(back, NOW)
    newest = save_rows(back, rows(9))
    with pytest.raises((CommitConflictError, NotFoundError)):
        delete_rows_once(stale)
    assert ids(newest.newest()) == [1, 2, 3, 4, 5, 6, 7, 9]


def delete_rows_once(table: PartitionedTable) -> PartitionedTable:
    return commit_delta(table, matching_rows(table, parse("id = 8")))


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21, 34])
def test_a_clean_up_that_stops_anywhere(
    table: PartitionedTable, root: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = delete_rows(update_rows(table, {"x": 2.0}, "id < 5"), "country = 'ch'")
    delete = LocalStore.delete
    calls = []

    def fails(store: LocalStore, path: str) -> None:
        calls.append(path)
        if len(calls) >= nth:
            raise LanceError("the store is down")
        delete(store, path)

    monkeypatch.setattr(LocalStore, "delete", fails)
    with contextlib.suppress(LanceError):
        vacuum(made, keep_versions=2)
    monkeypatch.undo()
    for version in TableLocation(f"{root}/__manifest").history.locations():
        if version.version > 2:
            whole = open_partitioned(root, version=version.version)
            assert len(shown(whole)) == whole.count_rows()
    vacuum(made, keep_versions=2)
    assert ids(made.newest()) == [1, 2, 4, 5, 6, 7]
