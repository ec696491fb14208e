"""Columns for rows of partitions that are told by address: beside the reference library, and beside other writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, RetryableConflictError, StorageError
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.partitioned.backfill import (
    commit_partitioned_backfill,
    plan_partitioned_columns,
    plan_partitioned_values,
)
from lance_spark.partitioned.columns import add_columns
from lance_spark.partitioned.commit import commit_specs
from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.schema.evolution import with_added
from lance_spark.table.columns.backfill_writer import BackfillWriter
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.paths import new_job
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, backfilled, by_reference, files, rows, shown
from tests.partitioned.verbs import delete_rows, drop_columns, save_rows, update_rows

NEW = pa.schema([pa.field("note", pa.string(), nullable=False), pa.field("s", pa.struct([("a", pa.int8())]))])


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def table(root: str, request: pytest.FixtureRequest) -> PartitionedTable:
    """Rows 1 to 4 in two fragments of `at`, row 5 in `ch`, row 6 in the partition of nulls."""
    properties = {"lance.enable_stable_row_ids": "true"} if request.param else None
    made = create_partitioned(root, SCHEMA, BY_COUNTRY, properties=properties)
    made = save_rows(made, pa.concat_tables([rows(1, 2), rows(5, country="ch")]))
    return save_rows(made, pa.concat_tables([rows(3, 4), rows(6, country=None)]))


def check(made: PartitionedTable, expected: Mapping[int, Mapping[str, object]]) -> None:
    """The rows are these, for the reference library too."""
    assert {row["id"]: row for row in shown(made)} == expected
    assert shown(made.newest()) == by_reference(made) == shown(made)
    schemas = {opened.manifest.schema.names() for opened in made.open_all(made.partitions())}
    assert schemas == {made.lance_schema.names()}


def known(table: PartitionedTable) -> dict[int, dict[str, object]]:
    return {int(str(row["id"])): row for row in shown(table)}


def test_new_columns(table: PartitionedTable, root: str) -> None:
    before, old_files = known(table), files(root)
    plan = plan_partitioned_columns(table, NEW, new_job())
    values = {4: {"note": "four", "s": {"a": 4}}, 6: {"note": "six", "s": None}, 1: {"note": "one", "s": {"a": None}}}
    parts = backfilled(table, plan, values)
    assert len(parts) == 3
    made = commit_partitioned_backfill(plan, parts)
    assert made.version == table.version + 1
    nothing = {"note": None, "s": None}
    check(made, {key: {**row, **values.get(key, nothing)} for key, row in before.items()})
    # What was there is not written again, and the partition of which no row is told gets no file.
    assert old_files < files(root)
    data = [name for name in files(root) - old_files if name.endswith(".lance") and "/data/" in name]
    assert len([name for name in data if not name.startswith("__manifest")]) == 3
    again = save_rows(
        made, pa.Table.from_pylist([{**rows(9).to_pylist()[0], "note": "nine", "s": {"a": 9}}], made.schema)
    )
    assert by_reference(again) == shown(again)
    assert shown(drop_columns(again, ["note", "s"]))[:6] == list(before.values())


def test_new_values(table: PartitionedTable) -> None:
    before = known(table)
    plan = plan_partitioned_values(table, ["x", "n"], new_job())
    values = {2: {"x": -2.0, "n": None}, 5: {"n": 55, "x": None}}
    made = commit_partitioned_backfill(plan, backfilled(table, plan, values))
    assert made.version == table.version + 1
    check(made, {key: {**row, **values.get(key, {})} for key, row in before.items()})
    if table.has_stable_row_ids:
        for opened in made.open_all(made.partitions()):
            scan = made.plan(opened, ["id", "_row_created_at_version", "_row_last_updated_at_version"])
            for fragment in opened.manifest.fragments:
                for batch in scan.read([fragment]):
                    for key, created, updated in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        assert (updated > created) == (key in values)
                        assert updated == (opened.manifest.version if key in values else created)
    assert commit_partitioned_backfill(plan, []).version == table.version


def test_new_columns_of_no_row(table: PartitionedTable) -> None:
    before = known(table)
    plan = plan_partitioned_columns(table, NEW, new_job())
    check(commit_partitioned_backfill(plan, []), {key: {**row, "note": None, "s": None} for key, row in before.items()})
    empty = delete_rows(table.newest(), "true")
    plan = plan_partitioned_columns(empty, pa.schema([("late", pa.int32())]), new_job())
    made = commit_partitioned_backfill(plan, [])
    assert made.schema.names[-1] == "late"
    assert shown(made) == []


def test_columns_that_came_and_went(table: PartitionedTable) -> None:
    """A new column gets an id of its own, and columns without files get values."""
    table = drop_columns(add_columns(table, [pa.field("note", pa.int64())]), ["note"])
    table = add_columns(table, [pa.field("empty", pa.string())])
    before = known(table)
    plan = plan_partitioned_columns(table, NEW, new_job())
    table = commit_partitioned_backfill(plan, backfilled(table, plan, {3: {"note": "x", "s": None}}))
    plan = plan_partitioned_values(table, ["empty", "note"], new_job())
    values = {3: {"empty": "a", "note": None}, 5: {"empty": "b", "note": "c"}}
    made = commit_partitioned_backfill(plan, backfilled(table, plan, values))
    check(made, {key: {**row, "note": None, "s": None, **values.get(key, {})} for key, row in before.items()})


def test_several_specs(root: str) -> None:
    table = save_rows(create_partitioned(root, SCHEMA, BY_COUNTRY), rows(1))
    table = set_partitioning(table, [PartitionBy("shard", ("id",), Bucket(2))])
    table = save_rows(table, rows(2, 3, country="ch"))
    for column, field in (("country", "country"), ("id", "shard")):
        with pytest.raises(InvalidInputError, match=rf"field '{field}' .* from column '{column}'"):
            plan_partitioned_values(table, ["n", column], new_job())
    before = known(table)
    plan = plan_partitioned_columns(table, pa.schema([("c", pa.string())]), new_job())
    made = commit_partitioned_backfill(plan, backfilled(table, plan, {1: {"c": "1"}, 3: {"c": "3"}}))
    check(made, {key: {**row, "c": {1: "1", 3: "3"}.get(key)} for key, row in before.items()})
    # Rows that lay by country are gone, so nothing lies by it.
    made = delete_rows(made, "country = 'at'")
    plan = plan_partitioned_values(made, ["country"], new_job())
    made = commit_partitioned_backfill(plan, backfilled(made, plan, {2: {"country": "fr"}}))
    assert [row["country"] for row in by_reference(made)] == ["fr", "ch"]


def test_a_source_inside_of_a_struct(root: str) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("s", pa.struct([("k", pa.string()), ("v", pa.int32())])), ("t", pa.int8())]
    )
    by = [PartitionBy("k", (("s", "k"),), BY_COUNTRY[0].transform)]
    listed = [{"id": 1, "s": {"k": "a", "v": 1}, "t": 1}, {"id": 2, "s": {"k": "b", "v": 2}, "t": 2}]
    table = save_rows(create_partitioned(root, schema, by), pa.Table.from_pylist(listed, schema))
    with pytest.raises(InvalidInputError, match=r"partition field 'k' .* is computed from column 's'"):
        plan_partitioned_values(table, ["s"], new_job())
    plan = plan_partitioned_values(table, ["t"], new_job())
    made = commit_partitioned_backfill(plan, backfilled(table, plan, {2: {"t": 22}}))
    assert [row["t"] for row in by_reference(made)] == [1, 22]


def test_invalid_arguments_are_refused(table: PartitionedTable, root: str) -> None:
    with pytest.raises(InvalidInputError, match="the table has a column 'n'"):
        plan_partitioned_columns(table, pa.schema([("n", pa.int32())]), new_job())
    with pytest.raises(InvalidInputError, match="each only once"):
        plan_partitioned_values(table, ["n", "n"], new_job())
    with pytest.raises(NotFoundError):
        plan_partitioned_values(table, ["nope"], new_job())
    plan = plan_partitioned_values(table, ["id"], new_job())
    before = files(root)
    home = next(item.object_id for item in table.partitions("country = 'at'"))
    writer = BackfillWriter(plan)
    one, two = (pa.table({"id": pa.array(values, pa.int64())}) for values in ([7], [7, 8]))
    with pytest.raises(NotFoundError, match="has no partition 'elsewhere'"):
        writer.write("elsewhere", np.array([0], np.uint64), one)
    with pytest.raises(NotFoundError, match="has no fragment 7"):
        writer.write(home, np.array([7 << 32], np.uint64), one)
    with pytest.raises(InvalidInputError, match="not in fragment 0"):
        writer.write(home, np.array([2], np.uint64), one)
    with pytest.raises(InvalidInputError, match="several rows are for row 1"):
        writer.write(home, np.array([1, 1], np.uint64), two)
    with pytest.raises(InvalidInputError, match="do not fit"):
        writer.write(home, np.array([1], np.uint64), pa.table({"id": pa.array([None], pa.int64())}))
    assert writer.write(home, np.array([], np.uint64), one.slice(0, 0)) is None
    moved = update_rows(table, {"country": "'ch'"}, "id = 1")
    late = BackfillWriter(plan_partitioned_values(moved, ["id"], new_job()))
    before = files(root)
    with pytest.raises(InvalidInputError, match="row 0 of fragment 0 is not there any more"):
        late.write(home, np.array([0], np.uint64), one)
    assert files(root) == before
    part = writer.write(home, np.array([1], np.uint64), one)
    assert part is not None
    with pytest.raises(InvalidInputError, match="written twice"):
        commit_partitioned_backfill(plan, [part, part])
    assert files(root) == before
    assert table.newest().version == moved.version


FOLLOWED: dict[str, Callable[[PartitionedTable], PartitionedTable]] = {
    "append": lambda table: save_rows(table, pa.concat_tables([rows(7), rows(8, country="it")])),
    "delete of a row that is told": lambda table: delete_rows(table, "id = 1"),
    "delete of other rows of the fragment": lambda table: delete_rows(table, "id = 2"),
    "update of another partition": lambda table: update_rows(table, {"x": "9.5"}, "id = 6"),
    "append and delete": lambda table: delete_rows(save_rows(table, rows(7)), "id IN (1, 7)"),
}


@pytest.mark.parametrize("rival", FOLLOWED)
def test_new_columns_beside_others(table: PartitionedTable, root: str, rival: str) -> None:
    plan = plan_partitioned_columns(table, NEW, new_job())
    values = {1: {"note": "one", "s": None}, 5: {"note": "five", "s": {"a": 5}}}
    parts = backfilled(table, plan, values)
    theirs = FOLLOWED[rival](table)
    expected = known(theirs)
    made = commit_partitioned_backfill(plan, parts)
    nothing = {"note": None, "s": None}
    check(made, {key: {**row, **values.get(key, nothing)} for key, row in expected.items()})
    assert made.version == theirs.version + 1


def test_values_of_a_fragment_that_goes(table: PartitionedTable, root: str) -> None:
    plan = plan_partitioned_columns(table, NEW, new_job())
    parts = backfilled(table, plan, {1: {"note": "one", "s": None}, 4: {"note": "four", "s": None}})
    deleted = next(item for item in parts if item.key and item.fragment.fragment_id == 0)
    theirs = delete_rows(table, "id IN (1, 2)")
    expected = known(theirs)
    made = commit_partitioned_backfill(plan, parts)
    told = {4: "four"}
    check(made, {key: {**row, "note": told.get(key), "s": None} for key, row in expected.items()})
    assert not [name for name in files(root) if name.endswith(deleted.fragment.file.path)]


CONFLICTS: dict[str, Callable[[PartitionedTable], PartitionedTable]] = {
    "update of a row that is told": lambda table: update_rows(table, {"x": "9.5"}, "id = 1"),
    "update that moves the whole fragment away": lambda table: update_rows(table, {"country": "'it'"}, "id < 3"),
    "update that moves it away": lambda table: update_rows(table, {"country": "'ch'"}, "id = 1"),
    "compaction": lambda table: compact(table, None, CompactionOptions(target_rows_per_fragment=100)),
    "the partition goes": lambda table: delete_rows(table, "country = 'at'"),
    "the partition comes again": lambda table: save_rows(delete_rows(table, "country = 'at'"), rows(11, 12)),
    "another column": lambda table: add_columns(table, [pa.field("theirs", pa.int64())]),
    "a column that came and went": lambda table: drop_columns(
        add_columns(table, [pa.field("theirs", pa.int64())]), ["theirs"]
    ),
    "the same column": lambda table: add_columns(table, [pa.field("note", pa.string())]),
}


@pytest.mark.parametrize("rival", CONFLICTS)
@pytest.mark.parametrize("replaces", [False, True])
def test_conflicts_leave_nothing(table: PartitionedTable, root: str, rival: str, replaces: bool) -> None:
    job = new_job()
    if replaces:
        plan, row = plan_partitioned_values(table, ["n"], job), {"n": -1}
    else:
        plan, row = plan_partitioned_columns(table, NEW, job), {"note": "one", "s": None}  # type: ignore[assignment]
    parts = backfilled(table, plan, {1: row, 5: row})
    theirs = CONFLICTS[rival](table)
    expected, there = known(theirs), files(root)
    with pytest.raises(RetryableConflictError):
        commit_partitioned_backfill(plan, parts)
    assert table.newest().version == theirs.version
    assert known(table.newest()) == expected
    assert files(root) == there - {name for name in there if name.endswith(f"{job}.lance")}


def test_new_values_beside_others(table: PartitionedTable) -> None:
    plan = plan_partitioned_values(table, ["n"], new_job())
    parts = backfilled(table, plan, {1: {"n": -1}, 5: {"n": -5}})
    theirs = delete_rows(save_rows(table, pa.concat_tables([rows(7), rows(8, country="it")])), "id = 2")
    expected = known(theirs)
    made = commit_partitioned_backfill(plan, parts)
    told = {1: -1, 5: -5}
    check(made, {key: {**row, "n": told.get(key, row["n"])} for key, row in expected.items()})


def test_a_commit_that_fails(table: PartitionedTable, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, there = known(table), files(root)
    plan = plan_partitioned_columns(table, NEW, new_job())
    parts = backfilled(table, plan, {1: {"note": "one", "s": None}, 5: {"note": "five", "s": None}})

    def fails(*_: object, **__: object) -> None:
        raise StorageError("no")

    monkeypatch.setattr(CatalogTable, "replace_rows", fails)
    with pytest.raises(LanceError, match="no"):
        commit_partitioned_backfill(plan, parts)
    monkeypatch.undo()
    assert files(root) == there
    assert known(table.newest()) == before


def test_files_of_a_job_that_failed(table: PartitionedTable, root: str) -> None:
    there = files(root)
    plan = plan_partitioned_columns(table, NEW, new_job())
    backfilled(table, plan, {key: {"note": "x", "s": None} for key in range(7)})
    assert len(files(root) - there) == 4
    plan.remove_files()
    assert files(root) == there


def test_partitions_that_lack_a_column(table: PartitionedTable) -> None:
    """As another library may leave them: the namespace has a column that a partition does not know."""
    schema = with_added(table.lance_schema, pa.schema([("late", pa.int64())]), 20).schema
    table = commit_specs(table, replace(table.specs, schema=schema), properties={"lance.max_field_id": "20"})
    before = known(table)
    assert all(row["late"] is None for row in before.values())
    plan = plan_partitioned_values(table, ["late"], new_job())
    table = commit_partitioned_backfill(plan, backfilled(table, plan, {1: {"late": 10}}))
    assert {key for key, row in known(table).items() if row["late"] == 10} == {1}
    before = known(table)
    plan = plan_partitioned_columns(table, NEW, new_job())
    values = {1: {"note": "one", "s": None}, 5: {"note": "five", "s": None}}
    made = commit_partitioned_backfill(plan, backfilled(table, plan, values))
    check(made, {key: {**row, "note": None, "s": None, **values.get(key, {})} for key, row in before.items()})
