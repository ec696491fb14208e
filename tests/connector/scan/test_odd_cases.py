"""Branches, odd names, empty tables, and tables that read themselves."""

from __future__ import annotations

import lance
import pytest
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan


def test_branches_are_read_and_written(spark: SparkSession, uri: str) -> None:
    spark.range(5).write.format("lance").save(uri)
    lance.dataset(uri).create_branch("dev")
    spark.range(5, 8).write.format("lance").mode("append").option("branch", "dev").save(uri)
    assert spark.read.format("lance").option("branch", "dev").load(uri).count() == 8
    assert spark.read.format("lance").load(uri).count() == 5
    assert spark.sql(f"SELECT * FROM lance.`{uri}`.branch_dev").count() == 8
    spark.sql(f"INSERT INTO lance.`{uri}`.branch_dev VALUES (100)")
    assert lance.dataset(uri).checkout_version(("dev", None)).count_rows() == 9
    assert lance.dataset(uri).version == 1


def test_an_empty_table(spark: SparkSession, uri: str) -> None:
    spark.sql(f"CREATE TABLE lance.`{uri}` (id BIGINT, name STRING)")
    table = spark.table(f"lance.`{uri}`")
    assert table.collect() == []
    assert table.count() == 0
    assert table.where("id = 3").orderBy("id").limit(3).collect() == []
    assert table.groupBy("name").count().collect() == []


def test_a_table_is_overwritten_with_what_is_read_of_it(spark: SparkSession, uri: str) -> None:
    spark.range(10).write.format("lance").save(uri)
    spark.sql(f"INSERT OVERWRITE lance.`{uri}` SELECT id + 100 AS id FROM lance.`{uri}` WHERE id < 3")
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [100, 101, 102]
    spark.sql(f"INSERT INTO lance.`{uri}` SELECT * FROM lance.`{uri}`")
    assert lance.dataset(uri).count_rows() == 6


def test_odd_names(spark: SparkSession, uri: str) -> None:
    frame = spark.range(5).selectExpr("id AS `a b`", "id AS `Mixed Case`", "struct(id AS `x y`, id AS `ü`) AS `s t`")
    frame.write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)
    assert [row[0] for row in table.where("`a b` = 3 AND `mixed case` >= 2").select("`s t`.`x y`").collect()] == [3]
    assert table.select("`s t`.`ü`").where("`s t`.`x y` > 3").first()[0] == 4
    assert table.columns == ["a b", "Mixed Case", "s t"]


def test_nested_columns_in_lists_and_maps_are_read_in_part(spark: SparkSession, uri: str) -> None:
    spark.range(0, 4, numPartitions=1).selectExpr(
        "id",
        "transform(sequence(0, id), i -> struct(i AS x, i * 2 AS y)) AS l",
        "map('k', struct(id AS x, id AS y)) AS m",
    ).write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)
    assert [row[0] for row in table.orderBy("id").selectExpr("l.y").collect()] == [[0], [0, 2], [0, 2, 4], [0, 2, 4, 6]]
    assert sorted(row[0] for row in table.selectExpr("m['k'].x").collect()) == [0, 1, 2, 3]


def test_joins_of_versions_of_one_table(spark: SparkSession, uri: str) -> None:
    spark.range(5).write.format("lance").save(uri)
    spark.range(5, 10).write.format("lance").mode("append").save(uri)
    query = f"SELECT count(*) FROM lance.`{uri}` a LEFT ANTI JOIN lance.`{uri}` VERSION AS OF 1 b ON a.id = b.id"
    assert spark.sql(query).first()[0] == 5


@pytest.mark.since("4.1", "cached plans that read the newest version")
def test_cached_frames_are_used_and_never_stale(spark: SparkSession, uri: str) -> None:
    spark.range(5).write.format("lance").save(uri)
    name = f"lance.`{uri}`"
    frame = spark.table(name).where("id > 1").cache()
    assert frame.count() == 3
    assert "InMemoryTableScan" in plan(frame.select("id"))
    assert "InMemoryTableScan" in plan(spark.sql(f"SELECT id FROM {name} WHERE id > 1"))
    spark.sql(f"INSERT INTO {name} VALUES (7)")
    assert frame.count() == spark.table(name).where("id > 1").count() == 4
    lance.dataset(uri).delete("id = 2")
    assert spark.table(name).where("id > 1").count() == 3
    assert "InMemoryTableScan" not in plan(spark.sql(f"SELECT id FROM {name} VERSION AS OF 1 WHERE id > 1"))
    spark.sql(f"CALL lance.system.restore('{uri}', 1)")
    assert spark.table(name).where("id > 1").count() == 3
    assert spark.sql(f"SELECT max(id) AS m FROM {name} WHERE id > 1").first().m == 4
    frame.unpersist()


def test_nulls_among_the_values_of_a_map(spark: SparkSession, uri: str) -> None:
    """Functions of functions read a value before they ask whether it is null."""
    rows = "VALUES (1, map('a', 1L, 'b', NULL)), (2, map('a', NULL)), (3, map()), (4, NULL)"
    spark.sql(f"CREATE TABLE lance.`{uri}` AS SELECT id, m, array(named_struct('m', m)) AS l FROM {rows} AS t(id, m)")
    any_above = "exists(map_values(m), x -> x > 0), exists(map_values(l[0].m), x -> x > 0)"
    found = [tuple(row) for row in spark.sql(f"SELECT {any_above}, m['b'] FROM lance.`{uri}` ORDER BY id").collect()]
    assert found == [(True, True, None), (None, None, None), (False, False, None), (None, None, None)]
