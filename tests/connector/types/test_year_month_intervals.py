"""INTERVAL YEAR TO MONTH: whole months in the table, the same units and values back in Spark."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as st

COLUMNS = (
    "id INT, y INTERVAL YEAR, m INTERVAL MONTH, b INTERVAL YEAR TO MONTH, "
    "s STRUCT<b: INTERVAL YEAR TO MONTH, x: INT>, a ARRAY<INTERVAL YEAR>, p MAP<STRING, INTERVAL MONTH>"
)
ROWS = (
    "SELECT 1 AS id, INTERVAL '2' YEAR AS y, INTERVAL '5' MONTH AS m, INTERVAL '-1-2' YEAR TO MONTH AS b, "
    "named_struct('b', INTERVAL '0-7' YEAR TO MONTH, 'x', 1) AS s, array(INTERVAL '3' YEAR, NULL) AS a, "
    "map('k', INTERVAL '9' MONTH) AS p UNION ALL "
    "SELECT 2, INTERVAL '-3' YEAR, NULL, INTERVAL '10-1' YEAR TO MONTH, NULL, NULL, NULL UNION ALL "
    "SELECT 3, NULL, INTERVAL '30' MONTH, NULL, NULL, array(), map()"
)
TEXTS = "string(y), string(m), string(b), string(s.b), string(a), string(p)"


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", " PARTITIONED BY (id)", " PARTITIONED BY (y)"])
def test_intervals_come_back_from_tables_and_statements(spark: SparkSession, partitioned: str) -> None:
    name = f"lance.year_months{len(partitioned)}{'y' if 'y)' in partitioned else ''}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}){partitioned}")
    declared = spark.table(name).schema
    assert declared["y"].dataType == st.YearMonthIntervalType(0, 0)
    assert declared["m"].dataType == st.YearMonthIntervalType(1, 1)
    assert declared["b"].dataType == st.YearMonthIntervalType(0, 1)
    assert declared["a"].dataType == st.ArrayType(st.YearMonthIntervalType(0, 0))
    spark.sql(f"INSERT INTO {name} {ROWS}")
    spark.sql(ROWS).createOrReplaceTempView("expected")

    def check(query: str) -> None:
        found, expected = (spark.sql(query.format(place)).collect() for place in (name, "expected"))
        assert found == expected, query

    check(f"SELECT id, {TEXTS} FROM {{}} ORDER BY id")
    conditions = (
        "y > INTERVAL '1' YEAR",
        "y = INTERVAL '24' MONTH",
        "m IN (INTERVAL '5' MONTH)",
        "b < INTERVAL '0' YEAR",
    )
    for condition in (
        *conditions,
        "s.b IS NULL",
        "CAST(y AS INT) = 2",
        "y < b",
        "int(m) = 30",
        "y <> INTERVAL '2' YEAR",
    ):
        check(f"SELECT id FROM {{}} WHERE {condition} ORDER BY id")
    check("SELECT string(max(y)), string(min(b)), string(sum(m)), string(avg(y)), count(y), string(sum(y + b)) FROM {}")
    check("SELECT string(y), count(*), string(max(m)) FROM {} GROUP BY y ORDER BY y")
    check("SELECT id, string(y) FROM {} ORDER BY y DESC NULLS LAST LIMIT 2")
    check("SELECT t.id, u.id FROM {0} t JOIN {0} u ON t.y = u.y ORDER BY 1, 2")
    changes = "SELECT id + 1 AS id, y + INTERVAL '1' YEAR AS y, m, b, s, a, p FROM {} WHERE id < 4 AND y IS NOT NULL"
    spark.sql(
        f"MERGE INTO {name} t USING ({changes.format('expected')}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET y = s.y, a = s.a WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"UPDATE {name} SET b = b + INTERVAL '1' MONTH WHERE y = INTERVAL '3' YEAR")
    spark.sql(f"DELETE FROM {name} WHERE m = INTERVAL '30' MONTH")
    rows = spark.sql(f"SELECT id, string(y), string(b), string(a) FROM {name} ORDER BY id").collect()
    year, both = "INTERVAL '{}' YEAR", "INTERVAL '{}' YEAR TO MONTH"
    assert [tuple(row) for row in rows] == [
        (1, year.format(2), both.format("-1-2"), "[INTERVAL '3' YEAR, null]"),
        (2, year.format(3), both.format("10-2"), "[INTERVAL '3' YEAR, null]"),
    ]
    spark.sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
    assert spark.table(f"{name}_copy").schema == declared


def test_intervals_by_path_are_months_for_others(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    spark.sql(ROWS).write.format("lance").save(uri)
    spark.sql(ROWS).write.format("lance").mode("append").save(uri)
    table = lance.dataset(uri).to_table(columns=["id", "y", "b"])
    assert table.schema.field("b").type == pa.int32()
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == [
        (1, 24, -14),
        (1, 24, -14),
        (2, -36, 121),
        (2, -36, 121),
        (3, None, None),
        (3, None, None),
    ]
    copy = str(tmp_path / "copy.lance")
    stream = spark.readStream.format("lance").load(uri).writeStream.format("lance").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c")).start(copy).awaitTermination()
    found = spark.read.format("lance").load(copy)
    assert found.schema["s"].dataType["b"].dataType == st.YearMonthIntervalType()
    assert found.selectExpr(*TEXTS.split(", ")).distinct().count() == 3
