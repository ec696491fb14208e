"""Scans and their LABEL_LIST indexes answer `array_contains` and `arrays_overlap` of a column and constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.plans import plan

ROWS = """
    (1, array(0.0D, double('NaN')), array('a', null), struct(array(1, 2)), array(1.5), array(DATE'2020-01-01')),
    (2, array(-0.0D, null), array('b'), struct(null), array(null), array()),
    (3, array(1.0D), array(), null, array(2.25, 1.5), array(DATE'2020-01-01', DATE'2021-01-01')),
    (4, null, null, null, null, null)
"""
TYPES = {
    "v": "ARRAY<DOUBLE>",
    "s": "ARRAY<STRING>",
    "n": "STRUCT<l: ARRAY<INT>>",
    "d": "ARRAY<DECIMAL(10, 2)>",
    "t": "ARRAY<DATE>",
}
SEARCHED = [
    *[("v", item) for item in ("0.0D", "-0.0D", "double('NaN')", "1", "7.5D")],
    *[("s", item) for item in ("'a'", "'b'", "'z'")],
    *[("n.l", item) for item in ("2", "5", "2L")],
    *[("d", item) for item in ("CAST(1.5 AS DECIMAL(10, 2))", "CAST(9 AS DECIMAL(10, 2))")],
    ("t", "DATE'2020-01-01'"),
]


@pytest.fixture(scope="module")
def parquet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The rows in Parquet files, which Spark filters itself."""
    path = str(tmp_path_factory.mktemp("arrays") / "rows")
    frame = spark.sql(f"SELECT * FROM VALUES {ROWS} AS rows(id, v, s, n, d, t)").repartition(1)
    frame.selectExpr("id", *[f"CAST({name} AS {dtype}) AS {name}" for name, dtype in TYPES.items()]).write.parquet(path)
    return path


@pytest.fixture(scope="module", params=["", "PARTITIONED BY (bucket(2, id))"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest, parquet: str) -> Iterator[str]:
    name = "lance.array_conditions.t"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.array_conditions")
    spark.sql(f"CREATE TABLE {name} (id INT, {', '.join(map(' '.join, TYPES.items()))}) USING lance {request.param}")
    spark.read.parquet(parquet).writeTo(name).append()
    for column in ("v", "s", "n.l"):
        spark.sql(f"CREATE INDEX `by {column}` ON {name} USING label_list ({column})")
    yield name
    spark.sql(f"DROP TABLE {name}")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.slow
@pytest.mark.parametrize(("column", "item"), SEARCHED)
def test_rows_are_those_of_parquet(spark: SparkSession, table: str, parquet: str, column: str, item: str) -> None:
    for condition in (f"array_contains({column}, {item})", f"arrays_overlap({column}, array({item}, {item}))"):
        for text in (condition, f"NOT {condition}", f"{condition} IS NULL", f"{condition} OR id = 2"):
            assert ids(spark.table(table).where(text)) == ids(spark.read.parquet(parquet).where(text)), text


@pytest.mark.parametrize(
    "condition",
    [
        "(array_contains(s, 'b') AND array_contains(v, 1.0D)) IS NOT NULL",
        "(NOT arrays_overlap(s, array('a', 'b')) OR id = 3) = true",
        "CASE WHEN array_contains(n.l, 2) OR id = 3 THEN array_contains(v, 0.0D) ELSE id < 10 END",
        "coalesce(NOT array_contains(s, 'a') AND id > 1, true)",
    ],
)
def test_they_may_be_a_part_of_any_expression(spark: SparkSession, table: str, parquet: str, condition: str) -> None:
    assert ids(spark.table(table).where(condition)) == ids(spark.read.parquet(parquet).where(condition))


def test_scans_take_the_conditions(spark: SparkSession, table: str) -> None:
    for condition, index in {
        "array_contains(s, 'b')": "by s (LABEL_LIST): array_contains(s, 'b')",
        "arrays_overlap(v, array(1.0D, 2.0D))": "by v (LABEL_LIST): array_contains(v, 1.0D)",
        "array_contains(n.l, 2) AND id < 3": "by n.l (LABEL_LIST): array_contains(n.l, 2)",
    }.items():
        shown = plan(spark.table(table).where(condition))
        assert index in shown, condition
        assert "Filter array" not in shown, condition


def test_what_no_scan_takes_stays_an_expression_of_spark(spark: SparkSession, table: str) -> None:
    """Spark compiles its own expressions, and calls functions of catalogs for each row."""
    shown = plan(spark.table(table).where("array_contains(s, 'b') OR size(s) = id"))
    assert re.search(r"Filter \(+array_contains\(s", shown)
    assert "applyfunctionexpression" not in shown.lower()


def test_statements_change_these_rows(spark: SparkSession, table: str, tmp_path: Path) -> None:
    path = f"lance.`{tmp_path / 'copy'}`"
    spark.table(table).write.format("lance").save(str(tmp_path / "copy"))
    spark.sql(f"CREATE INDEX i ON {path} USING label_list (s)")
    spark.sql(f"UPDATE {path} SET id = 20 WHERE array_contains(s, 'b')")
    spark.sql(f"DELETE FROM {path} WHERE arrays_overlap(t, array(DATE'2020-01-01'))")
    assert ids(spark.table(path)) == [4, 20]
