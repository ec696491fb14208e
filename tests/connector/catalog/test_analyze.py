"""ANALYZE TABLE: Spark's optimizer gets the statistics that it would have of a Parquet table; answers stay the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

ROWS = 20_000
COLUMNS = (
    "id BIGINT, part INT, few SMALLINT, b BOOLEAN, f FLOAT, d DOUBLE, price DECIMAL(12, 2), name STRING, "
    "raw BINARY, day DATE, at TIMESTAMP, ntz TIMESTAMP_NTZ"
)
VALUES = (
    "id, CAST(id % 4 AS INT) AS part, CAST(id % 7 AS SMALLINT) AS few, id % 3 = 0 AS b, CAST(id / 8 AS FLOAT) AS f, "
    "id / 3 AS d, CAST(id / 7 AS DECIMAL(12, 2)) AS price, "
    "CASE WHEN id % 5 > 0 THEN format_string('n%05d', id) END AS name, "
    "encode(CAST(id AS STRING), 'utf-8') AS raw, date_add(DATE '2020-01-01', CAST(id / 100 AS INT)) AS day, "
    "timestamp_seconds(id * 60) AS at, CAST(timestamp_seconds(id) AS TIMESTAMP_NTZ) AS ntz"
)


@pytest.fixture
def cbo(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


@pytest.fixture(scope="module")
def parquet(spark: SparkSession) -> str:
    name = "spark_catalog.default.analyzed_parquet"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING parquet")
    spark.sql(f"INSERT INTO {name} SELECT {VALUES} FROM range({ROWS})")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
    return name


def made(spark: SparkSession, name: str, partitioned: str = "") -> str:
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {partitioned}")
    spark.sql(f"INSERT INTO {name} SELECT {VALUES} FROM range({ROWS})")
    return name


def estimate(frame: DataFrame) -> int | None:
    """How many rows Spark expects, from its own plan; None if it cannot say."""
    text = frame._jdf.queryExecution().optimizedPlan().stats().simpleString()
    found = re.search(r"rowCount=([0-9.E+]+)", text)
    return None if found is None else int(float(found[1]))


def column_stats(frame: DataFrame) -> dict[str, str]:
    """The statistics of each column in Spark's own plan."""
    stats = frame._jdf.queryExecution().optimizedPlan().stats().attributeStats()
    entries = stats.iterator()
    found = {}
    while entries.hasNext():
        item = entries.next()
        found[item._1().name()] = item._2().toString()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (part)"])
def test_statistics_are_those_of_parquet(spark: SparkSession, cbo: None, parquet: str, partitioned: str) -> None:
    name = made(spark, f"lance.analyzed_{len(partitioned)}", partitioned)
    assert column_stats(spark.table(name)) == {}
    rows = spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS").collect()
    assert [row.column for row in rows] == spark.table(name).columns
    by_name = {row.column: row for row in rows}
    assert (by_name["few"].distinct_count, by_name["name"].null_count, by_name["day"].min) == (7, 4000, "2020-01-01")
    assert column_stats(spark.table(name)) == column_stats(spark.table(parquet))
    few = "SELECT t.id FROM {0} t JOIN {0} u ON t.few = u.id WHERE u.day < DATE '2020-01-03'"
    assert spark.sql(few.format(name)).count() == spark.sql(few.format(parquet)).count()


@pytest.mark.tasks
def test_joins_are_estimated_as_with_parquet(spark: SparkSession, cbo: None, parquet: str) -> None:
    name = made(spark, "lance.analyzed_joins")
    query = "SELECT t.id FROM {0} t JOIN (SELECT DISTINCT few FROM {0}) u ON t.few = u.few"
    before = estimate(spark.sql(query.format(name)))
    spark.sql("CALL lance.system.analyze(table => 'analyzed_joins', columns => array('FEW', 'id'))")
    expected = estimate(spark.sql(query.format(parquet)))
    assert expected == ROWS
    assert estimate(spark.sql(query.format(name))) == expected != before
    assert sorted(map(tuple, spark.sql(query.format(name)).collect())) == [(value,) for value in range(ROWS)]


def test_describe_shows_them(spark: SparkSession) -> None:
    name = made(spark, "lance.analyzed_described")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS few, name")
    shown = {row.info_name: row.info_value for row in spark.sql(f"DESCRIBE EXTENDED {name} few").collect()}
    assert (shown["distinct_count"], shown["num_nulls"]) == ("7", "0")
    # Spark's `DescribeColumnExec` prints bounds by `Optional.toString`: "Optional[0]".
    assert "0" in shown["min"]
    assert "6" in shown["max"]
    properties = {row.key for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert not any("statistics" in key for key in properties)


@pytest.mark.slow
def test_statistics_follow_the_table(spark: SparkSession, cbo: None) -> None:
    name = made(spark, "lance.analyzed_followed")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id, few, name")
    assert "Some(19999)" in column_stats(spark.table(name))["id"]
    # Bounds of fewer rows than there are would make a filter look as if it kept none.
    spark.sql(f"INSERT INTO {name} SELECT {VALUES} FROM range({ROWS}, {2 * ROWS})")
    stats = column_stats(spark.table(name))
    assert "19999" not in stats["id"].replace("20000", "")
    # Half of the rows, by a sample of them.
    assert estimate(spark.sql(f"SELECT id FROM {name} WHERE id + 0 >= {ROWS}")) in range(ROWS * 9 // 10, 2 * ROWS)
    assert spark.sql(f"SELECT id FROM {name} WHERE id + 0 >= {ROWS}").count() == ROWS
    assert set(stats) == {"id", "few", "name"}
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN few TO fewer")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN id COMMENT 'kept'")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN name")
    assert set(column_stats(spark.table(name))) == {"id"}
    spark.sql(f"ALTER TABLE {name} ADD COLUMN name INT")
    assert set(column_stats(spark.table(name))) == {"id"}
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS name")
    assert set(column_stats(spark.table(name))) == {"id", "name"}


def test_histograms(spark: SparkSession, cbo: None) -> None:
    name = made(spark, "lance.analyzed_histograms")
    spark.conf.set("spark.sql.statistics.histogram.enabled", "true")
    try:
        spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id, d")
    finally:
        spark.conf.unset("spark.sql.statistics.histogram.enabled")
    stats = column_stats(spark.table(name))
    assert all("Histogram(" in stats[column] for column in ("id", "d")), stats


@pytest.mark.slow
def test_nan_and_nulls_and_no_rows(spark: SparkSession, cbo: None) -> None:
    name = "lance.analyzed_odd"
    spark.sql(f"CREATE TABLE {name} (a DOUBLE, `b c` INT, e STRING)")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
    assert spark.sql(f"SELECT * FROM {name} WHERE a > 1 OR e = 'x'").collect() == []
    spark.sql(f"INSERT INTO {name} VALUES (DOUBLE('NaN'), NULL, NULL), (1, NULL, NULL), (DOUBLE('-Infinity'), 3, NULL)")
    rows = {row.column: row for row in spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS").collect()}
    assert "Some(3)" in column_stats(spark.table(name))["b c"]
    assert (rows["a"].min, rows["a"].max, rows["e"].null_count, rows["b c"].max) == (None, None, 3, "3")
    for condition in ("a + 0 > 1", "`b c` + 0 < 4", "e IS NULL", "a BETWEEN 0 AND 2", "`b c` IN (3, 4)"):
        assert spark.sql(f"SELECT a FROM {name} WHERE {condition}").count() > 0, condition


def test_what_spark_cannot_read_is_ignored(spark: SparkSession, cbo: None) -> None:
    name = made(spark, "lance.analyzed_broken")
    good = json.dumps({"rows": 1, "data": "", "type": '"long"', "stats": {"distinctCount": "many", "version": "2"}})
    for value in ("no JSON", "[]", "{}", good):
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lance-spark.statistics.id' = r'{value}')")
        assert column_stats(spark.table(name)) == {}, value
        assert spark.sql(f"SELECT id FROM {name} WHERE id = 3").collect() == [(3,)]


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (part)"])
def test_without_columns_nothing_is_committed(spark: SparkSession, partitioned: str) -> None:
    name = made(spark, f"lance.analyzed_nothing_{len(partitioned)}", partitioned)
    before = spark.sql(f"DESCRIBE HISTORY {name}").count()
    assert spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS").collect() == []
    assert spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS NOSCAN").collect() == []
    assert spark.sql(f"DESCRIBE HISTORY {name}").count() == before


def test_refusals(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.analyzed_refused (a INT, l ARRAY<INT>)")
    analyze = "ANALYZE TABLE lance.analyzed_refused COMPUTE STATISTICS FOR COLUMNS"
    with pytest.raises(Exception, match=r"no column 'x'"):
        spark.sql(f"{analyze} x")
    with pytest.raises(Exception, match=r"no statistics of columns like 'l', of type array<int>"):
        spark.sql(f"{analyze} l")
    with pytest.raises(Exception, match="named twice"):
        spark.sql(f"{analyze} a, A")
    with pytest.raises(AnalysisException):
        spark.sql("ANALYZE TABLE lance.analyzed_refused PARTITION (a = 1) COMPUTE STATISTICS")


def test_pylance_reads_an_analyzed_table(spark: SparkSession, uri: str) -> None:
    spark.range(10).write.format("lance").save(uri)
    spark.sql(f"CALL lance.system.analyze(table => '{uri}')")
    assert lance.dataset(uri).count_rows() == 10
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    assert spark.table(f"lance.`{uri}`").count() == 20
