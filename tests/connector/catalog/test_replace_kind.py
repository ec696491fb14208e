"""Tables with partitions replaced by those without, and the reverse, as Parquet's saveAsTable does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

OLD = "SELECT 1L AS id, 'a' AS k UNION ALL SELECT 2L, 'b'"
NEW = "SELECT 9L AS id, 'z' AS k, 1 AS more"


@pytest.fixture(params=["lance.kinds", "lance.kinds_ns.t"])
def name(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.kinds_ns")
    yield request.param
    spark.sql(f"DROP TABLE IF EXISTS {request.param} PURGE")
    spark.sql("DROP NAMESPACE lance.kinds_ns CASCADE")


def is_partitioned(spark: SparkSession, name: str) -> bool:
    return any(row.col_name == "# Partitioning" for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()) or any(
        row.col_name.startswith("# Partition") for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()
    )


@pytest.mark.slow
@pytest.mark.parametrize("before", [[], ["k"]])
@pytest.mark.parametrize("after", [[], ["k"], ["id"]])
def test_save_as_table_replaces_a_table_of_other_partitions(
    spark: SparkSession, name: str, before: list[str], after: list[str]
) -> None:
    for kind, table in (("parquet", "default.kinds"), ("lance", name)):
        spark.sql(OLD).write.format(kind).partitionBy(*before).saveAsTable(table)
        spark.sql(NEW).write.format(kind).mode("overwrite").partitionBy(*after).saveAsTable(table)
        assert [tuple(row) for row in spark.table(table).select("id", "k", "more").collect()] == [(9, "z", 1)]
        assert is_partitioned(spark, table) is bool(after)
        spark.sql(f"INSERT INTO {table} SELECT id, k, more FROM {table}" if not after else "SELECT 1")
    spark.sql("DROP TABLE default.kinds")
    assert spark.table(name).count() == (2 if not after else 1)


@pytest.mark.slow
def test_replaced_name_is_that_of_the_new_table_only(spark: SparkSession, root: str) -> None:
    spark.sql(f"CREATE TABLE lance.swapped AS {OLD}")
    before = spark.sql("SHOW TABLES IN lance").count()
    spark.sql(f"CREATE OR REPLACE TABLE lance.swapped PARTITIONED BY (k) AS {NEW}")
    spark.sql(f"REPLACE TABLE lance.swapped AS {OLD}")
    assert spark.sql("SHOW TABLES IN lance").count() == before
    where = spark.sql("DESCRIBE EXTENDED lance.swapped").where("col_name = 'Location'").first()
    assert where is not None
    assert lance.dataset(where.data_type).count_rows() == 2
    replaced = [row for row in spark.sql("CALL lance.system.dropped_tables()").collect() if row.name == "swapped"]
    assert len(replaced) == 2
    assert where.data_type not in {row.location for row in replaced}
    assert {row.kept_until - row.dropped_at for row in replaced} == {timedelta(days=7)}
    spark.sql("REPLACE TABLE lance.swapped (id BIGINT, k STRING) PARTITIONED BY (id)")
    assert spark.table("lance.swapped").count() == 0
    spark.sql("DROP TABLE lance.swapped PURGE")
    assert spark.sql("SHOW TABLES IN lance").count() == before - 1


def test_a_table_that_only_has_its_directory_is_replaced(spark: SparkSession, root: str) -> None:
    lance.write_dataset(spark.sql(OLD).toArrow(), f"{root}/listed.lance")
    spark.sql(NEW).write.mode("overwrite").partitionBy("k").saveAsTable("lance.listed")
    assert spark.table("lance.listed").count() == 1
    assert spark.sql("SHOW TABLES IN lance LIKE 'listed'").count() == 1
    spark.sql("DROP TABLE lance.listed PURGE")
    assert spark.sql("SHOW TABLES IN lance LIKE 'listed'").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [("", "PARTITIONED BY (k)"), ("PARTITIONED BY (k)", "")])
def test_failed_replacement_leaves_the_old_table(spark: SparkSession, root: str, before: str, after: str) -> None:
    spark.sql(f"CREATE TABLE lance.kept {before} AS {OLD}")
    files = sorted(Path(root).iterdir())
    with pytest.raises(PySparkException):
        spark.sql(
            f"CREATE OR REPLACE TABLE lance.kept {after} AS "
            "SELECT id, if(id = 3, raise_error('no'), 'a') AS k FROM range(5)"
        )
    assert spark.table("lance.kept").count() == 2
    # An empty folder may be left, and a task that is still being killed may write a file, which is removed soon.
    for _ in range(100):
        left = [path for path in sorted(Path(root).iterdir()) if path not in files and any(path.rglob("*.*"))]
        if not left:
            break
        time.sleep(0.1)
    assert left == []
    spark.sql("DROP TABLE lance.kept PURGE")


@pytest.mark.slow
def test_other_kind_at_a_path_is_refused(spark: SparkSession, uri: str) -> None:
    spark.sql(f"CREATE TABLE lance.`{uri}` AS {OLD}")
    with pytest.raises(PySparkException, match="does not make a partitioned table of one without"):
        spark.sql(f"CREATE OR REPLACE TABLE lance.`{uri}` PARTITIONED BY (k) AS {NEW}")
    assert spark.table(f"lance.`{uri}`").count() == 2
