"""How the rows of a write come to the partitions of a table."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.tasks


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> str:
    spark.sql("CREATE NAMESPACE lance.distributed")
    spark.sql("CREATE TABLE lance.distributed.t (id BIGINT, k STRING) PARTITIONED BY (k)")
    return "lance.distributed.t"


@pytest.mark.parametrize(
    ("asked", "exchange"),
    [
        ("", "hashpartitioning(k"),
        ("WITH (distribution = 'hash')", "hashpartitioning(k"),
        ("WITH (distribution = 'range')", "rangepartitioning(k"),
        ("WITH (distribution = 'none')", None),
    ],
)
def test_the_plan_of_a_write(spark: SparkSession, table: str, asked: str, exchange: str | None) -> None:
    insert = f"INSERT INTO {table} {asked} SELECT id, concat('k', id % 3) FROM range(0, 9, 1, 2)"
    text = spark.sql(f"EXPLAIN {insert}").collect()[0][0]
    assert "Sort [k" in text
    assert ("Exchange" not in text) if exchange is None else (exchange in text), text


def test_rows_that_stay_in_their_tasks(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"INSERT OVERWRITE {table} WITH (distribution = 'none') SELECT id, concat('k', id % 3) FROM range(0, 9, 1, 2)"
    )
    rows = spark.table(table).selectExpr("id", "k", "_rowaddr").collect()
    assert sorted((row.id, row.k) for row in rows) == [(key, f"k{key % 3}") for key in range(9)]
    assert spark.table(f"{table}.files").count() == 6
