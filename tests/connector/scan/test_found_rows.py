"""Rows that the planner process has read, of a search or a small scan, come without a job of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession

from tests.support.connector.metrics import shown
from tests.support.connector.plans import plan
from tests.support.connector.spark_jobs import jobs

INLINE = "spark.sql.lance.inlineBytes"
LOCAL_RESULTS = "spark.sql.lance.localResults.enabled"
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


@pytest.fixture(autouse=True)
def local_results(spark: SparkSession) -> Iterator[None]:
    """The session with the default of the setting for results without a job, afterwards too."""
    yield
    spark.conf.unset(LOCAL_RESULTS)


SCANS = [
    ("SELECT * FROM {t}", 0),
    ("SELECT id, v FROM {t} WHERE id BETWEEN 7 AND 12", 0),
    ("SELECT n AS m, n, s FROM {t} WHERE n IS NOT NULL LIMIT 9", 0),
    ("SELECT id FROM {t} WHERE id < 0", 0),
    ("SELECT id FROM (SELECT * FROM {t} LIMIT 9)", 0),
    ("SELECT id FROM {t} VERSION AS OF 1", 0),
    ("SELECT id + 1 FROM {t}", 1),
    ("SELECT id FROM {t} WHERE id % 7 = round(1.2)", 1),
    ("SELECT id FROM {t} UNION ALL SELECT n FROM {t}", 1),
]


@pytest.mark.parametrize(("query", "most"), SCANS)
def test_small_scans_need_no_job(spark: SparkSession, query: str, most: int) -> None:
    def run() -> tuple[int, list[Row]]:
        return jobs(spark, spark.sql(query.format(t=TABLE)).collect)

    started, rows = run()
    assert started == most
    spark.conf.set(LOCAL_RESULTS, "false")
    assert run() == (1, rows)
    spark.conf.set(INLINE, "0")
    started, in_tasks = run()
    assert sorted(map(repr, in_tasks)) == sorted(map(repr, rows))
    assert started >= bool(rows)


def test_large_scans_have_their_job(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT id FROM {TABLE} WHERE id > 3")
    spark.conf.set(INLINE, "1")
    assert jobs(spark, frame.collect)[0] == 1
    spark.conf.set(LOCAL_RESULTS, "perhaps")
    with pytest.raises(Exception, match=r"localResults\.enabled is 'perhaps'; set it to true or false"):
        spark.sql(f"SELECT id FROM {TABLE}").collect()


def test_small_scans_in_other_shapes(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT id, n FROM {TABLE} WHERE id < 9")
    expected = [(n, n if n % 3 else None) for n in range(9)]
    assert "LanceFoundRows" in plan(frame)
    assert frame.collect() == expected
    assert frame.take(2) == expected[:2]
    assert frame.tail(2) == expected[-2:]
    assert frame.first() == expected[0]
    assert frame.count() == 9
    assert list(frame.toLocalIterator()) == expected
    assert frame.rdd.getNumPartitions() == 1
    assert frame.rdd.map(tuple).collect() == expected
    assert frame.toPandas()["id"].tolist() == list(range(9))
    assert frame.toArrow()["n"].to_pylist() == [n for _, n in expected]
    cached = frame.cache()
    assert cached.where("n = 4").collect() == [(4, 4)]
    cached.unpersist()
    assert frame.join(frame.alias("other"), "id").count() == 9
    assert "LanceFoundRows" not in plan(frame.join(frame.alias("other"), "id"))


def test_statements_read_their_rows_in_tasks(spark: SparkSession) -> None:
    copy = f"{TABLE}_copy"
    spark.sql(f"CREATE TABLE {copy} USING lance AS SELECT id, n FROM {TABLE} WHERE id < 9")
    spark.sql(f"INSERT INTO {copy} SELECT id, n FROM {copy} WHERE id < 4")
    spark.sql(f"DELETE FROM {copy} WHERE id = 1")
    spark.sql(f"UPDATE {copy} SET n = -1 WHERE id = 2")
    rows = spark.sql(f"SELECT id, n FROM {copy}").collect()
    assert sorted(rows, key=lambda row: row["id"]) == [
        (0, None), (0, None), (2, -1), (2, -1), (3, None), (3, None), (4, 4), (5, 5), (6, None), (7, 7), (8, 8)
    ]  # fmt: skip
    spark.sql(f"DROP TABLE {copy} PURGE")


def test_scans_say_in_the_ui_what_was_read(spark: SparkSession) -> None:
    fragments = str(spark.table(f"{TABLE}.fragments").count())
    spark.sql(f"SELECT id FROM {TABLE} WHERE id < 9").collect()
    told = shown(spark)
    assert (told["rows read"], told["batches read"], told["fragments read"]) == ("9", "1", fragments)
