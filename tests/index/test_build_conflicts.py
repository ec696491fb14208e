"""Index builds beside other writers, builds that fail, and clean-up of what they leave."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitStateUnknownError, LanceError, RetryableConflictError, StorageError
from lance_spark.file_version import FileVersion
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.indexes.create import create_index
from lance_spark.table.indexes.optimize import OptimizeOptions, optimize_indices
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import compact
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.create_index import CreateIndex
from lance_spark.table.writing.save import CommitOptions
from tests.index.builds import both, own_folders
from tests.index.comparisons import append, check, repeated, write
from tests.support.harmed_tables import files, with_faults
from tests.support.threads import all_at_once

NO_WAIT = CommitOptions(policy=RetryPolicy(max_attempts=4, sleep=lambda seconds: None))
ROUNDS = int(os.environ.get("LANCE_RACE_ROUNDS", "1"))
WHOLE = CompactionOptions(target_rows_per_fragment=1000)


def written(uri: str, *, stable_row_ids: bool = False) -> None:
    values = repeated([4, None, 7, 1], 40, pa.int64())
    write(uri, {"x": values, "y": values}, rows_per_file=10, stable_row_ids=stable_row_ids)


def build(table: TableLocation, kind: str = "BTREE") -> Manifest:
    return create_index(table, "x", kind, "i", replace=True, parameters={}, options=NO_WAIT)


def used_folders(uri: str) -> set[str]:
    return {index.uuid for index in lance_spark.open(uri).indices()}


def meanwhile(uri: str, action: Callable[[], object]) -> TableLocation:
    """The table as a writer sees it whose first commit is preceded by `action`."""
    return with_faults(uri, Fault("put", Harm.NONE, path_part="_transactions", run=lambda: action() and None))


ACTIONS: dict[str, Callable[[str], object]] = {
    "append": lambda uri: append(uri, {name: repeated([7], 5, pa.int64()) for name in "xy"}, first_id=100),
    "delete": lambda uri: lance_spark.open(uri).delete("id < 12"),
    "update": lambda uri: lance_spark.open(uri).update({"x": "7"}, "id < 3"),
    "compact": lambda uri: lance_spark.open(uri).compact(target_rows_per_fragment=1000),
    "reference_compact": lambda uri: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000),
    "other_index": lambda uri: lance_spark.open(uri).create_scalar_index("y"),
    "same_index": lambda uri: lance_spark.open(uri).create_scalar_index("x", "BTREE", "i"),
    "add_columns": lambda uri: lance_spark.open(uri).add_columns({"w": "id + 1"}),
}


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("action", ACTIONS)
def test_build_beside_another_writer(tmp_path: Path, action: str, kind: str, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    written(uri, stable_row_ids=stable_row_ids)
    build(meanwhile(uri, lambda: ACTIONS[action](uri)), kind)
    assert len([index for index in lance_spark.open(uri).indices() if index.name == "i"]) == 1
    for condition in ("x = 7", "x IS NULL", "x > 3"):
        both(uri, condition, index="i")
    live = {fragment.id for fragment in lance_spark.open(uri).fragments}
    (index,) = [index for index in lance_spark.open(uri).indices() if index.name == "i"]
    assert set(index.fragment_ids()) & live
    # Nothing is left of attempts that failed; the index that was replaced belongs to an older version.
    assert len(own_folders(tmp_path) - used_folders(uri)) == (1 if action == "same_index" else 0)


@pytest.mark.parametrize("action", ["append", "delete", "update", "compact", "same_index"])
def test_optimize_beside_another_writer(tmp_path: Path, action: str) -> None:
    uri = str(tmp_path)
    written(uri)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    ACTIONS["append"](uri)
    optimize_indices(meanwhile(uri, lambda: ACTIONS[action](uri)), OptimizeOptions(), NO_WAIT)
    for condition in ("x = 7", "x IS NULL", "x > 3"):
        both(uri, condition, index="i")


@pytest.mark.parametrize("verb", ["create", "extend", "merge"])
def test_version_that_is_removed_while_it_is_read(tmp_path: Path, verb: str) -> None:
    uri = str(tmp_path)
    written(uri)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i").delete("id < 3")
    ACTIONS["append"](uri)
    if verb == "merge":
        lance_spark.open(uri).optimize_indices("i", num_indices_to_merge=0)

    def compact_and_clean_up() -> None:
        compact(TableLocation(uri), WHOLE, NO_WAIT)
        lance_spark.open(uri).cleanup(timedelta(0))

    # A merge reads no data file, but which of the indexed rows are deleted.
    read = Fault("read", Harm.NONE, path_part="_deletions", run=compact_and_clean_up)
    table = with_faults(uri, read)
    if verb == "create":
        build(table)
    else:
        optimize_indices(table, OptimizeOptions(num_indices_to_merge=2), NO_WAIT)
    assert not files(uri, "_deletions"), "nothing was removed"
    for condition in ("x = 7", "x IS NULL", "x > 3"):
        both(uri, condition, index="i")


@pytest.mark.parametrize("action", ["append", "other_index", "same_index"])
def test_compaction_beside_an_index_build(tmp_path: Path, action: str) -> None:
    uri = str(tmp_path)
    written(uri)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    fault = Fault("put", Harm.NONE, path_part="_transactions", nth=2, run=lambda: ACTIONS[action](uri) and None)
    compact(with_faults(uri, fault), WHOLE, NO_WAIT)
    for condition in ("x = 7", "x IS NULL", "x > 3"):
        check(uri, condition)
        assert lance.dataset(uri).count_rows(condition) == lance_spark.open(uri).count_rows(condition)


@pytest.mark.parametrize("operation", ["open_output", "write", "close", "read_range", "put", "put_if_absent"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_failed_build_leaves_nothing(tmp_path: Path, kind: str, operation: str) -> None:
    uri = str(tmp_path)
    written(uri)
    harm = Harm.NOT_SENT if operation == "put_if_absent" else Harm.FAILS
    broken = with_faults(uri, Fault(operation, harm, times=99))
    with pytest.raises((StorageError, RetryableConflictError)) as raised:
        build(broken, kind)
    assert lance_spark.open(uri).version == 1
    if not isinstance(raised.value, CommitStateUnknownError):
        assert files(uri, "_indices") == []


def test_failed_compaction_leaves_no_index_files(tmp_path: Path) -> None:
    uri = str(tmp_path)
    written(uri)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    before = files(uri, "_indices")
    broken = with_faults(uri, Fault("put", Harm.FAILS, nth=2, times=99, path_part="_transactions"))
    with pytest.raises(LanceError):
        compact(broken, WHOLE, NO_WAIT)
    assert files(uri, "_indices") == before
    both(uri, "x = 7", index="i")


def test_cleanup_removes_only_index_files_that_no_version_names(tmp_path: Path) -> None:
    uri = str(tmp_path)
    written(uri)
    table = lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    killed = table.build_index_segment("y", "BITMAP", "j")
    replaced = table.create_scalar_index("x", "BTREE", "i")
    assert own_folders(tmp_path) == {index.uuid for index in (*table.indices(), killed, *replaced.indices())}
    replaced.remove_orphans()
    assert killed.uuid in own_folders(tmp_path)
    replaced.remove_orphans(timedelta(0))
    assert not any(killed.uuid in path for path in files(uri, "_indices"))
    assert any(table.indices()[0].uuid in path for path in files(uri, "_indices"))
    replaced.cleanup(timedelta(0))
    assert {path.split("/")[1] for path in files(uri, "_indices")} == used_folders(uri)
    both(uri, "x = 7", index="i")


def test_cleanup_keeps_index_files_that_a_tag_or_a_branch_names(tmp_path: Path) -> None:
    uri = str(tmp_path)
    written(uri)
    table = lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    table.create_branch("side")
    (index,) = table.indices()
    newest = table.drop_index("i")
    newest.cleanup(timedelta(0), error_if_tagged_old_versions=False)
    assert any(index.uuid in path for path in files(uri, "_indices"))
    branch = lance_spark.open(uri, branch="side")
    assert "index: i (BTREE)" in branch.explain("x = 7")
    assert branch.count_rows("x = 7") == 10


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("seed", range(2 * ROUNDS))
def test_races_of_builds_and_changes_answer_as_a_scan(tmp_path: Path, seed: int, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    written(uri, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    draw = random.Random(seed)
    actions: list[Callable[[], object]] = [
        lambda: lance_spark.open(uri).create_scalar_index("x", "BITMAP", "m"),
        lambda: lance_spark.open(uri).create_scalar_index("y", "ZONEMAP", "z", rows_per_zone=3),
        lambda: lance_spark.open(uri).optimize_indices(),
        lambda: lance_spark.open(uri).optimize_indices(num_indices_to_merge=0),
        lambda: lance_spark.open(uri).compact(target_rows_per_fragment=1000),
        lambda: lance_spark.open(uri).compact(
            target_rows_per_fragment=1000, defer_index_remap=not stable_row_ids and draw.random() < 0.7
        ),
        lambda: ACTIONS["append"](uri),
        lambda: lance_spark.open(uri).delete(f"id % 7 = {draw.randrange(7)}"),
        lambda: lance_spark.open(uri).update({"x": "7"}, f"id % 5 = {draw.randrange(5)}"),
    ]

    def patiently(action: Callable[[], object]) -> None:
        while True:
            try:
                action()
                return
            except RetryableConflictError:
                continue

    for _ in range(2):
        draw.shuffle(actions)
        all_at_once(lambda number: patiently(actions[number]), len(actions))
        for condition in ("x = 7", "x IS NULL", "x > 3", "x <> 7", "y < 5", "y IS NOT NULL"):
            check(uri, condition)
    lance_spark.open(uri).optimize_indices(num_indices_to_merge=9)
    both(uri, "y < 5", index="z")
    for condition in ("x = 7", "x <> 4"):
        # The reference library asks the index that comes first in the table's list, which the race decides.
        check(uri, condition, index="i")
        both(uri, condition, index="i", used=False)
    lance.dataset(uri).validate()
    shutil.rmtree(uri)


def test_record_of_moves_stays_for_an_index_that_came_meanwhile(tmp_path: Path) -> None:
    """The record is trimmed while another writer commits an index that was built before the compaction."""
    uri = str(tmp_path)
    written(uri)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "i")
    before = lance_spark.open(uri)
    late = before.build_index_segment("y", "BTREE", "late")
    before.compact(target_rows_per_fragment=1000, defer_index_remap=True)
    deferred = lance_spark.open(uri)

    def commit_late() -> None:
        index = CreateIndex((late,))
        transaction = Transaction.new(deferred.version, index, {})
        Commit(deferred.location.history, deferred.manifest, transaction, NewTable(FileVersion.V2_2)).run()

    optimize_indices(meanwhile(uri, commit_late), OptimizeOptions(), NO_WAIT)
    for condition, index in (("x = 7", "i"), ("y = 7", "late")):
        both(uri, condition, index=index)
