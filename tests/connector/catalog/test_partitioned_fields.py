"""ALTER TABLE ... ADD | DROP | REPLACE PARTITION FIELD, and the procedures behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Row, SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from tests.support.connector.plans import plan


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """Two rows in partitions of `country`."""
    name = "lance.changing_fields"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, country STRING, ts TIMESTAMP) PARTITIONED BY (country)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'de', timestamp'2024-02-03 04:05:06'), (2, 'fr', NULL)")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def whole(root: str, table: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location(table.split(".")[1:]).uri)


def fields(root: str, table: str) -> list[str]:
    return [field.field_id for field in whole(root, table).specs.current.fields]


def ids(spark: SparkSession, query: str) -> list[int]:
    return sorted(row.id for row in spark.sql(query).collect())


def test_fields_come_and_go(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table)
    (row,) = spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, ID) AS `by id`").collect()
    assert row == Row(version=before.version + 1, spec_id=2, fields=["country", "by id"])
    # Hierarchies are several fields, and one version.
    spark.sql(f"alter table {table} add partition field days(ts);")
    assert fields(root, table) == ["country", "by id", "ts_year", "ts_month", "ts_day"]
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD `by id`")
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD days(ts) WITH months(ts)")
    assert fields(root, table) == ["country", "ts_year", "ts_month"]
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD country")
    # A field that was there before has its old name.
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id)")
    assert fields(root, table) == ["ts_year", "ts_month", "by id"]
    assert whole(root, table).version == before.version + 6
    shown = [" ".join(map(str, row)) for row in spark.sql(f"DESCRIBE {table}").collect()]
    assert any("year(ts)" in line for line in shown)
    assert any("bucket(4, id)" in line for line in shown)


@pytest.mark.slow
def test_rows_stay_where_they_are(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD country WITH bucket(4, id)")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'de', NULL), (4, 'it', NULL)")
    found = spark.sql(f"SELECT spec_id, num_rows FROM {table}.partitions").collect()
    assert sorted(map(tuple, found)) in ([(1, 1), (1, 1), (2, 1), (2, 1)], [(1, 1), (1, 1), (2, 2)])
    frame = spark.table(table).where("country = 'fr'")
    # Partitions by the old field are pruned, those by the new one cannot be.
    assert [row.id for row in frame.collect()] == [2]
    assert f"partitions={len(found) - 1}/{len(found)}" in plan(frame)
    assert ids(spark, f"SELECT * FROM {table} WHERE id IN (1, 3)") == [1, 3]
    spark.sql(f"UPDATE {table} SET country = 'xx' WHERE id IN (2, 3)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert sorted(map(tuple, spark.table(table).select("id", "country").collect())) == [(2, "xx"), (3, "xx"), (4, "it")]
    # A row that was changed is written by the newest spec.
    assert {partition.spec.id for partition in whole(root, table).partitions("country = 'xx'")} == {2}
    joined = spark.sql(f"SELECT a.id FROM {table} a JOIN {table} b ON a.id = b.id")
    assert sorted(row.id for row in joined.collect()) == [2, 3, 4]


@pytest.mark.slow
def test_no_field_is_left(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} DROP PARTITION FIELD country")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'de', NULL), (4, 'it', NULL)")
    assert ids(spark, f"SELECT * FROM {table}") == [1, 2, 3, 4]
    assert len(whole(root, table).partitions()) == 3
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD country")
    spark.sql(f"INSERT INTO {table} VALUES (5, 'de', NULL)")
    assert ids(spark, f"SELECT * FROM {table} WHERE country = 'de'") == [1, 3, 5]


def test_procedures(spark: SparkSession, root: str, table: str) -> None:
    add = "add_partition_field(table => 'changing_fields', transform => 'truncate(2, `country`)')"
    spark.sql(f"CALL lance.system.{add}")
    spark.sql("CALL lance.system.replace_partition_field('changing_fields', 'country_truncate_2', 'years(ts)', 'y')")
    spark.sql("CALL lance.system.drop_partition_field('changing_fields', 'country')")
    assert fields(root, table) == ["y"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ADD PARTITION FIELD country", "already"),
        ("ADD PARTITION FIELD years(nothing)", "no column nothing"),
        ("ADD PARTITION FIELD days(ts) AS d", "cannot have one name"),
        ("ADD PARTITION FIELD twice(ts)", "no partition transform 'twice'"),
        ("ADD PARTITION FIELD bucket(0, id)", "from 1 on"),
        ("ADD PARTITION FIELD bucket(4, id) AS country", "field"),
        ("DROP PARTITION FIELD bucket(4, id)", "its partition fields are country"),
        ("REPLACE PARTITION FIELD ts WITH years(ts)", "not partitioned by"),
    ],
)
def test_refused(spark: SparkSession, root: str, table: str, statement: str, message: str) -> None:
    before = whole(root, table).version
    with pytest.raises(AnalysisException, match=message):
        spark.sql(f"ALTER TABLE {table} {statement}")
    assert whole(root, table).version == before


def test_other_statements(spark: SparkSession, table: str) -> None:
    with pytest.raises(ParseException):
        spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(4, id + 1)")
    spark.sql("CREATE TABLE lance.plain (id BIGINT)")
    with pytest.raises(AnalysisException, match="has no partitions"):
        spark.sql("ALTER TABLE lance.plain ADD PARTITION FIELD id")
    spark.sql("DROP TABLE lance.plain")
