"""DELETE, UPDATE and MERGE of partitioned tables: one version of the whole a statement."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pytest
from pyspark.sql import SparkSession

from lance_spark.partitioned.table import open_partitioned
from tests.support.connector.row_level import ALTERS


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = "lance.parted.t"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.parted")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, word STRING, k STRING) USING lance PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {name} SELECT id, concat('w', id), nullif(concat('k', id % 3), 'k2') FROM range(9)")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def _uri(spark: SparkSession, table: str) -> str:
    return str(spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()[1])


def _version(spark: SparkSession, table: str) -> int:
    return open_partitioned(_uri(spark, table)).version


def _rows(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in spark.table(table).collect()), key=str)


@pytest.mark.slow
def test_rows_move_between_partitions(spark: SparkSession, table: str) -> None:
    before = _version(spark, table)
    spark.sql(f"UPDATE {table} SET k = 'new' WHERE id % 4 = 1")
    spark.sql(f"UPDATE {table} SET word = upper(word) WHERE k IS NULL")
    assert _rows(spark, table) == sorted(
        [
            (
                key,
                f"W{key}" if key in (2, 8) else f"w{key}",
                "new" if key % 4 == 1 else [f"k{key % 3}", None][key % 3 == 2],
            )
            for key in range(9)
        ],
        key=str,
    )
    assert _version(spark, table) == before + 2
    assert spark.table(table).where("k = 'new'").count() == 2


@pytest.mark.slow
def test_delete(spark: SparkSession, table: str) -> None:
    before = _version(spark, table)
    spark.sql(f"DELETE FROM {table} WHERE k = 'k1'")
    spark.sql(f"DELETE FROM {table} WHERE id % 4 = 0")
    assert [row[0] for row in _rows(spark, table)] == [2, 3, 5, 6]
    assert _version(spark, table) == before + 2
    spark.sql(f"DELETE FROM {table} WHERE id % 4 = 0")
    assert _version(spark, table) == before + 2


def test_merge(spark: SparkSession, table: str) -> None:
    before = _version(spark, table)
    spark.sql("SELECT id, concat('s', id) AS word, 'k9' AS k FROM range(6, 12)").createOrReplaceTempView(
        "parted_source"
    )
    spark.sql(
        f"""MERGE INTO {table} t USING parted_source s ON t.id = s.id
            WHEN MATCHED AND s.id = 6 THEN DELETE
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.k = 'k0' THEN UPDATE SET word = 'x'"""
    )
    kept = [(0, "x", "k0"), (1, "w1", "k1"), (2, "w2", None), (3, "x", "k0"), (4, "w4", "k1"), (5, "w5", None)]
    assert _rows(spark, table) == sorted([*kept, *((key, f"s{key}", "k9") for key in range(7, 12))], key=str)
    assert _version(spark, table) == before + 1


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
def test_merge_with_schema_evolution(spark: SparkSession, table: str) -> None:
    before = _version(spark, table)
    spark.sql(
        "SELECT id, 'new' AS word, concat('k', id % 5) AS k, id * 2 AS more FROM range(6, 11)"
    ).createOrReplaceTempView("wider")
    spark.sql(f"""
        MERGE WITH SCHEMA EVOLUTION INTO {table} t USING wider s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
    """)
    old = [(key, f"w{key}", [f"k{key % 3}", None][key % 3 == 2], None) for key in range(6)]
    new = [(key, "new", f"k{key % 5}", key * 2) for key in range(6, 11)]
    assert _rows(spark, table) == sorted([*old, *new], key=str)
    assert _version(spark, table) == before + 1 + ALTERS
    whole = open_partitioned(_uri(spark, table))
    by_reference = [
        tuple(row.values())
        for opened in whole.open_all(whole.partitions())
        for row in lance.dataset(opened.table.store.uri, version=opened.manifest.version).to_table().to_pylist()
    ]
    assert sorted(by_reference, key=str) == _rows(spark, table)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {} WHERE id < 3",
        "DELETE FROM {} WHERE k = 'a'",
        "UPDATE {} SET k = 'b' WHERE id < 3",
        "MERGE INTO {} t USING (SELECT * FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_partition_without_rows_is_not_listed_until_it_has_some_again(
    spark: SparkSession, root: str, statement: str
) -> None:
    table = f"lance.emptied_{statement.split()[0].lower()}_{len(statement)}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k STRING) PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, 'c')")

    def listed() -> tuple[list[str], list[tuple[str, int]]]:
        shown = [row.partition for row in spark.sql(f"SHOW PARTITIONS {table}").collect()]
        counted = spark.sql(f"SELECT map_values(values)[0], num_rows FROM {table}.partitions").collect()
        return sorted(shown), sorted(tuple(row) for row in counted)

    assert listed() == (["k=a", "k=b", "k=c"], [("a", 2), ("b", 1), ("c", 1)])
    spark.sql(statement.format(table))
    moved = 2 if statement.startswith("UPDATE") else 0
    assert listed() == (["k=b", "k=c"], [("b", 1 + moved), ("c", 1)])
    assert spark.sql(f"SHOW PARTITIONS {table} PARTITION (k = 'a')").collect() == []
    spark.sql(f"INSERT INTO {table} VALUES (9, 'a')")
    assert listed() == (["k=a", "k=b", "k=c"], [("a", 1), ("b", 1 + moved), ("c", 1)])
    assert spark.table(table).where("k = 'a'").collect() == [(9, "a")]
    spark.sql(f"DROP TABLE {table} PURGE")
