"""Deletes of whole partitions, overwrites by condition, merges and compaction over many partitions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from lance_spark.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from lance_spark.expr.sql.parse import parse
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.maintenance.compaction import (
    PartitionResult,
    PartitionTask,
    commit_partition_compaction,
    compact,
    plan_partition_compaction,
    run_partition_task,
)
from lance_spark.partitioned.row_delta import commit_delta, matching_rows
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.storage.overlap import overlapped
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, by_reference, files, ids, rows, shown
from tests.partitioned.verbs import delete_rows, merge_rows, save_rows, update_rows


def test_partitions_that_a_filter_covers_go_without_a_look_at_rows(
    table: PartitionedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(*_: object, **__: object) -> None:
        raise AssertionError("rows are read")

    monkeypatch.setattr(PartitionedTable, "plan", reads)
    deleted = delete_rows(table, "country = 'at' OR country IS NULL")
    monkeypatch.undo()
    assert ids(deleted) == [3]
    assert len(deleted.partitions()) == 1
    assert ids(delete_rows(deleted, "true")) == []
    assert ids(delete_rows(table, "country = 'at' AND id = 1")) == []


def test_partitions_of_years_that_a_filter_covers(root: str) -> None:
    table = create_partitioned(root, SCHEMA, [PartitionBy("year", ("ts",), Year())])
    table = save_rows(table, pa.concat_tables([rows(1, year=2023), rows(2, year=2024), rows(3, year=2025)]))
    covered = table.covered_partitions("ts >= TIMESTAMP '2024-01-01 00:00:00Z'")
    assert len(covered) == 2
    assert ids(delete_rows(table, "ts < TIMESTAMP '2025-01-01 00:00:00Z'")) == [3]


def test_rows_are_replaced_by_condition(table: PartitionedTable) -> None:
    made = PartitionedDataset.of(table).replace_where(rows(9, 8, country="at"), "country = 'at'")
    assert (ids(made), made.version) == ([3, 4, 8, 9], table.version + 1)
    made = PartitionedDataset.of(made).replace_where(rows(8), "id = 8 OR id = 3")
    assert ids(made) == [4, 8, 9]
    with pytest.raises(InvalidInputError):
        PartitionedDataset.of(made).replace_where(pa.concat_tables([rows(1), rows(2, country="ch")]), "country = 'at'")
    with pytest.raises(InvalidInputError):
        PartitionedDataset.of(made).replace_where(rows(1, country=None), "country = 'at'")
    delete_rows(made, "id = 9")
    made = PartitionedDataset.of(made).replace_where(rows(1, country="at"), "country = 'at'")
    assert ids(made) == [1, 4]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda table: delete_rows(table, "country = 'at'"), [3, 4]),
        (lambda table: save_rows(delete_rows(table, "country = 'at'"), rows(7, country="at")), [3, 4, 7]),
        (lambda table: PartitionedDataset.of(table).add_columns(pa.field("more", pa.int8())), [1, 2, 3, 4]),
    ],
    ids=["partition removed", "partition replaced", "column added"],
)
def test_replace_where_whose_files_fit_the_newest_version_no_more(
    table: PartitionedTable, change: Callable[[PartitionedTable], PartitionedTable], left: list[int]
) -> None:
    changed = change(table)
    before = {path for path in files(table.root) if path.endswith(".lance")}
    data = pa.concat_tables([rows(8, country="at"), rows(9, country="fr")])
    with pytest.raises(CommitConflictError, match="Run the operation again"):
        PartitionedDataset.of(table).replace_where(data, "country IN ('at', 'fr') OR id = 1")
    assert ids(table.newest()) == ids(changed) == left
    assert {path for path in files(table.root) if path.endswith(".lance")} == before


def test_rows_merge_and_move(table: PartitionedTable) -> None:
    source = pa.concat_tables([rows(1, country="ch", x=7.0), rows(4, country=None, x=8.0), rows(5, country="de")])
    made = merge_rows(table, source, "id")
    assert made.version == table.version + 1
    assert [(row["id"], row["country"], row["x"]) for row in shown(made)] == [
        (1, "ch", 7.0),
        (2, "at", 0.5),
        (3, "ch", 0.5),
        (4, None, 8.0),
        (5, "de", 0.5),
    ]
    assert ids(made, "country = 'ch'") == [1, 3]
    assert shown(made) == by_reference(made)


def test_a_merge_of_some_columns_keeps_the_others(table: PartitionedTable) -> None:
    source = pa.table({"id": pa.array([2, 3], pa.int64()), "country": ["ch", "ch"]})
    made = merge_rows(table, source, ["id"], when_not_matched=None)
    assert [(row["id"], row["country"], row["n"]) for row in shown(made)] == [
        (1, "at", 1),
        (2, "ch", 2),
        (3, "ch", 3),
        (4, None, 4),
    ]


def test_a_merge_deletes(table: PartitionedTable) -> None:
    made = merge_rows(table, rows(1, 3).select(["id"]), "id", when_matched="delete", when_not_matched=None)
    assert ids(made) == [2, 4]
    made = merge_rows(made, rows(2, 6), "id", when_matched=None, when_not_matched_by_source="delete")
    assert ids(made) == [2, 6]
    with pytest.raises(InvalidInputError):
        merge_rows(made, rows(2, 2), "id")


def test_merges_of_the_same_keys_at_once(table: PartitionedTable) -> None:
    def merge(number: int) -> None:
        merge_rows(table, pa.concat_tables([rows(50, 51, x=float(number)), rows(number, country=f"c{number}")]), "id")

    overlapped(merge, range(60, 64), 4)
    made = table.newest()
    assert ids(made) == [1, 2, 3, 4, 50, 51, 60, 61, 62, 63]
    assert len(set(made.to_table(["x"], "id IN (50, 51)")["x"].to_pylist())) == 1


def test_a_merge_that_inserts_what_another_has_appended(table: PartitionedTable) -> None:
    save_rows(table, rows(50, country="it"))
    made = merge_rows(table, rows(50, country="fr", x=2.0), "id")
    assert made.to_table(["country", "x"], "id = 50").to_pylist() == [{"country": "fr", "x": 2.0}]


def test_a_partition_that_another_has_made_anew(root: str) -> None:
    base = save_rows(create_partitioned(root, SCHEMA, BY_COUNTRY), rows(1, 2))
    now = save_rows(delete_rows(base, "country = 'at'"), rows(7, 8))
    # It has the version number that the old one had, and none of its rows.
    assert [(item.version, item.location) for item in now.partitions()] != [
        (item.version, item.location) for item in base.partitions()
    ]
    assert {item.version for item in (*now.partitions(), *base.partitions())} == {1}
    for condition in ("id = 1", "country = 'at'"):
        with pytest.raises(RetryableConflictError, match="another writer has created the partition"):
            commit_delta(base, matching_rows(base, parse(condition)))
    with pytest.raises(RetryableConflictError, match="another writer has created the partition"):
        save_rows(base, rows(5), WriteMode.OVERWRITE_PARTITIONS)
    assert ids(now.newest()) == [7, 8]
    made = save_rows(base, rows(9))
    assert ids(made) == [7, 8, 9]
    assert by_reference(made) == shown(made)
    assert ids(delete_rows(base, "id IN (1, 7)")) == [8, 9]


def fragments(table: PartitionedTable) -> list[int]:
    return [len(opened.manifest.fragments) for opened in table.open_all(table.partitions())]


def test_compaction(table: PartitionedTable) -> None:
    for number in range(5, 9):
        table = save_rows(table, pa.concat_tables([rows(number), rows(10 + number, country="ch")]))
    before = shown(table)
    assert fragments(table) == [5, 5, 1]
    one = compact(table, "country = 'at'")
    assert (fragments(one), one.version) == ([1, 5, 1], table.version + 1)
    both = compact(one)
    assert fragments(both) == [1, 1, 1]
    assert shown(both) == before == by_reference(both)
    assert compact(both).version == both.version
    assert shown(table) == before


def test_compaction_by_tasks_leaves_out_what_has_changed(table: PartitionedTable) -> None:
    for number in range(5, 7):
        table = save_rows(table, pa.concat_tables([rows(number), rows(10 + number, country="ch")]))
    tasks = [PartitionTask.from_json(task.to_json()) for task in plan_partition_compaction(table)]
    results = [run_partition_task(table, task) for task in tasks]
    results = [PartitionResult.from_json(result.to_json()) for result in results]
    update_rows(table, {"x": 9.0}, "id = 5")
    appended = save_rows(table.newest(), rows(30, country="ch"))
    made = commit_partition_compaction(table, results)
    assert made.version == appended.version + 1
    assert ids(made) == [1, 2, 3, 4, 5, 6, 15, 16, 30]
    assert made.to_table(["x"], "id = 5")["x"].to_pylist() == [9.0]
    (ch,) = made.open_all(made.partitions("country = 'ch'"))
    assert len(ch.manifest.fragments) == 2
    again = commit_partition_compaction(table, results)
    assert shown(again) == shown(made) == by_reference(made)


@pytest.mark.slow
def test_writers_and_compactions_at_once(table: PartitionedTable) -> None:
    for number in range(5, 8):
        table = save_rows(table, pa.concat_tables([rows(number), rows(10 + number, country="ch")]))

    def act(number: int) -> None:
        if number % 2:
            compact(table, compaction=CompactionOptions(target_rows_per_fragment=100))
        else:
            saved = save_rows(table, pa.concat_tables([rows(40 + number), rows(60 + number, country="ch")]))
            # Of the version that has the new rows: an older one would only lose the others.
            delete_rows(saved, f"id = {40 + number} OR id = {number // 2 + 1}")

    overlapped(act, range(6), 6)
    made = table.newest()
    assert ids(made) == [4, 5, 6, 7, 15, 16, 17, 60, 62, 64]
    assert shown(made) == by_reference(made)
