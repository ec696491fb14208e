"""Scans of one query that ask the planner the same share its answer, and those of another query ask again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.runtime_filters import load
from tests.support.connector.scan_requests import sent

INLINE = "spark.sql.lance.inlineBytes"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"k": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]}), uri)
    load(spark, uri).createOrReplaceTempView("t")
    return uri


def _plans(frame: DataFrame) -> list[Any]:
    """What Python answered to each scan of a plan."""
    found: list[Any] = []

    def visit(tree: Any) -> None:
        if tree.getClass().getSimpleName() == "DataSourceV2ScanRelation":
            method = tree.scan().getClass().getDeclaredMethod("plan", None)
            method.setAccessible(True)
            found.append(method.invoke(tree.scan(), None))
        for place in range(tree.children().size()):
            visit(tree.children().apply(place))

    visit(frame._jdf.queryExecution().optimizedPlan())
    return found


@pytest.mark.parametrize("inline", ["0", "1048576"])
def test_equal_scans_of_a_query_share_a_plan(spark: SparkSession, table: str, inline: str) -> None:
    spark.conf.set(INLINE, inline)
    text = "SELECT a.k FROM t a JOIN t b ON a.k = b.k WHERE a.v < 'd' AND b.v < 'd'"
    frame = spark.sql(text)
    one, other = _plans(frame)
    assert one.equals(other)
    assert not _plans(spark.sql(text))[0].equals(one)
    assert sorted(row.k for row in frame.collect()) == [1, 2, 3]


def test_scans_of_other_columns_or_rows_have_plans_of_their_own(spark: SparkSession, table: str) -> None:
    frame = spark.sql("SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k WHERE a.k < 4 AND b.k < 3 ORDER BY a.k")
    one, other = _plans(frame)
    assert not one.equals(other)
    assert [tuple(row) for row in frame.collect()] == [(1, "a"), (2, "b")]


@pytest.mark.slow
def test_a_later_query_sees_what_was_written_meanwhile(spark: SparkSession, table: str) -> None:
    text = f"SELECT a.k FROM lance.`{table}` a JOIN lance.`{table}` b ON a.k = b.k WHERE a.v < 'z'"
    assert spark.sql(text).count() == 4
    spark.createDataFrame([(5, "e")], "k bigint, v string").write.format("lance").mode("append").save(table)
    assert spark.sql(text).count() == 5


@pytest.mark.parametrize(
    ("query", "requests"),
    [
        ("SELECT k, v FROM t", {"scan.plan"}),
        ("SELECT v FROM t WHERE k = 3", {"scan.push", "scan.plan"}),
        ("SELECT v FROM t WHERE k > 1 LIMIT 2", {"scan.push", "scan.plan"}),
        ("SELECT v FROM t WHERE k > 1 ORDER BY k LIMIT 2", {"scan.push", "scan.plan"}),
        ("SELECT v FROM t ORDER BY k DESC LIMIT 2", {"scan.plan"}),
        ("SELECT v FROM t LIMIT 2 OFFSET 1", {"scan.offset", "scan.plan"}),
        ("SELECT v FROM t WHERE k > 1 LIMIT 1 OFFSET 1", {"scan.push", "scan.plan"}),
        ("SELECT count(*) FROM t", {"scan.aggregate"}),
        ("SELECT max(k) FROM t", {"scan.aggregate"}),
        ("SELECT max(k), sum(k) FROM t WHERE v < 'd'", {"scan.push", "scan.aggregate"}),
        ("SELECT v, count(*) FROM t WHERE k > 1 GROUP BY v", {"scan.push", "scan.aggregate"}),
    ],
)
def test_a_scan_is_decided_in_two_requests(spark: SparkSession, table: str, query: str, requests: set[str]) -> None:
    before = sent(spark)
    spark.sql(query).collect()
    scans = {op: count for op, count in (sent(spark) - before).items() if op.startswith("scan.")}
    assert scans == dict.fromkeys(requests, 1)
