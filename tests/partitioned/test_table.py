"""A partitioned table: what is written is read, by everybody, and becomes visible at once."""

from __future__ import annotations

import json
import math
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    RetryableConflictError,
    StorageError,
)
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import STABLE_ROW_IDS, PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.writer import WrittenPartition
from lance_spark.storage.overlap import overlapped
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, ids, rows
from tests.partitioned.verbs import delete_rows, save_rows, update_rows


@pytest.fixture
def table(root: str) -> PartitionedTable:
    """Two countries, and a partition of null."""
    made = create_partitioned(root, SCHEMA, BY_COUNTRY)
    made = save_rows(made, rows(1, 2))
    return save_rows(made, pa.concat_tables([rows(3, country="ch"), rows(4, country=None), rows(5)]))


def test_rows_come_back(table: PartitionedTable, root: str) -> None:
    assert ids(table) == ids(open_partitioned(root)) == [1, 2, 3, 4, 5]
    assert table.count_rows() == 5
    assert [len(ids(table, f"country = '{name}'")) for name in ("at", "ch", "de")] == [3, 1, 0]
    assert ids(table, "country IS NULL") == [4]
    assert len(table.partitions()) == 3
    assert len(table.partitions("country = 'ch'")) == 1
    assert table.partitions("country = 'de'") == []


def test_layout_is_that_of_the_specification(table: PartitionedTable, root: str) -> None:
    catalog = lance.dataset(f"{root}/__manifest")
    listed = {row["object_id"]: row for row in catalog.to_table().to_pylist()}
    assert listed["v1"]["object_type"] == "namespace"
    tables = {name: row for name, row in listed.items() if row["object_type"] == "table"}
    assert {row["partition_field_country"] for row in tables.values()} == {"at", "ch", None}
    for name, row in tables.items():
        first, level, last = name.split("$")
        assert (first, len(level), last) == ("v1", 16, "dataset")
        assert listed[f"v1${level}"]["object_type"] == "namespace"
        assert listed[f"v1${level}"]["partition_field_country"] == row["partition_field_country"]
        assert row["location"].endswith(f"_{name}")
        data = lance.dataset(f"{root}/{row['location']}", version=row["read_version"])
        assert set(data.to_table()["country"].to_pylist()) == {row["partition_field_country"]}
    metadata = {key: json.loads(value) for key, value in catalog.metadata.items()}
    assert metadata["partition_spec_v1"]["fields"][0]["transform"] == {"type": "identity"}
    field_ids = [field["metadata"]["lance:field_id"] for field in metadata["schema"]["fields"]]
    assert field_ids == [str(number) for number in range(len(SCHEMA))]


def test_each_write_is_one_version_and_older_ones_can_be_read(table: PartitionedTable, root: str) -> None:
    later = save_rows(table, rows(6, country="de"))
    assert later.version == table.version + 1
    assert ids(open_partitioned(root, version=table.version)) == [1, 2, 3, 4, 5]
    assert ids(open_partitioned(root, timestamp=table.timestamp)) == [1, 2, 3, 4, 5]
    assert ids(later) == [1, 2, 3, 4, 5, 6]


def test_overwrites(table: PartitionedTable) -> None:
    dynamic = save_rows(table, rows(7, country="ch"), WriteMode.OVERWRITE_PARTITIONS)
    assert ids(dynamic) == [1, 2, 4, 5, 7]
    whole = save_rows(dynamic, rows(8, country="de"), WriteMode.OVERWRITE)
    assert ids(whole) == [8]
    assert len(whole.partitions()) == 1
    assert ids(dynamic) == [1, 2, 4, 5, 7]
    assert ids(save_rows(whole, SCHEMA.empty_table(), WriteMode.OVERWRITE)) == []


def test_deletes_and_updates_rows(table: PartitionedTable) -> None:
    deleted = delete_rows(table, "id IN (1, 3)")
    assert (ids(deleted), deleted.version) == ([2, 4, 5], table.version + 1)
    assert delete_rows(deleted, "id = 99").version == deleted.version
    moved = update_rows(deleted, {"country": "'de'", "x": 1.5}, "id IN (2, 4)")
    assert ids(moved, "country = 'de'") == [2, 4]
    assert ids(moved, "country IS NULL") == []
    assert ids(moved) == [2, 4, 5]
    assert moved.version == deleted.version + 1


@pytest.mark.parametrize("stable", ["true", "false"])
def test_rows_that_stay_in_their_partition_keep_their_ids(root: str, stable: str) -> None:
    made = create_partitioned(root, SCHEMA, BY_COUNTRY, properties={STABLE_ROW_IDS: stable})
    made = save_rows(made, rows(1, 2, 3))

    def row_ids(table: PartitionedTable) -> dict[int, int]:
        return {row["id"]: row["_rowid"] for row in table.to_table(["id", "_rowid"]).to_pylist()}

    before, after = row_ids(made), row_ids(update_rows(made, {"x": 9.0}, "id = 2"))
    assert (before == after) is (stable == "true")


def test_nan_and_zero_are_one_partition_each(root: str) -> None:
    made = create_partitioned(root, SCHEMA, [PartitionBy("x", ("x",), Identity())])
    made = save_rows(made, pa.concat_tables([rows(1, x=math.nan), rows(2, x=0.0), rows(3, x=-0.0), rows(4, x=None)]))
    made = save_rows(made, pa.concat_tables([rows(5, x=math.nan), rows(6, x=-0.0), rows(7, x=None)]))
    assert len(made.partitions()) == 3
    assert ids(made) == [1, 2, 3, 4, 5, 6, 7]
    assert ids(made, "x = 0.0") == [2, 3, 6]
    assert ids(made, "x IS NULL") == [4, 7]


def test_levels_share_their_names(root: str) -> None:
    by = [PartitionBy("year", ("ts",), Year()), PartitionBy("bucket", ("id",), Bucket(4))]
    made = create_partitioned(root, SCHEMA, by)
    made = save_rows(made, rows(*range(20), year=2024))
    made = save_rows(made, rows(*range(20, 40), year=2024))
    made = save_rows(made, rows(*range(40, 60), year=2025))
    assert ids(made) == list(range(60))
    names = [partition.object_id.split("$") for partition in made.partitions()]
    assert len({levels[1] for levels in names}) == 2
    assert len(names) == len({tuple(levels) for levels in names})
    assert ids(made, "ts >= TIMESTAMP '2025-01-01 00:00:00Z'") == list(range(40, 60))
    assert len(made.partitions("ts >= TIMESTAMP '2025-01-01 00:00:00Z' AND id = 41")) == 1


def test_a_table_is_created_once(root: str) -> None:
    create_partitioned(root, SCHEMA, BY_COUNTRY)
    with pytest.raises(AlreadyExistsError):
        create_partitioned(root, SCHEMA, BY_COUNTRY)


def test_creators_at_once(root: str) -> None:
    def create(number: int) -> int:
        try:
            create_partitioned(root, SCHEMA, BY_COUNTRY, properties={"by": str(number)})
        except AlreadyExistsError:
            return 0
        return 1

    assert sum(overlapped(create, range(6), 6)) == 1
    assert ids(save_rows(open_partitioned(root), rows(1))) == [1]


@pytest.mark.slow
def test_writers_at_once_lose_nothing_and_make_each_partition_once(root: str) -> None:
    base = create_partitioned(root, SCHEMA, BY_COUNTRY)

    def write(number: int) -> None:
        mine = pa.concat_tables(
            [
                rows(number * 10, country="at"),
                rows(number * 10 + 1, country="ch"),
                rows(number * 10 + 2, country=f"c{number}"),
            ]
        )
        save_rows(base, mine)

    overlapped(write, range(8), 8)
    made = open_partitioned(root)
    assert ids(made) == sorted(number * 10 + part for number in range(8) for part in range(3))
    assert len(made.partitions()) == 10
    for partition in made.partitions():
        location = f"{root}/{partition.location}"
        assert lance.dataset(location, version=partition.version).count_rows() > 0


def test_a_delete_and_an_append_at_once(table: PartitionedTable, root: str) -> None:
    save_rows(table, rows(6))
    deleted = delete_rows(table, "id = 1")
    assert ids(deleted) == [2, 3, 4, 5, 6]
    again = delete_rows(table, "id IN (1, 2)")
    assert ids(again) == [3, 4, 5, 6]


def test_an_update_of_rows_that_another_has_changed(table: PartitionedTable) -> None:
    update_rows(table, {"x": "x + 1"}, "id = 1")
    both = update_rows(table, {"x": "x + 1"}, "id = 1")
    assert both.to_table(["x"], "id = 1")["x"].to_pylist() == [2.5]


def test_an_overwrite_does_not_take_away_what_it_has_not_seen(table: PartitionedTable) -> None:
    save_rows(table, rows(6, country="ch"))
    with pytest.raises(CommitConflictError):
        save_rows(table, rows(7, country="ch"), WriteMode.OVERWRITE_PARTITIONS)


def test_an_append_to_a_partition_that_is_gone(table: PartitionedTable) -> None:
    newest = save_rows(table, rows(9, country="de"), WriteMode.OVERWRITE)
    with pytest.raises(RetryableConflictError, match="removed the partition"):
        save_rows(table, rows(10, country="ch"))
    assert ids(save_rows(newest, rows(10, country="ch"))) == [9, 10]


def files(root: str) -> set[str]:
    return {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}


def test_a_write_that_fails_at_the_last_step_leaves_nothing(
    table: PartitionedTable, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(root)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the store is down")

    monkeypatch.setattr(CatalogTable, "replace_rows", fails)
    with pytest.raises(StorageError):
        save_rows(table, pa.concat_tables([rows(6), rows(7, country="de")]))
    monkeypatch.undo()
    assert files(root) == before
    assert ids(open_partitioned(root)) == [1, 2, 3, 4, 5]


def test_a_delete_that_fails_at_the_last_step_leaves_nothing(
    table: PartitionedTable, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(root)

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the store is down")

    monkeypatch.setattr(CatalogTable, "replace_rows", fails)
    with pytest.raises(StorageError):
        delete_rows(table, "id = 1")
    monkeypatch.undo()
    assert files(root) == before


def test_a_writer_that_dies_before_the_last_step_is_not_seen(
    table: PartitionedTable, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: object, **__: object) -> None:
        raise Killed

    monkeypatch.setattr(CatalogTable, "replace_rows", dies)
    with pytest.raises(Killed):
        save_rows(table, pa.concat_tables([rows(6), rows(7, country="de")]))
    monkeypatch.undo()
    assert ids(open_partitioned(root)) == [1, 2, 3, 4, 5]
    (at,) = table.partitions("country = 'at'")
    assert TableLocation(f"{root}/{at.location}").history.load_latest().manifest.version > (at.version or 0)
    later = save_rows(open_partitioned(root), pa.concat_tables([rows(8), rows(9, country="de")]))
    assert ids(later) == [1, 2, 3, 4, 5, 8, 9]


def test_tasks_name_new_partitions_alike(table: PartitionedTable) -> None:
    target = PartitionedTarget.of(table).taking(SCHEMA)
    written: list[WrittenPartition] = []
    for number in (20, 21):
        with target.writer() as writer:
            writer.write(rows(number, country="de").to_batches()[0])
            written += writer.close()
    assert written[0].partition.location == written[1].partition.location


def test_a_partition_table_opens_alone(table: PartitionedTable, root: str) -> None:
    (partition,) = table.partitions("country = 'ch'")
    assert lance_spark.open(f"{root}/{partition.location}").to_table()["id"].to_pylist() == [3]


def test_a_partition_of_a_spec_that_is_not_there(table: PartitionedTable, root: str) -> None:
    row = {"object_id": "v7$abcdefghijklmnop$dataset", "object_type": "table", "location": "12345678_v7"}
    schema = lance.dataset(f"{root}/__manifest").schema
    lance.write_dataset(pa.Table.from_pylist([row], schema), f"{root}/__manifest", mode="append")
    damaged = open_partitioned(root)
    for read in (damaged.partitions, lambda: damaged.partitions("country = 'ch'"), lambda: ids(damaged)):
        with pytest.raises(CorruptFileError, match="v7"):
            read()
