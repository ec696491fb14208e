"""Writes beyond plain appends: replaced rows, new columns, options, and counts that metadata knows."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.connector.conftest import plan


def test_replace_where_is_one_version(spark: SparkSession, uri: str) -> None:
    spark.range(0, 10, numPartitions=2).selectExpr("id", "id % 2 AS odd").write.format("lance").save(uri)
    table = f"lance.`{uri}`"
    spark.sql(f"INSERT INTO {table} REPLACE WHERE odd = 1 SELECT 100 AS id, 1 AS odd")
    assert lance.dataset(uri).version == 2
    rows = lance.dataset(uri).to_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 2, 4, 6, 8, 100]
    spark.range(200, 201).selectExpr("id", "0L AS odd").writeTo(table).overwrite(F.col("id") < 5)
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [6, 8, 100, 200]
    assert lance.dataset(uri).version == 3
    with pytest.raises(AnalysisException, match="DELETE them and INSERT"):
        spark.sql(f"INSERT INTO {table} REPLACE WHERE id % 3 = 1 SELECT 7 AS id, 1 AS odd")
    assert lance.dataset(uri).version == 3


def test_merge_schema(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    wider = spark.range(3, 5).selectExpr("id", "concat('n', id) AS name")
    with pytest.raises(AnalysisException):
        wider.write.format("lance").mode("append").save(uri)
    wider.write.format("lance").mode("append").option("mergeSchema", "true").save(uri)
    assert lance.dataset(uri).version == 2
    rows = {row["id"]: row["name"] for row in lance.dataset(uri).to_table().to_pylist()}
    assert rows == {0: None, 1: None, 2: None, 3: "n3", 4: "n4"}
    wider.selectExpr("*", "1.5D AS more").writeTo(f"lance.`{uri}`").option("mergeSchema", "true").append()
    assert spark.read.format("lance").load(uri).columns == ["id", "name", "more"]
    assert spark.read.format("lance").load(uri).where("more = 1.5").count() == 2


def test_options_shape_the_table(spark: SparkSession, uri: str) -> None:
    frame = spark.range(100).selectExpr("id", "array(1F, 2F, cast(id AS FLOAT)) AS v")
    frame.coalesce(1).write.format("lance").option("max_row_per_file", "30").option(
        "v.arrow.fixed-size-list.size", "3"
    ).save(uri)
    assert len(lance.dataset(uri).get_fragments()) == 4
    assert str(lance.dataset(uri).schema.field("v").type).startswith("fixed_size_list")
    assert spark.read.format("lance").load(uri).where("v[2] = 7").first().id == 7
    with pytest.raises(AnalysisException, match="did you mean max_row"):
        frame.write.format("lance").mode("append").option("max_rowz_per_file", "30").save(uri)


def test_counts_are_answered_by_metadata(spark: SparkSession, uri: str) -> None:
    spark.range(0, 100, numPartitions=2).selectExpr("id", "nullif(id, 3) AS gaps").write.format("lance").save(uri)
    lance.dataset(uri).delete("id >= 90")
    counted = spark.read.format("lance").load(uri).selectExpr("count(*) AS a", "count(id) AS b")
    assert counted.first() == (90, 90)
    assert "LocalTableScan" in plan(counted)
    table = spark.read.format("lance").load(uri)
    assert table.selectExpr("count(gaps)").first()[0] == 89
    assert table.where("id < 10").count() == 10
    assert table.count() == 90
    assert table.groupBy("gaps").count().count() == 90


def test_offset_leaves_fragments_out(spark: SparkSession, uri: str) -> None:
    spark.range(0, 100, numPartitions=4).write.format("lance").save(uri)
    lance.dataset(uri).delete("id % 2 = 0")
    frame = spark.read.format("lance").load(uri).offset(30)
    assert len(frame.collect()) == 20
    assert "fragments=2/4" in plan(frame)
    assert len(spark.read.format("lance").load(uri).offset(60).collect()) == 0
    assert len(spark.read.format("lance").load(uri).offset(45).limit(3).collect()) == 3


def test_types_survive(spark: SparkSession, uri: str) -> None:
    frame = spark.sql(
        """
        SELECT 1Y AS b, 2S AS s, 3 AS i, 4L AS l, 1.5F AS f, 2.5D AS d, 1.23BD AS dec, true AS t, 'x' AS str,
               X'00FF' AS bin, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:00:00.123456' AS ts,
               TIMESTAMP_NTZ '2024-02-29 12:00:00' AS ntz, array(1, null) AS a, map('k', 1.0D) AS m,
               struct(1 AS x, struct('y' AS z) AS s) AS st, cast(null AS INT) AS n,
               INTERVAL '1 02:03:04' DAY TO SECOND AS dt
        """
    )
    frame.write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)
    assert table.first() == frame.first()
    assert [field.dataType for field in table.schema] == [field.dataType for field in frame.schema]
    pushed = (
        "b = 1 AND s < 3 AND i IN (3, 4) AND l <> 5 AND f = 1.5F AND d >= 2.5D AND dec = 1.23BD AND t AND str >= 'x' "
        "AND bin = X'00FF' AND day = DATE '2024-02-29' AND ts > TIMESTAMP '2024-02-29 12:00:00' "
        "AND ntz <= TIMESTAMP_NTZ '2024-02-29 12:00:00' AND st.s.z = 'y' AND n IS NULL"
    )
    kept = table.where(pushed)
    assert kept.count() == 1
    assert table.where(f"NOT ({pushed})").count() == 0
    assert "Filter" not in plan(kept).replace("RuntimeFilters", "")
