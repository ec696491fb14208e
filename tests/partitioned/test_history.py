"""Versions of the whole: history, restore, tags, and the feed of changes."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.partitioned.columns import add_columns, alter_column
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.evolution import add_partition_field
from lance_spark.partitioned.history import restore
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import STABLE_ROW_IDS, PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.table.columns.alter_column import Alteration
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, by_reference, ids, rows, shown
from tests.partitioned.verbs import (
    create_tag,
    delete_rows,
    delete_tag,
    drop_columns,
    save_rows,
    tags,
    update_rows,
    update_tag,
    versions,
)


@pytest.fixture
def table(root: str) -> PartitionedTable:
    made = create_partitioned(root, SCHEMA, BY_COUNTRY)
    return save_rows(made, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))


def feed(table: PartitionedTable, first: int, last: int | None = None) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for batch in PartitionedDataset.of(table).changes(first, last, ["id", "country"]):
        for row in batch.to_pylist():
            found[row["_commit_version"], row["_change_type"], row["id"], row["country"]] += 1
    return found


def test_history(table: PartitionedTable) -> None:
    made = PartitionedDataset.of(table).append(rows(4), commit_message="one more")
    assert [entry.version for entry in versions(made)] == list(range(1, made.version + 1))
    assert versions(made)[-1].message == "one more"


def test_tags(table: PartitionedTable, root: str) -> None:
    create_tag(table, "first")
    later = save_rows(table, rows(4))
    assert ids(open_partitioned(root, tag="first")) == [1, 2, 3]
    update_tag(later, "first")
    assert ids(open_partitioned(root, tag="first")) == [1, 2, 3, 4]
    assert list(tags(table)) == ["first"]
    delete_tag(table, "first")
    with pytest.raises(NotFoundError):
        open_partitioned(root, tag="first")


def test_restore(table: PartitionedTable) -> None:
    later = save_rows(table, pa.concat_tables([rows(4), rows(5, country="de")]))
    later = delete_rows(later, "country = 'ch'")
    back = restore(later, table.version)
    assert (ids(back), back.version) == ([1, 2, 3], later.version + 1)
    assert tags(back) == {}
    assert shown(back) == by_reference(back)
    again = save_rows(back, rows(6, country="ch"))
    assert ids(again) == [1, 2, 3, 6]
    assert ids(restore(again, later.version)) == [1, 2, 4, 5]
    with pytest.raises(NotFoundError):
        restore(again, 99)


def test_restore_brings_columns_back_and_gives_no_id_twice(table: PartitionedTable) -> None:
    later = add_columns(drop_columns(table, ["n"]), [pa.field("note", pa.string())])
    later = add_partition_field(save_rows(later, rows(4).drop_columns(["n"])), PartitionBy("year", ("ts",), Year()))
    back = restore(later, table.version)
    assert shown(back) == shown(table) == by_reference(back)
    assert len(back.specs.specs) == 2
    made = add_columns(back, [pa.field("other", pa.int32())])
    assert made.lance_schema.fields[-1].id == 6
    assert ids(save_rows(made, rows(9).append_column("other", pa.array([1], pa.int32())))) == [1, 2, 3, 9]


def test_a_writer_does_not_follow_a_restore(table: PartitionedTable) -> None:
    later = save_rows(table, rows(4))
    restore(later, table.version)
    with pytest.raises(RetryableConflictError):
        save_rows(later, rows(5))
    assert ids(save_rows(table, rows(6))) == [1, 2, 3, 6]


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS])
def test_an_append_follows_an_overwrite_of_its_partition(table: PartitionedTable, mode: WriteMode) -> None:
    save_rows(table, rows(7), mode)
    made = save_rows(table, rows(9))
    kept = [3] if mode is WriteMode.OVERWRITE_PARTITIONS else []
    assert sorted(ids(made)) == [*kept, 7, 9]
    assert shown(made) == by_reference(made)


@pytest.mark.parametrize("stable", ["true", "false"])
def test_changes(root: str, stable: str) -> None:
    table = create_partitioned(root, SCHEMA, BY_COUNTRY, properties={STABLE_ROW_IDS: stable})
    table = save_rows(table, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))
    start = table.version
    table = update_rows(table, {"x": 9.0}, "id = 1")
    table = update_rows(table, {"country": "'ch'"}, "id = 2")
    table = delete_rows(table, "country = 'ch' AND id = 3")
    table = compact(save_rows(table, rows(4, country="ch")))
    table = delete_rows(table, "country = 'ch'")
    kinds = ("update_preimage", "update_postimage") if stable == "true" else ("delete", "insert")
    expected = Counter(
        [
            (start, "insert", 1, "at"),
            (start, "insert", 2, "at"),
            (start, "insert", 3, "ch"),
            (start + 1, kinds[0], 1, "at"),
            (start + 1, kinds[1], 1, "at"),
            (start + 2, "delete", 2, "at"),
            (start + 2, "insert", 2, "ch"),
            (start + 3, "delete", 3, "ch"),
            (start + 4, "insert", 4, "ch"),
            (start + 6, "delete", 2, "ch"),
            (start + 6, "delete", 4, "ch"),
        ]
    )
    assert feed(table, 1) == expected
    assert feed(table, start + 2, start + 2) == Counter({key: 1 for key in expected if key[0] == start + 2})
    tasks = pickle.loads(pickle.dumps(PartitionedDataset.of(table).plan_changes(start + 3).tasks))
    assert sum(batch.num_rows for task in tasks for batch in task.batches()) == 4


@pytest.mark.slow
def test_changes_across_columns_restore_and_overwrites(table: PartitionedTable) -> None:
    start = table.version
    made = alter_column(table, Alteration("n", data_type=pa.int64()))
    made = add_columns(drop_columns(made, ["x"]), [pa.field("x", pa.string())])
    assert feed(made, start + 1) == Counter()
    listed = [row for batch in PartitionedDataset.of(made).changes(start, start + 3) for row in batch.to_pylist()]
    assert sorted((row["id"], row["n"], row["x"]) for row in listed) == [(1, 1, None), (2, 2, None), (3, 3, None)]
    back = restore(made, table.version)
    # The column x is another one since.
    assert {key[1] for key in feed(back, back.version)} == {"update_preimage", "update_postimage"}
    over = save_rows(back, rows(7), WriteMode.OVERWRITE)
    assert feed(over, over.version) == Counter(
        {
            (over.version, kind, key, country): 1
            for kind, key, country in [
                ("delete", 1, "at"),
                ("delete", 2, "at"),
                ("delete", 3, "ch"),
                ("insert", 7, "at"),
            ]
        }
    )
    again = restore(over, back.version)
    assert sum(feed(again, again.version).values()) == 4
    with pytest.raises(InvalidInputError):
        PartitionedDataset.of(again).plan_changes(5, 2)
    with pytest.raises(NotFoundError):
        PartitionedDataset.of(again).plan_changes(1, 99)


def test_the_feed_of_a_history_adds_up_to_the_table(table: PartitionedTable) -> None:
    table = update_rows(table, {"country": "'ch'", "x": 1.0}, "id = 1")
    table = save_rows(table, pa.concat_tables([rows(4), rows(5, country=None)]), WriteMode.OVERWRITE_PARTITIONS)
    table = restore(table, 3)
    table = delete_rows(table, "id = 2")
    content: Counter[tuple[object, ...]] = Counter()
    for (_, kind, key, country), number in feed(table, 1).items():
        content[key, country] += number if kind in ("insert", "update_postimage") else -number
    assert +content == Counter((row["id"], row["country"]) for row in shown(table))
    assert not -content
