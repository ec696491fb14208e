"""Statements whose source is a DataFrame or a view of the table that they change.

Spark resolves the relations of such a source again, in the transaction of the statement. The expected rows follow from
SQL's rule that a statement reads the table as it was before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

_MATCHED = "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 10"


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def target(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table with id 0 to 3, k "k0" or "k1", v 0 to 3."""
    name = "lance.read_by_itself"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k STRING, v BIGINT) USING lance {request.param}")
    spark.sql(f"INSERT INTO {name} SELECT id, concat('k', id % 2), id FROM range(4)")
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


def _values(spark: SparkSession, table: str) -> dict[int, int]:
    rows = spark.table(table).collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.v for row in rows}


def _versions(spark: SparkSession, table: str) -> int:
    return spark.sql(f"SELECT * FROM {table}.versions").count()


def _filtered(frame: DataFrame) -> DataFrame:
    return frame.where("id < 2")


def _self_join(frame: DataFrame) -> DataFrame:
    joined = frame.alias("a").join(frame.alias("b"), expr("a.id = b.id AND b.v < 2"))
    return joined.selectExpr("a.id AS id", "b.k AS k", "a.v AS v")


def _aggregate(frame: DataFrame) -> DataFrame:
    return frame.where("id < 2").groupBy("id").agg(expr("max(k) AS k"), expr("sum(v) AS v"))


def _union(frame: DataFrame) -> DataFrame:
    return frame.where("id = 0").union(frame.where("id = 1"))


@pytest.mark.slow
@pytest.mark.parametrize("derive", [_filtered, _self_join, _aggregate, _union])
def test_merge_into_of_a_frame_of_the_target(
    spark: SparkSession, target: str, derive: Callable[[DataFrame], DataFrame]
) -> None:
    before = _versions(spark, target)
    source = derive(spark.table(target)).alias("s")
    condition = expr("s.id = read_by_itself.id")
    source.mergeInto(target, condition).whenMatched().update({"v": expr("s.v + 10")}).merge()
    assert _values(spark, target) == {0: 10, 1: 11, 2: 2, 3: 3}
    assert _versions(spark, target) == before + 1


@pytest.mark.slow
@pytest.mark.parametrize("derive", [_filtered, _self_join, _aggregate, _union])
def test_merge_of_a_temporary_view_of_the_target(
    spark: SparkSession, target: str, derive: Callable[[DataFrame], DataFrame]
) -> None:
    derive(spark.table(target)).createOrReplaceTempView("own_rows")
    spark.sql(f"MERGE INTO {target} t USING own_rows s {_MATCHED}")
    # The view shows the rows that are there now.
    spark.sql(f"MERGE INTO {target} t USING own_rows s {_MATCHED}")
    found = _values(spark, target)
    assert found == ({0: 10, 1: 11, 2: 2, 3: 3} if derive is _self_join else {0: 20, 1: 21, 2: 2, 3: 3})


@pytest.mark.slow
def test_merge_of_a_view_by_text(spark: SparkSession, target: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW own_text AS SELECT * FROM {target} WHERE id < 2")
    spark.sql(f"MERGE INTO {target} t USING own_text s {_MATCHED}")
    assert _values(spark, target) == {0: 10, 1: 11, 2: 2, 3: 3}


@pytest.mark.slow
def test_merge_of_all_clauses(spark: SparkSession, target: str) -> None:
    spark.table(target).where("id > 0").selectExpr("id + 1 AS id", "k", "v").createOrReplaceTempView("own_shifted")
    spark.sql(
        f"""MERGE INTO {target} t USING own_shifted s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET v = s.v + 10
            WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"""
    )
    assert _values(spark, target) == {1: 1, 2: 11, 3: 12, 4: 3}


@pytest.mark.slow
@pytest.mark.parametrize("travel", ["option", "sql"])
def test_merge_of_an_older_version_stays_pinned(spark: SparkSession, target: str, travel: str) -> None:
    number = spark.sql(f"SELECT max(version) FROM {target}.versions").head()
    assert number is not None
    spark.sql(f"UPDATE {target} SET v = 1000")
    if travel == "option":
        old = spark.read.option("version", number[0]).table(target)
    else:
        old = spark.sql(f"SELECT * FROM {target} VERSION AS OF {number[0]}")
    old.where("id < 2").createOrReplaceTempView("own_past")
    spark.sql(f"MERGE INTO {target} t USING own_past s {_MATCHED}")
    assert _values(spark, target) == {0: 10, 1: 11, 2: 1000, 3: 1000}


@pytest.mark.slow
def test_merge_of_cached_rows_of_the_target(spark: SparkSession, target: str) -> None:
    source = spark.table(target).where("id < 2").cache()
    try:
        assert source.count() == 2
        source.createOrReplaceTempView("own_cached")
        spark.sql(f"MERGE INTO {target} t USING own_cached s {_MATCHED}")
        assert _values(spark, target) == {0: 10, 1: 11, 2: 2, 3: 3}
        # Spark refreshes what it has cached of a table that it changes.
        assert sorted(row.v for row in spark.table("own_cached").collect()) == [10, 11]
    finally:
        source.unpersist()


@pytest.mark.slow
def test_delete_and_update_with_subqueries_over_a_view(spark: SparkSession, target: str) -> None:
    spark.table(target).where("v > 1").createOrReplaceTempView("own_large")
    spark.sql(f"UPDATE {target} SET v = (SELECT max(v) FROM own_large) WHERE id IN (SELECT id - 2 FROM own_large)")
    assert _values(spark, target) == {0: 3, 1: 3, 2: 2, 3: 3}
    spark.sql(f"DELETE FROM {target} t WHERE EXISTS (SELECT 1 FROM own_large s WHERE s.id = t.id AND s.v = 3)")
    assert _values(spark, target) == {2: 2}


@pytest.mark.slow
def test_insert_reads_a_view_of_its_table(spark: SparkSession, target: str) -> None:
    spark.table(target).where("id < 2").createOrReplaceTempView("own_small")
    spark.sql(f"INSERT INTO {target} SELECT id + 10, k, v FROM own_small")
    assert _values(spark, target) == {0: 0, 1: 1, 2: 2, 3: 3, 10: 0, 11: 1}
    spark.sql(f"INSERT OVERWRITE {target} SELECT a.id, a.k, b.v + 1 FROM own_small a JOIN own_small b ON a.id = b.id")
    assert _values(spark, target) == {0: 1, 1: 2}
    spark.table(target).selectExpr("id", "k", "v * 100 AS v").writeTo(target).overwrite(expr("id >= 0"))
    assert _values(spark, target) == {0: 100, 1: 200}


@pytest.mark.since("4.2", "columns that a statement adds to a target that it reads too")
@pytest.mark.slow
def test_schema_evolution_of_a_frame_of_the_target_is_one_version(spark: SparkSession, target: str) -> None:
    before = _versions(spark, target)
    spark.table(target).where("id < 2").selectExpr("id", "k", "v", "v * 2 AS w").createOrReplaceTempView("own_wider")
    spark.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {target} t USING own_wider s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET *"""
    )
    assert {row.id: row.w for row in spark.table(target).collect()} == {0: 0, 1: 2, 2: None, 3: None}
    assert _versions(spark, target) == before + 1


@pytest.mark.slow
def test_upsert_of_a_stream_that_looks_at_the_target(spark: SparkSession, target: str, tmp_path: Path) -> None:
    """The usual foreachBatch: new rows joined with what is there, merged back."""
    incoming = tmp_path / "in"
    incoming.mkdir()
    for number, ids in enumerate([(0, 4), (1, 4, 5)]):
        lines = (json.dumps({"id": key, "k": f"k{key % 2}", "v": 100}) for key in ids)
        (incoming / f"{number}.json").write_text("\n".join(lines))

    def upsert(batch: DataFrame, _number: int) -> None:
        known = batch.sparkSession.table(target).withColumnRenamed("v", "known")
        rows = batch.join(known.select("id", "known"), "id", "left")
        rows = rows.selectExpr("id", "k", "coalesce(known, 0) + v AS v").alias("s")
        merge = rows.mergeInto(target, expr("s.id = read_by_itself.id"))
        merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()

    stream = spark.readStream.schema("id BIGINT, k STRING, v BIGINT").option("maxFilesPerTrigger", 1)
    frame = stream.json(str(incoming))
    writer = frame.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert _values(spark, target) == {0: 100, 1: 101, 2: 2, 3: 3, 4: 200, 5: 100}


@pytest.mark.slow
def test_merge_into_a_path_from_a_frame_of_it(spark: SparkSession, uri: str) -> None:
    spark.range(4).selectExpr("id", "id AS v").write.format("lance").save(uri)
    spark.read.format("lance").load(uri).where("id < 2").createOrReplaceTempView("own_path")
    spark.sql(f"MERGE INTO lance.`{uri}` t USING own_path s {_MATCHED}")
    spark.table(f"lance.`{uri}`").where("id > 2").createOrReplaceTempView("own_path")
    spark.sql(f"MERGE INTO lance.`{uri}` t USING own_path s {_MATCHED}")
    assert _values(spark, f"lance.`{uri}`") == {0: 10, 1: 11, 2: 2, 3: 13}
