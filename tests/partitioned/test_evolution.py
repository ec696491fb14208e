"""Other partitionings over time: old rows stay readable by their spec, new rows go by the newest."""

from __future__ import annotations

import json
from datetime import date

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, RetryableConflictError
from lance_spark.partitioned.evolution import (
    add_partition_field,
    drop_partition_field,
    replace_partition_field,
    set_partitioning,
)
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.storage.overlap import overlapped
from tests.partitioned.appendix import METADATA
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, ids, rows
from tests.partitioned.verbs import delete_rows, save_rows

YEAR = PartitionBy("year", ("ts",), Year())


@pytest.fixture
def root(any_root: str) -> str:
    """Local, and in memory."""
    return any_root


@pytest.fixture
def table(root: str) -> PartitionedTable:
    made = create_partitioned(root, SCHEMA, BY_COUNTRY)
    return save_rows(made, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))


def test_appendix_d(root: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("event_date", pa.date32()), ("country", pa.string())])

    def events(*given: tuple[int, date, str]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in given], schema)

    table = create_partitioned(root, schema, [PartitionBy("event_date", ("event_date",), Identity())])
    table = save_rows(table, events((1, date(2025, 12, 10), "US"), (2, date(2025, 12, 11), "US")))
    fields = [PartitionBy("event_year", ("event_date",), Year()), PartitionBy("country", ("country",), Identity())]
    table = set_partitioning(table, fields)
    assert {key: json.loads(table.properties[key]) for key in METADATA if key != "schema"} == {
        key: value for key, value in METADATA.items() if key != "schema"
    }
    assert "v2" in table.rows["object_id"].to_pylist()
    table = save_rows(table, events((3, date(2025, 12, 10), "US"), (4, date(2024, 1, 1), "US")))
    table = save_rows(table, events((5, date(2025, 12, 10), "CH")))
    chosen = table.partitions("event_date = DATE '2025-12-10' AND country = 'US'")
    assert [partition.object_id.split("$")[0] for partition in chosen] == ["v1", "v2"]
    assert [partition.values.to_pylist()[0] for partition in chosen] == [
        {"partition_field_event_date": date(2025, 12, 10)},
        {"partition_field_event_year": 2025, "partition_field_country": "US"},
    ]
    assert ids(table, "event_date = DATE '2025-12-10' AND country = 'US'") == [1, 3]
    assert ids(table) == [1, 2, 3, 4, 5]


def test_fields_are_added_replaced_and_dropped(table: PartitionedTable, root: str) -> None:
    table = save_rows(add_partition_field(table, YEAR), rows(4, year=2024))
    table = replace_partition_field(table, "country", PartitionBy("bucket", ("id",), Bucket(4)))
    table = save_rows(table, rows(5, 6))
    table = save_rows(drop_partition_field(table, "bucket"), rows(7))
    again = save_rows(set_partitioning(table, [PartitionBy("other_name", ("country",), Identity())]), rows(8))
    names = [[field.field_id for field in spec.fields] for spec in again.specs.specs]
    assert names == [["country"], ["country", "year"], ["bucket", "year"], ["year"], ["country"]]
    assert ids(again) == ids(open_partitioned(root)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert ids(again, "country = 'ch'") == [3]
    assert sorted({partition.spec.id for partition in again.partitions()}) == [1, 2, 3, 4, 5]
    assert ids(delete_rows(again, "id IN (1, 4, 8)")) == [2, 3, 5, 6, 7]


def test_the_columns_are_there_for_pylance(tmp_path: object) -> None:
    root = f"{tmp_path}/t"
    table = save_rows(create_partitioned(root, SCHEMA, BY_COUNTRY), rows(1))
    table = save_rows(add_partition_field(table, YEAR), rows(2))
    listed = lance.dataset(f"{root}/__manifest").to_table().to_pylist()
    values = [(row["partition_field_country"], row["partition_field_year"]) for row in listed if row["location"]]
    assert values == [("at", None), ("at", 2025)]
    assert ("v2", "namespace") in {(row["object_id"], row["object_type"]) for row in listed}


def test_invalid_arguments_are_refused(table: PartitionedTable) -> None:
    with pytest.raises(NotFoundError):
        drop_partition_field(table, "year")
    with pytest.raises(InvalidInputError):
        add_partition_field(table, BY_COUNTRY[0])
    with pytest.raises(InvalidInputError):
        add_partition_field(table, PartitionBy("country", ("ts",), Year()))
    assert set_partitioning(table, BY_COUNTRY).version == table.version == table.newest().version


def test_of_evolvers_at_once_one_wins(table: PartitionedTable, root: str) -> None:
    def evolve(number: int) -> int:
        try:
            set_partitioning(table, [PartitionBy(f"b{number}", ("id",), Bucket(number + 2))])
        except RetryableConflictError:
            return 0
        return 1

    assert sum(overlapped(evolve, range(6), 6)) == 1
    newest = open_partitioned(root)
    assert [spec.id for spec in newest.specs.specs] == [1, 2]
    assert ids(save_rows(newest, rows(9))) == [1, 2, 3, 9]


def test_writers_and_an_evolver_at_once(table: PartitionedTable, root: str) -> None:
    def act(number: int) -> None:
        if number == 3:
            add_partition_field(table, YEAR)
        else:
            save_rows(table, rows(10 + number))

    overlapped(act, range(6), 6)
    assert ids(open_partitioned(root)) == [1, 2, 3, 10, 11, 12, 14, 15]


def test_a_writer_that_began_before_lands_in_the_old_spec(table: PartitionedTable) -> None:
    evolved = add_partition_field(table, YEAR)
    late = save_rows(table, rows(4))
    assert late.version == evolved.version + 1
    assert {partition.spec.id for partition in late.partitions()} == {1}
    assert ids(late) == [1, 2, 3, 4]


def test_nothing_is_left_of_an_evolution_that_fails(table: PartitionedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise NotFoundError("the store is down")

    monkeypatch.setattr(type(table.catalog), "replace_rows", fails)
    with pytest.raises(LanceError):
        add_partition_field(table, YEAR)
    monkeypatch.undo()
    assert table.newest().version == table.version
