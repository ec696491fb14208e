"""Intervals: a column keeps the units that it was made with, at every level; what has no counterpart is refused."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

UNITS = {
    "DAY": "'1'",
    "DAY TO HOUR": "'1 2'",
    "DAY TO MINUTE": "'1 2:3'",
    "DAY TO SECOND": "'1 2:3:4.5'",
    "HOUR": "'5'",
    "HOUR TO MINUTE": "'5:1'",
    "HOUR TO SECOND": "'5:1:2'",
    "MINUTE": "'5'",
    "MINUTE TO SECOND": "'5:1'",
    "SECOND": "'5'",
}
NAMES = [unit.lower().replace(" ", "_") for unit in UNITS]
TYPES = [f"interval {unit.lower()}" for unit in UNITS]


def types(spark: SparkSession, table: str) -> list[str]:
    return [field.dataType.simpleString() for field in spark.table(table).schema.fields]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> str:
    columns = [f"INTERVAL {text} {unit} AS {name}" for (unit, text), name in zip(UNITS.items(), NAMES, strict=True)]
    spark.sql(f"SELECT {', '.join(columns)}").createOrReplaceTempView("intervals")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.intervals")
    return "intervals"


@pytest.mark.slow
def test_units_of_days_and_seconds_are_kept(spark: SparkSession, rows: str, uri: str) -> None:
    defined = ", ".join(f"{name} INTERVAL {unit}" for name, unit in zip(NAMES, UNITS, strict=True))
    for number, statement in enumerate(
        (f"CREATE TABLE {{}} ({defined})", f"CREATE TABLE {{}} PARTITIONED BY (p) AS SELECT *, 'a' AS p FROM {rows}")
    ):
        table = f"lance.intervals.kept_{number}"
        spark.sql(statement.format(table))
        assert types(spark, table)[: len(TYPES)] == TYPES
        spark.sql(f"INSERT INTO {table} SELECT *{', 1 AS p' if number else ''} FROM {rows}")
        written = spark.table(table).select(*NAMES).distinct().collect()
        assert written == spark.table(rows).collect()
    spark.table(rows).write.format("lance").save(uri)
    assert types(spark, f"lance.`{uri}`") == TYPES
    assert spark.table(f"lance.`{uri}`").collect() == spark.table(rows).collect()
    theirs = lance.dataset(uri)
    assert set(theirs.schema.types) == {pa.duration("us")}
    assert theirs.to_table().to_pylist() == [row.asDict() for row in spark.table(rows).collect()]


def test_units_of_nested_intervals_are_kept(spark: SparkSession, rows: str, uri: str) -> None:
    frame = spark.sql(
        f"SELECT array(hour_to_minute) AS l, map('k', minute, 'n', NULL) AS m, struct(struct(hour AS h) AS t) AS s, "
        f"array(map(second, array(day_to_hour))) AS deep FROM {rows}"
    )
    frame.write.format("lance").save(uri)
    found = spark.read.format("lance").load(uri)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.collect() == frame.collect()
    assert lance.dataset(uri).to_table()["l"].to_pylist() == [row.l for row in frame.collect()]


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
def test_the_unit_follows_the_last_definition(spark: SparkSession, rows: str) -> None:
    table = "lance.intervals.defined"
    spark.sql(f"CREATE TABLE {table} (a INTERVAL HOUR TO MINUTE, l ARRAY<INTERVAL HOUR>)")
    spark.sql(f"CREATE OR REPLACE TABLE {table} (a INTERVAL DAY TO SECOND, l ARRAY<INTERVAL DAY>)")
    assert types(spark, table) == ["interval day to second", "array<interval day>"]
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (b INTERVAL MINUTE, s STRUCT<x: INTERVAL HOUR>)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (s.y INTERVAL SECOND)")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN b TO c")
    kept = types(spark, table)
    assert kept[2:] == ["interval minute", "struct<x:interval hour,y:interval second>"]
    spark.sql(f"CREATE TABLE {table}_like LIKE {table}")
    assert types(spark, f"{table}_like") == kept
    spark.sql(f"INSERT INTO {table} (c) SELECT minute FROM {rows}")
    spark.sql(f"UPDATE {table} SET c = c + c")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    assert types(spark, table) == kept
    assert str(spark.table(table).first().c) == "0:10:00"


def test_a_unit_does_not_change_silently(spark: SparkSession, rows: str) -> None:
    table = "lance.intervals.changed"
    spark.sql(f"CREATE TABLE {table} AS SELECT hour_to_minute AS a FROM {rows}")
    with pytest.raises(AnalysisException, match=r"CANNOT_UPDATE_FIELD\.INTERVAL_TYPE"):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN a TYPE INTERVAL DAY TO MINUTE")
    assert types(spark, table) == ["interval hour to minute"]


@pytest.mark.parametrize("form", ["{}", "ARRAY<{}>", "STRUCT<x: {}>", "MAP<STRING, {}>"])
def test_intervals_without_a_counterpart_are_refused(spark: SparkSession, form: str) -> None:
    with pytest.raises(AnalysisException, match=r"(?i)interval"):
        spark.sql(f"CREATE TABLE lance.intervals.refused (a {form.format('INTERVAL')})")
    assert not spark.catalog.tableExists("lance.intervals.refused")


def test_a_table_of_pylance_has_days_to_seconds(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(pa.table({"a": pa.array([1, None], pa.duration("ns"))}), uri)
    assert types(spark, f"lance.`{uri}`") == ["interval day to second"]
    spark.sql("SELECT INTERVAL '1 2:3:4' DAY TO SECOND AS a").write.format("lance").mode("append").save(uri)
    assert types(spark, f"lance.`{uri}`") == ["interval day to second"]
    assert lance.dataset(uri).schema.field("a").type == pa.duration("ns")
    spark.sql("SELECT INTERVAL '5:1' HOUR TO MINUTE AS a").write.format("lance").mode("overwrite").save(uri)
    assert types(spark, f"lance.`{uri}`") == ["interval hour to minute"]
