"""Rows that the planner has found come without a job of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.connector.conftest import plan
from tests.connector.test_metrics import shown

TABLE = "lance.db.found_rows"
COUNT = 60
VALUES = np.random.default_rng(3).integers(-3, 4, size=(COUNT, 2)).astype(np.float32)
CALL = f"vector_search('{TABLE}', array(0.5, 0.0), 20)"


@pytest.fixture(scope="module", autouse=True)
def table(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    schema = (
        "id BIGINT, v ARRAY<FLOAT>, s STRUCT<a: INT, t: ARRAY<STRING>>, m MAP<STRING, INT>, d DECIMAL(20, 3), n INT"
    )
    spark.sql(f"CREATE TABLE {TABLE} ({schema}) USING lance TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    rows = [(n, VALUES[n].tolist(), (n, [f"t{n}", None]), {"k": n}, None, n if n % 3 else None) for n in range(COUNT)]
    spark.createDataFrame(rows, schema).writeTo(TABLE).append()


def nearest() -> list[int]:
    distances = np.square(VALUES - np.array([0.5, 0.0], np.float32)).sum(1)
    return [int(number) for number in np.argsort(distances, kind="stable")[:20]]


def jobs(spark: SparkSession, action: Callable[[], Any]) -> tuple[int, Any]:
    """(how many jobs an action has started, its result)."""
    context = spark.sparkContext
    context.setJobGroup("found rows", "a search")
    try:
        before = len(context.statusTracker().getJobIdsForGroup("found rows"))
        result = action()
        context._jsc.sc().listenerBus().waitUntilEmpty()
        return len(context.statusTracker().getJobIdsForGroup("found rows")) - before, result
    finally:
        context._jsc.clearJobGroup()


@pytest.mark.parametrize("columns", ["id", "id, _distance", "_distance AS far, id, id AS again", "*"])
@pytest.mark.parametrize("order", ["", " ORDER BY _distance"])
def test_rows_need_no_job(spark: SparkSession, columns: str, order: str) -> None:
    frame = spark.sql(f"SELECT {columns} FROM {CALL}{order}")
    count, rows = jobs(spark, frame.collect)
    assert [row["id"] for row in rows] == nearest()
    assert count == 0 or "AS" in columns or columns == "id", "a projection after a sort is a job of Spark"
    assert count == 0 or order
    assert " Sort " not in plan(frame)


def test_rows_are_those_of_the_table(spark: SparkSession) -> None:
    found = {row["id"]: row for row in spark.sql(f"SELECT id, v, s, m, d, n FROM {CALL}").collect()}
    ids = ", ".join(map(str, nearest()))
    stored = spark.sql(f"SELECT id, v, s, m, d, n FROM {TABLE} WHERE id IN ({ids})").collect()
    assert found == {row["id"]: row for row in stored}


def test_spark_goes_on_with_the_rows(spark: SparkSession) -> None:
    near = nearest()
    assert spark.sql(f"SELECT count(*) FROM {CALL}").collect() == [(20,)]
    filtered = spark.sql(f"SELECT id + 1 AS next FROM {CALL} WHERE n IS NULL").collect()
    assert [row["next"] for row in filtered] == [number + 1 for number in near if number % 3 == 0]
    assert spark.sql(f"SELECT id FROM {CALL} ORDER BY _distance DESC, id").collect() == sorted(
        spark.sql(f"SELECT id FROM {CALL}").collect(),
        key=lambda row: (-np.square(VALUES[row["id"]] - np.array([0.5, 0.0])).sum(), row["id"]),
    )
    assert [row["id"] for row in spark.sql(f"SELECT id FROM {CALL}").take(3)] == near[:3]
    assert [row["id"] for row in spark.sql(f"SELECT id FROM {CALL}").tail(3)] == near[-3:]
    both = spark.sql(
        f"SELECT a.id FROM {CALL} a JOIN {CALL} b ON a.id = b.id UNION ALL SELECT id FROM {CALL}"
    ).collect()
    assert sorted(row["id"] for row in both) == sorted(near * 2)
    cached = spark.sql(f"SELECT * FROM {CALL}").cache()
    assert [row["id"] for row in cached.collect()] == near
    cached.unpersist()
    assert spark.sql(f"SELECT id FROM {CALL}").toPandas()["id"].tolist() == near


def test_plans_and_the_ui_say_what_was_read(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT id FROM {CALL}")
    text = f"lance vector_search {TABLE} columns=[id] index=none compared={COUNT}"
    assert text in plan(frame)
    assert text in spark.sql(f"EXPLAIN FORMATTED SELECT id FROM {CALL}").collect()[0][0]
    frame.collect()
    told = shown(spark)
    assert told["rows of the table compared"] == str(COUNT)
    assert told["rows read"] == "20"
