"""Clustering in SQL: CLUSTER BY, OPTIMIZE with an order, and the procedure, for plain and partitioned tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace

ROWS = "SELECT id, (id * 7919) % 1000 AS a, (id * 104729) % 1000 AS b, id % 2 AS p FROM range(4000)"


@pytest.fixture(params=["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.sql(f"CREATE TABLE lance.clustered (id BIGINT, a BIGINT, b BIGINT, p BIGINT) {request.param}")
    spark.sql(f"INSERT INTO lance.clustered {ROWS}")
    yield "lance.clustered"
    spark.sql("DROP TABLE IF EXISTS lance.clustered")


def dataset(root: str, name: str = "clustered") -> Any:
    return lance_spark.open(DirectoryNamespace(root).table_location([name]).uri)


def stored(root: str, column: str) -> list[list[int]]:
    """The values of a column in the order of the rows, by partition."""
    return [
        lance_spark.Dataset(split.table, split.manifest).to_table(columns=[column])[column].to_pylist()
        for split in dataset(root).splits()
    ]


def optimized(spark: SparkSession, statement: str) -> Row:
    (row,) = spark.sql(statement).collect()
    return row


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def test_optimize_sorts_by_columns_of_the_statement(spark: SparkSession, root: str, table: str) -> None:
    expected = sorted(map(tuple, spark.sql(ROWS).collect()))
    row = optimized(spark, f"OPTIMIZE {table} SORT BY (a DESC, b) WITH (commit_message = 'tidy')")
    assert row.rows_rewritten == 4000
    assert sorted(map(tuple, spark.table(table).collect())) == expected
    for part in stored(root, "a"):
        assert part == sorted(part, reverse=True)
    # The same order again has nothing to do, another one everything.
    assert optimized(spark, f"OPTIMIZE {table} SORT BY (a DESC, b)").rows_rewritten == 0
    assert optimized(spark, f"OPTIMIZE {table} ZORDER BY (a, b)").rows_rewritten == 4000
    called = f"CALL lance.system.optimize(table => '{table}', zorder_by => array('a', 'b'))"
    assert optimized(spark, called).rows_rewritten == 0
    spark.sql(f"INSERT INTO {table} VALUES (4000, 1, 1, 0)")
    assert optimized(spark, called).rows_rewritten == 1
    assert spark.table(table).count() == 4001


def test_where_chooses_what_is_sorted(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id + 10000, a, b, p + 2 FROM ({ROWS})")
    row = optimized(spark, f"OPTIMIZE {table} WHERE p >= 2 AND p <= (1 + 2) SORT BY a")
    assert row.rows_rewritten == 4000
    assert optimized(spark, f"OPTIMIZE {table} SORT BY a").rows_rewritten == 4000


def test_a_table_has_clustering_columns(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} CLUSTER BY (a, b)")
    assert properties(spark, table)["lance.clustering.columns"] == "a, b"
    assert optimized(spark, f"OPTIMIZE {table}").rows_rewritten == 4000
    assert [name for name in properties(spark, table) if "cluster" in name] == ["lance.clustering.columns"]
    assert "lance.clustering.columns=a, b" in str(spark.sql(f"DESCRIBE EXTENDED {table}").collect())
    spark.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    assert "lance.clustering.columns" not in properties(spark, table)
    assert optimized(spark, f"OPTIMIZE {table}").rows_rewritten == 0
    for wrong in ("nothing", "a,, b", "a, a"):
        with pytest.raises(PySparkException):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lance.clustering.columns' = '{wrong}')")


def test_tasks_sort_what_they_write(spark: SparkSession, root: str) -> None:
    spark.sql("CREATE TABLE lance.clustered (id BIGINT, a BIGINT) CLUSTER BY (a)")
    try:
        assert properties(spark, "lance.clustered")["lance.clustering.columns"] == "a"
        spark.sql("INSERT INTO lance.clustered SELECT id, (id * 7919) % 1000 AS a FROM range(0, 4000, 1, 1)")
        ((values),) = stored(root, "a")
        assert values == sorted(values)
        spark.sql(
            "CREATE OR REPLACE TABLE lance.clustered CLUSTER BY (id) AS SELECT 5 - id AS id FROM range(0, 5, 1, 1)"
        )
        assert stored(root, "id") == [[1, 2, 3, 4, 5]]
        with pytest.raises(AnalysisException, match="nothing"):
            spark.sql("ALTER TABLE lance.clustered CLUSTER BY (nothing)")
    finally:
        spark.sql("DROP TABLE lance.clustered")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("OPTIMIZE {t} ZORDER BY (nothing)", "there is no column 'nothing'"),
        ("CALL lance.system.optimize(table => '{t}', zorder_by => array('a'), sort_by => array('b'))", "give one of"),
        ("OPTIMIZE {t} ZORDER BY (a, a)", "named twice"),
        ("OPTIMIZE {t} SORT BY a WITH (defer_index_remap = true)", "leave defer_index_remap out"),
    ],
)
def test_statements_that_are_refused(spark: SparkSession, root: str, table: str, statement: str, message: str) -> None:
    version = dataset(root).version
    with pytest.raises(PySparkException, match=message):
        spark.sql(statement.format(t=table)).collect()
    assert dataset(root).version == version
